"""One game from the first message to its outcome (protocol, section 3)."""

import math
from dataclasses import dataclass
from enum import StrEnum

from dealwright.game.message import OFFERS, ActionKind, Message, parse_message, public_text
from dealwright.game.money import to_cents
from dealwright.game.scenario import Role, Scenario


class StopReason(StrEnum):
    """Why a game ended."""

    DEAL = "deal"
    BUYER_QUIT = "buyer_quit"
    SELLER_QUIT = "seller_quit"
    MAX_TURNS = "max_turns"
    INVALID = "invalid"
    SELLER_FAILED = "seller_failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a game ended: `price` in dollars for a deal, else None; `turns` counts the buyer's messages.

    Raises ValueError for a deal without a price that is a positive number, and for a price without a deal: no reward
    would mean anything.
    """

    stop: StopReason
    price: float | None
    turns: int

    def __post_init__(self) -> None:
        if self.stop is not StopReason.DEAL:
            if self.price is not None:
                raise ValueError(f"a game that ended by {self.stop} must have no price, got {self.price!r}")
        elif self.price is None or not 0 < self.price < math.inf:
            raise ValueError(f"the price of a deal must be a positive amount in dollars, got {self.price!r}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the transcript: the raw text, and what it parsed to (None for a message that broke the rules)."""

    role: Role
    text: str
    message: Message | None


_QUITS = {Role.BUYER: StopReason.BUYER_QUIT, Role.SELLER: StopReason.SELLER_QUIT}
_BROKEN = {Role.BUYER: StopReason.INVALID, Role.SELLER: StopReason.SELLER_FAILED}


class Negotiation:
    """A game in progress; single use.

    `round` is the visit in training and the repeat in evaluation: with the scenario's seed it fixes every draw of a
    scripted counterpart.
    """

    def __init__(self, scenario: Scenario, max_turns: int = 6, round: int = 0) -> None:
        if max_turns < 1:
            raise ValueError(f"max_turns must be at least 1, got {max_turns}")
        self.scenario = scenario
        self.max_turns = max_turns
        self.round = round
        self.transcript: list[Entry] = []
        self.outcome: Outcome | None = None
        self._offers: dict[Role, float] = {}

    @property
    def to_move(self) -> Role:
        """The side whose message comes next."""
        return Role.SELLER if len(self.transcript) % 2 else Role.BUYER

    @property
    def turn(self) -> int:
        """The turn that the next message belongs to, from 1; a buyer message and its reply share one."""
        return len(self.transcript) // 2 + 1

    def standing_offer(self, role: Role) -> float | None:
        """Return that side's last formal offer in dollars, or None where it has made none."""
        return self._offers.get(role)

    def offers(self, role: Role) -> list[float | None]:
        """Return the formal offer in each of that side's messages, in dollars; None where a message made none."""
        said = (entry.message for entry in self.transcript if entry.role is role)
        return [message.action.price if message and message.action.kind is OFFERS[role] else None for message in said]

    def play(self, role: Role, text: str) -> Outcome | None:
        """Play one message and return the outcome once the game is over.

        Raises ValueError when the game is over or the other side is to move.
        """
        self._check_turn(role)
        turn = self.turn
        message = parse_message(text, role)
        self.transcript.append(Entry(role, text, message))
        self.outcome = self._outcome(role, message, turn)
        return self.outcome

    def fail(self) -> Outcome:
        """End the game because the seller's backend gave nothing usable; such a game has no reward."""
        self._check_turn(Role.SELLER)
        self.outcome = Outcome(StopReason.SELLER_FAILED, None, self.turn)
        return self.outcome

    def view(self, role: Role) -> list[dict[str, str]]:
        """Return the transcript as that side sees it: its own messages whole, the other's without Thought.

        The other side's Talk is put on one line, so that nothing in it can pass for an Action line.
        """
        return [
            {"role": "assistant", "content": entry.text}
            if entry.role is role
            else {"role": "user", "content": _public(entry)}
            for entry in self.transcript
        ]

    def _check_turn(self, role: Role) -> None:
        if self.outcome is not None:
            raise ValueError(f"the game is over ({self.outcome.stop}); start a new Negotiation")
        if role is not self.to_move:
            raise ValueError(f"it is the {self.to_move}'s turn, not the {role}'s")

    def _outcome(self, role: Role, message: Message | None, turn: int) -> Outcome | None:
        if message is None:
            return Outcome(_BROKEN[role], None, turn)
        action = message.action
        if action.kind is ActionKind.QUIT:
            return Outcome(_QUITS[role], None, turn)
        if action.kind is ActionKind.DEAL:
            offer = self.standing_offer(role.other)
            # A price is always there: the parser demands one behind [DEAL].
            if offer is None or action.price is None or abs(to_cents(action.price) - to_cents(offer)) > 1:
                return Outcome(_BROKEN[role], None, turn)
            return Outcome(StopReason.DEAL, offer, turn)
        if action.kind is OFFERS[role] and action.price is not None:
            self._offers[role] = action.price
        if role is Role.SELLER and turn >= self.max_turns:
            return Outcome(StopReason.MAX_TURNS, None, turn)
        return None


def _public(entry: Entry) -> str:
    if entry.message is None:
        return "Talk:"
    return public_text(" ".join(entry.message.talk.split()), entry.message.action)
