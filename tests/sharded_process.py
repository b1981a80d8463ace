"""One of the processes that hold a part of a model's weights each: they play, one of them longer, and learn.

    accelerate launch --config_file profiles/accelerate/cpu.yaml -m tests.sharded_process

Prints whether it played and learnt like a process with all of the weights.
"""

from copy import deepcopy
from types import SimpleNamespace
from typing import Any, cast

import torch
from accelerate import Accelerator
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from dealwright.engines.base import Sampling
from dealwright.engines.transformers import TransformersEngine
from dealwright.training.processes import join, whole_model
from tests.tiny import lively, own_tokenizer, tiny_llama

DIALOGUES = [[{"role": "system", "content": f"Brass desk lamp\nprice ${at} budget $8"}] for at in range(3)]


def main() -> None:
    """Play and learn with split weights."""
    processes = join()
    tokenizer = own_tokenizer()
    whole = lively(tiny_llama(tokenizer))
    split = deepcopy(whole)
    for layer in split.model.layers:
        fully_shard(layer)
    fully_shard(split)
    trainer: Any = SimpleNamespace(model=split, accelerator=Accelerator(cpu=True), is_deepspeed_enabled=False)
    ids = torch.arange(24).reshape(2, 12)
    for _ in range(2):
        with whole_model(trainer) as model:
            for call in range(1 + 3 * processes.index):
                sampling = Sampling(1.0, 8, call)
                played = TransformersEngine(model, tokenizer).generate(DIALOGUES, sampling)
                assert played == TransformersEngine(whole, tokenizer).generate(DIALOGUES, sampling)
        for one in (whole, split):
            one.zero_grad()
            one(input_ids=ids, labels=ids).loss.backward()
        for (name, weight), own in zip(split.named_parameters(), whole.parameters(), strict=True):
            assert isinstance(weight, DTensor), f"{name} is not split any more"
            assert weight.to_local().numel() < own.numel()
            assert torch.allclose(cast(DTensor, weight.grad).full_tensor(), cast(torch.Tensor, own.grad), atol=1e-5), (
                name
            )
    print(f"process {processes.index} of {processes.count} played and learnt alike", flush=True)


if __name__ == "__main__":
    main()
