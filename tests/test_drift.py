"""What has changed in a catalogue: new products, rows set aside, prices by category."""

import polars as pl
import pytest

from dealwright.catalogue.drift import CategoryDrift, compare_catalogues
from dealwright.params import Retrain

LIMITS = Retrain(
    cron=None, new_products=0.2, rejected_rise=0.1, price_drift=0.05, minimum_gain=0, reports="http://reports"
)


def catalogue(*rows: tuple[str, str, float, float]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["id", "category", "list_price", "lowest_price"], orient="row")


BEFORE = catalogue(("a", "books", 10, 5), ("b", "books", 20, 10), ("c", "toys", 30, 15), ("d", "toys", 40, 20))


def test_the_same_catalogue_gives_no_reason_to_train() -> None:
    drift = compare_catalogues(BEFORE, BEFORE.reverse(), 0.1, 0.1)
    assert drift.categories == (
        CategoryDrift("books", 2, 0, 0, 15.0, 15.0, 0.0),
        CategoryDrift("toys", 2, 0, 0, 35.0, 35.0, 0.0),
    )
    assert drift.reasons(LIMITS) == []
    assert (
        drift.reasons(LIMITS.model_copy(update=dict.fromkeys(("new_products", "rejected_rise", "price_drift"), 0)))
        == []
    )


def test_new_and_gone_products_are_counted_where_they_are_now() -> None:
    now = catalogue(("a", "books", 10, 5), ("c", "toys", 30, 15), ("d", "books", 40, 20), ("e", "games", 50, 25))
    drift = compare_catalogues(BEFORE, now, 0, 0)
    assert {entry.category: (entry.products, entry.new, entry.gone) for entry in drift.categories} == {
        "books": (2, 0, 1),
        "games": (1, 1, 0),
        "toys": (1, 0, 0),
    }
    assert drift.categories[1] == CategoryDrift("games", 1, 1, 0, None, 50.0, None)
    assert drift.reasons(LIMITS) == ["25.0% of the products are new"]


def test_a_price_drift_does_not_cancel_out_and_takes_the_price_that_moved_more() -> None:
    now = catalogue(("a", "books", 11, 5), ("b", "books", 18, 10), ("c", "toys", 30, 18), ("d", "toys", 40, 20))
    drift = compare_catalogues(BEFORE, now, 0, 0)
    assert [entry.price_drift for entry in drift.categories] == pytest.approx([0.1, 0.1])
    assert drift.reasons(LIMITS) == ["prices in books moved by 10.0%", "prices in toys moved by 10.0%"]


def test_a_rise_of_the_rows_set_aside_counts_and_a_fall_does_not() -> None:
    drift = compare_catalogues(BEFORE, BEFORE, 0.1, 0.3)
    assert drift.reasons(LIMITS) == ["30.0% of the rows are set aside, 10.0% before"]
    assert compare_catalogues(BEFORE, BEFORE, 0.3, 0.1).reasons(LIMITS) == []
