"""Play the final games on the test scenarios and measure them; the only stage that reads the test split.

Reads reports/selection.json, reports/scripts.json, the base, the warm start and the checkpoints, data/prompts.parquet
and the test scenarios. Writes data/rollouts/evaluation.parquet, reports/evaluation.json and, for `dvc metrics`, the
few main figures of it in reports/headline.json. What engines answer is kept in data/work/engines until then, so that a
killed run goes on where it stood.
"""

from pathlib import Path

import polars as pl

from dealwright.catalogue.scenarios import read_scenarios
from dealwright.checkpoints import WARM_START, checkpoint_folder
from dealwright.errors import run_stage
from dealwright.evaluation.belief import belief_rewards
from dealwright.evaluation.bounds import best_responses
from dealwright.evaluation.compare import evaluate_games, headline
from dealwright.evaluation.metrics import GAME
from dealwright.evaluation.reading import reading_figures
from dealwright.files import write_json, write_parquet
from dealwright.params import load_params
from dealwright.players import make_scripts, play_games
from dealwright.seats import Seats
from dealwright.written import read_scripts, read_selection


def main() -> None:
    """Run the stage."""
    params = load_params()
    from dealwright.probe import play_checkpoint

    options = params.evaluate
    scenarios = read_scenarios(split="test")
    rounds = range(options.rounds)
    selected = read_selection()["selected"]
    scripts = read_scripts()
    base = Path(params.warmstart.base)
    models = {"base": base, "warmstart": WARM_START, "trained": checkpoint_folder(selected)}
    seats = Seats(params)
    seller = params.train.seller
    cut = [f"{seller}/{ablation}" for ablation in options.ablations]
    games = [
        play_checkpoint(
            folder,
            scenarios,
            rounds,
            [*options.sellers, *(cut if name != "base" else [])],
            params,
            name,
            selected if name == "trained" else None,
            seats.seller,
        )
        for name, folder in models.items()
    ]
    best_script = scripts.best_script
    buyers = make_scripts(scripts.fitted) | {name: seats.buyer(name, scenarios) for name in options.buyers}
    games += [
        play_games(
            name,
            buyer,
            [*options.sellers, *(cut if name == best_script else [])],
            scenarios,
            rounds,
            params,
            seat=seats.seller,
        )
        for name, buyer in buyers.items()
    ]
    everything = pl.concat(games, how="diagonal")  # only games that a server billed have columns for it
    episodes = everything.filter(~pl.col("seller").is_in(cut))
    bounds = best_responses(scenarios, rounds, options.sellers, options.bound_offers, params.game.max_turns)
    if believed := range(min(options.belief_rounds, options.rounds)):
        shares = [known.cost / known.list_price for known in read_scenarios(split="train")]
        belief = belief_rewards(scenarios, believed, seller, shares, options.seed, params.game.max_turns)
        bounds = bounds.join(belief, on=GAME, how="left")
    write_parquet("data/rollouts/evaluation.parquet", episodes)
    figures = evaluate_games(episodes, best_script, options, bounds)
    readers = everything.filter(pl.col("buyer").is_in(["warmstart", "trained", best_script]))
    figures["reading"] = reading_figures(readers, seller, cut, options)
    write_json("reports/evaluation.json", figures)
    write_json("reports/headline.json", headline(figures))
    seats.done()


if __name__ == "__main__":
    run_stage(main)
