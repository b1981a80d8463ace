"""Child processes in groups of their own, so that stopping one stops all that it started."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO

GRACE_SECONDS = 20.0


@contextmanager
def group(
    command: Sequence[str], environment: Mapping[str, str], output: int | IO[str] = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """Start a command in a process group of its own, errors among its output, and stop the group at the end."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **environment},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        stop_group(process)
        if process.stdout is not None:
            process.stdout.close()


def stop_group(process: subprocess.Popen[str], grace: float = GRACE_SECONDS) -> None:
    """Ask a process group to end, and kill what is left of it after the grace."""
    deadline = time.monotonic() + grace
    _signal(process, signal.SIGTERM)
    while _lives(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    _signal(process, signal.SIGKILL)
    process.wait()


def _lives(process: subprocess.Popen[str]) -> bool:
    process.poll()  # reaps the leader, which would count as a member of its group for ever
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _signal(process: subprocess.Popen[str], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
