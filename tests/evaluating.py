"""A project that stands before its evaluation, with few scenarios and random models."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from dealwright.catalogue.scenarios import make_scenarios, read_scenarios
from dealwright.catalogue.table import ingest
from dealwright.files import write_json, write_parquet
from dealwright.params import Params, load_params
from dealwright.prompts.table import prompts_frame

ROOT = Path(__file__).parents[1]


def small_tables(folder: Path) -> Path:
    """Write scenarios and prompts of the bundled catalogue, four of them to test on."""
    params = load_params(ROOT / "params.yaml")
    catalogue = ingest(params.catalogue.model_copy(update={"path": str(ROOT / "data/catalogue")})).catalogue.head(40)
    sizes = params.prompts.model_copy(update={"test": 4, "validation": 4})
    write_parquet(folder / "catalogue.parquet", catalogue)
    write_parquet(folder / "scenarios.parquet", make_scenarios(catalogue, sizes))
    scenarios = read_scenarios(folder / "scenarios.parquet", folder / "catalogue.parquet")
    write_parquet(folder / "prompts.parquet", prompts_frame(scenarios, "brief", params.game.max_turns))
    return folder


def enter_project(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter a project with those tables and the parameters of the repository."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "profiles", "profiles")
    shutil.copytree(tables, "data")
    configure({})


def configure(engines: dict[str, Any], **evaluate: Any) -> Params:
    """Write params.yaml with these engines, sized down, and read it."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
    params["train"]["message_tokens"] = 4
    params["evaluate"] |= {"resamples": 100, "bound_offers": 4, "ablations": [], "sellers": ["training"], **evaluate}
    params["engines"] = engines
    Path("params.yaml").write_text(yaml.safe_dump(params))
    return load_params()


def prepare_evaluation(base_folder: Path) -> None:
    """Write what the stage reads: random models, no fitted scripts."""
    for folder in ("data/base", "data/models/warmstart"):
        shutil.copytree(base_folder, folder)
    write_json("reports/selection.json", {"selected": 0, "checkpoints": [{"step": 0}]})
    write_json("reports/scripts.json", {"fitted": {}, "best_script": "linear_ladder"})


def evaluation(python: str = sys.executable, path: Sequence[str] = (str(ROOT), *sys.path)) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [python, "-m", "stages.evaluate"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        stderr=subprocess.PIPE,
        text=True,
    )
