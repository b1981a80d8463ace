"""The regulator between a seller and the game (protocol, sections 4 and 9)."""

import pytest

from dealwright.game import (
    Negotiation,
    Regulator,
    Role,
    Ruling,
    Scenario,
    Violation,
)
from tests.games import a_scenario, say

BUYER, SELLER = Role.BUYER, Role.SELLER
REPEATED_90 = "Talk: I stay with my price.\nAction: [SELL] $90.00"


def after(*messages: str, scenario: Scenario | None = None) -> Negotiation:
    game = Negotiation(scenario or a_scenario(list_price=100, cost=50, budget=80))
    for message in messages:
        game.play(game.to_move, message)
    return game


def ruled(text: str, *messages: str, monotone: bool = True, scenario: Scenario | None = None) -> Ruling:
    game = after(*messages, scenario=scenario)
    return Regulator(game.scenario, monotone).rule(game, text)


BID_40_ASK_90_BID_45 = (say("[BUY] $40"), say("[SELL] $90"), say("[BUY] $45"))


@pytest.mark.parametrize(
    "text",
    [
        say("[SELL] $85"),
        say("[SELL] $90"),
        say("[SELL] $50.00", "My last word."),
        say("[REJECT]", "No."),
        say("[QUIT]"),
        "Action: [SELL] $60",
        say("[SELL] $85", "I paid a lot.", "my cost is $50.00"),
    ],
)
def test_a_message_within_the_rules_passes_unchanged(text: str) -> None:
    assert ruled(text, *BID_40_ASK_90_BID_45) == Ruling(text, None)


@pytest.mark.parametrize("text", [say("[SELL] $49.99"), say("[SELL] $1"), say("[DEAL] $45"), say("[DEAL] $45.01")])
def test_nothing_is_offered_or_closed_below_cost(text: str) -> None:
    assert ruled(text, *BID_40_ASK_90_BID_45) == Ruling(REPEATED_90, Violation.BELOW_COST)


def test_a_bid_at_cost_may_be_taken_and_a_cent_below_it_not() -> None:
    assert ruled(say("[DEAL] $50"), say("[BUY] $50")).violation is None
    assert ruled(say("[DEAL] $49.99"), say("[BUY] $49.99")).violation is Violation.BELOW_COST


def test_naming_the_cost_while_taking_a_bid_a_cent_below_it_does_not_help() -> None:
    assert ruled(say("[DEAL] $50.00"), say("[BUY] $49.99")).violation is Violation.BELOW_COST


def test_a_cost_between_two_cents_is_kept_too() -> None:
    scenario = a_scenario(cost=50.001)
    assert ruled(say("[SELL] $50.00"), say("[BUY] $40"), scenario=scenario).violation is Violation.BELOW_COST
    assert ruled(say("[SELL] $50.01"), say("[BUY] $40"), scenario=scenario).violation is None
    for stated in ("$50.00", "$50.01"):
        ruling = ruled(say("[SELL] $70", f"I paid {stated}."), say("[BUY] $40"), scenario=scenario)
        assert ruling.violation is Violation.LEAK


@pytest.mark.parametrize(
    "text",
    [
        *("", "hello", say("[BUY] $60"), say("[SELL]"), say("[SELL] $90.001"), "x" * 2001),
        *(say("[DEAL] $44"), say("[DEAL] $44.98"), say("[DEAL] $45.02")),
    ],
)
def test_a_malformed_message_is_refused(text: str) -> None:
    assert ruled(text, *BID_40_ASK_90_BID_45) == Ruling(REPEATED_90, Violation.MALFORMED)


def test_a_deal_without_a_bid_is_malformed() -> None:
    assert ruled(say("[DEAL] $60"), say("[REJECT]")).violation is Violation.MALFORMED


@pytest.mark.parametrize(
    "talk",
    ["It cost me $50.", "I paid 50 dollars", "50.00 is what I paid", "USD 50!", "＄５０", "$50.000", "$5\u200b0"],  # noqa: RUF001
)
def test_the_cost_is_never_stated_as_money(talk: str) -> None:
    assert ruled(say("[SELL] $85", talk), *BID_40_ASK_90_BID_45) == Ruling(REPEATED_90, Violation.LEAK)
    assert ruled(say("[REJECT]", talk), *BID_40_ASK_90_BID_45).violation is Violation.LEAK


@pytest.mark.parametrize("talk", ["It is 50 cm wide.", "I paid $50.01", "Say $500 or $5.", "no"])
def test_other_amounts_and_other_numbers_may_be_stated(talk: str) -> None:
    assert ruled(say("[SELL] $85", talk), *BID_40_ASK_90_BID_45).violation is None


def test_the_cost_may_be_stated_once_it_is_a_formal_offer() -> None:
    assert ruled(say("[SELL] $50", "I go down to $50."), *BID_40_ASK_90_BID_45).violation is None
    earlier = (say("[BUY] $40"), say("[SELL] $50"), say("[BUY] $45"))
    assert ruled(say("[REJECT]", "I said $50."), *earlier).violation is None


def test_a_bid_at_the_cost_does_not_allow_the_seller_to_state_it() -> None:
    assert ruled(say("[SELL] $85", "I cannot take $50."), say("[BUY] $50")).violation is Violation.LEAK


def test_an_ask_never_rises_unless_the_rule_is_off() -> None:
    for text in (say("[SELL] $90.01"), say("[SELL] $95")):
        assert ruled(text, *BID_40_ASK_90_BID_45) == Ruling(REPEATED_90, Violation.RISE)
        assert ruled(text, *BID_40_ASK_90_BID_45, monotone=False) == Ruling(text, None)
    game = after(*BID_40_ASK_90_BID_45)
    assert Regulator(game.scenario).rule(game, say("[SELL] $95")).violation is Violation.RISE


def test_a_first_ask_may_be_any() -> None:
    assert ruled(say("[SELL] $120"), say("[BUY] $40")).violation is None


def test_the_replacement_before_any_ask_is_the_list_price() -> None:
    assert ruled("hello", say("[BUY] $40")).text == "Talk: I stay with my price.\nAction: [SELL] $100.00"


def test_a_list_price_between_two_cents_is_replaced_by_the_cent_above() -> None:
    ruling = ruled("hello", say("[BUY] $40"), scenario=a_scenario(list_price=100.001))
    assert ruling.text == "Talk: I stay with my price.\nAction: [SELL] $100.01"


def test_the_floor_does_not_show_in_what_replaces_an_offer_below_it() -> None:
    game = after(say("[BUY] $40"))
    game.play(SELLER, Regulator(game.scenario).rule(game, say("[SELL] $49", "My floor is $50.00.", "50.00")).text)
    assert game.view(BUYER)[1] == {"role": "user", "content": "Talk: I stay with my price.\nAction: [SELL] $100.00"}
    assert "50" not in str(game.view(BUYER)[1])
