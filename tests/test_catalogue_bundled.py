"""The bundled catalogue and AmazonHistoryPrice: what is known of them stays true."""

import importlib.util
import json
from collections import Counter
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from dealwright.catalogue.table import Ingested, ingest
from dealwright.params import Catalogue
from tests.amazon import FOLDER as AMAZON

BUNDLED = Path(__file__).parents[1] / "data" / "catalogue"
CATEGORIES = (
    "automotive", "baby-products", "beauty", "books", "electronics", "health-personal-care", "home-kitchen",
    "industrial-scientific", "movies-tv", "music", "other", "patio-lawn-garden", "pet-supplies", "software",
    "sports-outdoors", "tools-home-improvement", "toys-games", "video-games",
)  # fmt: skip


def read(source: str, path: Path) -> Ingested:
    """Ingest a source as params.yaml does by default."""
    usual: dict[str, object] = {"columns": {}, "currency": "USD", "cost_ratio": None}
    usual |= {"title_characters": (3, 500), "description_characters": 1200}
    return ingest(Catalogue.model_validate({"source": source, "path": str(path), **usual}))


def with_ratios(catalogue: pl.DataFrame) -> pl.DataFrame:
    """Add P, C/P, and whether C leaves no zone below 0.8 · P."""
    largest = pl.max_horizontal("list_price", "highest_price")
    return catalogue.with_columns(
        largest=largest,
        ratio=pl.col("lowest_price") / largest,
        conflict=(0.8 * largest).round(6) <= pl.col("lowest_price"),
    )


@pytest.fixture(scope="module")
def bundled() -> Ingested:
    """The bundled catalogue."""
    return read("bundled", BUNDLED)


@pytest.fixture(scope="module")
def amazon() -> Ingested:
    """AmazonHistoryPrice, where it is at hand."""
    if not AMAZON.is_dir():
        pytest.skip(f"{AMAZON} is not there; DEALWRIGHT_AMAZON_HISTORY_PRICE names another folder")
    return read("amazon_history_price", AMAZON)


def test_the_bundled_catalogue_has_over_600_products_in_18_categories_and_no_bad_row(bundled: Ingested) -> None:
    assert len(bundled.catalogue) == 638
    assert bundled.rejected.is_empty()
    assert tuple(sorted(bundled.report["kept_by_category"])) == CATEGORIES


def test_bundled_prices_span_five_to_4300_dollars_with_the_spread_of_the_real_catalogue(bundled: Ingested) -> None:
    table = with_ratios(bundled.catalogue)
    assert (table["largest"].min(), table["largest"].max()) == (4.99, 4299.0)
    assert table["ratio"].mean() == pytest.approx(0.51, abs=0.01)
    spread = [table["ratio"].quantile(share) for share in (0.05, 0.1, 0.2, 0.5, 0.8, 0.9, 0.95)]
    assert spread == pytest.approx([0.217, 0.26, 0.332, 0.508, 0.671, 0.75, 0.8], abs=0.02)
    assert 0.04 <= table["conflict"].cast(pl.Float64).mean() <= 0.06  # type: ignore[operator]
    assert (table["lowest_price"] <= table["list_price"]).all()
    rises = table["highest_price"] / table["list_price"]
    assert [rises.quantile(share) for share in (0.5, 0.75, 0.9)] == pytest.approx([1.0, 1.25, 1.75], abs=0.05)


def test_bundled_titles_and_descriptions_are_all_different_and_of_believable_length(bundled: Ingested) -> None:
    table = bundled.catalogue
    for column in ("title", "description"):
        folded = table[column].str.to_lowercase().str.replace_all(r"\W+", " ")
        assert folded.n_unique() == len(table)
    sentences = table["description"].str.count_matches(r"[.!?](?:\s|$)")
    assert (sentences.min(), sentences.max()) == (1, 4)
    lengths = table["description"].str.len_chars()
    assert (lengths.min(), lengths.max()) == (95, 229)


def test_bundled_files_are_named_after_their_category() -> None:
    for category in CATEGORIES:
        lines = (BUNDLED / f"{category}.jsonl").read_text(encoding="utf-8").splitlines()
        assert {json.loads(line)["category"] for line in lines} == {category}


def test_the_script_that_drew_the_price_histories_draws_them_again() -> None:
    lines = [line for file in sorted(BUNDLED.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()]
    products = [json.loads(line) for line in lines]
    drawn = price_histories().histories([product["list_price"] for product in products])
    assert drawn == [(product["lowest_price"], product["highest_price"]) for product in products]


def price_histories() -> ModuleType:
    """Load the script that lies beside the catalogue."""
    specification = importlib.util.spec_from_file_location("price_histories", BUNDLED / "price_histories.py")
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_all_930_amazon_products_are_kept(amazon: Ingested) -> None:
    assert (len(amazon.catalogue), amazon.rejected.is_empty()) == (930, True)
    assert Counter(amazon.catalogue["category"])["other"] == 288
    assert amazon.catalogue["id"].n_unique() == 930


def test_amazon_has_886_mutual_and_44_conflict_products(amazon: Ingested) -> None:
    table = with_ratios(amazon.catalogue)
    assert table["conflict"].sum() == 44
    assert (table["largest"].min(), table["largest"].max()) == (4.99, 4299.98)


def test_the_98_amazon_products_without_a_description_fall_back_to_their_features(amazon: Ingested) -> None:
    rows = [row for file in sorted(AMAZON.glob("*.json")) for row in json.loads(file.read_text(encoding="utf-8"))]
    lacking = [bool((row.get("description") or "").strip()) is False for row in rows]
    assert sum(lacking) == 98
    described = amazon.catalogue.filter(pl.Series(lacking) & (pl.col("description") != ""))
    assert len(described) == 90  # the other eight have no features either
    assert amazon.catalogue["description"].str.len_chars().max() <= 1200  # type: ignore[operator]
