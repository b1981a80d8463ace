"""The example that a person at the table is shown may be typed as it stands."""

import pytest

from dealwright.cli.table import Person
from dealwright.game import Negotiation, Product, Role, Scenario


def scenario(list_price: float, cost: float) -> Scenario:
    product = Product("p1", "Desk lamp", "Home", "A lamp.", list_price, cost, list_price)
    return Scenario("s1", product, list_price, cost, budget=0.8 * list_price, seed=7, split="test")


@pytest.mark.parametrize(
    ("list_price", "cost", "offers", "sells", "buys"),
    [
        (100.0, 40.0, [], "94 it is as new", "40 it looks worn"),
        (100.0, 40.0, [60.0], "96 it is as new", "70 it looks worn"),
        (100.0, 40.0, [60.0, 70.0], "69 it is as new", "65 it looks worn"),
        (100.0, 40.0, [60.0, 61.0], "61 it is as new", "60.50 it looks worn"),
        (5.99, 5.5, [], "5.95 it is as new", "2 it looks worn"),
        (0.5, 0.4, [], "0.49 it is as new", "0.20 it looks worn"),
        (19999.0, 12000.0, [15000.0], "19499 it is as new", "15500 it looks worn"),
    ],
)
def test_the_example_is_a_legal_move_at_a_price_of_this_product(
    list_price: float, cost: float, offers: list[float], sells: str, buys: str
) -> None:
    game = Negotiation(scenario(list_price, cost))
    for role, offer in zip((Role.BUYER, Role.SELLER), offers, strict=False):
        game.play(role, f"Talk: hello\nAction: [{'BUY' if role is Role.BUYER else 'SELL'}] ${offer}")
    for role, example in ((Role.SELLER, sells), (Role.BUYER, buys)):
        person = Person(role, monotone=True)
        assert person.example(game) == example
        assert person.read(game, example)[1] == ""


def test_a_person_is_welcomed_with_an_example_for_the_product(capsys: pytest.CaptureFixture[str]) -> None:
    for role, example in ((Role.SELLER, "94 it is as new"), (Role.BUYER, "40 it looks worn")):
        Person(role, monotone=True).welcome(Negotiation(scenario(100.0, 40.0)))
        expected = f"Answer with a price and what you say ({example}), or with deal, reject or quit."
        assert expected in capsys.readouterr().out.splitlines()
