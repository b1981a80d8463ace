"""The reward of the protocol, section 5."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealwright.game import Outcome, StopReason, Zone, overshoots, reward
from tests.games import a_scenario
from tests.invariants import exact_reward


def deal(price: float) -> Outcome:
    return Outcome(StopReason.DEAL, price, 3)


@pytest.mark.parametrize(
    ("price", "expected"),
    [(80.0, 0.0), (65.0, 0.5), (50.0, 1.0), (72.5, 0.25), (40.0, 1.0), (80.01, -1.0), (100.0, -1.0), (1e9, -1.0)],
)
def test_a_deal_earns_its_share_of_the_bargaining_range_and_minus_one_above_the_budget(
    price: float, expected: float
) -> None:
    assert reward(a_scenario(cost=50, budget=80), deal(price)) == expected


@pytest.mark.parametrize(("price", "expected"), [(80.0, 0.0), (75.0, 0.5), (70.0, 1.0), (60.0, 1.0), (85.0, -1.0)])
def test_in_the_conflict_zone_the_range_is_the_distance_between_both_limits(price: float, expected: float) -> None:
    assert reward(a_scenario(cost=90, budget=80), deal(price)) == expected


@pytest.mark.parametrize(("price", "expected"), [(80.0, 0.0), (10.0, 0.0), (80.01, -1.0)])
def test_where_budget_and_cost_are_equal_a_deal_within_the_budget_earns_nothing(price: float, expected: float) -> None:
    assert reward(a_scenario(cost=80, budget=80), deal(price)) == expected


def test_equal_limits_that_differ_by_a_binary_fraction_are_equal() -> None:
    scenario = a_scenario(list_price=49.95, cost=39.96, budget=0.8 * 49.95)
    assert scenario.budget != scenario.cost
    assert reward(scenario, deal(39.96)) == 0.0


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (StopReason.INVALID, -1.0),
        (StopReason.BUYER_QUIT, 0.0),
        (StopReason.SELLER_QUIT, 0.0),
        (StopReason.MAX_TURNS, 0.0),
        (StopReason.SELLER_FAILED, None),
    ],
)
def test_a_game_without_a_deal_earns_by_how_it_ended(stop: StopReason, expected: float | None) -> None:
    assert reward(a_scenario(), Outcome(stop, None, 2)) == expected


@pytest.mark.parametrize("amount", [0.0, -0.0, -5.0, float("nan"), float("inf"), 1e308])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_no_scenario_has_a_price_by_which_no_reward_can_be_told(place: int, amount: float) -> None:
    prices = [100.0, 50.0, 80.0]
    prices[place] = amount
    name = ("list price", "cost", "budget")[place]
    with pytest.raises(ValueError, match=rf"^the {name} of scenario s0 must be a positive amount in dollars, got "):
        a_scenario(list_price=prices[0], cost=prices[1], budget=prices[2])


@pytest.mark.parametrize("price", [None, math.nan, math.inf, -math.inf, 0.0, -5.0])
def test_a_deal_without_a_price_that_is_a_positive_number_cannot_be(price: float | None) -> None:
    with pytest.raises(ValueError, match=rf"the price of a deal must be a positive amount in dollars, got {price}"):
        Outcome(StopReason.DEAL, price, 1)


@pytest.mark.parametrize("stop", [stop for stop in StopReason if stop is not StopReason.DEAL])
def test_no_other_end_has_a_price(stop: StopReason) -> None:
    with pytest.raises(ValueError, match=f"a game that ended by {stop} must have no price, got 40.0"):
        Outcome(stop, 40.0, 1)


def test_paying_the_budget_to_the_cent_is_no_overshoot_although_binary_fractions_say_so() -> None:
    scenario = a_scenario(budget=79.99999999999999)
    assert not overshoots(scenario, deal(80.0))
    assert reward(scenario, deal(80.0)) == pytest.approx(0.0, abs=1e-9)
    assert overshoots(scenario, deal(80.01))


def test_amounts_a_thousandth_of_a_cent_apart_are_equal_and_further_apart_they_are_not() -> None:
    assert not overshoots(a_scenario(budget=80.0), deal(80.0 + 1e-5))
    assert overshoots(a_scenario(budget=80.0), deal(80.0 + 1.1e-5))
    assert reward(a_scenario(cost=1e-5, budget=2e-5), deal(1e-5)) == 0.0
    assert reward(a_scenario(cost=1e-5, budget=2.1e-5), deal(1e-5)) == 1.0


def test_a_price_may_be_as_large_as_a_float_that_holds_its_cents() -> None:
    assert a_scenario(list_price=1.79e306, cost=1.0, budget=1.79e306).zone is Zone.MUTUAL


def test_the_zone_is_mutual_only_where_the_budget_exceeds_the_cost() -> None:
    assert a_scenario(cost=50, budget=80).zone is Zone.MUTUAL
    assert a_scenario(cost=80, budget=80).zone is Zone.CONFLICT
    assert a_scenario(cost=90, budget=80).zone is Zone.CONFLICT


CENTS = st.integers(1, 10**6).map(lambda cents: cents / 100)


@settings(deadline=None)
@given(CENTS, CENTS, CENTS, st.sampled_from(StopReason))
def test_the_reward_equals_a_second_calculation_and_stays_within_one(
    cost: float, budget: float, price: float, stop: StopReason
) -> None:
    scenario = a_scenario(cost=cost, budget=budget)
    outcome = Outcome(stop, price if stop is StopReason.DEAL else None, 1)
    earned, exact = reward(scenario, outcome), exact_reward(scenario, outcome)
    assert (earned is None) == (exact is None)
    if earned is not None and exact is not None:
        assert -1.0 <= earned <= 1.0
        assert earned == pytest.approx(float(exact), abs=1e-9)
