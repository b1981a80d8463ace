"""MLflow sees every training and every checkpoint, and its failures cost nothing but a warning."""

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from dealwright.errors import DealwrightError
from dealwright.params import Params, load_params
from dealwright.tracking import training_run
from dealwright.tracking.connection import TrackingError, connect, experiment_id, tracking_uri
from dealwright.tracking.products import products_hash
from dealwright.tracking.registry import Registration, register
from dealwright.tracking.revisions import hash_file, hash_folder
from tests.registry import MODEL, enter_project, write_checkpoint, write_selection

ROOT = Path(__file__).parents[1]
WORK = Path("data/work/train-0")


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a folder that has trained two checkpoints of which the second was selected."""
    return enter_project(tmp_path / "my project #1", empty_store, monkeypatch)


@pytest.fixture
def params() -> Params:
    return load_params(ROOT / "params.yaml")


def steps_and_versions(registration: Registration) -> list[tuple[int, int, bool]]:
    return [(version.step, version.version, version.new) for version in registration.versions]


def candidate() -> Any:
    return connect().get_model_version_by_alias(MODEL, "candidate")


def runs(params: Params) -> list[Any]:
    client = connect()
    return list(client.search_runs([experiment_id(client, params.tracking.experiment)]))


def test_the_default_store_lies_in_the_project_and_an_address_overrides_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert tracking_uri() == f"sqlite:///{tmp_path}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert tracking_uri() == "http://127.0.0.1:5000"


def test_every_checkpoint_becomes_a_version_with_its_validation_metrics(project: Path, params: Params) -> None:
    assert steps_and_versions(register(params)) == [(5, 1, True), (10, 2, True)]
    tags = candidate().tags
    assert tags["step"] == "10"
    assert tags["checkpoint_hash"] == hash_folder(project / "data/models/checkpoints/step-0010")
    assert tags["validation_reward"] == "0.4"
    assert (tags["validation_reward_low"], tags["validation_reward_high"], tags["validation_reward_games"]) == (
        "0.3",
        "0.5",
        "64",
    )
    assert tags["validation_overshoot_rate"] == "0.0"
    assert tags["validation_guard_rate"] == "0.0"
    assert tags["scenarios_hash"] == hash_file(project / "data/scenarios.parquet")
    assert tags["training_products"] == "5"
    assert tags["training_products_hash"] == products_hash(["p4", "p3", "p2", "p1", "p0"])
    assert candidate().description == "Step 10; validation reward 0.4 [0.3, 0.5]."


def test_the_candidate_downloads_as_a_plain_hugging_face_folder_without_pickles(project: Path, params: Params) -> None:
    from mlflow.artifacts import download_artifacts

    register(params)
    folder = Path(download_artifacts(f"models:/{MODEL}@candidate"))
    assert {path.name for path in folder.rglob("*")} - {"registered_model_meta"} == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "MLmodel",
        "serving_model.py",
        "requirements.txt",
        "python_env.yaml",
        "README.md",
        "training_products.json",
    }
    assert (folder / "model.safetensors").read_bytes() == b"weights10"
    assert "| mean reward | 0.400 | [0.300, 0.500] |" in (folder / "README.md").read_text()
    assert json.loads((folder / "training_products.json").read_text()) == ["p0", "p1", "p2", "p3", "p4"]
    assert folder.is_relative_to(project / "mlartifacts")


def test_registering_again_adds_nothing(project: Path, params: Params) -> None:
    register(params)
    assert steps_and_versions(register(params)) == [(5, 1, False), (10, 2, False)]
    assert len(runs(params)) == 1


def test_a_new_selection_moves_the_alias_and_the_metrics_only(project: Path, params: Params) -> None:
    register(params)
    write_selection(project, selected=5, reward=0.45)
    assert steps_and_versions(register(params)) == [(5, 1, False), (10, 2, False)]
    assert candidate().tags["step"] == "5"
    assert candidate().tags["validation_reward"] == "0.45"


def test_changed_weights_become_versions_beside_the_old(project: Path, params: Params) -> None:
    register(params)
    write_checkpoint(project, 10, b"other")
    assert steps_and_versions(register(params)) == [(5, 1, False), (10, 3, True)]
    assert candidate().version == 3


def test_a_deleted_database_is_filled_again(project: Path, params: Params, empty_store: Path) -> None:
    from mlflow.artifacts import download_artifacts

    register(params)
    shutil.copy(empty_store, project / "mlflow.db")
    assert steps_and_versions(register(params)) == [(5, 1, True), (10, 2, True)]
    assert (Path(download_artifacts(f"models:/{MODEL}@candidate")) / "config.json").is_file()


def test_deleted_artifacts_are_put_back_under_the_same_version(project: Path, params: Params) -> None:
    from mlflow.artifacts import download_artifacts

    register(params)
    connect().set_registered_model_alias(MODEL, "champion", "1")
    shutil.rmtree(project / "mlartifacts")
    assert steps_and_versions(register(params)) == [(5, 1, False), (10, 2, False)]
    assert (Path(download_artifacts(f"models:/{MODEL}@champion")) / "model.safetensors").read_bytes() == b"weights5"


def test_a_moved_project_registers_where_it_is_now_and_keeps_its_aliases(
    project: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.artifacts import download_artifacts

    register(params)
    connect().set_registered_model_alias(MODEL, "champion", "1")
    moved = project.rename(project.with_name("elsewhere"))
    monkeypatch.chdir(moved)
    assert steps_and_versions(register(params)) == [(5, 3, True), (10, 4, True)]
    assert Path(download_artifacts(f"models:/{MODEL}@champion")).is_relative_to(moved)
    assert not project.exists()
    assert steps_and_versions(register(params)) == [(5, 3, False), (10, 4, False)]


def test_a_registration_killed_at_any_moment_is_completed_by_the_next(project: Path, params: Params) -> None:
    from mlflow import MlflowClient

    class Killed(Exception):
        pass

    for method in (
        "log_model_artifacts",
        "finalize_logged_model",
        "create_model_version",
        "set_registered_model_alias",
    ):

        def die(self: object, *_: object, **__: object) -> None:
            raise Killed

        with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
            patch.setattr(MlflowClient, method, die)
            register(params)
    assert [version.version for version in register(params).versions] == [1, 2]
    client = connect()
    models = client.search_logged_models([experiment_id(client, params.tracking.experiment)])
    assert sorted((model.name, str(model.status)) for model in models) == [
        ("step-10", "READY"),
        ("step-5", "READY"),
    ]


def test_versions_belong_to_the_run_that_trained_them(project: Path, params: Params) -> None:
    with training_run(params, WORK, 0) as run:
        run.log_step(1, {"reward": 0.1, "loss": None})
        run.log_step(2, {"reward": 0.25, "loss": 0.5})
    registration = register(params)
    assert registration.run_id == run.run_id
    assert registration.training_hours is not None
    assert candidate().run_id == run.run_id


def test_a_lost_run_is_rebuilt_from_the_curves(project: Path, params: Params) -> None:
    registration = register(params)
    assert registration.training_hours is None
    run = connect().get_run(registration.run_id)
    assert run.data.params["train.steps"] == str(params.train.steps)
    history = connect().get_metric_history(registration.run_id, "reward")
    assert [(point.step, point.value) for point in history] == [(1, 0.1), (2, 0.25)]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("reports/selection.json", "reports/selection.json is missing or unreadable; run `dvc repro` first"),
        ("reports/training.csv", "reports/training.csv is missing or unreadable; run `dvc repro` first"),
        (
            "data/models/checkpoints/step-0010",
            "names step 10, but data/models/checkpoints lacks it; run `dvc repro` first",
        ),
    ],
)
def test_what_is_missing_is_named(path: str, message: str, project: Path, params: Params) -> None:
    (project / path).rename(project / "gone")
    with pytest.raises(DealwrightError, match=message):
        register(params)


def test_a_training_logs_params_revisions_and_steps_live(project: Path, params: Params) -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"], check=True
    )
    (project / "dvc.lock").write_text("schema: '2.0'\n")
    with training_run(params, WORK, 0) as run:
        run.log_step(1, {"reward": 0.1, "entropy": None})
        assert run.run_id is not None
        live = connect().get_run(run.run_id)
        assert live.info.status == "RUNNING"
        assert live.data.metrics == {"reward": 0.1}
    ended = connect().get_run(run.run_id)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    assert ended.info.status == "FINISHED"
    assert ended.data.params["train.group_size"] == str(params.train.group_size)
    assert ended.data.params["game.regulator.monotone"] == "True"
    assert ended.data.tags["git_revision"] == commit
    assert len(ended.data.tags["dvc_revision"]) == 16


def test_a_failed_training_leaves_a_failed_run(project: Path, params: Params) -> None:
    with pytest.raises(ZeroDivisionError), training_run(params, WORK, 0):
        raise ZeroDivisionError
    assert [run.info.status for run in runs(params)] == ["FAILED"]


def test_a_cancelled_training_closes_its_run(project: Path, params: Params) -> None:
    assert _train_until(signal.SIGTERM, project) == 128 + signal.SIGTERM
    assert [run.info.status for run in runs(params)] == ["KILLED"]


def test_a_killed_training_is_closed_when_the_next_starts(project: Path, params: Params) -> None:
    assert _train_until(signal.SIGKILL, project) == -signal.SIGKILL
    assert [run.info.status for run in runs(params)] == ["RUNNING"]
    with training_run(params, WORK, 0):
        pass
    assert sorted(run.info.status for run in runs(params)) == ["FINISHED", "KILLED"]


def test_a_training_that_goes_on_goes_on_in_its_run_and_logs_no_step_twice(project: Path, params: Params) -> None:
    assert _train_until(signal.SIGKILL, project) == -signal.SIGKILL
    with training_run(params, WORK, 1) as run:
        run.log_step(1, {"reward": 0.0})
        run.log_step(2, {"reward": 0.5})
    (ended,) = runs(params)
    assert (ended.info.run_id, ended.info.status) == (run.run_id, "FINISHED")
    history = connect().get_metric_history(ended.info.run_id, "reward")
    assert [(point.step, point.value) for point in history] == [(1, 0.0), (2, 0.5)]
    with training_run(params, WORK, 0), training_run(params, Path("data/work/train-1"), 2):
        pass
    assert len(runs(params)) == 3


def _train_until(kill: signal.Signals, project: Path) -> int:
    code = f"""
        import time
        from pathlib import Path
        from dealwright.params import load_params
        from dealwright.tracking import training_run
        with training_run(load_params({str(ROOT / "params.yaml")!r}), Path("data/work/train-0"), 0) as run:
            run.log_step(1, {{"reward": 0.0}})
            print("open", flush=True)
            time.sleep(60)
    """
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, cwd=project, env=environment
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"open\n"
    process.send_signal(kill)
    process.stdout.close()
    return process.wait(120)


def test_an_unreachable_server_costs_one_warning_and_no_training(
    project: Path, params: Params, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    started = time.monotonic()
    with training_run(params, WORK, 0) as run:
        run.log_step(1, {"reward": 0.1})
    assert time.monotonic() - started < 60  # with MLflow's own retries it would be minutes
    warnings = capsys.readouterr().err.splitlines()
    (warning,) = [line for line in warnings if line.startswith("warning: ")]
    assert warning.startswith("warning: cannot use MLflow at http://127.0.0.1:9: ")
    assert warning.endswith("; training goes on without it")
    with pytest.raises(TrackingError, match=r"cannot use MLflow at http://127.0.0.1:9: .*; start that server"):
        register(params)


def test_a_server_that_fails_midway_gets_what_it_missed(
    project: Path, params: Params, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mlflow import MlflowClient
    from mlflow.exceptions import MlflowException

    def refuse(self: object, *_: object, **__: object) -> None:
        raise MlflowException("no answer")

    with training_run(params, WORK, 0) as run, pytest.MonkeyPatch.context() as patch:
        patch.setattr(MlflowClient, "log_batch", refuse)
        run.log_step(1, {"reward": 0.1})
        run.log_step(2, {"reward": 0.2})
    assert capsys.readouterr().err.splitlines() == [
        "warning: MLflow: metrics are not taken (no answer); training goes on and offers them again"
    ]
    assert run.run_id is not None
    history = connect().get_metric_history(run.run_id, "reward")
    assert [(point.step, point.value) for point in history] == [(1, 0.1), (2, 0.2)]
