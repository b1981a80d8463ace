"""A Prefect server that is not there is one line, before the flow begins."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)
from flows.server import ServerError, require_server
from tests.servers import answering

ROOT = Path(__file__).parents[1]
MEND = r"; start one with `make ui`, name another in PREFECT_API_URL, or unset it for a temporary one"


@contextmanager
def address(url: str) -> Iterator[None]:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: url}):
        yield


def test_where_nobody_listens_the_line_says_what_to_do() -> None:
    with address("http://127.0.0.1:9/api"), pytest.raises(ServerError) as stop:
        require_server()
    assert re.fullmatch(
        r"no Prefect server answers at http://127\.0\.0\.1:9/api \(.*Connection refused\)" + MEND, str(stop.value)
    )


def test_a_server_that_fails_is_one_line() -> None:
    with answering(502) as url, address(f"{url}/api"), pytest.raises(ServerError, match="502 Bad Gateway") as stop:
        require_server()
    assert "\n" not in str(stop.value)


def test_a_password_in_the_address_is_not_printed() -> None:
    with address("http://user:secret@127.0.0.1:9/api"), pytest.raises(ServerError) as stop:
        require_server()
    assert "secret" not in str(stop.value) and "at http://127.0.0.1:9/api" in str(stop.value)


def test_a_server_that_answers_and_a_temporary_one_pass() -> None:
    with answering(200) as url, address(f"{url}/api"):
        require_server()
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        require_server()


def test_the_flow_without_its_server_is_one_line_and_touches_nothing(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "flows.reproduce"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_API_URL": "http://127.0.0.1:9/api"},
        capture_output=True,
        text=True,
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.startswith("error: no Prefect server answers at http://127.0.0.1:9/api (")
    assert run.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
