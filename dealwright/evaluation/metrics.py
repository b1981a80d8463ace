"""The metrics of the protocol, section 6, over a table of episodes.

Every metric is a ratio of two sums over games. A game's numerator is null where the metric does not count it, so a
metric knows over how many games it was taken, and one without games is absent. Every rate is a share of games: a game
counts once however often a thing happened in it.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dealwright.game import StopReason, Violation, Zone
from dealwright.game.reward import TOLERANCE

GAME = ("scenario_id", "round", "seller")
SHARE_OF_BEST_RESPONSE = "share_of_best_response"
FAILED_RATE = "failed_rate"

_PLAYED = pl.col("stop") != StopReason.SELLER_FAILED


def _stopped(stop: StopReason) -> pl.Expr:
    return pl.when(_PLAYED).then((pl.col("stop") == stop).cast(pl.Float64))


def _share(happened: pl.Expr) -> pl.Expr:
    return pl.when(_PLAYED).then(happened.fill_null(False).cast(pl.Float64))


def _refused_for(reason: Violation) -> pl.Expr:
    return _share(pl.col("interventions").list.eval(pl.element().struct.field("reason") == reason.value).list.any())


INTERVENTION_RATE = "intervention_rate"
# Why the regulator refused a seller's message; only told of sellers of whom it refused any.
REASONS: dict[str, pl.Expr] = {f"{reason}_{INTERVENTION_RATE}": _refused_for(reason) for reason in Violation}
# What each game adds to a metric's numerator; null where the game does not count.
VALUES: dict[str, pl.Expr] = {
    "reward": pl.when(_PLAYED).then(pl.col("reward")),
    "deal_rate": _stopped(StopReason.DEAL),
    "bargained_ratio": pl.when(_PLAYED & (pl.col("stop") == StopReason.DEAL) & (pl.col("zone") == Zone.MUTUAL)).then(
        (pl.col("budget") - pl.col("price")) / (pl.col("budget") - pl.col("cost"))
    ),
    "first_offer_ratio": pl.when(_PLAYED).then(pl.col("first_offer") / pl.col("budget")),
    "overshoot_rate": _share(pl.col("price") > pl.col("budget") + TOLERANCE),
    "invalid_rate": _stopped(StopReason.INVALID),
    "quit_rate": _stopped(StopReason.BUYER_QUIT),
    "max_turns_rate": _stopped(StopReason.MAX_TURNS),
    "mean_turns": pl.when(_PLAYED).then(pl.col("turns").cast(pl.Float64)),
    "argument_rate": _share(pl.col("arguments").list.len() > 0),
    INTERVENTION_RATE: _share(pl.col("interventions").list.len() > 0),
    **REASONS,
    "ask_rise_rate": _share(pl.col("ask_rises") > 0),
    "leak_rate": _share(pl.col("leaks") > 0),
    "unsupported_number_rate": _share(pl.col("unsupported_numbers") > 0),
    FAILED_RATE: pl.col("seller_failed").cast(pl.Float64),
    SHARE_OF_BEST_RESPONSE: pl.when(_PLAYED & pl.col("best_response").is_not_null()).then(pl.col("reward")),
}
RATES = frozenset(name for name in VALUES if name.endswith("_rate"))


def prepare(episodes: pl.DataFrame, bounds: pl.DataFrame | None = None) -> pl.DataFrame:
    """Return the games with what the metrics need beside the episodes' own columns.

    `bounds` has the columns scenario_id, round, seller and best_response (the clairvoyant reward), and may hold more.
    A game whose seller failed for one buyer is dropped for all of them: `stop` becomes seller_failed, which no metric
    counts, while `seller_failed` keeps whose game it was. So nobody gains by breaking the seller, and each buyer's
    rate stays.
    """
    broken = pl.col("stop") == StopReason.SELLER_FAILED
    games = episodes.with_columns(
        seller_failed=broken,
        stop=pl.when(broken.any().over(GAME)).then(pl.lit(StopReason.SELLER_FAILED.value)).otherwise(pl.col("stop")),
    )
    if bounds is None:
        return games.with_columns(best_response=pl.lit(None, pl.Float64))
    return games.join(bounds, on=GAME, how="left", maintain_order="left")


def product_sums(games: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Sum every metric's numerator, denominator and games for each group and product, sorted by both.

    The columns of a metric m are `m`, `m/over` and `m/games`; `m/over` is the denominator, which is the number of
    games for all metrics but share_of_best_response.
    """
    values = [value.sum().alias(name) for name, value in VALUES.items()]
    counts = [value.count().alias(f"{name}/games") for name, value in VALUES.items()]
    over = [
        pl.col("best_response").filter(_PLAYED).sum().alias(f"{name}/over")
        if name == SHARE_OF_BEST_RESPONSE
        else value.count().cast(pl.Float64).alias(f"{name}/over")
        for name, value in VALUES.items()
    ]
    keys = [*by, "product_id"]
    return games.group_by(keys).agg(*values, *over, *counts).sort(keys)


def sums_arrays(sums: pl.DataFrame) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Return numerators, denominators and games of one group as arrays of products by metrics."""
    return (
        sums.select(list(VALUES)).to_numpy().astype(np.float64),
        sums.select(f"{name}/over" for name in VALUES).to_numpy().astype(np.float64),
        sums.select(f"{name}/games" for name in VALUES).to_numpy().astype(np.int64),
    )


def means(episodes: pl.DataFrame) -> dict[str, float]:
    """Return the plain metrics of some episodes, without intervals; a metric without games is absent."""
    found = prepare(episodes).select(value.mean().alias(name) for name, value in VALUES.items()).row(0, named=True)
    return {name: mean for name, mean in found.items() if mean is not None}
