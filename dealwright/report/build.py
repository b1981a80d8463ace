"""Put the page together: reports/index.html, one file that needs nothing beside it."""

from typing import Any

import polars as pl

from dealwright.report import figures_games, figures_results, figures_training, words
from dealwright.report.figures_reading import reading
from dealwright.report.inputs import Inputs
from dealwright.report.page import render
from dealwright.report.transcripts import choose_three

PRIMARY = "training"
METRICS = {
    "reward": "reward",
    "deal_rate": "deals",
    "bargained_ratio": "bargained ratio (deals, mutual zone)",
    "first_offer_ratio": "first offer / budget",
    "share_of_best_response": "share of the best response",
    "mean_turns": "turns",
    "max_turns_rate": "out of turns",
    "quit_rate": "the buyer left",
    "overshoot_rate": "deals above the budget",
    "invalid_rate": "broke a rule",
    "argument_rate": "games with an argument",
    "leak_rate": "stated its budget",
    "unsupported_number_rate": "stated an amount nothing supports",
    "intervention_rate": "the regulator stepped in",
    "ask_rise_rate": "the seller's ask rose",
    "failed_rate": "the seller's backend failed",
}


def build_page(inputs: Inputs) -> str:
    """Return the page as HTML; a piece whose input is missing says which stage writes it."""
    seller = inputs.evaluation["primary"]["seller"] if inputs.evaluation else PRIMARY
    return render(
        "index.html.j2",
        inputs=inputs,
        seller=seller,
        results=_results(inputs.evaluation, seller),
        reading=reading(inputs.evaluation) if inputs.evaluation else None,
        games=_games(inputs, seller),
        curves=figures_training.training_curves(inputs.training, inputs.phases) if inputs.training is not None else [],
        probes=figures_training.probe_curves(inputs.phases) if inputs.phases else [],
        kinds=figures_training.kind_shares(inputs.phases) if inputs.phases else None,
        checkpoints=figures_training.checkpoint_rewards(inputs.selection) if inputs.selection else None,
        metrics=METRICS,
        lowest=figures_training.LOWEST,
        planted=figures_training.PLANTED,
        bands={phase: colour for phase, (colour, _) in figures_training.BANDS.items()},
    )


def _results(evaluation: dict[str, Any] | None, seller: str) -> dict[str, Any] | None:
    if evaluation is None:
        return None
    buyers, best = evaluation["buyers"], evaluation["best_script"]
    sellers = words.sorted_sellers({name for found in buyers.values() for name in found})
    rows = [
        (words.buyer_name(name), name, buyers[name])
        for name in words.sorted_buyers(set(buyers) - {words.BEST_SCRIPT}, best)
    ]
    paired = evaluation.get("paired", {}).get("trained", {})
    others = [name for name in (words.BEST_SCRIPT, "warmstart", "base") if name in paired]
    bounds = [(*told, found) for name, told in words.BOUNDS.items() if (found := evaluation["bounds"].get(name))]
    tiles = [
        (words.buyer_name(name, best), buyers.get(name, {})) for name in ("trained", words.BEST_SCRIPT, "warmstart")
    ]
    tiles += [(label, found) for label, _, found in bounds[:1]]
    return {
        "headline": figures_results.headline(evaluation),
        "differences": figures_results.paired(evaluation),
        "categories": figures_results.by_category(evaluation, seller),
        "sellers": sellers,
        "rows": rows,
        "bounds": bounds,
        "tiles": [(label, found[seller]["reward"]) for label, found in tiles if seller in found],
        "best_name": best,
        "paired": [(words.buyer_name(name, best), paired[name]) for name in others],
        "trained": buyers.get("trained", {}),
        "safety": evaluation.get("safety", {}).get("trained", {}),
        "verdicts": [_verdict(paired[name].get(seller), words.buyer_name(name, best), seller) for name in others[:2]],
    }


def _verdict(difference: dict[str, Any] | None, other: str, seller: str) -> str | None:
    """Say in words what a paired difference shows, and no more than its interval allows."""
    if difference is None or difference["low"] is None:
        return None
    figures = f"{words.number(difference['value'], 3)}, 95 % interval {words.interval(difference, 3)}"
    if difference["low"] > 0:
        verb = "earns more than"
    elif difference["high"] < 0:
        verb = "earns less than"
    else:
        verb = "cannot be told apart from"
    return (
        f"Against the {words.plain(seller)} seller the trained buyer {verb} the {other}: paired difference {figures}."
    )


def _games(inputs: Inputs, seller: str) -> dict[str, Any] | None:
    games = inputs.games
    if games is None or games.is_empty():
        return None
    best = inputs.evaluation["best_script"] if inputs.evaluation else None
    compared = [name for name in ("trained", "warmstart", best) if name is not None]
    present = words.sorted_buyers(games["buyer"].unique().to_list(), best)
    return {
        "endings": figures_games.endings(games, present, seller),
        "concessions": figures_games.concessions(games, compared, seller),
        "prices": figures_games.final_prices(games, compared, seller),
        "cost_share": figures_results.by_cost_share(games, seller),
        "arguments": figures_games.argument_uses(games, "trained", seller),
        "interventions": figures_games.interventions(games),
        "transcripts": choose_three(games, "trained", seller),
        "count": games.height,
        "trained": games.filter((pl.col("buyer") == "trained") & (pl.col("seller") == seller)).height,
    }
