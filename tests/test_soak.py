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


def start(project: Path, command: tuple[str, ...], environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    """Start a command of the environment as the head of a process group."""
    surroundings = {
        **{name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"},
        **{"PATH": os.pathsep.join([str(PYTHON.parent), os.environ["PATH"]]), "PYTHONPATH": str(project)},
        **environment,
    }
    return subprocess.Popen(
        [str(PYTHON), "-m", *command],
        cwd=project,
        env=surroundings,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(project: Path, *command: str, environment: Mapping[str, str] = MappingProxyType({})) -> float:
    """Run a command to its end and return the seconds it took."""
    started = time.monotonic()
    process = start(project, command, environment)
    output, _ = process.communicate()
    assert process.returncode == 0, f"{' '.join(command)}: {output[-2000:]}"
    return time.monotonic() - started


def kill(project: Path, *command: str, after: float, since: Path | None = None) -> bool:
    """Kill a command with all that it started after some seconds; return whether it was still at work.

    The seconds count from its start, or from when a file or folder is there.
    """
    process = start(project, command, {})
    while since is not None and not since.exists() and process.poll() is None:
        time.sleep(0.01)
    try:
        process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return True
    return False


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with the smoke profile's sizes; each test brings it as far as it needs."""
    folder = tmp_path_factory.mktemp("soak") / "project"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    run(folder, "dealwright", "profile", "smoke")
    return folder


def outputs(project: Path) -> dict[str, str]:
    """Return the hash of every file that the stages make, half-written ones too."""
    return {
        str(file.relative_to(project)): hashlib.sha256(file.read_bytes()).hexdigest()
        for place in ("data/models", "data/rollouts", "data", "reports")
        for file in sorted((project / place).rglob("*") if place != "data" else (project / place).glob("*"))
        if file.is_file()
    }


def torn(project: Path, whole: Mapping[str, str]) -> list[str]:
    """Return the files that a kill left half-written at their places; those beside them begin with a dot."""
    return [
        name
        for name, content in outputs(project).items()
        if not any(part.startswith(".") for part in Path(name).parts) and whole.get(name) != content
    ]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_killed_at_any_moment_tears_no_file_and_ends_with_the_same_files(stage: str, project: Path) -> None:
    run(project, "dvc", "repro", stage)
    before, lock = outputs(project), (project / "dvc.lock").read_bytes()
    command = ("dvc", "repro", "--force", "--single-item", stage)
    took = run(project, *command)
    assert (outputs(project), (project / "dvc.lock").read_bytes()) == (before, lock)
    draw = Random(f"{os.environ.get('SOAK_SEED', '0')}/{stage}")
    kills = 0
    while kills < KILLS:
        moment = draw.uniform(0, took)
        if not kill(project, *command, after=moment):
            continue
        kills += 1
        assert torn(project, before) == [], f"killed after {moment:.2f} s"
        run(project, "dealwright", "check")  # as `make reproduce` does; it clears away what a kill of DVC left torn
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
    run(project, "dvc", "repro")
    took = run(project, "dealwright", "register")
    whole = versions(project)
    assert set(whole.values()) == {1, len(whole) - 1}
    draw = Random(os.environ.get("SOAK_SEED", "0"))
    kills = 0
    while kills < KILLS:
        moment = draw.uniform(0, took / 4)
        shutil.rmtree(project / "mlartifacts")
        (project / "mlflow.db").unlink()
        # Before its first artifact is there, most of the time goes into imports.
        kills += kill(project, "dealwright", "register", after=moment, since=project / "mlartifacts")
        run(project, "dealwright", "register")
        assert versions(project) == whole, f"killed {moment:.2f} s after its first artifact"
    print(f"\nregister: {KILLS} kills after its first artifact, the same {len(whole) - 1} versions")


@pytest.mark.parametrize(
    "surroundings",
    [
        {},
        {"PYTHONHASHSEED": "1"},
        {"LC_ALL": "tr_TR.UTF-8", "LANGUAGE": "tr", "TZ": "Asia/Kathmandu"},
        {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "TZ": "America/St_Johns"},
        {"LC_ALL": "C", "PYTHONHASHSEED": "4294967295"},
    ],
    ids=str,
)
def test_a_rerun_gives_the_same_lock_in_other_surroundings(
    surroundings: dict[str, str], locales: dict[str, str], project: Path
) -> None:
    run(project, "dvc", "repro")
    before, lock = outputs(project), (project / "dvc.lock").read_bytes()
    took = run(project, "dvc", "repro", "--force", environment={**locales, **surroundings})
    assert (outputs(project), (project / "dvc.lock").read_bytes()) == (before, lock)
    print(f"\n{surroundings}: {took:.0f} s, the same dvc.lock")


def test_a_rerun_gives_the_same_lock_in_another_folder(project: Path, tmp_path: Path) -> None:
    run(project, "dvc", "repro")
    moved = tmp_path / "an other place"
    shutil.copytree(project, moved, symlinks=True)
    run(moved, "dvc", "repro", "--force")
    assert (outputs(moved), (moved / "dvc.lock").read_bytes()) == (
        outputs(project),
        (project / "dvc.lock").read_bytes(),
    )
