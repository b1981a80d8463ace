"""One MLflow run a training, its curves live; the training never waits for the tracking server, nor fails with it."""

import hashlib
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dealwright.errors import first_line
from dealwright.params import Params, flatten
from dealwright.tracking.connection import TrackingError, experiment_id, failures, store
from dealwright.tracking.revisions import dvc_revision, git_revision

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

RETRY_SECONDS = 60.0
PARAMS_A_BATCH = 100  # MLflow's own limit
KIND = "training"


class TrainingRun:
    """A run that takes metrics; what the server refuses is kept and offered again, a minute later at the soonest.

    `logged` is the last step that the run has already; it and those before are not logged again.
    """

    def __init__(self, client: "MlflowClient | None" = None, run_id: str | None = None, logged: int = 0) -> None:
        self.run_id = run_id
        self._logged = logged
        self._client = client
        self._pending: list[Metric] = []
        self._retry_at = 0.0

    def log_step(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Log the metrics of one training step; a metric that is None, and the step itself, are left out."""
        if self._client is None or step <= self._logged:
            return
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        self._pending += [
            Metric(name, value, now, step) for name, value in metrics.items() if name != "step" and value is not None
        ]
        if time.monotonic() >= self._retry_at:
            self._flush()

    def close(self, status: str) -> None:
        """Send what is left and end the run as FINISHED, FAILED or KILLED."""
        if self._client is None or self.run_id is None:
            return
        self._flush()
        try:
            self._client.set_terminated(self.run_id, status)
        except failures() as error:
            _warn(f"the run could not be closed ({first_line(error)})")

    def _flush(self) -> None:
        if self._client is None or self.run_id is None or not self._pending:
            return
        try:
            self._client.log_batch(self.run_id, metrics=self._pending)
        except failures() as error:
            if not self._retry_at:
                _warn(f"metrics are not taken ({first_line(error)}); training goes on and offers them again")
            self._retry_at = time.monotonic() + RETRY_SECONDS
        else:
            self._pending = []
            self._retry_at = 0.0


@contextmanager
def training_run(params: Params, work: Path, step: int, first: bool = True) -> Iterator[TrainingRun]:
    """Open the MLflow run of a training and close it with how the block ended; of several processes the first does.

    A training that goes on from a step of its work folder goes on in its run, where that can be found. Runs that a
    killed process left open are closed first. Where MLflow cannot be reached, one warning line says so and the run
    takes metrics without keeping them. SIGTERM ends the block like Ctrl-C does, so that the run is closed.
    """
    run = _open(params, work, step) if first else TrainingRun()
    with _terminable():
        try:
            yield run
        except (KeyboardInterrupt, SystemExit):
            run.close("KILLED")
            raise
        except BaseException:
            run.close("FAILED")
            raise
    run.close("FINISHED")


def _open(params: Params, work: Path, step: int) -> TrainingRun:
    # Training must not wait: MLflow's own defaults are two minutes a request and seven tries.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "5")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    try:
        with store() as client:
            experiment = experiment_id(client, params.tracking.experiment)
            _close_dead_runs(client, experiment)
            place = f"{platform.node()}:{work.absolute()}"
            tags = {"work": hashlib.sha256(place.encode()).hexdigest()[:16], "process": _this_process()}
            run_id = _reopen(client, experiment, tags) if step else None
            logged = 0 if run_id is None else _last_step(client, run_id)
            run_id = run_id or create_run(client, experiment, params, tags)
    except TrackingError as error:
        print(f"warning: {error}; training goes on without it", file=sys.stderr, flush=True)
        return TrainingRun()
    return TrainingRun(client, run_id, logged)


def _reopen(client: "MlflowClient", experiment: str, tags: Mapping[str, str]) -> str | None:
    """Open the newest run of a work folder again, if there is one."""
    found = client.search_runs([experiment], f"tags.work = '{tags['work']}'", max_results=1)
    for run in found:
        client.update_run(run.info.run_id, status="RUNNING")
        client.set_tag(run.info.run_id, "process", tags["process"])
        return str(run.info.run_id)
    return None


def _last_step(client: "MlflowClient", run_id: str) -> int:
    return max((point.step for point in client.get_metric_history(run_id, "reward")), default=0)


def create_run(client: "MlflowClient", experiment: str, params: Params, tags: Mapping[str, str]) -> str:
    """Create a run of a training with its parameters and revisions."""
    from mlflow.entities import Param

    revisions = {"git_revision": git_revision(), "dvc_revision": dvc_revision()}
    known = {name: value for name, value in revisions.items() if value is not None}
    name = f"{params.warmstart.base.rsplit('/', 1)[-1]} seed {params.train.seed}"
    run_id: str = client.create_run(experiment, run_name=name, tags={"kind": KIND, **known, **tags}).info.run_id
    leaves = flatten(params.model_dump(by_alias=True, mode="json"))
    values = [Param(name, str(value)) for name, value in leaves.items()]
    for start in range(0, len(values), PARAMS_A_BATCH):
        client.log_batch(run_id, params=values[start : start + PARAMS_A_BATCH])
    return run_id


def _close_dead_runs(client: "MlflowClient", experiment: str) -> None:
    running = client.search_runs([experiment], f"attributes.status = 'RUNNING' and tags.kind = '{KIND}'")
    for run in running:
        if _is_dead(run.data.tags.get("process", "")):
            client.set_tag(run.info.run_id, "closed", "the process had ended without closing it")
            client.set_terminated(run.info.run_id, "KILLED")


def _this_process() -> str:
    import psutil

    return f"{platform.node()}/{os.getpid()}/{psutil.Process().create_time():.2f}"


def _is_dead(process: str) -> bool:
    """Say whether a process of this machine has ended; another machine's is taken to live."""
    import psutil

    host, _, rest = process.rpartition("/")[0].rpartition("/")
    if host != platform.node() or not rest.isdigit():
        return False
    try:
        return f"{host}/{rest}/{psutil.Process(int(rest)).create_time():.2f}" != process
    except psutil.NoSuchProcess:
        return True


@contextmanager
def _terminable() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _warn(message: str) -> None:
    print(f"warning: MLflow: {message}", file=sys.stderr, flush=True)
