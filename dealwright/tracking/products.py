"""Which products a version was trained on: their hash is among its tags, their ids are among its files.

Two versions are compared only on products that neither was trained on, and a new catalogue may have moved a product
from one split to another since the older one was trained.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

import polars as pl

from dealwright.catalogue.split import TRAIN
from dealwright.files import read_table, write_json
from dealwright.tracking.connection import TrackingError

FILE = "training_products.json"


def training_products(scenarios: Path) -> list[str]:
    """Return the sorted ids of the products that a scenario file holds as `train`."""
    return sorted(read_table(scenarios, pl.col("split") == TRAIN)["product_id"].unique())


def products_hash(ids: Iterable[str]) -> str:
    """Return the SHA-256 of product ids, whatever their order."""
    return hashlib.sha256(json.dumps(sorted(ids)).encode()).hexdigest()


def write_products(folder: Path, ids: Iterable[str]) -> None:
    """Write the ids among a version's files."""
    write_json(folder / FILE, sorted(ids))


def read_products(folder: Path, version: int) -> frozenset[str]:
    """Return the ids that stand among a version's files; raises TrackingError where they do not."""
    try:
        return frozenset(json.loads((folder / FILE).read_text(encoding="utf-8")))
    except (OSError, json.JSONDecodeError) as error:
        raise TrackingError(
            f"version {version} does not say which products it was trained on, so no fair games can be chosen; "
            "register its checkpoint again, or promote with --force REASON"
        ) from error
