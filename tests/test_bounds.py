from itertools import pairwise

import pytest

from dealwright.agents import (
    FIXED_POLICIES,
    Argument,
    SellerState,
    SellerType,
    decide,
    draw_type,
    play_text_free,
    start,
)
from dealwright.evaluation.bounds import all_but_margin, best_responses, clairvoyant, clairvoyant_floor_only
from dealwright.game import ActionKind, Product, Scenario, reward

SELLERS = ("training", "stronger", "begging", "insulting", "unyielding")


def scenario(list_price: float = 100.0, cost: float = 40.0, budget: float = 80.0, seed: int = 1) -> Scenario:
    product = Product(f"p{seed}", "A lamp", "books", "", list_price, cost, list_price)
    return Scenario(f"s{seed}", product, list_price, cost, budget, seed, "test")


def seller(**fields: object) -> SellerType:
    """A seller of a lamp at 100 with a reservation price of 46 over a cost of 40, without noise."""
    known: dict[str, object] = {
        "list_price": 100.0,
        "cost": 40.0,
        "reservation": 46.0,
        "exponent": 1.0,
        "insult_threshold": 0.5,
        "patience": None,
        "receptive": frozenset(),
        "argument_worth": 0.05,
        "jitters": (0.0,) * 6,
        "last_margin": 0.0625,
    }
    return SellerType(**(known | fields))  # type: ignore[arg-type]


def played(type: SellerType, moves: tuple[tuple[float | None, Argument | None], ...]) -> float | None:
    """Play the moves and return the price of the deal that the last of them closes."""
    state, decision = start(type), None
    for offer, argument in moves:
        assert decision is None or decision.kind is ActionKind.SELL
        state, decision = decide(state, offer, argument)
    return decision.price if decision is not None and decision.kind is ActionKind.DEAL else None


def test_a_patient_seller_is_waited_out_and_paid_its_last_margin() -> None:
    found = clairvoyant(scenario(), seller(), 4)
    assert found.price == 48.88  # 46 and a sixteenth
    assert found.reward == pytest.approx((80 - 48.88) / 40)
    assert len(found.moves) == 6


def test_each_welcome_argument_lowers_what_must_be_paid() -> None:
    one = clairvoyant(scenario(), seller(receptive=frozenset({Argument.CONDITION})), 4)
    assert one.price == 45.69  # 46 less 5 % of 60, and a sixteenth
    two = clairvoyant(scenario(), seller(receptive=frozenset({Argument.CONDITION, Argument.COMPETITOR})), 4)
    assert two.price == 42.5  # 46 less 10 % of 60, and a sixteenth
    assert {argument for _, argument in two.moves} - {None} == {Argument.CONDITION, Argument.COMPETITOR}


def test_an_impatient_seller_is_kept_at_the_table_by_small_raises() -> None:
    found = clairvoyant(scenario(), seller(patience=1), 4)
    assert found.price == 48.88
    offers = [offer for offer, _ in found.moves]
    assert offers[0] == 50.0  # no insult
    assert all((later or 0) >= (earlier or 0) + 1 for earlier, later in pairwise(offers[:5]))


def test_with_a_single_turn_there_is_nothing_to_wait_for() -> None:
    found = clairvoyant(scenario(), seller(jitters=(0.0,)), 4)
    assert (found.price, found.moves) == (48.88, ((48.88, None),))


def test_a_conceding_seller_without_a_last_margin_below_its_ask_is_closed_at_its_ask() -> None:
    # With r · 1.4 the margin is no help; five full gains bring the ask to the reservation price.
    found = clairvoyant(scenario(), seller(insult_threshold=0.2, last_margin=0.4), 4)
    assert found.price == 46.0


def test_it_is_best_to_walk_away_where_nothing_can_be_gained() -> None:
    assert clairvoyant(scenario(budget=39.0), seller(), 4).moves == ()
    assert clairvoyant(scenario(budget=39.0), seller(), 4).reward == 0.0
    assert clairvoyant(scenario(budget=48.5), seller(), 4).price is None  # below its last margin


def test_whoever_does_not_know_the_last_margin_pays_the_widest() -> None:
    assert clairvoyant(scenario(), seller(last_margin=0.0), 4).price == 46.0
    assert all_but_margin(scenario(), seller(last_margin=0.0), 4) == pytest.approx((80 - 48.31) / 40)


def test_where_little_can_be_gained_the_last_offer_is_a_gamble() -> None:
    # An offer at the share u of the widest margin, 230, sells with probability u: u (50 - 230 u) is most at u = 5/46.
    rich = scenario(list_price=10000.0, cost=4500.0, budget=4650.0)
    type = seller(list_price=10000.0, cost=4500.0, reservation=4600.0)
    assert all_but_margin(rich, type, 4) == pytest.approx(5 / 46 * 25 / 150, abs=1e-4)


def test_the_floor_only_seller_is_paid_its_cost() -> None:
    assert clairvoyant_floor_only(scenario()).reward == 1.0
    assert clairvoyant_floor_only(scenario(cost=40.001)).price == 40.01
    assert clairvoyant_floor_only(scenario(cost=80.0)).reward == 0.0
    assert clairvoyant_floor_only(scenario(cost=90.0)).reward == 0.0


@pytest.mark.parametrize("column", SELLERS)
def test_the_line_of_play_ends_at_its_price(column: str) -> None:
    for seed in range(8):
        lamp = scenario(cost=30 + 5.0 * seed, seed=seed)
        type = draw_type(column, lamp, 0)
        found = clairvoyant(lamp, type, 4)
        if found.price is not None:
            assert played(type, found.moves) == found.price
            assert found.reward == pytest.approx((80 - found.price) / (80 - lamp.cost))


@pytest.mark.parametrize("column", SELLERS)
def test_no_script_does_better(column: str) -> None:
    for seed in range(10):
        lamp = scenario(
            list_price=10.0 + 7.31 * seed, cost=(10.0 + 7.31 * seed) * 0.45, budget=8 + 5.848 * seed, seed=seed
        )
        best = clairvoyant(lamp, draw_type(column, lamp, 0), 4).reward
        for policy in FIXED_POLICIES.values():
            assert (reward(lamp, play_text_free(policy, lamp, column, 0)) or 0.0) <= best + 1e-9


@pytest.mark.parametrize("column", SELLERS)
def test_a_finer_grid_hardly_changes_it(column: str) -> None:
    lamps = [scenario(cost=25.0 + 2 * seed, seed=seed) for seed in range(0, 16, 2)]
    coarse, fine = (
        sum(clairvoyant(lamp, draw_type(column, lamp, 0), grid).reward for lamp in lamps) / 8 for grid in (4, 12)
    )
    assert coarse <= fine + 1e-9
    assert fine - coarse < 0.005


@pytest.mark.parametrize("column", SELLERS)
def test_it_equals_a_search_through_every_cent_and_every_argument(column: str) -> None:
    # A list price of 60 cents makes a full gain 3 cents, so that three grid points are all the raises there are.
    toy = scenario(list_price=0.60, cost=0.23, budget=0.48)
    type = draw_type(column, toy, 0, max_turns=3)
    cheapest = _cheapest(start(type), {})
    assert clairvoyant(toy, type, 3).price == (cheapest if cheapest <= 0.48 else None)


def _cheapest(state: SellerState, known: dict[object, float]) -> float:
    """Return the lowest price of any deal from here, by trying every offer and every argument that matters."""
    if state.turn == len(state.type.jitters):
        return 9.99
    key = (state.turn, state.progress, state.reservation, state.ask, state.best_offer, state.patience, state.used)
    if key not in known:
        welcome = sorted(state.type.receptive - state.used)[:1]
        unwelcome = sorted(set(Argument) - state.type.receptive - state.used)[:1]
        known[key] = min(_cheapest_with(state, argument, known) for argument in (None, *welcome, *unwelcome))
    return known[key]


def _cheapest_with(state: SellerState, argument: Argument | None, known: dict[object, float]) -> float:
    found = 9.99
    for offer in (None, *(cents / 100 for cents in range(15, 61))):
        after, decision = decide(state, offer, argument)
        if offer is not None and decision.kind is ActionKind.DEAL:
            return min(found, offer)  # higher offers close too, at a higher price
        if decision.kind is ActionKind.SELL:
            found = min(found, _cheapest(after, known))
    return found


def test_every_game_against_a_known_seller_has_a_bound() -> None:
    lamps = [scenario(seed=1), scenario(seed=2)]
    table = best_responses(lamps, range(2), ["training", "floor_only", "lm:neutral"], 4, 6)
    assert table.columns == ["scenario_id", "round", "seller", "best_response", "all_but_margin"]
    assert table.select("scenario_id", "round", "seller").rows() == [
        ("s1", 0, "training"),
        ("s1", 1, "training"),
        ("s2", 0, "training"),
        ("s2", 1, "training"),
        ("s1", 0, "floor_only"),
        ("s1", 1, "floor_only"),
        ("s2", 0, "floor_only"),
        ("s2", 1, "floor_only"),
    ]
    assert table["best_response"][0] == clairvoyant(lamps[0], draw_type("training", lamps[0], 0), 4).reward
    assert table["best_response"].to_list()[4:] == [1.0, 1.0, 1.0, 1.0]
