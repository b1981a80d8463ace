"""The games of a training step: which are played when, by whom, and what of them the trainer is given."""

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from random import Random
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object

from dealwright.agents import Agent
from dealwright.engines.base import Engine
from dealwright.errors import DealwrightError
from dealwright.game import Negotiation, Scenario, reward
from dealwright.params import Params
from dealwright.players import BuyerSettings, language_buyer
from dealwright.rollout import Episode, finished, play
from dealwright.training.rows import sampled_logprobs, sampled_row

if TYPE_CHECKING:
    from trl import GRPOTrainer

TRAINED, ENGINE = "trained", "engine"  # names in the tables: of the buyer, and of a language model that sells

# The engine that speaks for the policy as it stands, for as long as a step's games are played.
Voice = Callable[["GRPOTrainer"], AbstractContextManager[Engine]]


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


def make_rollout(
    params: Params,
    scenarios: dict[str, Scenario],
    prompts: dict[str, str],
    voice: Voice,
    keep: Callable[[int, list[Episode]], None],
    seat: Callable[[int], Agent],
) -> Callable[[list[Any], "GRPOTrainer"], dict[str, Any]]:
    """Return the rollout function: it plays the trainer's tables side by side and returns their token rows.

    `keep` is given the step and the episodes of every batch, those of all processes; `seat` returns the seller of a
    step by its seed.
    """
    regulator = params.game.regulator
    settings = BuyerSettings.exploring(params)
    seller = params.train.seller if params.train.engine is None else ENGINE

    def roll(_: list[Any], trainer: "GRPOTrainer") -> dict[str, Any]:
        games = [table.game for table in trainer.environments]
        step = trainer.state.global_step + 1
        # Processes play other games of the same step, with draws of their own.
        seed = params.train.seed * 100_003 + step + 10_000_000_019 * trainer.accelerator.process_index
        with voice(trainer) as engine:
            buyer = language_buyer(engine, prompts, settings, seed)
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
            # TRL's own correction needs its own vLLM; the trainer takes `sampled` where another engine has played.
            "logprobs": None,
        }

    return roll
