"""The deployments of prefect.yaml, run by a worker of a process pool in a clone of its own."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)
from tests.served import cancel, lines, start, state
from tests.servers import user_interfaces
from tests.standin import PATIENCE, ROOT, git, make_project, wait_for


def make_repository(folder: Path, store: Path) -> Path:
    """Put the stand-in's two stages into a clone of the whole project, and commit that."""
    standin = make_project(folder.parent / "stand-in", store)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    (folder / "dvc.lock").unlink()
    for name in ("params.yaml", "dvc.yaml", "train.py", "products.csv", "evaluation.json"):
        shutil.copy(standin / name, folder)
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "The stand-in's stages")
    return folder


@contextmanager
def working(folder: Path, environment: dict[str, str]) -> Iterator[None]:
    """Run a worker of the pool from an empty folder, with its log there."""
    folder.mkdir()
    command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "trainers"]
    with (folder / "worker.log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


@pytest.mark.slow
def test_a_worker_runs_one_at_a_time_in_a_clone_that_it_keeps_and_a_cancelled_run_is_gone(
    tmp_path: Path, made_store: Path
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    repository, clone = make_repository(tmp_path / "repository", made_store), tmp_path / "clone"
    busy = tmp_path / "busy"
    busy.touch()
    with (
        user_interfaces(repository, tmp_path / "prefect") as pages,
        temporary_settings({PREFECT_API_URL: f"{pages.prefect}/api"}),
    ):
        environment = {
            **os.environ,
            "PREFECT_API_URL": f"{pages.prefect}/api",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "MLFLOW_TRACKING_URI": pages.mlflow,
            "DEALWRIGHT_REPOSITORY": str(repository),
            "DEALWRIGHT_FOLDER": str(clone),
            "DEALWRIGHT_POOL": "trainers",
            "BUSY": str(busy),
        }
        environment.pop("PYTHONPATH", None)  # the worker's code is that of its clone

        def run(*module: str) -> None:
            subprocess.run([sys.executable, "-m", *module], cwd=repository, env=environment, check=True)

        def ended(flow_run: Any) -> tuple[str | None, str | None]:
            wait_for(lambda: state(flow_run).is_final())
            return state(flow_run).name, state(flow_run).message

        run("prefect", "work-pool", "create", "trainers", "--type", "process")
        run("prefect", "work-pool", "set-concurrency-limit", "trainers", "1")
        run("prefect", "--no-prompt", "deploy", "--all")
        with working(tmp_path / "machine", environment):
            first = start("reproduce/reproduce")
            training = wait_for(lambda: int(busy.read_text() or 0))
            assert psutil.Process(training).cwd() == str(clone)
            wait_for(lambda: "step 1" in lines(first))
            second = start("reproduce/reproduce")
            wait_for(lambda: state(second).name == "Late")
            cancel(first)
            assert ended(first)[0] == "Cancelled"
            wait_for(lambda: not psutil.pid_exists(training))
            busy.unlink()
            assert ended(second) == ("Completed", None)

            run("dealwright", "promote", "@candidate", "--force", "the first")
            third = start("retrain/retrain")
            same = "the catalogue is what the champion was trained on, so nothing was trained"
            assert ended(third) == ("Unchanged", same)

            kept = clone / "data/work/train/kept"
            kept.touch()
            for change in ("one", "two"):
                (repository / "train.py").write_text(f"# {change}\n{(repository / 'train.py').read_text()}")
                git(repository, "commit", "-q", "-a", "-m", change)
            fourth = start("reproduce/reproduce")
            assert ended(fourth) == ("Completed", None)
            assert (clone / "train.py").read_text() == (repository / "train.py").read_text()
            assert kept.exists()
