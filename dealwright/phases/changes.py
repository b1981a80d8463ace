"""Where a run's behaviour changes: steps in several series at once, against smooth drift and wandering.

A run counts as having phases only if steps explain it better than a smooth curve does, by more than runs without
phases reach: such runs are simulated from the run's own smooth curve (a cubic per series, which covers a constant and
a ramp) and its own wandering (an autoregression of order one, correlated over the series as the run's is). The number
of steps then comes from a penalty, simulated the same way from the noise that is left between steps.
Piecewise-constant fits by kernel change-point detection with a linear kernel, which is least squares (ruptures).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

FEWEST_CHECKPOINTS = 12
MOST_SEGMENTS = 6
DEGREE = 3
SIMULATIONS = 300
# The autocorrelation is estimated from few points; one standard error more keeps a wandering run from having phases.
CAUTION = 1.0
# The series share their changes, so they are not so many independent witnesses of the autocorrelation.
WITNESSES = 4
PENALTY_QUANTILE = 0.99
_GRID = np.linspace(0.0, 0.97, 50)


@dataclass(frozen=True, slots=True)
class Changes:
    """`ends` holds the place after the last checkpoint of each segment.

    `p_value` is the share of simulated runs without phases in which steps do as well; None where it was not asked.
    """

    ends: tuple[int, ...]
    p_value: float | None
    reason: str

    def segments(self) -> list[slice]:
        """Return each segment's place among the checkpoints."""
        return [slice(start, end) for start, end in zip((0, *self.ends[:-1]), self.ends, strict=True)]


def shortest_segment(checkpoints: int) -> int:
    """Return how many checkpoints a phase lasts at least: a tenth of the run, and never under 3."""
    return max(3, round(checkpoints / 10))


def find_changes(values: Floats, noise: Floats, false_alarm: float, seed: int) -> Changes:
    """Find the change points in series of checkpoints by names, whose sampling noise is `noise` by names.

    `false_alarm` is the share of runs without phases that may be given some.
    """
    checkpoints = len(values)
    if checkpoints < FEWEST_CHECKPOINTS:
        needed = f"{checkpoints} checkpoints are too few to tell a change from chance: {FEWEST_CHECKPOINTS} are needed"
        return Changes((checkpoints,), None, needed)
    points = scaled(values, noise)
    if not points.size:
        return Changes((checkpoints,), None, "no series varies")
    random = np.random.default_rng(seed)
    most = min(MOST_SEGMENTS, checkpoints // shortest_segment(checkpoints))
    p_value, candidates = _against_smooth(points, most, random)
    if p_value > false_alarm:
        return Changes((checkpoints,), p_value, "steps explain the run no better than a smooth curve with wandering")
    ends = _choose(points, candidates, most, random)
    if len(ends) == 1:
        return Changes(ends, p_value, "no change stands out from the noise between checkpoints")
    return Changes(ends, p_value, "steps explain the run better than a smooth curve with wandering")


def scaled(values: Floats, noise: Floats) -> Floats:
    """Return the series that vary, in units of their noise; a gap takes the line between its neighbours.

    The noise is the larger of what playing few games brings and the typical jump between neighbouring checkpoints.
    """
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    places = np.arange(len(values))
    for column in np.flatnonzero(known.any(axis=0) & ~known.all(axis=0)):
        here = known[:, column]
        filled[:, column] = np.interp(places, places[here], values[here, column])
    jumps = np.median(np.abs(np.diff(filled, axis=0)), axis=0) / (0.6745 * np.sqrt(2))
    varies = np.ptp(filled, axis=0) > 1e-9
    return ((filled - filled.mean(axis=0)) / np.maximum(noise, jumps))[:, varies]


def step_fits(points: Floats, most: int) -> list[tuple[int, ...]]:
    """Return the ends of the best segments for every number of segments from 2 to `most`."""
    import ruptures

    detector = ruptures.KernelCPD(kernel="linear", min_size=shortest_segment(len(points))).fit(points)
    detector.predict(n_bkps=most - 1)
    return [tuple(int(end) for end in detector.segmentations_dict[changes]) for changes in range(1, most)]


def _against_smooth(points: Floats, most: int, random: np.random.Generator) -> tuple[float, list[tuple[int, ...]]]:
    checkpoints = len(points)
    curve, _ = np.linalg.qr(np.vander(np.linspace(-1, 1, checkpoints), DEGREE + 1))
    smooth = curve @ curve.T
    advantage, candidates = _advantage(points, smooth, most)
    if advantage <= 0:
        return 1.0, candidates
    rest = points - smooth @ points
    runs = _simulate(rest, smooth, random)
    reached = sum(_advantage(smooth @ points + run, smooth, most)[0] >= advantage for run in runs)
    return (1 + reached) / (1 + SIMULATIONS), candidates


def _advantage(points: Floats, smooth: Floats, most: int) -> tuple[float, list[tuple[int, ...]]]:
    """Say by how much the best steps beat the curve: a sum of log ratios of squares, less what steps cost (BIC).

    Half a unit of noise is added to both sides, so that a series that is all but noiseless does not decide alone.
    """
    checkpoints, names = points.shape
    floor = 0.5 * checkpoints
    curve = ((points - smooth @ points) ** 2).sum(axis=0) + floor
    candidates = step_fits(points, most)
    gains = [
        checkpoints * float(np.log(curve / (_squares(points, ends) + floor)).sum())
        - (len(ends) - 1) * (names + 1) * float(np.log(checkpoints))
        for ends in candidates
    ]
    return max(gains), candidates


def _choose(
    points: Floats, candidates: list[tuple[int, ...]], most: int, random: np.random.Generator
) -> tuple[int, ...]:
    checkpoints = len(points)
    steps = _projection(candidates[-1])
    runs = _simulate(points - steps @ points, steps, random)
    whole = (checkpoints,)
    gains = []
    for run in runs:
        start = float(_squares(run, whole).sum())
        gains.append(
            max((start - float(_squares(run, ends).sum())) / (len(ends) - 1) for ends in step_fits(run, most))
        )
    penalty = float(np.quantile(gains, PENALTY_QUANTILE))
    return min([whole, *candidates], key=lambda ends: float(_squares(points, ends).sum()) + penalty * len(ends))


def _squares(points: Floats, ends: tuple[int, ...]) -> Floats:
    starts = (0, *ends[:-1])
    sums = np.add.reduceat(points, starts, axis=0)
    lengths = np.diff((0, *ends))[:, None]
    return (points**2).sum(axis=0) - (sums**2 / lengths).sum(axis=0)


def _projection(ends: tuple[int, ...]) -> Floats:
    matrix = np.zeros((ends[-1], ends[-1]))
    for start, end in zip((0, *ends[:-1]), ends, strict=True):
        matrix[start:end, start:end] = 1 / (end - start)
    return matrix


def _simulate(rest: Floats, fitted: Floats, random: np.random.Generator) -> Floats:
    """Draw runs of noise like the residual of a linear fit, which has eaten a part of the noise's slow movement.

    So the autocorrelation is the one whose expected estimate after that fit is the one seen, and the variance is
    raised by the part that the fit takes away.
    """
    checkpoints, names = rest.shape
    left = np.eye(checkpoints) - fitted
    lags = np.abs(np.subtract.outer(np.arange(checkpoints), np.arange(checkpoints)))
    kept = [left @ np.power(value, lags) @ left for value in _GRID]
    expected = np.maximum.accumulate([np.trace(matrix[1:, :-1]) / np.trace(matrix) for matrix in kept])
    squares = (rest**2).sum(axis=0)
    seen = float((rest[1:] * rest[:-1]).sum() / max(float(squares.sum()), 1e-12))
    estimate = float(np.interp(seen, expected, _GRID))
    cautious = estimate + CAUTION * float(np.sqrt((1 - estimate**2) / (checkpoints * WITNESSES)))
    correlation = min(cautious, float(_GRID[-1]))
    variance = np.maximum(squares / np.interp(correlation, _GRID, [np.trace(matrix) for matrix in kept]), 0.5)
    root = _root(rest) * np.sqrt(variance)[:, None]
    shocks = random.normal(size=(SIMULATIONS, checkpoints, names)) @ root.T
    shocks[:, 1:] *= np.sqrt(1 - correlation**2)
    for place in range(1, checkpoints):
        shocks[:, place] += correlation * shocks[:, place - 1]
    return shocks


def _root(rest: Floats) -> Floats:
    """Return a square root of the residuals' correlation matrix; a series without residual stands alone."""
    spread = rest.std(axis=0)
    unit = np.divide(rest - rest.mean(axis=0), spread, out=np.zeros_like(rest), where=spread > 1e-12)
    correlation = unit.T @ unit / len(rest)
    np.fill_diagonal(correlation, 1.0)
    roots, vectors = np.linalg.eigh(correlation)
    return vectors * np.sqrt(np.maximum(roots, 0.0))
