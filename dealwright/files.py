"""Files and folders written beside their place and renamed, so that a reader never meets half of one."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    import polars as pl


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Yield a path beside the given one and rename it into place when the block ends without an error."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        yield beside
        os.replace(beside, target)
    finally:
        beside.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside the given path, and put it there whole when the block ends without an error."""
    beside = path.with_name(f".{path.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        shutil.rmtree(path, ignore_errors=True)
        beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def read_json(path: str | Path, mend: str = "run `dvc repro` first") -> Any:
    """Read a JSON file; raises DealwrightError where it is missing or broken, with what to do about it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DealwrightError(f"{path} is missing or unreadable; {mend}") from error


def write_text(path: str | Path, text: str) -> None:
    """Write a text file in UTF-8."""
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON with sorted keys and floats rounded to six digits, so that equal results are equal files."""
    write_text(path, json.dumps(_rounded(value), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n")


def write_parquet(path: str | Path, frame: "pl.DataFrame") -> None:
    """Write a table as Parquet."""
    with replacing(path) as beside:
        frame.write_parquet(beside)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
