"""What a kill cut off while DVC wrote it, which it does in place, is found before work starts."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from dvc.dvcfile import Lockfile
from dvc.exceptions import DvcException
from dvc.fs import localfs
from dvc.repo import Repo
from dvc.rwlock import RWLockFileCorruptedError, rwlock

from dealwright.cli import main
from dealwright.lock import LockError, read_stages
from tests.standin import ROOT

LINE = (
    "error: dvc.lock cannot be read, as after a kill while DVC wrote it; `git checkout dvc.lock`, or remove it, and "
    "run this again: the stages that it does not name run again\n"
)


DAMAGES = ["an impossible date", "brackets", "a key twice"]


def readable(repo: Repo) -> bool:
    try:
        Lockfile(repo, "dvc.lock").load()
    except DvcException:
        return False
    return True


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("params.yaml", "profiles", "data/catalogue", "data/base"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)


@pytest.mark.usefixtures("project")
def test_a_lock_is_refused_exactly_where_dvc_cannot_read_it() -> None:
    whole = (ROOT / "dvc.lock").read_bytes()
    cuts = [0, 15, 24, 40, 1000, 6112, 20_000, *(whole.index(b"nfiles") + at for at in (2, 6, 7, 8)), len(whole)]
    outcomes = set()
    with Repo(uninitialized=True) as repo:
        for cut in cuts:
            Path("dvc.lock").write_bytes(whole[:cut])
            result = CliRunner().invoke(main, ["check"])
            assert (result.exit_code == 0) == readable(repo), cut
            outcomes.add(result.stderr)
    assert outcomes == {"", LINE}


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("content", ["stages: 2026-13-45", "a: " + "[" * 5000, "stages: {}\nstages: {}"], ids=DAMAGES)
def test_a_lock_that_no_reader_of_yaml_can_read_is_refused(content: str) -> None:
    Path("dvc.lock").write_text(content)
    result = CliRunner().invoke(main, ["check"])
    assert (result.exit_code, result.stderr) == (1, LINE)
    with pytest.raises(LockError, match=r"dvc\.lock is missing or unreadable; `dealwright check` says"):
        read_stages()


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("content", "stays"),
    [("", False), ('{"write": {"data/mo', False), ('{"write": {}, "read": {}}', True)],
    ids=["empty", "half", "whole"],
)
def test_a_list_of_claims_that_was_cut_off_no_longer_keeps_dvc_from_running(content: str, stays: bool) -> None:
    with Repo.init(no_scm=True) as repo:
        claims = Path(repo.tmp_dir) / "rwlock"
        claims.write_text(content)

        def claim() -> None:
            with rwlock(repo.tmp_dir, localfs, "a test", [], ["data/models"], False):
                pass

        if not stays:
            with pytest.raises(RWLockFileCorruptedError):
                claim()
        assert CliRunner().invoke(main, ["check"]).exit_code == 0
        assert claims.exists() == stays
        claim()
