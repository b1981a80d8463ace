"""Train the warm-started buyer with GRPO against the regulated seller.

Reads data/models/warmstart/, data/prompts.parquet and the train scenarios. Writes data/models/checkpoints/step-*/
(weights and tokenizer, no optimizer), data/rollouts/training.parquet (every training game) and reports/training.csv.
Works in data/work/train-<hash>/, which is no output: a killed run goes on there from its last whole checkpoint.
`accelerate launch` runs it in several processes (docs/processes.md).
"""

from pathlib import Path

from dealwright.catalogue.scenarios import read_scenarios
from dealwright.checkpoints import CHECKPOINTS, WARM_START
from dealwright.errors import run_stage
from dealwright.game import Role
from dealwright.params import load_params


def main() -> None:
    """Run the stage."""
    params = load_params()
    from dealwright.engines.loading import load_model
    from dealwright.players import read_prompts
    from dealwright.seats import training_seller
    from dealwright.tracking import training_run
    from dealwright.training.machine import weights_dtype
    from dealwright.training.processes import join
    from dealwright.training.run import last_checkpoint, publish, train_buyer, work_folder
    from dealwright.training.served import check_server

    processes = join()
    if params.train.server is not None and processes.first:
        check_server(params.train.server)
    inputs = [WARM_START, Path("data/scenarios.parquet"), Path("data/prompts.parquet")]
    work = work_folder(Path("data/work"), params, inputs)
    model, tokenizer = load_model(WARM_START, weights_dtype(params.train.lora_rank))
    with training_run(params, work, last_checkpoint(work), processes.first) as run:
        scenarios = read_scenarios(split="train")
        seat = training_seller(params, scenarios, work / f"process-{processes.index}")
        train_buyer(model, tokenizer, scenarios, read_prompts(Role.BUYER), params, work, run, seat, processes)
    if processes.first:
        publish(work, tokenizer, CHECKPOINTS, Path("data/rollouts/training.parquet"), Path("reports/training.csv"))


if __name__ == "__main__":
    run_stage(main)
