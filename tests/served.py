"""The served deployments for tests: started, watched and cancelled as Prefect's pages do it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.standin import PATIENCE, ROOT, wait_for

PAGE = 200  # the most that Prefect's server gives at once


@dataclass(frozen=True, slots=True)
class Service:
    """The process that serves, and the file that it writes to."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """Return what it has said so far."""
        return self.log.read_text()


@contextmanager
def served(project: Path, **environment: str) -> Iterator[Service]:
    """Serve a project's deployments from its folder, at the test's Prefect server unless another is named."""
    from prefect.settings import PREFECT_API_URL

    settings = {
        "PYTHONPATH": str(ROOT),
        "PREFECT_API_URL": str(PREFECT_API_URL.value()),
        "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        **environment,
    }
    with (project.parent / "serve.log").open("w") as log:
        command = [sys.executable, "-m", "flows.serve"]
        process = subprocess.Popen(command, cwd=project, env={**os.environ, **settings}, stdout=log, stderr=log)
        try:
            service = Service(process, Path(log.name))
            wait_for(lambda: "retrain/retrain" in service.said())
            yield service
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def start(deployment: str) -> Any:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.create_flow_run_from_deployment(client.read_deployment_by_name(deployment).id).id


def state(run: Any) -> Any:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.read_flow_run(run).state


def scheduled(deployment: str) -> list[Any]:
    """Return the runs that a deployment's schedule has made, those that wait for their time among them."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

    with get_client(sync_client=True) as client:
        wanted = DeploymentFilter(id=DeploymentFilterId(any_=[client.read_deployment_by_name(deployment).id]))
        return [run for run in client.read_flow_runs(deployment_filter=wanted) if run.auto_scheduled]


def cancel(run: Any) -> None:
    """Do what the button in Prefect's pages does."""
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelling

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, Cancelling())


def lines(run: Any) -> list[str]:
    """Return what the run and its tasks have logged so far."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
    from prefect.client.schemas.sorting import LogSort

    async def read() -> list[str]:
        async with get_client() as client:
            wanted = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run]))
            found: list[Any] = []
            while page := await client.read_logs(wanted, limit=PAGE, offset=len(found), sort=LogSort.TIMESTAMP_ASC):
                found += page
            return [entry.message for entry in found]

    return asyncio.run(read())


def mlflow_states(project: Path) -> list[str]:
    """Return the states of the project's runs in MLflow."""
    from dealwright.tracking.connection import connect, experiment_id

    client = connect()
    return sorted(run.info.status for run in client.search_runs([experiment_id(client, "dealwright")]))
