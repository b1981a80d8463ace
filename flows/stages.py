"""The stages of dvc.yaml as Prefect tasks: DVC says what is fresh and in which order, Prefect shows and logs it."""

import os
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
from dvc.repo import Repo
from prefect import State, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed

from dealwright.errors import DealwrightError
from dealwright.processes import group

# What DVC says of a stage that it does not run.
_UNCHANGED = re.compile(r"^(Stage )?'.*' didn't change, skipping$")
_CACHED = re.compile(r"^Stage '.*' is cached - skipping run, checking out outputs$")
SHOWN_LINES = 5


class CommandError(DealwrightError):
    """A command that ended with an error; the message holds the last lines that it wrote."""


def order() -> list[tuple[str, list[str]]]:
    """Return the address of every stage with those it waits for, in an order that DVC's own graph allows."""
    with Repo() as repo:
        graph = repo.index.graph  # edges point from a stage to its dependencies
        return [
            (stage.addressing, [upstream.addressing for upstream in graph.successors(stage) if upstream.cmd])
            for stage in nx.topological_sort(graph.reverse())
            if stage.cmd  # a .dvc file is data, not work
        ]


def run_command(command: Sequence[str], log: Callable[[str], None]) -> list[str]:
    """Run a command in a process group of its own and hand each line over as it comes; return the lines.

    Whatever ends this function early, a cancellation too, ends the whole group. Raises CommandError where the command
    fails.
    """
    lines = []
    tail: deque[str] = deque(maxlen=SHOWN_LINES)
    environment = {
        "PYTHONUNBUFFERED": "1",
        "TQDM_DISABLE": "1",  # a bar is no line
        # DVC runs the stages with the first `python` on the path.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
    }
    with group(command, environment) as process:
        for line in process.stdout or ():
            text = line.rstrip()
            if text:
                log(text)
                lines.append(text)
                tail.append(text)
        status = process.wait()
    if status:
        raise CommandError(f"{' '.join(command[1:])} ended with status {status}: {' | '.join(tail)}")
    return lines


def reproduce_command(address: str) -> list[str]:
    """Return the command that brings one stage up to date."""
    # DVC waits three seconds for its lock by itself, less than hashing a checkpoint takes.
    return [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", address]


def verdict(lines: Sequence[str]) -> str:
    """Say from DVC's output whether a stage was run, skipped, or its result fetched from the cache."""
    if any(_UNCHANGED.match(line) for line in lines):
        return "Skipped"
    return "Cached" if any(_CACHED.match(line) for line in lines) else "Completed"


@task(task_run_name="{address}", cache_policy=NO_CACHE)
def reproduce_stage(address: str) -> State[Any]:
    """Bring one stage up to date; the state is named Skipped where nothing that it depends on changed."""
    found = verdict(run_command(reproduce_command(address), get_run_logger().info))
    messages = {
        "Completed": "ran",
        "Cached": "these inputs had run before: outputs taken from the cache",
        "Skipped": "nothing that it depends on changed",
    }
    return Completed(name=found, message=messages[found])


def reproduce_stages() -> dict[str, str]:
    """Run every stage of dvc.yaml, each after those it depends on, and return what became of each.

    A stage behind a failed one does not run; others still do. Raises CommandError at the end where any failed.
    """
    states: dict[str, State[Any]] = {}
    for address, upstream in order():
        waits = [states[name] for name in upstream]
        states[address] = reproduce_stage(address, wait_for=waits, return_state=True)
    failed = [address for address, state in states.items() if not state.is_completed()]
    if failed:
        first, *rest = failed
        behind = f"; not run behind it: {', '.join(rest)}" if rest else ""
        raise CommandError(f"{first}: {states[first].message}{behind}")
    return {address: state.name or "Completed" for address, state in states.items()}
