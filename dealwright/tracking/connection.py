"""Where MLflow keeps things, and what its failures look like.

The default store is mlflow.db in the project's root with the artifacts in mlartifacts/ beside it; MLFLOW_TRACKING_URI
names another, as in `http://tracking:5000` or `sqlite:////data/mlflow.db`.
"""

import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dealwright.errors import DealwrightError, first_line

if TYPE_CHECKING:
    from mlflow import MlflowClient

_SQLITE = "sqlite:///"


class TrackingError(DealwrightError):
    """MLflow cannot be used; the message says where it was looked for."""


def tracking_uri() -> str:
    """Return the address of the tracking server or database."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"{_SQLITE}{Path.cwd() / 'mlflow.db'}"


def artifact_location() -> str | None:
    """Return where artifacts go: beside a database file; None where a server decides."""
    uri = tracking_uri()
    if not uri.startswith(_SQLITE):
        return None
    return (Path(uri.removeprefix(_SQLITE)).absolute().parent / "mlartifacts").as_uri()


def connect() -> "MlflowClient":
    """Return a client of the store; MLflow's own messages are kept to warnings."""
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import mlflow

    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    # The registry follows links between models through the process's own address, so a client's is not enough.
    # Setting it writes the variable too, which is the user's to set.
    named = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(tracking_uri())
    if named is None:
        os.environ.pop("MLFLOW_TRACKING_URI", None)
    return mlflow.MlflowClient()


def failures() -> tuple[type[Exception], ...]:
    """Return the errors by which MLflow says that its store cannot be reached or used."""
    from alembic.util import CommandError
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    return (MlflowException, SQLAlchemyError, CommandError, OSError)


def unusable(error: Exception) -> TrackingError:
    """Return the one-line error for a failure of the store."""
    return TrackingError(
        f"cannot use MLflow at {tracking_uri()}: {first_line(error)}; start that server, or unset MLFLOW_TRACKING_URI"
    )


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
