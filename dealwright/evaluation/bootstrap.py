"""Intervals: a bootstrap over products with all their rounds, and exact bounds where a rate is 0 or 1.

The games of one product share its prices, so they are no independent evidence; products are drawn again, never games.
A resample is a row of multinomial counts, so all resamples of all metrics are one matrix product.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

LEVEL = 0.95

Floats = NDArray[np.float64]
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its 95 % interval; the bounds are None where a single product leaves nothing to resample."""

    value: float
    low: float | None
    high: float | None
    games: int

    def said(self, sign: str = "") -> str:
        """Write it with its interval; the sign `+` shows that of positive numbers too."""
        if self.low is None or self.high is None:
            return f"{self.value:{sign}.3f}"
        return f"{self.value:{sign}.3f} [{self.low:{sign}.3f}, {self.high:{sign}.3f}]"


@lru_cache(maxsize=32)
def resample_counts(products: int, resamples: int, seed: int) -> Floats:
    """Return how often each product stands in each resample, as resamples by products; the array is read-only.

    The same sizes and seed give the same counts, so all metrics, buyers and differences share their resamples.
    """
    draw = np.random.default_rng([seed, products])
    counts = np.empty((resamples, products))
    # Blocks that the processor's cache holds take half the time.
    for block in np.array_split(counts, max(1, resamples // 500)):
        drawn = draw.integers(products, size=block.shape)
        drawn += products * np.arange(len(block))[:, None]  # a number of its own for each product of each resample
        block[:] = np.bincount(drawn.ravel(), minlength=block.size).reshape(block.shape)
    counts.setflags(write=False)
    return counts


def ratio_resamples(totals: Floats, over: Floats, counts: Floats) -> Floats:
    """Return each resample's ratio of sums; NaN where a resample holds nothing to divide by.

    The sums are products by metrics, the counts resamples by products.
    """
    numerators, denominators = np.hsplit(counts @ np.hstack([totals, over]), 2)
    return np.divide(numerators, denominators, out=np.full_like(numerators, np.nan), where=denominators != 0)


def percentile_intervals(resampled: Floats) -> tuple[Floats, Floats]:
    """Return the bounds of the 95 % interval of each column, from the resamples that are numbers."""
    tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
    # NaN sorts last and np.quantile would spread it; only the columns that need it take the slow road.
    low, high = np.quantile(resampled, tails, axis=0)
    for column in np.flatnonzero(np.isnan(low)):
        numbers = resampled[~np.isnan(resampled[:, column]), column]
        if numbers.size:
            low[column], high[column] = np.quantile(numbers, tails)
    return low, high


def exact_interval(events: int, games: int) -> tuple[float, float]:
    """Return the Clopper-Pearson 95 % interval of a rate from `events` in `games`.

    It takes games for independent. Games of one product are not quite, and where a rate is 0 nothing in the data says
    how far: were all rounds of a product copies of one another, the bound for as many games as there are products
    would hold instead.
    """
    tail = (1 - LEVEL) / 2
    low = 0.0 if events == 0 else float(betaincinv(events, games - events + 1, tail))
    high = 1.0 if events == games else float(betaincinv(events + 1, games - events, 1 - tail))
    return low, high


def paired_difference(
    first: Floats, second: Floats, games: Floats, counts: Floats, seed: int
) -> tuple[Estimate, float]:
    """Compare two buyers' mean rewards on the same games: sums by product, and the number of games behind both.

    `first` has a column for each training of its buyer, shape (products, trainings); where there are several, their
    mean is compared, and a resample draws trainings as well as products. A bootstrap over k of them leaves (k - 1) / k
    of the variance of their mean, so the spread between trainings is widened by the root of the inverse.
    Returns the difference first - second with its interval, and the two-sided p-value that it is 0: twice the smaller
    share of resamples on either side of 0, counting the sample itself as one of them so that it is never 0.
    """
    differences = first - second[:, None]
    trainings = differences.shape[1]
    played = int(games.sum())
    value = float(differences.mean(axis=1).sum() / played)
    if len(games) < 2:
        return Estimate(value, None, None, played), 1.0
    by_training = ratio_resamples(differences, np.tile(games[:, None], trainings), counts)
    resampled = by_training.mean(axis=1, keepdims=True)
    if trainings > 1:
        # Another seed than the products', or as many trainings would be drawn together with them.
        drawn = resample_counts(trainings, len(counts), seed + 1) / trainings
        spread = ((by_training - resampled) * drawn).sum(axis=1, keepdims=True)
        resampled += math.sqrt(trainings / (trainings - 1)) * spread
    (low,), (high,) = percentile_intervals(resampled)
    below, above = int((resampled <= 0).sum()), int((resampled >= 0).sum())
    p_value = min(1.0, 2 * (min(below, above) + 1) / (len(resampled) + 1))
    return Estimate(value, float(low), float(high), played), p_value


def holm(p_values: Mapping[Key, float]) -> dict[Key, float]:
    """Return the p-values corrected for having looked at all of them (Holm 1979).

    The smallest of m is multiplied by m, the next by m - 1 and so on, and none may fall below the one before it:
    {a: 0.01, b: 0.04, c: 0.03} becomes {a: 0.03, b: 0.06, c: 0.06}.
    """
    corrected: dict[Key, float] = {}
    least = 0.0
    for rank, (key, p_value) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        least = max(least, min(1.0, (len(p_values) - rank) * p_value))
        corrected[key] = least
    return corrected
