"""GRPO through TRL's own trainer, with scripted buyers: what is trained, with which weight, and what is not."""

import math
import re
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dealwright import seats
from dealwright.game import Outcome, Scenario, StopReason
from dealwright.rollout import Episode
from dealwright.seats import training_seller
from dealwright.training import grpo, holding
from dealwright.training.batches import by_length
from dealwright.training.credit import before_each_message, by_token, message_advantages
from dealwright.training.games import Table, TrainingError, visits
from dealwright.training.grpo import BuyerTrainer, make_trainer
from tests.tiny import (
    ScriptedEngine,
    buyer_prompts,
    chatml_tokenizer,
    spoken_parts,
    tiny_params,
    tiny_qwen,
    tiny_scenarios,
)

GAMES = 8  # two products, four games each
Batch = dict[str, Any]


class Lab:
    """A trainer, what its rollouts kept, and the micro-batches that it computed a loss on."""

    def __init__(self, trainer: BuyerTrainer, kept: dict[int, list[Episode]], batches: list[Batch]) -> None:
        self.trainer = trainer
        self.kept = kept
        self.batches = batches

    def train(self) -> None:
        """Train, and note no batch from then on."""
        self.trainer.train()
        self.batches = list(self.batches)

    def rows(self, key: str) -> dict[int, torch.Tensor]:
        """Return that tensor's row of each game of the last step."""
        return {
            int(game): value
            for batch in self.batches[-self.trainer.args.gradient_accumulation_steps :]
            for game, value in zip(batch["row"], batch[key], strict=True)
        }


@pytest.fixture
def lab(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Lab]:
    """Make a laboratory; a keyword changes the training parameters."""

    def make(engine: type = ScriptedEngine, tokenizer: Any = tokenizer, model: Any = model, **train: Any) -> Lab:
        monkeypatch.setattr(grpo, "TransformersEngine", engine)
        scenarios = tiny_scenarios(5)
        kept: dict[int, list[Episode]] = {}
        batches: list[Batch] = []
        compute = BuyerTrainer._compute_loss

        def noted(self: BuyerTrainer, model: Any, inputs: Batch) -> torch.Tensor:
            batches.append(inputs)
            return compute(self, model, inputs)

        monkeypatch.setattr(BuyerTrainer, "_compute_loss", noted)
        params = tiny_params(train={"steps": 1, "checkpoint_steps": 100, **train})
        trainer = make_trainer(
            model,
            tokenizer,
            scenarios,
            buyer_prompts(scenarios),
            params,
            tmp_path,
            kept.__setitem__,
            training_seller(params, scenarios, tmp_path),
        )
        return Lab(trainer, kept, batches)

    return make


Make = Callable[..., Lab]


def weights(model: PreTrainedModel) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in model.named_parameters()}


def unpadded(batch: Batch, at: int) -> tuple[list[int], list[int]]:
    """Return the completion's ids and the mask of what is trained, without padding."""
    length = int(batch["completion_mask"][at].sum())
    assert set(batch["completion_mask"][at, length:].tolist()) <= {0}
    return batch["completion_ids"][at, :length].tolist(), batch["tool_mask"][at, :length].tolist()


def test_the_trained_tokens_are_exactly_what_the_buyer_said(lab: Make, tokenizer: PreTrainedTokenizerBase) -> None:
    there = lab()
    there.train()
    seen = 0
    for batch in there.batches:
        for at, game in enumerate(batch["row"].tolist()):
            episode = there.kept[1][game]
            said = [text + "<|end|>" for role, text in episode.messages if role == "buyer"]
            assert spoken_parts(tokenizer, *unpadded(batch, at)) == said
            prompt = batch["prompt_ids"][at][batch["prompt_mask"][at].bool()]
            assert tokenizer.decode(prompt).startswith(f"<|system|>{episode.scenario.product.title}\n")
            assert tokenizer.decode(prompt).endswith("<|user|>Begin.<|end|><|assistant|>")
            assert episode.tokens == sum(unpadded(batch, at)[1])
            seen += 1
    assert seen == GAMES
    assert max(len(episode.messages) for episode in there.kept[1]) > 4


def test_one_step_with_unequal_rewards_moves_every_weight(lab: Make, model: PreTrainedModel) -> None:
    before = weights(model)
    there = lab(learning_rate=0.1)
    there.train()
    assert any(advantage != 0 for advantage in there.rows("advantages").values())
    for name, weight in model.named_parameters():
        assert not torch.equal(weight, before[name]), name


def test_the_advantage_is_the_reward_less_its_group_s_mean(lab: Make) -> None:
    there = lab()
    there.train()
    advantages = there.rows("advantages")
    rewards = [table.get_reward() for table in there.trainer.environments]
    assert len(set(rewards)) > 3
    for first in (0, 4):
        mean = sum(rewards[first : first + 4]) / 4
        for game in range(first, first + 4):
            assert advantages[game].item() == pytest.approx(rewards[game] - mean, abs=1e-6)


def test_with_credit_below_one_the_buyer_s_tokens_have_their_message_s_advantage(lab: Make) -> None:
    there = lab(credit=0.5)
    there.train()
    rewards = [table.get_reward() for table in there.trainer.environments]
    tables = [before_each_message(table.game) for table in there.trainer.environments]
    expected = message_advantages(tables, rewards, 4, 0.5)
    masks = there.rows("tool_mask")
    for game, advantages in there.rows("advantages").items():
        assert advantages.tolist() == pytest.approx(by_token([expected[game]], masks[game][None])[0].tolist())
    assert max(len(set(messages)) for messages in expected) > 3


@pytest.mark.parametrize("rank", [0, 2])
def test_tokens_that_the_warm_start_is_sure_of_are_pulled_towards_it_whatever_the_reward(
    lab: Make, model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    monkeypatch.setattr(holding, "SURE", 100.0)
    monkeypatch.setattr(holding, "LARGEST", 100.0)
    warm_start = deepcopy(model)
    there = lab(hold=0.5, lora_rank=rank, learning_rate=0.1, steps=2)
    there.train()
    for batch in there.batches:
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        with torch.no_grad():
            logits = warm_start(input_ids=ids, attention_mask=mask).logits[:, :-1]
        logprobs = logits.log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
        own = (batch["completion_mask"] * batch["tool_mask"]).bool()
        # The scripted engine says that it was certain of each token: a log-probability of 0.
        expected = 0.5 * logprobs[:, -own.shape[1] :]
        assert torch.allclose(batch["advantages"][own], expected[own], atol=1e-3)


def test_the_reward_is_left_to_the_tokens_that_the_warm_start_is_unsure_of(
    lab: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holding, "SURE", 0.0)
    there = lab(hold=0.5)
    there.train()
    rewards = [table.get_reward() for table in there.trainer.environments]
    assert len(set(rewards)) > 3
    for game, advantages in there.rows("advantages").items():
        first = game // 4 * 4
        assert advantages.tolist() == pytest.approx(
            [rewards[game] - sum(rewards[first : first + 4]) / 4] * len(advantages)
        )


def test_what_training_is_held_to_stays_the_warm_start(lab: Make, model: PreTrainedModel) -> None:
    before = weights(model)
    there = lab(hold=0.5, learning_rate=0.1, steps=2)
    there.train()
    reference = there.trainer.reference
    assert reference is not None
    for name, weight in reference.named_parameters():
        assert torch.equal(weight, before[name]) and not torch.equal(weight, model.get_parameter(name)), name


def test_a_group_meets_the_same_seller_in_the_same_round_and_groups_differ(lab: Make) -> None:
    there = lab(steps=3)
    there.train()
    assert sorted(there.kept) == [1, 2, 3]
    met: list[tuple[str, int]] = []
    for episodes in there.kept.values():
        for first in (0, 4):
            group = episodes[first : first + 4]
            assert len({(episode.scenario.id, episode.round) for episode in group}) == 1
            met.append((group[0].scenario.id, group[0].round))
    assert len(set(met)) == 6  # five scenarios: the sixth visit is the second round of one
    assert [round for _, round in met] == [0, 0, 0, 0, 0, 1]


def test_games_of_a_group_that_play_alike_end_alike(lab: Make) -> None:
    class Alike(ScriptedEngine):
        def message(self, at: int, conversation: Any) -> str:
            return super().message(0, conversation)

    there = lab(Alike)
    there.train()
    for first in (0, 4):
        assert len({(episode.messages, episode.outcome) for episode in there.kept[1][first : first + 4]}) == 1
    assert {advantage.item() for advantage in there.rows("advantages").values()} == {0.0}


def test_visits_are_shuffled_passes_and_the_round_is_the_pass() -> None:
    order = visits(["a", "b", "c"], 8, seed=1)
    assert [round for _, round in order] == [0, 0, 0, 1, 1, 1, 2, 2]
    assert {id for id, _ in order[:3]} == {id for id, _ in order[3:6]} == {"a", "b", "c"}
    assert order == visits(["c", "b", "a"], 8, seed=1)
    assert order != visits(["a", "b", "c"], 8, seed=2)


def test_a_game_whose_seller_failed_is_left_out_of_its_group(lab: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent:
        """Gives nothing usable in the first game of a call that is over the first scenario played."""

        def respond(self, games: Sequence[Any]) -> list[str | None]:
            return (
                [None, *["Talk: No.\nAction: [REJECT]"] * (len(games) - 1)]
                if games[0].turn == 1
                else [f"Talk: Fine.\nAction: [DEAL] ${game.transcript[-1].message.action.price:.2f}" for game in games]
            )

    monkeypatch.setattr(seats, "make_seller", lambda name: Silent())
    there = lab()
    there.train()
    assert [episode.outcome.stop for episode in there.kept[1]] == [StopReason.SELLER_FAILED] + [StopReason.DEAL] * 7
    rewards = [table.get_reward() for table in there.trainer.environments]
    assert rewards[0] is None
    advantages = there.rows("advantages")
    mean = sum(rewards[1:4]) / 3
    assert advantages[0].item() == 0
    assert [advantages[game].item() for game in (1, 2, 3)] == pytest.approx(
        [earned - mean for earned in rewards[1:4]], abs=1e-6
    )


def test_the_loss_is_dr_grpo_over_the_buyer_s_tokens_alone(lab: Make, model: PreTrainedModel) -> None:
    there = lab(learning_rate=1e-12)
    there.train()
    assert len(there.batches) == 2
    for batch in there.batches:
        own = (batch["completion_mask"] * batch["tool_mask"]).sum(1)
        # On the policy that played the ratio is 1: each of a row's tokens weighs its advantage, over 6 x 96 tokens.
        expected = -(batch["advantages"] * own).sum() / (len(own) * 6 * 96) / 2
        found = BuyerTrainer._compute_loss(there.trainer, model, batch)
        assert found.item() == pytest.approx(expected.item(), abs=1e-6)


def gradients(trainer: BuyerTrainer, batches: Sequence[Batch]) -> dict[str, torch.Tensor]:
    trainer.model.train()
    trainer.model.zero_grad()
    trainer.current_gradient_accumulation_steps = len(batches)
    for batch in batches:
        trainer._compute_loss(trainer.model, batch).backward()
    return {name: weight.grad.clone() for name, weight in trainer.model.named_parameters()}


def test_no_gradient_comes_from_the_counterpart_s_tokens(lab: Make, model: PreTrainedModel) -> None:
    """The gradient is that of -A/L times the buyer's log-probabilities, to rounding, and of nothing else."""
    there = lab(micro_batch=8, learning_rate=1e-12, temperature=0.8)
    there.train()
    batch = there.batches[0]
    found = gradients(there.trainer, [batch])
    model.zero_grad()
    loss = torch.zeros(())
    for at in range(GAMES):
        completion, own = unpadded(batch, at)
        prompt = batch["prompt_ids"][at][batch["prompt_mask"][at].bool()].tolist()
        logits = model(torch.tensor([prompt + completion])).logits[0, len(prompt) - 1 : -1]
        for logprobs, token, bit in zip((logits / 0.8).log_softmax(-1), completion, own, strict=True):
            if bit:
                loss = loss - batch["advantages"][at] * logprobs[token] / (GAMES * 6 * 96)
    loss.backward()
    size = max(gradient.abs().max() for gradient in found.values())
    for name, weight in model.named_parameters():
        assert (weight.grad - found[name]).abs().max() < 1e-4 * size, name


def test_other_words_of_the_seller_at_the_same_place_would_be_trained_without_the_mask(lab: Make) -> None:
    there = lab(micro_batch=8, learning_rate=1e-12)
    there.train()
    batch = there.batches[0]
    masked = gradients(there.trainer, [batch])
    unmasked = gradients(there.trainer, [batch | {"tool_mask": torch.ones_like(batch["tool_mask"])}])
    size = max(gradient.abs().max() for gradient in masked.values())
    assert max((masked[name] - unmasked[name]).abs().max() for name in masked) > 0.01 * size


def test_dealing_rows_out_by_length_changes_neither_loss_nor_gradient(lab: Make) -> None:
    there = lab(micro_batch=8, learning_rate=1e-12)
    there.train()
    whole = there.batches[0]
    halves = [
        {key: value[rows] if value.dim() else value for key, value in whole.items()}
        for rows in (torch.tensor([0, 3, 5, 6]), torch.tensor([1, 2, 4, 7]))
    ]
    dealt = by_length(halves)
    assert sorted(torch.cat([batch["row"] for batch in dealt]).tolist()) == list(range(GAMES))
    lengths = [(batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1)).tolist() for batch in dealt]
    assert max(lengths[0]) <= min(lengths[1])
    assert dealt[0]["completion_ids"].shape[1] < whole["completion_ids"].shape[1]
    plain, sorted_out = gradients(there.trainer, halves), gradients(there.trainer, dealt)
    size = max(gradient.abs().max() for gradient in plain.values())
    for name, gradient in plain.items():
        assert (gradient - sorted_out[name]).abs().max() < 1e-4 * size, name
    # Every row's own loss stays.
    for batch in dealt:
        for at, game in enumerate(batch["row"].tolist()):
            place = whole["row"].tolist().index(game)
            assert row_loss(there.trainer, batch, at) == pytest.approx(row_loss(there.trainer, whole, place), abs=1e-7)


def row_loss(trainer: BuyerTrainer, batch: Batch, at: int) -> float:
    alone = {key: value[at : at + 1] if value.dim() else value for key, value in batch.items()}
    with torch.no_grad():
        return trainer._compute_loss(trainer.model, alone).item()


def test_cutting_rows_short_keeps_every_token(lab: Make) -> None:
    there = lab()
    there.train()
    for batch in there.batches:
        for key, mask in (("prompt_ids", "prompt_mask"), ("completion_ids", "completion_mask")):
            assert batch[key].shape == batch[mask].shape
            assert batch[mask].sum(1).max() == batch[mask].shape[1]  # cut to the longest
        assert batch["tool_mask"].shape == batch["completion_mask"].shape
    trained = {
        game: sum(unpadded(batch, at)[1]) for batch in there.batches for at, game in enumerate(batch["row"].tolist())
    }
    assert [trained[game] for game in range(GAMES)] == [episode.tokens for episode in there.kept[1]]


def test_a_batch_is_played_once_a_step_and_the_weights_move_once(lab: Make) -> None:
    there = lab(steps=2, micro_batch=2)
    stepped = []
    there.trainer.create_optimizer_and_scheduler(2)
    there.trainer.optimizer.register_step_pre_hook(lambda *_: stepped.append(len(there.batches)))
    there.train()
    assert stepped == [4, 8]
    assert sorted(there.kept) == [1, 2]
    assert [{episode.checkpoint for episode in episodes} for episodes in there.kept.values()] == [{0}, {1}]


def test_without_kl_there_is_no_reference_model_and_with_it_there_is(lab: Make, base_folder: Path) -> None:
    from dealwright.engines.loading import load_model

    assert lab().trainer.ref_model is None
    model, tokenizer = load_model(base_folder)
    there = lab(model=model, tokenizer=tokenizer, kl=0.1, learning_rate=0.1)
    there.train()
    assert there.trainer.ref_model is not None
    own = there.batches[0]["completion_mask"] * there.batches[0]["tool_mask"]
    assert there.batches[0]["ref_per_token_logps"].shape == own.shape
    untrained = load_model(base_folder)[0]
    for name, weight in there.trainer.ref_model.named_parameters():
        assert torch.equal(weight, untrained.get_parameter(name)), name


def test_a_template_with_text_between_the_turns_trains_the_same_way(lab: Make) -> None:
    chatml = chatml_tokenizer()
    there = lab(tokenizer=chatml, model=tiny_qwen(chatml))
    there.train()
    for batch in there.batches:
        for at, game in enumerate(batch["row"].tolist()):
            said = [text + "<|im_end|>" for role, text in there.kept[1][game].messages if role == "buyer"]
            assert spoken_parts(chatml, *unpadded(batch, at)) == said


def test_an_adapter_is_trained_in_place_of_the_weights(lab: Make, model: PreTrainedModel) -> None:
    before = weights(model)
    there = lab(lora_rank=2, learning_rate=0.1)
    there.train()
    trained = {name for name, weight in there.trainer.model.named_parameters() if weight.requires_grad}
    assert trained and all("lora" in name for name in trained)
    after = dict(there.trainer.model.named_parameters())
    for name, weight in before.items():
        place = f"base_model.model.{name}"
        adapted = f"base_model.model.{name.removesuffix('.weight')}.base_layer.weight"
        assert torch.equal(after.get(adapted, after.get(place)), weight), name


def test_the_policy_itself_plays_when_nothing_is_scripted(
    lab: Make, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    from dealwright.engines.transformers import TransformersEngine

    there = lab(TransformersEngine, message_tokens=5)
    there.train()
    for batch in there.batches:
        for at, game in enumerate(batch["row"].tolist()):
            ids, own = unpadded(batch, at)
            # A random model breaks the rules at once: one message, all of it trained.
            assert own == [1] * len(ids) and len(ids) <= 5
            text = there.kept[1][game].messages[0][1]
            assert text.startswith(tokenizer.decode(ids[:-1]) if ids[-1] == 0 else tokenizer.decode(ids))
    assert {episode.outcome.stop for episode in there.kept[1]} == {StopReason.INVALID}


def test_a_reward_that_is_no_number_stops_before_it_is_trained_on(
    lab: Make, model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(scenario: Scenario, outcome: Outcome) -> float:
        return math.nan if scenario.id == "s3" else 0.5

    monkeypatch.setattr("dealwright.training.games.reward", broken)
    there = lab(steps=3)
    with pytest.raises(TrainingError, match=r"^step [123]: the reward is nan, expected a finite number, .* s3; check"):
        there.train()


def test_a_loss_that_is_no_number_stops_before_it_reaches_the_weights(
    lab: Make, model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = lab(micro_batch=8)
    prepare = BuyerTrainer._generate_and_score_completions
    blamed: list[str] = []

    def poisoned(self: BuyerTrainer, inputs: Any) -> Batch:
        batch = prepare(self, inputs)
        batch["advantages"][6] = math.inf
        batch["advantages"][7] = math.nan
        blamed.append(self.environments[6].game.scenario.id)
        return batch

    monkeypatch.setattr(BuyerTrainer, "_generate_and_score_completions", poisoned)
    before = weights(model)
    with pytest.raises(TrainingError) as stop:
        there.train()
    assert re.fullmatch(
        rf"step 1: the loss is nan, expected a finite number, in games over {blamed[0]}; lower train.learning_rate",
        str(stop.value),
    )
    assert all(torch.equal(weight, before[name]) for name, weight in model.named_parameters())


def test_a_table_without_a_finished_game_has_no_reward() -> None:
    table = Table({scenario.id: scenario for scenario in tiny_scenarios(1)}, 6)
    with pytest.raises(ValueError, match="nobody sits at this table"):
        table.get_reward()
    table.reset(scenario="s0", round=3, prompt=[])
    assert table.game.round == 3
    with pytest.raises(ValueError, match="not over"):
        table.get_reward()
