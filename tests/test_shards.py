"""Rollouts in shards: the games of a rollout, however many processes play them and whatever kills these."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner, Result

from dealwright import shards
from dealwright.agents import FIXED_POLICIES, ScriptedBuyer
from dealwright.catalogue.scenarios import SCHEMA, read_scenarios
from dealwright.cli import main
from dealwright.cli.progress import Progress
from dealwright.engines.spending import Usage
from dealwright.errors import DealwrightError
from dealwright.players import make_seller
from dealwright.rollout import episodes_frame, rollout
from dealwright.shards import Deck, Shards

ROOT = Path(__file__).parents[1]
COUNT = 10
ABOUT = {"buyer": "linear_ladder", "rounds": 3}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project that has made its scenarios, every third of them of each split."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    columns = ("id", "title", "category", "description", "list_price", "lowest_price", "highest_price")
    prices = [(50.0 + 7 * at, 20.0 + 2 * at) for at in range(COUNT)]
    products = [(f"p{at}", f"Lamp {at}", "home", "", high, low, high) for at, (high, low) in enumerate(prices)]
    (tmp_path / "data").mkdir()
    pl.DataFrame(products, schema=list(columns), orient="row").write_parquet("data/catalogue.parquet")
    splits = ("train", "validation", "test")
    games = [
        (f"s{at}", id, title, category, high, low, 0.8 * high, "mutual", at, splits[at % 3])
        for at, (id, title, category, _, high, low, _) in enumerate(products)
    ]
    pl.DataFrame(games, schema=SCHEMA, orient="row").write_parquet("data/scenarios.parquet")
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["rollout", *arguments])


def start(*arguments: str) -> "subprocess.Popen[str]":
    """Start the command in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dealwright", "rollout", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )


def table(name: str) -> pl.DataFrame:
    return pl.read_parquet(f"data/rollouts/{name}/shard-*.parquet")


def contents(name: str) -> Mapping[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(Path("data/rollouts", name).iterdir())}


def a_deck(rounds: int = 3, size: int = 4, split: str | None = None) -> Deck:
    return Deck.open(Path("data/scenarios.parquet"), Path("data/catalogue.parquet"), split, rounds, size)


@pytest.mark.parametrize(("size", "lengths"), [(4, [4] * 7 + [2]), (10, [10] * 3), (13, [13, 13, 4]), (99, [30])])
def test_the_shards_of_any_size_hold_the_games_of_a_rollout_in_its_order(
    size: int, lengths: list[int], project: Path
) -> None:
    assert run("mine", "--buyer", "linear_ladder", "--rounds", "3", "--shard", str(size)).exit_code == 0
    buyer, seller = ScriptedBuyer(FIXED_POLICIES["linear_ladder"]), make_seller("training")
    expected = episodes_frame(rollout(read_scenarios(), range(3), buyer, seller, ("linear_ladder", "training")))
    assert table("mine").equals(expected)
    files = sorted(Path("data/rollouts/mine").glob("shard-*.parquet"))
    assert [pl.read_parquet(file).height for file in files] == lengths


def test_only_the_scenarios_of_a_shard_are_read(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted(*arguments: Any) -> Any:
        found = read_scenarios(*arguments)
        read.append(len(found))
        return found

    monkeypatch.setattr(shards, "read_scenarios", counted)
    games = a_deck().deal(2, 6)
    assert [(game.scenario.id, game.round) for game in games] == [("s8", 0), ("s9", 0), ("s0", 1), ("s1", 1)]
    assert read == [2, 2]


def test_a_split_is_played_alone(project: Path) -> None:
    result = run("mine", "--buyer", "staller", "--seller", "begging", "--split", "validation", "--json")
    assert json.loads(result.stdout) == {
        "folder": "data/rollouts/mine",
        "games": 3,
        "deal_rate": pytest.approx(table("mine")["stop"].eq("deal").mean()),
        "mean_reward": pytest.approx(table("mine")["reward"].mean()),
        "tokens": 0,
        "played_here": 3,
    }
    assert table("mine")["scenario_id"].to_list() == ["s1", "s4", "s7"]
    assert table("mine")["seller"].unique().to_list() == ["begging"]


def test_two_processes_play_every_game_once_and_both_end_when_all_is_played(project: Path) -> None:
    arguments = ("--buyer", "linear_ladder", "--rounds", "60", "--shard", "25")
    assert run("alone", *arguments).exit_code == 0
    both = [start("shared", *arguments, "--json") for _ in range(2)]
    told = [json.loads(process.communicate(timeout=120)[0]) for process in both]
    assert [one["games"] for one in told] == [600, 600]
    assert sum(one["played_here"] for one in told) == 600
    assert contents("shared") == contents("alone")


def test_a_killed_rollout_goes_on_to_the_same_games(project: Path) -> None:
    arguments = ("--buyer", "linear_ladder", "--rounds", "200", "--shard", "20")
    assert run("whole", *arguments).exit_code == 0
    folder = Path("data/rollouts/killed")
    for least in (3, 11, 30):
        process = start("killed", *arguments)
        while len(list(folder.glob("shard-*.parquet"))) < least:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    kept = len(list(folder.glob("shard-*.parquet")))
    assert 30 <= kept < 100
    result = run("killed", *arguments, "--json")
    assert json.loads(result.stdout)["played_here"] == 2000 - 20 * kept
    assert contents("killed") == contents("whole")


@pytest.fixture
def holder(project: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has claimed shard 1 of a folder of four and plays it for ever."""
    deck = a_deck(rounds=1, size=3)
    Shards.open(Path("data/rollouts/held"), deck, ABOUT)
    code = (
        "import fcntl, time\n"
        "claims = open('data/rollouts/held/claims', 'ab')\n"
        "fcntl.lockf(claims, fcntl.LOCK_EX, 1, 1)\n"
        "print('held', flush=True)\n"
        "time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_shard_that_another_process_plays_is_left_until_that_process_has_died(
    holder: "subprocess.Popen[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        holder.kill()
        holder.wait()

    monkeypatch.setattr("dealwright.shards.time.sleep", wait)
    held = Shards.open(Path("data/rollouts/held"), a_deck(rounds=1, size=3), ABOUT)
    order = []
    for shard in held.claimed():
        order.append(shard)
        held.write(shard, [])
    assert order == [0, 2, 3, 1]
    assert waits == [1.0]


def test_a_shard_that_was_finished_meanwhile_is_not_played_again(project: Path) -> None:
    mine = Shards.open(Path("data/rollouts/mine"), a_deck(rounds=1, size=5), ABOUT)
    order = []
    for shard in mine.claimed():
        order.append(shard)
        for every in range(2):
            mine.write(every, [])
    assert order == [0]


def test_what_a_killed_process_had_begun_to_write_is_removed(project: Path) -> None:
    mine = Shards.open(Path("data/rollouts/mine"), a_deck(rounds=1, size=5), ABOUT)
    rest = mine.folder / ".shard-000001.parquet.4711"
    rest.write_bytes(b"half")
    for shard in mine.claimed():
        mine.write(shard, [])
    assert not rest.exists()


def test_a_folder_with_games_of_another_rollout_is_refused(project: Path) -> None:
    assert run("mine", "--buyer", "staller").exit_code == 0
    before = contents("mine")
    result = run("mine", "--buyer", "staller", "--rounds", "2")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: data/rollouts/mine holds games of another rollout: rounds is 1 there, and 2 now; name another table, "
        "or remove that folder\n"
    )
    assert "buyer is staller (staller) there, and linear_ladder" in run("mine", "--buyer", "linear_ladder").stderr
    assert contents("mine") == before


def test_a_changed_scenario_file_is_another_rollout(project: Path) -> None:
    assert run("mine", "--buyer", "staller").exit_code == 0
    scenarios = pl.read_parquet("data/scenarios.parquet")
    scenarios.reverse().write_parquet("data/scenarios.parquet")
    assert "holds games of another rollout: scenarios is" in run("mine", "--buyer", "staller").stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("../mine",), "expected a table's name of letters, digits and any of . - _, got '../mine'"),
        (("mine", "--buyer", "nobody"), "expected trained, warmstart, base, arguing_ladder"),
        (("mine", "--buyer", "warmstart"), "there is no warmstart buyer in data/models/warmstart yet"),
        (("mine", "--buyer", "staller", "--seller", "nobody"), "unknown seller 'nobody'"),
        (("mine", "--buyer", "staller", "--scenarios", "no.parquet"), "no.parquet is missing"),
        (("evaluation", "--buyer", "staller"), "is a table of the pipeline; give yours another name"),
    ],
)
def test_what_cannot_be_played_is_one_line(arguments: tuple[str, ...], message: str, project: Path) -> None:
    Path("data/rollouts").mkdir()
    Path("data/rollouts/evaluation.parquet").touch()
    result = run(*arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not Path("data/rollouts/mine").exists()


def test_an_empty_split_is_refused(project: Path) -> None:
    train = pl.read_parquet("data/scenarios.parquet").filter(split="train")
    train.write_parquet("data/scenarios.parquet")
    with pytest.raises(DealwrightError, match=r"expected scenarios of the split test in .*, found none"):
        a_deck(split="test")


def test_the_games_can_be_read_like_any_other_table(project: Path) -> None:
    run("mine", "--buyer", "linear_ladder", "--rounds", "2", "--shard", "7")
    shown = CliRunner().invoke(main, ["transcripts", "mine", "--limit", "20", "--json"])
    assert len(json.loads(shown.stdout)) == 20
    assert "there are mine" in CliRunner().invoke(main, ["transcripts", "other"]).stderr


def test_the_bar_tells_tokens_a_second_deals_and_dollars(project: Path) -> None:
    buyer, seller = ScriptedBuyer(FIXED_POLICIES["linear_ladder"]), make_seller("floor_only")
    episodes = rollout(read_scenarios(), [0], buyer, seller, ("b", "s"))
    episodes[2:4] = [replace(episode, tokens=30, usage=Usage(3, 90, 30, 0.625)) for episode in episodes[2:4]]
    deals = sum(episode.outcome.stop == "deal" for episode in episodes)
    with Progress(20) as progress:
        progress.add(episodes)
        assert progress.line(2.0) == f"30 tokens/s, deals {deals * 10}%, $1.25"
