"""Which model folders are taken, and what is said of the others."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedTokenizerBase

from dealwright.engines.loading import load_model
from dealwright.engines.transformers import TransformersEngine
from dealwright.errors import DealwrightError
from tests.tiny import chatml_tokenizer, tiny_llama


def test_a_model_is_loaded_whole_from_its_folder(base_folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    model, loaded = load_model(base_folder)
    fresh = tiny_llama(tokenizer)
    assert all(torch.equal(weight, fresh.get_parameter(name)) for name, weight in model.named_parameters())
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}
    assert loaded.chat_template == tokenizer.chat_template


def cut(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-500])


def lose_a_tensor(folder: Path) -> None:
    kept = load_file(folder / "model.safetensors")
    del kept["model.layers.0.self_attn.q_proj.weight"]
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


def pickle_weights(folder: Path) -> None:
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def enlarge(folder: Path) -> None:
    model = tiny_llama(chatml_tokenizer(), vocab_size=9000)
    model.save_pretrained(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"vocab_size": 8000}))


def change_vocabulary(folder: Path) -> None:
    tiny_llama(chatml_tokenizer(), vocab_size=300).save_pretrained(folder)


def lose_the_template(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()


def empty(folder: Path) -> None:
    shutil.rmtree(folder)


@pytest.mark.parametrize("load", [load_model, TransformersEngine.from_folder], ids=["to train", "to play"])
@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "cannot load the model in .*; make or fetch it again"),
        (lose_a_tensor, r"lack 1 tensors of the model, among them model\.layers\.0\.self_attn\.q_proj\.weight"),
        (pickle_weights, "cannot load the model in .*; make or fetch it again"),
        (enlarge, "its weights have other sizes than its config.json says; make or fetch it again"),
        (change_vocabulary, r"the tokenizer in .* has \d+ tokens, but the model knows 300"),
        (lose_the_template, "has no chat template; take an instruct model"),
        (empty, "expected a folder with a causal language model, got .*; make or fetch it first"),
    ],
)
def test_a_damaged_model_is_refused_with_one_line(
    load: Callable[[Path], object],
    damage: Callable[[Path], None],
    message: str,
    base_folder: Path,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "base"
    shutil.copytree(base_folder, folder)
    damage(folder)
    with pytest.raises(DealwrightError, match=message) as stop:
        load(folder)
    assert "\n" not in str(stop.value)
