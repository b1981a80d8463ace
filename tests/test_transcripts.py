"""`dealwright transcripts` prints games, chosen by what they are."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner, Result

from dealwright.cli import main
from dealwright.cli.telling import printable
from dealwright.files import write_parquet
from dealwright.game import Outcome, Product, Scenario, StopReason
from dealwright.rollout import Episode, Intervention, episodes_frame

LAMP = Product("p1", "Desk \x1b[31mlamp", "Home", "", 100.0, 40.0, 100.0)
SHOE = Product("p2", "Running shoe", "Sport", "", 50.0, 30.0, 50.0)


def episode(product: Product, buyer: str, seller: str, stop: StopReason, price: float | None) -> Episode:
    scenario = Scenario(
        product.id, product, product.list_price, product.lowest_price, 0.8 * product.list_price, 1, "test"
    )
    last = f"Talk: fine\nAction: [DEAL] ${price}" if price else "Talk: no\nAction: [QUIT]"
    messages = (
        ("buyer", f"Thought: bid low\nTalk: It is scratched.\nAction: [BUY] ${price or 10}"),
        ("seller", last),
    )
    refused = (Intervention(1, "below_cost", "Action: [SELL] $1"),) if price else ()
    return Episode(scenario, buyer, seller, 0, messages, Outcome(stop, price, 1), refused)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project with three games in one table and one in another."""
    monkeypatch.chdir(tmp_path)
    games = [
        episode(LAMP, "trained", "training", StopReason.DEAL, 60.0),
        episode(SHOE, "trained", "begging", StopReason.SELLER_QUIT, None),
        episode(SHOE, "staller", "training", StopReason.DEAL, 40.0),
    ]
    write_parquet("data/rollouts/evaluation.parquet", episodes_frame(games))
    write_parquet("data/rollouts/training.parquet", episodes_frame(games[:1]))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["transcripts", *arguments])


def titles(*arguments: str) -> list[tuple[str, str]]:
    return [(game["title"], game["buyer"]) for game in json.loads(run(*arguments, "--json").stdout)]


def test_a_game_is_told_with_thoughts_refusals_and_the_hidden_numbers(project: Path) -> None:
    result = run("--category", "Home")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Desk [31mlamp (Home)   trained and training, round 0",
        "list price $100.00, budget $80.00, cost $40.00 (mutual zone)",
        "      (buyer thinks) bid low",
        "  buyer> [BUY] $60.00   It is scratched.",
        "      (refused: below_cost) Action - [SELL] $1",
        "  seller> [DEAL] $60.00   fine",
        "deal at $60.00 in turn 1",
        "the buyer's reward is +0.50 (1: at cost, 0: no gain, -1: above the budget or broken rules)",
        "",
        "1 of 1 games of data/rollouts/evaluation.parquet",
    ]


def test_what_a_terminal_may_obey_or_cannot_show_is_left_out() -> None:
    assert printable("lamp\x1b[31m\n\ue000and\u202e more") == "lamp[31m and more"


def test_a_message_that_broke_the_rules_is_shown_as_it_was(project: Path) -> None:
    broken = replace(
        episode(LAMP, "trained", "training", StopReason.INVALID, None), messages=(("buyer", "Give it\nto me"),)
    )
    write_parquet("data/rollouts/validation.parquet", episodes_frame([broken]))
    shown = run("validation").stdout.splitlines()
    assert shown[2:4] == ["  buyer> (breaks the rules) Give it to me", "invalid in turn 1"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--buyer", "trained"], [LAMP, SHOE]),
        (["--seller", "training"], [LAMP, SHOE]),
        (["--buyer", "trained", "--seller", "begging"], [SHOE]),
        (["--category", "Sport", "--outcome", "deal"], [SHOE]),
        (["--outcome", "seller_quit"], [SHOE]),
        (["--reward", "0.5", "1"], [LAMP]),
        (["--reward", "-1", "0"], [SHOE, SHOE]),
        (["--limit", "1"], [LAMP]),
        (["training"], [LAMP]),
    ],
)
def test_games_are_chosen_by_what_they_are(arguments: list[str], expected: list[Product], project: Path) -> None:
    assert [title for title, _ in titles(*arguments)] == [product.title for product in expected]


def test_the_trained_buyers_games_come_first_and_each_buyers_stay_as_they_were_played(project: Path) -> None:
    played = [("base", SHOE), ("adaptive", LAMP), ("trained", SHOE), ("warmstart", LAMP), ("trained", LAMP)]
    games = [episode(product, buyer, "training", StopReason.DEAL, 40.0) for buyer, product in played]
    write_parquet("data/rollouts/evaluation.parquet", episodes_frame(games))
    assert titles() == [
        (SHOE.title, "trained"),
        (LAMP.title, "trained"),
        (LAMP.title, "warmstart"),
        (SHOE.title, "base"),
        (LAMP.title, "adaptive"),
    ]


def test_what_was_left_out_is_said(project: Path) -> None:
    last = run("--limit", "2").stdout.splitlines()[-1]
    assert last == "2 of 3 games of data/rollouts/evaluation.parquet; --limit 3 prints them all"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--buyer", "nobody"], "data/rollouts/evaluation.parquet has no buyer 'nobody'; it has staller, trained"),
        (["--outcome", "max_turns"], "has no outcome 'max_turns'; it has deal, seller_quit"),
        (
            ["--buyer", "staller", "--seller", "begging"],
            "no game of data/rollouts/evaluation.parquet fits all of",
        ),
        (["reference"], "there is no table 'reference' in data/rollouts yet; there are evaluation, training"),
        (["../secret"], "there is no table '../secret' in data/rollouts yet; there are evaluation, training"),
    ],
)
def test_what_fits_no_game_is_named_with_what_there_is(arguments: list[str], message: str, project: Path) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_table_that_is_none_is_one_line(project: Path) -> None:
    (project / "data/rollouts/broken.parquet").write_bytes(b"PAR1 cut short")
    write_parquet("data/rollouts/other.parquet", pl.DataFrame({"a": [1]}))
    problems = {
        "broken": "is no readable table of games; run `dvc repro` to make it",
        "other": "is not as the pipeline writes it: expected the column title, got a; run `dvc repro` again",
    }
    for name, problem in problems.items():
        result = run(name, "--buyer", "trained")
        assert result.exit_code == 1
        assert result.stderr == f"error: data/rollouts/{name}.parquet {problem}\n"


def test_before_the_first_run_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    there_is_none = "error: there is no table 'evaluation' in data/rollouts yet"
    assert run().stderr == f"{there_is_none}; `dvc repro` and `dealwright rollout` make them\n"
