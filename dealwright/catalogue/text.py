"""Product text made plain: no markup, no invisible characters, one line, at most so long; as polars expressions.

Polars repeats the work of an expression that is used twice, so each of these uses its text once or cheaply.
"""

import html
from html.entities import html5

import polars as pl

_UNSHOWN = r"(?is)<(?:script|style)\b[^>]*>.*?</(?:script|style)\s*>|<!--.*?-->|<!doctype[^>]*>"
_ATTRIBUTES = r"(?:\"[^\"]*\"|'[^']*'|[^<>\"'])*"
# Within a line these tags part no words; all others do.
_INLINE = rf"(?i)</?(?:a|abbr|b|big|code|em|font|i|mark|s|small|span|strong|sub|sup|u)(?:[\s/]{_ATTRIBUTES})?>"
_TAG = rf"</?[a-zA-Z]{_ATTRIBUTES}>"
_ENTITY = r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});"

# What the rest is for: markup, entities, other than ASCII letters and signs, and white space to fold.
_UNCLEAN = r"[<&]|[^ -~]|  |^ | $|^$"
# Every white space but the plain one, which is met too often to be replaced by itself.
_SPACE = r"[[\s--[ ]]\x1c-\x1f\u{115f}\u{1160}\u{2800}\u{3164}\u{ffa0}]+"
# Controls, format characters and private ones; not the joiners, nor the Arabic signs that are shown.
_JUNK = r"[\p{Cc}\p{Co}[\p{Cf}--[\u{200c}\u{200d}\u{600}-\u{605}\u{6dd}\u{70f}\u{8e2}]]]"
# Joiners shape Persian, Indic scripts and emoji; after these they are junk.
_LOOSE_JOINER = r"(^|[\p{Latin}\p{Greek}\p{Cyrillic}\p{Han}\p{Nd}\p{P}\s])[\u{200c}\u{200d}]+"
# Marks that change what a title names (C++, 50 %) stay in the normalised text.
_TOLD = r"[\p{L}\p{N}]"
_UNTOLD = r"[^\p{L}\p{M}\p{N}+#%& ]+"


def clean(text: pl.Expr) -> pl.Expr:
    """Take markup out, decode entities once, drop invisible characters and fold white space; null for nothing left.

    `<p>Salt &amp;amp; <b>pep</b>per&nbsp;mill` becomes `Salt &amp; pepper mill`.
    """
    return text.map_batches(_clean, return_dtype=pl.String, is_elementwise=True)


def one_line(text: pl.Expr) -> pl.Expr:
    """Join the lines of a list of features into one, parted by semicolons unless a line ends a sentence."""
    return text.str.strip_chars().str.replace_all(r"([.!?;:,])\s*\n\s*", "$1 ").str.replace_all(r"\s*\n\s*", "; ")


def capped(text: pl.Expr, characters: int) -> pl.Expr:
    """Cut at the last whole word that leaves room for an ellipsis; the result is never longer than asked."""
    kept = text.str.slice(0, characters).str.replace(r"\s+\S{0,40}$", "").str.slice(0, characters - 1)
    return pl.when(text.str.len_chars() > characters).then(kept + "…").otherwise(text)


def normalised(text: pl.Expr) -> pl.Expr:
    """Fold case, widths, punctuation and spaces away, so that equal products have equal text."""
    folded = compatible(text).str.to_lowercase().str.replace_all(_UNTOLD, " ")
    return (
        pl.when(text.str.contains(_TOLD))
        .then(folded.str.replace_all(" {2,}", " ").str.strip_chars(" "))
        .otherwise(text)
    )


def compatible(text: pl.Expr) -> pl.Expr:
    """Give full-width and other look-alike characters their plain form (NFKC)."""
    # Null is passed over, so that only text with other than ASCII characters pays.
    return pl.coalesce(pl.when(text.str.contains(r"[^ -~]")).then(text).str.normalize("NFKC"), text)


def _clean(texts: pl.Series) -> pl.Series:
    # Most text is clean as it is, and told so by one search that costs as much as one of the replacements.
    unclean = texts.str.contains(_UNCLEAN)
    if not unclean.any():
        return texts
    cleaned = (
        _decode_entities(
            texts.filter(unclean)
            .str.replace_all(_UNSHOWN, " ")
            .str.replace_all(_INLINE, "")
            .str.replace_all(_TAG, " ")
        )
        .str.replace_all(_SPACE, " ")
        .str.replace_all(_JUNK, "")
        .str.replace_all(_LOOSE_JOINER, "$1")
        .str.replace_all(r" {2,}", " ")
        .str.strip_chars(" ")
        .replace("", None)
    )
    return texts.scatter(unclean.arg_true(), cleaned)


def _decode_entities(texts: pl.Series) -> pl.Series:
    # One pass over the text for all entities that occur, so that `&amp;lt;` stays `&lt;`.
    found = texts.str.extract_all(_ENTITY).explode(empty_as_null=False).drop_nulls().unique().sort()
    entities = {entity: html.unescape(entity) for entity in found if entity[1] == "#" or entity[1:] in html5}
    return texts.str.replace_many(entities) if entities else texts
