"""Each benchmark runs at toy size and does the same work on both sides; nothing here looks at how long it took."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from benchmarks import bootstrap, ingest, load, pandas_plan, rollouts, step
from benchmarks.games import open_hall
from benchmarks.measure import Comparison, in_turn, machine
from benchmarks.profile import profile_step
from benchmarks.step import Work
from dealwright.catalogue import table

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REPEATS = 2
TOYS: dict[str, Callable[[], tuple[Comparison, ...]]] = {
    "one_at_a_time": lambda: (rollouts.one_at_a_time(games=2, every=2, repeats=REPEATS),),
    "trl_loop": lambda: (rollouts.trl_loop(games=4, group_size=2, repeats=REPEATS),),
    "growth": lambda: (rollouts.growth(games=(1, 2), repeats=REPEATS),),
    "grpo_step": lambda: (step.grpo_step(products=2, group_size=2, repeats=REPEATS),),
    "bootstrap": lambda: (bootstrap.bootstrap(products=4, resamples=20, repeats=REPEATS),),
    "ingest": lambda: ingest.ingest(rows=1000, repeats=REPEATS),
}


@pytest.mark.parametrize("name", TOYS)
def test_a_benchmark_measures_both_sides_and_makes_a_whole_entry(name: str) -> None:
    for comparison in TOYS[name]():
        entry = json.loads(json.dumps(comparison.as_json(), allow_nan=False))
        assert len(entry["ours"]) == len(entry["other"]) == REPEATS
        assert min(entry["ours"] + entry["other"]) > 0
        assert entry["sizes"]["repeats"] == REPEATS


def test_a_profile_names_the_operators_of_playing_and_of_learning() -> None:
    table = profile_step(products=2, group_size=2, operators=1000)
    assert "aten::_scaled_dot_product_flash_attention_for_cpu " in table
    assert "aten::_scaled_dot_product_flash_attention_for_cpu_backward " in table


def test_the_ratio_is_of_medians_and_reached_from_the_target_on() -> None:
    comparison = Comparison("a", "b", "seconds", [1.0, 2.0, 50.0], [6.0, 5.0, 4.0], 2.5, {})
    assert (comparison.ratio, comparison.as_json()["reached"]) == (2.5, True)


def test_the_sides_take_turns_in_going_first() -> None:
    calls: list[str] = []

    def side(name: str) -> Callable[[], float]:
        def run() -> float:
            calls.append(name)
            return float(len(calls))

        return run

    assert in_turn(side("ours"), side("other"), 3) == ([1.0, 4.0, 5.0], [2.0, 3.0, 6.0])
    assert calls == ["ours", "other", "other", "ours", "ours", "other"]


def test_pandas_makes_the_same_tables_as_the_ingest(tmp_path: Path) -> None:
    path = tmp_path / "products.csv"
    ingest.write_products(path, 3000)
    ours = table.ingest(ingest.plan(path))
    catalogue, rejected = map(pl.from_pandas, pandas_plan.ingest(str(path), 1200))
    assert ours.catalogue.drop("budget").equals(catalogue)
    assert ours.rejected.drop("source").equals(rejected)
    assert len(ours.report["rejected_by_reason"]) == 9


def test_the_loop_over_resamples_finds_the_same_bounds() -> None:
    found = bootstrap.bootstrap(products=64, resamples=2000, repeats=1).found
    assert found["largest_gap_of_bounds"] < 0.02


def test_trl_s_loop_plays_whole_games_and_ends_with_them() -> None:
    from benchmarks.tool_loop import OVER, ToolTable

    hall = open_hall()
    tools = ToolTable(hall)
    tools.reset(scenario=hall.scenarios[0].id, round=0)
    budget = hall.scenarios[0].budget
    answer = tools.offer(f"Talk: Hello.\nAction: [BUY] ${budget / 2:.2f}")
    assert answer.startswith("Talk:") and "\nAction: [SELL] $" in answer
    assert tools.walk_away("Talk: Bye.\nAction: [QUIT]") == OVER
    assert (tools.game.outcome is not None, tools.get_reward()) == (True, 0.0)


def test_operations_are_counted_without_padding_and_logits_where_a_token_is_sampled(model: "PreTrainedModel") -> None:
    # Two layers of 8 x (8 + 4 + 4), 8 x 8 and three of 8 x 16; two heads of 4.
    per_token = 2 * 2 * 8 * (8 + 4 + 4 + 8 + 3 * 16)
    attention = 4 * 2 * 2 * 4 * (1 + 2 + 3)
    logits = 2 * 8 * model.config.vocab_size
    assert Work((3,), 2).operations(model) == 3 * per_token + attention + 2 * logits
    assert Work((3, 3), 4).operations(model) == 2 * Work((3,), 2).operations(model)


@pytest.mark.parametrize(("work", "size"), [("games", 500), ("report", 1000), ("versions", 3), ("catalogue", 100)])
def test_each_work_of_the_load_runs_at_toy_size(
    work: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert load.WORKS[work][0](size) > 0


def test_the_machine_is_described_but_not_named() -> None:
    found = machine()
    assert found["cores"] >= 1 and set(found["libraries"]) > {"torch", "polars", "pandas"}
    assert not {"host", "hostname", "node"} & set(found)
