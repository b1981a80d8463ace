"""Scenarios and the split, on AmazonHistoryPrice where it is at hand and on small tables."""

import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealwright.catalogue.scenarios import SCHEMA, ScenarioError, make_scenarios, read_scenarios
from dealwright.catalogue.split import Item, SplitError, held_out_sizes, largest_remainder, split_products
from dealwright.errors import DealwrightError
from dealwright.game import Product, Scenario, Zone
from dealwright.params import Prompts, load_params
from stages.prompts import check_validated

AMAZON = Path(__file__).parents[2] / "shared" / "data" / "AmazonHistoryPrice"
PARAMS = Prompts(seed=0, budget_factor=0.8, test=128, validation=64, untrained_categories=[], buyer="brief")


def products(*rows: dict[str, Any]) -> pl.DataFrame:
    """Make a canonical table; what a row leaves out is filled in."""
    usual = {"title": "A lamp", "category": "home", "description": "It shines.", "budget": None}
    prices = {"list_price": 100.0, "lowest_price": 50.0, "highest_price": 90.0}
    texts = dict.fromkeys(("id", "title", "category", "description"), pl.String())
    schema = pl.Schema({**texts, **dict.fromkeys((*prices, "budget"), pl.Float64())})
    return pl.DataFrame([{**usual, **prices, **row} for row in rows], schema=schema)


def many(count: int) -> pl.DataFrame:
    """Make a canonical table of two categories and two zones."""
    costs = [85.0 if n % 20 == 0 else 50.0 for n in range(count)]
    return products(*({"id": f"p{n}", "category": "abc"[n % 3], "lowest_price": c} for n, c in enumerate(costs)))


@pytest.fixture(scope="module")
def amazon() -> pl.DataFrame:
    """Read the benchmark's prices, with nothing but what scenarios need."""
    if not AMAZON.is_dir():
        pytest.skip(f"{AMAZON} is not there")
    files = sorted(AMAZON.glob("*.json"))
    rows = [(file.stem, n, item) for file in files for n, item in enumerate(json.loads(file.read_text("utf-8")))]
    return products(
        *(
            {
                "id": f"{stem}-{n}",
                "title": item["title"],
                "category": stem,
                **{name: amount(item[name]) for name in ("list_price", "lowest_price", "highest_price")},
            }
            for stem, n, item in rows
        )
    )


def amount(text: str) -> float:
    return float(re.sub("[$,]", "", text))


def test_amazon_history_price_gives_886_mutual_and_44_conflict_scenarios(amazon: pl.DataFrame) -> None:
    zones = Counter(make_scenarios(amazon, PARAMS)["zone"])
    assert zones == {"mutual": 886, "conflict": 44}


def test_amazon_history_price_splits_738_64_128(amazon: pl.DataFrame) -> None:
    splits = Counter(make_scenarios(amazon, PARAMS)["split"])
    assert splits == {"train": 738, "validation": 64, "test": 128}


def test_every_split_has_its_share_of_both_zones_and_of_the_categories(amazon: pl.DataFrame) -> None:
    table = make_scenarios(amazon, PARAMS)
    assert Counter(zip(table["split"], table["zone"], strict=True)) == {
        ("train", "mutual"): 703,
        ("train", "conflict"): 35,
        ("validation", "mutual"): 61,
        ("validation", "conflict"): 3,
        ("test", "mutual"): 122,
        ("test", "conflict"): 6,
    }
    sizes = Counter(table["category"])
    held = Counter(table.filter(pl.col("split") == "test")["category"])
    assert all(abs(held[category] - size * 128 / 930) <= 2 for category, size in sizes.items())


def test_the_table_has_exactly_the_columns_agreed_on_and_the_catalogues_order() -> None:
    table = make_scenarios(many(40), PARAMS)
    assert table.columns == (
        ["id", "product_id", "title", "category", "list_price", "cost", "budget", "zone", "seed", "split"]
    )
    assert table.schema == SCHEMA
    assert table["product_id"].to_list() == [f"p{n}" for n in range(40)]
    assert table["id"].is_unique().all()


def test_the_list_price_is_the_greater_of_list_and_highest_price() -> None:
    dearer, cheaper = {"id": "a", "highest_price": 120.0}, {"id": "b", "highest_price": 80.0}
    table = make_scenarios(products(dearer, cheaper, {"id": "c"}), PARAMS)
    assert table["list_price"].to_list() == [120.0, 100.0, 100.0]
    assert table["cost"].to_list() == [50.0, 50.0, 50.0]
    assert table["budget"].to_list() == [96.0, 80.0, 80.0]


def test_a_products_own_budget_goes_before_the_factor() -> None:
    table = make_scenarios(products({"id": "a", "budget": 49.0}, {"id": "b"}, {"id": "c"}), PARAMS)
    assert table["budget"].to_list() == [49.0, 80.0, 80.0]
    assert table["zone"].to_list() == ["conflict", "mutual", "mutual"]


def test_the_budget_is_exact_and_not_rounded_to_cents() -> None:
    table = make_scenarios(products({"id": "a", "list_price": 119.99}, {"id": "b"}, {"id": "c"}), PARAMS)
    assert table["budget"][0] == 95.992


def test_a_budget_equal_to_the_cost_is_no_zone_in_spite_of_binary_fractions() -> None:
    assert 0.8 * 49.95 > 39.96
    row = {"id": "a", "list_price": 49.95, "highest_price": 49.95, "lowest_price": 39.96}
    table = make_scenarios(products(row, {"id": "b"}, {"id": "c"}), PARAMS)
    assert table["budget"][0] == 39.96
    assert table["zone"][0] == "conflict"


def test_seeds_are_stable_distinct_and_fit_a_signed_column() -> None:
    seeds = make_scenarios(many(500), PARAMS)["seed"].to_list()
    digest = hashlib.blake2b(b"0/p0", digest_size=8).digest()
    assert seeds[0] == int.from_bytes(digest, "big") // 2
    assert len(set(seeds)) == 500
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_prompts_seed_changes_every_scenarios_seed_and_no_split() -> None:
    first = make_scenarios(many(600), PARAMS)
    second = make_scenarios(many(600), PARAMS.model_copy(update={"seed": 1}))
    assert first["split"].to_list() == second["split"].to_list()
    assert not (first["seed"] == second["seed"]).any()


def test_the_split_does_not_depend_on_the_order_of_the_catalogue() -> None:
    table = make_scenarios(many(600), PARAMS)
    turned = make_scenarios(many(600).reverse(), PARAMS)
    assert dict(zip(table["id"], table["split"], strict=True)) == dict(zip(turned["id"], turned["split"], strict=True))


def test_of_untrained_categories_only_the_test_products_are_bargained_over(amazon: pl.DataFrame) -> None:
    every = make_scenarios(amazon, PARAMS)
    table = make_scenarios(amazon, PARAMS.model_copy(update={"untrained_categories": ["electronics"]}))
    of_them = pl.col("category") == "electronics"
    assert set(table.filter(of_them)["split"]) == {"test"}
    assert table.equals(every.filter(~of_them | (pl.col("split") == "test")))
    assert every.filter(of_them)["split"].n_unique() == 3


def test_an_untrained_category_that_no_product_has_is_refused_with_those_that_there_are() -> None:
    params = PARAMS.model_copy(update={"untrained_categories": ["toys"]})
    problem = r"prompts.untrained_categories: expected of a, b, c, got toys; name those"
    with pytest.raises(ScenarioError, match=problem):
        make_scenarios(many(30), params)


def test_untrained_categories_that_leave_nothing_to_train_on_are_refused() -> None:
    params = PARAMS.model_copy(update={"untrained_categories": ["a", "b", "c"]})
    with pytest.raises(ScenarioError, match="untrained_categories leaves no product of the split train; name fewer"):
        make_scenarios(many(30), params)


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(930, (128, 64)), (500, (128, 64)), (499, (70, 35)), (100, (14, 7)), (20, (3, 1)), (7, (1, 1)), (3, (1, 1))],
)
def test_held_out_sizes(count: int, sizes: tuple[int, int]) -> None:
    assert held_out_sizes(count, 128, 64) == sizes


def test_sizes_below_the_shares_stand_in_a_small_catalogue_too() -> None:
    assert held_out_sizes(400, 16, 8) == (16, 8)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_catalogue_too_small_for_a_split_stops_with_one_line(count: int) -> None:
    with pytest.raises(SplitError, match=f"of {count}: none is left to train on; use a larger catalogue") as caught:
        make_scenarios(many(count), PARAMS)
    assert "\n" not in str(caught.value)


def test_held_out_sizes_that_leave_nothing_to_train_on_are_refused() -> None:
    with pytest.raises(SplitError, match=r"lower prompts\.test and prompts\.validation"):
        held_out_sizes(600, 500, 100)


def test_largest_remainder_serves_the_largest_fractions_first() -> None:
    assert largest_remainder({"a": 5, "b": 3, "c": 2}, 4) == {"a": 2, "b": 1, "c": 1}
    assert largest_remainder({"a": 886, "b": 44}, 128) == {"a": 122, "b": 6}
    assert largest_remainder({}, 0) == {}


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=3), st.integers(1, 60), min_size=1, max_size=12), st.data())
def test_shares_add_up_and_stay_within_one_of_their_quota(sizes: dict[str, int], data: st.DataObject) -> None:
    whole = sum(sizes.values())
    total = data.draw(st.integers(0, whole))
    counts = largest_remainder(sizes, total)
    assert sum(counts.values()) == total
    assert all(0 <= counts[name] <= size for name, size in sizes.items())
    assert all(abs(counts[name] - size * total / whole) < 1 for name, size in sizes.items())


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["mutual", "conflict"])), min_size=3))
def test_every_product_falls_into_one_split_and_the_sizes_hold(strata: list[tuple[str, str]]) -> None:
    items = [Item(str(n), category, zone) for n, (category, zone) in enumerate(strata)]
    splits = split_products(items, 128, 64)
    assert list(splits) == [item.id for item in items]
    test, validation = held_out_sizes(len(items), 128, 64)
    train = len(items) - test - validation
    assert Counter(splits.values()) == {"train": train, "validation": validation, "test": test}


def test_scenarios_are_read_back_whole_and_in_order(tmp_path: Path) -> None:
    catalogue = many(30)
    table = make_scenarios(catalogue, PARAMS)
    table.write_parquet(tmp_path / "scenarios.parquet")
    catalogue.reverse().write_parquet(tmp_path / "catalogue.parquet")
    scenarios = read_scenarios(tmp_path / "scenarios.parquet", tmp_path / "catalogue.parquet")
    assert [scenario.id for scenario in scenarios] == table["id"].to_list()
    product = Product("p1", "A lamp", "b", "It shines.", 100.0, 50.0, 90.0)
    assert scenarios[1] == Scenario("p1", product, 100.0, 50.0, 80.0, table["seed"][1], table["split"][1])
    assert scenarios[0].zone is Zone.CONFLICT
    test = read_scenarios(tmp_path / "scenarios.parquet", tmp_path / "catalogue.parquet", split="test")
    assert [scenario.id for scenario in test] == table.filter(pl.col("split") == "test")["id"].to_list()
    with pytest.raises(ValueError, match="train, validation, test, got 'dev'"):
        read_scenarios(tmp_path / "scenarios.parquet", tmp_path / "catalogue.parquet", split="dev")


def test_tables_that_do_not_belong_together_stop_with_one_line(tmp_path: Path) -> None:
    scenarios, catalogue = tmp_path / "scenarios.parquet", tmp_path / "catalogue.parquet"
    make_scenarios(many(30), PARAMS).write_parquet(scenarios)
    with pytest.raises(DealwrightError, match=r"catalogue\.parquet is missing; run `dvc repro prompts`"):
        read_scenarios(scenarios, catalogue)
    catalogue.write_text("no table")
    with pytest.raises(DealwrightError, match=r"catalogue\.parquet is not a readable Parquet file"):
        read_scenarios(scenarios, catalogue)
    many(29).write_parquet(catalogue)
    with pytest.raises(ScenarioError, match="lacks the product 'p29'"):
        read_scenarios(scenarios, catalogue)
    many(30).write_parquet(catalogue)
    pl.read_parquet(scenarios).with_columns(budget=pl.lit(float("nan"))).write_parquet(scenarios)
    with pytest.raises(
        ScenarioError, match=r"the budget of scenario p0 must be a positive amount in dollars, got nan"
    ):
        read_scenarios(scenarios, catalogue)


def test_the_stage_goes_on_only_from_a_validated_catalogue(tmp_path: Path) -> None:
    report = tmp_path / "validation.json"
    with pytest.raises(DealwrightError, match=r"missing or unreadable; run `dvc repro validate`"):
        check_validated(report)
    report.write_text('{"success": false}')
    with pytest.raises(DealwrightError, match="breaks its contract"):
        check_validated(report)
    report.write_text('{"success": true}')
    check_validated(report)


def test_the_default_parameters_are_the_protocols() -> None:
    params = load_params(Path(__file__).parents[1] / "params.yaml").prompts
    assert (params.budget_factor, params.test, params.validation) == (0.8, 128, 64)
