"""Kinds of episodes: k-means over standardised features, as many kinds as separate well."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dealwright.phases.features import FEATURES

CRITERION = "the largest number of kinds whose mean silhouette lies within 0.10 of the best"
# The silhouette compares every pair of games, so it is taken over a sample of them.
SILHOUETTE_GAMES = 2000
NEARLY = 0.10
TRAITS = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """A cluster of episodes: its letter, its share of all games, its traits in words, and its mean features."""

    name: str
    share: float
    traits: str
    centre: dict[str, float]


@dataclass(frozen=True, slots=True)
class Clusters:
    """The kinds, earliest in training first, each game's place among them, and the silhouette of each number tried."""

    kinds: tuple[Kind, ...]
    members: NDArray[np.int64]
    silhouettes: dict[int, float]


def cluster_episodes(features: pl.DataFrame, steps: NDArray[np.int64], most: int, seed: int) -> Clusters:
    """Group episodes by behaviour into 2 to `most` kinds; one kind where the games do not differ.

    `steps` holds each game's training step and orders the kinds by when they are played.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    raw = features.select(list(FEATURES)).to_numpy().astype(np.float64)
    spread = raw.std(axis=0)
    varying = spread > 1e-9
    points = (raw[:, varying] - raw[:, varying].mean(axis=0)) / spread[varying]
    different = len(np.unique(points.round(9), axis=0)) if varying.any() else 1
    tried, silhouettes = {1: np.zeros(len(raw), dtype=np.int64)}, {}
    for k in range(2, min(most, different - 1) + 1):
        tried[k] = KMeans(k, n_init=5, random_state=seed).fit_predict(points).astype(np.int64)
        sample = min(SILHOUETTE_GAMES, len(points))
        silhouettes[k] = float(silhouette_score(points, tried[k], sample_size=sample, random_state=seed))
    best = max(silhouettes.values(), default=0.0)
    chosen = max((k for k, score in silhouettes.items() if score >= best - NEARLY), default=1)
    members = _earliest_first(tried[chosen], steps)
    return Clusters(_kinds(raw, spread, members), members, silhouettes)


def _earliest_first(members: NDArray[np.int64], steps: NDArray[np.int64]) -> NDArray[np.int64]:
    labels = np.unique(members)
    order = sorted(labels, key=lambda label: (steps[members == label].mean(), label))
    places = np.empty(labels.max() + 1, dtype=np.int64)
    places[order] = np.arange(len(order))
    return places[members]


def _kinds(raw: NDArray[np.float64], spread: NDArray[np.float64], members: NDArray[np.int64]) -> tuple[Kind, ...]:
    overall = raw.mean(axis=0)
    kinds = []
    for label in range(int(members.max()) + 1):
        centre = raw[members == label].mean(axis=0)
        deviation = np.divide(centre - overall, spread, out=np.zeros_like(centre), where=spread > 1e-9)
        telling = sorted(range(len(deviation)), key=lambda place: (-abs(deviation[place]), place))[:TRAITS]
        words = list(FEATURES.values())
        traits = [words[place][int(deviation[place] > 0)] for place in telling if abs(deviation[place]) > 0.3]
        kinds.append(
            Kind(
                chr(ord("A") + label),
                float((members == label).mean()),
                ", ".join(traits) or "like all games",
                dict(zip(FEATURES, (float(value) for value in centre), strict=True)),
            )
        )
    return tuple(kinds)
