"""From a source to the one canonical table of products, the rows set aside with their reasons, and a count of both."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from dealwright.catalogue.fields import PRICES, SourceError
from dealwright.catalogue.prices import find_currency, with_prices
from dealwright.catalogue.repeats import settled, with_ids
from dealwright.catalogue.sources import open_source, unreadable
from dealwright.catalogue.text import capped, clean, one_line
from dealwright.files import read_table, replacing, unwritable
from dealwright.params import Catalogue

CATALOGUE, REJECTED = "catalogue.parquet", "rejected.parquet"
SCHEMA = pl.Schema(
    {
        **dict.fromkeys(("id", "title", "category", "description"), pl.String),
        **dict.fromkeys(("list_price", "lowest_price", "highest_price", "budget"), pl.Float64),
    }
)
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_ROW_GROUP = 20_000  # rows; what writer and reader hold at a time
_SHOWN = 80  # characters of a refused value in its reason


@dataclass(frozen=True)
class Ingested:
    """The canonical table, the rows set aside (source, row, title, reason), and the figures of both."""

    catalogue: pl.DataFrame
    rejected: pl.DataFrame
    report: dict[str, Any]


def ingest(params: Catalogue) -> Ingested:
    """Read a source into tables in memory; what is done with its rows is told at `ingest_into`."""
    with TemporaryDirectory() as folder:
        report = ingest_into(params, Path(folder))
        return Ingested(read_table(Path(folder, CATALOGUE)), read_table(Path(folder, REJECTED)), report)


def ingest_into(params: Catalogue, folder: Path) -> dict[str, Any]:
    """Read a source into two files of a folder, in the order of its files and rows, and return the figures of both.

    Every usable row is kept. A row is set aside when its title is missing, too short or too long, when a price is
    missing or cannot be read, when the lowest price is above list and highest price, or when it repeats an earlier
    row. Raises SourceError when no row is left; then, as where the disk is full, what was there is kept.
    """
    plan = with_ids(_canonical(open_source(params), params))
    with replacing(folder / REJECTED) as refused, replacing(folder / CATALOGUE) as kept:
        # All rows with their text are on the disk, under a name that is cleared away after a killed process too.
        read = kept.with_name(f"{kept.name}-read")
        try:
            _read(plan, read, folder / CATALOGUE, params)
            rows = settled(pl.scan_parquet(read, glob=False, row_index_name="index"))
            is_usable = pl.col("reason").is_null()
            _write(rows.filter(is_usable).select(*SCHEMA), kept, folder / CATALOGUE)
            _write(rows.filter(~is_usable).select("source", "row", "title", "reason"), refused, folder / REJECTED)
        finally:
            read.unlink(missing_ok=True)
        return _report(pl.scan_parquet(kept, glob=False), pl.scan_parquet(refused, glob=False), params)


def _read(plan: pl.LazyFrame, beside: Path, target: Path, params: Catalogue) -> None:
    """Write all that is read beside the file that it is to become; a source that cannot be read is a SourceError."""
    try:
        plan.sink_parquet(beside, row_group_size=_ROW_GROUP, engine="streaming")
    except (OSError, PolarsError) as error:
        # The error is the same for a broken source and a full disk; reading alone tells which it is.
        try:
            plan.select(pl.all().count()).collect(engine="streaming")
        except (OSError, PolarsError) as unread:
            raise unreadable(params, unread) from unread
        raise unwritable(target, error) from error


def _write(plan: pl.LazyFrame, beside: Path, target: Path) -> None:
    try:
        plan.sink_parquet(beside, row_group_size=_ROW_GROUP, engine="streaming")
    except PolarsError as error:
        raise unwritable(target, error) from error


def _canonical(plan: pl.LazyFrame, params: Catalogue) -> pl.LazyFrame:
    """Plan the canonical columns and the reason against each row."""
    raw = [pl.col(field).alias(f"{field}_raw") for field in PRICES]
    plan = with_prices(plan.with_columns(raw), PRICES, find_currency(params.currency))
    share = (pl.lit(params.cost_ratio, dtype=pl.Float64) * pl.col("list_price")).round(2).clip(0.01)
    return (
        plan.with_columns(
            *(clean(pl.col(name)).alias(name) for name in ("id", "title", "category", "description", "currency")),
            features=clean(one_line(pl.col("features"))),
            highest_price=pl.coalesce("highest_price", "list_price"),
            lowest_price=pl.coalesce("lowest_price", "cost", share),
        )
        .with_columns(
            category=pl.coalesce("category", pl.lit("other")),
            description=capped(pl.coalesce("description", "features", pl.lit("")), params.description_characters),
            reason=_reason(params),
        )
        .select("source", "row", "reason", *SCHEMA)
    )


def _reason(params: Catalogue) -> pl.Expr:
    """Say why a row is set aside; what stands before the colon is the kind that is counted."""
    other = pl.col("currency").str.to_uppercase() != params.currency
    shortest, longest = params.title_characters
    title, length = pl.col("title").str.slice(0, _SHOWN), pl.col("title").str.len_chars()
    largest = pl.max_horizontal("list_price", "highest_price")
    figures = pl.col("lowest_price").cast(pl.String) + " > " + largest.cast(pl.String)
    return pl.coalesce(
        "broken",
        pl.when(pl.col("title").is_null()).then(pl.lit("title is missing")),
        pl.when(pl.col("title").str.contains(r'^(?:\{"|\[["{\[])')).then(pl.lit("title is not text: ") + title),
        pl.when(length < shortest).then(pl.lit(f"title is shorter than {shortest} characters: ") + title),
        pl.when(length > longest).then(
            pl.lit(f"title is longer than {longest} characters: ") + length.cast(pl.String)
        ),
        pl.when(other).then(pl.lit(f"currency is not {params.currency}: ") + pl.col("currency").str.slice(0, _SHOWN)),
        *(pl.lit(f"{field} ") + pl.col(f"{field}_problem") + ": " + _shown(field) for field in PRICES),
        pl.when(pl.col("list_price").is_null()).then(pl.lit("list_price is missing")),
        pl.when(pl.col("lowest_price").is_null()).then(pl.lit("lowest_price is missing")),
        pl.when(pl.col("lowest_price") > largest).then(
            pl.lit("lowest_price is above list and highest price: ") + figures
        ),
    )


def _shown(field: str) -> pl.Expr:
    # Null is passed over, so that only a price with a problem pays for being shown.
    raw = pl.when(pl.col(f"{field}_problem").is_not_null()).then(f"{field}_raw")
    return raw.str.slice(0, _SHOWN).str.replace_all(r"\s+", " ")


def _report(catalogue: pl.LazyFrame, rejected: pl.LazyFrame, params: Catalogue) -> dict[str, Any]:
    """Count what was read, kept and refused, and measure the prices."""
    kinds = rejected.select(pl.col("reason").str.split(": ").list.first().value_counts(sort=True).struct.unnest())
    categories = catalogue.select(pl.col("category").value_counts(sort=True).struct.unnest())
    largest = pl.max_horizontal("list_price", "highest_price")
    prices = catalogue.select(
        "list_price", "lowest_price", "highest_price", lowest_to_largest=pl.col("lowest_price") / largest
    ).collect()
    refused = rejected.select(pl.len()).collect().item()
    if prices.is_empty():
        first = (
            f"; the first of {refused} rows: {rejected.select('reason').first().collect().item()}"
            if refused
            else ", nor any row at all"
        )
        raise SourceError(f"{params.path} has no usable row{first}")
    return {
        "read": len(prices) + refused,
        "kept": len(prices),
        "rejected": refused,
        "rejected_by_reason": dict(kinds.collect().iter_rows()),
        "kept_by_category": dict(categories.collect().iter_rows()),
        "empty_descriptions": catalogue.select((pl.col("description") == "").sum()).collect().item(),
        "quantiles": {
            column.name: {f"{share:g}": column.quantile(share, "nearest") for share in _QUANTILES} for column in prices
        },
    }
