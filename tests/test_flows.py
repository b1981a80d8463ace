"""The flow runs DVC's own graph: order, skips, failures and cancellation, on a repository of four small stages."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)

ROOT = Path(__file__).parents[1]
# A diamond: b and c wait for a, d for both.
PIPELINE = """
stages:
  d: {cmd: cat b.txt c.txt > d.txt, deps: [b.txt, c.txt], outs: [d.txt]}
  b: {cmd: python work.py a.txt b.txt, deps: [a.txt, work.py], outs: [b.txt]}
  c: {cmd: cp a.txt c.txt, deps: [a.txt], outs: [c.txt]}
  a: {cmd: cp source.txt a.txt, deps: [source.txt], outs: [a.txt]}
"""
WORK = """
import shutil, sys
print("step 1")
print("half done", file=sys.stderr)
shutil.copy(sys.argv[1], sys.argv[2])
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a fresh DVC repository that has run nothing."""
    folder = tmp_path / "my project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    subprocess.run([sys.executable, "-m", "dvc", "init", "--no-scm", "-q"], check=True)
    (folder / "dvc.yaml").write_text(PIPELINE)
    (folder / "work.py").write_text(WORK)
    (folder / "source.txt").write_text("one\n")
    return folder


def test_the_order_is_that_of_dvcs_graph(project: Path) -> None:
    from flows.stages import order

    waits = dict(order())
    assert {address: sorted(upstream) for address, upstream in waits.items()} == {
        "a": [],
        "b": ["a"],
        "c": ["a"],
        "d": ["b", "c"],
    }
    addresses = list(waits)
    assert addresses[0] == "a"
    assert addresses[-1] == "d"


def test_the_order_of_our_own_pipeline_ends_with_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.stages import order

    monkeypatch.chdir(ROOT)
    waits = dict(order())
    assert next(iter(waits)) == "ingest"
    assert list(waits)[-1] == "report"
    assert {"ingest", "validate"} == set(waits["prompts"])


def test_a_stage_is_run_then_skipped_and_its_lines_come_through(project: Path) -> None:
    from flows.stages import reproduce_command, run_command, verdict

    run_command(reproduce_command("a"), print)
    lines: list[str] = []
    assert verdict(run_command(reproduce_command("b"), lines.append)) == "Completed"
    assert [line for line in lines if line in ("step 1", "half done")] == ["step 1", "half done"]
    assert verdict(run_command(reproduce_command("b"), print)) == "Skipped"
    (project / "b.txt").unlink()
    (project / "dvc.lock").unlink()
    assert verdict(run_command(reproduce_command("b"), print)) == "Cached"


def test_a_failing_command_says_how_it_ended_and_what_it_wrote_last(project: Path) -> None:
    from flows.stages import CommandError, reproduce_command, run_command

    (project / "work.py").write_text("import sys\nsys.exit('error: no such product')")
    run_command(reproduce_command("a"), print)
    with pytest.raises(CommandError, match=r"repro --single-item b ended with status 255: .*error: no such product"):
        run_command(reproduce_command("b"), print)


def test_lines_come_while_the_command_runs_and_its_whole_tree_ends_with_it(tmp_path: Path) -> None:
    from flows.stages import run_command

    class Stop(BaseException):
        pass

    def stop(line: str) -> None:
        raise Stop(line)

    child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    started = time.monotonic()
    with pytest.raises(Stop) as stopped:
        run_command([sys.executable, "-c", parent], stop)
    assert time.monotonic() - started < 300
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(stopped.value)), 0)


def test_only_a_tracking_server_that_is_away_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.states import Failed

    from flows.reproduce import may_pass, publish, register, reproduce
    from flows.retrain import decide, look_at_catalogue, prepare_clone, retrain
    from flows.stages import CommandError, reproduce_stage, run_command

    once = (reproduce, retrain, reproduce_stage, publish, look_at_catalogue, prepare_clone, decide)
    assert [work.retries for work in once] == [0] * 7
    assert register.retries == 2 and register.retry_condition_fn is may_pass

    def passes(command: str) -> bool:
        with pytest.raises(CommandError) as stop:
            run_command([sys.executable, "-m", "dealwright", command], print)
        return may_pass(register, register, Failed(message=str(stop.value)))

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    assert passes("checkpoints")  # it asks the same server, and needs no results
    monkeypatch.chdir(tmp_path)
    assert not passes("register")


@pytest.mark.slow
def test_the_flow_has_a_task_run_for_each_stage_and_names_the_skipped(project: Path, server: None) -> None:
    from prefect import flow

    from flows.stages import reproduce_stages

    run = flow(reproduce_stages)
    assert run() == dict.fromkeys("abcd", "Completed")
    assert run() == dict.fromkeys("abcd", "Skipped")
    (project / "work.py").write_text(WORK + "\n# changed")
    assert run() == {"a": "Skipped", "b": "Completed", "c": "Skipped", "d": "Skipped"}
    states = task_states()
    assert states[-4:] == [("a", "Skipped"), ("b", "Completed"), ("c", "Skipped"), ("d", "Skipped")]


@pytest.mark.slow
def test_a_failure_stops_what_stands_behind_it_alone(project: Path, server: None) -> None:
    from prefect import flow

    from flows.stages import reproduce_stages

    (project / "work.py").write_text("import sys\nsys.exit('error: no such product')")
    state = flow(reproduce_stages)(return_state=True)
    assert state.is_failed()
    assert "b: " in str(state.message)
    assert "error: no such product" in str(state.message)
    assert "not run behind it: d" in str(state.message)
    assert sorted(task_states()[-4:]) == [("a", "Completed"), ("b", "Failed"), ("c", "Completed"), ("d", "NotReady")]


@pytest.mark.slow
def test_a_cancelled_flow_ends_the_stage_and_leaves_dvc_free(project: Path) -> None:
    (project / "work.py").write_text(
        "import os, time\nopen('pid', 'w').write(str(os.getpid()))\nprint('begun', flush=True)\ntime.sleep(120)"
    )
    code = "from flows.stages import reproduce_stages; from prefect import flow; flow(reproduce_stages)()"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", code], env=environment, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("begun" in line for line in process.stderr)
    process.send_signal(signal.SIGTERM)
    process.stderr.close()
    assert process.wait(60) != 0
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text()), 0)
    (project / "work.py").write_text(WORK)
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], check=True)
    assert (project / "d.txt").read_text() == "one\none\n"


def task_states() -> list[tuple[str, str]]:
    """Return every task run's name and state, in the order in which they were made."""
    import asyncio

    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import TaskRunSort

    async def read() -> list[Any]:
        async with get_client() as client:
            return list(await client.read_task_runs(sort=TaskRunSort.EXPECTED_START_TIME_ASC))

    return [(run.name, run.state_name) for run in asyncio.run(read())]
