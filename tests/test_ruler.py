"""The ruler in the tiny model's prompt: what shares of the budget come to."""

from dataclasses import replace

import pytest

from dealwright.prompts import render_buyer
from dealwright.prompts.ruler import MARKS, mark_below, mark_of, offer_at, plain, ruler
from tests.games import a_scenario


def test_an_offer_has_three_significant_digits_and_is_rounded_down() -> None:
    assert offer_at(75, 80.0) == 60.0
    assert offer_at(83, 1234.56) == 1020.0
    assert offer_at(83, 123.456) == 102.0
    assert offer_at(83, 12.3456) == 10.2
    assert offer_at(83, 5.01) == 4.15
    assert offer_at(50, 0.01) == 0.01


def test_an_amount_has_no_idle_zeros() -> None:
    assert [plain(amount) for amount in (60.0, 10.2, 4.15, 100.0)] == ["60", "10.2", "4.15", "100"]


def test_the_ruler_says_what_every_third_per_cent_of_the_budget_comes_to() -> None:
    written = ruler(80.0)
    assert written.startswith("48% 38.4 51% 40.8 54% 43.2 ")
    assert written.endswith(" 96% 76.8 99% 79.2")
    assert written.count("%") == 18


def test_the_brief_prompt_ends_with_the_ruler_and_the_full_one_has_none() -> None:
    scenario = replace(a_scenario(), budget=80.0)
    assert render_buyer(scenario, "brief", 6).endswith(f"\n{ruler(80.0)}")
    assert "38.4" not in render_buyer(scenario, "full", 6)


@pytest.mark.parametrize("budget", [0.01, 0.37, 3.19, 80.0, 112.1, 12_345.67])
def test_no_mark_comes_to_more_than_the_budget(budget: float) -> None:
    assert all(offer_at(mark, budget) <= budget for mark in MARKS)


def test_a_share_falls_to_the_mark_below_it() -> None:
    assert [mark_below(percent) for percent in (30, 48, 50.9, 51, 98.9, 120)] == [48, 48, 48, 51, 96, 99]


def test_an_offer_is_told_by_the_lowest_mark_that_comes_to_it() -> None:
    assert [mark_of(offer, 80.0) for offer in (10.0, 38.4, 38.5, 79.2, 79.9)] == [48, 48, 51, 99, 99]
