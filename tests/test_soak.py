"""The smoke profile killed at random moments and run again, and run in other surroundings: `make soak`.

SOAK_KILLS says how often each stage is killed (20 where it is not set), SOAK_SEED draws other moments.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from types import MappingProxyType

import pytest
import yaml

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[1]
STAGES = list(yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"])
KILLS = int(os.environ.get("SOAK_KILLS", "20"))
PYTHON = Path(sys.executable)


def run(
    project: Path, *command: str, seconds: float | None = None, environment: Mapping[str, str] = MappingProxyType({})
) -> float:
    """Run a command of the environment to its end, or kill it with all that it started; return the seconds it took."""
    surroundings = {
        **{name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"},
        **{"PATH": os.pathsep.join([str(PYTHON.parent), os.environ["PATH"]]), "PYTHONPATH": str(project)},
        **environment,
    }
    started = time.monotonic()
    process = subprocess.Popen(
        [str(PYTHON), "-m", *command],
        cwd=project,
        env=surroundings,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    else:
        assert process.returncode == 0, f"{' '.join(command)}: {output[-2000:]}"
    return time.monotonic() - started


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone that has run the smoke profile once."""
    folder = tmp_path_factory.mktemp("soak") / "project"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    run(folder, "dealwright", "profile", "smoke")
    run(folder, "dvc", "repro")
    return folder


def outputs(project: Path) -> dict[str, str]:
    """Return the hash of every file that the stages make, half-written ones too."""
    return {
        str(file.relative_to(project)): hashlib.sha256(file.read_bytes()).hexdigest()
        for place in ("data/models", "data/rollouts", "data", "reports")
        for file in sorted((project / place).rglob("*") if place != "data" else (project / place).glob("*"))
        if file.is_file()
    }


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_killed_at_any_moment_ends_with_the_same_files(stage: str, project: Path) -> None:
    before, lock = outputs(project), (project / "dvc.lock").read_bytes()
    command = ("dvc", "repro", "--force", "--single-item", stage)
    took = run(project, *command)
    assert (outputs(project), (project / "dvc.lock").read_bytes()) == (before, lock)
    draw = Random(f"{os.environ.get('SOAK_SEED', '0')}/{stage}")
    moments = [draw.uniform(0, took) for _ in range(KILLS)]
    for moment in moments:
        run(project, *command, seconds=moment)
        run(project, *command)
        assert (outputs(project), (project / "dvc.lock").read_bytes()) == (before, lock), (
            f"killed after {moment:.2f} s"
        )
    print(f"\n{stage}: {KILLS} kills within {took:.1f} s, the same {len(before)} files")


def versions(project: Path) -> Mapping[tuple[str, str], int]:
    """Count the versions of each checkpoint, and the models behind them by whether they are whole."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{project}/mlflow.db")
    models = client.search_logged_models([found.experiment_id for found in client.search_experiments()])
    found = client.search_model_versions("name = 'dealwright-buyer'")
    return Counter(
        [("version", version.tags["step"]) for version in found] + [("model", str(model.status)) for model in models]
    )


def test_a_registration_killed_at_any_moment_leaves_no_double_and_no_half(
    project: Path,
) -> None:
    took = run(project, "dealwright", "register")
    whole = versions(project)
    assert set(whole.values()) == {1, len(whole) - 1}
    draw = Random(os.environ.get("SOAK_SEED", "0"))
    for _ in range(KILLS):
        moment = draw.uniform(0, took)
        shutil.rmtree(project / "mlartifacts")
        (project / "mlflow.db").unlink()
        run(project, "dealwright", "register", seconds=moment)
        run(project, "dealwright", "register")
        assert versions(project) == whole, f"killed at {moment:.2f} s"
    print(f"\nregister: {KILLS} kills within {took:.1f} s, the same {len(whole) - 1} versions")


@pytest.mark.parametrize(
    "surroundings",
    [
        {},
        {"PYTHONHASHSEED": "1"},
        {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"},
        {"LC_ALL": "de_DE.UTF-8", "TZ": "America/St_Johns"},
        {"LC_ALL": "C", "PYTHONHASHSEED": "4294967295"},
    ],
    ids=str,
)
def test_a_rerun_gives_the_same_lock_in_other_surroundings(surroundings: dict[str, str], project: Path) -> None:
    before, lock = outputs(project), (project / "dvc.lock").read_bytes()
    took = run(project, "dvc", "repro", "--force", environment=surroundings)
    assert (outputs(project), (project / "dvc.lock").read_bytes()) == (before, lock)
    print(f"\n{surroundings}: {took:.0f} s, the same dvc.lock")


def test_a_rerun_gives_the_same_lock_in_another_folder(project: Path, tmp_path: Path) -> None:
    moved = tmp_path / "an other place"
    shutil.copytree(project, moved, symlinks=True)
    run(moved, "dvc", "repro", "--force")
    assert (outputs(moved), (moved / "dvc.lock").read_bytes()) == (
        outputs(project),
        (project / "dvc.lock").read_bytes(),
    )
