"""The scripted buyers, and the oracle."""

import pytest

from dealwright.agents import (
    FIXED_POLICIES,
    SENTENCES,
    Argument,
    Ladder,
    Move,
    Observation,
    Oracle,
    ScriptedBuyer,
)
from dealwright.agents.buyers import Staller, TakeItOrLeaveIt, linear, observe
from dealwright.game import ActionKind, Negotiation, Role
from tests.games import a_scenario, say

BUY, SELL, REJECT, DEAL, QUIT = ActionKind
RUNGS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
CUES = (Argument.CONDITION, Argument.COMPETITOR)


def seen(turn: int, ask: float | None = None, cues: tuple[Argument, ...] = (), budget: float = 80.0) -> Observation:
    return Observation(turn, budget, ask, cues)


def test_a_ladder_offers_its_rungs_in_turn_as_shares_of_the_budget() -> None:
    assert [Ladder(RUNGS).move(seen(turn)) for turn in (1, 2, 6)] == [
        Move(BUY, 40.0),
        Move(BUY, 48.0),
        Move(BUY, 80.0),
    ]


def test_a_ladder_stays_on_its_last_rung() -> None:
    assert Ladder((0.5, 0.75)).move(seen(5)) == Move(BUY, 60.0)


def test_offers_are_rounded_down_to_the_cent() -> None:
    assert Ladder((0.333,)).move(seen(1, budget=79.96)) == Move(BUY, 26.62)
    assert Ladder((1.0,)).move(seen(1, budget=0.8 * 49.99)) == Move(BUY, 39.99)


def test_a_ladder_takes_an_ask_at_or_below_its_next_rung() -> None:
    assert Ladder(RUNGS).move(seen(2, 48.0)) == Move(DEAL, 48.0)
    assert Ladder(RUNGS).move(seen(2, 30.0)) == Move(DEAL, 30.0)
    assert Ladder(RUNGS).move(seen(2, 48.01)) == Move(BUY, 48.0)


def test_a_ladder_with_thresholds_takes_an_ask_by_them_instead() -> None:
    ladder = Ladder(RUNGS, thresholds=(0.0, 0.7, 0.7, 0.7, 0.7, 0.9))
    assert ladder.move(seen(2, 56.0)) == Move(DEAL, 56.0)
    assert ladder.move(seen(2, 56.01)) == Move(BUY, 48.0)
    assert ladder.move(seen(6, 76.0)) == Move(BUY, 80.0)


def test_an_offer_never_exceeds_its_share_of_the_ask() -> None:
    ladder = Ladder(RUNGS, thresholds=(0.1,) * 6, ask_share=0.9)
    assert ladder.move(seen(1)) == Move(BUY, 40.0)
    assert ladder.move(seen(4, 70.0)) == Move(BUY, 63.0)
    assert ladder.move(seen(2, 70.0)) == Move(BUY, 48.0)


def test_stock_arguments_go_through_the_six_kinds_in_turn() -> None:
    said = [Ladder(RUNGS, "stock").move(seen(turn, cues=CUES)).argument for turn in range(1, 8)]
    assert said == [*Argument, Argument.COMPETITOR]


def test_a_cue_reader_uses_what_it_heard_from_its_second_message_on() -> None:
    said = [Ladder(RUNGS, "cues").move(seen(turn, cues=CUES)).argument for turn in range(1, 7)]
    assert said == [None, Argument.CONDITION, Argument.COMPETITOR, None, None, None]


def test_a_mute_ladder_says_nothing() -> None:
    assert {Ladder(RUNGS).move(seen(turn, cues=CUES)).argument for turn in range(1, 7)} == {None}


def test_take_it_or_leave_it_makes_one_offer_and_leaves() -> None:
    assert [TakeItOrLeaveIt(0.75).move(seen(turn, 90.0)) for turn in (1, 2)] == [Move(BUY, 60.0), Move(QUIT)]


def test_the_staller_rejects_five_times_and_then_offers() -> None:
    moves = [Staller(0.76).move(seen(turn, 10.0)) for turn in range(1, 7)]
    assert moves == [Move(REJECT)] * 5 + [Move(BUY, 60.8)]


def test_a_linear_ladder_has_even_steps() -> None:
    assert linear(0.5, 1.0) == pytest.approx((0.5, 0.6, 0.7, 0.8, 0.9, 1.0))
    assert linear(0.4, 0.8, 3) == pytest.approx((0.4, 0.6, 0.8))


def test_the_fixed_scripts_are_the_published_ones() -> None:
    expected = {
        "take_it_or_leave_it": TakeItOrLeaveIt(0.75),
        "linear_ladder": Ladder(linear(0.40, 0.95)),
        "arguing_ladder": Ladder((0.62, 0.68, 0.75, 0.81, 0.87, 0.93), "stock"),
        "og_narrator": Ladder(linear(0.5, 1.0)),
        "staller": Staller(0.76, 5),
    }
    assert expected == FIXED_POLICIES


def test_moves_are_put_into_words_that_the_rules_accept() -> None:
    game = Negotiation(a_scenario())
    buyer = ScriptedBuyer(Ladder(RUNGS, "stock"))
    assert buyer.respond([game]) == [f"Talk: {SENTENCES[Argument.COMPETITOR][0]}\nAction: [BUY] $40.00"]
    assert ScriptedBuyer(Staller(0.76)).respond([game]) == ["Talk:\nAction: [REJECT]"]
    game.play(Role.BUYER, say("[BUY] $40"))
    game.play(Role.SELLER, say("[SELL] $47.50"))
    assert buyer.respond([game]) == ["Talk:\nAction: [DEAL] $47.50"]


def test_a_buyer_sees_the_ask_and_the_cues_of_the_first_reply_alone() -> None:
    game = Negotiation(a_scenario())
    assert observe(game) == Observation(1, 80.0, None, ())
    game.play(Role.BUYER, say("[BUY] $40"))
    game.play(Role.SELLER, say("[SELL] $95", "Hello. My shelf is full. People do compare.", "My bills are due."))
    assert observe(game) == Observation(2, 80.0, 95.0, (Argument.LONG_ON_MARKET, Argument.COMPETITOR))
    game.play(Role.BUYER, say("[BUY] $45"))
    game.play(Role.SELLER, say("[REJECT]", "My bills are due."))
    assert observe(game) == Observation(3, 80.0, 95.0, (Argument.LONG_ON_MARKET, Argument.COMPETITOR))


def test_no_script_but_the_oracle_depends_on_the_cost() -> None:
    for policy in FIXED_POLICIES.values():
        games = [Negotiation(a_scenario(cost=cost)) for cost in (10.0, 95.0)]
        for game in games:
            game.play(Role.BUYER, say("[BUY] $40"))
            game.play(Role.SELLER, say("[SELL] $95", "My shelf is full."))
        assert len(set(ScriptedBuyer(policy).respond(games))) == 1


def test_the_oracle_pays_the_cost_where_it_is_below_the_budget_and_walks_away_where_not() -> None:
    games = [Negotiation(a_scenario(cost=cost)) for cost in (50.0, 50.001, 80.0, 90.0)]
    assert Oracle().respond(games) == [
        "Talk:\nAction: [BUY] $50.00",
        "Talk:\nAction: [BUY] $50.01",
        "Talk:\nAction: [QUIT]",
        "Talk:\nAction: [QUIT]",
    ]
