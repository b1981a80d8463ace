"""The pipeline itself under `flows.serve`: cancelled and killed in the middle of training, and run to its end."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)
from dealwright.profiles import apply_profile, set_params
from tests.served import cancel, lines, mlflow_states, served, start, state
from tests.standin import ROOT, wait_for

STEPS = 12


@pytest.fixture
def project(tmp_path: Path, made_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a clone with the smoke profile, which trains for twelve steps and keeps each."""
    folder = tmp_path / "my project"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    (folder / "mlflow.db").write_bytes(made_store.read_bytes())
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    apply_profile("smoke")
    set_params({"train.steps": STEPS, "train.checkpoint_steps": 1}, folder / "params.yaml", "the test")
    return folder


@pytest.mark.slow
def test_a_training_that_was_cancelled_and_one_that_was_killed_are_gone_on_with(project: Path, server: None) -> None:
    with served(project) as service:
        first = start("reproduce/reproduce")
        wait_for(lambda: 2 in steps(first))
        second = start("reproduce/reproduce")
        wait_for(lambda: "scheduled runs skipped (at capacity)" in service.said())
        assert state(second).is_scheduled()
        tree = descendants(service.process.pid)
        assert "stages.train" in tree.values()
        cancel(first)
        wait_for(lambda: state(first).is_cancelled())
        wait_for(lambda: not any(psutil.pid_exists(pid) for pid in tree))
        assert mlflow_states(project) == ["KILLED"]

        wait_for(lambda: steps(second))
        third = start("reproduce/reproduce")
        tree = descendants(service.process.pid)
        (engine,) = [pid for pid, module in tree.items() if module == "prefect.engine"]
        os.kill(engine, signal.SIGKILL)
        wait_for(lambda: state(second).is_crashed())
        wait_for(lambda: not any(psutil.pid_exists(pid) for pid in tree))

        wait_for(lambda: state(third).is_final())
        assert state(third).is_completed(), state(third).message
    # Each went on behind the last whole checkpoint of the one before, and all in one run of MLflow.
    assert steps(first)[0] == 1
    assert 1 < steps(second)[0] <= steps(first)[-1] + 1
    assert 1 < steps(third)[0] <= steps(second)[-1] + 1
    assert steps(third)[-1] == STEPS
    assert mlflow_states(project) == ["FINISHED"]
    curve = (project / "reports/training.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in curve[1:]] == [str(step) for step in range(1, STEPS + 1)]
    fresh = subprocess.run([sys.executable, "-m", "dvc", "status", "-q"], cwd=project, check=False)
    assert fresh.returncode == 0


def steps(run: Any) -> list[int]:
    """Return the training steps that a run has logged so far."""
    return [int(match[1]) for line in lines(run) if (match := re.match(rf"step ([0-9]+)/{STEPS}  ", line))]


def descendants(process: int) -> dict[int, str]:
    """Return the processes that a process has started, with the module that each runs."""
    started = {child.pid for child in psutil.Process(process).children(recursive=True)}
    running = {one.pid: one.info["cmdline"] or [""] for one in psutil.process_iter(["cmdline"])}
    return {pid: running[pid][-1] for pid in started & running.keys()}
