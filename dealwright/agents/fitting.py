"""Fits scripted ladders by cross-entropy search on text-free games (protocol, section 4a)."""

import math
from collections.abc import Sequence
from random import Random

from dealwright.agents.arguments import Argument
from dealwright.agents.buyers import Ladder, Observation, Policy, Reading
from dealwright.agents.concession import decide, draw_type, start
from dealwright.game import ActionKind, Outcome, Scenario, StopReason, reward

ELITE = 0.2  # share of the candidates that the next generation is drawn around
SMOOTHING = 0.7  # weight of the new generation's mean and spread
LOWEST_SPREAD = 0.005
FIRST_GUESS = (0.55, 0.62, 0.69, 0.76, 0.83, 0.90)


def play_text_free(policy: Policy, scenario: Scenario, column: str, round: int, max_turns: int = 6) -> Outcome:
    """Play a policy against the concession seller without a word; the outcome is that of the game in words."""
    type = draw_type(column, scenario, round, max_turns)
    state = start(type)
    ask: float | None = None
    cues: tuple[Argument, ...] = ()
    for turn in range(1, max_turns + 1):
        move = policy.move(Observation(turn, scenario.budget, ask, cues))
        if move.kind is ActionKind.DEAL:
            return Outcome(StopReason.DEAL, ask, turn)
        if move.kind is ActionKind.QUIT:
            return Outcome(StopReason.BUYER_QUIT, None, turn)
        state, decision = decide(state, move.price, move.argument)
        if decision.kind is ActionKind.DEAL:
            return Outcome(StopReason.DEAL, decision.price, turn)
        if decision.kind is ActionKind.QUIT:
            return Outcome(StopReason.SELLER_QUIT, None, turn)
        ask = decision.price
        cues = cues or tuple(sorted(type.receptive))
    return Outcome(StopReason.MAX_TURNS, None, max_turns)


def mean_reward(policy: Policy, scenarios: Sequence[Scenario], column: str, rounds: Sequence[int]) -> float:
    """Return a policy's mean reward over scenarios and rounds."""
    rewards = [
        reward(scenario, play_text_free(policy, scenario, column, round)) or 0.0
        for scenario in scenarios
        for round in rounds
    ]
    return math.fsum(rewards) / len(rewards)


def fit_ladder(
    scenarios: Sequence[Scenario],
    column: str,
    reading: Reading,
    plain: Ladder | None,
    seed: int,
    population: int,
    iterations: int,
) -> Ladder:
    """Search for the ladder with the highest mean reward against a column of the concession seller.

    A plain ladder has six numbers, its rungs. Given a fitted `plain` one, the search starts there and adds six more:
    five acceptance thresholds from the second message on, and the share of the ask that no offer exceeds.
    """
    draw = Random(f"{seed}/fit/{reading}/{plain is None}")
    mean = list(FIRST_GUESS) if plain is None else [*plain.rungs, *plain.rungs[1:], 1.0]
    spread = [0.10 if plain is None else 0.04] * len(mean)
    for iteration in range(iterations):
        candidates = [
            [min(1.0, max(0.2, draw.gauss(m, s))) for m, s in zip(mean, spread, strict=True)]
            for _ in range(population)
        ]
        # Every candidate of an iteration meets the same sellers; the next iteration meets others.
        scored = sorted(
            ((mean_reward(_ladder(c, reading), scenarios, column, [iteration]), c) for c in [mean, *candidates]),
            reverse=True,
        )
        elite = [candidate for _, candidate in scored[: max(2, round(ELITE * population))]]
        columns = list(zip(*elite, strict=True))
        new_mean = [math.fsum(values) / len(values) for values in columns]
        new_spread = [
            math.sqrt(math.fsum((value - m) ** 2 for value in values) / len(values))
            for values, m in zip(columns, new_mean, strict=True)
        ]
        mean = [SMOOTHING * n + (1 - SMOOTHING) * o for n, o in zip(new_mean, mean, strict=True)]
        spread = [
            max(LOWEST_SPREAD, SMOOTHING * n + (1 - SMOOTHING) * o) for n, o in zip(new_spread, spread, strict=True)
        ]
    return _ladder(mean, reading)


def _ladder(numbers: Sequence[float], reading: Reading) -> Ladder:
    rungs = tuple(sorted(numbers[:6]))
    if len(numbers) == 6:
        return Ladder(rungs, reading)
    # The threshold of the first turn is never used: no ask stands then.
    return Ladder(rungs, reading, (0.0, *numbers[6:11]), numbers[11])
