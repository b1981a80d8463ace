"""A project of two quick stages that stands in for the pipeline: it ingests for real and makes up what it trains."""

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PATIENCE = 3600  # seconds, against a hang alone: a busy machine has needed more than 900
PIPELINE = """
stages:
  ingest:
    cmd: python -m stages.ingest
    deps: ["${catalogue.path}"]
    params: [catalogue]
    outs: [data/catalogue.parquet, data/rejected.parquet]
    metrics: [{reports/ingest.json: {cache: false}}]
  train:
    cmd: python train.py
    deps: [train.py, data/catalogue.parquet]
    params: [train.seed]
    outs: [data/scenarios.parquet, data/rollouts, data/models, reports/index.html]
    metrics: [{reports/selection.json: {cache: false}}, {reports/evaluation.json: {cache: false}}]
    plots: [{reports/training.csv: {cache: false}}]
"""
# Trains for as long as the file `busy` is there; every other line of it is about what the registration reads.
TRAIN = """
import json, os, shutil, sys, time
from pathlib import Path

import polars as pl

from dealwright.agents import Demonstrator
from dealwright.catalogue.scenarios import make_scenarios, read_scenarios
from dealwright.files import read_table, write_parquet
from dealwright.params import load_params
from dealwright.players import play_games
from dealwright.tracking import training_run

params = load_params()
table = read_table("data/catalogue.parquet")
work = Path("data/work/train")
work.mkdir(parents=True, exist_ok=True)
with training_run(params, work, 0) as run:
    run.log_step(1, {"reward": float(table["list_price"].sum())})
    print("step 1", flush=True)
    while os.path.exists(os.environ.get("BUSY", "")):
        Path(os.environ["BUSY"]).write_text(str(os.getpid()))
        time.sleep(0.1)
    print("step 2", flush=True)
    run.log_step(2, {"reward": float(table["list_price"].sum()), "loss": 0.5})
write_parquet("data/scenarios.parquet", make_scenarios(table, params.prompts))
probes = read_scenarios(split="validation")
games = [play_games("checkpoint", Demonstrator(), ["training"], probes, [0], params, step) for step in (0, 2)]
write_parquet("data/rollouts/validation.parquet", pl.concat(games))
for folder in ("data/models/warmstart", "data/models/checkpoints/step-0002"):
    Path(folder).mkdir(parents=True, exist_ok=True)
    Path(folder, "config.json").write_text("{}")
    Path(folder, "model.safetensors").write_text(folder + str(table["list_price"].sum()))
reward = {"value": 0.4, "low": 0.3, "high": 0.5, "games": 64}
chosen = {"selected": 2, "checkpoints": [{"step": step, "reward": reward} for step in (0, 2)]}
Path("reports/selection.json").write_text(json.dumps(chosen))
Path("reports/training.csv").write_text(f"step,reward,loss\\n2,{table['list_price'].sum()},0.5\\n")
shutil.copy("evaluation.json", "reports/evaluation.json")
Path("reports/index.html").write_text("<h1>The report of the stand-in</h1>")
"""
PRODUCTS = """id,title,category,list_price,lowest_price
a,A red kettle,kitchen,40,20
b,A blue kettle,kitchen,50,25
c,A desk lamp,office,60,30
d,A chair,office,70,35
e,A wooden train,toys,80,40
f,A kite,toys,90,45
"""


def make_project(folder: Path, store: Path) -> Path:
    """Write the stand-in into a new folder and commit it; six products and a database of MLflow stay outside git."""
    folder.mkdir()
    shutil.copy(store, folder / "mlflow.db")
    shutil.copytree(ROOT / "profiles", folder / "profiles")
    params = (ROOT / "params.yaml").read_text()
    for old, new in (
        ("source: bundled ", "source: csv "),
        ("path: data/catalogue ", "path: products.csv "),
        ("minimum_rows: 20 ", "minimum_rows: 6 "),
    ):
        assert old in params
        params = params.replace(old, new)
    (folder / "params.yaml").write_text(params)
    (folder / "dvc.yaml").write_text(PIPELINE)
    (folder / "train.py").write_text(TRAIN)
    (folder / "products.csv").write_text(PRODUCTS)
    (folder / "data/base").mkdir(parents=True)
    (folder / "data/base/config.json").write_text("{}")
    (folder / "reports").mkdir()
    (folder / "reports/.gitignore").write_text("*\n!.gitignore\n")
    shutil.copy(ROOT / "reports/evaluation.json", folder)
    (folder / ".gitignore").write_text("/data/\n/products.csv\n/mlflow.db*\n/mlartifacts/\n")
    git(folder, "init", "-q")
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q"], cwd=folder, check=True)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "A stand-in")
    return folder


def git(folder: Path, *arguments: str) -> None:
    """Run git as somebody."""
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments], cwd=folder, check=True)


def wait_for(condition: Callable[[], Any]) -> Any:
    """Return what the condition gives as soon as that is true."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.2)
    return found
