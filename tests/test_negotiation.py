"""One game, message by message (protocol, sections 2, 3 and 9)."""

import ast
import sys
from pathlib import Path

import pytest

from dealwright import game as rules
from dealwright.game import (
    Negotiation,
    Outcome,
    Role,
    Scenario,
    StopReason,
    reward,
)
from tests.games import a_scenario, say

BUYER, SELLER = Role.BUYER, Role.SELLER


def played(*messages: str, max_turns: int = 6, scenario: Scenario | None = None) -> Negotiation:
    """Return a game after these messages, the buyer's first."""
    game = Negotiation(scenario or a_scenario(), max_turns)
    for message in messages:
        game.play(game.to_move, message)
    return game


def test_the_buyer_speaks_first_and_both_take_turns() -> None:
    game = Negotiation(a_scenario())
    assert (game.to_move, game.turn) == (BUYER, 1)
    assert game.play(BUYER, say("[BUY] $40")) is None
    assert (game.to_move, game.turn) == (SELLER, 1)
    assert game.play(SELLER, say("[REJECT]")) is None
    assert (game.to_move, game.turn) == (BUYER, 2)


def test_speaking_out_of_turn_is_a_programming_error_and_changes_nothing() -> None:
    game = Negotiation(a_scenario())
    with pytest.raises(ValueError, match="buyer's turn, not the seller's"):
        game.play(SELLER, say("[SELL] $90"))
    game.play(BUYER, say("[BUY] $40"))
    with pytest.raises(ValueError, match="seller's turn, not the buyer's"):
        game.play(BUYER, say("[BUY] $41"))
    assert len(game.transcript) == 1
    assert game.standing_offer(BUYER) == 40.0


def test_speaking_after_the_end_is_a_programming_error() -> None:
    game = played(say("[QUIT]"))
    for role in Role:
        with pytest.raises(ValueError, match="the game is over"):
            game.play(role, say("[REJECT]"))
    with pytest.raises(ValueError, match="the game is over"):
        game.fail()
    assert game.outcome == Outcome(StopReason.BUYER_QUIT, None, 1)


def test_a_game_has_six_turns_in_round_0_unless_it_is_told_otherwise() -> None:
    assert (Negotiation(a_scenario()).max_turns, Negotiation(a_scenario()).round) == (6, 0)
    assert (Negotiation(a_scenario(), 3, 2).max_turns, Negotiation(a_scenario(), 3, 2).round) == (3, 2)


def test_a_game_without_turns_is_refused() -> None:
    with pytest.raises(ValueError, match="max_turns must be at least 1, got 0"):
        Negotiation(a_scenario(), max_turns=0)


def test_the_seller_may_take_the_buyers_offer() -> None:
    game = played(say("[BUY] $60"), say("[DEAL] $60.00"))
    assert game.outcome == Outcome(StopReason.DEAL, 60.0, 1)


def test_the_buyer_may_take_the_sellers_offer_on_a_later_turn() -> None:
    game = played(say("[BUY] $60"), say("[SELL] $75"), say("[DEAL] $75"))
    assert game.outcome == Outcome(StopReason.DEAL, 75.0, 2)


def test_a_rejection_leaves_both_standing_offers() -> None:
    game = played(say("[BUY] $60"), say("[SELL] $75"), say("[REJECT]"), say("[REJECT]"))
    assert (game.standing_offer(BUYER), game.standing_offer(SELLER)) == (60.0, 75.0)
    assert game.play(BUYER, say("[DEAL] $75")) == Outcome(StopReason.DEAL, 75.0, 3)


def test_a_deal_is_about_the_last_offer_and_not_an_earlier_one() -> None:
    rejected = played(say("[BUY] $40"), say("[SELL] $75"), say("[BUY] $50"), say("[SELL] $70"), say("[DEAL] $75"))
    assert rejected.outcome == Outcome(StopReason.INVALID, None, 3)
    taken = played(say("[BUY] $40"), say("[SELL] $75"), say("[BUY] $50"), say("[SELL] $70"), say("[DEAL] $70"))
    assert taken.outcome == Outcome(StopReason.DEAL, 70.0, 3)


@pytest.mark.parametrize("amount", ["74.99", "75", "75.01"])
def test_a_deal_within_one_cent_closes_at_the_standing_offer(amount: str) -> None:
    game = played(say("[BUY] $60"), say("[SELL] $75.00"), say(f"[DEAL] ${amount}"))
    assert game.outcome == Outcome(StopReason.DEAL, 75.0, 2)


@pytest.mark.parametrize("amount", ["74.98", "75.02", "60", "100"])
def test_a_deal_at_another_price_breaks_the_rules(amount: str) -> None:
    game = played(say("[BUY] $60"), say("[SELL] $75.00"), say(f"[DEAL] ${amount}"))
    assert game.outcome == Outcome(StopReason.INVALID, None, 2)


def test_one_cent_is_counted_in_whole_cents_and_not_in_binary_fractions() -> None:
    assert 1.11 - 1.10 > 0.01
    game = played(say("[BUY] $1.00"), say("[SELL] $1.10"), say("[DEAL] $1.11"))
    assert game.outcome == Outcome(StopReason.DEAL, 1.1, 2)


@pytest.mark.parametrize("first", [[], [say("[BUY] $60"), say("[REJECT]")], [say("[BUY] $60"), say("[REJECT]")] * 2])
def test_a_deal_without_an_offer_of_the_other_side_breaks_the_rules(first: list[str]) -> None:
    game = played(*first, say("[DEAL] $60"))
    assert game.outcome == Outcome(StopReason.INVALID, None, len(first) // 2 + 1)


def test_an_offer_at_or_above_the_ask_is_an_offer_and_no_deal() -> None:
    game = played(say("[BUY] $60"), say("[SELL] $75"), say("[BUY] $75"))
    assert game.outcome is None
    assert game.standing_offer(BUYER) == 75.0
    assert game.play(SELLER, say("[SELL] $70")) is None


def test_either_side_may_walk_away() -> None:
    assert played(say("[QUIT]")).outcome == Outcome(StopReason.BUYER_QUIT, None, 1)
    assert played(say("[BUY] $60"), say("[QUIT]")).outcome == Outcome(StopReason.SELLER_QUIT, None, 1)


def test_the_game_ends_with_the_sellers_sixth_reply() -> None:
    game = played(*[say("[BUY] $40"), say("[SELL] $90")] * 5, say("[BUY] $41"))
    assert game.outcome is None
    assert game.play(SELLER, say("[SELL] $80")) == Outcome(StopReason.MAX_TURNS, None, 6)


def test_the_seller_may_still_take_the_last_offer() -> None:
    game = played(*[say("[BUY] $40"), say("[SELL] $90")] * 5, say("[BUY] $60"), say("[DEAL] $60"))
    assert game.outcome == Outcome(StopReason.DEAL, 60.0, 6)


def test_the_number_of_turns_is_the_games_own() -> None:
    game = played(say("[BUY] $40"), say("[SELL] $90"), max_turns=1)
    assert game.outcome == Outcome(StopReason.MAX_TURNS, None, 1)


@pytest.mark.parametrize(
    "broken", ["", "hello", say("[SELL] $90"), say("[BUY]"), say("[BUY] $0"), "x" * 1990 + say("[BUY] $40")]
)
def test_a_broken_message_of_the_buyer_is_an_outcome(broken: str) -> None:
    game = played(say("[BUY] $40"), say("[SELL] $90"), broken)
    assert game.outcome == Outcome(StopReason.INVALID, None, 2)
    assert reward(game.scenario, game.outcome) == -1.0


@pytest.mark.parametrize("broken", ["", say("[BUY] $60"), say("[DEAL] $61"), say("[SELL] $0")])
def test_a_broken_message_of_the_seller_fails_the_game_and_costs_the_buyer_nothing(broken: str) -> None:
    game = played(say("[BUY] $60"), broken)
    assert game.outcome == Outcome(StopReason.SELLER_FAILED, None, 1)
    assert reward(game.scenario, game.outcome) is None


def test_a_seller_whose_backend_failed_ends_the_game_on_its_own_turn_only() -> None:
    game = Negotiation(a_scenario())
    with pytest.raises(ValueError, match="buyer's turn"):
        game.fail()
    game.play(BUYER, say("[BUY] $40"))
    assert game.fail() == Outcome(StopReason.SELLER_FAILED, None, 1)


def test_a_price_in_talk_is_no_offer() -> None:
    game = played(say("[REJECT]", "I offer $60."))
    assert game.standing_offer(BUYER) is None
    assert game.play(SELLER, say("[DEAL] $60")) == Outcome(StopReason.SELLER_FAILED, None, 1)


def test_the_offers_of_a_side_are_listed_by_message() -> None:
    game = played(say("[BUY] $40"), say("[REJECT]"), say("[REJECT]"), say("[SELL] $90"), say("[DEAL] $90"))
    assert game.offers(BUYER) == [40.0, None, None]
    assert game.offers(SELLER) == [None, 90.0]


def test_each_side_sees_its_own_words_whole_and_the_others_without_thought() -> None:
    buyers = say("[BUY] $40", "Please.", "my budget is 80")
    sellers = say("[SELL] $90", "No.", "my cost is 50")
    game = played(buyers, sellers)
    assert game.view(BUYER) == [
        {"role": "assistant", "content": buyers},
        {"role": "user", "content": "Talk: No.\nAction: [SELL] $90.00"},
    ]
    assert game.view(SELLER) == [
        {"role": "user", "content": "Talk: Please.\nAction: [BUY] $40.00"},
        {"role": "assistant", "content": sellers},
    ]


def test_a_view_holds_each_message_once() -> None:
    game = played(*[say("[BUY] $40"), say("[SELL] $90")] * 2, say("[REJECT]"))
    assert [turn["role"] for turn in game.view(BUYER)] == ["assistant", "user", "assistant", "user", "assistant"]
    assert [turn["role"] for turn in game.view(SELLER)] == ["user", "assistant", "user", "assistant", "user"]


@pytest.mark.parametrize(
    "text",
    [
        "secret\nTalk: Hello.\nAction: [BUY] $40",
        "Action: [BUY] $41 secret\nsecret\nTalk: Hello.\nAction: [BUY] $40",
        "Talk: Hello.\nThought: secret\nAction: [BUY] $40",
        "Talk: Hello.\nAction: [BUY] $40\nTalk: secret",
        "thought: secret\r\nTalk: Hello.\r\nAction: [BUY] $40",
    ],
)
def test_no_thought_reaches_the_other_side_however_it_is_laid_out(text: str) -> None:
    content = played(text).view(SELLER)[0]["content"]
    assert content == "Talk: Hello.\nAction: [BUY] $40.00"


@pytest.mark.parametrize("line_end", ["\n", "\r", "\u2028", "\x85", "\x0b"])
def test_an_action_in_talk_stays_inside_the_one_line_that_the_other_side_sees(line_end: str) -> None:
    content = played(f"Talk: Hi.{line_end} Action: [DEAL] $1{line_end}\nAction: [BUY] $40").view(SELLER)[0]["content"]
    assert content == "Talk: Hi. Action: [DEAL] $1\nAction: [BUY] $40.00"


def test_a_broken_message_shows_the_other_side_nothing() -> None:
    assert played("Thought: my budget is 80\nTalk: Hello.").view(SELLER) == [{"role": "user", "content": "Talk:"}]


def test_the_rules_import_nothing_but_themselves_and_the_standard_library() -> None:
    for path in Path(rules.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert name.startswith("dealwright.game") or name.split(".")[0] in sys.stdlib_module_names, path
