"""From the probe games of all checkpoints to reports/phases.json and its plot's data."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dealwright.errors import DealwrightError
from dealwright.evaluation.bootstrap import percentile_intervals
from dealwright.params import Phases
from dealwright.phases.changes import Changes, find_changes, scaled, shortest_segment, step_fits
from dealwright.phases.clusters import CRITERION, Clusters, cluster_episodes
from dealwright.phases.features import episode_features
from dealwright.phases.labels import PHASES, RULES, Phase, label_segments, not_observed
from dealwright.phases.series import HEADLINE, Series, checkpoint_series

RESAMPLES = 1000
NOTES = (
    "The warm start learns from a naive demonstrator, so naive bargaining at the start is planted, not found.",
    "The intervals tell how far the choice of probe products moves a boundary or a level; another training run may"
    " change elsewhere.",
)
# What arXiv 2604.09855 reports of its own run, phase by phase.
PAPER = {
    Phase.NAIVE: "the buyer starts out bargaining naively",
    Phase.AGGRESSIVE: "then opens with aggressive first offers",
    Phase.DEADLOCK: "then deadlocks: the deal rate falls",
    Phase.PERSUASION: "then persuades: deals return, at low prices",
}

Floats = NDArray[np.float64]


class PhasesError(DealwrightError):
    """Probe games that cannot be segmented; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class PhaseReport:
    """The figures of reports/phases.json, and one row a checkpoint for the plots."""

    figures: dict[str, Any]
    checkpoints: pl.DataFrame


def analyse_phases(episodes: pl.DataFrame, params: Phases) -> PhaseReport:
    """Cluster the probe games, segment the checkpoints and name the segments.

    Raises PhasesError where no game belongs to a checkpoint.
    """
    probes = episodes.filter(pl.col("checkpoint").is_not_null())
    if probes.is_empty():
        raise PhasesError(f"expected probe games of checkpoints, got {episodes.height} games without one; run select")
    steps = probes["checkpoint"].to_numpy().astype(np.int64)
    clusters = cluster_episodes(episode_features(probes), steps, params.clusters, params.seed)
    series = checkpoint_series(probes, clusters.members, RESAMPLES, params.seed)
    places = [place for place, name in enumerate(series.names) if name != "reward"]
    noise = series.noise()[places]
    changes = find_changes(series.values[:, places], noise, params.false_alarm, params.seed)
    names = label_segments([_levels(series, series.values, part) for part in changes.segments()])
    figures = {
        "summary": {
            "checkpoints": len(series.steps),
            "games": probes.height,
            "segments": len(names),
            "observed": ", ".join(phase for phase in PHASES if phase in names) or "none",
            "not_observed": ", ".join(not_observed(names)) or "none",
        },
        "detection": {
            "p_value": changes.p_value,
            "false_alarm": params.false_alarm,
            "reason": changes.reason,
            "shortest_segment": shortest_segment(len(series.steps)),
            "series": [series.names[place] for place in places],
            "noise": {series.names[place]: float(error) for place, error in zip(places, noise, strict=True)},
        },
        "segments": _segments(series, changes, names),
        "boundaries": _boundaries(series, changes, places, noise),
        "observed": [phase for phase in PHASES if phase in names],
        "not_observed": not_observed(names),
        "rules": [{"phase": phase, "rule": rule} for phase, rule in RULES.items()],
        "paper": [{"phase": phase, "reports": PAPER[phase]} for phase in PHASES],
        "kinds": _kinds(clusters),
        "notes": list(NOTES),
        "series": _series(series),
    }
    return PhaseReport(figures, _checkpoints(series, changes, names))


def _levels(series: Series, values: Floats, part: slice) -> dict[str, float | None]:
    """Return each series' mean over a segment's checkpoints; None where no checkpoint has a value."""
    block = values[part]
    known = np.isfinite(block)
    count = known.sum(axis=0)
    mean = np.where(known, block, 0.0).sum(axis=0) / np.maximum(count, 1)
    return {name: float(mean[place]) if count[place] else None for place, name in enumerate(series.names)}


def _segments(series: Series, changes: Changes, names: list[Phase]) -> list[dict[str, Any]]:
    parts = changes.segments()
    drawn = [[_levels(series, values, part) for part in parts] for values in series.resampled]
    redrawn = [label_segments(levels) for levels in drawn]
    rows = []
    for place, (part, name) in enumerate(zip(parts, names, strict=True)):
        levels = _levels(series, series.values, part)
        rows.append(
            {
                "phase": name,
                "support": sum(labels[place] == name for labels in redrawn) / len(redrawn),
                "first_step": series.steps[part.start],
                "last_step": series.steps[part.stop - 1],
                "checkpoints": part.stop - part.start,
                "levels": {
                    key: {"value": value, **_interval([levels[place][key] for levels in drawn])}
                    for key, value in levels.items()
                    if value is not None
                },
            }
        )
    return rows


def _interval(drawn: list[float | None]) -> dict[str, float]:
    numbers = np.array([value for value in drawn if value is not None])
    (low,), (high,) = percentile_intervals(numbers[:, None])
    return {"low": float(low), "high": float(high)}


def _boundaries(series: Series, changes: Changes, places: list[int], noise: Floats) -> list[dict[str, Any]]:
    """Return where each segment but the first begins, with the interval over resampled products."""
    inner = changes.ends[:-1]
    if not inner:
        return []
    drawn = np.array(
        [step_fits(scaled(values[:, places], noise), len(changes.ends))[-1][:-1] for values in series.resampled]
    )
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0, method="nearest").astype(int)
    return [
        {"step": series.steps[end], "low": series.steps[low[place]], "high": series.steps[high[place]]}
        for place, end in enumerate(inner)
    ]


def _kinds(clusters: Clusters) -> dict[str, Any]:
    return {
        "criterion": CRITERION,
        "silhouette": {str(k): score for k, score in clusters.silhouettes.items()},
        "found": [
            {"name": kind.name, "share": kind.share, "traits": kind.traits, "centre": kind.centre}
            for kind in clusters.kinds
        ],
    }


def _series(series: Series) -> list[dict[str, Any]]:
    """Return one entry a checkpoint: every series with its interval; a series without games is absent."""
    rows: list[dict[str, Any]] = []
    for place, step in enumerate(series.steps):
        low, high = percentile_intervals(series.resampled[:, place])
        row: dict[str, Any] = {"step": step, "games": int(series.games[place])}
        for column, name in enumerate(series.names):
            value = float(series.values[place, column])
            if np.isfinite(value):
                row[name] = {"value": value, "low": float(low[column]), "high": float(high[column])}
        rows.append(row)
    return rows


def _checkpoints(series: Series, changes: Changes, names: list[Phase]) -> pl.DataFrame:
    segment = [place for place, part in enumerate(changes.segments()) for _ in range(part.start, part.stop)]
    order = [*HEADLINE, "reward", *(name for name in series.names if name.startswith("kind_"))]
    return pl.DataFrame(
        {
            "step": series.steps,
            **{name: series[name] for name in order},
            "segment": [place + 1 for place in segment],
            "phase": [names[place].value for place in segment],
        }
    ).with_columns(pl.col(order).fill_nan(None).round(6))
