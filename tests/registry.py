"""A project that has trained two checkpoints, with everything that their registration reads."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from dealwright.agents import Demonstrator
from dealwright.catalogue.scenarios import SCHEMA as SCENARIOS
from dealwright.catalogue.table import SCHEMA as CATALOGUE
from dealwright.files import write_parquet
from dealwright.game import Scenario
from dealwright.players import play_games
from tests.tiny import tiny_params, tiny_scenarios

MODEL = "dealwright-buyer"
STEPS = (5, 10)


def enter_project(folder: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder with two checkpoints, of which the second was selected, and an empty database of MLflow."""
    folder.mkdir(exist_ok=True)
    shutil.copy(store, folder / "mlflow.db")
    for step in STEPS:
        write_checkpoint(folder, step)
    (folder / "reports").mkdir()
    (folder / "reports/training.csv").write_text("step,reward,loss\n1,0.1,\n2,0.25,0.5\n")
    (folder / "reports/ingest.json").write_text('{"read": 10, "kept": 8, "rejected": 2}')
    write_selection(folder, selected=10, reward=0.4)
    scenarios = tiny_scenarios(8)
    write_scenarios(folder, [*scenarios[:5], *(replace(scenario, split="validation") for scenario in scenarios[5:])])
    write_probe_games(folder, scenarios[5:])
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(folder)
    return folder


def write_checkpoint(project: Path, step: int, weights: bytes = b"weights") -> None:
    """Write a checkpoint without a model in it; step 0 is the warm start."""
    folder = project / (f"data/models/checkpoints/step-{step:04d}" if step else "data/models/warmstart")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights + str(step).encode())


def write_selection(project: Path, selected: int, reward: float, steps: Sequence[int] = STEPS) -> None:
    """Write what selection found: the same figures for every step."""
    checkpoints = [
        {
            "step": step,
            "reward": {"value": reward, "low": 0.3, "high": 0.5, "games": 64},
            "overshoot_rate": {"value": 0.0},
        }
        for step in steps
    ]
    (project / "reports/selection.json").write_text(json.dumps({"selected": selected, "checkpoints": checkpoints}))


def write_scenarios(project: Path, scenarios: Sequence[Scenario]) -> None:
    """Write the tables of products and scenarios."""
    products = [
        (one.id, one.title, one.category, one.description, one.list_price, one.lowest_price, one.highest_price, None)
        for one in (scenario.product for scenario in scenarios)
    ]
    rows = [
        (
            *(one.id, one.product.id, one.product.title, one.product.category, one.list_price, one.cost, one.budget),
            *(str(one.zone), one.seed, one.split),
        )
        for one in scenarios
    ]
    write_parquet(project / "data/catalogue.parquet", pl.DataFrame(products, schema=CATALOGUE, orient="row"))
    write_parquet(project / "data/scenarios.parquet", pl.DataFrame(rows, schema=SCENARIOS, orient="row"))


def write_probe_games(project: Path, scenarios: Sequence[Scenario]) -> None:
    """Write one game a scenario and step, played by the demonstrator."""
    params = tiny_params()
    games = [play_games("checkpoint", Demonstrator(), ["training"], scenarios, [0], params, step) for step in STEPS]
    write_parquet(project / "data/rollouts/validation.parquet", pl.concat(games))
