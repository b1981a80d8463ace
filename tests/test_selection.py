"""Choosing a checkpoint from probe games, on games whose rewards are known."""

import json
from pathlib import Path

import polars as pl
import pytest

from dealwright.errors import DealwrightError
from dealwright.evaluation.selection import select_checkpoint
from dealwright.files import write_json
from dealwright.game import Outcome, Scenario, StopReason
from dealwright.params import Select
from dealwright.rollout import Episode, episodes_frame
from tests.synthetic import make_scenarios

PARAMS = Select(seed=0, rounds=1, seller="training", temperature=0.3, overshoot=0.05, resamples=200)
SCENARIOS = [scenario for scenario in make_scenarios(24) if scenario.budget > scenario.cost]
DEAR = 9.0  # stands for a deal above the budget


def game(step: int, scenario: Scenario, earned: float) -> Episode:
    """Return a probe game that ended in a deal with that reward."""
    price = scenario.budget - earned * (scenario.budget - scenario.cost) if earned != DEAR else scenario.budget * 1.1
    return Episode(scenario, "checkpoint", "training", 0, (), Outcome(StopReason.DEAL, price, 1), (), step)


def probe(**rewards: list[float]) -> pl.DataFrame:
    """Return the probe games of checkpoints, as step_5=[...]: rewards repeated over the scenarios."""
    return episodes_frame(
        [
            game(int(name.removeprefix("step_")), scenario, earned[at % len(earned)])
            for name, earned in rewards.items()
            for at, scenario in enumerate(SCENARIOS)
        ]
    )


def test_the_highest_validation_reward_is_taken() -> None:
    found = select_checkpoint(probe(step_0=[0.1], step_5=[0.6], step_10=[0.6, 0.62], step_15=[0.4, 0.41]), PARAMS)
    assert found["selected"] == 10
    assert found["why"] == (
        "step 10 has the highest validation reward of those with at most 5.0% of games above the budget"
    )


def test_of_equal_ones_the_earliest_is_taken() -> None:
    assert select_checkpoint(probe(step_0=[0.5], step_5=[0.5]), PARAMS)["selected"] == 0


def test_a_checkpoint_that_overshoots_is_not_taken_however_high_its_reward() -> None:
    found = select_checkpoint(probe(step_0=[0.1, 0.12], step_5=[1.0] * 7 + [DEAR]), PARAMS)
    assert found["selected"] == 0
    entries = {entry["step"]: entry for entry in found["checkpoints"]}
    assert entries[5]["overshoot_rate"]["value"] > PARAMS.overshoot
    assert entries[5]["reward"]["value"] > entries[0]["reward"]["value"]


def test_where_all_overshoot_those_that_do_so_least_are_compared() -> None:
    found = select_checkpoint(probe(step_0=[0.9, DEAR], step_5=[0.5, 0.5, DEAR], step_10=[0.4, 0.4, DEAR]), PARAMS)
    assert found["selected"] == 5
    assert "the fewest games above the budget, 30.4%; none has at most 5.0%" in found["why"]


def test_a_checkpoint_whose_reward_is_no_number_never_wins() -> None:
    games = probe(step_0=[0.1], step_5=[0.9]).with_columns(
        reward=pl.when(pl.col("checkpoint") == 5).then(float("nan")).otherwise(pl.col("reward"))
    )
    with pytest.raises(DealwrightError, match="step 5"):
        select_checkpoint(games, PARAMS)


def test_every_checkpoint_is_reported_with_its_games_and_its_difference_to_the_best(tmp_path: Path) -> None:
    found = select_checkpoint(probe(step_0=[0.2], step_5=[0.5]), PARAMS)
    write_json(tmp_path / "selection.json", found)
    read = json.loads((tmp_path / "selection.json").read_text())
    assert [entry["step"] for entry in read["checkpoints"]] == [0, 5]
    first, best = read["checkpoints"]
    assert first["difference"] == {"value": -0.3, "low": -0.3, "high": -0.3, "games": len(SCENARIOS)}
    assert best["difference"]["value"] == 0
    assert set(first["reward"]) == {"value", "low", "high", "games"}
    assert first["reward"]["value"] == pytest.approx(0.2)
    assert first["overshoot_rate"]["games"] == len(SCENARIOS)
    assert "leak_rate" in first and "first_offer_ratio" not in first  # no offers in these games


def test_the_order_of_the_games_changes_nothing() -> None:
    games = probe(step_0=[0.2, 0.5], step_5=[0.5, 0.4], step_10=[0.45])
    assert select_checkpoint(games, PARAMS) == select_checkpoint(games.reverse(), PARAMS)
