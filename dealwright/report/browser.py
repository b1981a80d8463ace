"""The transcript browser, reports/games/: every evaluation game, to be found by filters and read message by message.

A page of filters, an index of all games in columns, and the messages in files of some hundred games, of which the page
loads the one that it needs. All are scripts, because a page opened from disk may load those and no other data.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl

from dealwright.files import replacing_folder, write_text
from dealwright.report.page import TEMPLATES, render
from dealwright.report.transcripts import Line, told
from dealwright.report.words import STOPS, buyer_name, plain, sorted_buyers, sorted_sellers

FOLDER = "games"
GAMES_IN_A_FILE = 128
PRODUCT = ["title", "description", "list_price", "budget", "cost"]


def write_browser(games: pl.DataFrame | None, best_script: str | None, reports: Path) -> int:
    """Write the browser's folder beside the report, whole, and return how many bytes it has."""
    with replacing_folder(reports / FOLDER) as folder:
        for name, text in browser_files(games, best_script):
            write_text(folder / name, text)
        return sum(path.stat().st_size for path in folder.iterdir())


def browser_files(games: pl.DataFrame | None, best_script: str | None) -> Iterator[tuple[str, str]]:
    """Yield the browser's files by name; without games, a page that says so."""
    played = games if games is not None else pl.DataFrame()
    choices = _choices(played, best_script) if played.height else {}
    yield "index.html", render("browser.html.j2", choices=choices, count=played.height)
    yield "browser.js", (TEMPLATES / "browser.js").read_text(encoding="utf-8")
    if not choices:
        return
    yield "index.js", f"index({_compact(_index(played, choices))});\n"
    for number, part in enumerate(played.iter_slices(GAMES_IN_A_FILE)):
        rows = [
            [row["offers"], row["asks"], [_message(line) for line in told(row)]] for row in part.iter_rows(named=True)
        ]
        yield f"games-{number}.js", f"games({number}, {_compact(rows)});\n"


def _choices(games: pl.DataFrame, best_script: str | None) -> dict[str, list[tuple[str, str]]]:
    """Return what can be chosen in each filter, as names and words; a game's number in a column is its place here."""
    present = {name: games[name].unique().to_list() for name in ("buyer", "seller", "category", "stop")}
    return {
        "buyer": [(name, buyer_name(name)) for name in sorted_buyers(present["buyer"], best_script)],
        "seller": [(name, plain(name)) for name in sorted_sellers(present["seller"])],
        "category": [(name, name) for name in sorted(present["category"])],
        "stop": [(name, words) for name, words in STOPS.items() if name in present["stop"]],
    }


def _index(games: pl.DataFrame, choices: dict[str, list[tuple[str, str]]]) -> dict[str, Any]:
    """Return the scenarios, and for each game in columns which scenario, buyer and so on it has."""
    scenarios = games.unique("scenario_id", keep="first", maintain_order=True)
    places = {name: [value for value, _ in listed] for name, listed in choices.items()}
    places["scenario_id"] = scenarios["scenario_id"].to_list()
    columns = games.select(
        *(pl.col(name).replace_strict(known, range(len(known))) for name, known in places.items()),
        *("round", "turns", "price"),
        pl.col("reward").round(3),
    )
    return {
        "size": GAMES_IN_A_FILE,
        "scenarios": [list(row) for row in scenarios.select(PRODUCT).iter_rows()],
        "games": columns.rename({"scenario_id": "scenario"}).to_dict(as_series=False),
    }


def _message(line: Line) -> list[Any]:
    """Return a message as the page reads it; who speaks and in which turn follows from its place."""
    return [line.thought, line.talk, line.action, line.argument, line.refused, line.raw]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
