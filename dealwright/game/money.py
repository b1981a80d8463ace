"""Amounts of money in whole cents, so that no comparison hangs on a binary fraction."""

import math
import re
import unicodedata

# A number is money when a currency mark stands by it or when it has exactly two decimals.
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
_MONEY = re.compile(
    rf"(?:(?:US)?\$|USD|EUR|GBP|[€£])\s*(?P<marked>{_NUMBER})"
    rf"|(?<![0-9])(?P<named>{_NUMBER})\s*(?:\$|dollars?\b|bucks?\b|USD\b|EUR\b|GBP\b|euros?\b|pounds?\b|[€£])"
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
    if not text.isascii():
        text = "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")
    found = (match["marked"] or match["named"] or match["decimal"] for match in _MONEY.finditer(text))
    amounts = (float(number.replace(",", "")) for number in found)
    return [amount for amount in amounts if amount * 100 < math.inf]
