"""What dvc.lock records, read without DVC, which would take a second or wait for a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dealwright.errors import DealwrightError

LOCK = Path("dvc.lock")
UNREADABLE = (OSError, ValueError, RecursionError, YAMLError)  # an impossible date and a wrong shape are ValueErrors


class LockError(DealwrightError):
    """A dvc.lock that cannot be read."""


class File(BaseModel):
    """An input or an output of a stage, and its hash where DVC has one."""

    path: str
    md5: str | None = None


class Stage(BaseModel):
    """What a stage read and made when it last ran."""

    deps: list[File] = []
    outs: list[File] = []
    params: dict[str, dict[str, Any]] = {}


class _Lock(BaseModel):
    stages: dict[str, Stage]


def read_stages() -> dict[str, Stage]:
    """Return the stages by name; raises LockError where the file cannot be read."""
    try:
        return _Lock.model_validate(read_yaml(LOCK)).stages
    except UNREADABLE as error:
        raise LockError(f"{LOCK} is missing or unreadable; `dealwright check` says how to mend it") from error


def output_hashes(stages: Mapping[str, Stage]) -> dict[str, str | None]:
    """Return the hash that is recorded for every output, by its path."""
    return {out.path: out.md5 for stage in stages.values() for out in stage.outs}


def read_yaml(path: Path) -> Any:
    """Read a file as DVC does: to PyYAML, 1e-4 is no number."""
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))
