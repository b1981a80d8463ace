"""Games told message by message, with what each side knew and what it kept to itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from dealwright.agents.arguments import detect_argument
from dealwright.game import ActionKind, Message, Role, StopReason, format_price, parse_message
from dealwright.report.drawing import BLUE, GREEN, INK, VERMILION, Picture, drawing, spread
from dealwright.report.words import STOPS, money, plain

Row = Mapping[str, Any]
LABEL_HEIGHT = 0.13  # of the chart's axis, for a letter beside it


@dataclass(frozen=True, slots=True)
class Line:
    """One message: its private and its public part, the argument in it, and what the regulator refused before it.

    `raw` is set for a message that broke the rules, which has no parts.
    """

    role: str
    turn: int
    thought: str
    talk: str
    action: str
    argument: str | None
    refused: tuple[tuple[str, str], ...]
    raw: str | None


@dataclass(frozen=True, slots=True)
class Transcript:
    """A game with why it is shown, its lines and its picture; `game` is its row."""

    why: str
    rule: str
    game: Row
    ending: str
    lines: tuple[Line, ...]
    picture: Picture


def choose_three(games: pl.DataFrame, buyer: str, seller: str) -> list[Transcript]:
    """Return a good deal, an agreement with an argument and a failure of a buyer against one seller.

    Rules, not taste, choose them; a kind that no game shows is left out, and no game is shown twice.
    """
    order = ["scenario_id", "round"]
    chosen = games.filter((pl.col("buyer") == buyer) & (pl.col("seller") == seller) & pl.col("reward").is_not_null())
    chosen = chosen.sort(order)
    deals = chosen.filter((pl.col("stop") == StopReason.DEAL) & (pl.col("reward") > 0))
    argued = deals.filter(pl.col("arguments").list.len() > 0)
    typical = argued.with_columns(distance=(pl.col("reward") - pl.col("reward").median()).abs())
    rules = [
        (
            "A good deal",
            "the deal with the highest reward",
            deals.sort("reward", *order, descending=[True, False, False]),
        ),
        (
            "An agreement with an argument",
            "of the deals in which the buyer argued, the one nearest to their median reward",
            typical.sort("distance", *order).drop("distance"),
        ),
        (
            "A failure",
            "the game with the lowest reward, the longest where several share it",
            chosen.filter(pl.col("reward") <= 0).sort(
                "reward", "turns", *order, descending=[False, True, False, False]
            ),
        ),
    ]
    shown: list[Transcript] = []
    for why, rule, candidates in rules:
        for row in candidates.head(3).iter_rows(named=True):
            if all(
                (row["scenario_id"], row["round"]) != (item.game["scenario_id"], item.game["round"]) for item in shown
            ):
                shown.append(tell(row, why, rule, f"game-{len(shown) + 1}"))
                break
    return shown


def tell(game: Row, why: str, rule: str, name: str) -> Transcript:
    """Return a row of an episodes table as a transcript; `name` is unique in the page."""
    return Transcript(why, rule, game, _ending(game), told(game), _picture(game, name))


def told(game: Row) -> tuple[Line, ...]:
    """Return the messages of a row of an episodes table, in the order in which they were sent."""
    refused: dict[int, list[tuple[str, str]]] = {}
    for item in game["interventions"]:
        refused.setdefault(item["turn"], []).append((plain(item["reason"]), item["text"]))
    lines = [
        _line(Role(message["role"]), place // 2 + 1, message["text"], refused)
        for place, message in enumerate(game["messages"])
    ]
    for turn, before in refused.items():  # of a seller whose backend failed then, so that it sent nothing
        lines.append(Line(Role.SELLER.value, turn, "", "", "sends nothing", None, tuple(before), None))
    return tuple(lines)


def _line(role: Role, turn: int, text: str, refused: dict[int, list[tuple[str, str]]]) -> Line:
    before = tuple(refused.pop(turn, ())) if role is Role.SELLER else ()
    message = parse_message(text, role)
    if message is None:
        return Line(role.value, turn, "", "", "", None, before, text)
    argument = detect_argument(message.talk) if role is Role.BUYER else None
    return Line(
        role.value, turn, message.thought, message.talk, _action(message),
        plain(argument) if argument else None, before, None,
    )  # fmt: skip


def _action(message: Message) -> str:
    action = message.action
    words = {
        ActionKind.BUY: "offers",
        ActionKind.SELL: "asks",
        ActionKind.REJECT: "declines",
        ActionKind.DEAL: "accepts",
        ActionKind.QUIT: "walks away",
    }
    return words[action.kind] if action.price is None else f"{words[action.kind]} {format_price(action.price)}"


def _ending(game: Row) -> str:
    stop = STOPS[game["stop"]]
    return f"{stop} at {money(game['price'])}" if game["price"] is not None else stop


def _picture(game: Row, name: str) -> Picture:
    offers, asks = _amounts(game["offers"]), _amounts(game["asks"])
    words = (
        f"list price {money(game['list_price'])}, budget {money(game['budget'])}, cost {money(game['cost'])}; "
        f"offers {', '.join(money(amount) for _, amount in offers) or 'none'}; "
        f"asks {', '.join(money(amount) for _, amount in asks) or 'none'}; {_ending(game)}"
    )
    with drawing(name, "Offers and asks by turn", words, 2.2) as canvas:
        axes = canvas.axes
        turns = max(2, len(game["offers"]))
        top = 1.06 * max(game["list_price"], *(amount for _, amount in [*offers, *asks]), game["budget"])
        prices = [game["list_price"], game["budget"], game["cost"]]
        heights = spread(prices, top * LABEL_HEIGHT)
        for symbol, price, height, colour, dash in zip(
            "PBC", prices, heights, (INK, BLUE, VERMILION), (":", "--", "--"), strict=True
        ):
            axes.axhline(price, color=colour, linestyle=dash, linewidth=1)
            axes.annotate(
                symbol, (1, height), xycoords=("axes fraction", "data"), xytext=(4, 0), textcoords="offset points",
                va="center", color=colour, weight="bold",
            )  # fmt: skip
        if offers:
            axes.plot(*zip(*offers, strict=True), color=BLUE, marker="o", label="offer")
        if asks:
            axes.plot(*zip(*asks, strict=True), color=VERMILION, marker="s", label="ask")
        if game["price"] is not None:
            axes.plot(
                [game["turns"]],
                [game["price"]],
                color=GREEN,
                marker="*",
                markersize=13,
                linestyle="none",
                label="deal",
            )
        axes.set_xlim(0.7, turns + 0.3)
        axes.set_xticks(range(1, turns + 1))
        axes.set_ylim(0, top)
        axes.set_xlabel("turn")
        axes.set_ylabel("dollars")
        if offers or asks:
            axes.figure.legend(loc="outside upper left", ncols=3)
    return canvas.picture


def _amounts(column: list[float | None]) -> list[tuple[int, float]]:
    return [(turn, amount) for turn, amount in enumerate(column, start=1) if amount is not None]
