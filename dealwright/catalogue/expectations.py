"""The contract of the canonical table as a Great Expectations suite, and its result without times.

Great Expectations takes many seconds to import; only the stage `validate` imports this module.
"""

from pathlib import Path
from typing import Any

import great_expectations as gx
import numpy as np
import pandas as pd
from great_expectations.core import ExpectationSuite
from great_expectations.core.expectation_validation_result import ExpectationSuiteValidationResult
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration

from dealwright.catalogue.fields import SourceError
from dealwright.catalogue.table import SCHEMA
from dealwright.errors import DealwrightError
from dealwright.params import Catalogue, Validate

PRICES = ("list_price", "lowest_price", "highest_price")
TEXTS = ("id", "title", "category", "description")
_REPORTED = ("element_count", "unexpected_count", "missing_count", "observed_value", "partial_unexpected_list")


class BrokenContractError(DealwrightError):
    """A canonical table that does not meet its expectations; the message names those that failed."""


def read_products(path: str | Path, budget_factor: float) -> pd.DataFrame:
    """Read the canonical table and add what the contract speaks of: the largest price asked, and the conflict zone.

    `conflict` is 1 where the budget does not exceed the lowest price, so that its mean is the share of conflict.
    """
    try:
        products = pd.read_parquet(path)
    except OSError as error:
        raise SourceError(f"{path} is missing or no Parquet file; run `dvc repro ingest`") from error
    lacking = [column for column in SCHEMA if column not in products]
    if lacking:
        raise BrokenContractError(f"{path} has no column {lacking[0]!r}; expected {', '.join(SCHEMA)}")
    products["largest_price"] = products[["list_price", "highest_price"]].max(axis=1)
    budget = products["budget"].fillna(budget_factor * products["largest_price"])
    # A millionth of a cent keeps 0.8 · 49.95 equal to 39.96.
    products["conflict"] = (budget - products["lowest_price"] < 1e-8).astype(float)
    return products


def contract(params: Validate, catalogue: Catalogue) -> ExpectationSuite:
    """State what the canonical table must look like."""
    shortest, longest = catalogue.title_characters
    least, most = params.conflict_share
    lengths = "expect_column_value_lengths_to_be_between"
    expectations: list[tuple[str, dict[str, Any]]] = [
        ("expect_table_row_count_to_be_between", {"min_value": params.minimum_rows}),
        *(("expect_column_values_to_not_be_null", {"column": column}) for column in (*TEXTS, *PRICES)),
        ("expect_column_values_to_be_unique", {"column": "id"}),
        ("expect_compound_columns_to_be_unique", {"column_list": ["title", "description"]}),
        (lengths, {"column": "id", "min_value": 1}),
        (lengths, {"column": "category", "min_value": 1}),
        (lengths, {"column": "title", "min_value": shortest, "max_value": longest}),
        (lengths, {"column": "description", "max_value": catalogue.description_characters}),
        *(
            ("expect_column_values_to_be_between", {"column": column, "min_value": 0, "strict_min": True})
            for column in (*PRICES, "budget")
        ),
        (
            "expect_column_pair_values_a_to_be_greater_than_b",
            {"column_A": "largest_price", "column_B": "lowest_price", "or_equal": True},
        ),
        ("expect_column_mean_to_be_between", {"column": "conflict", "min_value": least, "max_value": most}),
    ]
    if params.categories is not None:
        allowed = {"column": "category", "value_set": list(params.categories)}
        expectations.append(("expect_column_values_to_be_in_set", allowed))
    return ExpectationSuite(
        name="catalogue",
        expectations=[ExpectationConfiguration(type=name, kwargs=arguments) for name, arguments in expectations],
    )


def validate(products: pd.DataFrame, suite: ExpectationSuite) -> ExpectationSuiteValidationResult:
    """Hold the table against the contract."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    asset = context.data_sources.pandas_default.add_dataframe_asset("products")
    result = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": products}).validate(suite)
    for outcome in result.results:
        # The pages cannot show a number of NumPy's own type.
        if isinstance(outcome.result.get("observed_value"), np.generic):
            outcome.result["observed_value"] = outcome.result["observed_value"].item()
    return result


def report(result: ExpectationSuiteValidationResult) -> dict[str, Any]:
    """Give the result in the order of the contract, without times and fingerprints."""
    return {
        "success": bool(result.success),
        "evaluated": len(result.results),
        "failed": failures(result),
        "expectations": [
            {
                "expectation": describe(outcome.expectation_config),
                "success": bool(outcome.success),
                **{key: outcome.result[key] for key in _REPORTED if outcome.result.get(key) is not None},
            }
            for outcome in result.results
        ],
    }


def failures(result: ExpectationSuiteValidationResult) -> list[str]:
    """Name the expectations that failed, or could not be evaluated."""
    return [describe(outcome.expectation_config) for outcome in result.results if not outcome.success]


def describe(configuration: ExpectationConfiguration | None) -> str:
    """Write an expectation as a call, as in `expect_column_values_to_be_unique(column=id)`."""
    assert configuration is not None
    arguments = {key: value for key, value in configuration.kwargs.items() if key != "batch_id"}
    return f"{configuration.type}({', '.join(f'{key}={value}' for key, value in arguments.items())})"
