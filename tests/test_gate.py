"""The gate before the champion: what passes it, and what is compared."""

from collections.abc import Sequence

import polars as pl
import pytest

from dealwright.evaluation.bootstrap import Estimate
from dealwright.evaluation.metrics import prepare
from dealwright.game import Action, ActionKind, Message, Negotiation, format_message
from dealwright.players import play_games
from dealwright.tracking.contest import Comparison, Contrast, contrast
from dealwright.tracking.promotion import judge
from tests.tiny import tiny_params, tiny_scenarios


def estimate(value: float, low: float | None = None, high: float | None = None) -> Estimate:
    return Estimate(value, low, high, 64)


def comparison(
    gain: Estimate | None = None, overshoot: Estimate | None = None, leaks: Estimate | None = None, products: int = 64
) -> Comparison:
    def of(difference: Estimate | None) -> Contrast:
        return Contrast(estimate(0.25), estimate(0.5), difference or estimate(0.0, 0.0, 0.0))

    return Comparison(1, 2, products, 0, of(gain or estimate(0.05, 0.03, 0.07)), of(overshoot), of(leaks))


def test_a_gain_above_the_minimum_with_confidence_passes() -> None:
    told = "gain +0.050 [+0.030, +0.070] over version 1"
    assert judge(comparison(), minimum_gain=0.02) == (True, f"{told}; overshoot and leaks no worse")
    assert judge(comparison(), minimum_gain=0.03) == (False, f"{told} is not above 0.03 with 95 % confidence")


def test_a_gain_that_may_be_chance_or_is_no_number_does_not_pass() -> None:
    assert not judge(comparison(estimate(0.05, -0.001, 0.1)), minimum_gain=0.0)[0]
    assert not judge(comparison(estimate(float("nan"), float("nan"), float("nan"))), minimum_gain=-1.0)[0]


def test_a_first_candidate_whose_reward_is_no_number_does_not_pass() -> None:
    nothing = Contrast(None, estimate(0.0), None)
    alone = Comparison(None, 2, 64, 0, Contrast(None, estimate(float("nan")), None), nothing, nothing)
    assert judge(alone, minimum_gain=0.0) == (False, "its reward is nan, which is no number")


def test_more_overshoot_or_leaks_than_chance_gives_stop_it_whatever_the_gain() -> None:
    worse = estimate(0.25, 0.01, 0.4)
    passed, reason = judge(comparison(overshoot=worse, leaks=worse), minimum_gain=0.0)
    assert not passed
    assert reason == (
        "it goes above the budget in 50.0% of its games, the champion in 25.0%; "
        "it states its budget in 50.0% of its games, the champion in 25.0%"
    )
    assert judge(comparison(overshoot=estimate(0.25, 0.0, 0.4)), minimum_gain=0.0)[0]


def test_one_product_is_no_ground_for_a_promotion() -> None:
    assert judge(comparison(estimate(0.5), products=1), minimum_gain=0.0) == (
        False,
        "of 1 products no interval can be made",
    )


class Pays:
    """Offers the same share of its budget at once, and says the same."""

    def __init__(self, share: float, talk: str = "") -> None:
        self.share = share
        self.talk = talk

    def respond(self, games: Sequence[Negotiation]) -> list[str]:
        return [self._say(game.scenario.budget) for game in games]

    def _say(self, budget: float) -> str:
        talk = self.talk.format(budget=budget)
        return format_message(Message("", talk, Action(ActionKind.BUY, round(budget * self.share, 2))))


def played(champion: Pays, candidate: Pays) -> Comparison:
    """Compare two buyers on four products; the seller takes whatever covers its cost, 62.5 % of the budget."""
    params = tiny_params()
    scenarios = tiny_scenarios(4, "validation")
    tables = [
        play_games(name, buyer, ["floor_only"], scenarios, [0], params)
        for name, buyer in (("3", champion), ("5", candidate))
    ]
    return contrast(prepare(pl.concat(tables)), 3, 5, 1, params)


def test_two_versions_are_compared_game_by_game() -> None:
    compared = played(Pays(0.9), Pays(0.75))
    assert (compared.champion, compared.candidate, compared.products, compared.left_out) == (3, 5, 4, 1)
    assert compared.reward.champion is not None
    assert compared.reward.difference is not None
    assert compared.reward.champion.value == pytest.approx(0.2667, abs=1e-3)
    assert compared.reward.candidate.value == pytest.approx(0.6667, abs=1e-3)
    # Every product shows the same difference, so every resample does.
    assert compared.reward.difference.low == pytest.approx(0.4, abs=1e-3)
    assert judge(compared, minimum_gain=0.39)[0]
    assert not judge(compared, minimum_gain=0.41)[0]


def test_a_buyer_that_pays_too_much_or_tells_its_budget_is_found_out() -> None:
    compared = played(Pays(0.9), Pays(1.1, "I have ${budget:,.2f}."))
    assert compared.overshoot_rate.candidate.value == 1.0
    assert compared.leak_rate.candidate.value == 1.0
    passed, reason = judge(compared, minimum_gain=-10.0)
    assert not passed
    assert "goes above the budget in 100.0% of its games, the champion in 0.0%" in reason
    assert "states its budget in 100.0% of its games, the champion in 0.0%" in reason
    assert "goes above" not in judge(played(Pays(1.1), Pays(1.2)), minimum_gain=-10.0)[1]


def test_without_a_champion_the_candidate_plays_alone() -> None:
    params = tiny_params()
    alone = play_games("5", Pays(0.75), ["floor_only"], tiny_scenarios(4, "validation"), [0], params)
    compared = contrast(prepare(alone), None, 5, 0, params)
    assert (compared.reward.champion, compared.reward.difference) == (None, None)
    assert judge(compared, minimum_gain=0.0) == (True, "there was no champion; its reward is 0.667 [0.667, 0.667]")
