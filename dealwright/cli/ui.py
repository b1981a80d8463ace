"""`dealwright ui`: the Prefect server, the MLflow UI and the reports, side by side on this machine alone."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from dealwright.cli.pipeline import REPORT
from dealwright.errors import DealwrightError

HOST = "127.0.0.1"
PREFECT_PORT = 4200
START_SECONDS = 600
TELL_SECONDS = 30
LOGS = Path("data/work/ui")
# The last line of a traceback; what follows it tells only that the server gave up.
_EXCEPTION = re.compile(r"[\w.]*(Error|Exception): ")


@dataclass(frozen=True, slots=True)
class Server:
    """A server that was started: where it answers, and the file that it writes to."""

    name: str
    address: str
    process: subprocess.Popen[str]
    log: Path


@click.command()
@click.option("--prefect-port", type=click.IntRange(1, 65535), default=PREFECT_PORT, show_default=True)
@click.option("--mlflow-port", type=click.IntRange(1, 65535), default=5000, show_default=True)
@click.option("--reports-port", type=click.IntRange(1, 65535), default=8080, show_default=True)
def ui(prefect_port: int, mlflow_port: int, reports_port: int) -> None:
    """Start the Prefect server, the MLflow UI and one for reports/, print their addresses, and stop them on Ctrl-C.

    They listen on loopback only. `make serve` looks for this Prefect server at its default port; with another port,
    and for any other flow, set the PREFECT_API_URL that is printed. Where MLFLOW_TRACKING_URI names a server, its
    address is printed and none is started. What the servers say goes to files in data/work/ui/.

    \b
    dealwright ui
    dealwright ui --prefect-port 4201 --mlflow-port 5001
    """
    from dealwright.tracking.connection import artifact_location, shown_uri, tracking_uri

    prefect, mlflow, reports = (f"http://{HOST}:{port}" for port in (prefect_port, mlflow_port, reports_port))
    store = tracking_uri()
    remote = store if store.startswith("http") else None
    _check_free("--prefect-port", prefect_port)
    _check_free("--reports-port", reports_port)
    if remote is None:
        _check_free("--mlflow-port", mlflow_port)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = [f"Prefect at {prefect}", *([] if remote else [f"MLflow at {mlflow}"]), f"the reports at {reports}"]
    click.echo(f"starting {', '.join(started)}; that may take a minute, and what they say goes to {LOGS}/")
    with ExitStack() as opened:
        try:
            environment = {
                "PREFECT_API_URL": f"{prefect}/api",
                # Behind a proxy the pages need the address that browsers know.
                "PREFECT_UI_API_URL": os.environ.get("PREFECT_UI_API_URL", f"{prefect}/api"),
                "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
            }
            command = ["prefect", "server", "start", "--host", HOST, "--port", str(prefect_port)]
            servers = [opened.enter_context(_started("Prefect", prefect, command, environment))]
            REPORT.parent.mkdir(exist_ok=True)
            command = ["http.server", "--bind", HOST, "--directory", str(REPORT.parent), str(reports_port)]
            servers.append(opened.enter_context(_started("reports", reports, command, {})))
            if remote is None:
                artifacts = artifact_location()
                command = ["mlflow", "server", "--host", HOST, "--port", str(mlflow_port), "--workers", "1"]
                command += ["--backend-store-uri", store]
                command += ["--default-artifact-root", artifacts] if artifacts else []
                # Else it starts eight more processes for jobs that nobody here submits.
                environment = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
                servers.append(opened.enter_context(_started("MLflow", mlflow, command, environment)))
            _await_answer("Prefect", f"{prefect}/api/health", servers)
            click.echo(f"Prefect  {prefect}    (flows appear there with PREFECT_API_URL={prefect}/api)")
            if remote is None:
                _await_answer("MLflow", f"{mlflow}/health", servers)
            click.echo(f"MLflow   {shown_uri() if remote else mlflow}")
            _await_answer("reports", reports, servers)
            click.echo(f"reports  {reports}")
            click.echo("Ctrl-C stops what was started.")
            while True:
                _check_alive(servers)
                time.sleep(0.5)
        except KeyboardInterrupt:
            click.echo("stopping")


def _check_free(option: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DealwrightError(f"port {port} is taken; choose another with {option}") from error


@contextmanager
def _started(name: str, address: str, command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Server]:
    from dealwright.processes import group

    log = LOGS / f"{name.lower()}-{address.rsplit(':', 1)[1]}.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with (
        log.open("w", encoding="utf-8") as output,
        group([sys.executable, "-m", *command], environment, output) as process,
    ):
        yield Server(name, address, process, log)


def _await_answer(name: str, address: str, servers: Sequence[Server]) -> None:
    started = told = time.monotonic()
    while time.monotonic() < started + START_SECONDS:
        _check_alive(servers)
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
        if time.monotonic() > told + TELL_SECONDS:
            told = time.monotonic()
            click.echo(f"  {name} has not answered yet after {told - started:.0f} s; Ctrl-C gives up")
    (log,) = (server.log for server in servers if server.name == name)
    raise DealwrightError(f"{name} gave no answer at {address} in {START_SECONDS} s; {_told(log)}")


def _check_alive(servers: Sequence[Server]) -> None:
    for server in servers:
        status = server.process.poll()
        if status is not None:
            raise DealwrightError(f"{server.name} ended by itself with status {status}; {_told(server.log)}")


def _told(log: Path) -> str:
    """Return what a server said of its failure: the last exception, else the last word of an error, else its last."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    exceptions = [line for line in lines if _EXCEPTION.match(line)]
    telling = exceptions or [line for line in lines if "error" in line.lower()] or lines or ["nothing"]
    return f"it said: {telling[-1]}; see {log}"
