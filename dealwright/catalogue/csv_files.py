"""CSV files as lazy plans of text columns; the separator is the one that parts the header most."""

import csv
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

import polars as pl
from polars.exceptions import ComputeError

from dealwright.catalogue.fields import SourceError

_LONGEST_RECORD = 500  # lines; an open quote that goes on for longer is a stray one


def header(file: Path) -> list[str]:
    """Read the names of the columns."""
    return [name.strip() for name in _dialect(file)[1]]


def plan(file: Path, names: Mapping[str, str]) -> pl.LazyFrame:
    """Plan the declared columns; a row that is damaged (too many fields, unpaired quotes, not UTF-8) is marked."""
    separator, raw_columns = _dialect(file)
    columns = [name.strip() for name in raw_columns]
    twice = [name for name in names.values() if columns.count(name) > 1]
    if twice:
        raise SourceError(f"{file}: expected one column {twice[0]!r}, found {columns.count(twice[0])}")
    used = [columns.index(name) for name in names.values() if name in columns]
    rows = _rows(file, separator, len(columns))
    return rows.select(
        "row",
        pl.when(pl.col("unpaired"))
        .then(pl.lit("the quotes of the line do not pair"))
        .when(pl.col(str(len(columns))).is_not_null())
        .then(pl.lit("the row has more fields than the header"))
        .when(pl.any_horizontal(pl.col(map(str, used)).str.contains("\ufffd", literal=True)))
        .then(pl.lit("the row is not in UTF-8; save the file as UTF-8"))
        .alias("broken"),
        **{
            field: pl.col(str(columns.index(name))) if name in columns else pl.lit(None, dtype=pl.String)
            for field, name in names.items()
        },
    )


def _rows(file: Path, separator: str, width: int) -> pl.LazyFrame:
    """Plan all rows below the header, with one column more than the header has, numbered from 0."""
    schema = {str(index): pl.String for index in range(width + 1)}
    plan = pl.scan_csv(
        file,
        glob=False,  # a file's name may hold what elsewhere stands for other names
        separator=separator,
        has_header=False,
        schema=schema,
        encoding="utf8-lossy",
        extra_columns="ignore",
        missing_columns="insert",
        row_index_name="row",
    ).with_columns(unpaired=pl.lit(False))
    try:
        plan.select(pl.all().null_count()).collect(engine="streaming")
    except ComputeError:
        # One stray quote stops the fast reader, so such a file is read line by line.
        plan = pl.LazyFrame(
            list(_records(file, separator, width + 1)),
            schema={"unpaired": pl.Boolean, **schema},
            orient="row",
        ).with_row_index("row")
    return plan.filter(pl.col("row") > 0)


def _records(file: Path, separator: str, width: int) -> Iterator[tuple[bool | str | None, ...]]:
    """Yield each record as whether its quotes are unpaired, and its fields; a stray quote costs only its own line."""
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = list(stream)
    at = 0
    while at < len(lines):
        reader = csv.reader(islice(lines, at, at + _LONGEST_RECORD), delimiter=separator, strict=True)
        try:
            fields = [field or None for field in next(reader)]
        except csv.Error:
            yield True, lines[at].strip(), *[None] * (width - 1)
            at += 1
            continue
        yield False, *fields[:width], *[None] * (width - len(fields))
        at += reader.line_num


def _dialect(file: Path) -> tuple[str, list[str]]:
    """Read the header with each separator and keep the reading with the most columns."""
    with file.open(encoding="utf-8-sig", errors="replace", newline="") as stream:
        lines = list(islice(stream, _LONGEST_RECORD))
    headers: dict[str, list[str]] = {}
    for separator in (",", ";", "\t"):
        # A separator that leaves a field too long for a name is not the one that parts the header.
        with suppress(csv.Error):
            headers[separator] = next(csv.reader(lines, delimiter=separator), [])
    if not headers:
        raise SourceError(
            f"{file}: expected names of at most {csv.field_size_limit()} characters in the header line, found a "
            "longer one; shorten it, or close its quotes"
        )
    separator = max(headers, key=lambda separator: len(headers[separator]))
    if not any(headers[separator]):
        raise SourceError(f"{file}: expected a header line with the names of the columns, found none")
    return separator, headers[separator]
