"""`dealwright rollout`: games by the thousand, into a folder of shards."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

from dealwright.cli.progress import Progress
from dealwright.cli.seating import BUYERS, complete_buyer, complete_seller, find_buyer, find_seller
from dealwright.cli.tables import ROLLOUTS
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from dealwright.rollout import Episode


@click.command()
@click.argument("table")
@click.option("--buyer", shell_complete=complete_buyer, help=f"{BUYERS}.  [default: trained]")
@click.option("--seller", shell_complete=complete_seller, help="A seller's name.  [default: train.seller]")
@click.option(
    "--scenarios",
    type=click.Path(path_type=Path),
    default=Path("data/scenarios.parquet"),
    show_default=True,
    help="The file of scenarios to play.",
)
@click.option(
    "--catalogue",
    type=click.Path(path_type=Path),
    default=Path("data/catalogue.parquet"),
    show_default=True,
    help="The file of their products.",
)
@click.option("--split", type=click.Choice(["train", "validation", "test"]), help="Only scenarios of this split.")
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True, help="Games on every scenario.")
@click.option("--shard", type=click.IntRange(1), default=1000, show_default=True, help="Games a file.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def rollout(
    table: str,
    buyer: str | None,
    seller: str | None,
    scenarios: Path,
    catalogue: Path,
    split: str | None,
    rounds: int,
    shard: int,
    as_json: bool,
) -> None:
    """Play a buyer against a seller on every scenario of a file, into data/rollouts/TABLE/.

    The games lie there in files of --shard games each. The same command goes on where a killed one stood, and may run
    in several processes at once: each takes the next file that nobody else is playing, and all end when all is played.

    \b
    dealwright rollout mine --buyer cue_ladder --rounds 10
    dealwright rollout mine --buyer @champion --seller stronger --split validation
    dealwright transcripts mine --outcome deal
    """
    from dealwright.params import load_params
    from dealwright.rollout import play_blocks
    from dealwright.shards import Deck, Shards
    from dealwright.tracking.revisions import hash_file

    params = load_params()
    folder = _folder(table)
    deck = Deck.open(scenarios, catalogue, split, rounds, shard)
    buys, sells = find_buyer(buyer, params), find_seller(seller, params)
    shards = Shards.open(
        folder,
        deck,
        {
            "buyer": f"{buys.name} ({buys.source})",
            "seller": f"{sells.name} ({sells.source})",
            "scenarios": hash_file(scenarios),
            "catalogue": hash_file(catalogue),
            "split": split,
            "rounds": rounds,
            "shard": shard,
            "seed": params.train.seed,
            "game": params.game.model_dump(mode="json"),
        },
    )
    regulator = params.game.regulator
    names = buys.name, sells.name
    mine = 0
    with Progress(deck.games) as progress:
        for number in shards.claimed():
            progress.stand(shards.played())
            games = deck.deal(number, params.game.max_turns)
            dealt = [game.scenario for game in games]
            work = shards.answers(number)
            bought, sold = (
                player.seat(dealt, Random(f"{params.train.seed}/{number}/{player.name}").randrange(2**31), work)
                for player in (buys, sells)
            )
            episodes: list[Episode] = []
            for block in play_blocks(games, bought, sold, names, regulator.monotone, regulator.retries, buys.step):
                episodes += block
                progress.add(block)
            shards.write(number, episodes)
            mine += len(episodes)
        progress.stand(deck.games)
    _tell(folder, shards.figures() | {"played_here": mine}, as_json)


def _folder(table: str) -> Path:
    folder = ROLLOUTS / table
    if re.fullmatch(r"[\w-][\w.-]*", table) is None:
        raise DealwrightError(f"expected a table's name of letters, digits and any of . - _, got {table!r}")
    if folder.with_name(f"{table}.parquet").exists():
        raise DealwrightError(f"{folder}.parquet is a table of the pipeline; give yours another name")
    return folder


def _tell(folder: Path, figures: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"folder": str(folder), **figures}, indent=2))
        return
    reward = "none" if figures["mean_reward"] is None else f"{figures['mean_reward']:+.3f}"
    click.echo(
        f"{figures['games']} games in {folder}, {figures['played_here']} of them played here: deals "
        f"{figures['deal_rate']:.1%}, mean reward {reward}"
    )
