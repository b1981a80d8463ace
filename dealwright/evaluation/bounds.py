"""The most that a buyer could earn: the best response to a concession seller whose type is known.

Against a known type the game is deterministic, so the best response is the lowest price that any line of play reaches.
It is found by dynamic programming over what the seller has become (turn, progress, reservation price, ask, best offer,
patience, arguments left), with every answer taken from the seller's own `decide`. States are taken up in the order of
a price that no line from them ends below, so the first deal taken up is the best one and most states never are.

The buyer's moves, each with the next welcome argument or without: a rejection; as first offer the lowest that is no
insult, because every first offer gains the same; later a raise over the best offer by a share of the full gain; and
the lowest offer that closes, found to the cent. An argument that is not welcome only harms, and welcome ones differ in
name alone. The shares of the gain are the one approximation: `grid` evenly spaced ones and the smallest that costs no
patience.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import polars as pl

from dealwright.agents.arguments import Argument
from dealwright.agents.concession import (
    ARGUMENT_STEP,
    FULL_GAIN,
    LAST_TURN_MARGIN,
    STEP,
    SellerState,
    SellerType,
    decide,
    draw_type,
    start,
)
from dealwright.agents.sellers import FLOOR_ONLY, SELLERS
from dealwright.game import ActionKind, Outcome, Scenario, StopReason, reward, round_up, to_cents

Move = tuple[float | None, Argument | None]
Line = tuple[Move, ...]
BOUNDS = ("best_response", "all_but_margin")
_DEAL, _CLOSING, _STATE = range(3)

# Floors are kept for progress and gains in these parts of 1, rounded to the buyer's good: many states share one.
PROGRESS_PARTS = 20
GAIN_PARTS = 16
ASK_PARTS = 100


@dataclass(frozen=True, slots=True)
class BestResponse:
    """What a buyer that knows the seller's type earns, and how; without a price it is best to walk away."""

    reward: float
    price: float | None
    moves: Line


WALK_AWAY = BestResponse(0.0, None, ())


def clairvoyant(scenario: Scenario, type: SellerType, grid: int) -> BestResponse:
    """Return the best response to a concession seller of a known type."""
    found = _Search(type, grid).cheapest(scenario.budget)
    return WALK_AWAY if found is None else _response(scenario, *found)


def all_but_margin(scenario: Scenario, type: SellerType, grid: int) -> float:
    """Return the expected reward of the best response to a type of which all but the last turn's margin is known.

    The margin is uniform up to LAST_TURN_MARGIN, and no play reveals it before the last offer. So no buyer that knows
    only the distribution of types earns more on average; much less may be all it can earn.
    """
    reservation = type.reservation
    # Offering the share u of the widest margin sells with probability u; the best u falls with the reservation price,
    # so that the one taken before any argument favours the buyer afterwards.
    best = (scenario.budget - reservation) / (2 * LAST_TURN_MARGIN * reservation)
    share = min(1.0, max(0.0, best))
    # A sure deal at this margin earns as much as the chance of one at u's.
    margin = LAST_TURN_MARGIN * (2 * share - share * share)
    return clairvoyant(scenario, replace(type, last_margin=margin), grid).reward


def clairvoyant_floor_only(scenario: Scenario) -> BestResponse:
    """Return the best response to the seller that only minds its cost: pay the cost where the budget exceeds it."""
    price = round_up(scenario.cost)
    return _response(scenario, price, ((price, None),))


def _response(scenario: Scenario, price: float, line: Line) -> BestResponse:
    earned = reward(scenario, Outcome(StopReason.DEAL, price, len(line)))
    return WALK_AWAY if earned is None or earned <= 0 else BestResponse(earned, price, line)


def best_responses(
    scenarios: Sequence[Scenario], rounds: Sequence[int], sellers: Sequence[str], grid: int, max_turns: int
) -> pl.DataFrame:
    """Return the bounds of every game: scenario_id, round, seller, best_response (clairvoyant), all_but_margin.

    Sellers without a known type (language models) are left out.
    """
    rows = [
        (scenario.id, round, seller, *_against(seller, scenario, round, grid, max_turns))
        for seller in sellers
        if seller in SELLERS
        for scenario in scenarios
        for round in rounds
    ]
    keys = {"scenario_id": pl.String, "round": pl.Int64, "seller": pl.String}
    return pl.DataFrame(rows, schema=keys | dict.fromkeys(BOUNDS, pl.Float64), orient="row")


def _against(seller: str, scenario: Scenario, round: int, grid: int, max_turns: int) -> tuple[float, float]:
    if seller == FLOOR_ONLY:
        paid = clairvoyant_floor_only(scenario).reward
        return paid, paid
    type = draw_type(seller, scenario, round, max_turns)
    return clairvoyant(scenario, type, grid).reward, all_but_margin(scenario, type, grid)


class _Search:
    """The search for the lowest price against one type."""

    def __init__(self, type: SellerType, grid: int) -> None:
        self.type = type
        # A hair above the step too: where the step is whole cents, a binary fraction may fall short of it.
        self.shares = [STEP, STEP + 1e-6, *(part / grid for part in range(1, grid + 1))]
        self.kinds = sorted(type.receptive)
        self.turns = len(type.jitters)
        self.concession = type.argument_worth * (type.list_price - type.cost)
        self.asks: dict[tuple[int, float, float], float] = {}
        self.floors: dict[tuple[int, int, int, float, int], list[float]] = {}

    def cheapest(self, budget: float) -> tuple[float, Line] | None:
        """Return the lowest price within the budget that some line of play ends at, with the line."""
        order = count()
        first = start(self.type)
        met: dict[tuple[object, ...], float] = {}
        # Of equal prices a deal comes before a closing before a state, and the deepest and latest state first.
        heap: list[tuple[float, int, int, int, SellerState, Line]] = [
            (self._floor(first), _STATE, 0, -next(order), first, ())
        ]
        while heap and heap[0][0] <= budget:
            price, what, _, _, state, line = heapq.heappop(heap)
            if what == _DEAL:
                return price, line
            if what == _CLOSING:
                price, closed = self._closing(state, line)
                heapq.heappush(heap, (price, _DEAL, 0, -next(order), state, closed))
                continue
            for argument in self._arguments(state):
                low, high = self._closing_range(state, argument)
                heapq.heappush(heap, (low, _CLOSING, 0, -next(order), state, (*line, (high, argument))))
                for offer in self._offers(state):
                    after, decision = decide(state, offer, argument)
                    patience = math.inf if after.patience is None else after.patience
                    # A deal at this offer is no better than the closing. More patience leaves nothing out of reach.
                    if decision.kind is ActionKind.SELL and patience > met.get(_key(after), 0):
                        met[_key(after)] = patience
                        follow = (*line, (offer, argument))
                        heapq.heappush(heap, (self._floor(after), _STATE, -after.turn, -next(order), after, follow))
        return None

    def _arguments(self, state: SellerState) -> tuple[Argument | None, ...]:
        left = [kind for kind in self.kinds if kind not in state.used]
        return (None, left[0]) if left else (None,)

    def _offers(self, state: SellerState) -> Iterator[float | None]:
        """Yield the moves that go on, if a turn is left for what they lead to: None for a rejection."""
        if state.turn + 1 == self.turns:
            return
        yield None
        if state.best_offer is None:
            yield round_up(self.type.insult_threshold * state.ask)
            return
        raised = FULL_GAIN * self.type.list_price
        yield from sorted({round_up(state.best_offer + share * raised) for share in self.shares})

    def _closing_range(self, state: SellerState, argument: Argument | None) -> tuple[float, float]:
        """Return a price that is too low to close with, or just enough, and one that always closes."""
        # An offer at the ask that a rejection would bring is always taken; the ask that it brings bounds what is.
        high = decide(state, None, argument)[0].ask
        after = decide(state, high, argument)[0]
        return self._least(after.turn, after.ask, after.reservation), high

    def _closing(self, state: SellerState, line: Line) -> tuple[float, Line]:
        """Return the lowest price that closes, to the cent, with the line's last offer lowered to it."""
        *before, (_, argument) = line
        low, high = (to_cents(price) for price in self._closing_range(state, argument))
        while low < high:
            middle = (low + high) // 2
            if decide(state, middle / 100, argument)[1].kind is ActionKind.DEAL:
                high = middle
            else:
                low = middle + 1
        return high / 100, (*before, (high / 100, argument))

    def _least(self, turn: int, ask: float, reservation: float) -> float:
        """Return the least that the seller takes after a turn's ask; on the last turn its hidden margin counts too."""
        if turn < self.turns:
            return ask
        return min(ask, round_up(max(self.type.cost, reservation * (1 + self.type.last_margin))))

    def _floor(self, state: SellerState) -> float:
        """Return a price that no line of play from here ends below."""
        left = len(self.kinds) - len(state.used)
        gains = self._gains(state, left)
        progress = math.ceil(state.progress * PROGRESS_PARTS - 1e-9)
        key = (state.turn, progress, math.ceil(gains * GAIN_PARTS), state.reservation, left)
        if key not in self.floors:
            self.floors[key] = self._floors(state, progress / PROGRESS_PARTS, key[2] / GAIN_PARTS, left)
        messages = self.turns - state.turn
        if state.patience is not None and state.best_offer is not None:
            messages = min(messages, math.floor(gains / STEP + 1e-9) + state.patience)
        return min(state.ask, *self.floors[key][:messages])

    def _gains(self, state: SellerState, left: int) -> float:
        """Return how many full gains are possible at most before an offer that earns them is one that closes."""
        if state.best_offer is None:
            base, free = self.type.insult_threshold * min(state.ask, self._lowest_ask_without_offer(state, left)), 1.0
        else:
            base, free = state.best_offer, 0.0
        # The ask stays highest where no argument is made and progress is rounded down.
        turn = max(range(state.turn, self.turns), key=lambda turn: self.type.jitters[turn])
        low, high = 0.0, float(self.turns - state.turn)
        while high - low > 1 / GAIN_PARTS:
            middle = (low + high) / 2
            progress = math.floor((state.progress + STEP * middle) * ASK_PARTS) / ASK_PARTS
            ask = min(state.ask, self._ask(turn, progress, state.reservation))
            if base + max(0.0, middle - free) * FULL_GAIN * self.type.list_price <= ask:
                low = middle
            else:
                high = middle
        return high

    def _lowest_ask_without_offer(self, state: SellerState, left: int) -> float:
        reservation = max(self.type.cost, state.reservation - left * self.concession)
        progress = state.progress + ARGUMENT_STEP * left
        return min(self._ask(turn, progress, reservation) for turn in range(state.turn, self.turns))

    def _floors(self, state: SellerState, progress: float, gains: float, left: int) -> list[float]:
        """Return the least price after each of the messages to come, were all gains and arguments made at once."""
        floors = []
        reservation = state.reservation
        for turn in range(state.turn, self.turns):
            if left:
                left -= 1
                progress += ARGUMENT_STEP
                reservation = max(self.type.cost, reservation - self.concession)
            ask = self._ask(turn, progress + STEP * min(gains, turn + 1 - state.turn), reservation)
            floors.append(self._least(turn + 1, ask, reservation))
        return floors

    def _ask(self, turn: int, progress: float, reservation: float) -> float:
        """Return what a seller at this progress asks when message `turn` + 1 is a rejection, earlier asks apart."""
        key = (turn, min(1.0, progress), reservation)
        if key not in self.asks:
            blank = SellerState(self.type, turn, key[1], reservation, self.type.list_price, None, None, frozenset())
            self.asks[key] = decide(blank, None, None)[0].ask
        return self.asks[key]


def _key(state: SellerState) -> tuple[object, ...]:
    best = None if state.best_offer is None else to_cents(state.best_offer)
    return (
        state.turn,
        round(state.progress, 9),
        round(state.reservation, 6),
        to_cents(state.ask),
        best,
        len(state.used),
    )
