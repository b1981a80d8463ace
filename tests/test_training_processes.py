"""Training in several processes: the same training as in one, and an end for all when one of them dies."""

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dealwright.catalogue.scenarios import make_scenarios, read_scenarios
from dealwright.files import write_parquet
from dealwright.params import load_params
from dealwright.profiles import set_params
from dealwright.prompts.table import prompts_frame
from dealwright.seats import training_seller
from dealwright.training.games import TrainingError
from dealwright.training.grpo import make_trainer
from tests.tiny import buyer_prompts, tiny_params, tiny_scenarios

ROOT = Path(__file__).parents[1]
TWO = ("-m", "accelerate.commands.launch", "--config_file", str(ROOT / "profiles/accelerate/cpu.yaml"))
PATIENCE = 600  # seconds; no test measures them


def start(*command: str, folder: Path, environment: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """Start Python with a command, one thread a process."""
    return subprocess.Popen(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", status: int = 0) -> str:
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == status, output[-4000:]
    return output


def curve(work: Path) -> list[dict[str, float]]:
    return [json.loads(file.read_text()) for file in sorted((work / "curve").iterdir())]


@pytest.fixture(scope="module")
def trained(base_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Path, str]]:
    """Train a tiny model on scripted games and return the work folder and what was printed."""

    def train(*launcher: str, **sizes: Any) -> tuple[Path, str]:
        work = tmp_path_factory.mktemp("run") / "train-0"
        command = (*launcher, "-m", "tests.training_process", str(base_folder), str(work), json.dumps(sizes))
        return work, finish(start(*command, folder=ROOT))

    return train


@pytest.mark.slow
def test_two_processes_train_as_one_does_with_the_same_games(trained: Callable[..., tuple[Path, str]]) -> None:
    alone, _ = trained()
    both, _ = trained(*TWO)
    first, second = (json.loads((both / f"process-{index}.json").read_text()) for index in range(2))
    assert first["calls"] == second["calls"] > 0
    assert not set(first["seeds"]) & set(second["seeds"])  # each draws for itself
    for step in range(1, 5):
        games = [pl.read_parquet(work / f"games/step-{step:05d}.parquet") for work in (alone, both)]
        assert games[0].equals(games[1])
        assert games[0]["turns"].unique().len() > 2
    for one, two in zip(curve(alone), curve(both), strict=True):
        assert two == pytest.approx(one, rel=1e-3, abs=1e-5)
    weights = [load_file(work / "checkpoint-4/model.safetensors") for work in (alone, both)]
    start_at = load_file(alone / "checkpoint-2/model.safetensors")
    for name, weight in weights[0].items():
        assert torch.allclose(weights[1][name], weight, atol=1e-5), name
    assert any(not torch.allclose(start_at[name], weight, atol=1e-5) for name, weight in weights[0].items())


@pytest.mark.slow
def test_split_weights_play_dialogues_of_any_length_and_learn_as_whole_ones_do() -> None:
    printed = finish(start(*TWO, "-m", "tests.sharded_process", folder=ROOT))
    for index in (0, 1):
        assert f"process {index} of 2 played and learnt alike" in printed


def test_games_that_do_not_fill_every_process_are_refused(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    scenarios, params = tiny_scenarios(2), tiny_params()
    prompts = buyer_prompts(scenarios)
    with pytest.raises(TrainingError, match="expected whole micro-batches of 4 for each of 3 processes, got 8 games"):
        seat = training_seller(params, scenarios, tmp_path)
        make_trainer(model, tokenizer, scenarios, prompts, params, tmp_path, lambda *_: None, seat, processes=3)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project before its training stage: the tiny base model is its warm start, and its steps are small."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "data/base", folder / "data/models/warmstart")
    shutil.copy(ROOT / "params.yaml", folder)
    sizes = {"steps": 6, "products": 4, "group_size": 8, "micro_batch": 8, "checkpoint_steps": 2, "update_share": 0.5}
    set_params({f"train.{name}": size for name, size in sizes.items()}, folder / "params.yaml", "the test")
    params = load_params(folder / "params.yaml")
    rows = [
        (f"p{at}", title, "home", "", price, price * 0.4, price, None)
        for at, (title, price) in enumerate([("Desk lamp", 100.0), ("Kettle", 39.5), ("Chair", 250.0)] * 12)
    ]
    columns = ["id", "title", "category", "description", "list_price", "lowest_price", "highest_price", "budget"]
    catalogue = pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.col("budget").cast(pl.Float64))
    write_parquet(folder / "data/catalogue.parquet", catalogue)
    write_parquet(folder / "data/scenarios.parquet", make_scenarios(catalogue, params.prompts))
    scenarios = read_scenarios(folder / "data/scenarios.parquet", folder / "data/catalogue.parquet")
    write_parquet(folder / "data/prompts.parquet", prompts_frame(scenarios, params.prompts.buyer, 6))
    return folder


def train(folder: Path, *launcher: str) -> "subprocess.Popen[str]":
    return start(*launcher, "-m", "stages.train", folder=folder, environment={"MLFLOW_TRACKING_URI": ""})


def work_of(folder: Path) -> Path | None:
    return next(iter((folder / "data/work").glob("train-*")), None)


def wait_for_checkpoint(folder: Path, step: int, process: "subprocess.Popen[str]") -> None:
    deadline = time.monotonic() + PATIENCE
    while (work := work_of(folder)) is None or not (work / f"checkpoint-{step}/complete").exists():
        assert process.poll() is None and time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.1)


def member(launcher: "subprocess.Popen[str]", index: int) -> psutil.Process:
    """Return one of the training processes that a launcher has started."""
    return next(
        child
        for child in psutil.Process(launcher.pid).children(recursive=True)
        if child.environ().get("RANK") == str(index)
    )


@pytest.mark.slow
@pytest.mark.parametrize("dying", [0, 1])
def test_a_process_that_dies_ends_the_other_and_one_alone_goes_on_from_the_checkpoint(
    dying: int, project: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(project, tmp_path / "project"))
    launched = train(folder, *TWO)
    wait_for_checkpoint(folder, 2, launched)
    member(launched, dying).send_signal(signal.SIGKILL)
    died = time.monotonic()
    output, _ = launched.communicate(timeout=60)
    assert time.monotonic() - died < 60
    assert launched.returncode == 1
    assert (
        f"error: process {1 - dying} of 2 stops, because another one has ended: see what that one said, and start all "
        "of them again; the checkpoint of step"
    ) in output
    printed = finish(train(folder))
    assert re.findall(r"^step (\d)/6", printed, re.MULTILINE)[-1] == "6"
    assert "step 1/6" not in printed
    assert sorted(path.name for path in (folder / "data/models/checkpoints").iterdir()) == [
        *("step-0002", "step-0004", "step-0006")
    ]
    games = pl.read_parquet(folder / "data/rollouts/training.parquet")
    assert games["checkpoint"].to_list() == [step for step in range(6) for _ in range(32)]
    assert work_of(folder) is None


@pytest.mark.slow
def test_two_processes_train_the_tiny_buyer_and_write_what_one_writes(project: Path, tmp_path: Path) -> None:
    alone, both = (Path(shutil.copytree(project, tmp_path / name)) for name in ("alone", "both"))
    finish(train(alone))
    printed = finish(train(both, *TWO))
    assert re.findall(r"^step (\d)/6", printed, re.MULTILINE) == ["1", "2", "3", "4", "5", "6"]

    def written(folder: Path) -> list[str]:
        places = [folder / "data/models/checkpoints", folder / "data/rollouts", folder / "reports"]
        return sorted(str(file.relative_to(folder)) for place in places for file in place.rglob("*"))

    assert written(both) == written(alone)
    assert work_of(both) is None
    games = {folder: pl.read_parquet(folder / "data/rollouts/training.parquet") for folder in (alone, both)}
    for column in ("scenario_id", "round", "checkpoint", "buyer", "seller"):
        assert games[both][column].equals(games[alone][column])
    # Other draws, so other games: their mean rewards differ by chance alone.
    means, errors = zip(
        *((table["reward"].mean(), table["reward"].std() / len(table) ** 0.5) for table in games.values()), strict=True
    )
    assert abs(means[0] - means[1]) < 4 * (errors[0] ** 2 + errors[1] ** 2) ** 0.5
    with sqlite3.connect(both / "mlflow.db") as store:
        assert store.execute("select count(*), min(status) from runs").fetchall() == [(1, "FINISHED")]
