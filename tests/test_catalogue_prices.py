"""Prices are read strictly: each form of writing, and each reason for a refusal."""

import polars as pl
import pytest

from dealwright.catalogue.prices import find_currency, with_prices
from dealwright.errors import DealwrightError


def read(text: str | None, currency: str = "USD") -> float | str | None:
    """Read one price: the amount, or the problem, or None where there is no price."""
    plan = pl.LazyFrame({"price": [text]}, schema={"price": pl.String})
    amount, problem = with_prices(plan, ["price"], find_currency(currency)).collect().row(0)
    return amount if problem is None else problem


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("$1,234.56", 1234.56),
        ("1234.56", 1234.56),
        ("12", 12.0),
        ("12.5", 12.5),
        (".99", 0.99),
        ("19.9900", 19.99),
        ("USD 12", 12.0),
        ("usd 12", 12.0),
        ("12 USD", 12.0),
        ("US$12", 12.0),
        ("$12.00 USD", 12.0),
        ("  $ 12  ", 12.0),
        ("12\u00a0USD", 12.0),
        ("1,234", 1234.0),
        ("1,234,567.8", 1234567.8),
        ("1 234,56", 1234.56),
        ("1\u202f234.56", 1234.56),
        ("1'234.50", 1234.5),
        ("1.234,56", 1234.56),
        ("12,50", 12.5),
        ("\uff04\uff11\uff12", 12.0),
    ],
)
def test_a_price_is_read_in_every_way_that_has_one_reading(text: str, amount: float) -> None:
    assert read(text) == amount


@pytest.mark.parametrize("text", [None, "", "  ", "N/A", "n/a", "NaN", "none", "null", "-", "--", "?"])
def test_blanks_and_their_stand_ins_are_no_price_and_no_problem(text: str | None) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-5", "is negative"),
        ("$-5", "is negative"),
        ("-$5", "is negative"),
        ("\N{MINUS SIGN}5.00", "is negative"),
        ("(5.00)", "is negative"),
        ("5-", "is negative"),
        ("10-20", "is a range"),
        ("$10 - $20", "is a range"),
        ("10\N{EN DASH}20", "is a range"),
        ("10 to 20", "is a range"),
        ("US$10-US$20", "is a range"),
        ("1,23,4", "has a grouping that cannot be"),
        ("12,34,567", "has a grouping that cannot be"),
        ("1,2345,678.00", "has a grouping that cannot be"),
        ("10 20", "has a grouping that cannot be"),
        ("1.2.3", "has a grouping that cannot be"),
        ("1.234", "can be read as thousands or as decimals"),
        ("0.123", "has more than two decimals"),
        ("33.3333", "has more than two decimals"),
        ("12,50 \N{EURO SIGN}", "is in another currency than USD"),
        ("\N{POUND SIGN}5", "is in another currency than USD"),
        ("CA$12", "is in another currency than USD"),
        ("A$12", "is in another currency than USD"),
        ("12 CAD", "is in another currency than USD"),
        ("EUR12", "is in another currency than USD"),
        ("12 kr", "is in another currency than USD"),
        ("0", "is zero"),
        ("$0.00", "is zero"),
        ("9999999999999", "is too large"),
        ("1e5", "is not a price"),
        ("inf", "is not a price"),
        ("free", "is not a price"),
        ("from $12", "is not a price"),
        ("12 USD each", "is not a price"),
        ("$$12", "is not a price"),
        ("$", "is not a price"),
        ("12,-", "is not a price"),
        ("$19\u2079\u2079", "is not a price"),
        ("1\u00bd", "is not a price"),
        ("\u0663\u0664", "is not a price"),
    ],
)
def test_what_is_no_clear_price_is_refused_with_its_reason(text: str, problem: str) -> None:
    assert read(text) == problem


@pytest.mark.parametrize(
    ("text", "currency", "amount"),
    [
        ("12,50 \N{EURO SIGN}", "EUR", 12.5),
        ("\N{EURO SIGN}1.234,50", "EUR", 1234.5),
        ("EUR 12", "EUR", 12.0),
        ("C$12", "CAD", "is in another currency than CAD"),
        ("CA$12", "CAD", 12.0),
        ("$12", "CAD", 12.0),
        ("12,50 z\u0142", "PLN", 12.5),
        ("\u00a5500", "JPY", 500.0),
        ("CHF 1\N{RIGHT SINGLE QUOTATION MARK}234.50", "CHF", 1234.5),
        ("R$ 1.234", "BRL", 1234.0),
        ("1,234", "EUR", "can be read as thousands or as decimals"),
        ("1.234", "EUR", "can be read as thousands or as decimals"),
        ("$12", "EUR", "is in another currency than EUR"),
    ],
)
def test_marks_and_thousands_are_those_of_the_catalogues_currency(
    text: str, currency: str, amount: float | str
) -> None:
    assert read(text, currency) == amount


@pytest.mark.parametrize(
    ("currency", "texts", "problem"),
    [
        ("MOP", ["MOP$ 5", "MOP$ 1,234"], "is in another currency than MOP"),  # its code begins its own mark
        ("AED", ["9 د.إ.\u200f", "1,234 د.إ.\u200f"], "is not a price"),  # its mark holds what cannot be seen
    ],
)
def test_a_mark_is_read_alike_before_short_and_long_amounts(currency: str, texts: list[str], problem: str) -> None:
    assert [read(text, currency) for text in texts] == [problem, problem]


def test_an_unknown_currency_is_an_error_that_names_it() -> None:
    with pytest.raises(DealwrightError, match="expected an ISO 4217 code such as USD, got 'ZZZ'"):
        find_currency("ZZZ")
