"""The plan of `dealwright.catalogue.table.ingest` for a CSV file, in pandas.

It takes the same steps on the columns that the file has, with pandas' own string methods, and gives the same table and
the same rejected rows. What no row of the benchmark holds (other encodings, currencies and scripts) it does not know,
which is to its advantage.
"""

import html
from hashlib import blake2b
from pathlib import Path

import pandas as pd

CATALOGUE = ["id", "title", "category", "description", "list_price", "lowest_price", "highest_price"]
PRICES = CATALOGUE[4:]

_UNSHOWN = r"(?is)<(?:script|style)\b[^>]*>.*?</(?:script|style)\s*>|<!--.*?-->|<!doctype[^>]*>"
_ATTRIBUTES = r"(?:\"[^\"]*\"|'[^']*'|[^<>\"'])*"
_INLINE = rf"(?i)</?(?:a|abbr|b|big|code|em|font|i|mark|s|small|span|strong|sub|sup|u)(?:[\s/]{_ATTRIBUTES})?>"
_TAG = rf"</?[a-zA-Z]{_ATTRIBUTES}>"
_POINTED = r"^(?:[0-9]{1,15}(?:\.[0-9]{1,2})?|[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]{1,2})?)$"
_COMMAED = r"^(?:[0-9]{1,15},[0-9]{1,2}|[1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]{1,2})$"
_MISSING = r"(?i)^(?:n/?a|n\.a\.|nan|none|null|nil|-+|[\u2013\u2014]|\?|tba|tbd)?$"


def ingest_into(path: str, description_characters: int, folder: Path) -> None:
    """Write both tables as Parquet, compressed as polars does it by default."""
    catalogue, rejected = ingest(path, description_characters)
    catalogue.to_parquet(folder / "catalogue.parquet", compression="zstd")
    rejected.to_parquet(folder / "rejected.parquet", compression="zstd")


def ingest(path: str, description_characters: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the canonical table and the rejected rows with their reasons."""
    rows = pd.read_csv(path, dtype="str", keep_default_na=False, na_values=[""])
    raw = {field: rows[field] for field in PRICES}
    problems = {}
    for field in PRICES:
        rows[field], problems[field] = _price(rows[field])
    for column in ("id", "title", "category", "description"):
        rows[column] = _clean(rows[column])
    rows["highest_price"] = rows["highest_price"].fillna(rows["list_price"])
    rows["category"] = rows["category"].fillna("other")
    rows["description"] = _capped(rows["description"].fillna(""), description_characters)
    rows["reason"] = _reasons(rows, raw, problems)
    rows["row"] = range(1, len(rows) + 1)
    rows["title_key"] = _normalised(rows["title"])
    rows["description_key"] = pd.util.hash_array(_normalised(rows["description"]).to_numpy())
    _refuse_repeats(rows, "title and description are a duplicate", ["title_key", "description_key"])
    _give_ids(rows)
    _refuse_repeats(rows, "id is taken", ["id"])
    refused = rows["reason"].notna()
    return rows.loc[~refused, CATALOGUE].reset_index(drop=True), rows.loc[refused, ["row", "title", "reason"]]


def _clean(text: pd.Series) -> pd.Series:
    text = text.str.replace(_UNSHOWN, " ", regex=True).str.replace(_INLINE, "", regex=True)
    text = text.str.replace(_TAG, " ", regex=True)
    coded = text.str.contains("&", regex=False).fillna(False).astype(bool)
    text = text.where(~coded, text[coded].map(html.unescape))
    text = text.str.replace(r"[\t-\r\x1c-\x1f\x85\xa0\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+", " ", regex=True)
    text = text.str.replace(r"[\x00-\x1f\x7f-\x9f\xad\u200b\u200e\u200f\u2060\ufeff]", "", regex=True)
    text = text.str.replace(r" {2,}", " ", regex=True).str.strip(" ")
    return text.where(text != "")


def _price(text: pd.Series) -> tuple[pd.Series, pd.Series]:
    """Return the amounts, and the problem of each text that is neither an amount nor missing."""
    foreign = text.str.contains(r"[^ -~]", regex=True).fillna(False).astype(bool)
    shown = text.where(~foreign, text[foreign].str.normalize("NFKC"))
    shown = shown.str.replace(r"\s+", " ", regex=True).str.strip(" ")
    shown = shown.str.replace("[\u2212\ufe63]", "-", regex=True).str.replace("[\u2019\xb4`]", "'", regex=True)
    amount = shown.str.replace(r"(?i)^(?:USD(?: ?(?:US\$|\$))?|(?:US\$|\$)(?: ?USD)?) ?", "", regex=True)
    amount = amount.str.replace(r"(?i) ?(?:USD(?: ?(?:US\$|\$))?|(?:US\$|\$)(?: ?USD)?)$", "", regex=True)
    pointed = amount.str.contains(_POINTED, regex=True).fillna(False).astype(bool)
    commaed = amount.str.contains(_COMMAED, regex=True).fillna(False).astype(bool) & ~pointed
    number = pd.to_numeric(amount.where(pointed).str.replace(",", "", regex=False))
    other = amount[commaed].str.replace(".", "", regex=False).str.replace(",", ".", regex=False)
    number = number.fillna(pd.to_numeric(other))
    problem = pd.Series(None, index=text.index, dtype="str")
    unread = shown[number.isna() & shown.notna()]
    unread = unread[~unread.str.contains(_MISSING, regex=True)]
    problem[unread.index] = "is not a price"
    problem[unread.index[unread.str.contains(r"^-", regex=True)]] = "is negative"
    problem[unread.index[unread.str.contains(r"[0-9] *(?:[-~\u2013\u2014]|to) *[0-9]", regex=True)]] = "is a range"
    problem[number == 0] = "is zero"
    return number.where(problem.isna()), problem


def _reasons(rows: pd.DataFrame, raw: dict[str, pd.Series], problems: dict[str, pd.Series]) -> pd.Series:
    reason = pd.Series(None, index=rows.index, dtype="str")
    reason[rows["title"].isna()] = "title is missing"
    for field in ("list_price", "lowest_price", "highest_price"):
        wrong = problems[field].notna() & reason.isna()
        reason[wrong] = f"{field} " + problems[field][wrong] + ": " + raw[field][wrong]
    for field in ("list_price", "lowest_price"):
        reason[rows[field].isna() & reason.isna()] = f"{field} is missing"
    largest = rows[["list_price", "highest_price"]].max(axis=1)
    above = (rows["lowest_price"] > largest) & reason.isna()
    figures = rows["lowest_price"][above].map(str) + " > " + largest[above].map(str)
    reason[above] = "lowest_price is above list and highest price: " + figures
    return reason


def _capped(text: pd.Series, characters: int) -> pd.Series:
    longer = text.str.len() > characters
    kept = text[longer].str.slice(0, characters).str.replace(r"\s+\S{0,40}$", "", regex=True)
    return text.where(~longer, kept.str.slice(0, characters - 1) + "…")


def _normalised(text: pd.Series) -> pd.Series:
    foreign = text.str.contains(r"[^ -~]", regex=True).fillna(False).astype(bool)
    folded = text.where(~foreign, text[foreign].str.normalize("NFKC")).str.lower()
    folded = folded.str.replace(r"[^\w+#%& ]+|_", " ", regex=True).str.replace(r" {2,}", " ", regex=True)
    told = text.str.contains(r"[^\W_]", regex=True).fillna(False).astype(bool)
    return folded.str.strip(" ").where(told, text)


def _give_ids(rows: pd.DataFrame) -> None:
    usable = rows["reason"].isna()
    shared = usable.groupby(rows["title_key"]).transform("sum") > 1
    text = rows["title_key"].where(~shared, rows["title_key"] + "\n" + rows["description"])
    lacking = text[usable & rows["id"].isna()]
    rows["id"] = rows["id"].fillna(lacking.map(lambda text: blake2b(text.encode(), digest_size=8).hexdigest()))


def _refuse_repeats(rows: pd.DataFrame, kind: str, keys: list[str]) -> None:
    usable = rows.loc[rows["reason"].isna(), [*keys, "row"]]
    first = usable.groupby(keys, sort=False)["row"].transform("first")
    repeated = first[first != usable["row"]]
    rows.loc[repeated.index, "reason"] = f"{kind}: row " + repeated.astype("str") + " of products.csv is kept"
