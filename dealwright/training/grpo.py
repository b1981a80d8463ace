"""GRPO on whole dialogues by TRL's trainer, with a rollout of our own (arXiv 2604.09855; protocol, section 8).

The advantage is the reward less its group's mean, without division by the standard deviation, or with `train.credit`
below 1 that of each message (see credit.py), and with `train.hold` above 0 that of a token (see holding.py); the loss
is `dr_grpo`, so that long dialogues do not weigh more; only the buyer's tokens are trained. Weights are updated once a
batch of games, right after it was played, so the policy that played is the one that learns. Where it played through a
server (see served.py), it is the same but for rounding: the loss then takes the server's log-probabilities for those
of the policy that played, so that a token's ratio makes up for the difference, clipped as ever.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import gather_object
from datasets import Dataset
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from dealwright.agents import Agent
from dealwright.engines.base import Engine
from dealwright.engines.transformers import TransformersEngine
from dealwright.errors import first_line
from dealwright.game import Scenario
from dealwright.params import Params, Train
from dealwright.rollout import Episode
from dealwright.training.batches import by_length, is_rows, of_all_processes, thinned
from dealwright.training.credit import before_each_message, by_token, message_advantages
from dealwright.training.games import Table, TrainingError, Voice, make_rollout, visits
from dealwright.training.holding import at_own_tokens, held
from dealwright.training.machine import machine_arguments
from dealwright.training.processes import whole_model
from dealwright.training.served import ServedPolicy, adapted_layers

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# TRL asks for a chat template that can render tools before it hands out environments. Dialogues are rendered by the
# engine with the model's own template, so this text is never seen by a model.
TOOL_TEMPLATE = (
    "{% for message in messages %}{{ message.content }}{% for call in message.tool_calls or [] %}"
    "{{ call.function.name }}{{ call.function.arguments | tojson }}{% endfor %}{{ eos_token }}{% endfor %}"
)
# Nats by which a served policy's log-probabilities may differ from the trainer's of the same tokens, on average.
APART = 0.1


class BuyerTrainer(GRPOTrainer):
    """TRL's trainer, whose update reads the games that teach, in micro-batches of like length.

    It stops before a loss that is no number reaches the weights.
    """

    update_share = 1.0
    credit = 1.0
    hold = 0.0
    served = False
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
        if self.hold or self.served:
            own = batch["tool_mask"] * batch["completion_mask"]  # TRL pads with ones
            batch["sampled_logprobs"] = at_own_tokens(self.sampled, own)
        if self.served:
            batch["old_per_token_logps"] = batch["sampled_logprobs"]
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
        if self.served:
            self._check_served(self._buffered_inputs[0])
        return self._buffered_inputs[self._step % self.args.steps_per_generation]

    @torch.no_grad()
    def _held(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return a micro-batch's advantages with the sure tokens held to the warm start."""
        with nullcontext() if self.reference else self.accelerator.unwrap_model(self.model).disable_adapter():
            reference, entropies = self._read(batch, self.reference or self.model)
        return held(batch["advantages"], batch["sampled_logprobs"], reference, entropies, self.hold)

    @torch.no_grad()
    def _check_served(self, batch: dict[str, Any]) -> None:
        """Refuse games that another policy played: the server's numbers must be ours but for rounding."""
        own = (batch["tool_mask"] * batch["completion_mask"]).bool()
        apart = (self._read(batch, self.model)[0] - batch["sampled_logprobs"])[own].abs().mean().item()
        if not apart <= APART:
            raise TrainingError(
                f"step {self.state.global_step + 1}: expected log-probabilities within {APART} of the trainer's from "
                f"the server, got {apart:.3f} apart on average; serve the weights of the warm start with "
                "--logprobs-mode processed_logprobs (docs/engines.md)"
            )

    def _read(self, batch: dict[str, Any], model: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a model's log-probabilities of a micro-batch's completions, and its entropies there."""
        ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
        mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
        width = batch["completion_ids"].shape[1]
        logprobs, entropies, _ = self._get_per_token_logps_and_entropies(model, ids, mask, width, compute_entropy=True)
        return logprobs, entropies

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
    voice = _here(tokenizer)
    if train.server is not None:
        voice = ServedPolicy(train.server, tokenizer, folder / "adapter").voice
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
        rollout_func=make_rollout(params, by_id, prompts, voice, keep, seat),
        environment_factory=lambda: Table(by_id, params.game.max_turns),
        peft_config=_lora(train, model),
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
    trainer.served = train.server is not None
    if train.hold and not train.lora_rank:
        trainer.reference = deepcopy(model).requires_grad_(False).eval().to(trainer.accelerator.device)
    trainer.remove_callback(PrinterCallback)
    return trainer


def _here(tokenizer: "PreTrainedTokenizerBase") -> Voice:
    """Return the voice of a policy that plays in this process."""

    @contextmanager
    def voice(trainer: GRPOTrainer) -> Iterator[Engine]:
        with whole_model(trainer) as model:
            yield TransformersEngine(model, tokenizer)

    return voice


def _games_each(train: Train, processes: int) -> int:
    """Return how many games of a step each process plays."""
    games, rest = divmod(train.products * train.group_size, processes)
    if rest or (games > train.micro_batch and games % train.micro_batch):
        raise TrainingError(
            f"expected whole micro-batches of {train.micro_batch} for each of {processes} processes, got "
            f"{train.products * train.group_size} games a step; change train.micro_batch or the number of processes"
        )
    return games


def _lora(train: Train, model: "PreTrainedModel") -> Any:
    rank = train.lora_rank
    if rank == 0:
        return None
    from peft import LoraConfig

    layers = "all-linear" if train.server is None else adapted_layers(model)
    return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=layers, task_type="CAUSAL_LM")
