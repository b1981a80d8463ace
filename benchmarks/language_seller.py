"""Scripted buyers against a language-model seller: what they earn, and what the regulator had to refuse.

    python -m benchmarks.language_seller MODEL_FOLDER AMAZON_HISTORY_PRICE_FOLDER

plays the scripts of reports/scripts.json, one after the other, and writes reports/language_seller.json and the table
after each. What the seller said is kept in data/work/engines, so a run that was stopped goes on where it stood.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from benchmarks.measure import machine
from dealwright.catalogue.scenarios import make_scenarios, read_scenarios
from dealwright.catalogue.table import ingest
from dealwright.evaluation.compare import measure
from dealwright.evaluation.metrics import FAILED_RATE, INTERVENTION_RATE, REASONS, prepare
from dealwright.files import write_json, write_parquet
from dealwright.game import Negotiation, Regulator, Role, Scenario
from dealwright.params import LocalEngine, Params, load_params
from dealwright.players import make_scripts, read_prompts
from dealwright.prompts.table import prompts_frame
from dealwright.rollout import Episode, episodes_frame, rollout
from dealwright.seats import Seats
from dealwright.written import read_scripts

SCENARIOS = 64
BATCH = 32  # games side by side, for the memory of a small machine
MESSAGE_TOKENS = 96  # the example in the prompt has 61
ORDER = ("linear_ladder", "best_ladder", "take_it_or_leave_it", "cue_ladder", "og_narrator", "adaptive")
WORK = Path("data/work/language_seller")


def main(model: str, products: str, buyers: Sequence[str] = ()) -> None:
    """Play each buyer on the test scenarios and print the table so far."""
    params = _params(model, products)
    scenarios = _scenarios(params)
    scripts = make_scripts(read_scripts().fitted)
    seats = Seats(params, WORK / "engines", WORK / "prompts.parquet")
    episodes: list[Episode] = []
    for name in buyers or [*ORDER, *(name for name in scripts if name not in ORDER)]:
        episodes += rollout(scenarios, [0], scripts[name], seats.seller("model"), (name, "model"), batch=BATCH)
        games = episodes_frame(episodes)
        write_parquet(WORK / "games.parquet", games)
        report = {"machine": machine(), "model": Path(model).name, "scenarios": len(scenarios)}
        sound = {"games": len(episodes), "messages_against_the_rules": sum(map(against_the_rules, episodes))}
        write_json("reports/language_seller.json", report | sound | {"buyers": figures(games)})
        print(table(games), flush=True)


def figures(games: pl.DataFrame) -> dict[str, dict[str, tuple[float | int | None, ...]]]:
    """Return every metric of each buyer, as value, low, high and games."""
    measured = measure(prepare(games), ("buyer",), 2000, 0)
    return {
        str(buyer): {name: (each.value, each.low, each.high, each.games) for name, each in found.items()}
        for (buyer,), found in measured.items()
    }


def against_the_rules(episode: Episode) -> int:
    """Count the seller's messages that were played and sell below cost, state it, break the form or raise the ask."""
    game, regulator = Negotiation(episode.scenario, episode.outcome.turns), Regulator(episode.scenario)
    count = 0
    for role, text in episode.messages:
        count += role == Role.SELLER and regulator.rule(game, text).violation is not None
        game.play(Role(role), text)
    return count


def table(games: pl.DataFrame) -> str:
    """Write the figures of each buyer as Markdown."""
    measured = measure(prepare(games), ("buyer",), 2000, 0)
    wanted = {"reward": 2, "deal_rate": 2, "mean_turns": 1, INTERVENTION_RATE: 2}
    wanted |= dict.fromkeys([*REASONS, "leak_rate", FAILED_RATE], 2)
    lines = [f"| buyer | {' | '.join(wanted)} |", f"|---|{'---:|' * len(wanted)}"]
    for (buyer,), found in measured.items():
        cells = []
        for name, digits in wanted.items():
            each = found.get(name)
            bounds = "" if each is None or each.low is None else f" [{each.low:.{digits}f}, {each.high:.{digits}f}]"
            cells.append("" if each is None else f"{each.value:.{digits}f}{bounds}")
        lines.append(f"| {buyer} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _params(model: str, products: str) -> Params:
    params = load_params()
    engine = LocalEngine(kind="transformers", folder=model, message_tokens=MESSAGE_TOKENS)
    source: dict[str, Any] = {"source": "amazon_history_price", "path": products, "columns": {}, "cost_ratio": None}
    return params.model_copy(
        update={
            "engines": {"model": engine},
            "catalogue": params.catalogue.model_copy(update=source),
            "prompts": params.prompts.model_copy(update={"test": SCENARIOS}),
        }
    )


def _scenarios(params: Params) -> list[Scenario]:
    catalogue, scenarios = WORK / "catalogue.parquet", WORK / "scenarios.parquet"
    products = ingest(params.catalogue).catalogue
    write_parquet(catalogue, products)
    write_parquet(scenarios, make_scenarios(products, params.prompts))
    chosen = read_scenarios(scenarios, catalogue, split="test")
    write_parquet(WORK / "prompts.parquet", prompts_frame(chosen, params.prompts.buyer, params.game.max_turns))
    prompts = read_prompts(Role.SELLER, "neutral", WORK / "prompts.parquet")
    return sorted(chosen, key=lambda scenario: len(prompts[scenario.id]))  # prompts of like length share a batch


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
