"""Small scenarios, messages and players for the tests of the game."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dealwright.game import Negotiation, Product, Scenario


def a_scenario(
    list_price: float = 100.0,
    cost: float = 50.0,
    budget: float = 80.0,
    seed: int = 0,
    title: str = "A lamp",
    description: str = "It shines.",
) -> Scenario:
    """Return a scenario; its product's prices are those of the scenario."""
    product = Product(f"p{seed}", title, "home", description, list_price, cost, list_price)
    return Scenario(f"s{seed}", product, list_price, cost, budget, seed, "train")


def some_scenarios(count: int) -> list[Scenario]:
    """Return scenarios of rising prices and costs; one in ten is in the conflict zone."""
    return [
        a_scenario(
            20.0 + number,
            (9.0 if number % 10 == 9 else 4.0 + number % 5) * (20 + number) / 10,
            (20 + number) * 0.8,
            number,
        )
        for number in range(count)
    ]


def say(action: str, talk: str = "", thought: str = "") -> str:
    """Write a message by hand, as in `say("[BUY] $40.00", "Please.")`."""
    return f"Thought: {thought}\nTalk: {talk}\nAction: {action}"


@dataclass
class Reciter:
    """Gives the same texts in every game: the n-th to the n-th question about it; None stands for a failed backend.

    Keeps the sizes of the batches that it was asked for.
    """

    texts: Sequence[str | None]
    batches: list[int] = field(default_factory=list)
    asked: dict[int, int] = field(default_factory=dict)

    def respond(self, games: Sequence[Negotiation]) -> list[str | None]:
        """Return the next text in each game."""
        self.batches.append(len(games))
        return [self._next(game) for game in games]

    def _next(self, game: Negotiation) -> str | None:
        number = self.asked.get(id(game), 0)
        self.asked[id(game)] = number + 1
        return self.texts[number]
