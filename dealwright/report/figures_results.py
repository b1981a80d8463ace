"""Pictures of reports/evaluation.json: who earns what against whom."""

from itertools import pairwise
from typing import Any

import polars as pl

from dealwright.evaluation.compare import measure
from dealwright.evaluation.metrics import prepare
from dealwright.report.drawing import (
    BLUE,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    QUIET,
    VERMILION,
    Picture,
    Series,
    drawing,
    interval_marks,
    interval_rows,
)
from dealwright.report.words import BEST_SCRIPT, BOUNDS, buyer_name, interval, number, plain, sorted_sellers

# The edges of C/B: a small share leaves much to bargain over, above 1 no price suits both.
COST_EDGES = (0.4, 0.5, 0.6, 0.7, 0.8, 1.0)
RESAMPLES = 2000

# How the bounds are drawn; their names are in words.BOUNDS.
BOUND_MARKS = {"belief": (VERMILION, "P"), "all_but_margin": (VERMILION, "x"), "clairvoyant": (VERMILION, "v")}


def headline(evaluation: dict[str, Any]) -> Picture | None:
    """Draw the reward of the trained buyer beside its warm start, a mute ladder, the best script and the bounds."""
    buyers, bounds, best = evaluation["buyers"], evaluation["bounds"], evaluation["best_script"]
    series: list[Series] = [
        ("warm start", QUIET, "s", _rewards(buyers.get("warmstart", {}))),
        ("trained buyer", BLUE, "o", _rewards(buyers.get("trained", {}))),
        ("best ladder without words", PURPLE, "h", _rewards(buyers.get("best_ladder", {}))),
        (buyer_name(BEST_SCRIPT, best), ORANGE, "D", _rewards(buyers.get(BEST_SCRIPT, {}))),
        *((BOUNDS[name][0], *mark, _rewards(bounds.get(name, {}))) for name, mark in BOUND_MARKS.items()),
        ("oracle (pays the cost)", GREEN, "^", _rewards(buyers.get("oracle", {}))),
    ]
    series = [one for one in series if one[-1]]
    sellers = _sellers(series)
    if not sellers:
        return None
    words = "; ".join(
        f"against {plain(seller)}: "
        + ", ".join(f"{label} {number(found[seller]['value'])}" for label, _, _, found in series if seller in found)
        for seller in sellers
    )
    height = 1.4 + (0.15 + 0.1 * len(series)) * len(sellers)
    with drawing("headline", "Mean reward by seller", words, height) as canvas:
        interval_rows(canvas.axes, series, {seller: plain(seller) for seller in sellers}, 0.8 / len(series))
        canvas.axes.axvline(0, color=INK, linewidth=0.8)
        canvas.axes.set_xlabel("reward (share of the zone between budget and cost)")
    return canvas.picture


def paired(evaluation: dict[str, Any]) -> Picture | None:
    """Draw the trained buyer's paired differences to the best script and to its warm start."""
    found = evaluation.get("paired", {}).get("trained", {})
    rows = [
        (f"less {buyer_name(BEST_SCRIPT, evaluation['best_script'])}", ORANGE, "D", found.get(BEST_SCRIPT, {})),
        ("less warm start", BLUE, "o", found.get("warmstart", {})),
    ]
    sellers = _sellers(rows)
    if not sellers:
        return None
    words = "; ".join(
        f"{label} against {plain(seller)}: {number(differences[seller]['value'])} ({interval(differences[seller])})"
        for label, _, _, differences in rows
        for seller in sellers
        if seller in differences
    )
    with drawing("paired", "Trained buyer less another, same games", words, 1.3 + 0.5 * len(sellers)) as canvas:
        interval_rows(canvas.axes, rows, {seller: plain(seller) for seller in sellers}, 0.28)
        canvas.axes.axvline(0, color=INK, linewidth=1.2)
        canvas.axes.set_xlabel("difference in mean reward")
    return canvas.picture


def by_category(evaluation: dict[str, Any], seller: str) -> Picture | None:
    """Draw the trained buyer's reward in every category against one seller."""
    found = {
        category: sellers[seller]["reward"]
        for category, sellers in evaluation.get("by_category", {}).items()
        if "reward" in sellers.get(seller, {})
    }
    title = f"Trained buyer's reward by category, against the {plain(seller)} seller"
    return _one_row_each("category", title, sorted(found.items(), key=lambda item: (item[1]["value"], item[0])))


def by_cost_share(games: pl.DataFrame, seller: str) -> Picture | None:
    """Draw the trained buyer's reward by the cost's share of the budget, against one seller."""
    share = pl.col("cost") / pl.col("budget")
    labels = [
        f"under {COST_EDGES[0]:g}",
        *(f"{low:g} to {high:g}" for low, high in pairwise(COST_EDGES)),
        f"over {COST_EDGES[-1]:g}",
    ]
    chosen = games.filter((pl.col("buyer") == "trained") & (pl.col("seller") == seller))
    binned = prepare(chosen).with_columns(bin=pl.sum_horizontal(share > edge for edge in COST_EDGES))
    measured = measure(binned, ("bin",), RESAMPLES, 0)
    rows = [
        (label, {"value": reward.value, "low": reward.low, "high": reward.high, "games": reward.games})
        for place, label in reversed(list(enumerate(labels)))
        if (reward := measured.get((place,), {}).get("reward")) is not None
    ]
    return _one_row_each("cost-share", f"Trained buyer's reward by C/B, against the {plain(seller)} seller", rows)


def _one_row_each(name: str, title: str, rows: list[tuple[str, dict[str, Any]]]) -> Picture | None:
    if not rows:
        return None
    words = "; ".join(
        f"{label}: {number(reward['value'])} ({interval(reward)}) over {reward['games']} games"
        for label, reward in reversed(rows)
    )
    with drawing(name, title, words, 0.8 + 0.27 * len(rows)) as canvas:
        interval_marks(canvas.axes, range(len(rows)), [reward for _, reward in rows], BLUE, "o", "reward")
        canvas.axes.set_yticks(range(len(rows)), [_short(label) for label, _ in rows])
        canvas.axes.set_ylim(-0.6, len(rows) - 0.4)
        canvas.axes.axvline(0, color=INK, linewidth=0.8)
        canvas.axes.set_xlabel("reward")
    return canvas.picture


def _rewards(measures: dict[str, Any]) -> dict[str, Any]:
    return {seller: found["reward"] for seller, found in measures.items()}


def _sellers(series: list[Series]) -> list[str]:
    return sorted_sellers({seller for *_, found in series for seller in found})


def _short(label: str) -> str:
    return label if len(label) <= 28 else f"{label[:27]}…"
