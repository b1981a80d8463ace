"""A store of MLflow that cannot be used is one line within seconds, never a wait of minutes."""

import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dealwright.tracking import connection
from dealwright.tracking.connection import TrackingError, connect, store
from tests.servers import answering

ROOT = Path(__file__).parents[1]
FILE = "that file must be a database which this user may read and write and no other process keeps locked"


@contextmanager
def silence() -> Iterator[str]:
    """Take connections and never say a word, and yield the address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def refusal(uri: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(connection, "ANSWER_SECONDS", 0.5)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(TrackingError) as caught:
        connect()
    return str(caught.value)


def test_a_server_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal("http://127.0.0.1:9", monkeypatch)
    assert said.startswith("cannot use MLflow at http://127.0.0.1:9: ")
    assert said.endswith("Connection refused>; start that server, or unset MLFLOW_TRACKING_URI")


def test_a_server_that_never_answers_or_only_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with silence() as address:
        assert "timed out" in refusal(address, monkeypatch)
    with answering(502) as address:
        assert "HTTP Error 502" in refusal(address, monkeypatch)


def test_a_server_that_wants_a_login_first_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(401) as address:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address.replace("//", "//user:secret@"))
        connect()


def test_a_password_in_the_address_is_not_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refusal("http://user:secret@127.0.0.1:9", monkeypatch)
    assert "secret" not in said
    assert "http://127.0.0.1:9" in said


def test_a_locked_database_is_one_line_and_no_wait_of_minutes(
    empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(empty_store)) as other:
        other.execute("BEGIN EXCLUSIVE")
        said = refusal(f"sqlite:///{empty_store}", monkeypatch)
    assert said == f"cannot use MLflow at sqlite:///{empty_store}: database is locked; {FILE}"


@pytest.mark.parametrize(
    ("name", "reason"),
    [("folder", "unable to open database file"), ("text", "file is not a database"), ("text/x.db", "File exists")],
)
def test_what_is_no_database_is_named(name: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text").write_text("not a database, " * 100)
    assert reason in refusal(f"sqlite:///{tmp_path / name}", monkeypatch)


def test_a_kill_while_the_database_is_made_leaves_none_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    program = "from dealwright.tracking.connection import connect; connect()"
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    while process.poll() is None and not any(left.stat().st_size > 20_000 for left in tmp_path.glob(".mlflow.db.*")):
        time.sleep(0.01)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert {left.name.startswith(".mlflow.db.") for left in tmp_path.iterdir()} == {True}
    assert connect().search_experiments()[0].name == "Default"
    assert [left.name for left in tmp_path.iterdir()] == ["mlflow.db"]


def test_a_database_with_half_of_the_tables_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(sqlite3.connect(tmp_path / "half.db")) as half:
        half.execute("CREATE TABLE datasets (dataset_uuid TEXT)")
    said = refusal(f"sqlite:///{tmp_path / 'half.db'}", monkeypatch)
    assert "table datasets already exists" in said
    assert said.endswith(FILE)


def test_a_read_only_database_is_read_and_what_cannot_be_written_is_one_line(
    empty_store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///file:{empty_store}?mode=ro&uri=true")
    with store() as client:
        assert client.search_registered_models() == []
    with pytest.raises(TrackingError, match=rf"attempt to write a readonly database.*; {FILE}$"), store() as client:
        client.create_registered_model("a")
    assert capsys.readouterr().err == ""


def test_an_address_of_no_known_kind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "gopher://there")
    said = r"^cannot use MLflow at gopher://there: .*; see MLFLOW_TRACKING_URI$"
    with pytest.raises(TrackingError, match=said), store():
        pass
