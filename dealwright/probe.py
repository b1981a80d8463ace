"""Play a checkpoint's games: the same scenarios and rounds, with the same draws, for every checkpoint."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import polars as pl

from dealwright.agents import Agent
from dealwright.engines.transformers import TransformersEngine
from dealwright.game import Role, Scenario
from dealwright.params import Params
from dealwright.players import BuyerSettings, language_buyer, make_seller, play_games, read_prompts


def play_checkpoint(
    folder: Path,
    scenarios: Sequence[Scenario],
    rounds: Sequence[int],
    sellers: Iterable[str],
    params: Params,
    name: str,
    step: int | None,
    seat: Callable[[str], Agent] = make_seller,
) -> pl.DataFrame:
    """Play a checkpoint as the buyer of that name against some sellers, whom `seat` finds, and return the episodes."""
    engine = TransformersEngine.from_folder(folder)
    buyer = language_buyer(engine, read_prompts(Role.BUYER), BuyerSettings.of(params), params.train.seed)
    return play_games(name, buyer, sellers, scenarios, rounds, params, step, seat)
