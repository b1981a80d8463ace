"""The tables of games in data/rollouts, by the names that a person types."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    import polars as pl

ROLLOUTS = Path("data/rollouts")


def table_path(table: str) -> Path:
    """Return a table's file, or the pattern of its files where `dealwright rollout` wrote it."""
    folder = ROLLOUTS / table
    return folder / "*.parquet" if folder.is_dir() else ROLLOUTS / f"{table}.parquet"


def complete_table(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of tables that begin as typed."""
    return [name for name in _names() if name.startswith(incomplete)]


def open_table(table: str) -> "pl.LazyFrame":
    """Return a table without reading it; raises DealwrightError where there is none of that name.

    The files of a rollout need not have the same columns: those of what a server billed are where one was asked.
    """
    import polars as pl

    names = _names()
    if table not in names:
        there = f"; there are {', '.join(names)}" if names else ""
        raise DealwrightError(
            f"there is no table {table!r} in {ROLLOUTS} yet{there}; `dvc repro` and `dealwright rollout` make them"
        )
    folder = ROLLOUTS / table
    files = sorted(folder.glob("*.parquet")) if folder.is_dir() else [table_path(table)]
    return pl.scan_parquet(files, glob=False, missing_columns="insert", extra_columns="ignore")


def _names() -> list[str]:
    files = {path.stem for path in ROLLOUTS.glob("*.parquet")}
    return sorted(files | {path.parent.name for path in ROLLOUTS.glob("*/*.parquet")})
