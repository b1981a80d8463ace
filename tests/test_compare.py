"""`dealwright compare` pairs two tables of games, and says what is wrong with tables that cannot be."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from dealwright.cli import main
from dealwright.files import write_json, write_parquet
from dealwright.game import Outcome, Product, Scenario, StopReason
from dealwright.rollout import Episode, episodes_frame

ROOT = Path(__file__).parents[1]
COST, BUDGET = 40.0, 80.0
MESSAGES = (("buyer", "Talk: Hello.\nAction: [BUY] $30"), ("seller", "Talk: Agreed.\nAction: [DEAL] $30"))


def game(product: str, buyer: str, price: float | None, round: int = 0, category: str = "Home") -> Episode:
    """Return a game over a product that cost 40 dollars, with a budget of 80; without a price it broke a rule."""
    item = Product(product, "Lamp", category, "", 100.0, COST, 100.0)
    stop = StopReason.INVALID if price is None else StopReason.DEAL
    scenario = Scenario(product, item, 100.0, COST, BUDGET, 1, "test")
    return Episode(scenario, buyer, "training", round, MESSAGES, Outcome(stop, price, 1))


def write(name: str, *games: Episode) -> None:
    write_parquet(f"data/rollouts/{name}/00000.parquet", episodes_frame(games))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["compare", *arguments])


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter a project with the default parameters."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)


def test_rewards_are_paired_by_product_and_rates_have_exact_intervals() -> None:
    # Rewards are (80 - price) / 40: 0.75 and 0.5 less 0.5 and 0.25, a quarter on either product.
    write("after", game("a", "trained", 50.0), game("b", "trained", 60.0))
    write("before", game("a", "trained", 60.0), game("b", "trained", 70.0))
    result = run("after", "before")
    assert result.exit_code == 0
    none = "0.00% (0.00% to 84.19%)"
    rates = f"above the budget {none}, rules broken {none}, budget stated {none}"
    assert result.stdout.splitlines() == [
        "2 games on 2 products are in both (of 2, 2); mean rewards with 95 % intervals",
        f"  after (trained): 0.625 [0.500, 0.750]; {rates}",
        f"  before (trained): 0.375 [0.250, 0.500]; {rates}",
        "after less before, paired: +0.250 [+0.250, +0.250], p 0.0010",
    ]


def test_only_games_that_are_in_both_tables_count() -> None:
    write("one", game("a", "x", 50.0), game("a", "x", 80.0, round=1), game("b", "x", 40.0))
    write("other", game("b", "y", 60.0), game("a", "y", 50.0), game("c", "y", 40.0))
    found = json.loads(run("one", "other", "--json").stdout)
    assert (found["games"], found["products"]) == (2, 2)
    assert (found["firsts"][0]["reward"]["value"], found["second"]["reward"]["value"]) == (0.875, 0.625)
    assert found["difference"]["value"] == 0.25
    assert (found["firsts"][0]["buyer"], found["second"]["buyer"]) == ("x", "y")


def test_several_trainings_are_compared_by_their_mean_over_the_games_that_all_of_them_played() -> None:
    # Rewards of 0.75 and 0.25 over product a, 0.5 and 0.5 over b: 0.5 on either, a quarter above the script.
    write("seed0", game("a", "trained", 50.0), game("b", "trained", 60.0), game("c", "trained", 40.0))
    write("seed1", game("a", "trained", 70.0), game("b", "trained", 60.0))
    write("script", *(game(product, "cue_ladder", 70.0) for product in "abc"))
    result = run("seed0", "seed1", "script")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "2 games on 2 products are in all (of 3, 2, 3); mean rewards with 95 % intervals"
    assert [line.split(":")[0] for line in lines[1:4]] == [
        "  seed0 (trained)",
        "  seed1 (trained)",
        "  script (cue_ladder)",
    ]
    assert lines[4].startswith("the mean of 2 less script, paired: +0.250 [")
    found = json.loads(run("seed0", "seed1", "script", "--json").stdout)
    assert [side["reward"]["value"] for side in found["firsts"]] == [0.625, 0.375]
    # Of each training alone the products say 0.375 and 0.125.
    assert found["difference"]["low"] < 0.125 and found["difference"]["high"] > 0.375


def test_of_a_table_with_several_buyers_and_sellers_those_that_are_named_are_compared() -> None:
    write("all", game("a", "trained", 50.0), game("b", "trained", 60.0), game("a", "cue_ladder", 60.0))
    stronger = episodes_frame([game("a", "trained", 70.0), game("a", "cue_ladder", 80.0)])
    other = stronger.with_columns(seller=pl.lit("stronger"))
    write_parquet("data/rollouts/all/00001.parquet", other)
    found = json.loads(run("all:trained", "all:cue_ladder", "--seller", "training", "--json").stdout)
    assert (found["games"], found["difference"]["value"]) == (1, 0.25)
    lines = run("all:trained", "all:cue_ladder", "--seller", "stronger").stdout.splitlines()
    assert lines[1].startswith("  all:trained (trained): 0.250;")
    refused = run("all", "all:cue_ladder")
    assert refused.exit_code == 1
    assert "expected one buyer in table 1, got cue_ladder, trained; name one of several behind" in refused.stderr
    assert "has no buyer 'staller'; it has cue_ladder, trained" in run("all:staller", "all:trained").stderr
    assert (
        "has no seller 'begging'; it has stronger, training" in run("all:trained", "all", "--seller", "begging").stderr
    )


def test_games_and_products_whose_seller_failed_one_buyer_count_for_none() -> None:
    failed = Outcome(StopReason.SELLER_FAILED, None, 1)
    write("one", replace(game("a", "x", 50.0), outcome=failed), game("b", "x", 60.0))
    write("other", game("a", "y", 50.0), game("b", "y", 70.0))
    lines = run("one", "other").stdout.splitlines()
    assert lines[0] == "1 games on 1 products are in both (of 2, 2); mean rewards with 95 % intervals"
    assert lines[2].startswith("  other (y): 0.250 ")


def test_a_game_without_a_reward_whose_seller_did_not_fail_is_refused() -> None:
    write("one", game("a", "x", 50.0))
    table = pl.read_parquet("data/rollouts/one/00000.parquet").with_columns(reward=pl.lit(None, dtype=pl.Float64))
    write_parquet("data/rollouts/other/00000.parquet", table)
    assert "expected a reward of every game in table 2, got one without" in run("one", "other").stderr


def test_a_training_that_is_named_twice_is_refused() -> None:
    write("one", game("a", "x", 50.0))
    assert "expected each training once, got one, one" in run("one", "one", "one").stderr


def test_one_table_alone_is_refused() -> None:
    write("one", game("a", "x", 50.0))
    result = run("one")
    assert result.exit_code == 2 and "Missing argument" in result.stderr


def test_a_category_alone_is_compared() -> None:
    write("one", game("a", "x", 50.0), game("b", "x", 40.0, category="Toys"))
    write("other", game("a", "y", 50.0), game("b", "y", 60.0, category="Toys"))
    found = json.loads(run("one", "other", "--category", "Toys", "--json").stdout)
    assert (found["games"], found["difference"]["value"]) == (1, 0.5)
    assert found["difference"]["low"] is None  # of a single product


def test_what_a_buyer_did_wrong_is_counted_for_each() -> None:
    write("one", game("a", "x", 90.0), game("b", "x", None), game("c", "x", 50.0), game("d", "x", 50.0))
    write("other", *(game(product, "y", 50.0) for product in "abcd"))
    found = json.loads(run("one", "other", "--json").stdout)
    assert found["firsts"][0]["safety"]["overshoot_rate"]["value"] == 0.25
    assert found["firsts"][0]["safety"]["invalid_rate"]["value"] == 0.25
    clean = {"value": 0.0, "low": 0.0, "high": pytest.approx(0.602, abs=0.001), "games": 4}
    assert found["second"]["safety"]["invalid_rate"] == clean


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ((game("a", "x", 50.0), game("b", "y", 50.0)), "expected one buyer in table 1"),
        ((game("a", "x", 50.0), game("a", "x", 60.0)), "expected each game once in table 1, got one twice"),
        ((game("z", "x", 50.0),), "expected tables with games on the same scenarios, rounds and seller"),
    ],
)
def test_tables_that_cannot_be_paired_are_refused_in_one_line(first: tuple[Episode, ...], problem: str) -> None:
    write("one", *first)
    write("other", game("a", "y", 50.0))
    result = run("one", "other")
    assert (result.exit_code, result.stdout) == (1, "")
    assert problem in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize(("column", "value"), [("seed", 9), ("budget", 70.0), ("list_price", 90.0)])
def test_scenarios_that_only_share_their_name_are_not_compared(column: str, value: float) -> None:
    write("one", game("a", "x", 50.0))
    table = pl.read_parquet("data/rollouts/one/00000.parquet").with_columns(pl.lit(value).alias(column))
    write_parquet("data/rollouts/other/00000.parquet", table)
    assert f"expected the same scenarios in all tables, got another {column} in one" in run("one", "other").stderr


def test_games_by_other_rules_are_not_compared() -> None:
    for name, turns in (("one", 6), ("other", 3)):
        write(name, game("a", "x", 50.0))
        write_json(f"data/rollouts/{name}/rollout.json", {"game": {"max_turns": turns}})
    result = run("one", "other")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "expected games by the same rules, got {'max_turns': 6} and {'max_turns': 3}" in result.stderr


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 2.0])
def test_a_reward_that_cannot_be_is_refused(reward: float) -> None:
    write("one", game("a", "x", 50.0))
    table = pl.read_parquet("data/rollouts/one/00000.parquet").with_columns(reward=pl.lit(reward))
    write_parquet("data/rollouts/other/00000.parquet", table)
    assert "expected rewards from -1 to 1 in table 2" in run("one", "other").stderr


def test_files_of_one_rollout_may_differ_in_columns_that_are_not_counted_and_in_the_width_of_numbers() -> None:
    write("one", game("a", "x", 50.0), game("b", "x", 60.0))
    half = episodes_frame([game("a", "y", 60.0)]).with_columns(dollars=pl.lit(0.5), answers=pl.lit(1))
    write_parquet("data/rollouts/other/00000.parquet", half)
    write_parquet("data/rollouts/other/00001.parquet", episodes_frame([game("b", "y", 70.0)]))
    assert json.loads(run("one", "other", "--json").stdout)["difference"]["value"] == 0.25
    write_parquet("data/rollouts/turned/00000.parquet", episodes_frame([game("b", "y", 70.0)]))
    write_parquet("data/rollouts/turned/00001.parquet", half)
    assert json.loads(run("one", "turned", "--json").stdout)["difference"]["value"] == 0.25
    narrow = pl.read_parquet("data/rollouts/one/00000.parquet").with_columns(pl.col("round").cast(pl.Int32))
    write_parquet("data/rollouts/narrow/00000.parquet", narrow)
    assert json.loads(run("one", "narrow", "--json").stdout)["difference"]["value"] == 0.0


@pytest.mark.parametrize("kept", [0, 8, 2000])
def test_a_torn_file_among_whole_ones_is_refused_in_one_line(kept: int) -> None:
    write("one", game("a", "x", 50.0))
    whole = Path("data/rollouts/one/00000.parquet").read_bytes()
    Path("data/rollouts/one/00001.parquet").write_bytes(whole[:kept])
    result = run("one", "one")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "one" in result.stderr and result.stderr.count("\n") == 1


def test_a_table_whose_name_reads_as_a_pattern_is_itself_alone() -> None:
    for name, price in (("a*", 50.0), ("ab", 60.0)):
        write_parquet(f"data/rollouts/{name}.parquet", episodes_frame([game("a", "x", price)]))
    assert json.loads(run("a*", "ab", "--json").stdout)["difference"]["value"] == 0.25


def test_an_unknown_table_and_an_unknown_category_are_named_beside_those_that_are_there() -> None:
    write("one", game("a", "x", 50.0))
    assert "there is no table 'two' in data/rollouts yet; there are one;" in run("one", "two").stderr
    assert "has no category 'Toys'; it has Home" in run("one", "one", "--category", "Toys").stderr


def test_a_table_without_a_column_that_is_counted_is_refused() -> None:
    write("one", game("a", "x", 50.0))
    write_parquet("data/rollouts/two/00000.parquet", pl.read_parquet("data/rollouts/one/00000.parquet").drop("reward"))
    result = run("one", "two")
    assert result.exit_code == 1
    assert "the column reward" in result.stderr
