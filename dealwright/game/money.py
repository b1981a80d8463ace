"""Amounts of money in whole cents, so that no comparison hangs on a binary fraction."""

import math
import re
import unicodedata

# A number is money when a currency mark stands by it or when it has exactly two decimals.
_NUMBER = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?"
_MONEY = re.compile(
    rf"(?:(?:US)?\$|USD|EUR|GBP|[€£])\s*(?P<marked>{_NUMBER})"
    rf"|(?P<named>{_NUMBER})\s*(?:\$|dollars?\b|bucks?\b|USD\b|EUR\b|GBP\b|euros?\b|pounds?\b|[€£])"
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
    """Return the amount in dollars rounded up to the cent; an amount within 1e-6 cents of a whole one keeps it."""
    return math.ceil(amount * 100 - 1e-6) / 100


def format_price(amount: float) -> str:
    """Write an amount the way actions do, as in `$1234.50`."""
    return f"${amount:.2f}"


def find_money(text: str) -> list[float]:
    """Return the amounts of money stated in prose, in dollars, in the order in which they stand.

    Full-width digits and signs count as their plain forms. Numbers written out in words are not found.
    """
    plain = unicodedata.normalize("NFKC", text)
    found = (match["marked"] or match["named"] or match["decimal"] for match in _MONEY.finditer(plain))
    return [float(number.replace(",", "")) for number in found]
