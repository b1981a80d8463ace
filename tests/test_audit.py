"""What `make lint` says of the lock's packages."""

import json
from pathlib import Path

import pytest

from tests.audit import judge, main


def answer(*packages: object) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def vulnerable(*fixes: str) -> dict[str, object]:
    return {"name": "lamp", "version": "1.0", "vulns": [{"id": "CVE-2026-1", "fix_versions": fixes, "aliases": []}]}


def test_a_vulnerability_that_a_release_mends_fails() -> None:
    assert judge(answer(vulnerable("1.1", "2.0"), {"name": "desk", "version": "2", "vulns": []}), "") == (
        [
            "requirements/lock.txt: 2 of 2 packages could be audited",
            "lamp 1.0: CVE-2026-1, mended in 1.1, 2.0",
        ],
        True,
    )


def test_a_vulnerability_that_nobody_has_mended_is_told_and_does_not_fail() -> None:
    lines, mendable = judge(answer(vulnerable()), "")
    assert (lines[1], mendable) == ("lamp 1.0: CVE-2026-1, mended in no release yet", False)


def test_packages_that_the_index_does_not_know_are_not_counted_as_audited() -> None:
    skipped = {"name": "lamp", "skip_reason": "Dependency not found on PyPI and could not be audited: lamp (1.0)"}
    assert judge(answer(skipped), "No known vulnerabilities found") == (
        ["requirements/lock.txt: 0 of 1 packages could be audited"],
        False,
    )


def test_without_an_answer_nothing_fails_and_the_reason_is_told() -> None:
    assert judge("", "Traceback\nConnectionError: no route\n") == (
        ["requirements/lock.txt was not audited: ConnectionError: no route"],
        False,
    )


def test_without_the_tool_nothing_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(str(tmp_path / "pip-audit")) == 0
    assert "was not audited: there is no" in capsys.readouterr().out
