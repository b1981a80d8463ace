"""The files of a registered version, wherever MLflow keeps them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dealwright.errors import first_line
from dealwright.tracking.connection import TrackingError, artifact_location, failures


@contextmanager
def downloaded(address: str) -> Iterator[Path]:
    """Yield the folder of an address such as `models:/name/7`, fetched for the block alone where it lies elsewhere.

    Raises TrackingError where the files are gone.
    """
    from mlflow.artifacts import download_artifacts

    with TemporaryDirectory() as scratch:
        try:
            # Files on this machine are used where they are, unless a place to put them is named.
            folder = Path(download_artifacts(address, dst_path=None if artifact_location() else scratch))
        except failures() as error:
            raise _gone(address, first_line(error)) from error
        if not (folder / "MLmodel").is_file():  # of files that are gone a server may send none, and no error
            raise _gone(address, "there are none")
        yield folder


def _gone(address: str, reason: str) -> TrackingError:
    return TrackingError(
        f"the files of {address} cannot be had: {reason}; run `dealwright register` where its checkpoint is, which "
        "puts them back"
    )
