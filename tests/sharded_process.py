"""One of the processes that hold a part of a model's weights each: they play, one of them longer, and learn.

    accelerate launch --config_file profiles/accelerate/cpu.yaml -m tests.sharded_process

Prints whether it played and learnt like a process with all of the weights, and whether a server was handed a whole
adapter.
"""

from copy import deepcopy
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from dealwright.engines.base import Sampling
from dealwright.engines.token_server import TokenEngine
from dealwright.engines.transformers import TransformersEngine
from dealwright.training.processes import Processes, join, whole_model
from dealwright.training.served import ServedPolicy
from tests.faulty_server import FaultyServer, send
from tests.tiny import lively, own_tokenizer, tiny_llama

DIALOGUES = [[{"role": "system", "content": f"Brass desk lamp\nprice ${at} budget $8"}] for at in range(3)]


def hand_over(processes: Processes, accelerator: Accelerator) -> None:
    """Hand a server the adapter of a model whose weights are split, from the first process alone."""
    tokenizer = own_tokenizer()
    whole = get_peft_model(tiny_llama(tokenizer), LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM"))
    split = deepcopy(whole)
    for layer in split.base_model.model.model.layers:
        fully_shard(layer)
    fully_shard(split)
    state = SimpleNamespace(global_step=0)
    trainer: Any = SimpleNamespace(model=split, accelerator=accelerator, is_deepspeed_enabled=False, state=state)
    with FaultyServer(echo_name) as server, TemporaryDirectory() as folder:
        place = Path(processes.agree(folder), "adapter")
        policy = ServedPolicy(processes.agree(server.base_url), tokenizer, place)
        with policy.voice(trainer) as engine:
            assert isinstance(engine, TokenEngine)
            adapter = load_file(place / "adapter_model.safetensors")
            assert engine.model.startswith("step-00001-")
        for name, weight in whole.named_parameters():
            if ".lora_" in name:
                assert torch.equal(adapter.pop(name.replace(".default", "")), weight), name
        assert not adapter
        assert [body["lora_name"] for body in server.bodies] == ([engine.model] if processes.first else [])
        assert all(isinstance(weight, DTensor) for weight in split.parameters())
        processes.wait()


def echo_name(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: Event) -> None:
    """Reply with the name of the adapter."""
    send(body["lora_name"])(handler, body, closing)


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
    hand_over(processes, trainer.accelerator)
    print(f"process {processes.index} of {processes.count} played and learnt alike", flush=True)


if __name__ == "__main__":
    main()
