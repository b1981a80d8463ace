"""Language models seated by name: in evaluation, behind real servers on loopback, through kills and faults."""

import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from click.testing import CliRunner

from dealwright import seats
from dealwright.agents import ConcessionSeller, Ladder, LanguageModelAgent, ScriptedBuyer
from dealwright.catalogue.scenarios import read_scenarios
from dealwright.cli import main as command_line
from dealwright.engines.spending import BudgetSpentError, Usage
from dealwright.errors import DealwrightError
from dealwright.files import read_json, read_table, write_parquet
from dealwright.game import Negotiation, Role, StopReason
from dealwright.params import LocalEngine, Params
from dealwright.players import play_games
from dealwright.prompts import opening_buyer, opening_seller
from dealwright.rollout import read_episodes
from dealwright.seats import Seats, check_engine
from tests.evaluating import configure, enter_project, evaluation, prepare_evaluation, small_tables
from tests.faulty_server import FaultyServer, Reply, close, completion, fail, say, send, stay_silent, truncate

ROOT = Path(__file__).parents[1]
NO = say("Talk: No.\nAction: [REJECT]", 100, 10)
PATIENT = ScriptedBuyer(Ladder((0.1, 0.11, 0.12, 0.13, 0.14, 0.15)))


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_tables(tmp_path_factory.mktemp("tables") / "data")


@pytest.fixture(autouse=True)
def project(tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    enter_project(tables, tmp_path, monkeypatch)


def served(server: FaultyServer, **options: Any) -> dict[str, Any]:
    """Return the group of an engine at this server, with prices and hardly any patience."""
    prices = {"prompt_price": 1.0, "completion_price": 10.0}
    quick = {"concurrency": 4, "retries": 0, "timeout": 60.0, "budget": prices}
    return {"big": {"kind": "openai", "model": "m", "address": server.base_url, **quick, **options}}


def games_against(seller: str, params: Params) -> pl.DataFrame:
    seats, scenarios = Seats(params), read_scenarios(split="test")
    return play_games("patient", PATIENT, [seller], scenarios, range(2), params, seat=seats.seller)


def test_a_seller_is_named_by_its_engine_and_reads_its_persona_and_the_scenario() -> None:
    with FaultyServer(NO) as server:
        params = configure(served(server, temperature=0.3, message_tokens=77))
        for name, manner in (("big", "polite and matter-of-fact"), ("big/begging", "You plead.")):
            seller = Seats(params).seller(name)
            assert isinstance(seller, LanguageModelAgent)
            scenario = read_scenarios(split="test")[0]
            game = Negotiation(scenario)
            game.play(Role.BUYER, "Talk: Hello.\nAction: [BUY] $1")
            assert seller.respond([game]) == ["Talk: No.\nAction: [REJECT]"]
            body = server.bodies[-1]
            assert (body["temperature"], body["max_tokens"]) == (0.3, 77)
            system, *example, user = body["messages"]
            assert manner in system["content"] and scenario.product.title in system["content"]
            assert example == opening_seller()
            assert user == {"role": "user", "content": "Talk: Hello.\nAction: [BUY] $1.00"}


def test_a_buyer_that_is_an_engine_reads_the_full_instructions() -> None:
    with FaultyServer(NO) as server:
        scenario = read_scenarios(split="test")[0]
        buyer = Seats(configure(served(server))).buyer("big", [scenario])
        buyer.respond([Negotiation(scenario)])
        system, *opening = server.bodies[0]["messages"]
    assert "Your budget" in system["content"] and "[QUIT]" in system["content"]
    assert opening == opening_buyer("full")


def test_a_script_is_seated_by_its_name_and_other_names_are_refused() -> None:
    params = configure({"big": {"kind": "transformers", "folder": "nowhere"}})
    assert isinstance(Seats(params).seller("stronger"), ConcessionSeller)
    with pytest.raises(
        DealwrightError, match=r"unknown seller 'bigger'; expected one of training, .*floor_only, big$"
    ):
        Seats(params).seller("bigger")
    with pytest.raises(DealwrightError, match=r"persona in 'big/meek'; expected big, big/begging, big/insulting, "):
        Seats(params).seller("big/meek")


def test_a_model_in_a_folder_sells_and_what_it_said_is_kept(base_folder: Path) -> None:
    params = configure({"own": {"kind": "transformers", "folder": str(base_folder), "message_tokens": 4}})
    games = games_against("own", params)
    assert games["stop"].to_list() == ["max_turns"] * 8
    assert games["interventions"].list.len().to_list() == [18] * 8
    assert "dollars" not in games.columns
    assert len(Path("data/work/engines/own.jsonl").read_text().splitlines()) == 8 * 6 * 3


def test_what_each_game_cost_is_told_and_comes_back_from_parquet() -> None:
    with FaultyServer(NO) as server:
        games = games_against("big", configure(served(server)))
    assert games["answers"].to_list() == [6] * 8
    assert games["dollars"].to_list() == pytest.approx([6 * (100 * 1.0 + 10 * 10.0) / 1e6] * 8)
    write_parquet("games.parquet", games)
    assert {episode.usage for episode in read_episodes("games.parquet")} == {Usage(6, 600, 60, games["dollars"][0])}


FAULTS: dict[str, Reply] = {
    "a closed connection": close,
    "HTML": send("<html>Welcome</html>", kind="text/html"),
    "no choices": send('{"choices": []}'),
    "a truncated body": truncate,
    "silence": stay_silent,
    "a status 500": fail(500),
    "a filtered message": completion({"content": ""}, finish="content_filter"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_costs_its_own_game_and_no_other(name: str) -> None:
    with FaultyServer(NO, NO, FAULTS[name], NO) as server:
        games = games_against(
            "big", configure(served(server, timeout=5.0 if name == "silence" else 60.0, concurrency=1))
        )
    assert games["stop"].value_counts().sort("stop").rows() == [("max_turns", 7), ("seller_failed", 1)]
    assert games.filter(pl.col("stop") == StopReason.SELLER_FAILED)["reward"].to_list() == [None]


def test_a_buyer_whose_server_fails_is_one_clear_error() -> None:
    with FaultyServer(NO, close) as server:
        params = configure(served(server, concurrency=1))
        scenarios = read_scenarios(split="test")
        seats = Seats(params)
        with pytest.raises(DealwrightError, match="the buyer's backend gave nothing usable"):
            play_games("big", seats.buyer("big", scenarios), ["training"], scenarios, [0], params, seat=seats.seller)


def test_a_spent_budget_stops_the_games_and_a_greater_one_goes_on() -> None:
    with FaultyServer(NO) as server:
        engines = served(server)
        engines["big"]["budget"] |= {"tokens": 2200}  # 20 answers
        with pytest.raises(BudgetSpentError, match="the budget of 2200 tokens is spent"):
            games_against("big", configure(engines))
        paid = len(server.bodies)
        assert 20 <= paid <= 23
        engines["big"]["budget"] |= {"tokens": 5500}  # 50 answers of 48
        assert games_against("big", configure(engines))["answers"].sum() == 48
        assert len(server.bodies) == 48


def test_an_evaluation_that_was_killed_pays_for_no_answer_twice(base_folder: Path) -> None:
    prepare_evaluation(base_folder)
    victims: list[subprocess.Popen[str]] = []

    def kill(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
        victims.pop().send_signal(signal.SIGKILL)
        close(handler, body, closing)

    with FaultyServer(*[NO] * 90, kill, NO) as server:
        configure(served(server), sellers=["training", "big", "big/insulting"], buyers=[])
        first = evaluation()
        victims.append(first)
        assert first.wait(600) == -signal.SIGKILL
        paid = len(server.bodies)
        kept = len(Path("data/work/engines/big.jsonl").read_text().splitlines())
        assert 90 - 4 <= kept <= 90 <= paid <= 94
        second = evaluation()
        assert second.wait(600) == 0, second.stderr and second.stderr.read()
        games = read_table("data/rollouts/evaluation.parquet", pl.col("seller").str.starts_with("big"))
        assert games["answers"].sum() == kept + len(server.bodies) - paid
        assert not Path("data/work/engines/big.jsonl").exists()
    figures = read_json("reports/evaluation.json")
    assert figures["buyers"]["linear_ladder"]["big/insulting"]["failed_rate"]["value"] == 0.0
    assert figures["dropped"] == {"big": 0, "big/insulting": 0, "training": 0}
    assert "big" not in figures["bounds"]["clairvoyant"]


def checked() -> str:
    result = CliRunner().invoke(command_line, ["check"])
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    return line


LOCAL = {"kind": "transformers", "folder": "nowhere"}
SERVED = {"kind": "openai", "model": "m", "address": "http://127.0.0.1:9/v1"}
IMPOSSIBLE = (
    "engines.big.openai.address: Value error, expected an address such as http://127.0.0.1:8000/v1, got a host"
)
REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"sellers": ["training", "big"]}, "evaluate.sellers: unknown seller 'big'; expected one of training"),
    ({"big": SERVED}, {"sellers": ["training", "big/meek"]}, "unknown persona in 'big/meek'; expected big, big/begg"),
    ({"big": SERVED}, {"buyers": ["bigger"]}, "evaluate.buyers: expected names under engines (big), got bigger"),
    ({}, {"buyers": ["oracle"]}, "evaluate.buyers: expected names under engines (none yet), got oracle"),
    ({"big": SERVED}, {"buyers": ["big", "big"]}, "evaluate.buyers: expected each buyer once, got big, big"),
    ({"trained": SERVED}, {}, "engines: expected names that no script or model has, got trained"),
    ({"begging": SERVED}, {}, "engines: expected names that no script or model has, got begging"),
    ({"big/two": SERVED}, {}, "engines.big/two.[key]: String should match pattern"),
    ({"big": {"folder": "x"}}, {}, "engines.big: expected a kind: transformers, vllm or openai"),
    ({"big": {**SERVED, "budget": {"dollars": 5}}}, {}, "engines.big.openai.budget: Value error, dollars need prompt"),
    ({"big": {**SERVED, "address": "127.0.0.1"}}, {}, "engines.big.openai.address: String should match pattern"),
    *(
        ({"big": {**SERVED, "address": f"http://{place}/v1"}}, {}, IMPOSSIBLE)
        for place in ("[::1", "a:99999", "a:b", ":1")
    ),
    (
        {"big": {**SERVED, "api_key": "sk-3f9a7c"}},
        {},
        "engines.big.openai.api_key: Extra inputs are not permitted",
    ),
    (
        {"big": {**LOCAL, "options": {"dtype": "float32"}}},
        {},
        "engines.big.transformers: Value error, options are arguments of vLLM; expected none for the kind trans",
    ),
    ({"big": LOCAL}, {"buyers": ["big"]}, "engines.big: expected a folder with a config.json, got nowhere; fetch"),
    (
        {"big": {**SERVED, "key_variable": "NO_SUCH_KEY"}},
        {"buyers": ["big"]},
        "engines.big: expected a key in the environment variable NO_SUCH_KEY, got nothing; export it first",
    ),
]


@pytest.mark.parametrize(("engines", "evaluate", "message"), REFUSED, ids=lambda value: str(value)[:40])
def test_engines_that_cannot_work_are_named_before_work_starts(
    engines: dict[str, Any], evaluate: dict[str, Any], message: str
) -> None:
    text = Path("params.yaml").read_text()
    params = yaml.safe_load(text)
    params["engines"] = engines
    params["evaluate"] |= evaluate
    Path("params.yaml").write_text(yaml.safe_dump(params))
    assert message in checked()


def test_a_seller_of_the_training_that_cannot_work_is_named_before_work_starts() -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["train"]["engine"] = {**LOCAL, "folder": "nowhere"}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    assert "train.engine: expected a folder with a config.json, got nowhere; fetch the model first" in checked()
    params["train"]["engine"] = {**SERVED, "address": "http://me:secret@127.0.0.1:1/v1"}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    line = checked()
    assert "train.engine.address: expected no password in it" in line and "secret" not in line


def test_vllm_is_refused_where_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("model").mkdir()
    Path("model/config.json").write_text("{}")
    spec = LocalEngine(kind="vllm", folder="model")
    monkeypatch.setattr(seats, "find_spec", lambda _: None)
    with pytest.raises(DealwrightError, match="expected the package vllm, got an environment without it; `make"):
        check_engine(spec)
    monkeypatch.setattr(seats, "find_spec", lambda name: ModuleSpec(name, None))
    check_engine(spec)


def test_an_adapters_folder_will_do_where_adapters_are_loaded() -> None:
    Path("adapter").mkdir()
    Path("adapter/adapter_config.json").write_text("{}")
    check_engine(LocalEngine(kind="transformers", folder="adapter"))
    with pytest.raises(DealwrightError, match=r"expected a folder with a config.json, got adapter; fetch"):
        check_engine(LocalEngine(kind="vllm", folder="adapter"))


def test_a_key_in_place_of_its_variables_name_is_not_repeated() -> None:
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["engines"] = {"big": {**SERVED, "key_variable": "sk-3f9a7c"}}
    Path("params.yaml").write_text(yaml.safe_dump(params))
    line = checked()
    assert "engines.big.openai.key_variable: String should match pattern" in line and "3f9a7c" not in line


def test_an_engine_that_nobody_is_to_be_needs_no_key_and_no_folder(base_folder: Path) -> None:
    configure({"big": {**SERVED, "key_variable": "NO_SUCH_KEY"}, "own": LOCAL})
    params = yaml.safe_load(Path("params.yaml").read_text())
    params["catalogue"]["path"] = str(ROOT / "data/catalogue")
    params["warmstart"]["base"] = str(base_folder)
    Path("params.yaml").write_text(yaml.safe_dump(params))
    result = CliRunner().invoke(command_line, ["check"])
    assert result.exit_code == 0, result.stderr


def test_engines_buy_and_sell_in_a_rollout_and_nothing_is_asked_again_after_a_kill() -> None:
    arguments = ["rollout", "mine", "--buyer", "big", "--seller", "big/begging", "--split", "test", "--shard", "2"]
    with FaultyServer(NO) as server:
        configure(served(server))
        folder = Path("data/rollouts/mine")
        kept = folder / "answers-000001/buyer"
        assert CliRunner().invoke(command_line, arguments).exit_code == 0
        asked = len(server.bodies)
        games = pl.read_parquet(folder / "shard-*.parquet")
        assert games["dollars"].sum() == pytest.approx(asked * 2e-4)
        assert not list(folder.glob("answers-*"))
        # A kill behind the last answer of the second file, which only its table is missing.
        (folder / "shard-000001.parquet").unlink()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("dealwright.shards.write_parquet", full_disk)
            assert CliRunner().invoke(command_line, arguments).exit_code == 1
        assert kept.is_dir()
        asked = len(server.bodies)
        assert CliRunner().invoke(command_line, arguments).exit_code == 0
        assert len(server.bodies) == asked
    assert pl.read_parquet(folder / "shard-*.parquet").height == 4


def full_disk(*_: Any) -> None:
    raise OSError(28, "No space left on device", "shard")
