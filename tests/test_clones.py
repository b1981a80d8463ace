"""The clone that a retraining works in: the commit, the parameters as they stand, the project's inputs and cache."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dealwright.clones import CloneError, entered, keep_reports, refresh_clone
from dealwright.params import load_params
from dealwright.tracking.connection import tracking_uri

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with one commit: parameters, profiles, a file of code and a DVC repository."""
    folder = tmp_path / "my project"
    folder.mkdir()
    shutil.copytree(ROOT / "profiles", folder / "profiles")
    shutil.copy(ROOT / "params.yaml", folder)
    (folder / "code.py").write_text("one\n")
    (folder / ".gitignore").write_text("/data/\n")
    git(folder, "init", "-q")
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=folder, check=True)
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True)


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "x")


def test_the_clone_has_the_commit_with_the_parameters_as_they_stand(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    params = project / "params.yaml"
    params.write_text(params.read_text().replace("minimum_rows: 20", "minimum_rows: 21"))
    before = params.read_text()
    (project / "code.py").write_text("two\n")
    left = refresh_clone(project, clone, "smoke", {"catalogue.source": "csv"})
    assert left == ["code.py"]
    assert (clone / "code.py").read_text() == "one\n"
    used = load_params(clone / "params.yaml")
    assert (used.validate_.minimum_rows, used.train.steps, used.catalogue.source) == (21, 2, "csv")
    assert used.catalogue.path == f"{project}/data/catalogue"
    assert params.read_text() == before


def test_what_a_killed_cloning_left_is_in_nobody_s_way(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    (tmp_path / ".clone.partial/.git").mkdir(parents=True)
    (tmp_path / ".clone.partial/.git/config").write_text("half")
    refresh_clone(project, clone, None, {})
    assert (clone / "code.py").read_text() == "one\n"
    assert not (tmp_path / ".clone.partial").exists()


def test_a_clone_is_refreshed_and_keeps_what_git_ignores(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    refresh_clone(project, clone, None, {})
    (clone / "data/work").mkdir(parents=True)
    (clone / "data/work/checkpoint").write_text("kept")
    (clone / "stray.txt").write_text("gone")
    (clone / "code.py").write_text("changed in the clone")
    (project / "code.py").write_text("two\n")
    commit(project)
    assert refresh_clone(project, clone, None, {}) == []
    assert (clone / "code.py").read_text() == "two\n"
    assert (clone / "data/work/checkpoint").read_text() == "kept"
    assert not (clone / "stray.txt").exists()


def test_the_clone_shares_dvcs_cache_and_takes_a_base_model_that_git_has_not(project: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    refresh_clone(project, clone, None, {})
    assert f"dir = {project}/.dvc/cache\n" in (clone / ".dvc/config.local").read_text()
    assert load_params(clone / "params.yaml").warmstart.base == f"{project}/data/base"


def test_a_folder_outside_git_is_one_error_and_leaves_nothing(tmp_path: Path) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    with pytest.raises(CloneError, match=r"git clone in .*: .*; a retraining works in a clone of the project"):
        refresh_clone(tmp_path, tmp_path / "clone", None, {})
    assert not (tmp_path / "clone").exists()


def test_mlflow_stays_where_it_was_while_a_clone_is_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path)
    for given in (None, "sqlite:///mlflow.db"):
        if given:
            monkeypatch.setenv("MLFLOW_TRACKING_URI", given)
        else:
            monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
        with entered(Path("clone")):
            assert Path.cwd() == tmp_path / "clone"
            assert tracking_uri() == f"sqlite:///{tmp_path}/mlflow.db"
        assert Path.cwd() == tmp_path
        assert os.environ.get("MLFLOW_TRACKING_URI") == given


def test_the_reports_of_a_clone_are_kept_in_the_project_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = tmp_path / "clone"
    (clone / "reports/games").mkdir(parents=True)
    (clone / "reports/index.html").write_text("a page")
    (clone / "reports/games/1.js").write_text("games")
    monkeypatch.chdir(clone)
    assert keep_reports(tmp_path, 7) == "retrained/version-7"
    kept = tmp_path / "reports/retrained/version-7"
    (kept / "games/stale.js").write_text("of an earlier run")
    assert keep_reports(tmp_path, 7) == "retrained/version-7"
    assert sorted(path.name for path in kept.rglob("*")) == ["1.js", "games", "index.html"]
