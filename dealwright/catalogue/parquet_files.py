"""Parquet files as lazy plans of text columns."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from dealwright.catalogue.fields import PRICES, SourceError


def scan(file: Path) -> pl.LazyFrame:
    """Plan the file of this very name, which may hold what elsewhere stands for other names."""
    return pl.scan_parquet(file, glob=False)


def plan(file: Path, names: Mapping[str, str]) -> pl.LazyFrame:
    """Plan the declared columns as text; a number where a price is due is rounded to the cent."""
    frame = scan(file)
    schema = frame.collect_schema()
    columns = []
    for field, name in names.items():
        if name not in schema:
            columns.append(pl.lit(None, dtype=pl.String).alias(field))
            continue
        if schema[name].is_nested() or schema[name] in (pl.Binary, pl.Object):
            raise SourceError(f"{file}: expected text or numbers in column {name!r}, got {schema[name]}")
        column = pl.col(name)
        if field in PRICES and schema[name].is_float():
            column = column.cast(pl.Float64).round(2)
        columns.append(column.cast(pl.String).alias(field))
    number = "row"
    while number in schema:  # a file may have a column of that name
        number += "_"
    broken = pl.lit(None, dtype=pl.String).alias("broken")
    return frame.with_row_index(number, offset=1).select(pl.col(number).alias("row"), broken, *columns)
