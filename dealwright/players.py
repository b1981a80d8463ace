"""Seat buyers and sellers by their names in the tables, and play them against each other."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from dealwright.agents import (
    ABLATIONS,
    COLUMNS,
    FIXED_POLICIES,
    FLOOR_ONLY,
    SELLERS,
    Agent,
    ConcessionSeller,
    FloorOnlySeller,
    Ladder,
    LanguageModelAgent,
    Oracle,
    ScriptedBuyer,
)
from dealwright.engines.base import Engine, Sampling
from dealwright.errors import DealwrightError
from dealwright.files import read_table
from dealwright.game import Role, Scenario
from dealwright.params import Params
from dealwright.prompts import opening_buyer, render_buyer
from dealwright.prompts.render import Style
from dealwright.rollout import Episode, episodes_frame, rollout


@dataclass(frozen=True, slots=True)
class BuyerSettings:
    """How a language model buys: how it samples, and how its prompt is written."""

    temperature: float
    message_tokens: int
    style: Style

    @classmethod
    def of(cls, params: Params) -> "BuyerSettings":
        """Return the settings that a parameter file selects, evaluates and serves with."""
        return cls(params.select.temperature, params.train.message_tokens, params.prompts.buyer)

    @classmethod
    def exploring(cls, params: Params) -> "BuyerSettings":
        """Return the settings that a parameter file trains with, and lets through the gate before."""
        return cls(params.train.temperature, params.train.message_tokens, params.prompts.buyer)


def make_seller(name: str) -> Agent:
    """Return the scripted seller of that name; raises DealwrightError for an unknown one.

    `training/cues_removed` is the seller `training` with that road of language cut.
    """
    if name == FLOOR_ONLY:
        return FloorOnlySeller()
    column, _, ablation = name.partition("/")
    if column not in COLUMNS or (ablation and ablation not in ABLATIONS):
        raise DealwrightError(f"unknown seller {name!r}; expected one of {', '.join(SELLERS)}")
    return ABLATIONS[ablation](column) if ablation else ConcessionSeller(column)


def make_scripts(fitted: Mapping[str, Ladder]) -> dict[str, Agent]:
    """Return every scripted buyer by name: the fixed ones, the fitted ladders and the oracle."""
    policies = {**FIXED_POLICIES, **fitted}
    return {name: ScriptedBuyer(policies[name]) for name in sorted(policies)} | {"oracle": Oracle()}


def play_games(
    name: str,
    buyer: Agent,
    sellers: Iterable[str],
    scenarios: Sequence[Scenario],
    rounds: Sequence[int],
    params: Params,
    checkpoint: int | None = None,
    seat: Callable[[str], Agent] = make_seller,
) -> pl.DataFrame:
    """Play a buyer, under its name, against some sellers on scenarios and rounds; return one row a game.

    `seat` finds a seller by its name; without it only scripts are found.
    """
    regulator = params.game.regulator
    episodes: list[Episode] = []
    for seller in sellers:
        episodes += rollout(
            scenarios,
            rounds,
            buyer,
            seat(seller),
            (name, seller),
            params.game.max_turns,
            regulator.monotone,
            regulator.retries,
            checkpoint,
        )
    return episodes_frame(episodes)


def read_prompts(role: Role, persona: str = "", path: str | Path = "data/prompts.parquet") -> dict[str, str]:
    """Return the system prompt of every scenario for a side, as the prompts stage wrote them.

    Raises DealwrightError where the table is not as that stage writes it.
    """
    wanted = (pl.col("role") == role.value) & (pl.col("persona") == persona)
    rows = read_table(path, wanted, columns=["scenario", "text"])
    if rows.is_empty() or set(rows.dtypes) != {pl.String} or any(rows.null_count().row(0)):
        raise DealwrightError(f"{path}: expected a text a scenario, got none or other values; run `dvc repro` again")
    return dict(rows.iter_rows())


def language_buyer(
    engine: Engine, prompts: Mapping[str, str], settings: BuyerSettings, seed: int
) -> LanguageModelAgent:
    """Seat a language model as the buyer; `prompts` holds its system prompt for every scenario's id."""
    sampling = Sampling(settings.temperature, settings.message_tokens, seed)
    return LanguageModelAgent(engine, Role.BUYER, prompts, opening_buyer(settings.style), sampling)


def rendered_buyer(
    engine: Engine, settings: BuyerSettings, scenarios: Iterable[Scenario], max_turns: int, seed: int
) -> LanguageModelAgent:
    """Seat a language model as the buyer in some scenarios, with prompts rendered for them."""
    prompts = {scenario.id: render_buyer(scenario, settings.style, max_turns) for scenario in scenarios}
    return language_buyer(engine, prompts, settings, seed)
