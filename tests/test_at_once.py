"""Two runs of the pipeline at once, by `dvc repro` or as flows: the second is refused, and nothing is torn."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.standin import PATIENCE, ROOT, wait_for

PIPELINE = """
stages:
  a: {cmd: cp source.txt a.txt, deps: [source.txt], outs: [a.txt]}
  b: {cmd: python work.py, deps: [a.txt, work.py], outs: [b.txt]}
"""
# Tells each start, and works for as long as the file `go` is not there.
WORK = """
import time
from pathlib import Path
with Path("starts").open("a") as starts:
    starts.write("b")
with Path("b.txt").open("w") as out:
    out.write("half ")
    out.flush()
    while not Path("go").exists():
        time.sleep(0.1)
    out.write("whole")
"""
DVC = [sys.executable, "-m", "dvc", "repro"]
FLOW = [
    *(sys.executable, "-c"),
    "from flows.stages import reproduce_stages; from prefect import flow; flow(reproduce_stages)()",
]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a fresh DVC repository whose second stage waits."""
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], check=True)
    Path("dvc.yaml").write_text(PIPELINE)
    Path("work.py").write_text(WORK)
    Path("source.txt").write_text("one\n")
    return tmp_path


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(DVC, DVC, id="dvc-dvc"),
        pytest.param(DVC, FLOW, id="dvc-flow", marks=pytest.mark.slow),
        pytest.param(FLOW, DVC, id="flow-dvc", marks=pytest.mark.slow),
        pytest.param(FLOW, FLOW, id="flow-flow", marks=pytest.mark.slow),
    ],
)
def test_the_second_of_two_runs_at_once_is_refused_and_the_first_ends_whole(
    first: list[str], second: list[str], project: Path
) -> None:
    with subprocess.Popen(first, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        try:
            wait_for((project / "b.txt").exists)
            refused = subprocess.run(second, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)
        finally:
            (project / "go").touch()
    assert running.returncode == 0
    assert refused.returncode != 0
    assert "is busy, it is being blocked by:" in refused.stderr
    assert (project / "starts").read_text() == "b"
    assert (project / "b.txt").read_text() == "half whole"
    again = subprocess.run(DVC, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert "Data and pipelines are up to date." in again.stdout
