"""Fine-tune the base model on demonstrations, and let it pass only through the gate.

Reads the folder named by warmstart.base, data/rollouts/demonstrations.parquet, data/prompts.parquet and the
scenarios. Writes data/models/warmstart/ (weights and tokenizer) and reports/warmstart.json (what the gate saw on
validation games).
"""

from dealwright.catalogue.scenarios import read_scenarios
from dealwright.checkpoints import WARM_START
from dealwright.errors import run_stage
from dealwright.files import replacing_folder, write_json
from dealwright.game import Role
from dealwright.params import load_params


def main() -> None:
    """Run the stage."""
    params = load_params()
    from dealwright.engines.loading import load_model, save_model
    from dealwright.engines.transformers import TransformersEngine
    from dealwright.players import BuyerSettings, language_buyer, play_games, read_prompts
    from dealwright.rollout import read_episodes
    from dealwright.training.warmstart import check_gate, demonstration_rows, fine_tune

    options = params.warmstart
    model, tokenizer = load_model(options.base)
    prompts = read_prompts(Role.BUYER)
    if options.steps:
        episodes = read_episodes("data/rollouts/demonstrations.parquet")
        rows = demonstration_rows(tokenizer, episodes, prompts, params.prompts.buyer)
        fine_tune(model, tokenizer, rows, options)
    validation = read_scenarios(split="validation")
    rounds = range(-(-options.gate_games // len(validation)))
    engine = TransformersEngine(model.eval(), tokenizer)
    buyer = language_buyer(engine, prompts, BuyerSettings.exploring(params), options.seed)
    games = play_games("warmstart", buyer, [params.train.seller], validation, rounds, params).head(options.gate_games)
    write_json("reports/warmstart.json", check_gate(games, options.gate))
    with replacing_folder(WARM_START) as beside:
        save_model(model, tokenizer, beside)


if __name__ == "__main__":
    run_stage(main)
