"""Whether a buyer reads: what it loses when a road of language between it and the seller is cut.

Language moves the concession seller by construction; the question is whether a buyer takes up what it hears.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import polars as pl

from dealwright.agents import detect_cues
from dealwright.evaluation.bootstrap import Estimate, percentile_intervals, ratio_resamples, resample_counts
from dealwright.evaluation.compare import compare
from dealwright.evaluation.metrics import prepare
from dealwright.game import Role, parse_message
from dealwright.params import Evaluate


def reading_figures(episodes: pl.DataFrame, seller: str, cut: Sequence[str], params: Evaluate) -> dict[str, Any]:
    """Return for each buyer what each ablation costs it, and the share of its arguments that the seller had hinted at.

    `<buyer>.<ablation>` is the mean reward with the road cut less that with it open, paired, as {value, low, high,
    games, p_value}; `<buyer>.hinted_share` is {value, low, high, games}, over the games with an argument, and absent
    without one. The games with a road cut stand in `episodes` with their seller's name, as in training/cues_removed.
    """
    games = prepare(episodes)
    found: dict[str, Any] = {}
    for (buyer,), played in games.partition_by("buyer", as_dict=True, maintain_order=True).items():
        plain = played.filter(pl.col("seller") == seller)
        figures: dict[str, Any] = {}
        if (share := _hinted_share(plain, params)) is not None:
            figures["hinted_share"] = asdict(share)
        for name in cut:
            without = played.filter(pl.col("seller") == name).with_columns(seller=pl.lit(seller))
            if (compared := compare(without, plain, params.resamples, params.seed)) is not None:
                figures[name.removeprefix(f"{seller}/")] = {**asdict(compared[0]), "p_value": compared[1]}
        found[str(buyer)] = figures
    return found


def _hinted_share(games: pl.DataFrame, params: Evaluate) -> Estimate | None:
    counted = games.select(
        "product_id",
        said=pl.col("arguments").list.len().cast(pl.Float64),
        hinted=pl.struct("arguments", "messages").map_elements(_hinted, pl.Float64),
    ).filter(pl.col("said") > 0)
    if counted.is_empty():
        return None
    sums = counted.group_by("product_id").sum().sort("product_id")
    totals, over = sums.select("hinted").to_numpy(), sums.select("said").to_numpy()
    value = float(totals.sum() / over.sum())
    if len(sums) < 2:
        return Estimate(value, None, None, len(counted))
    counts = resample_counts(len(sums), params.resamples, params.seed)
    (low,), (high,) = percentile_intervals(ratio_resamples(totals, over, counts))
    return Estimate(value, float(low), float(high), len(counted))


def _hinted(game: dict[str, Any]) -> float:
    """Count the arguments of a game whose kind the seller's first reply hints at."""
    reply = next((message["text"] for message in game["messages"] if message["role"] == Role.SELLER), "")
    message = parse_message(reply, Role.SELLER)
    cues = detect_cues(message.talk) if message is not None else []
    return float(sum(kind in cues for kind in game["arguments"]))
