"""A git clone of the project to train in, so that a retraining touches nothing of the working tree.

The clone is kept from run to run: its DVC outputs are known there, and a training that was killed goes on from its
last whole checkpoint.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from dealwright.errors import DealwrightError
from dealwright.files import replacing_folder, write_text
from dealwright.params import load_params
from dealwright.profiles import PARAMS, apply_profile, set_params
from dealwright.tracking.connection import tracking_uri

CLONE = Path("data/work/retrain")
REPORTS = Path("reports")
SQLITE = "sqlite:///"


class CloneError(DealwrightError):
    """A project that cannot be cloned; the message says what git said."""


def refresh_clone(project: Path, clone: Path, profile: str | None, overrides: Mapping[str, Any]) -> list[str]:
    """Bring a clone to the project's commit and to its parameters as they stand, with a profile and overrides.

    Returns the project's tracked files that differ from the commit: of those only params.yaml is taken. What git
    ignores stays in the clone.
    """
    if not clone.is_dir():
        beside = clone.with_name(f".{clone.name}.partial")
        shutil.rmtree(beside, ignore_errors=True)  # what a kill left, into which git would not clone
        _git(project, "clone", "--quiet", "--no-checkout", str(project), str(beside))
        beside.rename(clone)
    _git(clone, "fetch", "--quiet", str(project), "HEAD")
    _git(clone, "checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
    _git(clone, "clean", "--quiet", "--force", "-d")
    write_text(clone / PARAMS, (project / PARAMS).read_text(encoding="utf-8"))
    if profile is not None:
        apply_profile(profile, clone / PARAMS, clone / "profiles")
    set_params({**_inputs(project, clone), **overrides}, clone / PARAMS, "the flow's parameters")
    write_text(clone / ".dvc/config.local", f"[cache]\n    dir = {_cache(project)}\n")
    changed = _git(project, "status", "--porcelain", "--untracked-files=no").splitlines()
    return [line[3:] for line in changed if line[3:] != str(PARAMS)]


@contextmanager
def entered(folder: Path) -> Iterator[None]:
    """Work in a folder, with MLflow where it was before."""
    uri = tracking_uri()
    if uri.startswith(SQLITE):
        uri = f"{SQLITE}{Path(uri.removeprefix(SQLITE)).absolute()}"
    before = os.environ.get("MLFLOW_TRACKING_URI")
    os.environ["MLFLOW_TRACKING_URI"] = uri
    try:
        with chdir(folder):
            yield
    finally:
        if before is None:
            del os.environ["MLFLOW_TRACKING_URI"]
        else:
            os.environ["MLFLOW_TRACKING_URI"] = before


def keep_reports(project: Path, version: int) -> str:
    """Copy the working folder's reports into the project's, where no later retraining replaces them.

    Returns their folder there, as in `retrained/version-7`.
    """
    kept = f"retrained/version-{version}"
    with replacing_folder(project / REPORTS / kept) as beside:
        shutil.copytree(REPORTS, beside, dirs_exist_ok=True)
    return kept


def _inputs(project: Path, clone: Path) -> dict[str, Any]:
    """Return the inputs that git does not bring, by their places in the project.

    The catalogue is always read from there: what is new in it need not have been committed.
    """
    params = load_params(project / PARAMS)
    inputs = {"catalogue.path": str(project / params.catalogue.path)}
    if not (clone / params.warmstart.base).exists():
        inputs["warmstart.base"] = str(project / params.warmstart.base)
    return inputs


def _cache(project: Path) -> str:
    from dvc.repo import Repo

    with Repo(str(project)) as repo:
        return str(repo.cache.local_cache_dir)


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise CloneError(f"cannot run git: {error.strerror}; a retraining works in a clone of the project") from error
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise CloneError(f"git {arguments[0]} in {folder}: {said}; a retraining works in a clone of the project")
    return done.stdout
