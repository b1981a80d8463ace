"""The concession seller's rule, without a word of text (protocol, section 4a).

Concession curves follow Faratin, Sierra and Jennings (1998), acceptance AC-next (Baarslag 2014). The scripted ladders'
fits and the best-response bounds play against this same `decide`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from dealwright.agents.arguments import Argument
from dealwright.game import ActionKind, Scenario, round_up

FULL_GAIN = 0.05  # of the list price: the raise of an offer that earns a whole step
STEP = 0.2  # progress of a whole gain
ARGUMENT_STEP = 0.1  # progress of a welcome argument
JITTER = 0.02
LAST_TURN_MARGIN = 0.05


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table in section 4a: the ranges that a seller's type is drawn from."""

    mark_up: tuple[float, float]
    exponent: tuple[float, float]
    insult_threshold: tuple[float, float]
    patience: tuple[int, int] | None
    receptive: int
    argument_worth: float


COLUMNS: dict[str, Column] = {
    "training": Column((0.0, 0.15), (0.3, 3.0), (0.35, 0.55), (3, 6), 2, 0.05),
    "stronger": Column((0.10, 0.30), (0.2, 0.8), (0.40, 0.60), (3, 5), 1, 0.05),
    "begging": Column((0.0, 0.15), (0.3, 1.0), (0.35, 0.55), None, 2, 0.05),
    "insulting": Column((0.0, 0.20), (0.3, 1.5), (0.45, 0.60), (3, 5), 1, 0.05),
    "unyielding": Column((0.10, 0.30), (0.1, 0.3), (0.40, 0.60), (3, 6), 1, 0.03),
}


@dataclass(frozen=True, slots=True)
class SellerType:
    """Everything that fixes a concession seller's behaviour in one game; prices in dollars.

    `jitters` holds one share of (P - r) a turn; `patience` is None for a seller that never quits; `last_margin` is the
    hidden share above its reservation price that it takes on the last turn.
    """

    list_price: float
    cost: float
    reservation: float
    exponent: float
    insult_threshold: float
    patience: int | None
    receptive: frozenset[Argument]
    argument_worth: float
    jitters: tuple[float, ...]
    last_margin: float


@dataclass(frozen=True, slots=True)
class SellerState:
    """Where a concession seller stands after `turn` buyer messages; prices in dollars, progress in [0, 1]."""

    type: SellerType
    turn: int
    progress: float
    reservation: float
    ask: float
    best_offer: float | None
    patience: int | None
    used: frozenset[Argument]


@dataclass(frozen=True, slots=True)
class Decision:
    """What the seller does, whether the buyer's argument was welcome (None: none was heard), and the offer's gain."""

    kind: ActionKind
    price: float | None
    welcome: bool | None
    gain: float


@lru_cache(maxsize=4096)  # a type is asked for at every turn of its game
def draw_type(column: str, scenario: Scenario, round: int, max_turns: int = 6) -> SellerType:
    """Draw the seller's type for a scenario and a round from a column's ranges."""
    ranges = COLUMNS[column]
    draw = Random(f"{scenario.seed}/{round}/0/type")
    mark_up = draw.uniform(*ranges.mark_up)
    exponent = math.exp(draw.uniform(*map(math.log, ranges.exponent)))
    threshold = draw.uniform(*ranges.insult_threshold)
    patience = None if ranges.patience is None else draw.randint(*ranges.patience)
    receptive = frozenset(draw.sample(list(Argument), ranges.receptive))
    last_margin = draw.uniform(0, LAST_TURN_MARGIN)
    jitters = tuple(
        Random(f"{scenario.seed}/{round}/{turn}/jitter").uniform(-JITTER, JITTER) for turn in range(1, max_turns + 1)
    )
    reservation = min(scenario.list_price, scenario.cost * (1 + mark_up))
    return SellerType(
        list_price=scenario.list_price,
        cost=scenario.cost,
        reservation=reservation,
        exponent=exponent,
        insult_threshold=threshold,
        patience=patience,
        receptive=receptive,
        argument_worth=ranges.argument_worth,
        jitters=jitters,
        last_margin=last_margin,
    )


def start(type: SellerType) -> SellerState:
    """Return the state before the buyer's first message."""
    return SellerState(type, 0, 0.0, type.reservation, type.list_price, None, type.patience, frozenset())


def decide(state: SellerState, offer: float | None, argument: Argument | None) -> tuple[SellerState, Decision]:
    """Answer one buyer message: an offer in dollars (None for a rejection) and the kind of argument heard, if any.

    The four numbered steps of section 4a. Patience may end below 0; the seller then quits.
    """
    type = state.type
    turn = state.turn + 1
    progress, reservation, patience, best = state.progress, state.reservation, state.patience, state.best_offer
    used = state.used
    # 1. Argument.
    welcome = None
    if argument is not None and argument not in used:
        used = used | {argument}
        welcome = argument in type.receptive
        if welcome:
            reservation = max(type.cost, reservation - type.argument_worth * (type.list_price - type.cost))
            progress = min(1.0, progress + ARGUMENT_STEP)
        elif patience is not None:
            patience -= 1
    # 2. Concession.
    gain = 0.0
    if offer is not None and offer >= type.insult_threshold * state.ask:
        raised = 1.0 if best is None else (offer - best) / (FULL_GAIN * type.list_price)
        gain = min(1.0, max(0.0, raised))
        best = offer if best is None else max(best, offer)
    if welcome is False:
        gain /= 2
    progress = min(1.0, progress + STEP * gain)
    if gain < STEP and patience is not None:
        patience -= 1
    # 3. Next ask.
    spread = type.list_price - reservation
    wanted = reservation + spread * (1 - progress ** (1 / type.exponent)) + type.jitters[state.turn] * spread
    ask = max(round_up(reservation), round(min(state.ask, wanted), 2))
    state = SellerState(type, turn, progress, reservation, ask, best, patience, used)
    # 4. Answer.
    if offer is not None and _accepts(state, offer):
        return state, Decision(ActionKind.DEAL, offer, welcome, gain)
    if patience is not None and patience <= 0:
        return state, Decision(ActionKind.QUIT, None, welcome, gain)
    return state, Decision(ActionKind.SELL, ask, welcome, gain)


def _accepts(state: SellerState, offer: float) -> bool:
    type = state.type
    threshold = max(type.cost, state.ask)
    if state.turn == len(type.jitters):
        threshold = min(threshold, max(type.cost, state.reservation * (1 + type.last_margin)))
    return offer >= threshold
