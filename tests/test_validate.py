"""The contract of the canonical table: what breaks it, and reports that are equal for equal results."""

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dealwright.catalogue.table import SCHEMA
from dealwright.errors import DealwrightError
from dealwright.params import Catalogue, Validate
from stages.validate import main

ROOT = Path(__file__).parents[1]
CATALOGUE = Catalogue(
    source="bundled",
    path="data/catalogue",
    columns={},
    currency="USD",
    cost_ratio=None,
    title_characters=(3, 500),
    description_characters=100,
)


def table(count: int = 30, **changes: Any) -> pl.DataFrame:
    """Make a canonical table in which every tenth product has no zone; changes replace a column's first value."""
    rows = [
        {
            "id": f"p{n}",
            "title": f"Lamp {n}",
            "category": "light" if n % 2 else "home",
            "description": "It shines.",
            "list_price": 49.95,
            "lowest_price": 39.96 if n % 10 == 9 else 20.0,
            "highest_price": 45.0,
            "budget": None,
        }
        for n in range(count)
    ]
    if rows:
        rows[0].update(changes)
    return pl.DataFrame(rows, schema=SCHEMA)


def failed(catalogue: pl.DataFrame, folder: Path, **changes: Any) -> list[str]:
    """Hold a table against the contract and name the expectations that failed, each with its columns alone."""
    from dealwright.catalogue.expectations import contract, failures, read_products, validate

    catalogue.write_parquet(folder / "catalogue.parquet")
    usual = {"minimum_rows": 20, "categories": None, "conflict_share": (0.0, 0.25)}
    suite = contract(Validate.model_validate({**usual, **changes}), CATALOGUE)
    return failures(validate(read_products(folder / "catalogue.parquet", budget_factor=0.8), suite))


def test_a_good_table_meets_its_contract(tmp_path: Path) -> None:
    assert failed(table(), tmp_path) == []


@pytest.mark.parametrize(
    ("change", "expectation"),
    [
        ({"id": "p1"}, "expect_column_values_to_be_unique(column=id)"),
        ({"id": None}, "expect_column_values_to_not_be_null(column=id)"),
        ({"title": "X"}, "expect_column_value_lengths_to_be_between(column=title, min_value=3, max_value=500)"),
        ({"title": "Lamp 1"}, "expect_compound_columns_to_be_unique(column_list=['title', 'description'])"),
        ({"description": None}, "expect_column_values_to_not_be_null(column=description)"),
        ({"description": "x" * 101}, "expect_column_value_lengths_to_be_between(column=description, max_value=100)"),
        ({"category": None}, "expect_column_values_to_not_be_null(column=category)"),
        ({"list_price": None}, "expect_column_values_to_not_be_null(column=list_price)"),
        (
            {"lowest_price": 0.0},
            "expect_column_values_to_be_between(column=lowest_price, min_value=0.0, strict_min=True)",
        ),
        ({"budget": -1.0}, "expect_column_values_to_be_between(column=budget, min_value=0.0, strict_min=True)"),
        (
            {"lowest_price": 50.0},
            "expect_column_pair_values_a_to_be_greater_than_b(column_A=largest_price, column_B=lowest_price, "
            "or_equal=True)",
        ),
    ],
)
def test_each_breach_is_named(tmp_path: Path, change: dict[str, Any], expectation: str) -> None:
    assert failed(table(**change), tmp_path) == [expectation]


def test_too_few_rows_break_the_contract_and_an_empty_table_always_does(tmp_path: Path) -> None:
    rows = "expect_table_row_count_to_be_between(min_value=20)"
    assert failed(table(19), tmp_path) == [rows]
    assert rows.replace("20", "1") in failed(table(0), tmp_path, minimum_rows=1)


def test_categories_are_checked_against_those_allowed(tmp_path: Path) -> None:
    assert failed(table(), tmp_path, categories=("home", "light")) == []
    assert failed(table(), tmp_path, categories=("home",)) == [
        "expect_column_values_to_be_in_set(column=category, value_set=['home'])"
    ]


def test_the_share_of_conflict_counts_a_budget_that_only_equals_the_cost_and_a_products_own_budget(
    tmp_path: Path,
) -> None:
    expectation = "expect_column_mean_to_be_between(column=conflict, min_value={}, max_value={})"
    assert failed(table(), tmp_path, conflict_share=(0.1, 0.1)) == []
    assert failed(table(), tmp_path, conflict_share=(0.0, 0.05)) == [expectation.format("0.0", "0.05")]
    assert failed(table(budget=19.0), tmp_path, conflict_share=(0.1, 0.11)) == [expectation.format("0.1", "0.11")]


def test_a_table_without_a_column_or_without_a_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(DealwrightError, match=r"has no column 'budget'; expected id, title"):
        failed(table().drop("budget"), tmp_path)
    (tmp_path / "catalogue.parquet").unlink()
    from dealwright.catalogue.expectations import read_products

    with pytest.raises(DealwrightError, match=r"catalogue.parquet is missing .*; run `dvc repro ingest`"):
        read_products(tmp_path / "catalogue.parquet", 0.8)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder with the default parameters, entered."""
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(project: Path) -> dict[str, str]:
    """Read every report."""
    files = [file for file in sorted((project / "reports").rglob("*")) if file.is_file()]
    return {str(file.relative_to(project)): file.read_text(encoding="utf-8") for file in files}


def test_two_runs_write_the_same_bytes_and_pages_that_need_no_internet(project: Path) -> None:
    table().write_parquet("data/catalogue.parquet")
    main()
    first = written(project)
    main()
    assert written(project) == first
    assert sorted(first) == [
        "reports/validation.json",
        "reports/validation/expectations.html",
        "reports/validation/index.html",
    ]
    assert json.loads(first["reports/validation.json"])["success"] is True
    for name in ("expectations", "index"):
        page = first[f"reports/validation/{name}.html"]
        assert "values must be unique" in page
        assert not re.findall(r"https?:|<script|<img|__none__|\d{8}T\d{6}|[0-9a-f]{8}-[0-9a-f]{4}-", page)


def test_the_stage_fails_on_a_broken_contract_and_still_writes_its_reports(project: Path) -> None:
    table(5, lowest_price=60.0).write_parquet("data/catalogue.parquet")
    with pytest.raises(DealwrightError) as caught:
        main()
    assert "expect_table_row_count_to_be_between(min_value=20)" in str(caught.value)
    assert "expect_column_pair_values_a_to_be_greater_than_b" in str(caught.value)
    report = json.loads((project / "reports/validation.json").read_text(encoding="utf-8"))
    assert report["success"] is False
    assert len(report["failed"]) == 2
    assert "Failed" in (project / "reports/validation/index.html").read_text(encoding="utf-8")
