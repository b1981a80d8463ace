"""Registered versions play for real: against each other, at a person's table, and behind MLflow's own server."""

import json
import os
import shutil
import socket
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from dealwright import players
from dealwright.cli import main
from dealwright.game import Role, parse_message
from dealwright.processes import group
from dealwright.tracking import contest
from dealwright.tracking.connection import TrackingError, connect
from dealwright.tracking.contest import compare_versions
from dealwright.tracking.promotion import judge, promote, rollback
from dealwright.tracking.registry import register
from tests.registry import MODEL, enter_project, write_scenarios
from tests.tiny import tiny_params, tiny_scenarios

ROOT = Path(__file__).parents[1]
PARAMS = tiny_params(select={"rounds": 1, "resamples": 200})
RANDOM, TAUGHT = 1, 2
LAMP = {"title": "Desk lamp", "list_price": 100, "budget": 80.0, "category": "Home"}
JUNK: list[tuple[list[dict[str, Any]], str]] = [
    ([{**LAMP, "messages": [{"role": "critic", "content": "hm"}]}], "expected the buyer, got 'critic'"),
    ([LAMP, {**LAMP, "budget": -1.0}], "dialogue 1: expected budget in dollars from 0.01 to 1,000,000,000, got -1.0"),
    ([{"title": "Desk lamp"}], "Model is missing inputs ['list_price', 'budget']"),
    ([{**LAMP, "title": None}], "dialogue 0: expected a title, got None"),
    ([{**LAMP, "messages": "hello"}], "dialogue 0: expected messages as a list, got 'hello'"),
    ([{**LAMP, "messages": [{"role": 7, "content": None}]}], "message 1: expected a role and a content, got"),
    ([], "Model is missing inputs"),
]


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, base_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project that has registered a random model as version 1, and the base that knows the game as 2."""
    folder = enter_project(tmp_path / "project", empty_store, monkeypatch)
    shutil.copy(ROOT / "params.yaml", folder)
    for step, model in ((5, base_folder), (10, ROOT / "data/base")):
        checkpoint = folder / f"data/models/checkpoints/step-{step:04d}"
        shutil.rmtree(checkpoint)
        shutil.copytree(model, checkpoint)
    register(PARAMS)
    return folder


def test_a_model_that_knows_the_game_beats_a_random_one_on_products_that_neither_saw(project: Path) -> None:
    compared = compare_versions(RANDOM, TAUGHT, PARAMS)
    assert (compared.products, compared.left_out) == (3, 0)
    assert compared.reward.champion is not None
    assert compared.reward.champion.value == -1.0
    assert compared.reward.candidate.games == 3
    assert judge(compared, minimum_gain=0.1)[0]
    assert not judge(compare_versions(TAUGHT, RANDOM, PARAMS), minimum_gain=0.0)[0]


def test_the_games_are_ones_that_selection_has_not_played(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []

    def play_games(*arguments: Any) -> pl.DataFrame:
        rounds.extend(arguments[4])
        return players.play_games(*arguments)

    monkeypatch.setattr(contest, "play_games", play_games)
    compared = compare_versions(None, RANDOM, tiny_params(select={"rounds": 2, "resamples": 200}))
    assert compared.reward.candidate.games == 6
    assert rounds == [2, 3]


def test_products_that_a_version_was_trained_on_are_left_out_of_later_comparisons(project: Path) -> None:
    scenarios = [replace(scenario, split="validation") for scenario in tiny_scenarios(8)]
    write_scenarios(project, scenarios[3:])
    compared = compare_versions(None, RANDOM, PARAMS)
    assert (compared.products, compared.left_out) == (3, 2)
    write_scenarios(project, scenarios[:5])
    with pytest.raises(TrackingError, match="all 5 validation products were trained on by version 1 or 2"):
        compare_versions(RANDOM, TAUGHT, PARAMS)


def test_a_version_whose_files_are_gone_says_how_they_come_back(project: Path) -> None:
    shutil.rmtree(project / "mlartifacts")
    with pytest.raises(
        TrackingError, match=r"files of models:/dealwright-buyer/1 cannot be had: .*; run `dealwright register`"
    ):
        compare_versions(RANDOM, TAUGHT, PARAMS)
    register(PARAMS)
    assert compare_versions(None, RANDOM, PARAMS).products == 3


def test_a_version_without_its_list_of_products_is_not_compared(project: Path) -> None:
    for file in project.glob("mlartifacts/**/training_products.json"):
        file.unlink()
    with pytest.raises(TrackingError, match="version 1 does not say which products it was trained on"):
        compare_versions(None, RANDOM, PARAMS)
    register(PARAMS)
    assert compare_versions(None, RANDOM, PARAMS).products == 3


def test_a_person_sells_to_a_registered_version(project: Path) -> None:
    result = CliRunner().invoke(main, ["play", "--against", "@candidate", "--seed", "1"], input="quit\n")
    assert result.exit_code == 0
    assert f"(loading version 2 of {MODEL})" in result.stderr
    assert "buyer> [BUY]" in result.stdout
    assert "what the other side thought:" in result.stdout


def test_the_champion_answers_through_pyfunc_within_its_budget(project: Path) -> None:
    import mlflow

    connect().set_registered_model_alias(MODEL, "champion", str(TAUGHT))
    buyer = mlflow.pyfunc.load_model(f"models:/{MODEL}@champion")
    (answer,) = buyer.predict([LAMP])
    message = parse_message(answer, Role.BUYER)
    assert message is not None
    assert message.action.price is not None
    assert message.action.price <= 80.0


@contextmanager
def served(path: str, port: int, command: list[str], log: Path) -> Iterator[str]:
    """Run one of MLflow's servers on loopback, wait until it answers, and yield its address."""
    # MLflow starts uvicorn by its name, so the environment's programs come first, as when it is activated.
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    settings = {"PYTHONPATH": str(ROOT), "PATH": programs, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    module = [sys.executable, "-m", "mlflow", *command, "--host", "127.0.0.1", "--port", str(port)]
    with log.open("w", encoding="utf-8") as output, group(module, settings, output) as process:
        deadline = time.monotonic() + 300
        while process.poll() is None and time.monotonic() < deadline and not answers(f"http://127.0.0.1:{port}{path}"):
            time.sleep(0.5)
        assert answers(f"http://127.0.0.1:{port}{path}"), log.read_text()
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=5):
            return True
    except OSError:
        return False


def ask(address: str, dialogues: Any) -> tuple[int, dict[str, Any]]:
    body = json.dumps({"dataframe_records": dialogues}).encode()
    request = urllib.request.Request(f"{address}/invocations", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.slow
def test_mlflow_serves_the_champion_over_http(project: Path, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    connect().set_registered_model_alias(MODEL, "champion", str(TAUGHT))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{project}/mlflow.db")
    command = ["models", "serve", "--model-uri", f"models:/{MODEL}@champion", "--env-manager", "local"]
    said = "Thought: low\nTalk: hello\nAction: [BUY] $50.00"
    asked = [{"role": "assistant", "content": said}, {"role": "user", "content": "Talk: no\nAction: [SELL] $90.00"}]
    with served("/ping", port, command, project / "server.log") as server:
        status, answer = ask(server, [LAMP, {**LAMP, "messages": asked}])
        assert status == 200
        assert [parse_message(text, Role.BUYER) is None for text in answer["predictions"]] == [False, False]
        with ThreadPoolExecutor(8) as threads:
            for status, answer in threads.map(lambda _: ask(server, [LAMP]), range(16)):
                assert (status, len(answer["predictions"])) == (200, 1)
        for junk, reason in JUNK:
            status, answer = ask(server, junk)
            assert (status, reason in answer["message"]) == (400, True), answer
        assert ask(server, [{**LAMP, "colour": "red", "seed": [1, {"a": None}]}])[0] == 200


@pytest.mark.slow
def test_the_registry_works_through_a_tracking_server_that_keeps_the_files(
    project: Path, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    store = f"sqlite:///{shutil.copy(tmp_path / 'empty.db', tmp_path / 'server')}"
    command = ["server", "--backend-store-uri", store, "--workers", "1"]
    command += ["--artifacts-destination", str(tmp_path / "server")]
    with served("/health", port, command, tmp_path / "server.log") as server:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", server)
        registered = json.loads(CliRunner().invoke(main, ["register", "--json"]).stdout)
        assert [version["version"] for version in registered["versions"]] == [RANDOM, TAUGHT]
        assert promote(RANDOM, PARAMS, 0.0).promoted
        assert promote(TAUGHT, PARAMS, 0.1).reason.endswith("over version 1; overshoot and leaks no worse")
        assert rollback(PARAMS).version == RANDOM
        shutil.rmtree(tmp_path / "server/1")
        with pytest.raises(TrackingError, match="files of models:/dealwright-buyer/1 cannot be had"):
            compare_versions(None, RANDOM, PARAMS)
    assert list((tmp_path / "scratch").iterdir()) == []
