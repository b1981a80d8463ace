"""What can be asked of a buyer that knows only the distribution of the seller's types, as a lower estimate.

The best such buyer is the solution of a partially observed game that nobody can solve exactly. Here one good buyer is
played: it holds many possible sellers, drops and weighs them by every ask it hears, plans all its offers to the end
against those left, makes the first of them and plans again. Planning as though nothing more could be learned makes it
worse than the best buyer, so its mean reward errs on the low side; `bounds.all_but_margin` errs on the high side. The
truth lies between.

Its beliefs follow an array form of the seller's rule, which a test holds to `decide`; its games are played against
`decide` itself, so a wrong belief could only lower the estimate. It knows its column's ranges and the shares of the
list price that products cost, hears the cues, and tells from the tone whether an offer gained half a step.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dealwright.agents.concession import (
    ARGUMENT_STEP,
    COLUMNS,
    FULL_GAIN,
    JITTER,
    LAST_TURN_MARGIN,
    STEP,
    decide,
    draw_type,
    start,
)
from dealwright.game import ActionKind, Outcome, Scenario, StopReason, reward, round_down

Floats = NDArray[np.float64]

POPULATION = 100_000  # possible sellers before the first word
HEARD = 256  # of them in a plan's trial
FEWEST = 150  # effective sellers below which the survivors are spread a little
SPREAD = 600
PLANS, ELITE, GENERATIONS = 96, 12, 6
REST = 0.0  # an offer that rejects: below every insult threshold
TONE = 0.5  # the gain at which the seller sounds pleased


def belief_rewards(
    scenarios: Sequence[Scenario],
    rounds: Iterable[int],
    seller: str,
    cost_shares: Sequence[float],
    seed: int,
    max_turns: int,
) -> pl.DataFrame:
    """Return what the belief buyer earns in every game: scenario_id, round, seller, belief.

    `cost_shares` are the costs of products it may know, the training ones, as shares of their list prices. A seller
    without published ranges has no rows.
    """
    rows = []
    if seller in COLUMNS:
        buyer = BeliefBuyer(seller, np.array(cost_shares), seed, max_turns)
        rows = [
            (scenario.id, round, seller, buyer.play(scenario, round)) for scenario in scenarios for round in rounds
        ]
    schema = {"scenario_id": pl.String, "round": pl.Int64, "seller": pl.String, "belief": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


class BeliefBuyer:
    """Plays against a column of the concession seller knowing its ranges alone."""

    def __init__(self, column: str, cost_shares: Floats, seed: int, max_turns: int) -> None:
        self.column, self.seed, self.max_turns = column, seed, max_turns
        self.sellers = draw_sellers(column, cost_shares, POPULATION, np.random.default_rng(seed))
        ranges = COLUMNS[column]
        # The cues come with the first reply; from then on every welcome argument is made at once.
        worths = [0.0, *[ranges.argument_worth] * ranges.receptive, *[0.0] * max_turns]
        self.worths = tuple(worths[:max_turns])
        self._openings: dict[float, Floats] = {}

    def play(self, scenario: Scenario, round: int) -> float:
        """Play one game and return its reward."""
        outcome = self._outcome(scenario, round)
        return reward(scenario, outcome) or 0.0

    def _outcome(self, scenario: Scenario, round: int) -> Outcome:
        type = draw_type(self.column, scenario, round, self.max_turns)
        rng = np.random.default_rng([self.seed, scenario.seed, round])
        price, budget, kinds = scenario.list_price, scenario.budget / scenario.list_price, sorted(type.receptive)
        sellers, state = self.sellers, start(type)
        for turn, worth in enumerate(self.worths):
            plan = search_plan(sellers, budget, self.worths[turn:], HEARD, rng) if turn else self._opening(budget)
            if turn and state.ask <= plan[0] * price:
                return Outcome(StopReason.DEAL, state.ask, turn + 1)
            offer = round_down(float(plan[0]) * price)
            state, decision = decide(state, offer if offer > 0 else None, kinds[turn - 1] if worth else None)
            if decision.kind is ActionKind.DEAL:
                return Outcome(StopReason.DEAL, offer, turn + 1)
            if decision.kind is ActionKind.QUIT:
                return Outcome(StopReason.SELLER_QUIT, None, turn + 1)
            pleased = decision.gain >= TONE if turn else None
            heard = update(sellers, offer / price, worth, state.ask / price, pleased, 0.01 / price)
            sellers = spread_out(heard, rng)
        return Outcome(StopReason.MAX_TURNS, None, self.max_turns)

    def _opening(self, budget: float) -> Floats:
        share = round(budget, 2)
        if share not in self._openings:
            rng = np.random.default_rng([self.seed, round(share * 100)])
            self._openings[share] = search_plan(self.sellers, share, self.worths, 4 * HEARD, rng)
        return self._openings[share]


@dataclass(frozen=True, slots=True)
class Sellers:
    """Possible sellers as arrays, prices as shares of the list price; `best` is -inf before the first offer."""

    cost: Floats
    reservation: Floats
    steepness: Floats
    threshold: Floats
    margin: Floats
    patience: Floats
    progress: Floats
    ask: Floats
    best: Floats
    weight: Floats

    def take(self, chosen: NDArray[np.int64]) -> "Sellers":
        """Return some of the sellers."""
        return Sellers(*(getattr(self, field.name)[..., chosen] for field in fields(self)))


def draw_sellers(column: str, cost_shares: Floats, size: int, rng: np.random.Generator) -> Sellers:
    """Draw sellers of a column over products whose costs are such shares of their list prices."""
    ranges = COLUMNS[column]
    cost = np.clip(rng.choice(cost_shares, size) * np.exp(rng.normal(0, 0.04, size)), 0.02, 1)
    patience = (
        np.full(size, np.inf) if ranges.patience is None else rng.integers(*ranges.patience, size, endpoint=True)
    )
    least, most = (math.log(exponent) for exponent in ranges.exponent)
    return Sellers(
        cost=cost,
        reservation=np.minimum(1, cost * (1 + rng.uniform(*ranges.mark_up, size))),
        steepness=np.exp(-rng.uniform(least, most, size)),
        threshold=rng.uniform(*ranges.insult_threshold, size),
        margin=rng.uniform(0, LAST_TURN_MARGIN, size),
        patience=patience.astype(np.float64),
        progress=np.zeros(size),
        ask=np.ones(size),
        best=np.full(size, -np.inf),
        weight=np.full(size, 1 / size),
    )


def hear(sellers: Sellers, offer: Floats, worth: float, jitter: Floats) -> tuple[Sellers, Floats, Floats]:
    """Let every seller hear an offer and, where `worth` is above 0, a welcome argument of that worth.

    Returns the sellers after it, their gains, and the asks that they want before the cap of the last one. Offers of
    shape (plans, 1) give arrays of plans by sellers.
    """
    cost, reservation, progress = sellers.cost, sellers.reservation, sellers.progress
    if worth > 0:
        reservation = np.maximum(cost, reservation - worth * (1 - cost))
        progress = np.minimum(1, progress + ARGUMENT_STEP)
    decent = offer >= sellers.threshold * sellers.ask
    gain = np.where(decent, np.clip((offer - sellers.best) / FULL_GAIN, 0, 1), 0.0)
    progress = np.minimum(1, progress + STEP * gain)
    wanted = 1 - (1 - reservation) * (progress**sellers.steepness - jitter)
    after = replace(
        sellers,
        reservation=reservation,
        progress=progress,
        best=np.where(decent, np.maximum(sellers.best, offer), sellers.best),
        patience=sellers.patience - (gain < STEP),
        ask=np.maximum(reservation, np.minimum(sellers.ask, wanted)),
    )
    return after, gain, wanted


def plan_values(sellers: Sellers, plans: Floats, budget: float, worths: Sequence[float], jitters: Floats) -> Floats:
    """Return each plan's mean reward: one offer a turn to the last, an ask at or below the turn's offer is taken.

    `worths` and the rows of `jitters` belong to the turns left.
    """
    shape = (len(plans), sellers.cost.size)
    earned, alive = np.zeros(shape), np.ones(shape, bool)
    spread = np.maximum(np.abs(budget - sellers.cost), 1e-9)
    for turn, (worth, jitter) in enumerate(zip(worths, jitters, strict=True)):
        offer = plans[:, turn, None]
        takes = alive & (sellers.ask <= offer)
        earned, alive = np.where(takes, (budget - sellers.ask) / spread, earned), alive & ~takes
        sellers, _, _ = hear(sellers, offer, worth, jitter)
        least = np.maximum(sellers.cost, sellers.ask)
        if turn + 1 == len(worths):
            least = np.minimum(least, np.maximum(sellers.cost, sellers.reservation * (1 + sellers.margin)))
        sold = alive & (offer >= least)
        earned, alive = np.where(sold, (budget - offer) / spread, earned), alive & ~sold & (sellers.patience > 0)
    return np.clip(earned, -1, 1).mean(axis=1)


def update(sellers: Sellers, offer: float, worth: float, ask: float, pleased: bool | None, cent: float) -> Sellers:
    """Return the sellers that may have answered an offer with this ask, weighed by how likely each was to.

    `pleased` is the seller's tone, None where the reply has none; `cent` is a cent as a share of the list price. Where
    no seller that was thought of may have, all stay as they were weighed.
    """
    after, likelihood = answers(sellers, offer, worth, ask, pleased, cent)
    weight = sellers.weight * likelihood
    heard = replace(after, ask=np.full(after.ask.shape, ask))
    if not weight.any():
        return heard
    return replace(heard, weight=weight / weight.sum()).take(np.flatnonzero(weight))


def answers(
    sellers: Sellers, offer: float, worth: float, ask: float, pleased: bool | None, cent: float
) -> tuple[Sellers, Floats]:
    """Return the sellers after an offer, and how likely each was to answer with this ask, up to a common factor."""
    after, gain, wanted = hear(sellers, np.array([offer]), worth, np.zeros(1))
    reach = np.maximum(JITTER * (1 - after.reservation), 1e-9)
    lowest, highest = wanted - reach, wanted + reach
    # The ask fell to within the noise; or the seller wanted more than before; or less than its reservation price.
    fell = ((ask >= lowest - cent) & (ask <= highest + cent)) / np.maximum(2 * reach, cent)
    held = np.clip((highest - sellers.ask) / (2 * reach), 0, 1) / cent
    floored = np.clip((after.reservation - lowest) / (2 * reach), 0, 1) / cent
    likelihood = np.where(ask >= sellers.ask - cent / 2, held, fell)
    likelihood = np.where(np.abs(ask - after.reservation) <= cent, np.maximum(likelihood, floored), likelihood)
    likelihood = likelihood * (ask >= after.reservation - cent) * (after.patience > 0)
    return after, likelihood if pleased is None else likelihood * ((gain >= TONE) == pleased)


def spread_out(sellers: Sellers, rng: np.random.Generator) -> Sellers:
    """Return the sellers, or where few carry all the weight, neighbours of them with equal weights."""
    if 1 / np.sum(sellers.weight**2) >= FEWEST:
        return sellers
    some = sellers.take(rng.choice(sellers.weight.size, SPREAD, p=sellers.weight))
    reservation = np.clip(some.reservation * np.exp(rng.normal(0, 0.004, SPREAD)), 0.02, 1)
    return replace(
        some,
        reservation=reservation,
        cost=np.minimum(some.cost * reservation / some.reservation, reservation),
        margin=rng.uniform(0, LAST_TURN_MARGIN, SPREAD),
        weight=np.full(SPREAD, 1 / SPREAD),
    )


def search_plan(
    sellers: Sellers, budget: float, worths: Sequence[float], size: int, rng: np.random.Generator
) -> Floats:
    """Return the offers to the end that earn most against some of the sellers, found by selection and mutation."""
    some = sellers.take(rng.choice(sellers.weight.size, size, p=sellers.weight))
    turns = len(worths)
    jitters = rng.uniform(-JITTER, JITTER, (turns, size))
    if turns == 1:
        prices = np.linspace(0.05, budget, 200)[:, None]
        return prices[plan_values(some, prices, budget, worths, jitters).argmax()]
    pool = _random_plans(some, budget, turns, rng)
    values = plan_values(some, pool, budget, worths, jitters)
    for generation in range(GENERATIONS):
        best = np.argsort(-values)[:ELITE]
        children = pool[best][rng.integers(ELITE, size=PLANS)]
        moved = (rng.random(children.shape) < 0.4) & (children > REST)
        children = np.where(moved, children + rng.normal(0, 0.04 / (1 + generation), children.shape), children)
        children = np.where(rng.random(children.shape) < 0.05, REST, np.clip(children, REST, budget))
        pool = np.concatenate([pool[best], children])
        values = np.concatenate([values[best], plan_values(some, children, budget, worths, jitters)])
    return pool[values.argmax()]


def _random_plans(sellers: Sellers, budget: float, turns: int, rng: np.random.Generator) -> Floats:
    """Return rising offers with rests between them, most with a closing price near the reservation prices."""
    rests = rng.random((PLANS, turns)) < 0.35
    raises = np.where(rests, 0.0, FULL_GAIN * rng.choice([0.22, 0.5, 1.0, 1.02], (PLANS, turns)))
    made = sellers.best[sellers.best > 0]
    if made.size > sellers.best.size / 2:
        first = np.full(PLANS, np.median(made))
    else:
        first = rng.uniform(0.35, 0.6, PLANS)
        raises[np.arange(PLANS), (~rests).argmax(axis=1)] = 0.0
    plans = np.where(rests, REST, first[:, None] + np.cumsum(raises, axis=1))
    low, high = np.quantile(sellers.reservation, [0.02, 0.98])
    closing = rng.uniform(min(low, budget), min(budget, high * (1 + LAST_TURN_MARGIN) + 0.02), PLANS)
    plans[:, -1] = np.where(rng.random(PLANS) < 0.8, closing, plans[:, -1])
    return np.clip(plans, REST, budget)
