"""What a GRPO step spends its time on, by torch.profiler: `python -m benchmarks.profile`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from torch.profiler import ProfilerActivity, profile, schedule
from transformers import TrainerCallback

from benchmarks.games import open_hall


def profile_step(products: int | None = None, group_size: int | None = None, operators: int = 12) -> str:
    """Return the table of the operators that the second of two steps spends most time in itself.

    The sizes are those of params.yaml where none are given.
    """
    hall = open_hall()
    with (
        TemporaryDirectory() as folder,
        profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=0, active=1)) as profiler,
    ):
        trainer = hall.trainer(hall.training(2, products, group_size), Path(folder))
        trainer.add_callback(_Steps(profiler))
        trainer.train()
    return str(
        profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=operators, max_name_column_width=80)
    )


class _Steps(TrainerCallback):
    def __init__(self, profiler: Any) -> None:
        self.profiler = profiler

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.profiler.step()


if __name__ == "__main__":
    print(profile_step())
