"""What a run needs: parameters against known sizes and the libraries, bytes and hours against sums made by hand."""

import json
import math
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    MistralConfig,
    PretrainedConfig,
    Qwen2Config,
    Qwen3Config,
    Qwen3MoeConfig,
)

from dealwright.cli import main
from dealwright.errors import DealwrightError
from dealwright.plan import GPUS, OneGpu, Plan, make_plan
from dealwright.shapes import KNOWN, find_shape, read_shape
from dealwright.training.served import adapted_layers
from tests.tiny import tiny_params

ROOT = Path(__file__).parents[1]
SMALL = {
    **{"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "intermediate_size": 48, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2},
}
EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24}


@pytest.mark.parametrize(
    ("name", "parameters", "active"),
    [
        ("Qwen3-30B-A3B-Instruct-2507", 30.5e9, 3.3e9),
        ("Llama-3.1-8B", 8.03e9, 8.03e9),
        ("SmolLM2-135M-Instruct", 134.5e6, 134.5e6),
    ],
)
def test_a_known_models_parameters_are_the_published_ones(name: str, parameters: float, active: float) -> None:
    shape, where = find_shape(f"data/external/{name}")
    assert shape.parameters == pytest.approx(parameters, rel=0.002)
    assert shape.active == pytest.approx(active, rel=0.02)
    assert where.startswith("the table of known models")


def test_the_base_models_parameters_are_those_of_its_weights() -> None:
    with (ROOT / "data/base/model.safetensors").open("rb") as file:
        header = json.loads(file.read(*struct.unpack("<Q", file.read(8))))
    weights = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
    shape, where = find_shape(str(ROOT / "data/base"))
    assert shape.tied
    assert shape.parameters == sum(map(math.prod, weights.values())) == 1_774_656
    assert where.endswith("data/base/config.json")


CONFIGS = [
    LlamaConfig(**SMALL, tie_word_embeddings=True),
    LlamaConfig(**SMALL, tie_word_embeddings=False),
    MistralConfig(**SMALL, head_dim=16),
    Qwen2Config(**SMALL),
    Qwen3Config(**SMALL, head_dim=24),
    Qwen3MoeConfig(**SMALL, **EXPERTS, head_dim=24),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.model_type)
def test_parameters_and_adapters_are_as_many_as_the_libraries_make(config: PretrainedConfig, tmp_path: Path) -> None:
    config.save_pretrained(tmp_path)
    shape = read_shape(tmp_path / "config.json")
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
        assert shape.parameters == model.num_parameters()
        adapted = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
    assert shape.adapter(4) == adapted.num_parameters(only_trainable=True)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.model_type)
def test_an_adapter_for_a_server_is_as_large_as_the_libraries_make_it(
    config: PretrainedConfig, tmp_path: Path
) -> None:
    config.save_pretrained(tmp_path)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
        layers = adapted_layers(model)
        adapted = get_peft_model(model, LoraConfig(r=4, target_modules=layers, task_type="CAUSAL_LM"))
    assert read_shape(tmp_path / "config.json").adapter(4, served=True) == adapted.num_parameters(only_trainable=True)


def test_the_experts_that_do_not_work_on_a_token_are_not_active(tmp_path: Path) -> None:
    Qwen3MoeConfig(**SMALL, **EXPERTS).save_pretrained(tmp_path)
    shape = read_shape(tmp_path / "config.json")
    assert shape.parameters - shape.active == 3 * (6 - 2) * 3 * 32 * 24


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "is missing or unreadable; fetch the model again"),
        ("[]", "expected a model_type of llama, mistral, qwen2, qwen3, qwen3_moe, got None"),
        ('{"model_type": "gpt2"}', "got 'gpt2'"),
        ('{"model_type": "llama"}', "num_attention_heads: expected a whole number above 0, got None"),
        ('{"model_type": "llama", "num_attention_heads": 0}', "num_attention_heads: expected a whole number above 0"),
        ('{"model_type": "qwen3_moe", "mlp_only_layers": [0]}', "expected experts in every layer"),
    ],
)
def test_a_model_that_cannot_be_counted_is_one_line(config: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config)
    with pytest.raises(DealwrightError) as error:
        read_shape(tmp_path / "config.json")
    assert message in str(error.value)


def test_an_unknown_model_that_is_not_there_is_named_with_the_known() -> None:
    with pytest.raises(DealwrightError, match=r"expected a model in data/none, .* not one of Qwen3-30B-A3B"):
        find_shape("data/none")


def planned(gpus: int | None = None, base: str = "data/external/Llama-3.1-8B", **train: Any) -> Plan:
    sizes = {"products": 8, "group_size": 8, "micro_batch": 2, "steps": 10, "message_tokens": 100, **train}
    return make_plan(tiny_params(warmstart={"base": base}, train=sizes), gpus)


def on(plan: Plan, name: str) -> OneGpu:
    return next(one for one in plan.gpus if one.gpu.name == name)


def held(one: OneGpu) -> dict[str, float]:
    return {figure.name: figure.value for figure in one.held}


def test_full_training_holds_float32_weights_gradients_and_two_moments_split_over_the_gpus() -> None:
    parameters = KNOWN["Llama-3.1-8B"].parameters
    one = held(on(planned(gpus=4), "H100 SXM"))
    assert one["weights"] == parameters
    assert one["gradients"] == parameters
    assert one["optimizer"] == 2 * parameters
    assert one["playing copy"] == 2 * parameters
    assert one["reference"] == 0
    assert held(on(planned(gpus=1), "H100 SXM"))["playing copy"] == 0
    assert held(on(planned(gpus=2, kl=0.1), "H100 SXM"))["reference"] == 2 * parameters
    assert held(on(planned(gpus=2, hold=0.1), "H100 SXM"))["reference"] == 2 * parameters


def test_lora_holds_frozen_weights_in_bfloat16_and_trains_the_adapter_alone() -> None:
    shape = KNOWN["Llama-3.1-8B"]
    adapter = 16 * 32 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336))
    plan = planned(gpus=1, lora_rank=16, kl=0.1)
    one = held(on(plan, "H200 SXM"))
    assert one["weights"] == 2 * shape.parameters + 4 * adapter
    assert (one["gradients"], one["optimizer"], one["reference"]) == (4 * adapter, 8 * adapter, 0)
    assert [figure.value for figure in plan.model] == [shape.parameters, shape.parameters, adapter]


def test_a_buyer_that_plays_through_a_server_needs_no_cache_here() -> None:
    plan = planned(gpus=1, lora_rank=16, server="http://127.0.0.1:8000/v1")
    assert held(on(plan, "H200 SXM"))["cache"] == 0
    assert held(on(planned(gpus=1, lora_rank=16), "H200 SXM"))["cache"] > 0


def test_the_cache_holds_every_token_of_the_games_that_a_gpu_plays() -> None:
    # Llama-3.1-8B keeps 131,072 bytes a token in bfloat16.
    plan = planned(gpus=4)
    tokens = {figure.name: figure.value for figure in plan.step}["tokens of a game, at most"]
    assert held(on(plan, "H100 SXM"))["cache"] == 16 * tokens * 131_072


def test_tokens_follow_from_games_turns_and_messages() -> None:
    figures = {figure.name: figure.value for figure in planned(update_share=0.25).step}
    prompt = figures["tokens of a game, at most"] - 6 * 140
    assert 40 < prompt < 150  # the brief prompt: a title, a category, two prices and the ruler
    assert figures["games"] == 64
    assert figures["tokens of a game, expected"] == prompt + 6 * 90
    assert figures["tokens of a step"] == 64 * (prompt + 6 * 90)
    assert figures["tokens learnt from"] == 16 * (prompt + 6 * 90)


def test_hours_follow_from_the_peaks_and_the_stated_shares_of_them() -> None:
    shape = KNOWN["Llama-3.1-8B"]
    plan = planned(gpus=2)
    figures = {figure.name: figure.value for figure in plan.step}
    one = on(plan, "H100 SXM")
    playing, learning = (figure.value for figure in one.hours)
    arithmetic = 2 * 989e12 * 0.25
    assert learning == pytest.approx(10 * 8 * shape.parameters * figures["tokens learnt from"] / arithmetic / 3600)
    cache = 32 * figures["tokens of a game, expected"] / 2 * 131_072
    token = (2 * shape.parameters + cache) / (3.35e12 * 0.5) + 32 * 0.0002
    reading = 2 * shape.parameters * figures["tokens of a step"] / arithmetic
    assert playing == pytest.approx(10 * (reading + 600 * token) / 3600)
    assert one.total_hours == playing + learning


def test_a_folder_that_sells_stands_on_every_gpu_and_a_served_model_on_none() -> None:
    folder = {"kind": "transformers", "folder": "data/external/Llama-3.1-8B"}
    served = {"kind": "openai", "model": "Llama-3.1-8B", "address": "http://127.0.0.1:8000/v1"}
    assert held(on(planned(gpus=4, engine=folder), "H100 SXM"))["seller"] == 2 * KNOWN["Llama-3.1-8B"].parameters
    assert held(on(planned(gpus=4, engine=served), "H100 SXM"))["seller"] == 0
    assert held(on(planned(gpus=4), "H100 SXM"))["seller"] == 0


def test_playing_and_learning_take_turns_in_memory() -> None:
    one = on(planned(gpus=2), "H100 SXM")
    kinds = held(one)
    steady = kinds["weights"] + kinds["gradients"] + kinds["optimizer"]
    assert one.bytes == steady + max(kinds["playing copy"] + kinds["cache"], kinds["activations"])


def test_the_fewest_gpus_that_hold_a_run_are_planned_and_what_does_not_fit_says_so() -> None:
    plan = planned()
    for one in plan.gpus:
        assert one.count in (1, 2, 4, 8, 16, 32)  # a step has 32 micro-batches
        if one.fits and one.count > 1:
            fewer = on(planned(gpus=one.count // 2), one.gpu.name)
            assert not fewer.fits
    assert not on(planned(gpus=1), "L40S").fits
    assert on(planned(base=str(ROOT / "data/base")), "L40S").count == 1


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "profiles", tmp_path / "profiles")
    shutil.copytree(ROOT / "data/base", tmp_path / "data/base")
    shutil.copy(ROOT / "params.yaml", tmp_path)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def test_the_plan_of_a_profile_leaves_params_yaml_alone_and_says_what_has_not_run(project: Path) -> None:
    before = Path("params.yaml").read_bytes()
    shown = run("--profile", "paper").stdout
    assert "parameters                    30,532,122,624   embeddings 622,329,856 + 48 layers x" in shown
    assert "trained                        1,993,015,296   LoRA on attention, router and all experts:" in shown
    assert shown.splitlines()[-1] == (
        "Estimates for choosing a machine: nothing of this has run on a GPU, neither memory nor hours were measured."
    )
    assert Path("params.yaml").read_bytes() == before
    assert "model: data/base (shape from data/base/config.json)" in run().stdout


def test_every_planned_figure_has_a_formula_in_json_too(project: Path) -> None:
    found = json.loads(run("--profile", "smol", "--gpus", "2", "--json").stdout)
    assert [one["gpu"]["name"] for one in found["gpus"]] == [gpu.name for gpu in GPUS]
    assert {one["count"] for one in found["gpus"]} == {2}
    figures = [*found["model"], *found["step"], *found["gpus"][0]["held"], *found["gpus"][0]["hours"]]
    assert all(figure["formula"] for figure in figures)
    assert found["note"].startswith("Estimates")


def test_an_unknown_profile_is_one_line(project: Path) -> None:
    result = run("--profile", "huge")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
