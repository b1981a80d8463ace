"""Amounts of money in whole cents, so that no comparison hangs on a binary fraction."""

import math
import re
import unicodedata

# What has no glyph although Unicode classes it neither as a control nor as a format.
NO_GLYPH = frozenset(
    chr(code)
    for first, last in (
        (0x34F, 0x34F),
        (0x115F, 0x1160),
        (0x17B4, 0x17B5),
        (0x180B, 0x180F),
        (0x3164, 0x3164),
        (0xFE00, 0xFE0F),
        (0xFFA0, 0xFFA0),
        (0xE0100, 0xE01EF),
    )
    for code in range(first, last + 1)
)
_BREAKS = "\t\n\v\f\r\x1c\x1d\x1e\x85"
# A number is money when a currency mark stands by it or when it has exactly two decimals; stars make neither less so.
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
_MONEY = re.compile(
    rf"(?:(?:US)?\$|USD|EUR|GBP|[€£])[\s*]*(?P<marked>{_NUMBER})"
    rf"|(?<![0-9])(?P<named>{_NUMBER})"
    r"(?=[\s*]*(?:\$|USD\b|EUR\b|GBP\b|[€£])|[\s*-]*(?:US[\s*]+)?(?:dollars?|bucks?|euros?|pounds?)\b)"
    rf"|(?<![0-9.,])(?P<decimal>(?:[0-9]{{1,3}}(?:,[0-9]{{3}})+|[0-9]+)\.[0-9]{{2}})(?![0-9])",
    re.IGNORECASE,
)


def to_cents(amount: float) -> int:
    """Return the amount in dollars as the nearest whole number of cents."""
    return round(amount * 100)


def round_down(amount: float) -> float:
    """Return the amount in dollars rounded down to the cent; an amount within 1e-6 cents of a whole one keeps it."""
    return math.floor(amount * 100 + 1e-6) / 100


def round_up(amount: float) -> float:
    """Return the lowest whole number of cents, in dollars, that is not below the amount."""
    cents = math.ceil(amount * 100 - 1e-6)
    return (cents if cents / 100 >= amount else cents + 1) / 100


def format_price(amount: float) -> str:
    """Write an amount the way actions do, as in `$1234.50`."""
    return f"${amount:.2f}"


def find_money(text: str) -> list[float]:
    """Return the amounts of money stated in prose, in dollars, in the order in which they stand.

    Full-width digits and signs count as their plain forms, and what has no glyph does not count. Numbers written out
    in words, and numbers too long for cents, are not found.
    """
    if not (text.isascii() and text.replace("\n", " ").isprintable()):
        text = "".join(filter(_has_glyph, unicodedata.normalize("NFKC", text)))
    found = (match["marked"] or match["named"] or match["decimal"] for match in _MONEY.finditer(text))
    amounts = (float(number.replace(",", "")) for number in found)
    return [amount for amount in amounts if amount * 100 < math.inf]


def _has_glyph(char: str) -> bool:
    return char in _BREAKS or (unicodedata.category(char) not in ("Cc", "Cf") and char not in NO_GLYPH)
