"""Several processes that train one model, as `accelerate launch` starts them around the training stage.

Each plays and learns its part of a step's games, and the gradient is that of all games. Process 0 alone writes files.
No process waits for another while games are played, as dialogues differ in length: weights that are split over the
processes are put together first.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from torch.distributed.fsdp import FSDPModule
from trl.models.utils import unwrap_model_for_generation

if TYPE_CHECKING:
    from transformers import PreTrainedModel
    from trl import GRPOTrainer

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Processes:
    """Which process this is, of how many."""

    index: int = 0
    count: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the one that writes files."""
        return self.index == 0

    def agree(self, value: Value) -> Value:
        """Return process 0's value, in every process."""
        values = [value]
        if self.count > 1:
            broadcast_object_list(values)
        return values[0]

    def wait(self) -> None:
        """Go on once every process has come here."""
        if self.count > 1:
            torch.distributed.barrier()


ALONE = Processes()


def is_lost(error: BaseException) -> bool:
    """Say whether an error means that another process has ended: a broken connection, or the launcher's own signal."""
    return isinstance(error, SystemExit | torch.distributed.DistError) or "gloo" in str(error)


def join() -> Processes:
    """Join the processes that this one was started with; one alone joins nobody."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ALONE
    state = PartialState(cpu=not torch.cuda.is_available())
    return Processes(state.process_index, state.num_processes)


@contextmanager
def whole_model(trainer: "GRPOTrainer") -> Iterator["PreTrainedModel"]:
    """Yield the model with all its weights in this process, so that playing with it needs no other process."""
    if trainer.is_deepspeed_enabled:
        with unwrap_model_for_generation(trainer.model_wrapped, trainer.accelerator) as model:
            yield model
        return
    model = trainer.accelerator.unwrap_model(trainer.model)
    parts = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for part in parts:
        part.set_reshard_after_forward(False, recurse=False)
        part.unshard()
    yield model
    for part in parts:
        part.set_reshard_after_forward(True, recurse=False)
        part.reshard()
