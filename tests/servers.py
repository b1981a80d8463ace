"""Servers for tests on ports of loopback that are free."""

import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Pages:
    """The addresses of `dealwright ui`, its process, and what it said until all three answered."""

    prefect: str
    mlflow: str
    reports: str
    process: subprocess.Popen[str]
    said: tuple[str, ...]


def free_ports(count: int) -> list[str]:
    """Return ports that nobody listens at."""
    with ExitStack() as taken:
        sockets = [taken.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [str(one.getsockname()[1]) for one in sockets]


@contextmanager
def answering(status: int) -> Iterator[str]:
    """Answer every request with a status and nothing else, and yield the address."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answer) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            thread.join()


@contextmanager
def user_interfaces(project: Path, home: Path) -> Iterator[Pages]:
    """Run `dealwright ui` in a project, with Prefect's files in a folder of their own, and stop it with Ctrl-C."""
    ports = free_ports(3)
    options = ["--prefect-port", ports[0], "--mlflow-port", ports[1], "--reports-port", ports[2]]
    process = subprocess.Popen(
        [sys.executable, "-m", "dealwright", "ui", *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PREFECT_HOME": str(home)},
    )
    assert process.stdout is not None
    try:
        lines = (line for line in process.stdout if "has not answered yet" not in line)
        said = tuple(itertools.islice(lines, 5))
        prefect, mlflow, reports = (f"http://127.0.0.1:{port}" for port in ports)
        yield Pages(prefect, mlflow, reports, process, said)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        process.stdout.close()
