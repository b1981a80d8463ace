"""The warm start: what is learned from demonstrations, which models are taken, and the gate."""

from typing import Any

import polars as pl
import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dealwright.game import Outcome, StopReason
from dealwright.params import Gate, Warmstart
from dealwright.rollout import Episode, episodes_frame
from dealwright.training.rows import Row
from dealwright.training.warmstart import GateError, check_gate, demonstration_rows, fine_tune
from tests.tiny import buyer_prompts, demonstrations, tiny_llama, tiny_params, tiny_scenarios

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
