"""JSON lines, and files that hold one JSON array, as lazy plans of text columns."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
from polars.exceptions import ComputeError

from dealwright.catalogue.fields import PRICES, SourceError
from dealwright.errors import first_line


def lines(file: Path) -> pl.LazyFrame:
    """Plan the lines of a text file but the blank ones; a byte-order mark or a byte that is no UTF-8 stops nothing."""
    return pl.scan_csv(
        file,
        glob=False,  # a file's name may hold what elsewhere stands for other names
        has_header=False,
        separator="\x1f",  # no JSON holds it raw
        quote_char=None,
        schema={"line": pl.String},
        encoding="utf8-lossy",
        extra_columns="ignore",
        raise_if_empty=False,
        row_index_name="row",
        row_index_offset=1,
    ).filter(pl.col("line").str.contains(r"\S"))


def keys(file: Path) -> Iterator[list[str]]:
    """Yield the keys of each line that is a JSON object."""
    with file.open(encoding="utf-8-sig", errors="replace") as stream:
        for line in stream:
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):  # nested too deeply, or a number of thousands of digits
                continue
            if isinstance(value, dict):
                yield list(value)


def read_array(file: Path) -> list[Any]:
    """Read a file that holds one JSON array."""
    try:
        values = json.loads(file.read_text(encoding="utf-8-sig", errors="replace"))
    except (ValueError, RecursionError) as error:  # nested too deeply, or a number of thousands of digits
        raise SourceError(f"{file} is not JSON: {first_line(error)}") from error
    if not isinstance(values, list):
        raise SourceError(f"{file}: expected a JSON array of products, got {type(values).__name__}")
    return values


def array_lines(file: Path) -> pl.LazyFrame:
    """Give the elements of a JSON array the form of lines."""
    # Half of a surrogate pair, which JSON can spell, is no text.
    texts = [json.dumps(value, ensure_ascii=False).encode(errors="replace").decode() for value in read_array(file)]
    return pl.LazyFrame({"line": texts}, schema={"line": pl.String}).with_row_index("row", offset=1)


def plan(lines: pl.LazyFrame, names: Mapping[str, str]) -> pl.LazyFrame:
    """Plan the declared columns of JSON objects, one a line; a number where a price is due is rounded to the cent."""
    fields = {**dict.fromkeys(names, pl.String), "broken": pl.String}
    decoded = pl.col("line").map_batches(
        lambda batch: _decode(batch, names), return_dtype=pl.Struct(fields), is_elementwise=True
    )
    values = {field: pl.col("decoded").struct.field(field) for field in fields}
    for field in PRICES:
        key = re.escape(json.dumps(names[field], ensure_ascii=False))
        rounded = values[field].cast(pl.Float64, strict=False).round(2).cast(pl.String)
        is_number = pl.col("line").str.contains(rf"{key}\s*:\s*-?[0-9]")
        values[field] = pl.when(is_number & rounded.is_not_null()).then(rounded).otherwise(values[field])
    return lines.with_columns(decoded=decoded).select("row", **values)


def _decode(batch: pl.Series, names: Mapping[str, str]) -> pl.Series:
    """Decode a batch of lines at once, or column by column where one of them is no flat object."""
    frame = pl.DataFrame({"line": batch})
    line = pl.col("line")
    try:
        objects = frame.select(line.str.json_decode(pl.Struct(dict.fromkeys(names.values(), pl.String))))
        values = {field: line.struct.field(name) for field, name in names.items()}
        is_object = line.is_not_null()
    except ComputeError:
        objects = frame
        values = {field: line.str.json_path_match(_path(name)) for field, name in names.items()}
        is_object = line.str.json_path_match("$").str.starts_with("{").fill_null(False)
    broken = pl.when(~is_object).then(pl.lit("the line is not a JSON object"))
    return objects.select(**values, broken=broken).to_struct(batch.name)


def _path(name: str) -> str:
    return "$['" + name.replace("\\", "\\\\").replace("'", "\\'") + "']"
