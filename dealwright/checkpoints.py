"""Where the trained models lie, and how checkpoints are called; no other module knows it."""

from pathlib import Path

WARM_START = Path("data/models/warmstart")
CHECKPOINTS = Path("data/models/checkpoints")
_PREFIX = "step-"


def checkpoint_name(step: int) -> str:
    """Return the name of a step's folder."""
    return f"{_PREFIX}{step:04d}"


def checkpoint_folder(step: int) -> Path:
    """Return the folder of a step's checkpoint; step 0 is the warm start."""
    return CHECKPOINTS / checkpoint_name(step) if step else WARM_START


def checkpoint_steps() -> list[int]:
    """Return the steps that there are checkpoints of, in order; the first is 0, the warm start."""
    return [0, *sorted(int(folder.name.removeprefix(_PREFIX)) for folder in CHECKPOINTS.glob(f"{_PREFIX}*"))]
