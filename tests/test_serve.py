"""The served deployments: one run at a time, its lines as they come, and what a cancelled or killed one leaves."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import yaml

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)
from dealwright.errors import DealwrightError
from dealwright.params import load_params
from dealwright.profiles import set_params
from tests.served import Service, cancel, lines, mlflow_states, scheduled, served, start, state
from tests.servers import user_interfaces
from tests.standin import PATIENCE, ROOT, make_project, wait_for


@pytest.fixture
def project(tmp_path: Path, made_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_project(tmp_path / "my project", made_store)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


@pytest.fixture
def serving(project: Path, server: None) -> Iterator[Service]:
    """Serve the stand-in; its training waits as long as the file `busy` is there, and writes its process into it."""
    (project / "busy").touch()
    with served(project, BUSY=str(project / "busy")) as service:
        yield service


@pytest.mark.slow
def test_a_second_run_waits_and_a_cancelled_one_leaves_nothing_behind(project: Path, serving: Service) -> None:
    first = start("reproduce/reproduce")
    training = wait_for(lambda: int((project / "busy").read_text() or 0))
    second = start("reproduce/reproduce")
    wait_for(lambda: [line for line in lines(first) if line == "step 1"])
    assert "step 2" not in lines(first)
    wait_for(lambda: "1 scheduled runs skipped (at capacity)" in serving.said())
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
def test_a_run_whose_process_is_killed_holds_no_slot(project: Path, serving: Service) -> None:
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
def test_stopping_the_service_cancels_the_run_that_is_going_on(project: Path, serving: Service) -> None:
    run = start("reproduce/reproduce")
    training = wait_for(lambda: int((project / "busy").read_text() or 0))
    serving.process.send_signal(signal.SIGTERM)
    assert serving.process.wait(PATIENCE) == 0
    assert not psutil.pid_exists(training)
    assert state(run).is_cancelled()
    assert mlflow_states(project) == ["KILLED"]


@pytest.mark.slow
def test_the_schedule_starts_retrain_by_itself(project: Path, tmp_path: Path) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    set_params({"retrain.cron": "* * * * *", "retrain.minimum_gain": 0.25}, project / "params.yaml", "the test")
    with (
        user_interfaces(project, tmp_path / "prefect") as pages,
        temporary_settings({PREFECT_API_URL: f"{pages.prefect}/api"}),
        served(project),
    ):
        run = wait_for(lambda: next((run for run in scheduled("retrain/retrain") if run.start_time), None))
        assert run.parameters == {"minimum_gain": 0.25}
        wait_for(lambda: "step 2" in lines(run.id))


def test_serving_without_a_prefect_server_says_how_to_start_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import serve

    monkeypatch.setattr(serve, "START_SECONDS", 0)
    with pytest.raises(DealwrightError, match=r"no Prefect server answers at http://127\.0\.0\.1:9/api .*`make ui`"):
        serve.await_server("http://127.0.0.1:9/api")


def test_serving_says_once_that_the_server_does_not_answer_yet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows import serve

    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("flows.serve.time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))
    with pytest.raises(KeyboardInterrupt):
        serve.await_server("http://127.0.0.1:9/api")
    first, second = capsys.readouterr().out.splitlines()
    assert first == "serving one run at a time for the Prefect server at http://127.0.0.1:9/api"
    assert "no answer yet (" in second and second.endswith("; `make ui` starts one")


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
