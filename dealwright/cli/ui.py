"""`dealwright ui`: the Prefect server, the MLflow UI and the reports, side by side on this machine alone."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import IO

import click

from dealwright.cli.pipeline import REPORT
from dealwright.errors import DealwrightError

HOST = "127.0.0.1"
PREFECT_PORT = 4200
START_SECONDS = 180


@click.command()
@click.option("--prefect-port", type=click.IntRange(1, 65535), default=PREFECT_PORT, show_default=True)
@click.option("--mlflow-port", type=click.IntRange(1, 65535), default=5000, show_default=True)
@click.option("--reports-port", type=click.IntRange(1, 65535), default=8080, show_default=True)
def ui(prefect_port: int, mlflow_port: int, reports_port: int) -> None:
    """Start the Prefect server, the MLflow UI and one for reports/, print their addresses, and stop them on Ctrl-C.

    They listen on loopback only. `make serve` looks for this Prefect server at its default port; with another port,
    and for any other flow, set the PREFECT_API_URL that is printed. Where MLFLOW_TRACKING_URI names a server, its
    address is printed and none is started.

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
    with ExitStack() as servers:
        try:
            running = [
                _start(
                    servers,
                    ["prefect", "server", "start", "--host", HOST, "--port", str(prefect_port)],
                    {
                        "PREFECT_API_URL": f"{prefect}/api",
                        # Behind a proxy the pages need the address that browsers know.
                        "PREFECT_UI_API_URL": os.environ.get("PREFECT_UI_API_URL", f"{prefect}/api"),
                        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
                    },
                )
            ]
            REPORT.parent.mkdir(exist_ok=True)
            command = ["http.server", "--bind", HOST, "--directory", str(REPORT.parent), str(reports_port)]
            running.append(_start(servers, command, {}))
            if remote is None:
                artifacts = artifact_location()
                command = ["mlflow", "server", "--host", HOST, "--port", str(mlflow_port), "--workers", "1"]
                command += ["--backend-store-uri", store]
                command += ["--default-artifact-root", artifacts] if artifacts else []
                # Else it starts eight more processes for jobs that nobody here submits.
                running.append(_start(servers, command, {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}))
            _await(f"{prefect}/api/health", *running[0])
            click.echo(f"Prefect  {prefect}    (flows appear there with PREFECT_API_URL={prefect}/api)")
            _await(reports, *running[1])
            if remote is None:
                _await(f"{mlflow}/health", *running[2])
            click.echo(f"MLflow   {shown_uri() if remote else mlflow}")
            click.echo(f"reports  {reports}")
            click.echo("Ctrl-C stops what was started.")
            sys.stdout.flush()
            while all(process.poll() is None for process, _ in running):
                time.sleep(0.5)
            ended = next(pair for pair in running if pair[0].poll() is not None)
            raise DealwrightError(f"a server ended by itself: {_last_line(ended[1])}")
        except KeyboardInterrupt:
            click.echo("stopping")


def _check_free(option: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise DealwrightError(f"port {port} is taken; choose another with {option}") from error


def _start(
    servers: ExitStack, command: Sequence[str], environment: Mapping[str, str]
) -> tuple[subprocess.Popen[str], IO[str]]:
    from dealwright.processes import group

    log = servers.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace"))  # noqa: SIM115
    module = [sys.executable, "-m", *command]
    return servers.enter_context(group(module, environment, log)), log


def _await(address: str, process: subprocess.Popen[str], log: IO[str]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    raise DealwrightError(f"no answer from {address}: {_last_line(log)}")


def _last_line(log: IO[str]) -> str:
    log.seek(0)
    return ([line for line in log.read().splitlines() if line.strip()] or ["it said nothing"])[-1]
