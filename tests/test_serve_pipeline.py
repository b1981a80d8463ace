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
from dealwright.files import write_text
from dealwright.profiles import apply_profile, set_params
from tests.served import cancel, lines, mlflow_states, served, start, state
from tests.standin import ROOT, wait_for

STEPS = 6
OPENS = "    with training_run(params, work, last_checkpoint(work), processes.first) as run:\n"
# Waits before the step that the file `hold` names, so that a training stands where the test wants it, however slow
# either is: at the door where that step is its first, else before it logs that step.
HOLDS = f"""
    import time

    def hold(step):
        while step >= int(Path("hold").read_text()):
            time.sleep(0.1)

    def log_step(step, metrics):
        hold(step)
        log(step, metrics)

    hold(last_checkpoint(work) + 1)
{OPENS}        log, run.log_step = run.log_step, log_step
"""


@pytest.fixture
def project(tmp_path: Path, made_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a clone with the smoke profile, whose training keeps each of its steps and waits before the third."""
    folder = tmp_path / "my project"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    (folder / "mlflow.db").write_bytes(made_store.read_bytes())
    stage = (folder / "stages/train.py").read_text()
    assert OPENS in stage
    (folder / "stages/train.py").write_text(stage.replace(OPENS, HOLDS))
    (folder / "hold").write_text("3")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    apply_profile("smoke")
    set_params({"train.steps": STEPS, "train.checkpoint_steps": 1}, folder / "params.yaml", "the test")
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


def await_steps(run: Any, expected: list[int]) -> None:
    """Wait until a run has logged so many steps of its training, which are these."""
    wait_for(lambda: len(steps(run)) >= len(expected) or state(run).is_final())
    assert steps(run) == expected, state(run)


def ended(run: Any) -> Any:
    """Wait until a run has ended, however it did, and return its last state."""
    wait_for(lambda: state(run).is_final())
    return state(run)


def steps(run: Any) -> list[int]:
    """Return the training steps that a run has logged so far."""
    return [int(match[1]) for line in lines(run) if (match := re.match(rf"step ([0-9]+)/{STEPS}  ", line))]


def descendants(process: int) -> dict[int, str]:
    """Return the processes that a process has started, with the module that each runs."""
    started = {child.pid for child in psutil.Process(process).children(recursive=True)}
    running = {one.pid: one.info["cmdline"] or [""] for one in psutil.process_iter(["cmdline"])}
    return {pid: running[pid][-1] for pid in started & running.keys()}
