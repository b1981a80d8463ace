"""What a person at the table sees and types."""

import re
import textwrap
from collections.abc import Sequence

import click

from dealwright.cli.telling import ending, gained, prices, printable, told
from dealwright.game import (
    OFFERS,
    Action,
    ActionKind,
    Message,
    Negotiation,
    Regulator,
    Role,
    Violation,
    find_money,
    format_message,
    format_price,
    parse_message,
    reward,
    round_down,
    round_up,
)

WIDTH = 88
LINE = 44
_ANSWER = re.compile(r"(?P<what>deal|reject|quit|\$?[0-9][0-9.,]*)(?:[\s,;:.]+(?P<talk>.*))?", re.IGNORECASE)
_PRICE = re.compile(r"\$?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]{1,2})?", re.ASCII)
# What people type for the words that a game knows.
_MEANT = {
    **dict.fromkeys(("accept", "agreed", "done", "ok", "okay", "sold", "sure", "yes"), "deal"),
    **dict.fromkeys(("decline", "never", "no", "nope", "refuse"), "reject"),
    **dict.fromkeys(("bye", "end", "exit", "goodbye", "leave", "q", "stop"), "quit"),
}
TALK = {Role.SELLER: "it is as new", Role.BUYER: "it looks worn"}  # what goes with the price of an example
REFUSALS = {
    Violation.MALFORMED: "there is no offer to accept at that price",
    Violation.BELOW_COST: "that is below your cost",
    Violation.LEAK: "never state your cost",
    Violation.RISE: "a price once asked never rises",
}


class Person:
    """Answers through the terminal; what the rules would not allow is asked again."""

    def __init__(self, role: Role, monotone: bool) -> None:
        self.role = role
        self.monotone = monotone

    def welcome(self, game: Negotiation) -> None:
        """Show the product and what this side knows of it."""
        scenario = game.scenario
        secret = (
            f"Your budget is {format_price(scenario.budget)}; paying more counts as a loss."
            if self.role is Role.BUYER
            else f"Your cost is {format_price(scenario.cost)}; never sell below it, never tell it."
        )
        click.echo(f"\n{printable(scenario.product.title)}\n{printable(scenario.product.category)}")
        click.echo(textwrap.fill(printable(scenario.product.description), WIDTH, max_lines=4, placeholder=" ..."))
        click.echo(f"\nThe list price is {format_price(scenario.list_price)}. {secret}")
        click.echo(f"You are the {self.role}; the buyer begins, and there are {game.max_turns} turns.")
        click.echo(f"Answer with a price and what you say ({self.example(game)}), or with deal, reject or quit.\n")

    def respond(self, games: Sequence[Negotiation]) -> list[str]:
        """Return the person's message in each game; the end of the input is a quit."""
        return [self._ask(game) for game in games]

    def _ask(self, game: Negotiation) -> str:
        if game.transcript:
            click.echo(told(game.transcript[-1]))
        click.echo(f"turn {game.turn} of {game.max_turns}   {offers_line(game, self.role)}")
        while True:
            try:
                typed = input("you> ").strip()
            except EOFError:
                click.echo()
                return _say(ActionKind.QUIT, None, "")
            text, problem = self.read(game, typed)
            if text is not None:
                return text
            click.echo(f"     {problem}")

    def read(self, game: Negotiation, typed: str) -> tuple[str | None, str]:
        """Turn a typed line into a message, or say why it is none."""
        match = _ANSWER.fullmatch(typed)
        if match is None:
            return None, misread(typed, self.example(game))
        what, talk = match["what"].lower(), match["talk"] or ""
        standing = game.standing_offer(self.role.other)
        kind, price = OFFERS[self.role], None
        if what in ("reject", "quit"):
            kind = ActionKind(what.upper())
        elif what == "deal":
            if standing is None:
                return None, "there is no offer yet to accept"
            kind, price = ActionKind.DEAL, standing
        else:
            if _PRICE.fullmatch(what) is None or find_money(f"${what.removeprefix('$')}") in ([], [0.0]):
                return None, no_price(what, self.example(game))
            price = float(what.removeprefix("$").replace(",", ""))
        text = _say(kind, price, talk)
        if parse_message(text, self.role) is None:
            return None, "that is too long to say"
        if self.role is Role.SELLER:
            violation = Regulator(game.scenario, self.monotone).rule(game, text).violation
            if violation is not None:
                return None, REFUSALS[violation]
        if kind is OFFERS[self.role] and price is not None and standing is not None and self._gives(price, standing):
            return None, f"the {self.role.other} offers {format_price(standing)} already; deal takes that"
        return text, ""

    def example(self, game: Negotiation) -> str:
        """Return what this side could type now: a price between the standing offers, whole where it may be."""
        scenario, ask, bid = game.scenario, game.standing_offer(Role.SELLER), game.standing_offer(Role.BUYER)
        if self.role is Role.SELLER:
            least, most = (
                max(scenario.cost, bid or 0.0),
                max(scenario.list_price, scenario.cost) if ask is None else ask,
            )
            price = round_up(least + 0.9 * (most - least))
        else:
            most = scenario.budget if ask is None else min(scenario.budget, ask)
            least = bid if bid is not None and bid < most else 0.0
            price = max(0.01, round_down((least + most) / 2))
        whole = f"{price:.0f}"
        legal = least < round(price) <= most and self.read(game, whole)[0] is not None
        return f"{whole if legal else f'{price:.2f}'} {TALK[self.role]}"

    def _gives(self, offer: float, standing: float) -> bool:
        """Say whether an offer is no better for this side than what the other side has offered already."""
        return offer <= standing if self.role is Role.SELLER else offer >= standing


def misread(typed: str, example: str) -> str:
    """Say what a line lacks that is neither a price nor deal, reject or quit with what is said."""
    first = typed.split(maxsplit=1)[0].strip(".,;:!?").lower() if typed else ""
    if not typed:
        return f"type a price, as in {example.split()[0]}, or deal, reject or quit"
    if first in _MEANT:
        return f"for {first} type {_MEANT[first]}"
    if first[:1].isdigit() or first[1:2].isdigit():
        return no_price(first, example)
    if any(letter.isdigit() for letter in typed):
        return f"the price comes first, as in: {example}"
    return f"say it with an answer in front, as in: reject {typed}"


def no_price(typed: str, example: str) -> str:
    """Say how a price is written."""
    return f"{typed} is no price; write it like {example.split()[0]} or 1,234.50"


def offers_line(game: Negotiation, role: Role) -> str:
    """Draw the standing offers between what this side must keep to and the list price.

    Seller, cost 40, list price 100, bid 60, ask 90:  `$40.00 |--------b-------------a----| $100.00`
    """
    scenario = game.scenario
    low, high = (scenario.cost, scenario.list_price) if role is Role.SELLER else (0.0, scenario.list_price)
    marks = {"b": game.standing_offer(Role.BUYER), "a": game.standing_offer(Role.SELLER)}
    if role is Role.BUYER:
        marks["B"] = scenario.budget
    cells = ["-"] * LINE
    for mark, price in marks.items():
        if price is not None:
            share = (price - low) / (high - low) if high > low else 1.0
            cells[round(min(1.0, max(0.0, share)) * (LINE - 1))] = mark
    legend = ", ".join(
        f"{name} {format_price(price)}"
        for name, price in (("b bid", marks["b"]), ("a ask", marks["a"]), ("B budget", marks.get("B")))
        if price is not None
    )
    return f"{format_price(low)} |{''.join(cells)}| {format_price(high)}   {legend}".rstrip()


def show_end(game: Negotiation, me: Role) -> None:
    """Show how the game ended, the numbers that were hidden, and what the other side thought."""
    scenario, outcome = game.scenario, game.outcome
    if outcome is None:
        raise ValueError("the game is not over; play it to its end first")
    if game.transcript[-1].role is not me:
        click.echo(told(game.transcript[-1]))
    click.echo(f"\n{ending(outcome)}")
    click.echo(prices(scenario.list_price, scenario.budget, scenario.cost, scenario.zone))
    gain = reward(scenario, outcome)
    if gain is not None:
        click.echo(gained(gain))
    thoughts = [
        f"  turn {index // 2 + 1}: {printable(entry.message.thought)}"
        for index, entry in enumerate(game.transcript)
        if entry.role is not me and entry.message is not None and entry.message.thought
    ]
    if thoughts:
        click.echo("what the other side thought:\n" + "\n".join(thoughts))


def _say(kind: ActionKind, price: float | None, talk: str) -> str:
    return format_message(Message("", talk, Action(kind, price)))
