"""`dealwright ui`: three servers on loopback, announced before they are up, and a reason where one is not."""

import signal
import socket
import urllib.request
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from dealwright.cli import main
from tests.servers import free_ports, user_interfaces


def test_a_port_that_is_taken_is_said_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = CliRunner().invoke(main, ["ui", "--prefect-port", str(port)])
    assert result.stderr == f"error: port {port} is taken; choose another with --prefect-port\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_user_interfaces_answer_on_loopback_and_end_with_ctrl_c(tmp_path: Path) -> None:
    with user_interfaces(tmp_path, tmp_path / "prefect") as pages:
        announced = f"starting Prefect at {pages.prefect}, MLflow at {pages.mlflow}, the reports at {pages.reports}; "
        assert pages.said[0].startswith(announced)
        assert f"{pages.prefect} " in pages.said[1]
        assert pages.said[2:4] == (f"MLflow   {pages.mlflow}\n", f"reports  {pages.reports}\n")
        addresses = (pages.prefect, pages.mlflow, pages.reports)
        for address in addresses:
            with urllib.request.urlopen(address, timeout=30) as page:
                assert page.status == 200
        ports = [address.rpartition(":")[2] for address in addresses]
        listening = {
            (connection.laddr.ip, str(connection.laddr.port))
            for started in psutil.Process(pages.process.pid).children(recursive=True)
            for connection in started.net_connections()
            if connection.status == psutil.CONN_LISTEN
        }
        assert {place for place in listening if place[1] in ports} == {("127.0.0.1", port) for port in ports}
        pages.process.send_signal(signal.SIGINT)
        assert pages.process.stdout is not None
        assert pages.process.stdout.read() == "stopping\n"
        assert pages.process.wait(60) == 0
    for address in addresses:
        with pytest.raises(OSError), urllib.request.urlopen(address, timeout=5):
            pass


@pytest.mark.slow
def test_a_server_that_does_not_start_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", f"sqlite+aiosqlite:///{tmp_path}/none/prefect.db")
    ports = free_ports(3)
    result = CliRunner().invoke(
        main, ["ui", "--prefect-port", ports[0], "--mlflow-port", ports[1], "--reports-port", ports[2]]
    )
    assert result.exit_code == 1
    assert result.stderr.startswith("error: Prefect ended by itself with status ")
    assert "unable to open database file" in result.stderr
    assert result.stderr.endswith(f"; see data/work/ui/prefect-{ports[0]}.log\n")
    assert result.stderr.count("\n") == 1
