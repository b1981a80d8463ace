"""The catalogue that a training saw, kept with its run in MLflow, so that a later one can be compared with it."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl

from dealwright.catalogue.drift import PRICES
from dealwright.files import read_json, read_table, write_parquet
from dealwright.tracking.connection import is_made, store
from dealwright.tracking.history import CHAMPION

if TYPE_CHECKING:
    from mlflow import MlflowClient

CATALOGUE = Path("data/catalogue.parquet")
INGEST = Path("reports/ingest.json")
_FOLDER = "catalogue"
_PRODUCTS = "products.parquet"


@dataclass(frozen=True)
class TrainedOn:
    """The products of a catalogue with their prices, and the share of its rows that were set aside."""

    products: pl.DataFrame
    rejected: float


def log_catalogue(client: "MlflowClient", run_id: str) -> None:
    """Put the working tree's catalogue beside a training's run; one that is there already stays."""
    if _is_kept(client, run_id):
        return
    with TemporaryDirectory() as folder:
        write_parquet(Path(folder) / _PRODUCTS, read_table(CATALOGUE).select("id", "category", *PRICES))
        client.log_artifact(run_id, str(INGEST), _FOLDER)
        client.log_artifact(run_id, str(Path(folder) / _PRODUCTS), _FOLDER)


def read_catalogue(run_id: str) -> TrainedOn | None:
    """Return the catalogue that a run was trained on; None where it was not kept."""
    with store() as client, TemporaryDirectory() as scratch:
        if not _is_kept(client, run_id):
            return None
        folder = Path(client.download_artifacts(run_id, _FOLDER, scratch))
        return TrainedOn(read_table(folder / _PRODUCTS), rejected_share(read_json(folder / INGEST.name)))


def rejected_share(counts: dict[str, int]) -> float:
    """Return the share of rows set aside from the counts of reports/ingest.json."""
    return counts["rejected"] / counts["read"]


def champion_run(name: str) -> tuple[int, str] | None:
    """Return the champion's version and the run that it belongs to; None where there is no champion."""
    if not is_made():
        return None
    with store() as client:
        found = client.search_registered_models(f"name = '{name}'")
        version = found[0].aliases.get(CHAMPION) if found else None
        return None if version is None else (int(version), client.get_model_version(name, str(version)).run_id or "")


def _is_kept(client: "MlflowClient", run_id: str) -> bool:
    return {_PRODUCTS, INGEST.name} <= {Path(file.path).name for file in client.list_artifacts(run_id, _FOLDER)}
