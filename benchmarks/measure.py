"""How a comparison is measured and kept: the sides in turn, in one run, and the ratio of their medians."""

import os
import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from statistics import median
from time import perf_counter
from typing import Any

LIBRARIES = ("numpy", "pandas", "polars", "pyarrow", "torch", "transformers", "trl")

Side = Callable[[], float]  # does the work once and returns what it cost


@dataclass(frozen=True, slots=True)
class Comparison:
    """What both sides cost in each repeat, in one unit, and how many times more the other side is to cost at least.

    `sizes` say how much was done and `found` what else was measured on the way.
    """

    what: str
    other: str
    unit: str
    ours: Sequence[float]
    others: Sequence[float]
    target: float
    sizes: dict[str, Any]
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times our cost the other side's is, by the medians of the repeats."""
        return median(self.others) / median(self.ours)

    def as_json(self) -> dict[str, Any]:
        """Return the entry of reports/benchmarks.json."""
        return {
            "what": self.what,
            "compared_with": self.other,
            "unit": self.unit,
            "ours": list(self.ours),
            "other": list(self.others),
            "ratio": self.ratio,
            "target": self.target,
            "reached": self.ratio >= self.target,
            "sizes": self.sizes,
            "found": self.found,
        }


def in_turn(ours: Side, other: Side, repeats: int) -> tuple[list[float], list[float]]:
    """Measure both sides `repeats` times, each repeat beginning with the other one than the last."""
    costs: tuple[list[float], list[float]] = ([], [])
    for repeat in range(repeats):
        for place in (0, 1) if repeat % 2 == 0 else (1, 0):
            costs[place].append((ours, other)[place]())
    return costs


def seconds(work: Callable[[], object]) -> float:
    """Return the wall seconds that the work takes."""
    start = perf_counter()
    work()
    return perf_counter() - start


def machine() -> dict[str, Any]:
    """Describe what the figures depend on, without naming the machine."""
    import torch

    return {
        "cores": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "vector_instructions": torch.backends.cpu.get_cpu_capability(),
        "architecture": platform.machine(),
        "python": platform.python_version(),
        "system": sys.platform,
        "libraries": {name: version(name) for name in LIBRARIES},
    }
