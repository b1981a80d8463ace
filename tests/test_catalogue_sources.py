"""Every kind of source gives the same products, whatever is odd about its files."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dealwright.catalogue.fields import SourceError
from dealwright.catalogue.sources import open_source
from dealwright.catalogue.table import Ingested, ingest
from dealwright.params import Catalogue

ROWS = [
    {"title": "Brass lamp", "list_price": "$1,050.00", "lowest_price": "600", "description": "It shines, at night."},
    {"title": "Oak chair", "list_price": "80", "lowest_price": "40.50", "description": 'Sits "well".'},
]


def params(source: str, path: Path, **changes: Any) -> Catalogue:
    """Name a source in US dollars."""
    usual: dict[str, Any] = {"columns": {}, "currency": "USD", "cost_ratio": None}
    usual |= {"title_characters": (1, 500), "description_characters": 200}
    return Catalogue.model_validate({"source": source, "path": str(path), **usual, **changes})


def read(source: str, path: Path, **changes: Any) -> Ingested:
    """Ingest a source."""
    return ingest(params(source, path, **changes))


def brief(ingested: Ingested) -> list[tuple[str, float, float]]:
    """Show title, list and lowest price of each product."""
    return ingested.catalogue.select("title", "list_price", "lowest_price").rows()


BRIEF = [("Brass lamp", 1050.0, 600.0), ("Oak chair", 80.0, 40.5)]


def reasons(ingested: Ingested) -> list[tuple[str, int, str | None, str]]:
    """Show the rows that were set aside."""
    return ingested.rejected.rows()


def save(path: Path, text: str, encoding: str = "utf-8") -> Path:
    """Write a file byte for byte."""
    path.write_bytes(text.encode(encoding))
    return path


def test_the_same_rows_are_read_from_csv_json_lines_parquet_and_arrays(tmp_path: Path) -> None:
    frame = pl.DataFrame(ROWS)
    frame.write_csv(tmp_path / "a.csv")
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ndjson(tmp_path / "a.jsonl")
    (tmp_path / "lamps.json").write_text(json.dumps(ROWS))
    tables = {source: read(source, tmp_path).catalogue for source in ("csv", "jsonl", "parquet")}
    assert brief(read("csv", tmp_path)) == BRIEF
    assert tables["csv"].equals(tables["jsonl"]) and tables["csv"].equals(tables["parquet"])
    amazon = read("amazon_history_price", tmp_path).catalogue
    assert amazon.drop("category").equals(tables["csv"].drop("category"))
    assert amazon["category"].to_list() == ["lamps", "lamps"]


def test_numbers_are_read_like_text_and_rounded_to_the_cent(tmp_path: Path) -> None:
    frame = pl.DataFrame({"title": ["A pot"], "list_price": [12.345678], "lowest_price": [7], "budget": [1e1]})
    frame.write_parquet(tmp_path / "a.parquet")
    save(tmp_path / "a.jsonl", '{"title": "A pot", "list_price": 12.345678, "lowest_price": 7, "budget": 1e1}\n')
    for source in ("parquet", "jsonl"):
        assert read(source, tmp_path).catalogue.select("list_price", "lowest_price", "budget").row(0) == (12.35, 7, 10)


def test_numbers_that_are_none_are_missing(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"title": ["A", "B", "C"], "list_price": [float("nan"), float("inf"), 5.0], "cost": [1, 1, 2]}
    )
    frame.write_parquet(tmp_path / "a.parquet")
    assert [reason for *_, reason in reasons(read("parquet", tmp_path))] == [
        "list_price is missing",
        "list_price is not a price: inf",
    ]


def test_columns_in_another_order_a_mark_at_the_start_and_windows_line_ends_change_nothing(tmp_path: Path) -> None:
    rows = ["lowest_price,description,title,list_price", '600,"x, y",Brass lamp,"$1,050.00"', "40.50,,Oak chair,80"]
    assert brief(read("csv", save(tmp_path / "a.csv", "\ufeff" + "\r\n".join(rows) + "\r\n"))) == BRIEF
    lines = "\ufeff" + "\r\n".join(json.dumps(dict(reversed(row.items()))) for row in ROWS)
    assert brief(read("jsonl", save(tmp_path / "a.jsonl", lines))) == BRIEF


@pytest.mark.parametrize("separator", [";", "\t"])
def test_a_csv_file_may_be_parted_by_semicolons_or_tabs(tmp_path: Path, separator: str) -> None:
    text = "title,list_price,lowest_price\nBrass lamp,1050,600\nOak chair,80,40.50\n".replace(",", separator)
    assert brief(read("csv", save(tmp_path / "a.csv", text))) == BRIEF


def test_a_comma_is_a_decimal_mark_in_a_catalogue_in_euros(tmp_path: Path) -> None:
    file = save(tmp_path / "a.csv", "title;list_price;cost\nVase;12,50 €;6,00 €\nBowl;$12;3 €\n")
    ingested = read("csv", file, currency="EUR")
    assert brief(ingested) == [("Vase", 12.5, 6.0)]
    assert reasons(ingested) == [("a.csv", 2, "Bowl", "list_price is in another currency than EUR: $12")]


def test_files_of_a_folder_may_disagree_on_their_columns_and_are_read_by_name(tmp_path: Path) -> None:
    save(tmp_path / "b.csv", "title,list_price,cost\nSecond,20,10\n")
    save(tmp_path / "a.csv", "cost,extra,title,list_price,category\n5,x,First,10,garden\n")
    save(tmp_path / "notes.txt", "title\nno product\n")
    save(tmp_path / ".hidden.csv", "nothing\n")
    ingested = read("csv", tmp_path)
    assert ingested.catalogue.select("title", "category", "lowest_price").rows() == [
        ("First", "garden", 5.0),
        ("Second", "other", 10.0),
    ]


def test_a_key_that_comes_late_is_read(tmp_path: Path) -> None:
    rows = [{"title": f"Cup {n}", "list_price": 10, "cost": 5} for n in range(3000)]
    lines = [json.dumps(row) for row in rows] + [
        json.dumps({"title": "Jug", "list_price": 10, "cost": 5, "budget": 7, "category": "clay"})
    ]
    last = read("jsonl", save(tmp_path / "a.jsonl", "\n".join(lines))).catalogue.row(-1, named=True)
    assert (last["title"], last["budget"], last["category"]) == ("Jug", 7.0, "clay")


def test_columns_are_mapped_by_name(tmp_path: Path) -> None:
    file = save(tmp_path / "a.csv", "Name,RRP,Our cost\nBrass lamp,1050,600\nOak chair,80,40.50\n")
    columns = {"title": "Name", "list_price": "RRP", "cost": "Our cost"}
    assert brief(read("csv", file, columns=columns)) == BRIEF


def test_one_bad_line_of_json_costs_only_itself(tmp_path: Path) -> None:
    good = json.dumps({"title": 'say "list_price": 5', "list_price": "$3", "cost": 1, "tags": ["a"], "more": {"x": 1}})
    bad = ['{"title": "cut', "[1, 2]", '"text"', "null", "{} trailing", '{"title": "\\ud800"}']
    lines = [good, "", *bad, json.dumps({**ROWS[0], "extra": None})]
    ingested = read("jsonl", save(tmp_path / "a.jsonl", "\n".join(lines) + "\n"))
    assert brief(ingested) == [('say "list_price": 5', 3.0, 1.0), BRIEF[0]]
    assert reasons(ingested) == [("a.jsonl", row, None, "the line is not a JSON object") for row in range(3, 9)]


def test_one_bad_element_of_an_array_costs_only_itself(tmp_path: Path) -> None:
    save(tmp_path / "lamps.json", json.dumps([ROWS[0], 7, None, {"title": "No price"}, ROWS[1]]))
    ingested = read("amazon_history_price", tmp_path)
    assert brief(ingested) == BRIEF
    assert [(row, reason) for _, row, _, reason in reasons(ingested)] == [
        (2, "the line is not a JSON object"),
        (3, "the line is not a JSON object"),
        (4, "list_price is missing"),
    ]


def test_quotes_and_line_ends_inside_a_csv_field_are_text(tmp_path: Path) -> None:
    text = 'title,list_price,cost,description\n"A ""big"" lamp",9,3,"two\nlines"\n"Chair, oak",8,3,\n'
    ingested = read("csv", save(tmp_path / "a.csv", text))
    assert ingested.catalogue.select("title", "description").rows() == [
        ('A "big" lamp', "two lines"),
        ("Chair, oak", ""),
    ]


def test_one_stray_quote_costs_only_its_own_row(tmp_path: Path) -> None:
    lines = ['26" screen,9,3', '"stray" quote,9,3', '"never closed,9,3', '"Two', 'lines",8,2', "Last,7,2"]
    ingested = read("csv", save(tmp_path / "a.csv", "\n".join(["title,list_price,cost", *lines]) + "\n"))
    assert brief(ingested) == [('26" screen', 9.0, 3.0), ("Two lines", 8.0, 2.0), ("Last", 7.0, 2.0)]
    assert reasons(ingested) == [
        ("a.csv", 2, '"stray" quote,9,3', "the quotes of the line do not pair"),
        ("a.csv", 3, '"never closed,9,3', "the quotes of the line do not pair"),
    ]


def test_a_row_with_too_many_fields_is_refused_rather_than_shifted(tmp_path: Path) -> None:
    file = save(tmp_path / "a.csv", "title,list_price,cost\nLamp,$1,234.56,600\nShort,5\nChair,8,3\n")
    ingested = read("csv", file)
    assert brief(ingested) == [("Chair", 8.0, 3.0)]
    assert reasons(ingested) == [
        ("a.csv", 1, "Lamp", "the row has more fields than the header"),
        ("a.csv", 2, "Short", "lowest_price is missing"),
    ]


@pytest.mark.parametrize(
    ("source", "text", "changes", "message"),
    [
        ("csv", "title,rrp,cost\nA,2,1\n", {}, "no column 'list_price' for list_price; .* has: title, rrp, cost$"),
        (
            "csv",
            "title,list_price,cost\nA,2,1\n",
            {"columns": {"budget": "B"}},
            "no column 'B' for budget; .* has: title",
        ),
        (
            "csv",
            "a,b\n1,2\n",
            {"columns": {"name": "a"}},
            "'name' is none of our names; these are id, title, category",
        ),
        ("csv", "title,list_price\nA,2\n", {}, "one price a product is not enough; .* has: title, list_price$"),
        ("csv", "title,title,list_price,cost\nA,B,2,1\n", {}, "expected one column 'title', found 2"),
        ("csv", "", {}, "expected a header line"),
        ("csv", "title,list_price,cost\n", {}, "has no usable row, nor any row at all$"),
        (
            "csv",
            "title,list_price,cost\nA,-2,1\n",
            {},
            "no usable row; the first of 1 rows: list_price is negative: -2$",
        ),
        ("jsonl", '{"title": "A", "rrp": 2}\n{"x": 1}\n', {}, "no column 'list_price' .* has: title, rrp, x$"),
        ("jsonl", '{"title": "A", "list_price": 2}\n', {}, "one price a product is not enough"),
        ("jsonl", "not json\n", {}, "no column 'title' .* has: no column$"),
        ("amazon_history_price", '[{"title": "A"', {}, "is not JSON: Expecting"),
        ("amazon_history_price", '{"title": "A"}', {}, "expected a JSON array of products, got dict"),
        ("parquet", "no parquet", {}, "cannot read .* as parquet: "),
    ],
)
def test_a_source_that_cannot_be_used_stops_with_one_clear_line(
    tmp_path: Path, source: str, text: str, changes: dict[str, Any], message: str
) -> None:
    file = save(tmp_path / f"a.{source}", text)
    with pytest.raises(SourceError, match=message) as caught:
        read(source, file, **changes)
    assert "\n" not in str(caught.value)


def test_a_missing_path_and_a_folder_without_fitting_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"expected a file or a folder, found nothing at .*nowhere"):
        open_source(params("csv", tmp_path / "nowhere"))
    with pytest.raises(SourceError, match=r"expected files named \*\.csv in .*, found none"):
        open_source(params("csv", tmp_path))


def test_a_file_in_utf_16_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="expected UTF-8, got UTF-16"):
        open_source(params("csv", save(tmp_path / "a.csv", "title,list_price,cost\n", "utf-16")))


def test_a_parquet_column_of_lists_is_named(tmp_path: Path) -> None:
    pl.DataFrame({"title": [["A"]], "list_price": [1], "cost": [1]}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"expected text or numbers in column 'title', got List"):
        open_source(params("parquet", tmp_path))


def test_the_source_is_read_by_one_lazy_plan(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pl.DataFrame(ROWS).write_csv(tmp_path / f"{name}.csv")
    plan = open_source(params("csv", tmp_path))
    assert isinstance(plan, pl.LazyFrame)
    assert plan.select("source", "row").collect().rows() == [("a.csv", 1), ("a.csv", 2), ("b.csv", 1), ("b.csv", 2)]


def test_rows_that_are_not_in_utf8_are_set_aside_and_not_guessed_at(tmp_path: Path) -> None:
    text = "title,list_price,lowest_price,note\nCafé table,80,40,\nOak chair,80,40.50,größer\n"
    ingested = read("csv", save(tmp_path / "a.csv", text, "cp1252"))
    assert brief(ingested) == [("Oak chair", 80.0, 40.5)]
    assert reasons(ingested) == [("a.csv", 1, "Caf\ufffd table", "the row is not in UTF-8; save the file as UTF-8")]
