"""The pipeline itself under `flows.serve`: cancelled and killed in the middle of training, and run to its end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)
from dealwright.files import write_text
from tests.held import STEPS, await_steps, descendants, ended, make_held_project, steps
from tests.served import cancel, mlflow_states, served, start, state
from tests.standin import wait_for


@pytest.fixture
def project(tmp_path: Path, made_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_held_project(tmp_path / "my project", made_store)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


@pytest.mark.slow
def test_a_training_that_was_cancelled_and_one_that_was_killed_are_gone_on_with(project: Path, server: None) -> None:
    with served(project) as service:
        first = start("reproduce/reproduce")
        await_steps(first, [1, 2])
        second = start("reproduce/reproduce")
        wait_for(lambda: "scheduled runs skipped (at capacity)" in service.said())
        assert state(second).is_scheduled()
        tree = descendants(service.process.pid)
        assert "stages.train" in tree.values()
        cancel(first)
        assert ended(first).is_cancelled(), state(first)
        wait_for(lambda: not any(psutil.pid_exists(pid) for pid in tree))
        assert mlflow_states(project) == ["KILLED"]

        write_text(project / "hold", "5")
        await_steps(second, [3, 4])
        third = start("reproduce/reproduce")
        tree = descendants(service.process.pid)
        assert "stages.train" in tree.values()
        (engine,) = [pid for pid, module in tree.items() if module == "prefect.engine"]
        os.kill(engine, signal.SIGKILL)
        assert ended(second).is_crashed(), state(second)
        wait_for(lambda: not any(psutil.pid_exists(pid) for pid in tree))

        write_text(project / "hold", str(STEPS + 1))
        assert ended(third).is_completed(), state(third)
    # Each went on behind the last whole checkpoint of the one before, and all in one run of MLflow.
    assert [steps(run) for run in (first, second, third)] == [[1, 2], [3, 4], [5, 6]]
    assert mlflow_states(project) == ["FINISHED"]
    curve = (project / "reports/training.csv").read_text().splitlines()
    assert [line.split(",")[0] for line in curve[1:]] == ["1", "2", "3", "4", "5", "6"]
    fresh = subprocess.run([sys.executable, "-m", "dvc", "status", "-q"], cwd=project, check=False)
    assert fresh.returncode == 0
