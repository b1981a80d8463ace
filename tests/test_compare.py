"""`dealwright compare` pairs two tables of games, and says what is wrong with tables that cannot be."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from dealwright.cli import main
from dealwright.files import write_parquet
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
        "2 games on 2 products, mean rewards with 95 % intervals",
        f"  after (trained): 0.625 [0.500, 0.750]; {rates}",
        f"  before (trained): 0.375 [0.250, 0.500]; {rates}",
        "after less before, paired: +0.250 [+0.250, +0.250], p 0.0010",
    ]


def test_only_games_that_are_in_both_tables_count() -> None:
    write("one", game("a", "x", 50.0), game("a", "x", 80.0, round=1), game("b", "x", 40.0))
    write("other", game("b", "y", 60.0), game("a", "y", 50.0), game("c", "y", 40.0))
    found = json.loads(run("one", "other", "--json").stdout)
    assert (found["games"], found["products"]) == (2, 2)
    assert found["difference"]["value"] == 0.25
    assert (found["first"]["buyer"], found["second"]["buyer"]) == ("x", "y")


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
    assert found["first"]["safety"]["overshoot_rate"]["value"] == 0.25
    assert found["first"]["safety"]["invalid_rate"]["value"] == 0.25
    clean = {"value": 0.0, "low": 0.0, "high": pytest.approx(0.602, abs=0.001), "games": 4}
    assert found["second"]["safety"]["invalid_rate"] == clean


@pytest.mark.parametrize(
    ("first", "problem"),
    [
        ((game("a", "x", 50.0), game("b", "y", 50.0)), "expected a table with one buyer"),
        ((game("a", "x", 50.0), game("a", "x", 60.0)), "expected each game of x once, got one twice"),
        ((game("z", "x", 50.0),), "expected two tables with games on the same scenarios, rounds and seller"),
    ],
)
def test_tables_that_cannot_be_paired_are_refused_in_one_line(first: tuple[Episode, ...], problem: str) -> None:
    write("one", *first)
    write("other", game("a", "y", 50.0))
    result = run("one", "other")
    assert (result.exit_code, result.stdout) == (1, "")
    assert problem in result.stderr and result.stderr.count("\n") == 1


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
