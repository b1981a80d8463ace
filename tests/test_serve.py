"""The served deployments: one run at a time, its lines as they come, and what a cancelled or killed one leaves."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)
from dealwright.errors import DealwrightError
from dealwright.params import load_params
from tests.standin import PATIENCE, ROOT, make_project, wait_for


@pytest.fixture
def project(tmp_path: Path, made_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_project(tmp_path / "my project", made_store)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


@pytest.fixture
def serving(project: Path, server: None) -> Iterator[subprocess.Popen[bytes]]:
    """Serve the stand-in; its training waits as long as the file `busy` is there, and writes its process into it."""
    from prefect.settings import PREFECT_API_URL

    (project / "busy").touch()
    environment = {
        "PYTHONPATH": str(ROOT),
        "PREFECT_API_URL": str(PREFECT_API_URL.value()),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        "BUSY": str(project / "busy"),
    }
    with (project.parent / "serve.log").open("w+") as log:
        command = [sys.executable, "-m", "flows.serve"]
        process = subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log)
        wait_for(lambda: "retrain/retrain" in Path(log.name).read_text())
        yield process
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)


@pytest.mark.slow
def test_a_second_run_waits_and_a_cancelled_one_leaves_nothing_behind(
    project: Path, serving: subprocess.Popen[bytes]
) -> None:
    first = start("reproduce/reproduce")
    training = wait_for(lambda: int((project / "busy").read_text() or 0))
    second = start("reproduce/reproduce")
    wait_for(lambda: [line for line in lines(first) if line == "step 1"])
    assert "step 2" not in lines(first)
    wait_for(lambda: "1 scheduled runs skipped (at capacity)" in (project.parent / "serve.log").read_text())
    assert state(second).is_scheduled()
    tree = psutil.Process(training).parents()
    assert any("dvc" in " ".join(process.cmdline()) for process in tree)

    cancel(first)
    wait_for(lambda: state(first).is_cancelled())
    assert not psutil.pid_exists(training)
    assert mlflow_states(project) == ["KILLED"]

    (project / "busy").unlink()
    wait_for(lambda: state(second).is_final())
    assert state(second).is_completed(), state(second).message
    assert mlflow_states(project) == ["FINISHED", "KILLED"]


@pytest.mark.slow
def test_a_run_whose_process_is_killed_holds_no_slot(project: Path, serving: subprocess.Popen[bytes]) -> None:
    first = start("reproduce/reproduce")
    training = wait_for(lambda: int((project / "busy").read_text() or 0))
    tree = psutil.Process(training).parents()
    (engine,) = [process for process in tree if "prefect.engine" in process.cmdline()]
    second = start("reproduce/reproduce")
    engine.kill()
    wait_for(lambda: state(first).is_crashed())
    wait_for(lambda: not psutil.pid_exists(training))
    (project / "busy").unlink()
    wait_for(lambda: state(second).is_final())
    assert state(second).is_completed(), state(second).message


@pytest.mark.slow
def test_stopping_the_service_cancels_the_run_that_is_going_on(
    project: Path, serving: subprocess.Popen[bytes]
) -> None:
    run = start("reproduce/reproduce")
    training = wait_for(lambda: int((project / "busy").read_text() or 0))
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(PATIENCE) == 0
    assert not psutil.pid_exists(training)
    assert state(run).is_cancelled()
    assert mlflow_states(project) == ["KILLED"]


def test_serving_without_a_prefect_server_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import serve

    monkeypatch.setattr(serve, "START_SECONDS", 0)
    with pytest.raises(DealwrightError, match=r"no Prefect server answers at http://127\.0\.0\.1:9/api .*`make ui`"):
        serve.await_server("http://127.0.0.1:9/api")


def test_the_deployments_for_workers_are_those_that_are_served() -> None:
    deployments = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]
    assert {entry["name"]: entry["entrypoint"] for entry in deployments} == {
        "reproduce": "flows/reproduce.py:reproduce",
        "retrain": "flows/retrain.py:retrain",
    }
    schedules = [schedule["cron"] for entry in deployments for schedule in entry.get("schedules", [])]
    retrain = load_params(ROOT / "params.yaml").retrain
    assert schedules == [retrain.cron]
    assert deployments[1]["parameters"] == {"minimum_gain": retrain.minimum_gain}


def start(deployment: str) -> Any:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.create_flow_run_from_deployment(client.read_deployment_by_name(deployment).id).id


def state(run: Any) -> Any:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.read_flow_run(run).state


def cancel(run: Any) -> None:
    """Do what the button in Prefect's pages does."""
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelling

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, Cancelling())


def lines(run: Any) -> list[str]:
    """Return what the run and its tasks have logged so far."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    async def read() -> list[str]:
        async with get_client() as client:
            found = await client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run])), limit=200)
            return [entry.message for entry in found]

    return asyncio.run(read())


def mlflow_states(project: Path) -> list[str]:
    """Return the states of the project's runs in MLflow."""
    from dealwright.tracking.connection import connect, experiment_id

    client = connect()
    return sorted(run.info.status for run in client.search_runs([experiment_id(client, "dealwright")]))
