"""How far a catalogue has moved from the one that a model was trained on."""

from dataclasses import dataclass

import polars as pl

from dealwright.params import Retrain

PRICES = ("list_price", "lowest_price")


@dataclass(frozen=True, slots=True)
class CategoryDrift:
    """One category then and now; a median is None where there was no product, the drift where none is shared."""

    category: str
    products: int
    new: int
    gone: int
    median_before: float | None
    median_now: float | None
    price_drift: float | None


@dataclass(frozen=True, slots=True)
class Drift:
    """A catalogue beside an earlier one: products by category, and the share of rows set aside."""

    categories: tuple[CategoryDrift, ...]
    rejected_before: float
    rejected_now: float

    @property
    def new_share(self) -> float:
        """The share of today's products that the earlier catalogue lacks."""
        products = sum(category.products for category in self.categories)
        return sum(category.new for category in self.categories) / products

    def reasons(self, limits: Retrain) -> list[str]:
        """Say what moved by more than its limit; empty where nothing did."""
        found = []
        if self.new_share > limits.new_products:
            found.append(f"{self.new_share:.1%} of the products are new")
        if self.rejected_now - self.rejected_before > limits.rejected_rise:
            found.append(f"{self.rejected_now:.1%} of the rows are set aside, {self.rejected_before:.1%} before")
        found += [
            f"prices in {category.category} moved by {category.price_drift:.1%}"
            for category in self.categories
            if category.price_drift is not None and category.price_drift > limits.price_drift
        ]
        return found


def compare_catalogues(before: pl.DataFrame, now: pl.DataFrame, rejected_before: float, rejected_now: float) -> Drift:
    """Compare two canonical tables by product id; the shares are those of the rows set aside when they were read.

    The price drift of a category is the mean of |now / before - 1| over the products that both tables hold, of list
    and lowest price the one that moved more. A mean of signed changes would be 0 where half went up and half down.
    """
    columns = ("id", "category", *PRICES)
    both = before.select(columns).join(now.select(columns), on="id", how="full", suffix="_now")
    there, was = pl.col("id_now").is_not_null(), pl.col("id").is_not_null()
    moved = [(pl.col(f"{price}_now") / pl.col(price) - 1).abs().mean() for price in PRICES]
    table = (
        both.group_by(pl.coalesce("category_now", "category").alias("category"))
        .agg(
            products=there.sum(),
            new=(there & ~was).sum(),
            gone=(was & ~there).sum(),
            median_before=pl.col("list_price").median(),
            median_now=pl.col("list_price_now").median(),
            price_drift=pl.max_horizontal(moved),
        )
        .sort("category")
    )
    return Drift(tuple(CategoryDrift(**row) for row in table.iter_rows(named=True)), rejected_before, rejected_now)
