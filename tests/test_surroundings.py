"""The stages of the data give the same bytes in any surroundings; `make soak` asks it of every stage."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.standin import ROOT

QUICK = ("ingest", "prompts")
ALL = ("ingest", "validate", "prompts", "rollouts")
LETTERS = ["İstanbul ISI lamp", "Straße chair", "ΣΑΣ kettle", "Ceramic ﬁg", "東京 kite"]
PRODUCTS = "title,category,list_price,lowest_price\n" + "".join(
    f"{title} {number},Küche,{9 + number},3\n" for number, title in enumerate(LETTERS * 16)
)


def made(folder: Path, surroundings: dict[str, str], stages: Sequence[str] = QUICK) -> dict[str, bytes]:
    """Run the stages on a small catalogue with letters of many countries, and return what they wrote."""
    folder.mkdir()
    params = (ROOT / "params.yaml").read_text(encoding="utf-8")
    for old, new in (("source: bundled ", "source: csv "), ("path: data/catalogue ", "path: products.csv ")):
        assert old in params
        params = params.replace(old, new)
    (folder / "params.yaml").write_text(params, encoding="utf-8")
    (folder / "products.csv").write_text(PRODUCTS, encoding="utf-8")
    shutil.copytree(ROOT / "profiles", folder / "profiles")
    (folder / "reports").mkdir()
    shutil.copy(ROOT / "reports/validation.json", folder / "reports")  # which `prompts` asks for
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **surroundings}
    commands = [["dealwright", "profile", "smoke"], *([f"stages.{stage}"] for stage in stages)]
    for command in commands:
        subprocess.run([sys.executable, "-m", *command], cwd=folder, env=environment, check=True)
    files = [path for place in ("data", "reports") for path in (folder / place).rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_hash_seed_locale_encoding_time_zone_and_folder_change_no_byte(
    locales: dict[str, str], tmp_path: Path
) -> None:
    # Without its own UTF-8 mode Python reads and writes text as ASCII in the locale C.
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    german = {**locales, "LC_ALL": "de_DE.UTF-8", "TZ": "America/St_Johns"}
    turkish = {**locales, "LC_ALL": "tr_TR.UTF-8", "TZ": "Pacific/Kiritimati"}
    first = made(tmp_path / "a", {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "TZ": "UTC"})
    assert sorted(first) == [
        *("data/catalogue.parquet", "data/prompts.parquet", "data/rejected.parquet", "data/scenarios.parquet"),
        *("reports/ingest.json", "reports/validation.json"),
    ]
    assert made(tmp_path / "b ç", {**ascii_only, "PYTHONHASHSEED": "1", "TZ": "Asia/Kathmandu"}) == first
    assert made(tmp_path / "c", {**german, "PYTHONHASHSEED": "2"}) == first
    assert made(tmp_path / "d", {**turkish, "PYTHONHASHSEED": "3"}) == first


@pytest.mark.slow
def test_they_change_no_byte_of_the_contract_s_pages_and_the_scripts_games_either(
    locales: dict[str, str], tmp_path: Path
) -> None:
    first = made(tmp_path / "a", {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0", "TZ": "UTC"}, ALL)
    assert {"reports/validation/index.html", "reports/scripts.json", "data/rollouts/reference.parquet"} <= set(first)
    turkish = {**locales, "LC_ALL": "tr_TR.UTF-8", "LANGUAGE": "tr", "TZ": "Pacific/Kiritimati"}
    assert made(tmp_path / "b ç", {**turkish, "PYTHONHASHSEED": "1"}, ALL) == first
