"""AmazonHistoryPrice as scenarios, for the tests that pin the protocol's figures on it."""

import os
import tempfile
from functools import cache
from pathlib import Path

import pytest

from dealwright.catalogue.scenarios import make_scenarios, read_scenarios
from dealwright.catalogue.table import ingest
from dealwright.game import Scenario
from dealwright.params import Catalogue, Prompts

FOLDER = Path(
    os.environ.get("DEALWRIGHT_AMAZON_HISTORY_PRICE")
    or Path(__file__).parents[2] / "shared" / "data" / "AmazonHistoryPrice"
)


def amazon_scenarios() -> list[Scenario]:
    """Return the 930 scenarios, or skip the test where the benchmark is not at hand."""
    if not FOLDER.is_dir():
        pytest.skip(f"{FOLDER} is not there; DEALWRIGHT_AMAZON_HISTORY_PRICE names another folder")
    return _scenarios()


@cache
def _scenarios() -> list[Scenario]:
    source = Catalogue(
        source="amazon_history_price",
        path=str(FOLDER),
        columns={},
        currency="USD",
        cost_ratio=None,
        title_characters=(3, 500),
        description_characters=1200,
    )
    prompts = Prompts(seed=0, budget_factor=0.8, test=128, validation=64, untrained_categories=[], buyer="brief")
    catalogue = ingest(source).catalogue
    with tempfile.TemporaryDirectory() as folder:
        scenarios, products = (Path(folder, name) for name in ("scenarios.parquet", "catalogue.parquet"))
        make_scenarios(catalogue, prompts).write_parquet(scenarios)
        catalogue.write_parquet(products)
        return read_scenarios(scenarios, products)
