"""Hostile catalogues and disks: one clear line or one row set aside, and what was there stays.

Each row of a table is one input. The stage runs in this process, over the results of an earlier run.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml

from dealwright.errors import run_stage
from stages.ingest import main as ingest

ROOT = Path(__file__).parents[1]
EARLIER = ("data/catalogue.parquet", "data/rejected.parquet", "reports/ingest.json")
HEAD = b"title,list_price,lowest_price\n"
LAMP, CHAIR = b"Brass lamp,9,3\n", b"Oak chair,8,2\n"
ENDINGS = {"csv": "csv", "jsonl": "jsonl", "parquet": "parquet", "amazon_history_price": "json"}
TEN_GIGABYTES = 10 * 2**30


def row(**values: Any) -> bytes:
    return json.dumps({"title": "Brass lamp", "list_price": 9, "lowest_price": 3, **values}).encode()


def lines(*rows: bytes) -> bytes:
    return b"\n".join([*rows, row(title="Oak chair", list_price=8, lowest_price=2)])


def parquet(path: Path, **values: Any) -> bytes:
    pl.DataFrame({"title": ["Brass lamp"], "list_price": [9.0], "lowest_price": [3.0], **values}).write_parquet(path)
    return path.read_bytes()


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project with the results of an earlier run."""
    monkeypatch.chdir(tmp_path)
    for path in EARLIER:
        Path(path).parent.mkdir(exist_ok=True)
        Path(path).write_bytes(b"earlier")
    return tmp_path


def name_source(source: str, content: bytes, size: int | None = None, **changes: Any) -> Path:
    """Write a catalogue and name it in params.yaml; it is `size` bytes long, most of which no disk holds."""
    file = Path(f"x.{ENDINGS[source]}")
    with file.open("wb") as stream:
        stream.write(content)
        if size is not None:
            stream.truncate(size)
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["catalogue"] |= {"source": source, "path": file.name, **changes}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return file


def refusal(capsys: pytest.CaptureFixture[str]) -> str:
    """Run the stage, which must fail with one line and leave the earlier results, and return the line."""
    with pytest.raises(SystemExit) as stop:
        run_stage(ingest)
    assert stop.value.code == 1
    assert [Path(path).read_bytes() for path in EARLIER] == [b"earlier"] * 3
    assert [file.name for file in Path("data").iterdir()] == ["catalogue.parquet", "rejected.parquet"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line.isprintable() and len(line) < 1000
    return line


REFUSED: dict[str, tuple[str, bytes, str]] = {
    "nothing": ("csv", b"", "expected a header line with the names of the columns, found none"),
    "blank lines": ("csv", b"\n\n\n", "expected a header line"),
    "zero rows": ("csv", HEAD, "has no usable row, nor any row at all"),
    "a column too few": ("csv", b"title,list_price\nLamp,9\n", "one price a product is not enough"),
    "a column twice": ("csv", b"title,title,list_price,cost\na,b,2,1\n", "expected one column 'title', found 2"),
    "ten thousand columns": ("csv", b",".join(b"c%d" % n for n in range(10_000)) + b"\n", "c18, c19, ..."),
    "a line end in a name": ("csv", b'"title","list\nprice",cost\n', "x.csv has: title, list price, cost"),
    "a name that terminals obey": ("csv", b"\x1b[2Jtitle,\x07list_price\n", "has: [2Jtitle, list_price"),
    "a name of 131073 letters": (
        "csv",
        b"x" * 131_073 + b"," + HEAD,
        "names of at most 131072 characters in the header",
    ),
    "a quote that swallows rows": ("csv", b'"' + HEAD + LAMP * 9999, "has: title,list_price,lowest_price Brass lamp"),
    "a quote that swallows long rows": ("csv", b'"' + (HEAD + b"x" * 300) * 999, "or close its quotes"),
    "UTF-16": ("csv", (HEAD + LAMP).decode().encode("utf-16"), "expected UTF-8, got UTF-16; save it as UTF-8"),
    "UTF-16 without a mark": ("csv", (HEAD + LAMP).decode().encode("utf-16-le"), "found zero bytes in it"),
    "UTF-32": ("csv", (HEAD + LAMP).decode().encode("utf-32"), "expected UTF-8, got UTF-16"),
    "zero bytes": ("csv", bytes(1000), "expected a header line in UTF-8, found zero bytes in it"),
    "a picture": ("csv", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "no column 'title' for title"),
    "old line ends": ("csv", (HEAD + LAMP).replace(b"\n", b"\r"), "has no usable row, nor any row at all"),
    "only bad rows": ("csv", HEAD + b"Lamp,free,3\n", "the first of 1 rows: list_price is not a price: free"),
    "no JSON": ("jsonl", b"title: lamp\n", "has: no column"),
    "JSON lines in UTF-16": ("jsonl", row().decode().encode("utf-16"), "expected UTF-8, got UTF-16"),
    "an array for lines": ("jsonl", b"[" + row() + b"]", "has: no column"),
    "blank JSON lines": ("jsonl", b"\n \n\n", "has: no column"),
    "an object for an array": ("amazon_history_price", row(), "expected a JSON array of products, got dict"),
    "an empty array": ("amazon_history_price", b"[]", "has: no column"),
    "an array cut short": ("amazon_history_price", b"[" + row(), "is not JSON: Expecting ',' delimiter"),
    "a deep array": ("amazon_history_price", b"[" * 200_000, "is not JSON: maximum recursion depth exceeded"),
    "5000 digits": ("amazon_history_price", b'[{"cost": ' + b"9" * 5000 + b"}]", "is not JSON: Exceeds the limit"),
    "no Parquet": ("parquet", b"PAR1PAR1", "cannot read x.parquet as parquet"),
    "an empty Parquet file": ("parquet", b"", "cannot read x.parquet as parquet"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_catalogue_that_cannot_be_used_is_one_line(
    name: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, content, message = REFUSED[name]
    name_source(source, content)
    assert message in refusal(capsys)


@pytest.mark.parametrize(
    ("source", "head", "message"),
    [
        ("csv", b"", "found zero bytes in it"),
        ("csv", HEAD + LAMP, "expected one product a line, found no end of line from byte 8388608 on"),
        ("jsonl", row() + b"\n", "expected one product a line, found no end of line from byte 8388608 on"),
        ("amazon_history_price", b"[", "expected an array of at most 1073741824 bytes, got 10737418240"),
    ],
)
def test_ten_gigabytes_of_one_line_are_refused_unread(
    source: str, head: bytes, message: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name_source(source, head, size=TEN_GIGABYTES)
    assert message in refusal(capsys)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"title": [{"a": 1}]}, "expected text or numbers in column 'title', got Struct"),
        ({"title": [b"lamp"]}, "expected text or numbers in column 'title', got Binary"),
        ({"list_price": [[9.0]]}, "expected text or numbers in column 'list_price', got List"),
        ({"list_price": [True]}, "list_price is not a price: true"),
        ({"list_price": [1e308]}, "list_price is not a price: 1e+308"),
        ({"list_price": [-0.0]}, "list_price is negative: -0.0"),
        ({"title": [None]}, "title is missing"),
    ],
)
def test_a_parquet_file_of_other_things_is_one_line(
    values: dict[str, Any], message: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name_source("parquet", parquet(project / "x.parquet", **values))
    assert message in refusal(capsys)


@pytest.mark.parametrize("kept", [slice(0, 300), slice(0, -4), slice(100, None)])
def test_a_parquet_file_cut_short_is_one_line(kept: slice, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name_source("parquet", parquet(project / "x.parquet")[kept])
    assert "cannot read x.parquet as parquet" in refusal(capsys)


def priced(amount: str) -> bytes:
    return HEAD + b"Brass lamp," + amount.encode() + b",3\n" + CHAIR


def titled(title: str) -> bytes:
    return HEAD + title.encode() + b",9,3\n" + CHAIR


TAKEN = "id is taken: row 1 of x.jsonl is kept"
SET_ASIDE: dict[str, tuple[str, bytes, str]] = {
    "1e308": ("csv", priced("1e308"), "list_price is not a price: 1e308"),
    "-0.0": ("csv", priced("-0.0"), "list_price is negative: -0.0"),
    "1,2,3": ("csv", priced('"1,2,3"'), "list_price has a grouping that cannot be: 1,2,3"),
    "inf": ("csv", priced("inf"), "list_price is not a price: inf"),
    "nan": ("csv", priced("nan"), "list_price is missing"),
    "a negative price": ("csv", priced("-5"), "list_price is negative: -5"),
    "hexadecimal": ("csv", priced("0x10"), "list_price is not a price: 0x10"),
    "400 digits": ("csv", priced("9" * 400), "list_price is not a price: " + "9" * 80),
    "Arabic digits": ("csv", priced("\u0661\u0662"), "list_price is not a price: \u0661\u0662"),
    "a superscript": ("csv", priced("\u00b2"), "list_price is not a price: \u00b2"),
    "a formula": ("csv", priced("=1+1"), "list_price is not a price: =1+1"),
    "above the list price": ("csv", priced("2"), "lowest_price is above list and highest price: 3.0 > 2.0"),
    "zero width": ("csv", titled("\u200b\u200c\u200d"), "title is missing"),
    "a script": ("csv", titled("<script>alert(1)</script>"), "title is missing"),
    "two letters": ("csv", titled("ab"), "title is shorter than 3 characters: ab"),
    "501 letters": ("csv", titled("x" * 501), "title is longer than 500 characters: 501"),
    "two million letters": ("csv", titled("x" * 2_000_000), "title is longer than 500 characters: 2000000"),
    "5000 accents": ("csv", titled("e" + "\u0301" * 5000), "title is longer than 500 characters: 5001"),
    "ragged": ("csv", HEAD + b"Brass lamp,9,3,4,5\n" + CHAIR, "the row has more fields than the header"),
    "an open quote": ("csv", HEAD + b'"Brass lamp,9,3\n' + CHAIR, "the quotes of the line do not pair"),
    "nested text": ("jsonl", lines(row(title={"a": [1]})), 'title is not text: {"a":[1]}'),
    "a list of texts": ("jsonl", lines(row(title=["a"])), 'title is not text: ["a"]'),
    "a nested price": ("jsonl", lines(row(list_price=[9])), "list_price is not a price: [9]"),
    "true for a price": ("jsonl", lines(row(list_price=True)), "list_price is not a price: true"),
    "a deep line": ("jsonl", lines(b'{"a":' * 100_000), "the line is not a JSON object"),
    "5000 digits": ("jsonl", lines(row()[:-1] + b', "x": ' + b"9" * 5000 + b"x}"), "the line is not a JSON object"),
    "1e999": ("jsonl", lines(b'{"title": "Lamp", "list_price": 1e999}'), "the line is not a JSON object"),
    "a zero byte": ("jsonl", lines(b'{"title": "L\0amp"}'), "the line is not a JSON object"),
    "a line cut short": ("jsonl", lines(row()[:20]), "the line is not a JSON object"),
    "another currency": ("jsonl", lines(row(currency="EUR")), "currency is not USD: EUR"),
    "a negative budget": ("jsonl", lines(row(budget=-3)), "budget is negative: -3.0"),
    "an id twice": ("jsonl", row(id="1", title="Oak chair") + b"\n" + row(id=1), TAKEN),
}


@pytest.mark.parametrize("name", SET_ASIDE)
def test_a_bad_row_is_set_aside_with_its_reason(name: str, project: Path) -> None:
    source, content, reason = SET_ASIDE[name]
    name_source(source, content)
    run_stage(ingest)
    assert pl.read_parquet(EARLIER[0])["title"].to_list() == ["Oak chair"]
    assert pl.read_parquet(EARLIER[1])["reason"].to_list() == [reason]


KEPT: dict[str, tuple[str, bytes, str]] = {
    "a mark at the start": ("csv", b"\xef\xbb\xbf" + HEAD + LAMP, "Brass lamp"),
    "one row": ("csv", HEAD + LAMP, "Brass lamp"),
    "one row in Latin-1": ("csv", HEAD + LAMP + b"Caf\xe9 lamp,9,3\n", "Brass lamp"),
    "a zero byte in a title": ("csv", HEAD + b"Brass\0 lamp,9,3\n", "Brass lamp"),
    "an order of letters turned round": ("csv", HEAD + "\u202eBrass\u202c lamp,9,3\n".encode(), "Brass lamp"),
    "right to left": ("csv", HEAD + "\u05de\u05e0\u05d5\u05e8\u05d4,9,3\n".encode(), "\u05de\u05e0\u05d5\u05e8\u05d4"),
    "zero width between letters": ("csv", HEAD + "Br\u200bass lamp,9,3\n".encode(), "Brass lamp"),
    "nested JSON beside": ("jsonl", row(more={"a": {"b": [1, {}]}}), "Brass lamp"),
    "half a surrogate pair": ("amazon_history_price", b'[{"x": "\\ud800", ' + row()[1:] + b"]", "Brass lamp"),
}


@pytest.mark.parametrize("name", KEPT)
def test_an_odd_row_that_can_be_read_is_kept(name: str, project: Path) -> None:
    source, content, title = KEPT[name]
    name_source(source, content)
    run_stage(ingest)
    assert pl.read_parquet(EARLIER[0])["title"].to_list() == [title]


@pytest.mark.parametrize("source", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("name", ["x[1]", "x*", "x?", "[x"])
def test_a_files_name_stands_for_no_other_file(source: str, name: str, project: Path) -> None:
    made = project / "made"
    lamp = {"csv": HEAD + LAMP, "jsonl": row(), "parquet": parquet(made)}[source]
    chair = {"csv": HEAD + CHAIR, "jsonl": row(title="Chair"), "parquet": parquet(made, title=["Chair"])}[source]
    file = name_source(source, lamp, path=f"{name}.{ENDINGS[source]}")
    file.rename(f"{name}.{ENDINGS[source]}")
    Path(f"x1.{ENDINGS[source]}").write_bytes(chair)
    run_stage(ingest)
    assert pl.read_parquet(EARLIER[0])["title"].to_list() == ["Brass lamp"]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_in_a_folder_is_refused_unread(
    make: Callable[[str], None], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = name_source("jsonl", row(), path="folder")
    Path("folder").mkdir()
    file.rename("folder/x.jsonl")
    make("folder/y.jsonl")
    assert "catalogue.path: expected regular files in folder, got y.jsonl; move it elsewhere" in refusal(capsys)


def test_a_parquet_file_may_have_any_column_beside_ours(project: Path) -> None:
    content = parquet(project / "x.parquet", row=[7], row_=[8], source=["s"], broken=["b"], index=[9])
    name_source("parquet", content)
    run_stage(ingest)
    assert pl.read_parquet(EARLIER[0])["title"].to_list() == ["Brass lamp"]
    assert pl.read_parquet(EARLIER[1]).is_empty()
