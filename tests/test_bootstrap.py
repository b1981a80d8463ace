import math

import numpy as np
import pytest

from dealwright.evaluation.bootstrap import (
    exact_interval,
    holm,
    paired_difference,
    percentile_intervals,
    ratio_resamples,
    resample_counts,
)


def test_each_resample_draws_as_many_products_as_there_are() -> None:
    counts = resample_counts(7, 50, 0)
    assert counts.shape == (50, 7)
    assert (counts.sum(axis=1) == 7).all()
    assert counts.min() == 0 and counts.max() > 1


def test_resamples_follow_the_seed() -> None:
    assert (resample_counts(7, 50, 0) == np.array(resample_counts(7, 50, 0))).all()
    assert (resample_counts(7, 50, 0) != resample_counts(7, 50, 1)).any()


def test_a_resample_is_a_ratio_of_sums_and_not_a_mean_of_ratios() -> None:
    totals, over = np.array([[3.0], [1.0]]), np.array([[4.0], [1.0]])
    counts = np.array([[1.0, 1.0], [2.0, 0.0], [0.0, 2.0]])
    assert ratio_resamples(totals, over, counts)[:, 0].tolist() == [0.8, 0.75, 1.0]


def test_a_resample_without_anything_to_divide_by_is_left_out_of_the_interval() -> None:
    totals, over = np.array([[1.0], [0.0]]), np.array([[2.0], [0.0]])
    resampled = ratio_resamples(totals, over, np.array([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0]]))
    assert np.isnan(resampled[1, 0])
    low, high = percentile_intervals(resampled)
    assert (low[0], high[0]) == (0.5, 0.5)


def test_the_interval_leaves_a_fortieth_on_either_side() -> None:
    low, high = percentile_intervals(np.arange(1001.0)[:, None])
    assert (low[0], high[0]) == pytest.approx((25.0, 975.0))


def test_products_are_resampled_and_not_their_rounds() -> None:
    # Two products whose four rounds agree: as games there would be eight, as evidence there are two.
    counts = resample_counts(2, 1000, 0)
    resampled = ratio_resamples(np.array([[4.0], [0.0]]), np.array([[4.0], [4.0]]), counts)
    assert sorted(set(resampled[:, 0].tolist())) == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("events", "games", "low", "high"),
    [(0, 10, 0.0, 0.308498), (10, 10, 0.691502, 1.0), (0, 5000, 0.0, 0.000738), (1, 10, 0.002529, 0.445016)],
)
def test_exact_intervals_match_the_published_ones(events: int, games: int, low: float, high: float) -> None:
    assert exact_interval(events, games) == pytest.approx((low, high), abs=1e-6)


def test_a_paired_difference_cancels_what_the_products_share() -> None:
    second = np.linspace(-1, 1, 40)
    first = second + np.where(np.arange(40) % 2, 0.11, 0.09)
    difference, p_value = paired_difference(first[:, None], second, np.ones(40), resample_counts(40, 1000, 0), 0)
    assert difference.value == pytest.approx(0.1)
    assert difference.low is not None and difference.high is not None
    assert 0.09 < difference.low < 0.1 < difference.high < 0.11
    assert p_value == pytest.approx(2 / 1001)


def test_buyers_that_are_equal_do_not_differ() -> None:
    rewards = np.linspace(-1, 1, 40)
    difference, p_value = paired_difference(rewards[:, None], rewards, np.ones(40), resample_counts(40, 1000, 0), 0)
    assert (difference.value, difference.low, difference.high, p_value) == (0.0, 0.0, 0.0, 1.0)


def test_one_product_has_no_interval() -> None:
    difference, p_value = paired_difference(
        np.array([[2.0]]), np.array([1.0]), np.array([4.0]), resample_counts(1, 10, 0), 0
    )
    assert (difference.value, difference.low, difference.high, p_value) == (0.25, None, None, 1.0)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    counts = resample_counts(60, 1000, 0)
    covered = 0
    for _ in range(1500):
        # Rounds of a product share its level, so games taken for independent would cover far less often.
        games = 0.3 + rng.normal(0, 0.4, (60, 1)) + rng.normal(0, 0.1, (60, 4))
        low, high = percentile_intervals(ratio_resamples(games.sum(1)[:, None], np.full((60, 1), 4.0), counts))
        covered += bool(low[0] < 0.3 < high[0])
    assert 0.92 <= covered / 1500 <= 0.97


def test_p_values_of_equal_buyers_are_small_about_as_often_as_they_say() -> None:
    rng = np.random.default_rng(0)
    counts = resample_counts(60, 1000, 0)
    p_values = [
        paired_difference(rng.normal(0, 1, (60, 1)), rng.normal(0, 1, 60), np.ones(60), counts, 0)[1]
        for _ in range(300)
    ]
    assert 0.02 <= np.mean(np.array(p_values) < 0.05) <= 0.09


def test_trainings_that_differ_widen_the_interval_of_their_mean_by_their_own_spread() -> None:
    # Every product says the same of a training, so all that is uncertain is which trainings were drawn: three of them
    # at 0.1, 0.2 and 0.3. More than a fortieth of the resamples draw the lowest of them three times.
    second = np.linspace(-1, 1, 40)
    first = second[:, None] + np.array([0.1, 0.2, 0.3])
    difference, _ = paired_difference(first, second, np.ones(40), resample_counts(40, 1000, 0), 0)
    assert difference.value == pytest.approx(0.2)
    widest = 0.1 * math.sqrt(3 / 2)
    assert (difference.low, difference.high) == pytest.approx((0.2 - widest, 0.2 + widest))
    alike, _ = paired_difference(first[:, [1, 1, 1]], second, np.ones(40), resample_counts(40, 1000, 0), 0)
    assert (alike.low, alike.high) == pytest.approx((0.2, 0.2))


def test_the_mean_of_trainings_covers_the_truth_about_as_often_as_five_of_them_allow() -> None:
    rng = np.random.default_rng(0)
    counts = resample_counts(60, 1000, 0)
    covered = 0
    for seed in range(500):
        trainings = 0.1 + rng.normal(0, 0.05, 5) + rng.normal(0, 0.1, (60, 1)) + rng.normal(0, 0.1, (60, 5))
        found, _ = paired_difference(trainings, np.zeros(60), np.ones(60), counts, seed)
        assert found.low is not None and found.high is not None
        covered += found.low < 0.1 < found.high
    assert 0.85 <= covered / 500 <= 0.97


def test_holm_multiplies_by_the_number_still_to_be_judged_and_never_falls() -> None:
    assert holm({"a": 0.01, "b": 0.04, "c": 0.03}) == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06})
    assert holm({"a": 0.6, "b": 0.7}) == {"a": 1.0, "b": 1.0}
    assert holm({}) == {}
