"""From a source to the one canonical table of products, the rows set aside with their reasons, and a count of both."""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import polars as pl
from polars.exceptions import PolarsError

from dealwright.catalogue.fields import PRICES, SourceError
from dealwright.catalogue.prices import find_currency, with_prices
from dealwright.catalogue.sources import open_source, unreadable
from dealwright.catalogue.text import capped, clean, normalised, one_line
from dealwright.params import Catalogue

SCHEMA = pl.Schema(
    {
        **dict.fromkeys(("id", "title", "category", "description"), pl.String),
        **dict.fromkeys(("list_price", "lowest_price", "highest_price", "budget"), pl.Float64),
    }
)
_QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
_SHOWN = 80  # characters of a refused value in its reason


@dataclass(frozen=True)
class Ingested:
    """The canonical table, the rows set aside (source, row, title, reason), and the figures of both."""

    catalogue: pl.DataFrame
    rejected: pl.DataFrame
    report: dict[str, Any]


def ingest(params: Catalogue) -> Ingested:
    """Read a source into the canonical table, in the order of its files and rows.

    Every usable row is kept. A row is set aside when its title is missing, too short or too long, when a price is
    missing or cannot be read, when the lowest price is above list and highest price, or when it repeats an earlier
    row. Raises SourceError when no row is left.
    """
    try:
        rows = _canonical(open_source(params), params).collect(engine="streaming").with_row_index("index")
    except PolarsError as error:
        raise unreadable(params, error) from error
    usable = _with_ids(_without_duplicates(rows.filter(pl.col("reason").is_null())))
    refused = pl.concat([frame.select("index", "source", "row", "title", "reason") for frame in (rows, usable)])
    rejected = refused.filter(pl.col("reason").is_not_null()).sort("index").drop("index")
    catalogue = usable.filter(pl.col("reason").is_null()).select(*SCHEMA)
    if catalogue.is_empty():
        first = f"; the first of {len(rows)} rows: {rejected['reason'][0]}" if len(rows) else ", nor any row at all"
        raise SourceError(f"{params.path} has no usable row{first}")
    return Ingested(catalogue, rejected, _report(rows, catalogue, rejected))


def _canonical(plan: pl.LazyFrame, params: Catalogue) -> pl.LazyFrame:
    """Plan the canonical columns, the reason against each row, and the keys that duplicates are found by."""
    raw = [pl.col(field).str.slice(0, _SHOWN).str.replace_all(r"\s+", " ").alias(f"{field}_raw") for field in PRICES]
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
        .select(
            "source",
            "row",
            "reason",
            *SCHEMA,
            title_key=normalised(pl.col("title")),
            description_key=normalised(pl.col("description")).hash(),
        )
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
        *(pl.lit(f"{field} ") + pl.col(f"{field}_problem") + ": " + pl.col(f"{field}_raw") for field in PRICES),
        pl.when(pl.col("list_price").is_null()).then(pl.lit("list_price is missing")),
        pl.when(pl.col("lowest_price").is_null()).then(pl.lit("lowest_price is missing")),
        pl.when(pl.col("lowest_price") > largest).then(
            pl.lit("lowest_price is above list and highest price: ") + figures
        ),
    )


def _without_duplicates(rows: pl.DataFrame) -> pl.DataFrame:
    """Give every row that repeats the text of an earlier one its reason."""
    return _repeats(rows, "title and description are a duplicate", "title_key", "description_key")


def _with_ids(rows: pl.DataFrame) -> pl.DataFrame:
    """Give each row without an id one that follows from its text, and each row with a taken id its reason.

    The text is the normalised title, or title and description where products share a title.
    """
    usable = pl.col("reason").is_null()
    shared = usable.sum().over("title_key") > 1
    text = pl.when(shared).then(pl.col("title_key") + "\n" + pl.col("description")).otherwise("title_key")
    lacking = usable & pl.col("id").is_null()
    hashed = pl.when(lacking).then(text).map_batches(_hashes, return_dtype=pl.String, is_elementwise=True)
    return _repeats(rows.with_columns(pl.coalesce("id", hashed).alias("id")), "id is taken", "id")


def _repeats(rows: pl.DataFrame, kind: str, *keys: str) -> pl.DataFrame:
    """Set aside the usable rows that have the keys of an earlier usable row, which the reason names."""
    # Only the few repeated rows are told where the first one stands.
    repeated = (
        rows.lazy()
        .filter(pl.col("reason").is_null())
        .select("index", kept=pl.col("index").first().over(keys))
        .filter(pl.col("kept") != pl.col("index"))
        .join(rows.lazy().select("row", "source", kept="index"), on="kept")
        .select("index", place=pl.format(f"{kind}: row {{}} of {{}} is kept", "row", "source"))
        .collect()
    )
    return (
        rows.join(repeated, on="index", how="left", maintain_order="left")
        .with_columns(reason=pl.coalesce("reason", "place"))
        .drop("place")
    )


def _hashes(texts: pl.Series) -> pl.Series:
    # Polars' own hash may change with its version; ids must not.
    return pl.Series(
        [None if text is None else blake2b(text.encode(), digest_size=8).hexdigest() for text in texts],
        dtype=pl.String,
    )


def _report(rows: pl.DataFrame, catalogue: pl.DataFrame, rejected: pl.DataFrame) -> dict[str, Any]:
    """Count what was read, kept and refused, and measure the prices."""
    kinds = rejected.select(pl.col("reason").str.split(": ").list.first().value_counts(sort=True).struct.unnest())
    categories = catalogue.select(pl.col("category").value_counts(sort=True).struct.unnest())
    largest = pl.max_horizontal("list_price", "highest_price")
    prices = catalogue.select(
        "list_price", "lowest_price", "highest_price", lowest_to_largest=pl.col("lowest_price") / largest
    )
    return {
        "read": len(rows),
        "kept": len(catalogue),
        "rejected": len(rejected),
        "rejected_by_reason": dict(kinds.iter_rows()),
        "kept_by_category": dict(categories.iter_rows()),
        "empty_descriptions": catalogue.filter(pl.col("description") == "").height,
        "quantiles": {
            column.name: {f"{share:g}": column.quantile(share, "nearest") for share in _QUANTILES} for column in prices
        },
    }
