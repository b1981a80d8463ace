"""Sources of products: each known form as one lazy plan of text columns, declared and never inferred.

A plan has the columns `source` (the file's name), `row` (1-based in that file), `broken` (why the row cannot be read,
else null) and every name of FIELDS, null where the source has no such column.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from mmap import ACCESS_READ, mmap
from pathlib import Path

import polars as pl
from polars.exceptions import PolarsError

from dealwright.catalogue import csv_files, json_files, parquet_files
from dealwright.catalogue.fields import FIELDS, SourceError
from dealwright.errors import first_line
from dealwright.params import Catalogue

_ENDINGS = {
    "bundled": (".jsonl",),
    "amazon_history_price": (".json",),
    "csv": (".csv",),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet",),
}
_LONGEST_HEADER = 2**16
_LONGEST_LINE = 2**23  # bytes; a file with a longer one holds no products, and reading it would fill the memory
_LONGEST_ARRAY = 2**30  # bytes; an array is read as a whole
_NAMES_SHOWN = 20
_NAME_SHOWN = 40  # characters; an open quote makes a name of many lines


def open_source(params: Catalogue) -> pl.LazyFrame:
    """Plan the reading of the source that the parameters name.

    Raises SourceError for a missing file, a column that is not there, or a catalogue with one price only.
    """
    unknown = [field for field in params.columns if field not in FIELDS]
    if unknown:
        raise SourceError(f"catalogue.columns: {unknown[0]!r} is none of our names; these are {', '.join(FIELDS)}")
    names = {field: params.columns.get(field, field) for field in FIELDS}
    files = find_files(params.path, _ENDINGS[params.source])
    try:
        for file in files if params.source != "parquet" else []:
            _check_text(file, params.source)
        _check_columns(files, names, params)
        plans = [_plan(file, names, params.source).with_columns(source=pl.lit(file.name)) for file in files]
    except (PolarsError, OSError) as error:
        raise unreadable(params, error) from error
    return pl.concat(plans).select("source", pl.col("row").cast(pl.Int64), "broken", *FIELDS)


def unused_columns(params: Catalogue) -> list[str]:
    """List the columns of a readable source, as its first rows have them, that no name of ours is read from."""
    used = {params.columns.get(field, field) for field in FIELDS}
    files = find_files(params.path, _ENDINGS[params.source])
    seen = [name for file in files for columns in islice(_columns(file, params.source), 1) for name in columns]
    return [name for name in dict.fromkeys(seen) if name not in used]


def unreadable(params: Catalogue, error: Exception) -> SourceError:
    """Turn a reader's error into one line."""
    return SourceError(f"cannot read {params.path} as {params.source}: {first_line(error)}")


def find_files(path: str, endings: tuple[str, ...]) -> list[Path]:
    """List the files of a source by name: the file itself, or the fitting ones of a folder."""
    place = Path(path)
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise SourceError(f"catalogue.path: expected a file or a folder, found nothing at {path}")
    files = [file for file in place.iterdir() if file.suffix.lower() in endings and not file.name.startswith(".")]
    if not files:
        raise SourceError(f"catalogue.path: expected files named *{' or *'.join(endings)} in {path}, found none")
    # A pipe or a device may never end, and a folder holds no rows.
    if odd := sorted(file.name for file in files if not file.is_file()):
        raise SourceError(f"catalogue.path: expected regular files in {path}, got {odd[0]}; move it elsewhere")
    return sorted(files)


def _check_text(file: Path, source: str) -> None:
    """Refuse a file that is no text in UTF-8, or whose lines do not end, before any of it is kept in memory."""
    size = file.stat().st_size
    if size == 0:
        return
    if source == "amazon_history_price" and size > _LONGEST_ARRAY:
        raise SourceError(
            f"{file}: expected an array of at most {_LONGEST_ARRAY} bytes, got {size}; write it as jsonl"
        )
    with file.open("rb") as stream, mmap(stream.fileno(), 0, access=ACCESS_READ) as content:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise SourceError(f"{file}: expected UTF-8, got UTF-16; save it as UTF-8")
        if source == "csv" and b"\0" in content[:_LONGEST_HEADER].partition(b"\n")[0]:
            raise SourceError(f"{file}: expected a header line in UTF-8, found zero bytes in it; save it as UTF-8")
        # Every line that is longer than two blocks covers one.
        for at in range(0, size - _LONGEST_LINE, _LONGEST_LINE) if source != "amazon_history_price" else ():
            if content.find(b"\n", at, at + _LONGEST_LINE) < 0:
                raise SourceError(f"{file}: expected one product a line, found no end of line from byte {at} on")


@dataclass(frozen=True)
class _Needs:
    """The columns that a source must have."""

    names: dict[str, str]
    params: Catalogue

    def lacking(self, columns: Collection[str]) -> str | None:
        """Say what is lacking in these columns, if anything."""
        for field in ("title", "list_price", *self.params.columns):
            if self.names[field] not in columns:
                return f"no column {self.names[field]!r} for {field}; name one in catalogue.columns"
        if self.params.cost_ratio is None and not {self.names["lowest_price"], self.names["cost"]} & set(columns):
            return (
                "one price a product is not enough; name a column for lowest_price or cost in catalogue.columns, "
                "or set catalogue.cost_ratio"
            )
        return None


def _check_columns(files: Iterable[Path], names: dict[str, str], params: Catalogue) -> None:
    """Raise a SourceError for a column that no file has; reads on only until all that is needed was seen."""
    needs = _Needs(names, params)
    seen: dict[str, None] = {}
    for file in files:
        for columns in _columns(file, params.source):
            seen.update(dict.fromkeys(columns))
            if needs.lacking(seen) is None:
                return
    shown = ", ".join(name[:_NAME_SHOWN] for name in list(seen)[:_NAMES_SHOWN]) + (
        ", ..." if len(seen) > _NAMES_SHOWN else ""
    )
    raise SourceError(f"{needs.lacking(seen)}; {params.path} has: {shown or 'no column'}")


def _columns(file: Path, source: str) -> Iterable[Iterable[str]]:
    """List the columns of a file, or of each of its rows where every row may have its own."""
    if source == "csv":
        return [csv_files.header(file)]
    if source == "parquet":
        return [parquet_files.scan(file).collect_schema()]
    if source == "amazon_history_price":
        return (row for row in json_files.read_array(file) if isinstance(row, dict))
    return json_files.keys(file)


def _plan(file: Path, names: dict[str, str], source: str) -> pl.LazyFrame:
    if source == "csv":
        return csv_files.plan(file, names)
    if source == "parquet":
        return parquet_files.plan(file, names)
    if source == "amazon_history_price":
        plan = json_files.plan(json_files.array_lines(file), names)
        return plan.with_columns(pl.col("category").fill_null(pl.lit(file.stem)))
    return json_files.plan(json_files.lines(file), names)
