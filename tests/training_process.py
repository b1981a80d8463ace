"""One of the processes of a training whose games are scripted, so that they are the same however many play them.

    accelerate launch --config_file profiles/accelerate/cpu.yaml -m tests.training_process BASE WORK SIZES

SIZES is JSON: parameters of the group `train`. Ends by writing into the work folder how many collective calls this
process took part in, and with which seeds it played.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import torch

from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.loading import load_model
from dealwright.errors import run_stage
from dealwright.seats import training_seller
from dealwright.training import grpo
from dealwright.training.processes import join
from dealwright.training.run import train_buyer
from tests.tiny import ScriptedEngine, buyer_prompts, tiny_params, tiny_scenarios


class Uneven(ScriptedEngine):
    """Walks away at once from every second product, and haggles over the others for as long as it takes."""

    seeds: ClassVar[list[int]] = []

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        self.seeds.append(sampling.seed)
        return super().generate(conversations, sampling)

    def message(self, at: int, conversation: Conversation) -> str:
        if "lamp" in conversation[0]["content"]:
            return "Talk: No.\nAction: [QUIT]"
        return super().message(at, conversation)


class Silent:
    """Logs nothing."""

    def log_step(self, step: int, metrics: dict[str, float | None]) -> None:
        """Leave it."""


def main() -> None:
    """Train a tiny random model."""
    base, work, sizes = sys.argv[1:]
    grpo.TransformersEngine = Uneven  # type: ignore[assignment, attr-defined]
    processes = join()
    scenarios = tiny_scenarios(2)
    model, tokenizer = load_model(base)
    params = tiny_params(train={"products": 2, "group_size": 8, "micro_batch": 4, **json.loads(sizes)})
    prompts, seat = buyer_prompts(scenarios), training_seller(params, scenarios, Path(work))
    train_buyer(model, tokenizer, scenarios, prompts, params, Path(work), Silent(), seat, processes)
    if processes.count > 1:
        calls = torch.distributed.group.WORLD._get_sequence_number_for_group()
        # What two processes print may run into each other.
        Path(work, f"process-{processes.index}.json").write_text(json.dumps({"calls": calls, "seeds": Uneven.seeds}))


if __name__ == "__main__":
    run_stage(main)
