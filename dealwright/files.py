"""Files and folders written beside their place and renamed, so that a reader never meets half of one."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from dealwright.errors import DealwrightError, first_line

if TYPE_CHECKING:
    import polars as pl


@contextmanager
def replacing(path: str | Path, unless_there: bool = False) -> Iterator[Path]:
    """Yield a path beside the given one and rename it into place when the block ends without an error.

    With `unless_there` a file that another process has put there meanwhile stays.
    Raises DealwrightError, and leaves what was there, where the disk is full or may not be written to.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    with _writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_left_by_killed(target)
        try:
            yield beside
            if unless_there:
                with suppress(FileExistsError):
                    os.link(beside, target)
            else:
                os.replace(beside, target)
        finally:
            beside.unlink(missing_ok=True)


def _remove_left_by_killed(target: Path) -> None:
    """Remove what processes that are no more left half-written beside a file."""
    for left in target.parent.glob(f".{escape(target.name)}.*"):
        process = left.name.rpartition(".")[2].partition("-")[0]  # SQLite keeps a journal beside, as `...-journal`
        if process.isdecimal() and not psutil.pid_exists(int(process)):
            left.unlink(missing_ok=True)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside the given path, and put it there whole when the block ends without an error.

    Raises DealwrightError, and leaves what was there, where the disk is full or may not be written to.
    """
    beside = path.with_name(f".{path.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    with _writing(path):
        beside.mkdir(parents=True)
        try:
            yield beside
            shutil.rmtree(path, ignore_errors=True)
            beside.rename(path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise unwritable(target, error) from error


def unwritable(target: Path, error: Exception) -> DealwrightError:
    """Return the one line that says why a file or a folder could not be written."""
    why = error.strerror if isinstance(error, OSError) and error.strerror else first_line(error)
    return DealwrightError(f"cannot write {target}: {why}; what was there is kept, so make room and run it again")


def read_table(
    path: str | Path,
    where: "pl.Expr | None" = None,
    mend: str = "run `dvc repro` first",
    columns: Sequence[str] | None = None,
    slice: tuple[int, int | None] = (0, None),
) -> "pl.DataFrame":
    """Read the rows of a Parquet file that fit, or a slice of them; DealwrightError where it is missing or damaged."""
    import polars as pl
    from polars.exceptions import PolarsError

    try:
        rows = pl.scan_parquet(path)
        if where is not None:
            rows = rows.filter(where)
        if columns is not None:
            rows = rows.select(columns)
        return rows.slice(*slice).collect()
    except (OSError, PolarsError) as error:
        problem = "is missing" if not Path(path).exists() else "is not a readable Parquet file of this pipeline"
        raise DealwrightError(f"{path} {problem}; {mend}") from error


def read_json(path: str | Path, mend: str = "run `dvc repro` first") -> Any:
    """Read a JSON file; raises DealwrightError where it is missing or broken, with what to do about it."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
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
    from polars.exceptions import PolarsError

    with replacing(path) as beside:
        try:
            frame.write_parquet(beside)
        except PolarsError as error:
            raise unwritable(Path(path), error) from error


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
