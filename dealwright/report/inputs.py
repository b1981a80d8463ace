"""What the report reads: every piece may be missing, and the page then says so."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dealwright.errors import DealwrightError
from dealwright.files import read_json, read_table
from dealwright.written import read_curves

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Inputs:
    """The figures of reports/ by name, the training log, and the evaluation games; None where there is no file."""

    ingest: Figures | None
    validation: Figures | None
    warmstart: Figures | None
    selection: Figures | None
    evaluation: Figures | None
    phases: Figures | None
    training: pl.DataFrame | None
    games: pl.DataFrame | None


def read_inputs(root: Path) -> Inputs:
    """Read reports/ and the evaluation games under a project's root.

    Raises DealwrightError for a file that is there but broken.
    """
    figures = {name: _figures(root / f"reports/{name}.json") for name in Inputs.__slots__[:6]}
    training, games = root / "reports/training.csv", root / "data/rollouts/evaluation.parquet"
    return Inputs(
        **figures,
        training=_curves(training) if training.exists() else None,
        games=read_table(games) if games.exists() else None,
    )


def _curves(path: Path) -> pl.DataFrame:
    read_curves(path)
    return pl.read_csv(path, infer_schema_length=None)


def _figures(path: Path) -> Figures | None:
    if not path.exists():
        return None
    figures = read_json(path, "delete it and run the stage that writes it")
    if not isinstance(figures, dict):
        raise DealwrightError(
            f"{path} holds {type(figures).__name__}, expected an object; run the stage that writes it"
        )
    return figures
