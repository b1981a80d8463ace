"""The warm start: what is learned from demonstrations, which models are taken, and the gate."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dealwright.errors import DealwrightError
from dealwright.game import Outcome, StopReason
from dealwright.params import Gate, Warmstart
from dealwright.rollout import Episode, episodes_frame
from dealwright.training.models import load_model, replacing_folder
from dealwright.training.rows import Row
from dealwright.training.warmstart import GateError, check_gate, demonstration_rows, fine_tune
from tests.tiny import buyer_prompts, chatml_tokenizer, demonstrations, tiny_llama, tiny_params, tiny_scenarios

GATE = Gate(valid=0.95, overshoot=0.05)


def options(**changes: Any) -> Warmstart:
    return tiny_params(warmstart={"learning_rate": 0.01, **changes}).warmstart


def rows(tokenizer: PreTrainedTokenizerBase) -> list[Row]:
    scenarios = tiny_scenarios(4)
    return demonstration_rows(tokenizer, demonstrations(scenarios, 2), buyer_prompts(scenarios), "brief")


def weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, torch.Tensor], float]]:
    """What the trainer computed a loss on, and the loss."""
    import trl

    seen = []

    class Noted(trl.SFTTrainer):
        def compute_loss(self, model: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            batch = {name: value.clone() for name, value in inputs.items()}
            found = super().compute_loss(model, inputs, *args, **kwargs)
            seen.append((batch, (found[0] if isinstance(found, tuple) else found).item()))
            return found

    monkeypatch.setattr(trl, "SFTTrainer", Noted)
    return seen


def test_only_the_buyer_s_tokens_are_learned_and_every_weight_moves(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    batches: list[tuple[dict[str, torch.Tensor], float]],
) -> None:
    before = weights(model)
    untrained = tiny_llama(tokenizer)
    demonstrated = rows(tokenizer)
    fine_tune(model, tokenizer, demonstrated, options())
    assert all(not torch.equal(weight, before[name]) for name, weight in model.named_parameters())
    known = {row.ids: row.mask for row in demonstrated}
    assert [len(batch["input_ids"]) for batch, _ in batches] == [4, 4]
    for batch, _ in batches:
        for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
            real = tuple(ids[mask.bool()].tolist())
            learned = [int(label != -100) for label in labels[mask.bool()]]
            assert learned == list(known[real])
            assert set(labels[~mask.bool()].tolist()) <= {-100}
    batch, loss = batches[0]
    with torch.no_grad():
        logits = untrained(batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1]
    expected = cross_entropy(logits.flatten(0, 1), batch["labels"][:, 1:].flatten(), ignore_index=-100)
    assert loss == pytest.approx(expected.item(), rel=1e-4)


def test_the_seed_fixes_the_result(tokenizer: PreTrainedTokenizerBase) -> None:
    def tuned(seed: int) -> dict[str, torch.Tensor]:
        model = tiny_llama(tokenizer)
        fine_tune(model, tokenizer, rows(tokenizer), options(seed=seed, steps=1))
        return weights(model)

    first, again, other = tuned(1), tuned(1), tuned(2)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


def games(*stops: tuple[StopReason, float | None]) -> pl.DataFrame:
    scenario = tiny_scenarios(1)[0]
    return episodes_frame(
        [Episode(scenario, "warmstart", "training", at, (), Outcome(*stop, 1)) for at, stop in enumerate(stops)]
    )


def test_the_gate_lets_a_buyer_through_that_keeps_the_rules() -> None:
    found = check_gate(games(*[(StopReason.DEAL, 25.0)] * 19, (StopReason.INVALID, None)), GATE)
    assert (found["games"], found["valid_rate"], found["overshoot_rate"]) == (20, 0.95, 0.0)
    assert found["deal_rate"] == 0.95


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ((StopReason.INVALID, None), r"got 90\.0% and 0\.0% over 20 games"),
        ((StopReason.DEAL, 39.0), r"got 100\.0% and 10\.0% over 20 games"),
    ],
    ids=["invalid", "above the budget"],
)
def test_the_gate_stops_a_buyer_that_does_not(broken: tuple[StopReason, float | None], message: str) -> None:
    with pytest.raises(GateError, match=message) as stop:
        check_gate(games(*[(StopReason.DEAL, 25.0)] * 18, broken, broken), GATE)
    assert "expected" in str(stop.value) and "\n" not in str(stop.value)


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


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "cannot load the model in .*; make or fetch it again"),
        (lose_a_tensor, r"lack 1 tensors of the model, among them model\.layers\.0\.self_attn\.q_proj\.weight"),
        (pickle_weights, "cannot load the model in .*; make or fetch it again"),
        (enlarge, "cannot load the model in .*; make or fetch it again"),
        (change_vocabulary, r"the tokenizer in .* has \d+ tokens, but the model knows 300"),
        (lose_the_template, "has no chat template; take an instruct model"),
        (empty, "expected a folder with a causal language model, got .*; see warmstart.base"),
    ],
)
def test_a_damaged_model_is_refused_with_one_line(
    damage: Any, message: str, base_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "base"
    shutil.copytree(base_folder, folder)
    damage(folder)
    with pytest.raises(DealwrightError, match=message) as stop:
        load_model(folder)
    assert "\n" not in str(stop.value)


def test_a_folder_is_put_in_place_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "models" / "warmstart"
    with replacing_folder(place) as beside:
        (beside / "weights").write_text("old")
    with pytest.raises(OSError, match="disk full"), replacing_folder(place) as beside:
        (beside / "weights").write_text("ne")
        raise OSError("disk full")
    assert (place / "weights").read_text() == "old"
    with replacing_folder(place) as beside:
        (beside / "other").write_text("new")
    assert [file.name for file in place.iterdir()] == ["other"]
    assert [folder.name for folder in place.parent.iterdir()] == ["warmstart"]
