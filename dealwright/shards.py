"""Rollouts of any length: a folder of shards that any number of processes play together, and that a kill leaves whole.

A shard is a fixed range of the games. Who plays one holds its byte of the file `claims` locked; the operating system
gives the byte free when that process ends, however it ends. A shard that was played is a Parquet file, whole or not
there. So a shard costs its games once more when its process dies, and no game is lost or kept twice.
"""

import fcntl
import json
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import polars as pl

from dealwright.catalogue.scenarios import SCHEMA, count_scenarios, read_scenarios
from dealwright.catalogue.table import SCHEMA as CATALOGUE
from dealwright.errors import DealwrightError
from dealwright.files import read_json, write_json, write_parquet
from dealwright.game import Negotiation
from dealwright.rollout import Episode, episodes_frame
from dealwright.written import require_columns

CLAIMS = "claims"
ABOUT = "rollout.json"
WAIT_SECONDS = 1.0
_OF_SCENARIOS = ("id", "product_id", "list_price", "cost", "budget", "seed", "split")
_OF_PRODUCTS = ("id", "title", "category", "description", "list_price", "lowest_price", "highest_price")
_FILES = "shard-*.parquet"


def require_scenarios(scenarios: Path, catalogue: Path) -> None:
    """Raise DealwrightError where the tables of scenarios or products lack what games are made of."""
    require_columns(scenarios, {name: SCHEMA[name] for name in _OF_SCENARIOS})
    require_columns(catalogue, {name: CATALOGUE[name] for name in _OF_PRODUCTS}, nullable=("description",))


@dataclass(frozen=True, slots=True)
class Deck:
    """The games of a rollout in their order, rounds varying slowest, cut into shards of `size` games."""

    scenarios: Path
    catalogue: Path
    split: str | None
    count: int
    rounds: int
    size: int

    @classmethod
    def open(cls, scenarios: Path, catalogue: Path, split: str | None, rounds: int, size: int) -> "Deck":
        """Count the scenarios of a file; raises DealwrightError where there are none, or they are damaged."""
        require_scenarios(scenarios, catalogue)
        count = count_scenarios(scenarios, split)
        if count == 0:
            wanted = f"scenarios of the split {split}" if split else "scenarios"
            raise DealwrightError(f"expected {wanted} in {scenarios}, found none; name another file or split")
        return cls(scenarios, catalogue, split, count, rounds, size)

    @property
    def games(self) -> int:
        """How many games there are."""
        return self.count * self.rounds

    @property
    def shards(self) -> int:
        """How many shards they make."""
        return -(-self.games // self.size)

    def length(self, shard: int) -> int:
        """Return how many games a shard has."""
        return min(self.size, self.games - shard * self.size)

    def deal(self, shard: int, max_turns: int) -> list[Negotiation]:
        """Return the fresh games of a shard; only its own scenarios are read."""
        first, length = shard * self.size, self.length(shard)
        start = first % self.count
        dealt = read_scenarios(self.scenarios, self.catalogue, self.split, start, length)
        if len(dealt) < length:
            again = min(length - len(dealt), start)
            dealt += read_scenarios(self.scenarios, self.catalogue, self.split, 0, again) if again else []
        return [
            Negotiation(dealt[place % len(dealt)], max_turns, (first + place) // self.count) for place in range(length)
        ]


@dataclass(frozen=True, slots=True)
class Shards:
    """The folder that a deck is played into."""

    folder: Path
    deck: Deck

    @classmethod
    def open(cls, folder: Path, deck: Deck, about: Mapping[str, Any]) -> "Shards":
        """Open a folder, anew or to go on in it; `about` is all that shapes the games.

        Raises DealwrightError for a folder that holds games of another rollout.
        """
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / CLAIMS).open("ab") as claims:
            fcntl.lockf(claims, fcntl.LOCK_EX, 1, deck.shards)  # the byte behind the shards' own: one opens at a time
            _settle(folder, json.loads(json.dumps(about)))
        return cls(folder, deck)

    def path(self, shard: int) -> Path:
        """Return the place of a shard's file."""
        return self.folder / f"shard-{shard:06d}.parquet"

    def missing(self) -> list[int]:
        """Return the shards that nobody has finished yet."""
        there = {path.name for path in self.folder.glob(_FILES)}
        return [shard for shard in range(self.deck.shards) if self.path(shard).name not in there]

    def played(self) -> int:
        """Count the games of the finished shards."""
        return self.deck.games - sum(map(self.deck.length, self.missing()))

    def claimed(self) -> Iterator[int]:
        """Claim one missing shard after another and yield it, to be written before the next is asked for.

        Waits for the shards that other processes play, takes those that they leave when they die, and ends when all
        are there.
        """
        with (self.folder / CLAIMS).open("ab") as claims:
            while missing := self.missing():
                found = False
                for shard in missing:
                    if not _lock(claims, shard):
                        continue
                    if not self.path(shard).exists():  # nobody has finished it between the look and the lock
                        found = True
                        self._sweep(shard)
                        yield shard
                    fcntl.lockf(claims, fcntl.LOCK_UN, 1, shard)
                if not found:
                    time.sleep(WAIT_SECONDS)

    def write(self, shard: int, episodes: list[Episode]) -> None:
        """Put a shard's games in place."""
        write_parquet(self.path(shard), episodes_frame(episodes))
        shutil.rmtree(self.answers(shard), ignore_errors=True)

    def answers(self, shard: int) -> Path:
        """Return the folder for the paid answers of an unfinished shard; whoever plays it after a kill uses them."""
        return self.folder / f"answers-{shard:06d}"

    def figures(self) -> dict[str, Any]:
        """Return what came of all games together."""
        games = pl.scan_parquet(self.folder / _FILES)
        row = games.select(
            games=pl.len(),
            deal_rate=(pl.col("stop") == "deal").mean(),
            mean_reward=pl.col("reward").mean(),
            tokens=pl.col("tokens").sum(),
        ).collect()
        return row.row(0, named=True)

    def _sweep(self, shard: int) -> None:
        """Remove what a killed process had begun to write of a shard."""
        for file in self.folder.glob(f".{self.path(shard).name}.*"):
            file.unlink()


def _settle(folder: Path, about: dict[str, Any]) -> None:
    path = folder / ABOUT
    if not path.exists():
        write_json(path, about)
        return
    there = read_json(path, f"remove {folder} and start again")
    for key, value in about.items():
        if there.get(key) != value:
            raise DealwrightError(
                f"{folder} holds games of another rollout: {key} is {there.get(key)} there, and {value} now; name "
                "another table, or remove that folder"
            )


def _lock(claims: IO[bytes], shard: int) -> bool:
    try:
        fcntl.lockf(claims, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, shard)
    except (BlockingIOError, PermissionError):  # held; which of the two is raised depends on the system
        return False
    return True
