"""A stage that outlives the `dvc repro` that started it: no other stage joins it, and the next run is as ever."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from tests.standin import ROOT, wait_for

PIPELINE = """
stages:
  a: {cmd: python work.py, deps: [work.py], outs: [a.txt]}
"""
# Tells each start, and works for as long as the file `go` is not there.
WORK = """
import os, time
from pathlib import Path
from dealwright.errors import run_stage

def main():
    with Path("starts").open("a") as starts:
        starts.write(f"{os.getpid()}\\n")
    while not Path("go").exists():
        time.sleep(0.1)
    Path("a.txt").write_text("whole")

run_stage(main)
"""
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}


def dvc(project: Path, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dvc", *words], cwd=project, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )


def test_no_stage_joins_one_whose_dvc_was_killed(tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text(PIPELINE)
    (tmp_path / "work.py").write_text(WORK)
    assert dvc(tmp_path, "init", "--no-scm", "-q").wait() == 0
    first = dvc(tmp_path, "repro")
    starts = tmp_path / "starts"
    wait_for(lambda: starts.exists() and starts.read_text())
    first.send_signal(signal.SIGKILL)
    first.wait()
    second = dvc(tmp_path, "repro")
    _, said = second.communicate(timeout=600)
    assert second.returncode != 0
    assert "error: another stage is still at work in this folder" in said
    (tmp_path / "go").touch()
    wait_for((tmp_path / "a.txt").exists)
    orphan = int(starts.read_text())
    wait_for(lambda: not psutil.pid_exists(orphan))
    assert dvc(tmp_path, "repro").wait() == 0
    assert (tmp_path / "a.txt").read_text() == "whole"
    assert len(starts.read_text().split()) == 2
