"""Play a fixed set of probe games with every checkpoint on validation scenarios, and choose one.

Reads data/models/warmstart/ (step 0), data/models/checkpoints/, data/prompts.parquet and the validation scenarios.
Writes data/rollouts/validation.parquet (the probe games) and reports/selection.json (which checkpoint, and why).
"""

import polars as pl

from dealwright.catalogue.scenarios import read_scenarios
from dealwright.checkpoints import checkpoint_folder, checkpoint_steps
from dealwright.errors import run_stage
from dealwright.evaluation.metrics import means
from dealwright.evaluation.selection import select_checkpoint
from dealwright.files import write_json, write_parquet
from dealwright.params import load_params


def main() -> None:
    """Run the stage."""
    params = load_params()
    from dealwright.probe import play_checkpoint

    scenarios = read_scenarios(split="validation")
    rounds, sellers = range(params.select.rounds), [params.select.seller]
    games = []
    for step in checkpoint_steps():
        folder = checkpoint_folder(step)
        games.append(play_checkpoint(folder, scenarios, rounds, sellers, params, "checkpoint", step))
        print(f"step {step}: reward {means(games[-1])['reward']:+.3f} over {len(games[-1])} games", flush=True)
    episodes = pl.concat(games)
    write_json("reports/selection.json", select_checkpoint(episodes, params.select))
    write_parquet("data/rollouts/validation.parquet", episodes)


if __name__ == "__main__":
    run_stage(main)
