"""Amounts in whole cents, and amounts in prose."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealwright.game import find_money, format_price, round_down, round_up, to_cents
from dealwright.prompts.neutral import neutralise


def test_an_amount_becomes_its_nearest_cent() -> None:
    assert [to_cents(amount) for amount in (0.01, 19.99, 1.1, 79.96000000000001, 1.004, 1.006)] == [
        1,
        1999,
        110,
        7996,
        100,
        101,
    ]


def test_rounding_down_forgives_a_binary_fraction_and_nothing_more() -> None:
    assert round_down(0.8 * 49.99) == 39.99
    assert round_down(0.1 + 0.7) == 0.8
    assert round_down(39.9999) == 39.99
    assert round_down(40.0) == 40.0


def test_rounding_up_never_falls_below_the_amount() -> None:
    assert round_up(10.0) == 10.0
    assert round_up(1.1) == 1.1
    assert round_up(10.001) == 10.01
    assert round_up(10.100000000000001) == 10.11


@settings(deadline=None)
@given(st.floats(0.01, 1e6))
def test_rounding_moves_less_than_a_cent(amount: float) -> None:
    assert amount <= round_up(amount) < amount + 0.01 + 1e-9
    assert amount - 0.01 < round_down(amount) <= amount + 1e-7


@settings(deadline=None)
@given(st.integers(0, 10**9))
def test_whole_cents_stay_as_they_are(cents: int) -> None:
    assert to_cents(cents / 100) == cents
    assert round_down(cents / 100) == cents / 100
    assert round_up(cents / 100) == cents / 100


def test_a_price_is_written_with_two_decimals() -> None:
    assert [format_price(amount) for amount in (5.0, 1234.5, 0.01)] == ["$5.00", "$1234.50", "$0.01"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I pay $45.", [45.0]),
        ("I pay $ 45.50 today", [45.5]),
        ("45 dollars, 45 Dollar, 45 bucks, 45 USD", [45.0, 45.0, 45.0, 45.0]),
        ("USD 45 or US$46 or 47$", [45.0, 46.0, 47.0]),
        ("€12 and £13 and 14 euros", [12.0, 13.0, 14.0]),
        ("1,234.56 it is", [1234.56]),
        ("12 $50.00", [12.0, 50.0]),  # the mark may belong to either
        ("$1,234 or $1234", [1234.0, 1234.0]),
        ("from 39.95 to 41.00", [39.95, 41.0]),
        ("only $.", []),
        ("a 45 cm lamp of 2019, model 3.5, 10 %", []),
        ("version 1.2.3 and 12.345", []),
        ("12,34.50", []),
        ("＄４５．００", [45.0]),  # noqa: RUF001
        ("$4\u200b5", [45.0]),
        ("$4\x005 and $\x7f46 and $4\ufe0f7", [45.0, 46.0, 47.0]),
        ("**45** dollars, $**46**, 47 US dollars, a 48-dollar lamp", [45.0, 46.0, 47.0, 48.0]),
        ("", []),
        ("$" + "9" * 400, []),
        ("$" + "9" * 308, []),
        ("$179" + "0" * 304, [1.79e306]),
    ],
)
def test_money_in_prose_is_found_by_its_mark_or_its_two_decimals(text: str, expected: list[float]) -> None:
    assert find_money(text) == expected


def test_an_amount_that_the_other_side_reads_is_found_whatever_stood_within_it() -> None:
    codes = [*range(0x3200), *range(0xFE00, 0x10000), *range(0xE0000, 0xE0200)]
    read = [text for code in codes if neutralise(text := f"$4{chr(code)}5") == "$45"]
    assert len(read) > 60
    assert [text for text in read if find_money(text) != [45.0]] == []


@settings(deadline=None)
@given(st.text())
def test_amounts_in_any_text_can_be_counted_in_cents(text: str) -> None:
    assert all(to_cents(amount) >= 0 for amount in find_money(text))
