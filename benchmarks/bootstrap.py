"""Bootstrap intervals of all metrics against a loop in plain Python."""

import math
from random import Random
from statistics import quantiles

import numpy as np

from benchmarks.measure import Comparison, in_turn, seconds
from dealwright.evaluation.bootstrap import Floats, percentile_intervals, ratio_resamples, resample_counts
from dealwright.evaluation.metrics import VALUES

Bounds = list[tuple[float, float]]


def bootstrap(products: int = 128, resamples: int = 10_000, rounds: int = 4, repeats: int = 5) -> Comparison:
    """Compare the intervals of all metrics, draws included, with the same made one resample after another."""
    draw = np.random.default_rng(0)
    over = draw.integers(1, rounds + 1, (products, len(VALUES))).astype(np.float64)
    totals = over * draw.normal(0.3, 0.5, over.shape)
    bounds: dict[str, Bounds] = {}

    def arrays() -> None:
        resample_counts.cache_clear()
        bounds["ours"] = array_bounds(totals, over, resamples)

    def loop() -> None:
        bounds["other"] = loop_bounds(totals, over, resamples)

    ours, others = in_turn(lambda: seconds(arrays), lambda: seconds(loop), repeats)
    gaps = (
        abs(own - other)
        for pair in zip(bounds["ours"], bounds["other"], strict=True)
        for own, other in zip(*pair, strict=True)
    )
    return Comparison(
        what="all resamples of all metrics as arrays",
        other="a Python loop over resamples and metrics",
        unit="seconds",
        ours=ours,
        others=others,
        target=100.0,
        sizes={"products": products, "resamples": resamples, "metrics": len(VALUES), "repeats": repeats},
        found={"largest_gap_of_bounds": max(gaps)},
    )


def array_bounds(totals: Floats, over: Floats, resamples: int) -> Bounds:
    """Return the 95 % bounds of each metric as the evaluation makes them."""
    counts = resample_counts(len(totals), resamples, seed=0)
    low, high = percentile_intervals(ratio_resamples(totals, over, counts))
    return list(zip(low.tolist(), high.tolist(), strict=True))


def loop_bounds(totals: Floats, over: Floats, resamples: int) -> Bounds:
    """Return the same bounds, from draws of its own."""
    draw = Random(0)
    products = range(len(totals))
    metrics = list(zip(totals.T.tolist(), over.T.tolist(), strict=True))
    resampled: list[list[float]] = [[] for _ in metrics]
    for _ in range(resamples):
        drawn = draw.choices(products, k=len(products))
        for ratios, (numerators, denominators) in zip(resampled, metrics, strict=True):
            denominator = sum(denominators[product] for product in drawn)
            ratios.append(sum(numerators[product] for product in drawn) / denominator if denominator else math.nan)
    cuts = [quantiles(ratios, n=40, method="inclusive") for ratios in resampled]
    return [(cut[0], cut[-1]) for cut in cuts]
