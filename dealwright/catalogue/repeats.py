"""Rows that repeat an earlier one, and the ids of all others, found by a few numbers a row.

Texts are compared by hashes of 64 bits: among a million rows two different ones pass for the same about once in
thirty million catalogues.
"""

from hashlib import blake2b

import polars as pl

from dealwright.catalogue.text import normalised


def with_ids(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the id of a row that has none, as it follows from its title, and the keys that `settled` needs."""
    lacking = pl.col("reason").is_null() & pl.col("id").is_null()
    # In two steps, because polars repeats the work of an expression that is used twice.
    return rows.with_columns(title_key=normalised(pl.col("title"))).with_columns(
        id=pl.coalesce("id", _hashed(pl.when(lacking).then("title_key"))),
        has_own_id=pl.col("id").is_not_null(),
        title_key=pl.col("title_key").hash(),
    )


def settled(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Give each usable row that repeats an earlier one its reason, and each that shares its title an id of its own.

    The rows, numbered by `index`, are read several times, but never held: only keys of theirs are.
    """
    usable = rows.filter(pl.col("reason").is_null())
    keys = usable.select("index", "title_key", "has_own_id", id_key=pl.col("id").hash()).collect(engine="streaming")
    namesakes = keys.lazy().filter(pl.col("title_key").is_duplicated()).select("index")
    title = normalised(pl.col("title")) + "\n"
    texts = (
        usable.join(namesakes, on="index", how="semi")
        .select(
            "index",
            "title_key",
            "has_own_id",
            text_key=(title + normalised(pl.col("description"))).hash(),
            new_id=_hashed(title + pl.col("description")),
        )
        .collect(engine="streaming")
        .sort("index")
    )
    duplicates = _repeats(texts, "text_key")
    left = texts.join(duplicates, on="index", how="anti")
    renamed = left.filter(pl.col("title_key").is_duplicated() & ~pl.col("has_own_id")).select("index", "new_id")
    new_keys = renamed.select("index", id_key=pl.col("new_id").hash())
    ids = keys.join(duplicates, on="index", how="anti").update(new_keys, on="index").sort("index")
    taken = _repeats(ids, "id_key")
    reasons = pl.concat(
        [
            _reasons(rows, duplicates, "title and description are a duplicate"),
            _reasons(rows, taken, "id is taken"),
        ]
    )
    return (
        rows.join(reasons, on="index", how="left", maintain_order="left")
        .join(renamed.lazy(), on="index", how="left", maintain_order="left")
        .with_columns(reason=pl.coalesce("reason", "new_reason"), id=pl.coalesce("new_id", "id"))
    )


def _repeats(keys: pl.DataFrame, key: str) -> pl.DataFrame:
    """List the rows that have the key of an earlier one, each with that one as `kept`."""
    is_first = pl.col(key).is_first_distinct()
    first = keys.select(key, "index", is_first=is_first)
    return (
        first.filter(~pl.col("is_first"))
        .join(first.filter("is_first").select(key, kept="index"), on=key)
        .select("index", "kept")
    )


def _reasons(rows: pl.LazyFrame, repeats: pl.DataFrame, kind: str) -> pl.LazyFrame:
    reason = pl.format(f"{kind}: row {{}} of {{}} is kept", "row", "source").alias("new_reason")
    return rows.select("source", "row", kept="index").join(repeats.lazy(), on="kept").select("index", reason)


def _hashed(text: pl.Expr) -> pl.Expr:
    return text.map_batches(_hashes, return_dtype=pl.String, is_elementwise=True)


def _hashes(texts: pl.Series) -> pl.Series:
    # Polars' own hash may change with its version; ids must not.
    return pl.Series(
        [None if text is None else blake2b(text.encode(), digest_size=8).hexdigest() for text in texts.to_list()],
        dtype=pl.String,
    )
