"""From a table of episodes to the figures of reports/evaluation.json."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import polars as pl

from dealwright.errors import DealwrightError
from dealwright.evaluation.bootstrap import (
    Estimate,
    exact_interval,
    holm,
    paired_difference,
    percentile_intervals,
    ratio_resamples,
    resample_counts,
)
from dealwright.evaluation.metrics import (
    GAME,
    INTERVENTION_RATE,
    RATES,
    REASONS,
    VALUES,
    prepare,
    product_sums,
    sums_arrays,
)
from dealwright.game import StopReason
from dealwright.params import Evaluate

ALPHA = 0.05
BEST_SCRIPT = "best_script"
TRAINED, WARMSTART, BASE = "trained", "warmstart", "base"
MODELS = (BASE, WARMSTART, TRAINED)
# The one comparison named beforehand. The trained buyer's others with these are corrected for their number; its
# comparisons with single scripts only describe.
PRIMARY = (TRAINED, BEST_SCRIPT, "training")
FAMILY = (BEST_SCRIPT, WARMSTART, BASE)
# What the best buyer could earn that knows everything; that knows all but the seller's last margin, an upper bound for
# one that knows only the distribution of types; and what one of those earns that holds beliefs, a lower bound for it.
BOUNDS = {"clairvoyant": "best_response", "all_but_margin": "all_but_margin", "belief": "belief"}
# What a buyer must hardly ever do: each gets an exact bound, also pooled over the sellers.
SAFETY = ("overshoot_rate", "invalid_rate", "leak_rate")
POOLED = "all"


class EvaluationError(DealwrightError):
    """Episodes that cannot be compared; the message says what is missing or doubled."""


def measure(
    games: pl.DataFrame, by: Sequence[str], resamples: int, seed: int
) -> dict[tuple[Any, ...], dict[str, Estimate]]:
    """Return every metric with its interval for each group of prepared games; a metric without games is absent."""
    groups = product_sums(games, by).partition_by(list(by), as_dict=True, include_key=False, maintain_order=True)
    return {key: _estimates(sums, resamples, seed) for key, sums in groups.items()}


def compare(first: pl.DataFrame, second: pl.DataFrame, resamples: int, seed: int) -> tuple[Estimate, float] | None:
    """Compare the mean reward of two buyers' prepared games on the scenarios, rounds and sellers that both met.

    Returns the difference first - second with its interval and the two-sided p-value that it is 0; None where they
    share no game.
    """
    return compare_trainings([first], second, resamples, seed)


def compare_trainings(
    firsts: Sequence[pl.DataFrame], second: pl.DataFrame, resamples: int, seed: int
) -> tuple[Estimate, float] | None:
    """Compare a buyer that was trained several times, a table of prepared games each, with another one.

    As `compare` does, on the games that all of them met; the interval is over products and trainings.
    """
    names = [f"reward_{number}" for number in range(len(firsts))]
    shared = _rewards(second)
    for name, first in zip(names, firsts, strict=True):
        shared = shared.join(_rewards(first).select(*GAME, pl.col("reward").alias(name)), on=GAME)
    if shared.is_empty():
        return None
    sums = shared.group_by("product_id").agg(pl.col("reward", *names).sum(), games=pl.len().cast(pl.Float64))
    columns = sums.sort("product_id")
    counts = resample_counts(len(columns), resamples, seed)
    other, games = (columns[name].to_numpy() for name in ("reward", "games"))
    return paired_difference(columns.select(names).to_numpy(), other, games, counts, seed)


def safety_rates(games: pl.DataFrame) -> dict[str, Estimate]:
    """Return each rate of what a buyer must hardly ever do in prepared games, with its exact interval.

    Nothing where no game has a reward.
    """
    played = games.select(VALUES["reward"].count()).item()
    if not played:
        return {}
    events = games.select(VALUES[name].sum().alias(name) for name in SAFETY).row(0, named=True)
    counts = {name: round(many) for name, many in events.items()}
    return {name: Estimate(many / played, *exact_interval(many, played), played) for name, many in counts.items()}


def evaluate_games(
    episodes: pl.DataFrame, best_script: str, params: Evaluate, bounds: pl.DataFrame | None
) -> dict[str, Any]:
    """Return the figures of reports/evaluation.json.

    `buyers.<buyer>.<seller>.<metric>` and `paired.<buyer>.<other>.<seller>` are {value, low, high, games}; a paired
    one has its `p_value` too, and the family has `p_holm` and `significant`. `best_script` names one of the buyers
    and stands beside them under that name. `bounds` are those of bounds.best_responses, with a column `belief` where
    belief.belief_rewards was joined. Raises EvaluationError for a buyer that is missing or a game that is there twice.
    """
    _check(episodes, best_script)
    games = prepare(episodes, bounds)
    buyers = _by_buyer(measure(games, ("buyer", "seller"), params.resamples, params.seed))
    buyers[BEST_SCRIPT] = buyers[best_script]
    trained = games.filter(pl.col("buyer") == TRAINED)
    return {
        "best_script": best_script,
        "primary": dict(zip(("buyer", "other", "seller"), PRIMARY, strict=True)),
        "products": games["product_id"].n_unique(),
        "dropped": _dropped(games),
        "buyers": buyers,
        "paired": _paired(games, best_script, params),
        "bounds": {name: _bound(games, column, params) for name, column in BOUNDS.items() if column in games.columns},
        "safety": {buyer: _safety(games.filter(pl.col("buyer") == buyer)) for buyer in MODELS if buyer in buyers},
        "by_zone": _by_buyer(measure(trained, ("zone", "seller"), params.resamples, params.seed)),
        "by_category": _by_buyer(measure(trained, ("category", "seller"), params.resamples, params.seed)),
    }


def headline(figures: Mapping[str, Any]) -> dict[str, float]:
    """Return the few figures of an evaluation that runs are compared by: the trained buyer against the primary seller.

    Rewards and gains are means a game with their 95 % intervals; the safety rates are over all sellers.
    """
    buyer, other, seller = (figures["primary"][key] for key in ("buyer", "other", "seller"))
    intervals = {
        "reward": figures["buyers"][buyer][seller]["reward"],
        f"gain_over_{other}": figures["paired"][buyer][other][seller],
        f"gain_over_{WARMSTART}": figures["paired"][buyer][WARMSTART][seller],
    }
    found = {
        f"{name}{end}": interval[bound]
        for name, interval in intervals.items()
        for end, bound in (("", "value"), ("_low", "low"), ("_high", "high"))
    }
    share = figures["buyers"][buyer][seller].get("share_of_best_response")
    rates = {name: figures["safety"][buyer][POOLED][name]["value"] for name in SAFETY}
    return found | ({"share_of_best_response": share["value"]} if share else {}) | rates


def _estimates(sums: pl.DataFrame, resamples: int, seed: int) -> dict[str, Estimate]:
    totals, over, games = sums_arrays(sums)
    played = games.sum(axis=0)
    known = {name: column for column, name in enumerate(VALUES) if over[:, column].sum() > 0}
    if totals[:, list(VALUES).index(INTERVENTION_RATE)].sum() == 0:
        known = {name: column for name, column in known.items() if name not in REASONS}
    columns = list(known.values())
    value = totals[:, columns].sum(axis=0) / over[:, columns].sum(axis=0)
    counts = resample_counts(len(sums), resamples, seed)
    low, high = percentile_intervals(ratio_resamples(totals[:, columns], over[:, columns], counts))
    estimates = {}
    for place, (name, column) in enumerate(known.items()):
        mean, many = float(value[place]), int(played[column])
        if name in RATES and mean in (0.0, 1.0):
            estimates[name] = Estimate(mean, *exact_interval(round(totals[:, column].sum()), many), many)
        elif len(sums) < 2:
            estimates[name] = Estimate(mean, None, None, many)
        else:
            estimates[name] = Estimate(mean, float(low[place]), float(high[place]), many)
    return estimates


def _by_buyer(measured: Mapping[tuple[Any, ...], Mapping[str, Estimate]]) -> dict[str, dict[str, dict[str, Any]]]:
    nested: dict[str, dict[str, dict[str, Any]]] = {}
    for (outer, seller), estimates in measured.items():
        nested.setdefault(outer, {})[seller] = {name: asdict(estimate) for name, estimate in estimates.items()}
    return nested


def _rewards(games: pl.DataFrame) -> pl.DataFrame:
    return games.select(*GAME, "product_id", reward=VALUES["reward"]).drop_nulls("reward")


def _paired(games: pl.DataFrame, best_script: str, params: Evaluate) -> dict[str, Any]:
    tables = games.partition_by(["buyer", "seller"], as_dict=True)
    scripts = sorted({buyer for buyer, _ in tables} - set(MODELS))
    entries: dict[tuple[str, str, str], dict[str, Any]] = {}
    pairs = [(TRAINED, other) for other in (WARMSTART, BASE, *scripts)] + [(WARMSTART, BASE)]
    for (buyer, other), seller in product(pairs, sorted({seller for _, seller in tables})):
        first, second = tables.get((buyer, seller)), tables.get((other, seller))
        compared = None if first is None or second is None else compare(first, second, params.resamples, params.seed)
        if compared is not None:
            entries[buyer, other, seller] = {**asdict(compared[0]), "p_value": compared[1]}
            if other == best_script:
                entries[buyer, BEST_SCRIPT, seller] = dict(entries[buyer, other, seller])
    family = {key: entry["p_value"] for key, entry in entries.items() if _in_family(key)}
    for key, corrected in holm(family).items():
        entries[key] |= {"p_holm": corrected, "significant": corrected < ALPHA}
    if PRIMARY in entries:
        entries[PRIMARY]["significant"] = entries[PRIMARY]["p_value"] < ALPHA
    nested: dict[str, Any] = {}
    for (buyer, other, seller), entry in entries.items():
        nested.setdefault(buyer, {}).setdefault(other, {})[seller] = entry
    return nested


def _in_family(key: tuple[str, str, str]) -> bool:
    return key[0] == TRAINED and key[1] in FAMILY and key != PRIMARY


def _bound(games: pl.DataFrame, column: str, params: Evaluate) -> dict[str, Any]:
    """Return the mean of a bound against each seller, over the games that have one."""
    known = games.filter(pl.col(column).is_not_null()).unique(GAME, maintain_order=True)
    measured = measure(known.with_columns(reward=pl.col(column)), ("seller",), params.resamples, params.seed)
    return {
        seller: {"reward": asdict(estimates["reward"])}
        for (seller,), estimates in measured.items()
        if "reward" in estimates
    }


def _safety(games: pl.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the exact interval of each safety rate against each seller and against all of them together."""
    tables = {str(seller): table for (seller,), table in games.partition_by("seller", as_dict=True).items()}
    rates = {seller: safety_rates(table) for seller, table in [*sorted(tables.items()), (POOLED, games)]}
    return {seller: {name: asdict(rate) for name, rate in found.items()} for seller, found in rates.items() if found}


def _dropped(games: pl.DataFrame) -> dict[str, int]:
    """Count the games against each seller that are left out for every buyer because the seller failed for one."""
    failed = games.filter(pl.col("stop") == StopReason.SELLER_FAILED).unique(GAME)
    counted = games.select("seller").unique().join(failed.group_by("seller").len(), on="seller", how="left")
    return {seller: count or 0 for seller, count in counted.sort("seller").iter_rows()}


def _check(episodes: pl.DataFrame, best_script: str) -> None:
    if best_script not in episodes["buyer"].unique():
        names = ", ".join(sorted(episodes["buyer"].unique()))
        raise EvaluationError(f"the best script {best_script} has no episodes; expected it among {names}")
    doubled = episodes.select("buyer", *GAME).filter(pl.struct("buyer", *GAME).is_duplicated())
    if not doubled.is_empty():
        buyer, scenario, round, seller = doubled.row(0)
        raise EvaluationError(
            f"{buyer} played scenario {scenario}, round {round} against {seller} more than once; pass each game once"
        )
