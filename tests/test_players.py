"""Buyers and sellers by name."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from dealwright.agents import (
    FIXED_POLICIES,
    SELLERS,
    ConcessionSeller,
    FloorOnlySeller,
    Ladder,
    LanguageModelAgent,
    Oracle,
    ScriptedBuyer,
)
from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.errors import DealwrightError
from dealwright.game import Negotiation, Role
from dealwright.params import load_params
from dealwright.players import (
    BuyerSettings,
    language_buyer,
    make_scripts,
    make_seller,
    play_games,
    read_prompts,
)
from tests.games import a_scenario, some_scenarios

PARAMS = load_params(Path(__file__).parents[1] / "params.yaml")


def test_every_seller_of_the_tables_can_be_seated() -> None:
    assert SELLERS == ("training", "stronger", "begging", "insulting", "unyielding", "floor_only")
    seated = [make_seller(name) for name in SELLERS]
    assert [seller.column for seller in seated if isinstance(seller, ConcessionSeller)] == list(SELLERS[:5])
    assert isinstance(seated[5], FloorOnlySeller)


def test_an_unknown_seller_is_refused_with_the_names_that_exist() -> None:
    with pytest.raises(DealwrightError, match=r"unknown seller 'soft'; expected one of training, .*, floor_only"):
        make_seller("soft")


def test_the_scripts_are_the_fixed_ones_the_fitted_ones_and_the_oracle() -> None:
    ladder = Ladder((0.5, 0.6))
    scripts = make_scripts({"best_ladder": ladder})
    assert list(scripts) == [*sorted([*FIXED_POLICIES, "best_ladder"]), "oracle"]
    best = scripts["best_ladder"]
    assert isinstance(best, ScriptedBuyer) and best.policy == ladder
    assert isinstance(scripts["oracle"], Oracle)


def test_games_are_played_against_each_seller_on_all_scenarios_and_rounds() -> None:
    frame = play_games("oracle", Oracle(), ["floor_only", "begging"], some_scenarios(3), [8, 9], PARAMS, checkpoint=5)
    assert frame.select("buyer", "seller", "round", "scenario_id", "checkpoint").rows() == [
        ("oracle", seller, round, f"s{number}", 5)
        for seller in ("floor_only", "begging")
        for round in (8, 9)
        for number in range(3)
    ]


def test_games_follow_the_rules_that_the_parameters_set() -> None:
    game = PARAMS.game.model_copy(update={"max_turns": 2})
    params = PARAMS.model_copy(update={"game": game})
    buyer = ScriptedBuyer(Ladder((0.1, 0.11)))
    frame = play_games("b", buyer, ["begging"], some_scenarios(5), [0], params)
    assert frame["turns"].to_list() == [2] * 5
    assert frame["stop"].to_list() == ["max_turns"] * 5


def test_prompts_are_read_by_role_and_persona(tmp_path: Path) -> None:
    rows = [
        ("s1", "buyer", "", "buy one"),
        ("s1", "seller", "begging", "beg one"),
        ("s1", "seller", "neutral", "sell one"),
        ("s2", "buyer", "", "buy two"),
    ]
    path = tmp_path / "prompts.parquet"
    pl.DataFrame(rows, schema=["scenario", "role", "persona", "text"], orient="row").write_parquet(path)
    assert read_prompts(Role.BUYER, path=path) == {"s1": "buy one", "s2": "buy two"}
    assert read_prompts(Role.SELLER, "begging", path) == {"s1": "beg one"}


@pytest.mark.parametrize(
    "text", [pl.lit(None, dtype=pl.String), pl.lit(5), pl.when(scenario="s1").then(pl.lit("buy"))]
)
def test_prompts_that_are_not_as_the_stage_writes_them_are_refused(text: pl.Expr, tmp_path: Path) -> None:
    path = tmp_path / "prompts.parquet"
    whole = pl.DataFrame({"scenario": ["s1", "s2"], "role": "buyer", "persona": ""})
    whole.select("scenario", "role", "persona", text.alias("text")).write_parquet(path)
    with pytest.raises(DealwrightError, match=r"prompts\.parquet: expected a text a scenario, got none"):
        read_prompts(Role.BUYER, path=path)


def test_a_scenario_without_a_prompt_is_named() -> None:
    [scenario] = some_scenarios(1)
    buyer = LanguageModelAgent(Recorder(), Role.BUYER, {"other": "buy"}, (), Sampling(0.0, 8, 0))
    with pytest.raises(DealwrightError, match=f"there is no prompt for the scenario {scenario.id}; run `dvc repro`"):
        buyer.respond([Negotiation(scenario)])


class Recorder:
    """An engine that keeps how it was asked and always quits."""

    def __init__(self) -> None:
        self.asked: list[tuple[Conversation, Sampling]] = []

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        self.asked += [(conversation, sampling) for conversation in conversations]
        return [Completion("Action: [QUIT]", "stop") for _ in conversations]


def test_a_language_model_buyer_samples_as_it_is_told_and_opens_as_its_prompt_says() -> None:
    engine = Recorder()
    buyer = language_buyer(engine, {"s0": "Buy a lamp."}, BuyerSettings.of(PARAMS), seed=3)
    assert buyer.respond([Negotiation(a_scenario())]) == ["Action: [QUIT]"]
    (conversation, sampling) = engine.asked[0]
    assert [turn["role"] for turn in conversation] == ["system", "user"]
    assert [turn["content"] for turn in conversation] == ["Buy a lamp.", "Begin."]
    assert (sampling.temperature, sampling.max_tokens) == (0.3, 96)


def test_a_buyer_explores_in_training_and_is_played_with_the_temperature_of_select() -> None:
    assert (BuyerSettings.exploring(PARAMS).temperature, BuyerSettings.of(PARAMS).temperature) == (0.9, 0.3)
