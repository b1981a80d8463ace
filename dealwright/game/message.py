"""The message format of the protocol, section 2: Thought, Talk and one Action.

Parsing refuses what is ambiguous: it returns None, and the negotiation turns that into an outcome.
"""

import math
import re
from dataclasses import dataclass
from enum import StrEnum

from dealwright.game.money import format_price
from dealwright.game.scenario import Role

MAX_CHARACTERS = 2000


class ActionKind(StrEnum):
    """The five formal moves."""

    BUY = "BUY"
    SELL = "SELL"
    REJECT = "REJECT"
    DEAL = "DEAL"
    QUIT = "QUIT"


PRICED = frozenset({ActionKind.BUY, ActionKind.SELL, ActionKind.DEAL})
OFFERS = {Role.BUYER: ActionKind.BUY, Role.SELLER: ActionKind.SELL}


@dataclass(frozen=True, slots=True)
class Action:
    """A formal move; `price` in dollars for an offer or a deal, None for the others."""

    kind: ActionKind
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """What one side thinks, says and does; the other side never sees `thought`."""

    thought: str
    talk: str
    action: Action


_NAMES = "(thought|talk|action):"
_LABEL = re.compile(_NAMES, re.IGNORECASE | re.ASCII)
# A line inside a part that begins like a label has one blank more in the format than in the message.
_LIKE_A_LABEL = re.compile(rf"(?<=\n)(?= *{_NAMES})", re.IGNORECASE | re.ASCII)
_INDENTED = re.compile(rf"^ (?= *{_NAMES})", re.IGNORECASE | re.ASCII | re.MULTILINE)
_AMOUNT = r"(?:[1-9][0-9]{0,2}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]{1,2})?"
_ACTION = re.compile(
    rf"action:[ \t]*\[(?P<kind>buy|sell|reject|deal|quit)\](?:[ \t]*(?:\$ ?)?(?P<amount>{_AMOUNT}))?[ \t]*\r?",
    re.IGNORECASE | re.ASCII,
)


def parse_message(text: str, role: Role) -> Message | None:
    """Read a message of the given side, or return None where it breaks the format.

    The last line that begins with `Action:` counts and lines after it are ignored. A line that begins with a label
    opens that part; text before any label, and text under an earlier `Action:` line, is never shown to the other side.
    """
    if len(text) > MAX_CHARACTERS:
        return None
    lines = text.split("\n")
    labels = [match[1].lower() if (match := _LABEL.match(line)) else None for line in lines]
    if "action" not in labels:
        return None
    last = len(labels) - 1 - labels[::-1].index("action")
    action = _parse_action(lines[last], role)
    if action is None:
        return None
    parts: dict[str, list[str]] = {"thought": [], "talk": [], "action": []}
    current = "thought"
    for line, label in zip(lines[:last], labels[:last], strict=True):
        current = label or current
        parts[current].append(line[len(label) + 1 :] if label else line)
    return Message(_joined(parts["thought"]), _joined(parts["talk"]), action)


def _joined(lines: list[str]) -> str:
    return _INDENTED.sub("", "\n".join(lines)).strip()


def _parse_action(line: str, role: Role) -> Action | None:
    match = _ACTION.fullmatch(line)
    if match is None:
        return None
    kind = ActionKind(match["kind"].upper())
    if kind is OFFERS[role.other] or (kind in PRICED) != (match["amount"] is not None):
        return None
    if match["amount"] is None:
        return Action(kind)
    price = float(match["amount"].replace(",", ""))
    # An amount whose cents no float can hold is as good as infinite.
    return Action(kind, price) if 0 < price * 100 < math.inf else None


def format_message(message: Message) -> str:
    """Write a message in the format that `parse_message` reads; an empty Thought is left out.

    A line of Thought or Talk that begins like a label is indented by a blank, so that it cannot open a part.
    """
    thought, talk = (_LIKE_A_LABEL.sub(" ", part) for part in (message.thought, message.talk))
    return (f"Thought: {thought}\n" if thought else "") + public_text(talk, message.action)


def public_text(talk: str, action: Action) -> str:
    """Write the parts of a message that the other side may see."""
    said = f"Talk: {talk}" if talk else "Talk:"
    amount = "" if action.price is None else f" {format_price(action.price)}"
    return f"{said}\nAction: [{action.kind}]{amount}"
