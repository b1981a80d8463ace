"""How often the guard of a buyer in service would have stepped in."""

from pathlib import Path

import polars as pl
import pytest

from dealwright.agents import Agent
from dealwright.errors import DealwrightError
from dealwright.files import write_parquet
from dealwright.players import play_games
from dealwright.tracking.guarded import guard_rates
from tests.games import Reciter
from tests.tiny import tiny_params, tiny_scenarios


def played(step: int | None, *texts: str) -> pl.DataFrame:
    """Play one game with a budget of $32 against a seller that takes $20 or more; its cost is $20."""
    buyer: Agent = Reciter(texts)
    return play_games("checkpoint", buyer, ["floor_only"], tiny_scenarios(1), [0], tiny_params(), step)


def test_the_share_of_messages_that_would_be_replaced_is_counted_by_step(tmp_path: Path) -> None:
    low, high, broken = "Action: [BUY] $10.00", "Action: [BUY] $32.01", "no action"
    games = [
        played(0, low, low, "Action: [BUY] $32.00"),
        played(4, low, low, low, high),
        played(4, broken),
        played(None, broken),
    ]
    write_parquet(tmp_path / "games.parquet", pl.concat(games))
    assert guard_rates(tmp_path / "games.parquet") == {0: 0.0, 4: 0.4}


def test_games_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(DealwrightError, match=r"games\.parquet is missing; run `dvc repro` first"):
        guard_rates(tmp_path / "games.parquet")
