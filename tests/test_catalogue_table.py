"""The canonical table: which rows are kept, under which id, and why the others are not."""

from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

from dealwright.catalogue.fields import SourceError
from dealwright.catalogue.table import SCHEMA, Ingested, ingest, ingest_into
from dealwright.errors import DealwrightError
from dealwright.params import Catalogue
from tests.disk import full_disk


@pytest.fixture
def read(tmp_path: Path) -> Any:
    """Ingest rows given as dicts; what a row leaves out is blank, title and prices are filled in."""

    def ingest_rows(*rows: dict[str, Any], **changes: Any) -> Ingested:
        usual = {"title": "Lamp", "list_price": "100", "lowest_price": "60"}
        complete = [{**usual, **row} for row in rows]
        names = list(dict.fromkeys(name for row in complete for name in row))
        frame = pl.DataFrame(
            [[row.get(name) for name in names] for row in complete],
            schema=dict.fromkeys(names, pl.String),
            orient="row",
        )
        frame.write_parquet(tmp_path / "rows.parquet")
        params: dict[str, Any] = {
            "columns": {},
            "currency": "USD",
            "cost_ratio": None,
            "title_characters": (2, 60),
            "description_characters": 40,
            **changes,
        }
        return ingest(Catalogue(source="parquet", path=str(tmp_path), **params))

    return ingest_rows


def test_a_product_needs_no_more_than_title_list_price_and_lowest_price(read: Any) -> None:
    table = read({}).catalogue
    assert table.schema == SCHEMA
    assert table.drop("id").row(0) == ("Lamp", "other", "", 100.0, 60.0, 100.0, None)


def test_every_column_of_a_product_is_kept(read: Any) -> None:
    row = {
        "id": "x-1",
        "category": " Home &amp; <i>Kitchen</i> ",
        "description": "Bright.",
        "highest_price": "120",
        "budget": "$75.50",
        "currency": "usd",
    }
    assert read(row).catalogue.row(0) == ("x-1", "Lamp", "Home & Kitchen", "Bright.", 100.0, 60.0, 120.0, 75.5)


def test_a_cost_stands_in_for_a_lowest_price(read: Any) -> None:
    table = read({"lowest_price": "", "cost": "55"}, {"title": "Chair", "cost": "1"}).catalogue
    assert table["lowest_price"].to_list() == [55.0, 60.0]


def test_a_cost_by_ratio_is_at_least_a_cent(read: Any) -> None:
    row = {"lowest_price": None, "list_price": "0.01"}
    assert read(row, cost_ratio=0.3).catalogue["lowest_price"].to_list() == [0.01]


def test_a_ratio_stands_in_where_only_the_list_price_is_given(read: Any) -> None:
    rows = ({"lowest_price": None, "list_price": "19.90"}, {"title": "Chair"}, {"title": "Cup", "lowest_price": "5-6"})
    ingested = read(*rows, cost_ratio=0.5)
    assert ingested.catalogue["lowest_price"].to_list() == [9.95, 60.0]
    assert ingested.rejected["reason"].to_list() == ["lowest_price is a range: 5-6"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"title": ""}, "title is missing"),
        ({"title": "<br>\u200b"}, "title is missing"),
        ({"title": "<b>X</b>"}, "title is shorter than 2 characters: X"),
        ({"title": "ab" * 31}, "title is longer than 60 characters: 62"),
        ({"list_price": "N/A"}, "list_price is missing"),
        ({"lowest_price": " "}, "lowest_price is missing"),
        ({"list_price": "-1"}, "list_price is negative: -1"),
        ({"lowest_price": "0"}, "lowest_price is zero: 0"),
        ({"highest_price": "1,23,4"}, "highest_price has a grouping that cannot be: 1,23,4"),
        ({"budget": "10 -\n20"}, "budget is a range: 10 - 20"),
        ({"cost": "12,50 €"}, "cost is in another currency than USD: 12,50 €"),
        ({"currency": "eur"}, "currency is not USD: eur"),
        ({"lowest_price": "100.01"}, "lowest_price is above list and highest price: 100.01 > 100.0"),
        (
            {"lowest_price": "130", "highest_price": "120"},
            "lowest_price is above list and highest price: 130.0 > 120.0",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_set_aside_with_its_reason(read: Any, row: dict[str, str], reason: str) -> None:
    ingested = read({"title": "Kept"}, row, {"title": "Kept too"})
    assert ingested.catalogue["title"].to_list() == ["Kept", "Kept too"]
    assert ingested.rejected.drop("title").rows() == [("rows.parquet", 2, reason)]


@pytest.mark.parametrize(
    "row",
    [
        {"lowest_price": "100"},
        {"lowest_price": "110", "highest_price": "120"},
        {"highest_price": "90"},
        {"highest_price": "N/A"},
        {"budget": "N/A"},
        {"currency": " "},
    ],
)
def test_a_row_that_can_be_used_is_kept(read: Any, row: dict[str, str]) -> None:
    assert len(read(row).catalogue) == 1


def test_an_empty_description_falls_back_to_features(read: Any) -> None:
    features = {"features": "Steel\nLight."}
    rows = ({**features, "description": "<p></p>"}, {**features, "title": "Chair", "description": "Own."})
    assert read(*rows).catalogue["description"].to_list() == ["Steel; Light.", "Own."]


def test_a_description_of_17_000_characters_is_cut_at_the_stated_length(read: Any) -> None:
    description = read({"description": "word " * 3400}).catalogue["description"][0]
    assert description == "word word word word word word word word…"
    assert len(description) == 40


def test_duplicates_by_normalised_text_are_set_aside_and_the_kept_row_is_named(read: Any) -> None:
    ingested = read(
        {"title": "Blue lamp", "description": "It shines."},
        {"title": "<b>BLUE</b>  lamp!", "description": "it&nbsp;shines", "list_price": "90"},
        {"title": "Blue lamp", "description": "Another one."},
        {"title": "Blue lamp", "description": "It shines.", "list_price": "free"},
    )
    assert ingested.catalogue["description"].to_list() == ["It shines.", "Another one."]
    assert [(row, reason) for _, row, _, reason in ingested.rejected.rows()] == [
        (2, "title and description are a duplicate: row 1 of rows.parquet is kept"),
        (4, "list_price is not a price: free"),
    ]


def test_a_row_that_is_set_aside_does_not_make_a_later_one_a_duplicate(read: Any) -> None:
    ingested = read({"list_price": "free"}, {})
    assert len(ingested.catalogue) == 1


def test_a_taken_id_is_refused_and_blank_ids_are_not_taken(read: Any) -> None:
    rows = ({"id": "7"}, {"title": "Chair", "id": " 7 "}, {"title": "Cup", "id": ""}, {"title": "Pot", "id": None})
    ingested = read(*rows)
    assert ingested.catalogue["title"].to_list() == ["Lamp", "Cup", "Pot"]
    assert ingested.catalogue["id"].n_unique() == 3
    assert ingested.rejected.rows() == [("rows.parquet", 2, "Chair", "id is taken: row 1 of rows.parquet is kept")]


def test_an_id_follows_from_the_title_whatever_stands_around_it(read: Any) -> None:
    alone = read({"title": "Blue lamp"}).catalogue["id"][0]
    among = read({"title": "Chair"}, {"title": "BLUE lamp", "list_price": "70", "description": "New."}).catalogue
    assert alone == among["id"][1] == "f4db0e53239b3119"


def test_products_with_the_same_title_have_different_ids_in_any_order(read: Any) -> None:
    rows = [{"description": "Red."}, {"description": "Green."}]
    forward, backward = read(*rows).catalogue, read(*reversed(rows)).catalogue
    assert forward["id"].n_unique() == 2
    assert forward["id"].to_list() == backward["id"].to_list()[::-1]


def test_an_id_of_its_own_stays_where_products_share_a_title(read: Any) -> None:
    table = read({"id": "own", "description": "Red."}, {"description": "Blue."}).catalogue
    assert table["id"][0] == "own"
    assert table["id"][1] != read({"description": "Blue."}).catalogue["id"][0]


def test_a_duplicate_neither_makes_a_title_shared_nor_takes_its_id(read: Any) -> None:
    alone = read({}).catalogue["id"].to_list()
    assert read({}, {}).catalogue["id"].to_list() == alone
    ingested = read({"id": "a"}, {"id": "b"}, {"id": "b", "title": "Chair"})
    assert ingested.catalogue["id"].to_list() == ["a", "b"]
    assert ingested.rejected["reason"].to_list() == [
        "title and description are a duplicate: row 1 of rows.parquet is kept"
    ]


def test_prices_written_in_many_ways_and_text_in_any_script_reach_the_table(read: Any) -> None:
    table = read({"title": "ランプ", "list_price": "USD 1,234.56", "lowest_price": "$600"}).catalogue
    assert table.select("title", "list_price", "lowest_price").row(0) == ("ランプ", 1234.56, 600.0)


def test_the_report_counts_rows_reasons_and_categories(read: Any) -> None:
    ingested = read(
        {"category": "light"},
        {"title": "Chair", "list_price": "200", "highest_price": "300"},
        {"title": "Cup", "list_price": "1-2"},
        {"title": "Pot", "list_price": "3-4"},
        {"title": ""},
    )
    report = ingested.report
    assert (report["read"], report["kept"], report["rejected"]) == (5, 2, 3)
    assert report["rejected_by_reason"] == {"list_price is a range": 2, "title is missing": 1}
    assert report["kept_by_category"] == {"light": 1, "other": 1}
    assert report["quantiles"]["list_price"]["0"] == 100.0
    assert report["quantiles"]["highest_price"]["1"] == 300.0
    assert report["quantiles"]["lowest_to_largest"] == {
        "0": 0.2, "0.05": 0.2, "0.25": 0.2, "0.5": 0.6, "0.75": 0.6, "0.95": 0.6, "1": 0.6
    }  # fmt: skip


def test_the_same_source_gives_the_same_tables(read: Any) -> None:
    rows = [
        {"title": f"Cup {n % 40}", "description": str(n % 80), "list_price": "x" if n % 7 == 0 else "99"}
        for n in range(200)
    ]
    one, other = read(*rows), read(*rows)
    assert one.catalogue.equals(other.catalogue) and one.rejected.equals(other.rejected) and one.report == other.report


def products(folder: Path, rows: int, title: str = "Lamp {}") -> Catalogue:
    """Write a source of rows of text that no compression shortens much, and return its parameters."""
    draw = Random(0)
    source = folder / "source"
    source.mkdir(exist_ok=True)
    lines = (f'"{title.format(row)}",100,60,{draw.randbytes(400).hex()}' for row in range(rows))
    (source / "rows.csv").write_text("\n".join(["title,list_price,lowest_price,description", *lines]))
    return Catalogue(
        source="csv",
        path=str(source),
        columns={},
        currency="USD",
        cost_ratio=None,
        title_characters=(2, 60),
        description_characters=900,
    )


def test_tables_are_written_with_nothing_beside_them_and_are_those_in_memory(tmp_path: Path) -> None:
    params = products(tmp_path, 3)
    report = ingest_into(params, tmp_path / "data")
    assert sorted(file.name for file in (tmp_path / "data").iterdir()) == ["catalogue.parquet", "rejected.parquet"]
    ingested = ingest(params)
    assert report == ingested.report
    assert pl.read_parquet(tmp_path / "data/catalogue.parquet").equals(ingested.catalogue)
    assert pl.read_parquet(tmp_path / "data/rejected.parquet").equals(ingested.rejected)


def test_a_full_disk_keeps_the_tables_that_were_there(tmp_path: Path) -> None:
    ingest_into(products(tmp_path, 3), tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.glob("*.parquet")}
    params = products(tmp_path, 1000)
    with full_disk(20_000), pytest.raises(DealwrightError, match=r"^cannot write .*catalogue\.parquet: "):
        ingest_into(params, tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before


def test_a_source_without_a_usable_row_keeps_the_tables_that_were_there(tmp_path: Path) -> None:
    ingest_into(products(tmp_path, 3), tmp_path)
    before = (tmp_path / "catalogue.parquet").read_bytes()
    with pytest.raises(SourceError, match="no usable row; the first of 2 rows: title is shorter than 2 characters"):
        ingest_into(products(tmp_path, 2, title="x"), tmp_path)
    assert (tmp_path / "catalogue.parquet").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == [
        "catalogue.parquet",
        "rejected.parquet",
    ]
