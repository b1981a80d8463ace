"""`dealwright play`: a person at the table, in the terminal."""

import signal
from collections.abc import Sequence
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from dealwright.cli.seating import BUYERS, complete_buyer, complete_seller, find_buyer, find_seller
from dealwright.errors import DealwrightError
from dealwright.game.scenario import Role

if TYPE_CHECKING:
    from dealwright.game import Scenario


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    complete = complete_seller if context.params.get("role") == Role.BUYER else complete_buyer
    return complete(context, parameter, incomplete)


@click.command()
@click.option("--as", "role", type=click.Choice([role.value for role in Role]), default="seller", show_default=True)
@click.option(
    "--against",
    shell_complete=_complete,
    help=f"{BUYERS}; or a seller's name.  [default: trained, or train.seller]",
)
@click.option("--product", help="Words of the product's title.  [default: one by chance]")
@click.option("--seed", type=int, help="Fixes the product and the other side's draws.")
def play(role: str, against: str | None, product: str | None, seed: int | None) -> None:
    """Sell something to the trained buyer, or buy from a scripted seller.

    You answer with a price and what you say, or with deal, reject or quit; the regulator watches a seller's words.
    After the game come the numbers that were hidden, and what the other side thought.

    \b
    dealwright play
    dealwright play --against @champion --product camera
    dealwright play --against data/models/checkpoints/step-0016
    dealwright play --against cue_ladder --seed 1
    dealwright play --as buyer --against stronger
    """
    from dealwright.cli.table import Person, show_end
    from dealwright.game import Negotiation
    from dealwright.params import load_params
    from dealwright.rollout import play as play_games

    params = load_params()
    draw = Random(seed)
    scenario = _choose(product, draw)
    draws = draw.randrange(2**31)
    me = Role(role)
    person = Person(me, params.game.regulator.monotone)
    find = find_seller if me is Role.BUYER else find_buyer
    found = find(against, params)
    game = Negotiation(scenario, params.game.max_turns, draws)
    # Polars puts a handler of its own there, with which Ctrl-C would wait for the next Enter.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with TemporaryDirectory() as work:
        other = found.seat([scenario], draws, Path(work))
        person.welcome(game)
        buyer, seller = (person, other) if me is Role.BUYER else (other, person)
        play_games([game], buyer, seller, params.game.regulator.monotone, params.game.regulator.retries)
    show_end(game, me)


def _choose(product: str | None, draw: Random) -> "Scenario":
    from dealwright.catalogue.scenarios import read_scenarios
    from dealwright.shards import require_scenarios

    require_scenarios(Path("data/scenarios.parquet"), Path("data/catalogue.parquet"))
    scenarios: Sequence[Scenario] = read_scenarios()
    if product is not None:
        words = product.casefold().split()
        scenarios = [one for one in scenarios if all(word in one.product.title.casefold() for word in words)]
        if not scenarios:
            raise DealwrightError(f"no title has the words {product!r}; leave --product out for one by chance")
    return draw.choice(scenarios)
