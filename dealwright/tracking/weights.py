"""Weights that a version refers to instead of holding them: an adapter's base, and models too large to be copied.

An adapter refers to the warm start that it was trained on, which is the version of step 0. Weights above LARGEST_COPY
stay where they are, and the version holds their folder's path and hash.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from dealwright.files import read_json, write_json, write_text
from dealwright.tracking.connection import TrackingError
from dealwright.tracking.downloads import downloaded
from dealwright.tracking.revisions import hash_folder

LARGEST_COPY = 1 << 30  # bytes
REFERENCE = "reference.json"
_ADAPTER = "adapter_config.json"
_WEIGHTS = ".safetensors"


def write_reference(beside: Path, checkpoint: Path, hash: str, base: str | None) -> list[Path]:
    """Write what a version refers to, if anything, and return the files of its checkpoint that it holds itself.

    `base` is the address of the version of step 0; raises TrackingError for an adapter without one.
    """
    files = sorted(path for path in checkpoint.rglob("*") if path.is_file())
    weights = [path for path in files if path.suffix == _WEIGHTS]
    if (checkpoint / _ADAPTER).is_file():
        if base is None:
            raise TrackingError(f"{checkpoint} holds an adapter, but its base, step 0, is not registered before it")
        write_json(beside / REFERENCE, {"base": base})
    elif sum(path.stat().st_size for path in weights) > LARGEST_COPY:
        write_json(beside / REFERENCE, {"folder": str(checkpoint.absolute()), "sha256": hash})
        return [path for path in files if path not in weights]
    return files


@contextmanager
def loadable(folder: Path) -> Iterator[Path]:
    """Yield a folder that the model of a version loads from, given the folder of the version's files.

    Raises TrackingError where what the version refers to is gone or is no longer the same.
    """
    if not (folder / REFERENCE).is_file():
        yield folder
        return
    reference = read_json(folder / REFERENCE, "register its checkpoint again")
    if "folder" in reference:
        weights = Path(reference["folder"])
        if not weights.is_dir() or hash_folder(weights) != reference["sha256"]:
            raise TrackingError(
                f"{weights} no longer holds the weights that this version refers to, being too large for a copy; "
                "bring them back with git and `dvc checkout` at its git_revision"
            )
        yield weights
        return
    with TemporaryDirectory() as scratch, downloaded(reference["base"]) as files, loadable(files) as base:
        whole = Path(scratch) / "adapter"
        shutil.copytree(folder, whole)
        config = read_json(whole / _ADAPTER, "register its checkpoint again")
        write_text(whole / _ADAPTER, json.dumps({**config, "base_model_name_or_path": str(base)}))
        yield whole
