"""The transcript browser: every game is there, told whole, and no text of it is ever markup."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dealwright.game import Negotiation, Role
from dealwright.report.browser import browser_files, write_browser
from dealwright.report.transcripts import told
from dealwright.rollout import Intervention, episodes_frame, finished
from tests.synthetic import NAIVE, PERSUASION, final_games, make_scenarios

EVIL = "<script>alert(1)</script>"
SELLERS = ("training", "begging")


@pytest.fixture(scope="module")
def games() -> pl.DataFrame:
    return final_games({"warmstart": NAIVE, "trained": PERSUASION}, SELLERS, 24, 2, f"{EVIL} kettle")


@pytest.fixture(scope="module")
def files(games: pl.DataFrame) -> dict[str, str]:
    return dict(browser_files(games, "cue_ladder"))


def called(text: str) -> list[Any]:
    """Return what a script calls its function with."""
    found = re.fullmatch(r"(?:index|games)\((.*)\);\n", text)
    assert found is not None
    arguments: list[Any] = json.loads(f"[{found[1]}]")
    return arguments


def test_every_game_is_told_in_one_of_the_files_in_the_order_of_the_index(
    games: pl.DataFrame, files: dict[str, str]
) -> None:
    assert list(files) == ["index.html", "browser.js", "index.js", "games-0.js", "games-1.js"]
    (index,) = called(files["index.js"])
    first, second = (called(files[f"games-{number}.js"]) for number in (0, 1))
    assert (first[0], second[0]) == (0, 1)
    told_games = first[1] + second[1]
    assert len(first[1]) == index["size"] == 128
    assert len(told_games) == games.height == 192
    for game, (offers, asks, lines) in enumerate(told_games):
        row = games.row(game, named=True)
        assert (offers, asks) == (row["offers"], row["asks"])
        assert len(lines) >= len(row["messages"])
        assert index["scenarios"][index["games"]["scenario"][game]][0] == row["title"]
        assert index["games"]["price"][game] == row["price"]


def test_a_choice_of_a_filter_has_the_number_that_the_index_uses(games: pl.DataFrame, files: dict[str, str]) -> None:
    (index,) = called(files["index.js"])
    for name, column in (("buyer", "buyer"), ("seller", "seller"), ("stop", "stop")):
        listed = re.search(rf'<select name="{name}">(.*?)</select>', files["index.html"], re.DOTALL)
        assert listed is not None
        values = re.findall(r'<option value="(.+?)">', listed[1])
        assert [values[number] for number in index["games"][name]] == games[column].to_list()


def test_a_product_called_like_a_script_is_text_in_every_file(files: dict[str, str]) -> None:
    assert EVIL not in files["index.html"]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in files["index.html"]
    assert "innerHTML" not in files["browser.js"] and "insertAdjacentHTML" not in files["browser.js"]


def test_the_same_games_give_the_same_bytes(games: pl.DataFrame, files: dict[str, str]) -> None:
    assert dict(browser_files(games, "cue_ladder")) == files


def test_a_message_is_told_with_its_thought_its_argument_and_what_was_refused_before_it(files: dict[str, str]) -> None:
    _, played = called(files["games-1.js"])
    lines = [line for _, _, lines in played for line in lines]
    assert any(line[0].startswith("ask ") and line[2].startswith("offers $") for line in lines)
    assert "prompt payment" in {line[3] for line in lines}
    assert ["below cost", "Action: [SELL] $1.00"] in [refused for line in lines for refused in line[4]]


def test_what_a_seller_was_refused_before_its_backend_failed_is_told_too() -> None:
    game = Negotiation(make_scenarios(1)[0])
    game.play(Role.BUYER, "Talk: Hello.\nAction: [BUY] $5")
    game.fail()
    refused = (Intervention(1, "below_cost", "Action: [SELL] $1.00"),)
    row = episodes_frame([finished(game, ("trained", "model"), refused)]).row(0, named=True)
    last = told(row)[-1]
    assert (last.role, last.turn, last.action) == ("seller", 1, "sends nothing")
    assert last.refused == (("below cost", "Action: [SELL] $1.00"),)


def test_files_of_an_earlier_run_with_more_games_do_not_stay(games: pl.DataFrame, tmp_path: Path) -> None:
    write_browser(games, None, tmp_path)
    assert (tmp_path / "games/games-1.js").is_file()
    write_browser(games.head(100), None, tmp_path)
    assert sorted(path.name for path in (tmp_path / "games").iterdir()) == [
        "browser.js",
        "games-0.js",
        "index.html",
        "index.js",
    ]


def test_without_games_the_page_says_which_stage_plays_them() -> None:
    ((name, page), _) = browser_files(None, None)
    assert name == "index.html"
    assert "dvc repro evaluate" in page and "<script" not in page
