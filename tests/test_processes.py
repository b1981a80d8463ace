"""A command's whole group ends with the block that started it, and with the process that ran the block."""

import subprocess
import sys

import psutil
import pytest

from dealwright.processes import group
from tests.standin import ROOT, wait_for

SLEEPER = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
# A parent whose child sleeps in its group, as DVC's stages do.
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEPER!r}])"


@pytest.mark.parametrize(
    ("code", "status"),
    [("import sys; sys.exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", 137), ("", 0)],
)
def test_the_status_of_the_command_comes_through(code: str, status: int) -> None:
    with group([sys.executable, "-c", code], {}) as process:
        assert process.wait() == status


def test_the_command_has_the_environment_and_an_empty_input() -> None:
    code = "import os, sys; print(os.environ['ASK'], len(sys.stdin.read()))"
    with group([sys.executable, "-c", code], {"ASK": "95"}) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "95 0\n"


def test_the_block_ends_what_the_command_started() -> None:
    with group([sys.executable, "-c", PARENT], {}) as process:
        assert process.stdout is not None
        sleeper = int(process.stdout.readline())
        assert psutil.pid_exists(sleeper)
    assert not psutil.pid_exists(sleeper)


def test_the_group_ends_when_the_process_that_ran_the_block_is_killed() -> None:
    block = f"with group([sys.executable, '-c', {PARENT!r}], {{}}) as process:"
    lines = ["import sys", "from dealwright.processes import group", block]
    lines += ["    print(process.stdout.readline(), flush=True)", "    process.wait()"]
    owner = subprocess.Popen([sys.executable, "-c", "\n".join(lines)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert owner.stdout is not None
    sleeper = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    owner.stdout.close()
    wait_for(lambda: not psutil.pid_exists(sleeper))
