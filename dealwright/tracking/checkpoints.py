"""What the working tree knows of its checkpoints: their files, their validation metrics, the training curves."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dealwright import written
from dealwright.checkpoints import CHECKPOINTS, WARM_START, checkpoint_folder
from dealwright.lock import LOCK, Stage, output_hashes, read_stages
from dealwright.tracking.connection import TrackingError
from dealwright.tracking.guarded import guard_rates
from dealwright.tracking.products import products_hash, training_products
from dealwright.tracking.revisions import git_revision, hash_file, hash_folder

SCENARIOS = Path("data/scenarios.parquet")
SELECTION = Path("reports/selection.json")
CURVES = Path("reports/training.csv")
PROBE_GAMES = Path("data/rollouts/validation.parquet")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint's folder and what is said of it in the registry."""

    step: int
    folder: Path
    tags: Mapping[str, str]

    @property
    def identity(self) -> tuple[str, str]:
        """The step and the hash of the files, as they stand in the tags."""
        return self.tags["step"], self.tags["checkpoint_hash"]


def read_selection() -> dict[str, Any]:
    """Read which checkpoint was selected and how the checkpoints compared."""
    return written.read_selection(SELECTION)


def read_checkpoints(selection: Mapping[str, Any]) -> list[Checkpoint]:
    """Return the checkpoints that selection compared, each with the tags of its version.

    Raises TrackingError where a folder is not what selection compared.
    """
    recorded = read_stages() if LOCK.is_file() else {}
    products = training_products(SCENARIOS)
    shared = {
        "git_revision": git_revision(),
        "dvc_revision": output_hashes(recorded).get(CHECKPOINTS.as_posix()),
        "scenarios_hash": hash_file(SCENARIOS),
        "training_products": str(len(products)),
        "training_products_hash": products_hash(products),
    }
    guarded = guard_rates(PROBE_GAMES)
    checkpoints = []
    for entry in sorted(selection["checkpoints"], key=lambda entry: int(entry["step"])):
        step = int(entry["step"])
        folder = checkpoint_folder(step)
        if not folder.is_dir():
            raise TrackingError(f"{SELECTION} names step {step}, but {CHECKPOINTS} lacks it; run `dvc repro` first")
        tags = {"step": str(step), "checkpoint_hash": hash_folder(folder), **_metric_tags(entry)}
        tags |= {key: value for key, value in shared.items() if value is not None}
        if step in guarded:
            tags["validation_guard_rate"] = str(guarded[step])
        checkpoints.append(Checkpoint(step, folder, tags))
    _require_compared(CHECKPOINTS, recorded)
    if any(checkpoint.step == 0 for checkpoint in checkpoints):
        _require_compared(WARM_START, recorded)
    return checkpoints


def _require_compared(folder: Path, recorded: Mapping[str, Stage]) -> None:
    """Refuse models that are not those of dvc.lock, to which the figures of selection belong.

    A killed stage leaves half of a folder, or new weights beside the figures of the old ones.
    """
    inputs = recorded["select"].deps if "select" in recorded else []
    compared = {file.path: file.md5 for file in inputs}.get(folder.as_posix())
    if compared is not None and compared != _dvc_folder_hash(folder):
        raise TrackingError(
            f"{folder} does not hold what {SELECTION} compared, as after a stage that was killed; run `dvc repro` "
            "first"
        )


def _dvc_folder_hash(folder: Path) -> str:
    """Return the hash that DVC gives a folder: of the list of its files and their hashes.

    Without hidden files, as .dvcignore leaves out what a file manager puts there.
    """
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("[!.]*") if path.is_file()}
    listed = []
    for name in sorted(files):
        with files[name].open("rb") as file:
            listed.append({"md5": hashlib.file_digest(file, _md5).hexdigest(), "relpath": name})
    digest = _md5()
    digest.update(json.dumps(listed).encode())
    return f"{digest.hexdigest()}.dir"


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


def _metric_tags(entry: Mapping[str, Any]) -> dict[str, str]:
    """Return a checkpoint's validation metrics and their intervals as tags.

    {"reward": {"value": 0.4, "low": 0.3}} gives validation_reward = "0.4" and validation_reward_low = "0.3".
    """
    tags = {}
    for metric, parts in entry.items():
        if isinstance(parts, Mapping):
            for part, value in parts.items():
                if value is not None:
                    tags[f"validation_{metric}" if part == "value" else f"validation_{metric}_{part}"] = str(value)
    return tags


def read_curves() -> list[tuple[int, dict[str, float]]]:
    """Read the metrics of every training step."""
    return written.read_curves(CURVES)


def summary(checkpoint: Checkpoint) -> str:
    """Write a checkpoint's figure for a list of versions."""
    tags = checkpoint.tags
    reward = tags.get("validation_reward", "unknown")
    interval = f" [{tags.get('validation_reward_low')}, {tags.get('validation_reward_high')}]"
    return f"Step {checkpoint.step}; validation reward {reward}{interval}."
