"""The ruler in the tiny model's prompt: what shares of the budget come to, so that it need not multiply.

A larger model reckons by itself; two million parameters do not, and a buyer whose offers miss what it meant by some
per cent cannot be taught which raises pay. The ruler adds nothing to what the buyer knows.
"""

import math

from dealwright.game import round_down

# In per cent of the budget. Two marks are nearly the raise that earns a concession seller's full step (0.0625).
MARKS = tuple(range(48, 100, 3))


def offer_at(percent: int, budget: float) -> float:
    """Return that percentage of the budget rounded down to three significant digits, as people do, in dollars."""
    exact = percent / 100 * budget
    unit = 10.0 ** (math.floor(math.log10(exact)) - 2)
    return max(0.01, round_down(math.floor(exact / unit + 1e-9) * unit))


def mark_below(percent: float) -> int:
    """Return the highest mark at or below a percentage, or else the lowest mark."""
    return max((mark for mark in MARKS if mark <= percent), default=MARKS[0])


def mark_of(offer: float, budget: float) -> int:
    """Return the lowest mark that comes to at least an offer, or else the highest mark."""
    return next((mark for mark in MARKS if offer_at(mark, budget) > offer - 0.005), MARKS[-1])


def ruler(budget: float) -> str:
    """Write the marks and what they come to in dollars, as in `48% 38.4 51% 40.8`."""
    return " ".join(f"{mark}% {plain(offer_at(mark, budget))}" for mark in MARKS)


def plain(amount: float) -> str:
    """Write an amount without idle zeros."""
    return f"{amount:.2f}".rstrip("0").rstrip(".")
