"""Prices read from text, strictly: what can be read in two ways, or as no price, is refused with the reason.

The parsers on offer guess (price-parser reads "10-20" as 10 and "-5" as 5) or know one locale at a time, so the
grammar is our own; the names and signs of currencies come from Babel.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from unicodedata import category, normalize

import polars as pl
from babel import Locale, UnknownLocaleError
from babel.numbers import get_currency_symbol, list_currencies

from dealwright.catalogue.text import compatible
from dealwright.errors import DealwrightError

_MISSING = r"(?i)^(?:n/?a|n\.a\.|nan|none|null|nil|-+|[\u2013\u2014]|\?|tba|tbd)?$"
_D = "[0-9]"  # `\d` would match the digits of every script
_DECIMALS = f"(?:{_D}{{1,2}}|{_D}{{2}}0{{2,}})"  # 19.9 and 19.9900, but not 19.900
_FEW = f"[1-9]{_D}{{0,2}}"
_SPACED = f"{_FEW}(?:(?: {_D}{{3}})+|(?:'{_D}{{3}})+)"
_SIGNS_IN_LETTERS = ("kr", "zł", "Kč", "Ft", "Rs", "Fr", "lei")
_CEILING = 1e12  # beyond it a float no longer holds every cent with room to spare


@dataclass(frozen=True)
class Currency:
    """How amounts of one currency are written: its own marks, those of others, and its thousands mark at home.

    A single group as in `1,234` or `1.234` is a thousand only with the home mark; the euro has no one home.
    """

    code: str
    own: str
    foreign: str
    thousands: str | None


def find_currency(code: str) -> Currency:
    """Look a currency up by its ISO 4217 code."""
    codes = list_currencies()
    if code not in codes:
        raise DealwrightError(f"catalogue.currency: expected an ISO 4217 code such as USD, got {code!r}")
    # The first two letters of a code are its country: CAD is at home in und_CA, which Babel resolves to en_CA.
    try:
        home = Locale.parse(f"und_{code[:2]}")
    except UnknownLocaleError:
        home = None
    symbols = {get_currency_symbol(code, "en"), get_currency_symbol(code, home or "en")} - {code}
    if any(symbol.endswith("$") for symbol in symbols):
        symbols.add(f"{code[:2]}$")
    symbol = "|".join(re.escape(symbol) for symbol in sorted(symbols, key=lambda symbol: (-len(symbol), symbol)))
    letters = "|".join([*sorted(codes - {code}), *(sign for sign in _SIGNS_IN_LETTERS if sign not in symbols)])
    signs = "".join(re.escape(sign) for sign in "$€£¥₹₩₺₽₴₪₫₱฿" if not any(sign in symbol for symbol in symbols))
    return Currency(
        code=code,
        own=f"(?:{code}(?: ?(?:{symbol}))?|(?:{symbol})(?: ?{code})?)" if symbols else code,
        foreign=rf"(?i)(?:^|[^\pL])(?:{letters})\.?(?:$|[^\pL])|\pL\$|[{signs}]",
        thousands=home.number_symbols["latn"]["group"] if home else None,
    )


def with_prices(plan: pl.LazyFrame, fields: Sequence[str], currency: Currency) -> pl.LazyFrame:
    """Turn columns of text into amounts, and add the problem of each as `<field>_problem`.

    Read are `1234.56`, `1,234.56`, `1.234,56`, `1 234,56`, `1'234.56` and `12,5`, with the currency's own marks before
    or behind them. Amount and problem are both null where there is no price ("", "N/A").
    """
    read = partial(_read, currency=currency)
    struct = pl.Struct({"amount": pl.Float64, "problem": pl.String})
    return (
        plan.with_columns(pl.col(fields).map_batches(read, return_dtype=struct, is_elementwise=True))
        .with_columns(pl.col(field).struct.field("problem").alias(f"{field}_problem") for field in fields)
        .with_columns(pl.col(field).struct.field("amount").alias(field) for field in fields)
    )


def _read(texts: pl.Series, currency: Currency) -> pl.Series:
    # Most prices are a few digits, maybe with a mark: only the others pay for all that a price can be.
    simple = pl.when(texts.str.contains(_simple(currency))).then(texts)
    amounts = pl.select(_bare(simple, currency).cast(pl.Float64, strict=False)).to_series()
    left = amounts.is_null() & texts.is_not_null()
    read, places = _read_any(texts.filter(left), currency), left.arg_true()
    problems = pl.repeat(None, len(texts), dtype=pl.String, eager=True).scatter(places, read["problem"])
    return pl.DataFrame({"amount": amounts.scatter(places, read["amount"]), "problem": problems}).to_struct(texts.name)


def _simple(currency: Currency) -> str:
    # A mark that is not in its plain form, or holds what cannot be seen, is never met in text made plain.
    own = currency.own
    if normalize("NFKC", own) != own or any(category(sign) == "Cf" for sign in own):
        own = currency.code
    return rf"(?i)^(?:{own} ?)?[1-9]{_D}{{0,8}}(?:\.{_D}{{1,2}})?(?: ?{own})?$"


def _bare(text: pl.Expr, currency: Currency) -> pl.Expr:
    return text.str.replace(f"(?i)^{currency.own} ?", "").str.replace(f"(?i) ?{currency.own}$", "")


def _read_any(texts: pl.Series, currency: Currency) -> pl.DataFrame:
    # Step by step, because polars repeats the work of an expression that is used twice.
    pointed, commaed = _grammars(currency.thousands)
    shown, amount, number, problem = map(pl.col, ("shown", "amount", "number", "problem"))
    return (
        pl.LazyFrame({"shown": texts})
        .with_columns(_plain(shown))
        .with_columns(_bare(shown, currency).alias("amount"))
        .with_columns(
            pl.when(amount.str.contains(pointed))
            .then(amount.str.replace_all("[, ']", ""))
            .when(amount.str.contains(commaed))
            .then(amount.str.replace_all("[. ']", "").str.replace(",", ".", literal=True))
            .cast(pl.Float64)
            .alias("number")
        )
        # Null is passed over, so that only what is no number pays for the search for its problem.
        .with_columns(pl.when(number.is_null()).then(column).name.keep() for column in (shown, amount))
        .with_columns(_problem(shown, amount, number, currency).alias("problem"))
        .select(pl.when(problem.is_null()).then(number).alias("amount"), problem)
        .collect()
    )


def _plain(text: pl.Expr) -> pl.Expr:
    # The plain form of a superscript or a fraction would change the amount.
    plain = pl.when(text.str.contains(r"\p{No}")).then(text).otherwise(compatible(text))
    return (
        plain.str.replace_all(r"[\s\p{Cf}\p{Cc}]+", " ")
        .str.strip_chars(" ")
        .str.replace_all("[\N{MINUS SIGN}\N{SMALL HYPHEN-MINUS}]", "-")
        .str.replace_all("[\N{RIGHT SINGLE QUOTATION MARK}\N{ACUTE ACCENT}`]", "'")
    )


def _problem(shown: pl.Expr, amount: pl.Expr, number: pl.Expr, currency: Currency) -> pl.Expr:
    return (
        pl.when(number == 0)
        .then(pl.lit("is zero"))
        .when(number > _CEILING)
        .then(pl.lit("is too large"))
        .when(shown.is_null() | shown.str.contains(_MISSING))
        .then(None)
        .when(shown.str.contains(r"^-|^\(.*[0-9].*\)$") | amount.str.contains(r"^-|[0-9]-$|^\(.*[0-9].*\)$"))
        .then(pl.lit("is negative"))
        .when(shown.str.contains(rf"(?i){_D} *(?:[-~\u2013\u2014]|to|\.{{2,3}}) *{currency.own}? *{_D}"))
        .then(pl.lit("is a range"))
        .when(shown.str.contains(currency.foreign))
        .then(pl.lit(f"is in another currency than {currency.code}"))
        .when(amount.str.contains(rf"^{_FEW}[.,]{_D}{{3}}$"))
        .then(pl.lit("can be read as thousands or as decimals"))
        .when(amount.str.contains(rf"^(?:{_D}+|{_FEW}(?:,{_D}{{3}})+)\.{_D}{{3,}}$|^{_D}+,{_D}{{3,}}$"))
        .then(pl.lit("has more than two decimals"))
        .when(amount.str.contains(f"^{_D}+(?:[., ']+{_D}+)+$"))
        .then(pl.lit("has a grouping that cannot be"))
        .otherwise(pl.lit("is not a price"))
    )


def _grammars(thousands: str | None) -> tuple[str, str]:
    """Spell out the numbers whose decimals follow a point, and those whose decimals follow a comma."""
    pointed = (
        rf"{_D}{{1,15}}(?:\.{_DECIMALS})?",
        rf"\.{_D}{{1,2}}",
        rf"{_FEW}(?:,{_D}{{3}})+\.{_DECIMALS}",
        rf"{_FEW}(?:,{_D}{{3}}){{{1 if thousands == ',' else 2},}}",
        rf"{_SPACED}(?:\.{_DECIMALS})?",
    )
    commaed = (
        rf"{_D}{{1,15}},{_DECIMALS}",
        rf"{_FEW}(?:\.{_D}{{3}})+,{_DECIMALS}",
        rf"{_FEW}(?:\.{_D}{{3}}){{{1 if thousands == '.' else 2},}}",
        rf"{_SPACED},{_DECIMALS}",
    )
    return f"^(?:{'|'.join(pointed)})$", f"^(?:{'|'.join(commaed)})$"
