"""Names and numbers as the report writes them."""

from collections.abc import Iterable, Mapping
from typing import Any

from dealwright.agents.sellers import SELLERS

MODELS = ("trained", "warmstart", "base")
BEST_SCRIPT = "best_script"

DASH, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"

_BUYERS = {"trained": "trained buyer", "warmstart": "warm start", "base": "base model", "og_narrator": "OG-Narrator"}

# What each bound is called, and what it means.
BOUNDS = {
    "clairvoyant": (
        "best response (bound)",
        "what a buyer could earn that knew the seller's type; none does",
    ),
    "all_but_margin": (
        "all but the margin (bound)",
        "the same without the hidden margin of the seller's last turn; no buyer that knows only how types are drawn "
        "can earn more",
    ),
    "belief": (
        "belief buyer",
        "a planner that knows how types are drawn and learns from every ask; the best such buyer earns at least this",
    ),
}

STOPS = {
    "deal": "deal",
    "max_turns": "out of turns",
    "seller_quit": "the seller left",
    "buyer_quit": "the buyer left",
    "invalid": "broke a rule",
    "seller_failed": "the seller's backend failed",
}


def buyer_name(name: str, best_script: str | None = None) -> str:
    """Return a buyer's name for readers; the best script is named with what it is."""
    if name == BEST_SCRIPT and best_script:
        return f"best script ({plain(best_script)})"
    return _BUYERS.get(name, plain(name))


def plain(name: str) -> str:
    """Return a name of the code as words, as in `max_turns` → `max turns`."""
    return name.replace("_", " ")


def sorted_sellers(names: Iterable[str]) -> list[str]:
    """Return sellers in the protocol's order, others after them by name."""
    return sorted(names, key=lambda name: (SELLERS.index(name) if name in SELLERS else len(SELLERS), name))


def sorted_buyers(names: Iterable[str], best_script: str | None = None) -> list[str]:
    """Return buyers with the trained models first, then the best script, then the others by name."""
    first = [*MODELS, BEST_SCRIPT, best_script]
    return sorted(names, key=lambda name: (first.index(name) if name in first else len(first), name))


def number(value: float | None, digits: int = 2) -> str:
    """Write a number with a real minus sign; a missing one is a dash."""
    if value is None:
        return DASH
    rounded = round(value, digits) or 0.0
    return f"{rounded:.{digits}f}".replace("-", MINUS)


def interval(estimate: Mapping[str, Any] | None, digits: int = 2) -> str:
    """Write the bounds of an estimate, as in `0.31 to 0.42`; nothing where there are none."""
    if estimate is None or estimate["low"] is None or estimate["high"] is None:
        return ""
    return f"{number(estimate['low'], digits)} to {number(estimate['high'], digits)}"


def percent(value: float | None, digits: int = 0) -> str:
    """Write a share as a percentage."""
    return DASH if value is None else f"{number(100 * value, digits)} %"


def money(value: float | None) -> str:
    """Write an amount in dollars."""
    return DASH if value is None else f"${value:,.2f}"
