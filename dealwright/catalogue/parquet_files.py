"""Parquet files as lazy plans of text columns."""

from collections.abc import Mapping
from pathlib import Path

import polars as pl

from dealwright.catalogue.fields import PRICES, SourceError


def plan(file: Path, names: Mapping[str, str]) -> pl.LazyFrame:
    """Plan the declared columns as text; a number where a price is due is rounded to the cent."""
    frame = pl.scan_parquet(file)
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
    return frame.with_row_index("row", offset=1).select("row", pl.lit(None, dtype=pl.String).alias("broken"), *columns)
