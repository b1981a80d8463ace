"""The scripted buyers as a yardstick."""

from pathlib import Path

import polars as pl
import pytest

from dealwright.agents import SELLERS, Ladder
from dealwright.files import write_json
from dealwright.params import Params, load_params
from dealwright.reference import demonstrate, fit_scripts, play_reference, rank_scripts
from dealwright.written import read_scripts
from tests.games import some_scenarios

WHOLE = load_params(Path(__file__).parents[1] / "params.yaml")
TRAIN = some_scenarios(40)


def small(**rollouts: int) -> Params:
    sizes = {"fit_scenarios": 20, "fit_population": 6, "fit_iterations": 2, "reference_rounds": 1, **rollouts}
    return WHOLE.model_copy(update={"rollouts": WHOLE.rollouts.model_copy(update=sizes)})


@pytest.fixture(scope="module")
def fitted() -> dict[str, Ladder]:
    return fit_scripts(TRAIN, small())


def test_four_ladders_are_fitted_and_two_of_them_read_cues(fitted: dict[str, Ladder]) -> None:
    assert {name: (ladder.reading, bool(ladder.thresholds)) for name, ladder in fitted.items()} == {
        "best_ladder": ("nothing", False),
        "adaptive": ("nothing", True),
        "cue_ladder": ("cues", False),
        "adaptive_cue": ("cues", True),
    }


def test_the_fits_follow_from_the_seed(fitted: dict[str, Ladder]) -> None:
    assert fit_scripts(TRAIN, small()) == fitted
    assert fit_scripts(TRAIN, small(seed=1)) != fitted


def test_an_adaptive_fit_extends_the_plain_one(fitted: dict[str, Ladder]) -> None:
    unsearched = fit_scripts(TRAIN, small(fit_iterations=0))
    assert unsearched["adaptive"].rungs == unsearched["best_ladder"].rungs
    assert unsearched["adaptive_cue"].rungs == unsearched["cue_ladder"].rungs


def test_every_script_plays_every_seller_on_the_sample_in_fresh_rounds(fitted: dict[str, Ladder]) -> None:
    frame = play_reference(TRAIN, fitted, small(reference_rounds=2))
    assert sorted(set(frame["buyer"])) == [
        "adaptive",
        "adaptive_cue",
        "arguing_ladder",
        "best_ladder",
        "cue_ladder",
        "linear_ladder",
        "og_narrator",
        "oracle",
        "staller",
        "take_it_or_leave_it",
    ]
    assert set(frame["seller"]) == set(SELLERS)
    assert set(frame["round"]) == {1000, 1001}
    assert set(frame.group_by("buyer", "seller").len()["len"]) == {40}
    assert set(frame["stop"]) <= {"deal", "max_turns", "buyer_quit", "seller_quit"}


def test_the_best_script_is_the_one_with_the_highest_reward_that_does_not_know_the_cost(tmp_path: Path) -> None:
    rows = [("oracle", "training", 0.9), ("a", "training", 0.2), ("b", "training", 0.5), ("b", "training", 0.1)]
    rows += [("a", "begging", 1.0), ("c", "training", 0.3)]
    frame = pl.DataFrame(rows, schema=["buyer", "seller", "reward"], orient="row")
    rungs, thresholds = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0), (0.0, 0.7, 0.8, 0.8, 0.9, 1.0)
    fitted = {"a": Ladder(rungs, "cues", thresholds, 0.9)}
    ranking = rank_scripts(frame, fitted, WHOLE)
    assert ranking["best_script"] == "b"
    assert ranking["train_reward"] == pytest.approx({"oracle": 0.9, "b": 0.3, "c": 0.3, "a": 0.2})
    write_json(tmp_path / "scripts.json", ranking)
    assert read_scripts(tmp_path / "scripts.json").fitted == fitted


def test_demonstrations_go_over_the_train_scenarios_in_turn() -> None:
    frame = demonstrate(TRAIN, small(demonstrations=100))
    assert frame.height == 100
    assert frame["scenario_id"].to_list()[:80] == [scenario.id for scenario in TRAIN] * 2
    assert set(frame["round"]) == {2000, 2001, 2002}
    assert set(frame["buyer"]) == {"demonstrator"} and set(frame["seller"]) == {"training"}
