"""Play the final games on the test scenarios and measure them; the only stage that reads the test split.

Reads reports/selection.json, reports/scripts.json, the base, the warm start and the checkpoints, data/prompts.parquet
and the test scenarios. Writes data/rollouts/evaluation.parquet and reports/evaluation.json.
"""

from pathlib import Path

import polars as pl

from dealwright.catalogue.scenarios import read_scenarios
from dealwright.checkpoints import WARM_START, checkpoint_folder
from dealwright.errors import run_stage
from dealwright.evaluation.bounds import best_responses
from dealwright.evaluation.compare import evaluate_games
from dealwright.files import read_json, write_json, write_parquet
from dealwright.params import load_params
from dealwright.players import ladder_from, make_scripts, play_games


def main() -> None:
    """Run the stage."""
    params = load_params()
    from dealwright.probe import play_checkpoint

    options = params.evaluate
    scenarios = read_scenarios(split="test")
    rounds = range(options.rounds)
    selected = read_json("reports/selection.json")["selected"]
    scripts = read_json("reports/scripts.json")
    base = Path(params.warmstart.base)
    models = {"base": base, "warmstart": WARM_START, "trained": checkpoint_folder(selected)}
    games = [
        play_checkpoint(
            folder, scenarios, rounds, options.sellers, params, name, selected if name == "trained" else None
        )
        for name, folder in models.items()
    ]
    fitted = {name: ladder_from(values) for name, values in scripts["fitted"].items()}
    games += [
        play_games(name, buyer, options.sellers, scenarios, rounds, params)
        for name, buyer in make_scripts(fitted).items()
    ]
    episodes = pl.concat(games)
    bounds = best_responses(scenarios, rounds, options.sellers, options.bound_offers, params.game.max_turns)
    write_parquet("data/rollouts/evaluation.parquet", episodes)
    write_json("reports/evaluation.json", evaluate_games(episodes, scripts["best_script"], options, bounds))


if __name__ == "__main__":
    run_stage(main)
