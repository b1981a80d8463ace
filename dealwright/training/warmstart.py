"""The warm start: supervised fine-tuning on demonstrations, and the gate that its result must pass."""

import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from dealwright.agents import conversation_of
from dealwright.errors import DealwrightError
from dealwright.evaluation.metrics import means
from dealwright.game import Role
from dealwright.params import Gate, Warmstart
from dealwright.prompts.render import Style, opening_buyer
from dealwright.rollout import Episode, replay
from dealwright.training.machine import machine_arguments
from dealwright.training.rows import Row, rendered_row

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


class GateError(DealwrightError):
    """A model that does not bargain by the rules well enough to be trained further."""


def demonstration_rows(
    tokenizer: "PreTrainedTokenizerBase", episodes: Sequence[Episode], prompts: dict[str, str], style: Style
) -> list[Row]:
    """Return one training row a demonstration, from the system prompt to the buyer's last message."""
    opening = opening_buyer(style)
    return [
        rendered_row(
            tokenizer, conversation_of(game, Role.BUYER, prompts[game.scenario.id], opening), given=1 + len(opening)
        )
        for game in map(replay, episodes)
    ]


def fine_tune(
    model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase", rows: Sequence[Row], params: Warmstart
) -> None:
    """Fine-tune a model in place on rows; the loss counts the buyer's tokens alone."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    table = [
        {"input_ids": row.ids, "labels": [id if own else -100 for id, own in zip(row.ids, row.mask, strict=True)]}
        for row in rows
    ]
    with tempfile.TemporaryDirectory() as folder:
        SFTTrainer(
            model=model,
            processing_class=tokenizer,
            train_dataset=Dataset.from_list(table),
            args=SFTConfig(
                output_dir=folder,
                max_steps=params.steps,
                per_device_train_batch_size=params.batch_size,
                learning_rate=params.learning_rate,
                lr_scheduler_type="linear",
                train_sampling_strategy="group_by_length",
                max_length=None,
                packing=False,
                logging_steps=10,
                save_strategy="no",
                seed=params.seed,
                **machine_arguments(),
            ),
        ).train()


def check_gate(games: pl.DataFrame, gate: Gate) -> dict[str, Any]:
    """Return the shares that the gate looks at; raises GateError where one is not reached."""
    rates = means(games)
    valid, overshoot = 1 - rates["invalid_rate"], rates["overshoot_rate"]
    if valid < gate.valid or overshoot > gate.overshoot:
        raise GateError(
            f"expected a warm start with at least {gate.valid:.1%} valid games and at most {gate.overshoot:.1%} above "
            f"the budget, got {valid:.1%} and {overshoot:.1%} over {len(games)} games; raise warmstart.steps or take "
            "another warmstart.base"
        )
    return {"games": len(games), "valid_rate": valid, **rates}
