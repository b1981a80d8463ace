"""`dealwright play`: a person at the table, in the terminal."""

import signal
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import click

from dealwright.checkpoints import WARM_START, checkpoint_folder
from dealwright.errors import DealwrightError
from dealwright.files import read_json
from dealwright.game.scenario import Role

if TYPE_CHECKING:
    from dealwright.agents import Agent
    from dealwright.game import Scenario
    from dealwright.params import Params

SCRIPTS = Path("reports/scripts.json")
MODELS = ("trained", "warmstart", "base")


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from dealwright.agents import FIXED_POLICIES, SELLERS

    buys = context.params.get("role") == Role.BUYER
    return [name for name in (SELLERS if buys else (*MODELS, *FIXED_POLICIES)) if name.startswith(incomplete)]


@click.command()
@click.option("--as", "role", type=click.Choice([role.value for role in Role]), default="seller", show_default=True)
@click.option(
    "--against",
    shell_complete=_complete,
    help="A script, or a buyer: trained, warmstart, base, a checkpoint's folder, a registered version as in 7 or "
    "@champion.  [default: trained, or train.seller]",
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
    other = seat(me.other, against, scenario, params, draws)
    game = Negotiation(scenario, params.game.max_turns, draws)
    # Polars puts a handler of its own there, with which Ctrl-C would wait for the next Enter.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    person.welcome(game)
    buyer, seller = (person, other) if me is Role.BUYER else (other, person)
    play_games([game], buyer, seller, params.game.regulator.monotone, params.game.regulator.retries)
    show_end(game, me)


def seat(role: Role, name: str | None, scenario: "Scenario", params: "Params", seed: int) -> "Agent":
    """Return the other side by its name; only a language model loads torch."""
    from dealwright.players import make_scripts, make_seller

    if role is Role.SELLER:
        return make_seller(name or params.train.seller)
    name = name or "trained"
    scripts = make_scripts(_fitted())
    if name in scripts:
        return scripts[name]
    if name.startswith("@") or name.isdecimal():
        return _registered(name, scenario, params, seed)
    folder = _model_folder(name, params)
    if not folder.is_dir():
        if name in MODELS:
            raise DealwrightError(
                f"there is no {name} buyer in {folder} yet; run `dvc repro` first, or play against a script, as in "
                "--against linear_ladder"
            )
        known = ", ".join([*MODELS, *scripts])
        raise DealwrightError(
            f"expected {known}, a checkpoint's folder, or a registered version as in 7 or @champion, got {name!r}"
        )
    from dealwright.engines.transformers import TransformersEngine
    from dealwright.players import BuyerSettings, language_buyer
    from dealwright.prompts import render_buyer

    click.echo(f"(loading {folder})")
    prompts = {scenario.id: render_buyer(scenario, params.prompts.buyer, params.game.max_turns)}
    return language_buyer(TransformersEngine.from_folder(folder), prompts, BuyerSettings.of(params), seed)


def _registered(name: str, scenario: "Scenario", params: "Params", seed: int) -> "Agent":
    """Seat a registered version, not held to its budget, so that it shows what it learnt."""
    from dealwright.tracking.contest import seat_version
    from dealwright.tracking.downloads import downloaded
    from dealwright.tracking.versions import read_model

    model = read_model(params.tracking.model)
    version = model.find(name)
    click.echo(f"(loading version {version} of {model.name})")
    with downloaded(model.address(version)) as folder:
        return seat_version(folder, [scenario], params.game.max_turns, seed)


def _model_folder(name: str, params: "Params") -> Path:
    from dealwright.tracking.checkpoints import read_selection

    if name == "base":
        return Path(params.warmstart.base)
    if name == "warmstart":
        return WARM_START
    if name != "trained":
        return Path(name)
    return checkpoint_folder(int(read_selection()["selected"]))


def _fitted() -> dict[str, Any]:
    """Return the ladders that the rollouts stage fitted, where it has run."""
    from dealwright.players import ladder_from

    if not SCRIPTS.is_file():
        return {}
    return {name: ladder_from(values) for name, values in read_json(SCRIPTS)["fitted"].items()}


def _choose(product: str | None, draw: Random) -> "Scenario":
    from dealwright.catalogue.scenarios import read_scenarios

    scenarios: Sequence[Scenario] = read_scenarios()
    if product is not None:
        words = product.casefold().split()
        scenarios = [one for one in scenarios if all(word in one.product.title.casefold() for word in words)]
        if not scenarios:
            raise DealwrightError(f"no title has the words {product!r}; leave --product out for one by chance")
    return draw.choice(scenarios)
