"""What a trainer is told about this machine."""

from typing import Any

import torch


def machine_arguments() -> dict[str, Any]:
    """Return the arguments of both trainers that follow from this machine, and those that keep them quiet."""
    on_gpu = torch.cuda.is_available()
    return {
        "bf16": on_gpu,
        "use_cpu": not on_gpu,
        "activation_checkpointing": on_gpu,
        "ddp_find_unused_parameters": False,
        "dataloader_pin_memory": on_gpu,
        "report_to": "none",
        "disable_tqdm": True,
    }


def weights_dtype(lora_rank: int) -> torch.dtype:
    """Return how a model's weights are held in training: in bfloat16 on a GPU where an adapter alone is trained."""
    return torch.bfloat16 if lora_rank and torch.cuda.is_available() else torch.float32
