"""Many games side by side, the regulator's place before the seller, and finished games as rows."""

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealwright.agents import ConcessionSeller, Demonstrator, FloorOnlySeller, Ladder, ScriptedBuyer
from dealwright.errors import DealwrightError
from dealwright.game import Negotiation, Outcome, Role, StopReason, find_money, reward
from dealwright.rollout import (
    Episode,
    Intervention,
    episodes_frame,
    finished,
    play,
    read_episodes,
    replay,
    rollout,
)
from tests.games import Reciter, a_scenario, say, some_scenarios

BELOW_COST = say("[SELL] $10", "Take it.", "why not")
REPEATED = "Talk: I stay with my price.\nAction: [SELL] $100.00"


def test_live_games_advance_together_in_one_call_a_side_and_half_turn() -> None:
    games = [Negotiation(a_scenario(cost=cost)) for cost in (35.0, 45.0, 55.0, 95.0)]
    buyer = Reciter([say(f"[BUY] ${amount}") for amount in (30, 40, 50, 60, 65, 70)])
    play(games, buyer, FloorOnlySeller())
    assert buyer.batches == [4, 4, 3, 2, 1, 1]
    assert [game.outcome for game in games] == [
        Outcome(StopReason.DEAL, 40.0, 2),
        Outcome(StopReason.DEAL, 50.0, 3),
        Outcome(StopReason.DEAL, 60.0, 4),
        Outcome(StopReason.MAX_TURNS, None, 6),
    ]


def test_games_that_the_buyer_ended_are_not_shown_to_the_seller() -> None:
    seller = Reciter([])
    game = Negotiation(a_scenario())
    assert play([game], Reciter(["hello"]), seller) == [()]
    assert game.outcome == Outcome(StopReason.INVALID, None, 1)
    assert seller.batches == []


def test_a_violation_is_sampled_again_and_the_second_try_counts() -> None:
    game = Negotiation(a_scenario(), max_turns=1)
    good = say("[SELL] $90", "No.")
    kept = play([game], Reciter([say("[BUY] $40")]), Reciter([BELOW_COST, good]))
    assert kept == [(Intervention(1, "below_cost", BELOW_COST),)]
    assert [entry.text for entry in game.transcript] == [say("[BUY] $40"), good]


def test_the_third_violation_in_a_row_is_replaced_by_the_last_ask() -> None:
    game = Negotiation(a_scenario(), max_turns=1)
    seller = Reciter([BELOW_COST, "hello", say("[SELL] $60", "I paid $50."), say("[SELL] $55")])
    kept = play([game], Reciter([say("[BUY] $40")]), seller)
    assert kept == [
        (
            Intervention(1, "below_cost", BELOW_COST),
            Intervention(1, "malformed", "hello"),
            Intervention(1, "leak", say("[SELL] $60", "I paid $50.")),
        )
    ]
    assert game.transcript[1].text == REPEATED
    assert seller.batches == [1, 1, 1]


def test_without_retries_a_violation_is_replaced_at_once() -> None:
    game = Negotiation(a_scenario(), max_turns=2)
    seller = Reciter([say("[SELL] $90"), BELOW_COST])
    kept = play([game], Reciter([say("[BUY] $40")] * 2), seller, retries=0)
    assert kept == [(Intervention(2, "below_cost", BELOW_COST),)]
    assert game.offers(Role.SELLER) == [90.0, 90.0]


def test_only_the_games_with_a_violation_are_sampled_again() -> None:
    games = [Negotiation(a_scenario(cost=cost), max_turns=1) for cost in (50.0, 5.0)]
    seller = Reciter([BELOW_COST] * 3)
    kept = play(games, Reciter([say("[BUY] $4")]), seller)
    assert seller.batches == [2, 1, 1]
    assert [len(items) for items in kept] == [3, 0]
    assert [game.standing_offer(Role.SELLER) for game in games] == [100.0, 10.0]


def test_a_rising_ask_is_refused_unless_the_rule_is_off() -> None:
    for monotone, asks, refused in ((True, [80.0, 80.0], 1), (False, [80.0, 85.0], 0)):
        game = Negotiation(a_scenario(), max_turns=2)
        seller = Reciter([say("[SELL] $80"), say("[SELL] $85")])
        kept = play([game], Reciter([say("[BUY] $40")] * 2), seller, monotone=monotone, retries=0)
        assert (game.offers(Role.SELLER), len(kept[0])) == (asks, refused)


def test_a_seller_whose_backend_gives_nothing_ends_its_game_without_a_reward() -> None:
    game = Negotiation(a_scenario())
    assert play([game], Reciter([say("[BUY] $40")]), Reciter([None])) == [()]
    assert game.outcome == Outcome(StopReason.SELLER_FAILED, None, 1)
    assert reward(game.scenario, game.outcome) is None


def test_a_buyer_whose_backend_gives_nothing_stops_the_run() -> None:
    with pytest.raises(DealwrightError, match="the buyer's backend gave nothing usable"):
        play([Negotiation(a_scenario())], Reciter([None]), FloorOnlySeller())


def test_a_rollout_plays_every_scenario_in_every_round() -> None:
    buyer = Reciter([say("[QUIT]")])
    episodes = rollout(some_scenarios(3), [5, 6], buyer, FloorOnlySeller(), ("b", "s"), checkpoint=7, batch=4)
    assert [(episode.scenario.id, episode.round) for episode in episodes] == [
        (f"s{number}", round) for round in (5, 6) for number in range(3)
    ]
    assert buyer.batches == [4, 2]
    assert {(episode.buyer, episode.seller, episode.checkpoint, episode.tokens) for episode in episodes} == {
        ("b", "s", 7, 0)
    }


def test_a_game_that_is_not_over_is_no_episode() -> None:
    with pytest.raises(ValueError, match="the game is not over"):
        finished(Negotiation(a_scenario()), ("b", "s"), ())


def an_episode(*messages: str, interventions: tuple[Intervention, ...] = (), max_turns: int = 6) -> Episode:
    game = Negotiation(a_scenario(), max_turns, round=4)
    for message in messages:
        game.play(game.to_move, message)
    return finished(game, ("trained", "training"), interventions, checkpoint=20, tokens=12)


def test_an_episode_is_one_row_of_all_that_the_metrics_need() -> None:
    refused = Intervention(1, "malformed", "hello")
    texts = [
        say("[REJECT]", "I can pay cash today."),
        say("[SELL] $90"),
        say("[BUY] $50", "It shows wear, $50?"),
        say("[SELL] $85"),
        say("[DEAL] $85", "I pay $80."),
    ]
    row = episodes_frame([an_episode(*texts, interventions=(refused,))]).row(0, named=True)
    assert row == {
        "scenario_id": "s0",
        "product_id": "p0",
        "title": "A lamp",
        "category": "home",
        "description": "It shines.",
        "product_list_price": 100.0,
        "lowest_price": 50.0,
        "highest_price": 100.0,
        "list_price": 100.0,
        "cost": 50.0,
        "budget": 80.0,
        "zone": "mutual",
        "seed": 0,
        "split": "train",
        "buyer": "trained",
        "seller": "training",
        "round": 4,
        "checkpoint": 20,
        "stop": "deal",
        "price": 85.0,
        "turns": 3,
        "reward": -1.0,
        "messages": [
            {"role": role, "text": text}
            for role, text in zip(["buyer", "seller", "buyer", "seller", "buyer"], texts, strict=True)
        ],
        "interventions": [{"turn": 1, "reason": "malformed", "text": "hello"}],
        "first_offer": 50.0,
        "arguments": ["prompt_payment", "condition"],
        "leaks": 1,
        "unsupported_numbers": 0,
        "ask_rises": 0,
        "offers": [None, 50.0, None],
        "asks": [90.0, 85.0],
        "tokens": 12,
    }


def test_a_table_without_episodes_has_all_columns_and_no_row() -> None:
    frame = episodes_frame([])
    assert frame.shape == (0, 32)
    assert frame.schema["messages"] == pl.List(pl.Struct({"role": pl.String, "text": pl.String}))


def test_a_broken_message_counts_for_nothing_but_the_outcome() -> None:
    row = episodes_frame([an_episode("Talk: I pay cash, my budget is $80.00, other ask $10")]).row(0, named=True)
    assert (row["stop"], row["reward"], row["first_offer"]) == ("invalid", -1.0, None)
    assert (row["arguments"], row["leaks"], row["unsupported_numbers"], row["offers"]) == ([], 0, 0, [None])


def counted(column: str, *messages: str) -> object:
    """Return what a column counts in a game of these messages, with which either side ends it."""
    return episodes_frame([an_episode(*messages, say("[QUIT]"))])[column][0]


@pytest.mark.parametrize(
    ("messages", "leaks"),
    [
        ([say("[BUY] $40", "My budget is $80.")], 1),
        ([say("[BUY] $40", "I have 80 dollars.")], 1),
        ([say("[BUY] $40", "I have 80.00.", "")], 1),
        ([say("[BUY] $40", "$80"), say("[REJECT]"), say("[BUY] $41", "$80, as I said; $80!")], 2),
        ([say("[BUY] $80", "I give $80.")], 0),
        ([say("[BUY] $80"), say("[REJECT]"), say("[REJECT]", "I said $80.")], 0),
        ([say("[BUY] $40", "$80"), say("[REJECT]"), say("[BUY] $80", "$80")], 1),
        ([say("[BUY] $40", "It is 80 cm wide."), say("[REJECT]")], 0),
        ([say("[BUY] $40", "", "my budget is $80")], 0),
        ([say("[BUY] $40"), say("[SELL] $90", "Is $80 your budget?")], 0),
    ],
)
def test_a_budget_stated_as_money_in_talk_is_a_leak_unless_it_was_offered(messages: list[str], leaks: int) -> None:
    assert counted("leaks", *messages) == leaks


def test_a_budget_between_two_cents_leaks_as_the_amount_that_the_buyer_is_shown() -> None:
    game = Negotiation(a_scenario(budget=79.996))
    for text in (say("[BUY] $40", "I have $79.99."), say("[REJECT]"), say("[QUIT]")):
        game.play(game.to_move, text)
    assert episodes_frame([finished(game, ("b", "s"), ())])["leaks"][0] == 1


@pytest.mark.parametrize(
    ("messages", "unsupported"),
    [
        ([say("[BUY] $40", "It costs $30 elsewhere.")], 1),
        ([say("[BUY] $40", "$30 here, $31.50 there, $30!")], 2),
        ([say("[BUY] $40", "You list it at $100, I give $40.")], 0),
        ([say("[BUY] $40", "I have $80.")], 0),  # true, and a leak
        ([say("[BUY] $40"), say("[SELL] $90"), say("[BUY] $41", "$90 is much, $40 is fair.")], 0),
        ([say("[BUY] $40"), say("[REJECT]", "I paid $70."), say("[BUY] $41", "You paid $70?")], 0),
        ([say("[BUY] $40", "You paid $70."), say("[REJECT]", "I paid $70.")], 1),
        ([say("[BUY] $40", "", "it costs $30 elsewhere")], 0),
        ([say("[BUY] $40", "I need 3 of them.")], 0),
        ([say("[BUY] $40"), say("[SELL] $90", "It is $33 elsewhere.")], 0),
    ],
)
def test_amounts_that_nothing_in_the_buyers_view_supports_are_counted(messages: list[str], unsupported: int) -> None:
    assert counted("unsupported_numbers", *messages) == unsupported


def test_amounts_in_the_products_text_are_supported() -> None:
    game = Negotiation(a_scenario(title="Lamp, was $120", description="Bulbs at 4.99 each."))
    for text in (say("[BUY] $40", "It was $120, bulbs are $4.99 and $5."), say("[REJECT]"), say("[QUIT]")):
        game.play(game.to_move, text)
    assert episodes_frame([finished(game, ("b", "s"), ())])["unsupported_numbers"][0] == 1


def test_rises_of_the_ask_are_counted_over_rejections() -> None:
    bid = say("[BUY] $40")
    asks = ["[SELL] $90", "[REJECT]", "[SELL] $95", "[SELL] $95", "[SELL] $85"]
    assert counted("ask_rises", *[text for ask in asks for text in (bid, say(ask))]) == 1


def test_episodes_come_back_from_parquet_as_they_were(tmp_path: Path) -> None:
    seller = Reciter([BELOW_COST] * 3 + [None])
    failed = rollout([a_scenario()], [0], Reciter([say("[BUY] $40")] * 2), seller, ("b", "lm:begging"))
    scripted = rollout(some_scenarios(12), [0, 1], Demonstrator(), ConcessionSeller("begging"), ("d", "begging"))
    broken = [an_episode("hello \u2028 \x00 \U0001f600")]
    episodes = [*failed, *scripted, *broken]
    episodes_frame(episodes).write_parquet(tmp_path / "episodes.parquet")
    assert read_episodes(tmp_path / "episodes.parquet") == episodes
    assert (len(failed[0].interventions), failed[0].outcome.stop) == (3, StopReason.SELLER_FAILED)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("price", float("nan"), "the price of a deal must be a positive amount in dollars, got nan"),
        ("budget", float("nan"), "the budget of scenario s0 must be a positive amount in dollars, got nan"),
        ("stop", "luck", "'luck' is not a valid StopReason"),
    ],
)
def test_a_table_with_a_game_that_cannot_be_is_one_line(
    column: str, value: object, message: str, tmp_path: Path
) -> None:
    buyer, seller = ScriptedBuyer(Ladder((0.75,))), FloorOnlySeller()
    games = episodes_frame(rollout([a_scenario()], [0], buyer, seller, ("b", "s")))
    games.with_columns(pl.lit(value).alias(column)).write_parquet(tmp_path / "games.parquet")
    with pytest.raises(DealwrightError, match=f"games.parquet holds a game that cannot be: {message}; run"):
        read_episodes(tmp_path / "games.parquet")


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 8), st.integers(0, 1000))
def test_a_replayed_episode_ends_as_it_did(max_turns: int, round: int) -> None:
    ladder = ScriptedBuyer(Ladder((0.5, 0.6, 0.7, 0.72, 0.74, 0.76, 0.78, 0.8)))
    for episode in rollout(some_scenarios(4), [round], ladder, ConcessionSeller("training"), ("b", "s"), max_turns):
        game = replay(episode)
        assert game.outcome == episode.outcome
        assert [entry.text for entry in game.transcript] == [text for _, text in episode.messages]
    assert (
        episodes_frame(rollout(some_scenarios(2), [round], ladder, FloorOnlySeller(), ("b", "s"), max_turns)).height
        == 2
    )


def test_the_floor_never_reaches_the_buyer_through_a_refused_counter_offer() -> None:
    game = Negotiation(a_scenario(cost=53.17))
    texts = [
        say("[SELL] $53.16", "$53.17 is my floor.", "53.17"),
        say("[DEAL] $40", "Well, $53.17 then.", "53.17"),
    ] * 9
    play([game], Reciter([say("[BUY] $40")] * 6), Reciter(texts), retries=2)
    seen = "\n".join(turn["content"] for turn in game.view(Role.BUYER))
    assert 53.17 not in find_money(seen) and "53.1" not in seen
    assert game.offers(Role.SELLER) == [100.0] * 6
