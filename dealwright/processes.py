"""Child processes in groups of their own, so that stopping one stops all that it started.

Run as a script, this file is the leader of such a group: it starts the command, and ends the group when the process
that asked for it is gone, even killed. Its input tells: nobody writes to it, and it ends with that process.
"""

import os
import signal
import subprocess
import sys
import threading
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
        [sys.executable, "-I", __file__, *command],
        stdin=subprocess.PIPE,
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
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


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


def lead(command: Sequence[str]) -> int:
    """Run a command in this process's group, end the group when the input ends, and return the command's status."""
    signal.signal(signal.SIGTERM, lambda *_: None)  # the group's end is the command's to answer
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_input, daemon=True).start()
    status = child.wait()
    return status if status >= 0 else 128 - status


def _end_with_input() -> None:
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(lead(sys.argv[1:]))
