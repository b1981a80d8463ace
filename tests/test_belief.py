from dataclasses import replace
from random import Random

import numpy as np
import pytest

from dealwright.agents import FIXED_POLICIES, SellerType, decide, draw_type, mean_reward, start
from dealwright.evaluation.belief import (
    BeliefBuyer,
    Sellers,
    answers,
    belief_rewards,
    draw_sellers,
    hear,
    plan_values,
    spread_out,
    update,
)
from dealwright.evaluation.bounds import clairvoyant
from dealwright.game import ActionKind, Product, Scenario

SHARES = [0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7]


def scenario(seed: int, cost: float = 45.0) -> Scenario:
    product = Product(f"p{seed}", "A lamp", "books", "", 100.0, cost, 100.0)
    return Scenario(f"s{seed}", product, 100.0, cost, 80.0, seed, "test")


def only(type: SellerType) -> Sellers:
    """Return a belief that holds one seller, before the first word."""
    price, patience = type.list_price, np.inf if type.patience is None else type.patience
    numbers = (
        type.cost / price,
        type.reservation / price,
        1 / type.exponent,
        type.insult_threshold,
        type.last_margin,
        patience,
        0.0,
        1.0,
        -np.inf,
        1.0,
    )
    return Sellers(*(np.array([number]) for number in numbers))


@pytest.mark.parametrize("column", ["training", "stronger", "begging", "insulting", "unyielding"])
def test_the_arrays_follow_the_rule_of_the_seller(column: str) -> None:
    draw = Random(column)
    for seed in range(60):
        type = draw_type(column, scenario(seed, cost=draw.uniform(20, 90)), 0)
        state, sellers = start(type), only(type)
        for turn in range(6):
            offer = round(draw.uniform(30, 80), 2) if draw.random() < 0.8 else None
            kinds = sorted(type.receptive - state.used)
            kind = kinds[0] if kinds and draw.random() < 0.5 else None
            state, decision = decide(state, offer, kind)
            worth = type.argument_worth if kind else 0.0
            sellers, gain, _ = hear(sellers, np.array([(offer or 0) / 100]), worth, np.array([type.jitters[turn]]))
            assert gain[0] == pytest.approx(decision.gain, abs=1e-3)
            assert sellers.reservation[0] == pytest.approx(state.reservation / 100)
            assert sellers.progress[0] == pytest.approx(state.progress, abs=1e-3)
            assert sellers.ask[0] == pytest.approx(state.ask / 100, abs=2e-3)
            assert sellers.patience[0] == (np.inf if state.patience is None else state.patience)


@pytest.mark.parametrize("column", ["training", "begging", "unyielding"])
def test_the_seller_met_is_never_ruled_out(column: str) -> None:
    draw = Random(column)
    for seed in range(60):
        type = draw_type(column, scenario(seed), 0)
        state, sellers = start(type), only(type)
        for turn in range(6):
            offer = round(draw.uniform(30, 60), 2)
            state, decision = decide(state, offer, None)
            if decision.kind is not ActionKind.SELL:
                break
            pleased = decision.gain >= 0.5 if turn else None
            sellers, likelihood = answers(sellers, offer / 100, 0.0, state.ask / 100, pleased, 1e-4)
            assert likelihood[0] > 0
            sellers = replace(sellers, ask=np.array([state.ask / 100]))


def test_a_seller_that_would_have_asked_otherwise_is_ruled_out() -> None:
    type = draw_type("begging", scenario(1), 0)
    _, decision = decide(start(type), 60.0, None)
    assert decision.price is not None
    _, likelihood = answers(only(type), 0.6, 0.0, decision.price / 100 - 0.05, None, 1e-4)
    assert likelihood[0] == 0
    _, likelihood = answers(only(replace(type, reservation=99.0)), 0.6, 0.0, decision.price / 100, None, 1e-4)
    assert likelihood[0] == 0


def test_where_nobody_fits_all_stay() -> None:
    sellers = draw_sellers("training", np.array(SHARES), 50, np.random.default_rng(0))
    kept = update(sellers, 0.6, 0.0, 0.01, None, 1e-4)
    assert (kept.weight == sellers.weight).all()
    assert (kept.ask == 0.01).all()


def test_asks_teach_the_reservation_price() -> None:
    rng = np.random.default_rng(0)
    type = draw_type("training", scenario(3, cost=30.0), 0)
    state, sellers = start(type), draw_sellers("training", np.array(SHARES), 40_000, rng)
    spreads = [float(np.std(sellers.reservation))]
    for offer in (50.0, 55.0, 60.0):
        state, decision = decide(state, offer, None)
        assert decision.price is not None and decision.price > offer
        sellers = update(sellers, offer / 100, 0.0, state.ask / 100, None, 1e-4)
        mean = float(np.sum(sellers.weight * sellers.reservation))
        spreads.append(float(np.sqrt(np.sum(sellers.weight * (sellers.reservation - mean) ** 2))))
    assert spreads[-1] < spreads[0] / 2
    assert abs(mean - state.reservation / 100) < 2 * spreads[-1]


def test_a_plan_earns_what_its_deal_earns() -> None:
    type = draw_type("training", scenario(1, cost=40.0), 0)
    sellers = only(type)
    least = type.reservation * (1 + type.last_margin) / 100
    plans = np.array([[least - 0.001], [least + 0.001], [0.8]])
    values = plan_values(sellers, plans, 0.8, [0.0], np.zeros((1, 1)))
    assert values.tolist() == pytest.approx([0.0, (0.8 - least - 0.001) / 0.4, 0.0])


def test_a_plan_takes_an_ask_at_or_below_its_offer() -> None:
    asking = replace(only(draw_type("training", scenario(1, cost=40.0), 0)), ask=np.array([0.7]))
    plans = np.array([[0.8, 0.8], [0.7, 0.8]])
    assert plan_values(asking, plans, 0.8, [0.0, 0.0], np.zeros((2, 1))).tolist() == pytest.approx([0.25, 0.25])


def test_few_survivors_are_spread_and_many_are_not() -> None:
    rng = np.random.default_rng(0)
    many = draw_sellers("training", np.array(SHARES), 1000, rng)
    assert spread_out(many, rng) is many
    spread = spread_out(replace(many.take(np.arange(1)), weight=np.ones(1)), rng)
    assert spread.weight.size == 600
    assert 0 < np.std(spread.reservation / many.reservation[0]) < 0.01
    assert (spread.cost <= spread.reservation).all()


def test_the_belief_buyer_earns_more_than_scripts_and_never_more_than_the_best_response() -> None:
    lamps = [scenario(seed, cost=30.0 + 3 * seed) for seed in range(10)]
    table = belief_rewards(lamps, range(1), "training", SHARES, seed=0, max_turns=6)
    earned = table["belief"].to_list()
    for lamp, own in zip(lamps, earned, strict=True):
        assert own <= clairvoyant(lamp, draw_type("training", lamp, 0), 8).reward + 1e-9
    scripts = [mean_reward(policy, lamps, "training", [0]) for policy in FIXED_POLICIES.values()]
    assert np.mean(earned) > max(scripts) + 0.1


def test_the_same_seed_gives_the_same_games() -> None:
    first, second = (BeliefBuyer("stronger", np.array(SHARES), 0, 6).play(scenario(5), 1) for _ in range(2))
    assert first == second


def test_a_seller_without_ranges_has_no_belief_buyer() -> None:
    assert belief_rewards([scenario(1)], range(2), "floor_only", SHARES, seed=0, max_turns=6).is_empty()
