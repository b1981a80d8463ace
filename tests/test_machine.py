"""What both trainers are told about the machine."""

import warnings
from pathlib import Path

import pytest
import torch

from dealwright.training.machine import machine_arguments


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_gpu_is_used_where_there_is_one(on_gpu: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: on_gpu)
    assert machine_arguments() == {
        "bf16": on_gpu,
        "use_cpu": not on_gpu,
        "activation_checkpointing": on_gpu,
        "ddp_find_unused_parameters": False,
        "dataloader_pin_memory": on_gpu,
        "report_to": "none",
        "disable_tqdm": True,
    }


def test_both_trainers_take_them_without_a_warning(tmp_path: Path) -> None:
    from trl import GRPOConfig, SFTConfig

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for kind in (GRPOConfig, SFTConfig):
            taken = kind(output_dir=str(tmp_path), **machine_arguments())
            assert taken.gradient_checkpointing is taken.activation_checkpointing is torch.cuda.is_available()
            assert (taken.report_to, taken.disable_tqdm) == ([], True)
