"""Where MLflow keeps things, and what its failures look like.

The default store is mlflow.db in the project's root with the artifacts in mlartifacts/ beside it; MLFLOW_TRACKING_URI
names another, as in `http://tracking:5000` or `sqlite:////data/mlflow.db`.
"""

import logging
import os
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dealwright.addresses import without_password
from dealwright.errors import DealwrightError, first_line
from dealwright.files import replacing

if TYPE_CHECKING:
    from mlflow import MlflowClient

ANSWER_SECONDS = 5
_SQLITE = "sqlite:///"
_MENDS = {
    "http": "start that server, or unset MLFLOW_TRACKING_URI",
    "https": "start that server, or unset MLFLOW_TRACKING_URI",
    "sqlite": "that file must be a database which this user may read and write and no other process keeps locked",
}


class TrackingError(DealwrightError):
    """MLflow cannot be used; the message says where it was looked for."""


def tracking_uri() -> str:
    """Return the address of the tracking server or database."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"{_SQLITE}{Path.cwd() / 'mlflow.db'}"


def shown_uri() -> str:
    """Return the address as it may be printed: without the name and the password that may stand in it."""
    return without_password(tracking_uri())


def artifact_location() -> str | None:
    """Return where artifacts go: beside a database file; None where a server decides."""
    uri = tracking_uri()
    if not uri.startswith(_SQLITE):
        return None
    return (Path(uri.removeprefix(_SQLITE)).absolute().parent / "mlartifacts").as_uri()


def is_made() -> bool:
    """Say whether there is anything to ask: to connect to a database file that is missing makes it."""
    uri = tracking_uri()
    return not uri.startswith(_SQLITE) or "?" in uri or Path(uri.removeprefix(_SQLITE)).exists()


def connect() -> "MlflowClient":
    """Return a client of the store; MLflow's own messages are kept to warnings.

    Raises TrackingError within seconds where the store does not answer: MLflow itself would try again for minutes.
    """
    _await_answer(tracking_uri())
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    import mlflow

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # What it logs there, with a traceback, it raises too.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
    # The registry follows links between models through the process's own address, so a client's is not enough.
    # Setting it writes the variable too, which is the user's to set.
    named = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(tracking_uri())
    if named is None:
        os.environ.pop("MLFLOW_TRACKING_URI", None)
    try:
        if not is_made():
            _make(Path(tracking_uri().removeprefix(_SQLITE)))
        return mlflow.MlflowClient()
    except failures() as error:
        raise unusable(error) from error


def _make(path: Path) -> None:
    """Make the database beside its place: with half the tables, as after a kill, MLflow neither goes on nor begins."""
    from mlflow import MlflowClient

    with replacing(path, unless_there=True) as beside:
        MlflowClient(f"{_SQLITE}{beside}")


def failures() -> tuple[type[Exception], ...]:
    """Return the errors by which MLflow says that its store cannot be reached or used."""
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return (MlflowException, SQLAlchemyError, CommandError, OSError)


def unusable(error: Exception) -> TrackingError:
    """Return the one-line error for a failure of the store."""
    mend = _MENDS.get(urlsplit(tracking_uri()).scheme, "see MLFLOW_TRACKING_URI")
    return TrackingError(f"cannot use MLflow at {shown_uri()}: {first_line(error)}; {mend}")


@contextmanager
def store() -> Iterator["MlflowClient"]:
    """Yield a client; what fails in the block, which should hold nothing else, is one line about the store."""
    client = connect()
    try:
        yield client
    except failures() as error:
        raise unusable(error) from error


def _await_answer(uri: str) -> None:
    try:
        if uri.startswith(("http://", "https://")):
            parts = urlsplit(without_password(uri))  # which this question needs not
            try:
                urllib.request.urlopen(
                    f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/health", timeout=ANSWER_SECONDS
                ).close()
            except urllib.error.HTTPError as error:
                if error.code >= 500:
                    raise
        elif uri.startswith(_SQLITE) and "?" not in uri:
            path = Path(uri.removeprefix(_SQLITE))
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists():
                with closing(sqlite3.connect(path, timeout=ANSWER_SECONDS)) as database:
                    database.execute("PRAGMA schema_version")
    except (OSError, HTTPException, sqlite3.Error) as error:
        raise unusable(error) from error


def experiment_id(client: "MlflowClient", name: str) -> str:
    """Return the experiment, made where it is missing.

    An experiment keeps the folder of its artifacts for ever. Where the project's folder was moved, the old experiment
    is renamed and a new one takes its place, so that nothing is written where the project used to be.
    """
    location = artifact_location()
    found = client.get_experiment_by_name(name)
    if found is None:
        return client.create_experiment(name, artifact_location=location)
    if location is not None and found.artifact_location != location:
        client.rename_experiment(found.experiment_id, f"{name} until {datetime.now(UTC):%Y-%m-%d %H:%M:%S}")
        return client.create_experiment(name, artifact_location=location)
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return found.experiment_id
