"""GRPO on whole dialogues by TRL's trainer, with a rollout of our own (arXiv 2604.09855; protocol, section 8).

The advantage is the reward less its group's mean, without division by the standard deviation, or with `train.credit`
below 1 that of each message (see credit.py), and with `train.hold` above 0 that of a token (see holding.py); the loss
is `dr_grpo`, so that long dialogues do not weigh more; only the buyer's tokens are trained. Weights are updated once a
batch of games, right after it was played, so the policy that played is the one that learns.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from dealwright.agents import Agent
from dealwright.engines.transformers import TransformersEngine
from dealwright.errors import DealwrightError, first_line
from dealwright.game import Negotiation, Scenario, reward
from dealwright.params import Params, Train
from dealwright.players import BuyerSettings, language_buyer
from dealwright.rollout import Episode, finished, play
from dealwright.training.batches import by_length, is_rows, of_all_processes, thinned
from dealwright.training.credit import before_each_message, by_token, message_advantages
from dealwright.training.holding import at_own_tokens, held
from dealwright.training.machine import machine_arguments
from dealwright.training.processes import whole_model
from dealwright.training.rows import sampled_logprobs, sampled_row

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

TRAINED, ENGINE = "trained", "engine"  # names in the tables: of the buyer, and of a language model that sells
# TRL asks for a chat template that can render tools before it hands out environments. Dialogues are rendered by the
# engine with the model's own template, so this text is never seen by a model.
TOOL_TEMPLATE = (
    "{% for message in messages %}{{ message.content }}{% for call in message.tool_calls or [] %}"
    "{{ call.function.name }}{{ call.function.arguments | tojson }}{% endfor %}{{ eos_token }}{% endfor %}"
)


class TrainingError(DealwrightError):
    """A training run that must not go on; its last whole checkpoint is kept."""


def visits(scenario_ids: Sequence[str], count: int, seed: int) -> list[tuple[str, int]]:
    """Return which scenario is played when, and in which round: shuffled passes, the round being the pass.

    All games of a group share the round, so they meet the same seller; no later visit does.
    """
    order: list[tuple[str, int]] = []
    for round in range(-(-count // len(scenario_ids))):
        ids = sorted(scenario_ids)
        Random(f"{seed}/{round}/visits").shuffle(ids)
        order += [(id, round) for id in ids]
    return order[:count]


class Table:
    """The environment that carries a dataset row into the rollout: one game, reset for each."""

    def __init__(self, scenarios: dict[str, Scenario], max_turns: int) -> None:
        self._scenarios = scenarios
        self._max_turns = max_turns
        self._game: Negotiation | None = None

    def reset(self, scenario: str, round: int, **row: Any) -> None:
        """Start the game of a row."""
        self._game = Negotiation(self._scenarios[scenario], self._max_turns, round)

    def get_reward(self) -> float | None:
        """Return the reward of the finished game; None leaves it out of its group."""
        if self.game.outcome is None:
            raise ValueError("the game is not over; play it to its end first")
        return reward(self.game.scenario, self.game.outcome)

    @property
    def game(self) -> Negotiation:
        """The game of the row that the table was last reset with; a property, as TRL takes methods for tools."""
        if self._game is None:
            raise ValueError("nobody sits at this table yet; reset it with a row first")
        return self._game


class BuyerTrainer(GRPOTrainer):
    """TRL's trainer, whose update reads the games that teach, in micro-batches of like length.

    It stops before a loss that is no number reaches the weights.
    """

    update_share = 1.0
    credit = 1.0
    hold = 0.0
    reference: "PreTrainedModel | None" = None  # the warm start, where its own model cannot be it
    sampled: list[list[float]]  # the log-probabilities of the own tokens of each row of the last rollout
    _buffered_inputs: Any
    _scenario_ids: list[str]

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)
        self._scenario_ids = gather_object([row["scenario"] for row in inputs])
        if self.credit < 1:
            tables = gather_object([before_each_message(table.game) for table in self.environments])
            rewards = gather_object([table.get_reward() for table in self.environments])
            advantages = message_advantages(tables, rewards, self.num_generations, self.credit)
            first = self.accelerator.process_index * len(inputs)
            batch["advantages"] = by_token(advantages[first : first + len(inputs)], batch["tool_mask"])
        if self.hold:
            own = batch["tool_mask"] * batch["completion_mask"]  # TRL pads with ones
            batch["sampled_logprobs"] = at_own_tokens(self.sampled, own)
        return batch | {"row": torch.arange(len(inputs))}  # which game a row is, through all shuffling

    def _prepare_inputs(self, generation_batch: dict[str, Any]) -> dict[str, Any]:
        fresh = self._step % self.args.steps_per_generation == 0 or self._buffered_inputs is None
        inputs: dict[str, Any] = super()._prepare_inputs(generation_batch)
        if not fresh:
            return inputs
        draw = Random(f"{self.args.seed}/{self.state.global_step}/update")
        everyones = of_all_processes(self._buffered_inputs, self.accelerator)
        dealt = by_length(thinned(everyones, self.update_share, draw))
        # Processes learn side by side from neighbours in length, so that none of them waits long.
        self._buffered_inputs = dealt[self.accelerator.process_index :: self.accelerator.num_processes]
        if self.hold:
            for batch in self._buffered_inputs:
                batch["advantages"] = self._held(batch)
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    @torch.no_grad()
    def _held(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return a micro-batch's advantages with the sure tokens held to the warm start."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        width = batch["completion_ids"].shape[1]
        with nullcontext() if self.reference else self.accelerator.unwrap_model(self.model).disable_adapter():
            reference, entropies, _ = self._get_per_token_logps_and_entropies(
                self.reference or self.model, ids, mask, width, compute_entropy=True
            )
        return held(batch["advantages"], batch["sampled_logprobs"], reference, entropies, self.hold)

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        if not loss.isfinite():
            raise TrainingError(
                f"step {self.state.global_step + 1}: the loss is {loss.item()}, expected a finite number, in games "
                f"over {self._to_blame(model, inputs)}; lower train.learning_rate"
            )
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        try:
            super()._save_checkpoint(model, trial)
        except Exception as error:  # a full disk: Python, torch, safetensors and tokenizers each have a name for it
            raise TrainingError(
                f"step {self.state.global_step}: the checkpoint cannot be written: {first_line(error)}; make room and "
                "run it again"
            ) from error

    @torch.no_grad()
    def _to_blame(self, model: Any, inputs: dict[str, Any]) -> str:
        """Name the scenarios whose rows have no finite loss of their own, three at most.

        Of several processes, which measure a loss together only, those of all rows.
        """
        rows = inputs["row"].tolist()
        ids: set[str] = set() if self.accelerator.num_processes == 1 else {self._scenario_ids[row] for row in rows}
        for at, row in enumerate(rows if not ids else []):
            alone = {key: value[at : at + 1] if is_rows(value) else value for key, value in inputs.items()}
            if not super()._compute_loss(model, alone).isfinite():
                ids.add(self._scenario_ids[row])
        return ", ".join(sorted(ids)[:3]) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")


def make_rollout(
    params: Params,
    scenarios: dict[str, Scenario],
    prompts: dict[str, str],
    tokenizer: "PreTrainedTokenizerBase",
    keep: Callable[[int, list[Episode]], None],
    seat: Callable[[int], Agent],
) -> Callable[[list[Any], GRPOTrainer], dict[str, Any]]:
    """Return the rollout function: it plays the trainer's tables side by side and returns their token rows.

    `keep` is given the step and the episodes of every batch, those of all processes; `seat` returns the seller of a
    step by its seed.
    """
    regulator = params.game.regulator
    settings = BuyerSettings.exploring(params)
    seller = params.train.seller if params.train.engine is None else ENGINE

    def roll(_: list[Any], trainer: GRPOTrainer) -> dict[str, Any]:
        games = [table.game for table in trainer.environments]
        step = trainer.state.global_step + 1
        # Processes play other games of the same step, with draws of their own.
        seed = params.train.seed * 100_003 + step + 10_000_000_019 * trainer.accelerator.process_index
        with whole_model(trainer) as model:
            buyer = language_buyer(TransformersEngine(model, tokenizer), prompts, settings, seed)
            interventions = play(games, buyer, seat(seed), regulator.monotone, regulator.retries)
        for table in trainer.environments:
            earned = table.get_reward()
            if earned is not None and not math.isfinite(earned):
                raise TrainingError(
                    f"step {step}: the reward is {earned}, expected a finite number, in a game over "
                    f"{table.game.scenario.id}; check its prices in data/scenarios.parquet"
                )
        rows = [sampled_row(buyer.spoken[game]) for game in games]
        trainer.sampled = [sampled_logprobs(buyer.spoken[game]) for game in games]
        starts = [row.mask.index(1) for row in rows]
        episodes = [
            finished(game, (TRAINED, seller), items, step - 1, tokens=sum(row.mask))
            for game, items, row in zip(games, interventions, rows, strict=True)
        ]
        keep(step, gather_object(episodes))
        return {
            "prompt_ids": [list(row.ids[:start]) for row, start in zip(rows, starts, strict=True)],
            "completion_ids": [list(row.ids[start:]) for row, start in zip(rows, starts, strict=True)],
            "env_mask": [list(row.mask[start:]) for row, start in zip(rows, starts, strict=True)],
            # Not needed: the policy has not changed since it played, so the ratio to it is 1 by construction.
            "logprobs": None,
        }

    return roll


def make_trainer(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    scenarios: Sequence[Scenario],
    prompts: dict[str, str],
    params: Params,
    folder: Path,
    keep: Callable[[int, list[Episode]], None],
    seat: Callable[[int], Agent],
    processes: int = 1,
) -> BuyerTrainer:
    """Return a trainer that keeps its checkpoints in a folder, one of so many processes that share each step."""
    from copy import deepcopy

    train = params.train
    games = _games_each(train, processes)
    by_id = {scenario.id: scenario for scenario in scenarios}
    order = visits(list(by_id), train.steps * train.products, train.seed)
    rows = [{"prompt": [{"role": "user", "content": id}], "scenario": id, "round": round} for id, round in order]
    renderer = deepcopy(tokenizer)
    renderer.chat_template = TOOL_TEMPLATE
    trainer = BuyerTrainer(
        model=model,
        processing_class=renderer,
        train_dataset=Dataset.from_list(rows),
        rollout_func=make_rollout(params, by_id, prompts, tokenizer, keep, seat),
        environment_factory=lambda: Table(by_id, params.game.max_turns),
        peft_config=_lora(train.lora_rank),
        args=GRPOConfig(
            output_dir=str(folder),
            max_steps=train.steps,
            per_device_train_batch_size=min(train.micro_batch, games),
            gradient_accumulation_steps=max(1, games // train.micro_batch),
            num_generations=train.group_size,
            max_completion_length=params.game.max_turns * train.message_tokens,
            shuffle_dataset=False,
            loss_type="dr_grpo",
            scale_rewards="none",
            beta=train.kl,
            entropy_coef=train.entropy,
            temperature=train.temperature,
            learning_rate=train.learning_rate,
            lr_scheduler_type=train.schedule,
            warmup_steps=min(5, train.steps // 10),
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="steps",
            save_steps=train.checkpoint_steps,
            seed=train.seed,
            **machine_arguments(),
        ),
    )
    trainer.update_share = train.update_share
    trainer.credit = train.credit
    trainer.hold = train.hold
    if train.hold and not train.lora_rank:
        trainer.reference = deepcopy(model).requires_grad_(False).eval().to(trainer.accelerator.device)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _games_each(train: Train, processes: int) -> int:
    """Return how many games of a step each process plays."""
    games, rest = divmod(train.products * train.group_size, processes)
    if rest or (games > train.micro_batch and games % train.micro_batch):
        raise TrainingError(
            f"expected whole micro-batches of {train.micro_batch} for each of {processes} processes, got "
            f"{train.products * train.group_size} games a step; change train.micro_batch or the number of processes"
        )
    return games


def _lora(rank: int) -> Any:
    if rank == 0:
        return None
    from peft import LoraConfig

    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
