"""The pipeline itself as a project for tests, with a training that waits where a test wants it."""

import re
import subprocess
from pathlib import Path
from typing import Any

import psutil

from dealwright.profiles import apply_profile, set_params
from tests.served import lines, state
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


def make_held_project(folder: Path, store: Path) -> Path:
    """Clone the project with the smoke profile, keeping each step of the training, which waits before the third."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    (folder / "mlflow.db").write_bytes(store.read_bytes())
    stage = (folder / "stages/train.py").read_text()
    assert OPENS in stage
    (folder / "stages/train.py").write_text(stage.replace(OPENS, HOLDS))
    (folder / "hold").write_text("3")
    apply_profile("smoke", folder / "params.yaml", folder / "profiles")
    set_params({"train.steps": STEPS, "train.checkpoint_steps": 1}, folder / "params.yaml", "the test")
    return folder


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
