"""From products to what is bargained over (protocol, section 1): one scenario a product."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl

from dealwright.catalogue.split import SPLITS, TEST, Item, split_products, stable_hash
from dealwright.errors import DealwrightError
from dealwright.files import read_table
from dealwright.game import Product, Scenario
from dealwright.params import Prompts

SCHEMA = pl.Schema(
    {
        "id": pl.String,
        "product_id": pl.String,
        "title": pl.String,
        "category": pl.String,
        "list_price": pl.Float64,
        "cost": pl.Float64,
        "budget": pl.Float64,
        "zone": pl.String,
        "seed": pl.Int64,
        "split": pl.String,
    }
)


_MEND = "run `dvc repro prompts`, which makes it"


class ScenarioError(DealwrightError):
    """Scenario or catalogue tables that cannot be used."""


def make_scenarios(catalogue: pl.DataFrame, params: Prompts) -> pl.DataFrame:
    """Make the table of scenarios from the canonical table of products, in its order.

    P is the greater of list price and highest price, C the lowest price, B the product's own budget or
    `budget_factor` · P, exact to the nearest binary number of the decimal product: 0.8 · 49.95 is 39.96, so a cost of
    39.96 leaves no zone. `prompts.seed` shifts the counterparts' draws, never the split. Of `untrained_categories`
    only those products are bargained over that are tested in any case.
    Raises ScenarioError for such a category that no product has, and where they leave a split empty.
    """
    known = catalogue["category"].unique().sort().to_list()
    if unknown := sorted(set(params.untrained_categories).difference(known)):
        raise ScenarioError(
            f"prompts.untrained_categories: expected of {', '.join(known)}, got {', '.join(unknown)}; name those"
        )
    products = [_product(row) for row in catalogue.iter_rows(named=True)]
    own_budgets = catalogue.get_column("budget").to_list()
    scenarios = [
        _scenario(product, own_budget, params) for product, own_budget in zip(products, own_budgets, strict=True)
    ]
    splits = split_products(
        [Item(scenario.id, scenario.product.category, scenario.zone) for scenario in scenarios],
        test=params.test,
        validation=params.validation,
    )
    rows = [
        (
            scenario.id,
            scenario.product.id,
            scenario.product.title,
            scenario.product.category,
            scenario.list_price,
            scenario.cost,
            scenario.budget,
            str(scenario.zone),
            scenario.seed,
            splits[scenario.id],
        )
        for scenario in scenarios
    ]
    untrained = pl.col("category").is_in(params.untrained_categories) & (pl.col("split") != TEST)
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row").filter(~untrained)
    if missing := [split for split in SPLITS if split not in set(table["split"])]:
        raise ScenarioError(
            f"prompts.untrained_categories leaves no product of the split {missing[0]}; name fewer categories"
        )
    return table


def read_scenarios(
    scenarios: str | Path = "data/scenarios.parquet",
    catalogue: str | Path = "data/catalogue.parquet",
    split: str | None = None,
    first: int = 0,
    count: int | None = None,
) -> list[Scenario]:
    """Read the scenarios of a split, or all, with their products, in the order of the file; no more than `count` of
    them, from the place `first` on."""
    table = read_table(scenarios, _of_split(split), _MEND, slice=(first, count))
    wanted = pl.col("id").is_in(table["product_id"].unique().to_list())
    products = {row["id"]: _product(row) for row in read_table(catalogue, wanted, _MEND).iter_rows(named=True)}
    missing = table.filter(~pl.col("product_id").is_in(list(products)))
    if not missing.is_empty():
        raise ScenarioError(
            f"{catalogue} lacks the product {missing['product_id'][0]!r} of {scenarios}; run `dvc repro prompts`"
        )
    try:
        return [
            Scenario(
                id=row["id"],
                product=products[row["product_id"]],
                list_price=row["list_price"],
                cost=row["cost"],
                budget=row["budget"],
                seed=row["seed"],
                split=row["split"],
            )
            for row in table.iter_rows(named=True)
        ]
    except ValueError as error:
        raise ScenarioError(f"{scenarios}: {error}; {_MEND}") from error


def count_scenarios(scenarios: str | Path = "data/scenarios.parquet", split: str | None = None) -> int:
    """Count the scenarios of a split, or all."""
    return read_table(scenarios, _of_split(split), _MEND, columns=["id"]).height


def _of_split(split: str | None) -> pl.Expr | None:
    if split is not None and split not in SPLITS:
        raise ValueError(f"a split is one of {', '.join(SPLITS)}, got {split!r}")
    return None if split is None else pl.col("split") == split


def _product(row: dict[str, Any]) -> Product:
    return Product(
        id=row["id"],
        title=row["title"],
        category=row["category"],
        description=row["description"],
        list_price=row["list_price"],
        lowest_price=row["lowest_price"],
        highest_price=row["highest_price"],
    )


def _scenario(product: Product, own_budget: float | None, params: Prompts) -> Scenario:
    list_price = max(product.list_price, product.highest_price)
    return Scenario(
        id=product.id,
        product=product,
        list_price=list_price,
        cost=product.lowest_price,
        budget=_times(params.budget_factor, list_price) if own_budget is None else own_budget,
        seed=stable_hash(f"{params.seed}/{product.id}") >> 1,  # 63 bits fit a signed column
        split="",
    )


def _times(factor: float, price: float) -> float:
    return float(Decimal(repr(factor)) * Decimal(repr(price)))
