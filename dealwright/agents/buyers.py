"""Scripted buyers: text-free policies, and the agent that puts their moves into words.

A policy sees only what a buyer may know; the oracle alone is told the cost, and is a bound rather than a buyer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from dealwright.agents.arguments import SENTENCES, Argument, detect_cues
from dealwright.game import (
    Action,
    ActionKind,
    Message,
    Negotiation,
    Role,
    Scenario,
    format_message,
    round_down,
    round_up,
)

Reading = Literal["nothing", "stock", "cues"]


@dataclass(frozen=True, slots=True)
class Observation:
    """What a buyer knows when it is to move: prices in dollars, `turn` from 1, the cues in the order heard."""

    turn: int
    budget: float
    ask: float | None
    cues: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A buyer's move before it is put into words."""

    kind: ActionKind
    price: float | None = None
    argument: Argument | None = None


class Policy(Protocol):
    """Chooses a buyer's moves without a word of text."""

    def move(self, observation: Observation) -> Move:
        """Return the move at this point of the game."""
        ...


@dataclass(frozen=True, slots=True)
class Ladder:
    """Offers rising shares of the budget, one a turn, and takes an ask that is good enough.

    An ask is taken at or below `thresholds` x budget, or at or below the rung itself where there are none. With
    `ask_share` no offer exceeds that share of the standing ask. `reading` says which arguments go with the offers:
    none, the six kinds in turn, or those that the seller hinted at, from the second message on.
    """

    rungs: tuple[float, ...]
    reading: Reading = "nothing"
    thresholds: tuple[float, ...] = ()
    ask_share: float | None = None

    def move(self, observation: Observation) -> Move:
        """Return the rung of this turn, or the deal."""
        step = min(observation.turn, len(self.rungs)) - 1
        ask, budget = observation.ask, observation.budget
        offer = self.rungs[step] * budget
        if ask is not None:
            limit = self.thresholds[step] * budget if self.thresholds else offer
            if ask <= round_down(limit):
                return Move(ActionKind.DEAL, ask)
            if self.ask_share is not None:
                offer = min(offer, self.ask_share * ask)
        return Move(ActionKind.BUY, round_down(offer), self._argument(observation))

    def _argument(self, observation: Observation) -> Argument | None:
        if self.reading == "stock":
            return list(Argument)[(observation.turn - 1) % len(Argument)]
        if self.reading == "cues" and 2 <= observation.turn < 2 + len(observation.cues):
            return observation.cues[observation.turn - 2]
        return None


@dataclass(frozen=True, slots=True)
class TakeItOrLeaveIt:
    """Makes one offer and walks away if it is not taken."""

    share: float

    def move(self, observation: Observation) -> Move:
        """Return the one offer, then the exit."""
        if observation.turn > 1:
            return Move(ActionKind.QUIT)
        return Move(ActionKind.BUY, round_down(self.share * observation.budget))


@dataclass(frozen=True, slots=True)
class Staller:
    """Rejects everything for some turns and then makes its one offer."""

    share: float
    rejections: int = 5

    def move(self, observation: Observation) -> Move:
        """Return a rejection, or the offer once the time has come."""
        if observation.turn <= self.rejections:
            return Move(ActionKind.REJECT)
        return Move(ActionKind.BUY, round_down(self.share * observation.budget))


def linear(first: float, last: float, steps: int = 6) -> tuple[float, ...]:
    """Return evenly spaced rungs."""
    return tuple(first + (last - first) * step / (steps - 1) for step in range(steps))


# Fitted on 500 AmazonHistoryPrice products where section 4a says so; the rollouts stage fits afresh on its own train.
FIXED_POLICIES: dict[str, Policy] = {
    "take_it_or_leave_it": TakeItOrLeaveIt(0.75),
    "linear_ladder": Ladder(linear(0.40, 0.95)),
    "arguing_ladder": Ladder((0.62, 0.68, 0.75, 0.81, 0.87, 0.93), "stock"),
    "og_narrator": Ladder(linear(0.5, 1.0)),
    "staller": Staller(0.76),
}


class ScriptedBuyer:
    """Puts a policy's moves into words; keeps nothing between calls."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def respond(self, games: Sequence[Negotiation]) -> list[str]:
        """Return the buyer's next message in each game."""
        return [_in_words(self.policy.move(observe(game))) for game in games]


class Oracle:
    """Knows the cost: offers it when a deal exists, walks away otherwise. A bound, not a buyer."""

    def respond(self, games: Sequence[Negotiation]) -> list[str]:
        """Return the oracle's next message in each game."""
        return [_in_words(self._move(game.scenario)) for game in games]

    @staticmethod
    def _move(scenario: Scenario) -> Move:
        if scenario.budget <= scenario.cost:
            return Move(ActionKind.QUIT)
        return Move(ActionKind.BUY, round_up(scenario.cost))


def observe(game: Negotiation) -> Observation:
    """Return what the buyer knows in a game where it is to move."""
    said = [entry.message.talk for entry in game.transcript if entry.role is Role.SELLER and entry.message is not None]
    return Observation(
        turn=game.turn,
        budget=game.scenario.budget,
        ask=game.standing_offer(Role.SELLER),
        cues=tuple(detect_cues(said[0])) if said else (),
    )


def _in_words(move: Move) -> str:
    talk = SENTENCES[move.argument][0] if move.argument else ""
    return format_message(Message("", talk, Action(move.kind, move.price)))
