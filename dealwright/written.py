"""What the pipeline wrote, held to its shape when it is read again: a file may be damaged, or edited by hand."""

import csv
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, TypeVar

import polars as pl
from polars.exceptions import PolarsError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dealwright.agents import Ladder
from dealwright.agents.buyers import Reading
from dealwright.errors import DealwrightError
from dealwright.files import read_json

RUNGS = 6  # of a fitted ladder
_MEND = "run `dvc repro` again"
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 60

Kind = TypeVar("Kind", bound=BaseModel)
Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Shape(BaseModel):
    """Only what its readers need; a file may say more."""

    model_config = ConfigDict(strict=True)


class _Estimate(_Shape):
    value: Finite | None
    low: Finite | None
    high: Finite | None


class _Rewards(_Shape):
    reward: _Estimate | None = None


class _Primary(_Shape):
    buyer: str
    other: str
    seller: str


class _Evaluation(_Shape):
    best_script: str
    products: int
    primary: _Primary
    buyers: dict[str, dict[str, _Rewards]]
    bounds: dict[str, dict[str, _Rewards]] = {}
    paired: dict[str, dict[str, dict[str, _Estimate]]] = {}


class _Compared(_Shape):
    step: Annotated[int, Field(ge=0)]


class _Selection(_Shape):
    selected: Annotated[int, Field(ge=0)]
    checkpoints: Annotated[list[_Compared], Field(min_length=1)]


class _Fitted(_Shape):
    rungs: Annotated[list[Finite], Field(min_length=RUNGS, max_length=RUNGS)]
    reading: Reading
    thresholds: (
        Annotated[list[Finite], Field(max_length=0)]
        | Annotated[list[Finite], Field(min_length=RUNGS, max_length=RUNGS)]
    )
    ask_share: Finite | None

    def ladder(self) -> Ladder:
        return Ladder(tuple(self.rungs), self.reading, tuple(self.thresholds), ask_share=self.ask_share)


class _Scripts(_Shape):
    best_script: str
    fitted: dict[str, _Fitted]


@dataclass(frozen=True, slots=True)
class Scripts:
    """The fitted ladders by name, and which script is best on train."""

    fitted: Mapping[str, Ladder]
    best_script: str


def read_evaluation(path: str | Path = "reports/evaluation.json") -> dict[str, Any]:
    """Read the figures of the evaluation, whole; raises DealwrightError where the results table could not be made."""
    evaluation: dict[str, Any] = read_json(path, "run `dvc repro`, or wait for the one that is under way")
    _held_to(_Evaluation, evaluation, path)
    return evaluation


def read_selection(path: str | Path = "reports/selection.json") -> dict[str, Any]:
    """Read which checkpoint was selected and how the checkpoints compared."""
    selection: dict[str, Any] = read_json(path)
    found = _held_to(_Selection, selection, path)
    compared = [entry.step for entry in found.checkpoints]
    if found.selected not in compared:
        raise not_as_written(path, f"selected to be one of the steps {', '.join(map(str, compared))}", found.selected)
    return selection


def read_scripts(path: str | Path = "reports/scripts.json") -> Scripts:
    """Read the ladders that the rollouts stage fitted."""
    scripts = _held_to(_Scripts, read_json(path), path)
    return Scripts({name: fitted.ladder() for name, fitted in scripts.fitted.items()}, scripts.best_script)


def read_curves(path: str | Path = "reports/training.csv") -> list[tuple[int, dict[str, float]]]:
    """Read the metrics of every training step."""
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row] or [[]]
    except OSError as error:
        raise DealwrightError(f"{path} is missing or unreadable; run `dvc repro` first") from error
    except (UnicodeError, csv.Error) as error:
        raise DealwrightError(f"{path} is not as the pipeline writes it: {error}; {_MEND}") from error
    if len(set(header)) < len(header) or not {"step", "reward"} <= set(header):
        raise not_as_written(path, "one header line with the columns step and reward", ",".join(header))
    if not rows:
        raise DealwrightError(f"{path} has no rows; run `dvc repro -f train`")
    return [_point(path, header, row) for row in rows]


def _point(path: str | Path, header: list[str], row: list[str]) -> tuple[int, dict[str, float]]:
    if len(row) != len(header):
        raise not_as_written(path, f"{len(header)} values in every row", ",".join(row))
    values = dict(zip(header, row, strict=True))
    try:
        return int(values.pop("step")), {name: float(value) for name, value in values.items() if value}
    except ValueError as error:
        raise not_as_written(path, "a number for every value, a whole one for the step", ",".join(row)) from error


def require_columns(
    path: str | Path,
    schema: Mapping[str, Any],
    nullable: Collection[str] = (),
    mend: str = _MEND,
    table: pl.LazyFrame | None = None,
) -> None:
    """Raise DealwrightError where a table lacks one of the columns, or a value where all must have one.

    `table` is what stands at the path where that is more than one file. A file that is missing or no Parquet is left
    to whoever reads it, who says so.
    """
    table = pl.scan_parquet(path) if table is None else table
    try:
        found = table.collect_schema()
        for name, kind in schema.items():
            if name not in found:
                raise not_as_written(path, f"the column {name}", ", ".join(found), mend)
            if not _fits(found[name], kind):
                raise not_as_written(path, f"{kind} in the column {name}", found[name], mend)
            # One column at a time, as a table may be larger than memory.
            if name not in nullable and (empty := table.select(pl.col(name).null_count()).collect().item()):
                raise not_as_written(path, f"a value in every row of the column {name}", f"{empty} rows without", mend)
    except (OSError, PolarsError):
        return


def _fits(found: pl.DataType, kind: Any) -> bool:
    """Whether the values of one type can be read as those of another; a column without any has no type."""
    if kind.is_float():
        return found.is_numeric() or found == pl.Null
    if kind.is_integer():
        return found.is_integer() or found == pl.Null
    return bool(found in (kind, pl.Null) or (kind == pl.String and found in (pl.Categorical, pl.Enum)))


def not_as_written(path: str | Path, expected: str, got: object, mend: str = _MEND) -> DealwrightError:
    """Return the one line that says how a file differs from what the pipeline writes."""
    came = str(got)[:200] or "nothing"
    return DealwrightError(f"{path} is not as the pipeline writes it: expected {expected}, got {came}; {mend}")


def _held_to(shape: type[Kind], value: Any, path: str | Path) -> Kind:
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        if first["type"] == "missing":
            expected, got = f"the key {_place(first['loc'])}", "none"
        elif not first["loc"]:
            expected, got = "an object", _SHORT.repr(value)
        else:
            wanted = first["msg"].replace("Input should be ", "")
            expected, got = f"{_place(first['loc'])} to be {wanted}", _SHORT.repr(first["input"])
        raise not_as_written(path, expected, got) from error


def _place(keys: tuple[int | str, ...]) -> str:
    return ".".join(str(key) for key in keys)
