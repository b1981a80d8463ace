"""The report in a real browser, from disk: it needs no network, its filters work, and its text stays text."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import stages.report
from dealwright.evaluation.compare import evaluate_games
from dealwright.files import write_json, write_parquet, write_text
from dealwright.params import load_params
from tests.browsing import open_browser, watched
from tests.synthetic import AGGRESSIVE, NAIVE, PERSUASION, final_games

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the stage writes for 384 games."""
    root = tmp_path_factory.mktemp("project")
    careless = replace(PERSUASION, invalid=0.2)
    buyers = {"trained": careless, "warmstart": NAIVE, "cue_ladder": AGGRESSIVE}
    games = final_games(buyers, ("training", "begging"), 32, 2, f"{EVIL} kettle")
    write_parquet(root / "data/rollouts/evaluation.parquet", games)
    write_json(root / "reports/evaluation.json", evaluate_games(games, "cue_ladder", load_params().evaluate, None))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        stages.report.main()
    return root / "reports"


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    with open_browser() as browser:
        yield browser


def test_the_report_opens_from_disk_and_shows_the_provenance_beside_it(reports: Path, browser: "Browser") -> None:
    facts = '{"git_revision": "<b>07f6b49</b>", "machine": {"cores": 2}, "training_hours": 0.1}'
    write_text(reports / "provenance.js", f"provenance({facts});\n")
    page, watch = watched(browser)
    page.goto((reports / "index.html").as_uri())
    assert page.locator("h2", has_text="Results on the test products").is_visible()
    assert "<b>07f6b49</b>" in page.locator("#facts").inner_text()
    assert all(url.startswith("file:") for url in watch.requests)
    assert watch.errors == []


def test_a_game_is_found_by_filters_and_read_with_both_views(reports: Path, browser: "Browser") -> None:
    page, watch = watched(browser)
    page.goto((reports / "games/index.html").as_uri())
    assert page.locator("#count").inner_text() == "384 of 384 games"
    page.select_option("select[name=buyer]", "trained")
    page.select_option("select[name=seller]", "begging")
    page.select_option("select[name=stop]", "deal")
    page.fill("input[name=from]", "0.5")
    page.locator("input[name=from]").blur()
    page.wait_for_function("document.querySelectorAll('#rows tr').length < 50")
    rows = page.locator("#rows tr").all_inner_texts()
    assert rows and all("trained buyer" in row and "begging" in row and "deal at $" in row for row in rows)
    assert all(float(row.split()[-1]) >= 0.5 for row in rows)
    page.locator("#rows a").first.click()
    game = page.locator("article.game")
    game.wait_for()
    assert game.locator("h2").inner_text().startswith(f"{EVIL} kettle")
    assert "the buyer alone" in game.inner_text() and "thinks: my cost is" in game.inner_text()
    game.get_by_text("what the buyer saw").click()
    seen = game.inner_text()
    assert "thinks: ask" in seen and "thinks: my cost is" not in seen and "Cost C" not in seen
    game.get_by_text("what the seller saw").click()
    seen = game.inner_text()
    assert "thinks: my cost is" in seen and "thinks: ask" not in seen and "Budget B" not in seen
    assert [url.rsplit("/", 1)[1] for url in watch.requests if "games-" in url] == ["games-0.js"]
    assert watch.errors == []


def test_a_view_can_be_linked_and_left_by_going_back(reports: Path, browser: "Browser") -> None:
    page, watch = watched(browser)
    page.goto(f"{(reports / 'games/index.html').as_uri()}#buyer=warmstart&seller=training&game=130")
    chart = page.locator("article.game svg")
    chart.wait_for()
    assert page.locator("#count").inner_text() == "64 of 384 games"
    label = chart.get_attribute("aria-label")
    assert label is not None and "P $" in label and "offers $" in label
    title = page.locator("article.game h2").inner_text()
    page.get_by_text("game after").click()
    page.wait_for_function("title => document.querySelector('article.game h2').innerText !== title", arg=title)
    page.go_back()
    page.wait_for_function("title => document.querySelector('article.game h2').innerText === title", arg=title)
    page.get_by_text("Show all").click()
    page.wait_for_function("document.querySelector('#count').innerText === '384 of 384 games'")
    assert watch.errors == []


def test_a_message_that_broke_the_rules_is_shown_to_the_side_that_wrote_it_alone(
    reports: Path, browser: "Browser"
) -> None:
    page, _ = watched(browser)
    page.goto(f"{(reports / 'games/index.html').as_uri()}#buyer=trained&stop=invalid")
    page.locator("#rows a").first.click()
    raw = page.get_by_text("Thought: hm")
    raw.wait_for()
    page.get_by_text("what the seller saw").click()
    assert raw.is_hidden() and page.get_by_text("Broke the rules of a message").is_visible()


@pytest.mark.parametrize("name", ["index.html", "games/index.html#game=3"])
def test_nothing_is_wider_than_a_phone_and_the_dark_is_dark(reports: Path, browser: "Browser", name: str) -> None:
    page, _ = watched(browser, width=390)
    page.emulate_media(color_scheme="dark")
    page.goto(f"{reports.as_uri()}/{name}")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_the_printed_report_fills_its_pages(reports: Path, browser: "Browser") -> None:
    page, _ = watched(browser)
    page.goto((reports / "index.html").as_uri())
    printed = page.pdf(format="A4")
    assert printed.count(b"/Type /Page\n") in (7, 8, 9)  # half-empty ones made it ten
