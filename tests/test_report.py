import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest

import stages.report
from dealwright.errors import DealwrightError
from dealwright.evaluation.compare import evaluate_games
from dealwright.evaluation.selection import select_checkpoint
from dealwright.files import write_json, write_parquet
from dealwright.params import load_params
from dealwright.phases.analysis import analyse_phases
from dealwright.report.build import build_page
from dealwright.report.drawing import spread
from dealwright.report.figures_reading import reading
from dealwright.report.figures_results import by_category
from dealwright.report.figures_training import training_curves
from dealwright.report.inputs import Inputs, read_inputs
from dealwright.report.table import results_markdown, results_table
from dealwright.report.transcripts import choose_three
from dealwright.report.words import DASH, MINUS, interval, money, number, percent
from tests.synthetic import AGGRESSIVE, DEADLOCK, NAIVE, PERSUASION, Behaviour, final_games, probe_games

BUYERS = {
    "base": Behaviour(0.9, 0.6, 0.1, 0.0, 0.3),
    "warmstart": NAIVE,
    "trained": PERSUASION,
    "cue_ladder": AGGRESSIVE,
    "staller": DEADLOCK,
    "oracle": Behaviour(0.5, 1.0, 1.0, 0.0),
}
SELLERS = ("training", "stronger", "begging", "floor_only")
EVIL = "<script>alert(1)</script>"


class Page(HTMLParser):
    """Collect what a page's elements are and refer to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id" and value:
                self.ids.append(value)
            if name in ("src", "href") and value:
                self.addresses.append(value)


@pytest.fixture(scope="module")
def inputs() -> Inputs:
    """Everything that a full run leaves behind, made up."""
    params = load_params()
    games = final_games(BUYERS, SELLERS, 24, 2, f"{EVIL} $5 to $9 kettle")
    bounds = (
        games.select("scenario_id", "round", "seller")
        .unique(maintain_order=True)
        .with_columns(best_response=pl.lit(0.86))
    )
    behaviours = [NAIVE] * 6 + [AGGRESSIVE] * 6 + [DEADLOCK] * 6 + [PERSUASION] * 6
    probes = probe_games(behaviours, 32)
    steps = range(1, 241)
    return Inputs(
        ingest={
            "read": 30,
            "kept": 28,
            "rejected": 2,
            "rejected_by_reason": {"no list price": 2},
            "kept_by_category": {"Books": 14, EVIL: 14},
        },
        validation={"success": True, "evaluated": 12, "failed": [], "expectations": []},
        warmstart={},
        selection=select_checkpoint(probes, params.select),
        evaluation=evaluate_games(games, "cue_ladder", params.evaluate, bounds),
        phases=analyse_phases(probes, params.phases).figures,
        training=pl.DataFrame(
            {
                "step": steps,
                "reward": [0.6 * step / 240 + 0.05 * ((step * 7) % 5 - 2) for step in steps],
                "deal_rate": [0.9 - 0.3 * (120 < step < 180) + 0.01 * ((step * 5) % 7) for step in steps],
                "first_offer_ratio": [0.85 - 0.25 * step / 240 for step in steps],
                "bargained_ratio": [None if step < 4 else 0.3 + 0.4 * step / 240 for step in steps],
                "argument_rate": [0.15 + 0.6 * (step > 180) for step in steps],
                "entropy": [2.0 - step / 240 for step in steps],
            }
        ),
        games=games,
    )


@pytest.fixture(scope="module")
def page(inputs: Inputs) -> str:
    return build_page(inputs)


def test_the_page_holds_every_section_and_needs_nothing_from_outside(page: str) -> None:
    found = Page(page)
    sections = ["results", "training", "phases", "checkpoints", "games", "transcripts", "catalogue", "provenance"]
    assert set(sections) <= set(found.ids)
    assert [address for address in found.addresses if not address.startswith("#")] == [
        "games/index.html",
        "games/index.html#buyer=trained&seller=training",
        "validation/index.html",
        "provenance.js",
    ]
    assert found.tags.isdisjoint({"link", "img", "iframe"})
    assert "url(http" not in page and "@import" not in page


def test_every_identifier_is_unique_and_every_reference_inside_the_page_is_met(page: str) -> None:
    found = Page(page)
    assert len(found.ids) == len(set(found.ids))
    used = {address[1:] for address in found.addresses if address.startswith("#")}
    used |= set(re.findall(r"url\(#([^)]+)\)", page))
    for names in re.findall(r'aria-labelledby="([^"]+)"', page):
        used |= set(names.split())
    assert used <= set(found.ids)


def test_text_of_the_catalogue_shows_as_text(page: str) -> None:
    assert page.count("<script") == 2  # that of the provenance, and what it loads
    assert "&lt;script&gt;alert(1)&lt;/script&gt; $5 to $9 kettle" in page


def test_every_picture_has_words_for_those_who_do_not_see_it(page: str) -> None:
    pictures = page.count("<svg ")
    assert pictures >= 20
    assert page.count("<desc ") == page.count('role="img"') == pictures


def test_the_same_inputs_give_the_same_bytes(inputs: Inputs, page: str) -> None:
    assert build_page(inputs) == page


def test_the_page_says_what_the_run_shows_beside_what_the_paper_reports(page: str) -> None:
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    assert "naive bargaining the buyer starts out bargaining naively steps 0 to 50" in text
    assert "planted by the demonstrator" in text and "is planted, not found" in text
    assert "cue ladder ★" in text


def test_a_short_run_has_no_fractions_of_a_step() -> None:
    (picture,) = training_curves(pl.DataFrame({"step": [1, 2], "reward": [0.0, 1.0]}), None)
    written = re.findall(r">([^<>]+)</text>", picture.svg)
    assert {"1", "2"} < set(written) and {"1.2", "1.4", "1.5"}.isdisjoint(written)


def test_the_mark_of_a_category_without_an_interval_is_hollow() -> None:
    alone = {"value": 0.4, "low": None, "high": None, "games": 2}
    found = {"kettles": {"training": {"reward": alone}}, "chairs": {"training": {"reward": alone | CUT}}}
    picture = by_category({"by_category": found}, "training")
    assert picture is not None and picture.svg.count("fill: var(--paper); stroke: var(--blue)") == 1


def test_labels_of_prices_that_lie_close_stand_one_above_the_other() -> None:
    assert spread([160.0, 128.0, 126.0], 20.0) == [166.0, 146.0, 126.0]
    assert spread([60.0, 30.0, 10.0], 20.0) == [60.0, 30.0, 10.0]


def test_a_run_without_any_piece_still_gives_a_page_that_says_what_is_missing() -> None:
    nothing = Inputs(None, None, None, None, None, None, None, None)
    text = build_page(nothing)
    assert text.count('class="missing"') == 9
    assert "dvc repro evaluate" in text


def test_a_seller_or_a_buyer_without_games_leaves_a_dash(inputs: Inputs) -> None:
    assert inputs.games is not None
    params = load_params()
    keep = (pl.col("buyer") != "staller") | (pl.col("seller") == "training")
    some = inputs.games.filter(keep & (pl.col("buyer") != "warmstart") & (pl.col("buyer") != "oracle"))
    evaluation = evaluate_games(some, "cue_ladder", params.evaluate, None)
    text = build_page(Inputs(None, None, None, None, evaluation, None, None, some))
    assert f"<td>{DASH}</td>" in text


CUT = {"value": -0.2, "low": -0.25, "high": -0.15, "games": 48, "p_value": 0.001}


def test_bounds_and_cut_roads_of_language_are_shown_where_they_were_measured(inputs: Inputs, page: str) -> None:
    assert "what a buyer could earn that knew the seller&#39;s type" in page
    assert "belief buyer" not in page and "Does it read?" not in page
    assert inputs.evaluation is not None
    share = {"value": 0.4, "low": 0.3, "high": 0.5, "games": 40}
    more = {
        "bounds": {"belief": inputs.evaluation["bounds"]["clairvoyant"]},
        "reading": {"trained": {"cues_swapped": CUT, "hinted_share": share}, "cue_ladder": {"cues_swapped": CUT}},
    }
    text = build_page(replace(inputs, evaluation=inputs.evaluation | more)).replace(MINUS, "-")
    assert "a planner that knows how types are drawn" in text and "belief buyer 0.86" in text
    assert "best response (bound)" not in text
    assert "trained buyer, where it hints at what moves another: -0.200 (-0.250 to -0.150)" in text
    assert "choosing blindly gives 33 %" in text
    assert "the seller hints at nothing" not in text


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (-0.3, -0.1, "The trained buyer acts on the seller's hints: wrong ones cost it reward (-0.200, 95 % interval"),
        (
            -0.5,
            0.1,
            "It does not show that the trained buyer acts on the seller's hints: with wrong ones it earns the",
        ),
        (0.1, 0.2, "The trained buyer earns more with wrong hints than with right ones (0.150, 95 % interval 0.100"),
    ],
)
def test_the_verdict_on_reading_says_no_more_than_the_interval(low: float, high: float, words: str) -> None:
    figures = {"trained": {"cues_swapped": CUT | {"value": (low + high) / 2, "low": low, "high": high}}}
    found = reading({"best_script": "cue_ladder", "primary": {"seller": "training"}, "reading": figures})
    assert found is not None and found["verdict"].replace(MINUS, "-").startswith(words)


def test_three_games_are_chosen_by_rule(inputs: Inputs) -> None:
    assert inputs.games is not None
    shown = choose_three(inputs.games, "trained", "training")
    assert [item.why for item in shown] == ["A good deal", "An agreement with an argument", "A failure"]
    played = inputs.games.filter((pl.col("buyer") == "trained") & (pl.col("seller") == "training"))
    assert shown[0].game["reward"] == played["reward"].max()
    assert any(line.argument for line in shown[1].lines)
    assert shown[2].game["reward"] == played["reward"].min()


def test_a_transcript_keeps_thoughts_apart_from_what_the_other_side_saw(page: str) -> None:
    start = page.index('<article class="game"')
    game = page[start : page.index("</article>", start)]
    assert re.search(r'<p class="thought only-buyer">thinks: ask ', game)
    assert re.search(r'<p class="thought only-seller">thinks: my cost', game)
    assert 'class="only-seller">Cost C' in game


def test_the_plain_table_lines_up_and_names_the_best_script() -> None:
    evaluation = {
        "best_script": "cue_ladder",
        "products": 128,
        "primary": {"buyer": "trained", "other": "best_script", "seller": "training"},
        "buyers": {
            "trained": {"training": {"reward": {"value": 0.5, "low": 0.45, "high": 0.55, "games": 512}}},
            "cue_ladder": {"training": {"reward": {"value": 0.541, "low": 0.5, "high": 0.58, "games": 512}}},
            "best_script": {"training": {"reward": {"value": 0.541, "low": 0.5, "high": 0.58, "games": 512}}},
            "staller": {"floor_only": {"reward": {"value": -0.004, "low": None, "high": None, "games": 1}}},
        },
        "paired": {"trained": {"best_script": {"training": {"value": -0.041, "low": -0.06, "high": -0.02}}}},
        "bounds": {"clairvoyant": {"training": {"reward": {"value": 0.86, "low": 0.84, "high": 0.88}}}},
    }
    rule = "-" * 52
    assert results_table(evaluation).splitlines() == [
        "Mean reward with 95 % intervals",
        rule,
        "buyer                           training  floor_only",
        rule,
        "trained buyer          0.50 [0.45, 0.55]           -",
        "cue ladder *           0.54 [0.50, 0.58]           -",
        "staller                                -        0.00",
        "best response (bound)  0.86 [0.84, 0.88]           -",
        rule,
        "* the best script, chosen on train; 128 products",
        "trained less best script (cue ladder), training seller, paired: -0.04 [-0.06, -0.02]",
    ]
    assert "| cue ladder * | 0.54 [0.50, 0.58] | - |" in results_markdown(evaluation)


def test_numbers_read_well() -> None:
    assert [number(value) for value in (0.5, -0.004, -0.25, None)] == ["0.50", "0.00", f"{MINUS}0.25", DASH]
    assert percent(0.1234, 1) == "12.3 %"
    assert money(1234.5) == "$1,234.50"
    assert interval({"value": 0.5, "low": None, "high": None}) == ""


def test_inputs_are_read_from_a_project_and_a_broken_file_is_named(tmp_path: Path) -> None:
    write_json(tmp_path / "reports/ingest.json", {"read": 1, "kept": 1, "rejected": 0})
    (tmp_path / "reports/training.csv").write_text("step,reward\n1,0.5\n")
    found = read_inputs(tmp_path)
    assert found.ingest == {"read": 1, "kept": 1, "rejected": 0}
    assert found.training is not None and found.training.rows() == [(1, 0.5)]
    assert found.evaluation is None and found.games is None
    (tmp_path / "reports/phases.json").write_text("{")
    with pytest.raises(DealwrightError, match=r"phases\.json is missing or unreadable; delete it"):
        read_inputs(tmp_path)


def test_the_stage_writes_the_page_from_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_parquet(tmp_path / "data/rollouts/evaluation.parquet", final_games({"trained": NAIVE}, ["training"], 4))
    monkeypatch.chdir(tmp_path)
    stages.report.main()
    assert "Three games of the trained buyer" in Path("reports/index.html").read_text(encoding="utf-8")
    assert Path("reports/games/games-0.js").is_file()
    assert capsys.readouterr().out.startswith("reports/index.html written")
