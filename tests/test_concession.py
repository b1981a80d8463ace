"""The concession seller's rule, its draws and its words (protocol, section 4a), and the seller that minds its cost."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealwright.agents import (
    COLUMNS,
    Argument,
    ConcessionSeller,
    Decision,
    FloorOnlySeller,
    SellerState,
    SellerType,
    decide,
    detect_cues,
    draw_type,
    start,
)
from dealwright.game import ActionKind, Negotiation, Outcome, Regulator, Role, StopReason, parse_message
from tests.games import a_scenario, say, some_scenarios

WELCOME, UNWELCOME, UNWELCOME_TOO = Argument.COMPETITOR, Argument.CONDITION, Argument.REPEAT_CUSTOM
PLAIN = SellerType(
    list_price=100.0,
    cost=50.0,
    reservation=60.0,
    exponent=1.0,
    insult_threshold=0.5,
    patience=4,
    receptive=frozenset({WELCOME}),
    argument_worth=0.05,
    jitters=(0.0,) * 6,
    last_margin=0.05,
)
Heard = tuple[float | None, Argument | None]


def after(type: SellerType, *heard: Heard) -> tuple[SellerState, Decision]:
    """Return where a seller stands after these messages, and its last decision."""
    state = start(type)
    for offer, argument in heard:
        state, decision = decide(state, offer, argument)
    return state, decision


def figures(type: SellerType, *heard: Heard) -> tuple[float, float, int | None]:
    """Return progress, ask and patience after these messages."""
    state, _ = after(type, *heard)
    return round(state.progress, 9), state.ask, state.patience


def test_a_seller_starts_at_the_list_price_without_progress() -> None:
    assert start(PLAIN) == SellerState(PLAIN, 0, 0.0, 60.0, 100.0, None, 4, frozenset())


def test_the_first_offer_that_is_no_insult_gains_a_whole_step() -> None:
    state, decision = after(PLAIN, (50.0, None))
    assert decision == Decision(ActionKind.SELL, 92.0, None, 1.0)
    assert state == SellerState(PLAIN, 1, 0.2, 60.0, 92.0, 50.0, 4, frozenset())


def test_an_offer_below_the_insult_threshold_gains_nothing_and_costs_patience() -> None:
    state, decision = after(PLAIN, (49.99, None))
    assert decision == Decision(ActionKind.SELL, 100.0, None, 0.0)
    assert state == SellerState(PLAIN, 1, 0.0, 60.0, 100.0, None, 3, frozenset())


def test_a_rejection_gains_nothing_and_costs_patience() -> None:
    assert figures(PLAIN, (None, None)) == (0.0, 100.0, 3)


def test_the_insult_threshold_is_a_share_of_the_standing_ask() -> None:
    # A welcome argument brings the ask to 95.75, so 47.88 is the least that is no insult.
    assert after(PLAIN, (None, WELCOME), (47.88, None))[1].gain == 1.0
    assert after(PLAIN, (None, WELCOME), (47.87, None))[1].gain == 0.0


def test_an_insult_is_not_the_first_offer() -> None:
    assert after(PLAIN, (40.0, None), (50.0, None))[1].gain == 1.0


@pytest.mark.parametrize(
    ("offer", "expected"),
    [
        (55.0, (0.4, 84.0, 4)),  # a raise of 0.05 P is a whole step
        (58.0, (0.4, 84.0, 4)),  # and more is no more
        (52.0, (0.28, 88.8, 4)),
        (51.0, (0.24, 90.4, 4)),  # a gain of 0.2 costs no patience
        (50.9, (0.236, 90.56, 3)),
        (50.0, (0.2, 92.0, 3)),
        (48.0, (0.2, 92.0, 3)),
        (None, (0.2, 92.0, 3)),
    ],
)
def test_a_later_offer_gains_by_its_raise_over_the_best_so_far(
    offer: float | None, expected: tuple[float, float, int]
) -> None:
    assert figures(PLAIN, (50.0, None), (offer, None)) == expected


def test_a_lower_offer_does_not_lower_the_bar_for_the_next() -> None:
    assert figures(PLAIN, (50.0, None), (47.0, None), (50.0, None)) == (0.2, 92.0, 2)


def test_progress_ends_at_one() -> None:
    state, _ = after(replace(PLAIN, patience=None), *[(offer, None) for offer in (50.0, 55.0, 60.0, 65.0, 70.0)])
    assert (state.progress, state.ask) == (1.0, 60.0)


def test_a_welcome_argument_lowers_the_reservation_price_and_helps_progress() -> None:
    state, decision = after(PLAIN, (None, WELCOME))
    assert (state.reservation, state.progress, state.ask) == (57.5, 0.1, 95.75)
    assert decision.welcome is True
    assert state.patience == 3  # a rejection with it still costs patience


def test_a_welcome_argument_and_a_good_offer_add_up() -> None:
    state, _ = after(PLAIN, (50.0, WELCOME))
    assert (round(state.progress, 9), state.ask, state.patience) == (0.3, 87.25, 4)


def test_an_argument_never_lowers_the_reservation_price_below_cost() -> None:
    state, _ = after(replace(PLAIN, reservation=51.0), (None, WELCOME))
    assert state.reservation == 50.0


def test_an_argument_is_worth_its_share_of_the_range() -> None:
    state, _ = after(replace(PLAIN, argument_worth=0.03), (None, WELCOME))
    assert state.reservation == 58.5


def test_an_unwelcome_argument_halves_the_gain_and_costs_patience() -> None:
    state, decision = after(PLAIN, (50.0, UNWELCOME))
    assert decision == Decision(ActionKind.SELL, 96.0, False, 0.5)
    assert (state.progress, state.patience, state.reservation) == (0.1, 3, 60.0)


def test_a_gain_that_an_unwelcome_argument_halves_below_a_fifth_costs_patience_twice() -> None:
    assert figures(PLAIN, (50.0, None), (51.5, UNWELCOME)) == (0.23, 90.8, 2)
    assert figures(PLAIN, (50.0, None), (51.5, None)) == (0.26, 89.6, 4)


@pytest.mark.parametrize("kind", [WELCOME, UNWELCOME])
def test_a_kind_used_before_has_no_effect(kind: Argument) -> None:
    once, _ = after(PLAIN, (50.0, kind), (55.0, None))
    twice, decision = after(PLAIN, (50.0, kind), (55.0, kind))
    assert (twice, decision.welcome) == (once, None)


def test_the_exponent_bends_the_concession() -> None:
    assert figures(replace(PLAIN, exponent=2.0), (50.0, None)) == (0.2, 82.11, 4)
    assert figures(replace(PLAIN, exponent=0.5), (50.0, None)) == (0.2, 98.4, 4)


def test_jitter_moves_an_ask_but_never_up_and_never_below_the_reservation_price() -> None:
    assert figures(replace(PLAIN, jitters=(0.02,) * 6), (50.0, None))[1] == 92.8
    assert figures(replace(PLAIN, jitters=(-0.02,) * 6), (50.0, None))[1] == 91.2
    assert figures(replace(PLAIN, jitters=(0.02,) * 6), (None, None))[1] == 100.0
    assert figures(replace(PLAIN, jitters=(-0.02, 0.02, 0, 0, 0, 0)), (50.0, None), (None, None))[1] == 91.2
    yielding = replace(start(replace(PLAIN, jitters=(-0.02,) * 6)), progress=1.0)
    assert decide(yielding, None, None)[1].price == 60.0


def test_each_turn_has_its_own_jitter() -> None:
    type = replace(PLAIN, jitters=(0.0, -0.02, 0.0, 0.0, 0.0, 0.0))
    assert figures(type, (50.0, None), (55.0, None))[1] == 83.2


def test_an_ask_is_in_whole_cents_and_not_below_a_reservation_price_between_two() -> None:
    assert figures(replace(PLAIN, reservation=60.123), (50.0, None))[1] == 92.02
    yielding = replace(start(replace(PLAIN, reservation=60.001)), progress=1.0)
    assert decide(yielding, None, None)[1].price == 60.01


@pytest.mark.parametrize(
    ("offer", "kind"), [(92.0, ActionKind.DEAL), (95.0, ActionKind.DEAL), (91.99, ActionKind.SELL)]
)
def test_an_offer_at_the_next_ask_is_taken_at_its_own_price(offer: float, kind: ActionKind) -> None:
    _, decision = after(PLAIN, (offer, None))
    assert decision.kind is kind
    assert decision.price == (offer if kind is ActionKind.DEAL else 92.0)


def test_on_the_last_turn_an_offer_near_the_reservation_price_is_taken() -> None:
    last = replace(start(PLAIN), turn=5)
    assert decide(last, 63.0, None)[1] == Decision(ActionKind.DEAL, 63.0, None, 1.0)
    assert decide(last, 62.99, None)[1].kind is ActionKind.SELL
    assert decide(replace(last, turn=4), 63.0, None)[1].kind is ActionKind.SELL


def test_on_the_last_turn_an_argument_counts_before_the_offer_is_judged() -> None:
    last = replace(start(PLAIN), turn=5)
    assert decide(last, 60.38, WELCOME)[1].kind is ActionKind.DEAL  # 57.5 and its margin of 5 % is 60.375
    assert decide(last, 60.37, WELCOME)[1].kind is ActionKind.SELL


def test_the_last_turn_is_that_of_the_game() -> None:
    last = replace(start(replace(PLAIN, jitters=(0.0,) * 3)), turn=2)
    assert decide(last, 63.0, None)[1].kind is ActionKind.DEAL


def test_a_rejection_on_the_last_turn_is_answered_by_the_ask() -> None:
    assert decide(replace(start(PLAIN), turn=5), None, None)[1] == Decision(ActionKind.SELL, 100.0, None, 0.0)


def test_a_seller_without_patience_quits() -> None:
    assert after(replace(PLAIN, patience=1), (None, None))[1] == Decision(ActionKind.QUIT, None, None, 0.0)
    assert after(replace(PLAIN, patience=2), (None, None))[1].kind is ActionKind.SELL
    assert after(replace(PLAIN, patience=2), (None, UNWELCOME))[1].kind is ActionKind.QUIT


def test_an_offer_good_enough_is_taken_before_patience_ends() -> None:
    assert after(replace(PLAIN, patience=1), (96.0, UNWELCOME))[1] == Decision(ActionKind.DEAL, 96.0, False, 0.5)


def test_a_seller_that_never_quits_has_no_patience_to_lose() -> None:
    type = replace(PLAIN, patience=None)
    assert after(type, *[(1.0, kind) for kind in Argument])[1].kind is ActionKind.SELL


OFFERS = st.none() | st.floats(0.01, 110)
HEARD = st.lists(st.tuples(OFFERS, st.none() | st.sampled_from(list(Argument))), min_size=1, max_size=6)


@settings(deadline=None, max_examples=200)
@given(HEARD, st.sampled_from(list(COLUMNS)), st.integers(0, 50))
def test_asks_never_rise_nor_fall_below_what_the_seller_can_take(heard: list[Heard], column: str, seed: int) -> None:
    type = draw_type(column, a_scenario(100, 60, 80, seed), 0)
    state = start(type)
    for offer, argument in heard:
        before = state
        state, decision = decide(state, offer, argument)
        assert 60 <= state.reservation <= state.ask <= before.ask
        assert before.progress <= state.progress <= 1
        assert round(state.ask * 100) / 100 == state.ask
        assert 0 <= decision.gain <= 1
        if decision.kind is ActionKind.DEAL:
            assert decision.price == offer is not None and offer >= 60
        if decision.kind is not ActionKind.SELL:
            break


def drawn(column: str, count: int = 400) -> list[SellerType]:
    return [draw_type(column, a_scenario(100, 50, 80, seed), 0) for seed in range(count)]


@pytest.mark.parametrize(
    ("column", "mark_up", "exponent", "threshold", "patience", "receptive", "worth"),
    [
        ("training", (0, 0.15), (0.3, 3), (0.35, 0.55), {3, 4, 5, 6}, 2, 0.05),
        ("stronger", (0.10, 0.30), (0.2, 0.8), (0.40, 0.60), {3, 4, 5}, 1, 0.05),
        ("begging", (0, 0.15), (0.3, 1), (0.35, 0.55), {None}, 2, 0.05),
        ("insulting", (0, 0.20), (0.3, 1.5), (0.45, 0.60), {3, 4, 5}, 1, 0.05),
        ("unyielding", (0.10, 0.30), (0.1, 0.3), (0.40, 0.60), {3, 4, 5, 6}, 1, 0.03),
    ],
)
def test_a_column_draws_its_types_from_the_whole_of_its_ranges(
    column: str,
    mark_up: tuple[float, float],
    exponent: tuple[float, float],
    threshold: tuple[float, float],
    patience: set[int | None],
    receptive: int,
    worth: float,
) -> None:
    types = drawn(column)
    for values, (low, high) in (
        ([type.reservation / 50 - 1 for type in types], mark_up),
        ([type.exponent for type in types], exponent),
        ([type.insult_threshold for type in types], threshold),
        ([type.last_margin for type in types], (0, 0.05)),
        ([jitter for type in types for jitter in type.jitters], (-0.02, 0.02)),
    ):
        near = 0.05 * (high - low)
        assert low - 1e-9 <= min(values) <= low + near and high - near <= max(values) <= high + 1e-9
    # Log-uniform: half of the exponents lie below the geometric mean.
    assert median(type.exponent for type in types) == pytest.approx((exponent[0] * exponent[1]) ** 0.5, rel=0.15)
    assert {type.patience for type in types} == patience
    assert {len(type.receptive) for type in types} == {receptive}
    assert {kind for type in types for kind in type.receptive} == set(Argument)
    assert {type.argument_worth for type in types} == {worth}
    assert {(type.list_price, type.cost) for type in types} == {(100.0, 50.0)}


def test_the_reservation_price_is_at_most_the_list_price() -> None:
    types = [draw_type("stronger", a_scenario(100, 99, 80, seed), 0) for seed in range(20)]
    assert {type.reservation for type in types} == {100.0}


def test_a_type_follows_from_the_scenarios_seed_and_the_round_alone() -> None:
    type = draw_type("training", a_scenario(seed=7), 3)
    draw = Random("7/3/0/type")
    assert type.reservation == 50 * (1 + draw.uniform(0, 0.15))
    assert type.jitters[1] == Random("7/3/2/jitter").uniform(-0.02, 0.02)
    assert draw_type("training", replace(a_scenario(seed=7), id="other", budget=70.0), 3) == type
    assert draw_type("training", a_scenario(seed=7), 4).exponent != type.exponent
    assert draw_type("training", a_scenario(seed=8), 3).exponent != type.exponent


def replies(seller: ConcessionSeller, texts: Sequence[str], seed: int = 0, round: int = 0) -> Negotiation:
    """Return the game in which a buyer says these texts, as far as it goes."""
    game = Negotiation(a_scenario(seed=seed), round=round)
    for text in texts:
        if game.play(Role.BUYER, text) is None:
            game.play(Role.SELLER, seller.respond([game])[0])
        if game.outcome is not None:
            break
    return game


CLIMB = [say(f"[BUY] ${amount}") for amount in (45, 52, 55, 60, 65, 70)]


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"expected one of training, stronger, .*, got 'soft'"):
        ConcessionSeller("soft")


@pytest.mark.parametrize("column", list(COLUMNS))
def test_the_first_reply_hints_at_all_that_the_seller_is_receptive_to_and_at_nothing_else(column: str) -> None:
    seller = ConcessionSeller(column)
    said = []
    for seed in range(40):
        reply = replies(seller, CLIMB[:1], seed).transcript[1].message
        assert reply is not None and reply.thought == ""
        assert set(detect_cues(reply.talk)) == draw_type(column, a_scenario(seed=seed), 0).receptive
        said.append(reply.talk)
    assert len(set(said)) > 20


def test_later_replies_hint_at_nothing() -> None:
    for seed in range(20):
        game = replies(ConcessionSeller("begging"), CLIMB, seed)
        later = [entry.message for entry in game.transcript[3::2]]
        assert later and all(message is not None and detect_cues(message.talk) == [] for message in later)


def test_the_seller_says_whether_an_argument_was_welcome() -> None:
    scenario = a_scenario(seed=1)
    receptive = draw_type("begging", scenario, 0).receptive
    cash = say("[BUY] $50", "I can pay cash today.")
    game = replies(ConcessionSeller("begging"), [CLIMB[0], cash], seed=1)
    reply = game.transcript[3].message
    assert reply is not None and Argument.PROMPT_PAYMENT not in receptive
    assert reply.talk.startswith(("That does not move me.", "So what?", "That is nothing to me."))


def test_the_formal_replies_are_those_of_the_rule() -> None:
    type = draw_type("training", a_scenario(seed=5), 2)
    texts = [
        say("[BUY] $45"),
        say("[REJECT]", "I can pay cash today."),
        say("[BUY] $55", "There are scratches on it."),
    ]
    heard = [(45.0, None), (None, Argument.PROMPT_PAYMENT), (55.0, Argument.CONDITION)]
    game = replies(ConcessionSeller("training"), texts, seed=5, round=2)
    asks = [after(type, *heard[:count])[1].price for count in (1, 2, 3)]
    assert game.offers(Role.SELLER) == asks


def test_the_seller_hears_talk_and_action_and_never_thought() -> None:
    silent = replies(ConcessionSeller("training"), [say(f"[BUY] ${amount}") for amount in (45, 52)])
    thinking = replies(
        ConcessionSeller("training"), [say(f"[BUY] ${amount}", "", "cash today, $99") for amount in (45, 52)]
    )
    assert [entry.text for entry in silent.transcript[1::2]] == [entry.text for entry in thinking.transcript[1::2]]


def test_the_same_seller_sits_in_every_game_of_a_group_and_another_in_the_next_round() -> None:
    seller = ConcessionSeller("training")
    group = [Negotiation(a_scenario(seed=3), round=1) for _ in range(4)]
    for game in group:
        game.play(Role.BUYER, CLIMB[0])
    assert len(set(seller.respond(group))) == 1
    rounds = {replies(seller, CLIMB[:1], seed=3, round=round).transcript[1].text for round in range(20)}
    assert len(rounds) > 10


def test_answers_do_not_depend_on_who_else_is_asked() -> None:
    seller = ConcessionSeller("insulting")
    games = [Negotiation(scenario) for scenario in some_scenarios(6)]
    for game in games:
        game.play(Role.BUYER, say("[BUY] $10"))
    together = seller.respond(games)
    assert seller.respond(games[::-1]) == together[::-1]
    assert [ConcessionSeller("insulting").respond([game])[0] for game in games] == together


def test_the_seller_has_nothing_to_answer_before_the_buyer_spoke() -> None:
    with pytest.raises(ValueError, match="the buyer speaks first"):
        ConcessionSeller("training").respond([Negotiation(a_scenario())])


@pytest.mark.parametrize("column", list(COLUMNS))
def test_the_concession_seller_never_needs_the_regulator(column: str) -> None:
    seller, draw = ConcessionSeller(column), Random(column)
    for scenario in some_scenarios(40):
        game, regulator = Negotiation(scenario), Regulator(scenario)
        while game.outcome is None:
            amount = scenario.list_price * draw.uniform(0.3, 0.95)
            game.play(Role.BUYER, say(draw.choice(["[REJECT]", f"[BUY] ${amount:.2f}", f"[BUY] ${amount:.2f}"])))
            reply = seller.respond([game])[0]
            assert regulator.rule(game, reply).violation is None
            game.play(Role.SELLER, reply)
        asks = [ask for ask in game.offers(Role.SELLER) if ask is not None]
        assert all(earlier >= later for earlier, later in pairwise(asks))
        assert game.outcome.stop in (StopReason.DEAL, StopReason.SELLER_QUIT, StopReason.MAX_TURNS)


def test_the_floor_only_seller_takes_the_first_offer_at_its_cost_and_rejects_the_rest() -> None:
    seller = FloorOnlySeller()
    game = Negotiation(a_scenario(cost=50))
    for amount in ("30", "49.99"):
        game.play(Role.BUYER, say(f"[BUY] ${amount}"))
        reply = seller.respond([game])[0]
        assert reply == "Talk: No.\nAction: [REJECT]"
        game.play(Role.SELLER, reply)
    game.play(Role.BUYER, say("[BUY] $50"))
    assert game.play(Role.SELLER, seller.respond([game])[0]) == Outcome(StopReason.DEAL, 50.0, 3)


def test_the_floor_only_seller_answers_a_rejection_by_a_rejection() -> None:
    game = Negotiation(a_scenario())
    game.play(Role.BUYER, say("[REJECT]"))
    reply = parse_message(FloorOnlySeller().respond([game])[0], Role.SELLER)
    assert reply is not None and reply.action.kind is ActionKind.REJECT
