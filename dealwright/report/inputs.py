"""What the report reads: every piece may be missing, and the page then says so."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from dealwright.errors import DealwrightError

Figures = dict[str, Any]


class ReportError(DealwrightError):
    """A report's input that cannot be read; the message names the file."""


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

    Raises ReportError for a file that is there but broken.
    """
    figures = {name: _figures(root / f"reports/{name}.json") for name in Inputs.__slots__[:6]}
    training, games = root / "reports/training.csv", root / "data/rollouts/evaluation.parquet"
    return Inputs(
        **figures,
        training=pl.read_csv(training, infer_schema_length=None) if training.exists() else None,
        games=pl.read_parquet(games) if games.exists() else None,
    )


def _figures(path: Path) -> Figures | None:
    if not path.exists():
        return None
    try:
        figures = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ReportError(f"{path} is not JSON ({error}); delete it and run the stage that writes it") from error
    if not isinstance(figures, dict):
        raise ReportError(f"{path} holds {type(figures).__name__}, expected an object; run the stage that writes it")
    return figures
