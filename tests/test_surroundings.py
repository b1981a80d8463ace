"""The stages of the data give the same bytes in any surroundings; `make soak` asks it of every stage."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.standin import ROOT

MADE = ("data/catalogue.parquet", "data/rejected.parquet", "reports/ingest.json", "data/scenarios.parquet")
PRODUCTS = "title,category,list_price,lowest_price\n" + "".join(
    f"{title} {number},Küche,{9 + number},3\n"
    for number, title in enumerate(["İstanbul ISI lamp", "Straße chair", "ΣΑΣ kettle", "Ceramic ﬁg", "東京 kite"] * 6)
)


def made(folder: Path, surroundings: dict[str, str]) -> dict[str, bytes]:
    """Run the stages on a small catalogue with letters of many countries, and return what they wrote."""
    folder.mkdir()
    params = (ROOT / "params.yaml").read_text(encoding="utf-8")
    for old, new in (("source: bundled ", "source: csv "), ("path: data/catalogue ", "path: products.csv ")):
        assert old in params
        params = params.replace(old, new)
    (folder / "params.yaml").write_text(params, encoding="utf-8")
    (folder / "products.csv").write_text(PRODUCTS, encoding="utf-8")
    (folder / "reports").mkdir()
    shutil.copy(ROOT / "reports/validation.json", folder / "reports")
    for stage in ("ingest", "prompts"):
        subprocess.run(
            [sys.executable, "-m", f"stages.{stage}"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **surroundings},
            check=True,
        )
    return {name: (folder / name).read_bytes() for name in (*MADE, "data/prompts.parquet")}


def test_hash_seed_locale_encoding_time_zone_and_folder_change_no_byte(tmp_path: Path) -> None:
    # Without its own UTF-8 mode Python reads and writes text as ASCII in the locale C.
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    first = made(tmp_path / "a", {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "TZ": "UTC"})
    assert made(tmp_path / "b ç", {**ascii_only, "PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu"}) == first
    assert made(tmp_path / "c", {"LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "2", "TZ": "America/St_Johns"}) == first
