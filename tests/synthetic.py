"""Games and runs made up for tests: real messages that play by the rules, with a behaviour that is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

import polars as pl

from dealwright.game import (
    Action,
    ActionKind,
    Message,
    Negotiation,
    Product,
    Role,
    Scenario,
    format_message,
    round_down,
    round_up,
)
from dealwright.rollout import Episode, Intervention, episodes_frame, finished

CATEGORIES = ("Books", "Electronics", "Home & Kitchen", "<script>alert(1)</script>")
ARGUMENTS = ("I saw it cheaper elsewhere.", "I can pay cash today.", "It shows some wear.", "I will pick it up.")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How a buyer plays: first offer and saving as shares, and chances of a deal, of an argument, of a broken rule."""

    first_offer: float
    deal: float
    bargained: float
    argue: float
    invalid: float = 0.0


NAIVE = Behaviour(0.85, 0.90, 0.30, 0.15)
AGGRESSIVE = Behaviour(0.62, 0.86, 0.50, 0.20)
DEADLOCK = Behaviour(0.55, 0.55, 0.60, 0.30)
PERSUASION = Behaviour(0.58, 0.92, 0.72, 0.80)


def make_scenarios(count: int, split: str = "validation", title: str = "Kettle") -> list[Scenario]:
    """Return scenarios of made-up products, one in sixteen in the conflict zone."""
    scenarios = []
    for number in range(count):
        list_price = 20.0 + 13.0 * number
        cost = list_price * (0.9 if number % 16 == 15 else 0.4 + 0.02 * (number % 10))
        name = f"{title} {number}"
        product = Product(
            f"p{number}", name, CATEGORIES[number % 4], f"{name}, as good as new.", list_price, cost, list_price
        )
        scenarios.append(Scenario(f"s{number}", product, list_price, round(cost, 2), list_price * 0.8, number, split))
    return scenarios


def play_made_up(
    scenario: Scenario,
    behaviour: Behaviour,
    names: tuple[str, str],
    round: int,
    seed: str,
    checkpoint: int | None = None,
    interventions: tuple[Intervention, ...] = (),
) -> Episode:
    """Return a game of the given behaviour; the seed and the scenario fix it."""
    random = Random(f"{seed}/{scenario.seed}/{round}")
    game = Negotiation(scenario, round=round)
    budget, cost = round_down(scenario.budget), scenario.cost
    first = budget * min(1.0, max(0.05, random.gauss(behaviour.first_offer, 0.1)))
    if random.random() < behaviour.invalid:
        game.play(Role.BUYER, "Thought: hm\nTalk: Well?\nAction: [BUY] plenty")
        return finished(game, names, interventions, checkpoint)
    share = min(1.0, max(0.0, random.gauss(behaviour.bargained, 0.2)))
    price = max(budget - share * (budget - cost), first) if budget > cost else first
    closes = budget > cost and random.random() < behaviour.deal
    length = random.randint(2, 5) if closes else 6
    argues = random.random() < behaviour.argue
    ask = scenario.list_price
    for turn in range(1, length + 1):
        bid = round_down(first + (price - first) * (turn - 1) / max(1, length - 1))
        talk = random.choice(ARGUMENTS) if argues and turn > 1 else f"Offer number {turn}."
        _say(game, Role.BUYER, f"ask {ask:.2f} against my {budget:.2f}", talk, ActionKind.BUY, bid)
        if closes and turn == length:
            _say(game, Role.SELLER, "fine", "Sold.", ActionKind.DEAL, bid)
        elif turn == 6 or random.random() > 0.15:
            ask = max(round_up(max(price, cost) * 1.02), round_up(ask * 0.93))
            _say(game, Role.SELLER, f"my cost is {cost:.2f}", "My shelf is full.", ActionKind.SELL, ask)
        elif not closes and turn > 3:
            _say(game, Role.SELLER, "enough", "Good day.", ActionKind.QUIT)
        else:
            _say(game, Role.SELLER, "no", "No.", ActionKind.REJECT)
        if game.outcome is not None:
            break
    return finished(game, names, interventions, checkpoint)


def probe_games(
    behaviours: Sequence[Behaviour], products: int, seed: str = "run", rounds: int = 1, step: int = 10
) -> pl.DataFrame:
    """Return probe games of one checkpoint a behaviour, as data/rollouts/validation.parquet holds them."""
    scenarios = make_scenarios(products)
    return episodes_frame(
        [
            play_made_up(scenario, behaviour, ("checkpoint", "training"), round, f"{seed}/{place}", place * step)
            for place, behaviour in enumerate(behaviours)
            for round in range(rounds)
            for scenario in scenarios
        ]
    )


def final_games(
    buyers: Mapping[str, Behaviour], sellers: Sequence[str], products: int, rounds: int = 2, title: str = "Kettle"
) -> pl.DataFrame:
    """Return games on test scenarios, as data/rollouts/evaluation.parquet holds them; every fourth has an
    intervention."""
    scenarios = make_scenarios(products, "test", title)
    refused = (Intervention(1, "below_cost", "Action: [SELL] $1.00"),)
    return episodes_frame(
        [
            play_made_up(
                scenario,
                behaviour,
                (buyer, seller),
                round,
                f"{buyer}/{seller}",
                None,
                () if scenario.seed % 4 else refused,
            )
            for buyer, behaviour in buyers.items()
            for seller in sellers
            for round in range(rounds)
            for scenario in scenarios
        ]
    )


def _say(game: Negotiation, role: Role, thought: str, talk: str, kind: ActionKind, price: float | None = None) -> None:
    game.play(role, format_message(Message(thought, talk, Action(kind, price))))
