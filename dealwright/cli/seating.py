"""Who buys and who sells, by the names that a person types."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dealwright.checkpoints import WARM_START, checkpoint_folder
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from dealwright.agents import Agent, Ladder
    from dealwright.engines.base import Engine
    from dealwright.game import Scenario
    from dealwright.params import Params
    from dealwright.players import BuyerSettings

SCRIPTS = Path("reports/scripts.json")
MODELS = ("trained", "warmstart", "base")
BUYERS = (
    "A script, an engine of params.yaml, or a buyer: trained, warmstart, base, a checkpoint's folder, a registered "
    "version as in 7 or @champion"
)


@dataclass(frozen=True, slots=True)
class Player:
    """Someone found by a name; `name` is the one in the tables and `source` says which weights or rules they are.

    `seat` puts them at a table for some scenarios, with the seed of their draws and a folder in which a language model
    of params.yaml keeps what it answers until the games are over; `step` is the training step of a buyer that is known
    by one.
    """

    name: str
    source: str
    seat: Callable[["Sequence[Scenario]", int, Path], "Agent"]
    step: int | None = None


def complete_buyer(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a buyer's name in the shell."""
    from dealwright.agents import FIXED_POLICIES

    return [name for name in (*MODELS, *FIXED_POLICIES) if name.startswith(incomplete)]


def complete_seller(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a seller's name in the shell."""
    from dealwright.agents import SELLERS

    return [name for name in SELLERS if name.startswith(incomplete)]


def find_seller(name: str | None, params: "Params") -> Player:
    """Find a seller by its name, `train.seller` where none is given."""
    from dealwright.players import make_seller
    from dealwright.seats import split_seller

    name = name or params.train.seller
    engine, persona = split_seller(name, params)
    if engine is not None:
        return _engine(name, engine, persona, params)
    seller = make_seller(name)
    return Player(name, name, lambda scenarios, seed, work: seller)


def find_buyer(name: str | None, params: "Params") -> Player:
    """Find a buyer by its name, the trained one where none is given; only a language model loads torch."""
    from dealwright.players import make_scripts

    name = name or "trained"
    fitted = _fitted()
    scripts = make_scripts(fitted)
    if name in scripts:
        script = scripts[name]
        return Player(name, str(fitted.get(name, name)), lambda scenarios, seed, work: script)
    if name in params.engines:
        return _engine(name, name, None, params)
    if name.startswith("@") or name.isdecimal():
        return _registered(name, params)
    folder, step = _model_folder(name, params)
    if not folder.is_dir():
        if name in MODELS:
            raise DealwrightError(
                f"there is no {name} buyer in {folder} yet; run `dvc repro` first, or take a script as the buyer, as "
                "in linear_ladder"
            )
        known = ", ".join([*MODELS, *scripts])
        raise DealwrightError(
            f"expected {known}, a checkpoint's folder, or a registered version as in 7 or @champion, got {name!r}"
        )
    return _from_folder(name, folder, step, params)


def _from_folder(name: str, folder: Path, step: int | None, params: "Params") -> Player:
    from dealwright.engines.transformers import TransformersEngine
    from dealwright.players import BuyerSettings
    from dealwright.tracking.revisions import hash_folder

    click.echo(f"(loading {folder})", err=True)
    settings = BuyerSettings.of(params)
    source = f"{hash_folder(folder)} {settings}"
    return Player(name, source, _seats(TransformersEngine.from_folder(folder), settings, params), step)


def _engine(name: str, engine: str, persona: str | None, params: "Params") -> Player:
    """Find a language model that params.yaml names: a seller with a persona, or a buyer without."""
    from dealwright.seats import Seats

    def seat(scenarios: "Sequence[Scenario]", seed: int, work: Path) -> "Agent":
        if persona is None:
            agent = Seats(params, work / "buyer").buyer(engine, scenarios)
        else:
            agent = Seats(params, work / "seller").seller_in(scenarios, engine, persona)
        agent.sampling = replace(agent.sampling, seed=seed)
        return agent

    return Player(name, params.engines[engine].model_dump_json(), seat)


def _registered(name: str, params: "Params") -> Player:
    """Find a registered version, not held to its budget, so that it shows what it learnt."""
    from dealwright.tracking.contest import load_version
    from dealwright.tracking.downloads import downloaded
    from dealwright.tracking.versions import read_model

    model = read_model(params.tracking.model)
    version = model.find(name)
    click.echo(f"(loading version {version} of {model.name})", err=True)
    with downloaded(model.address(version)) as folder:
        engine, settings = load_version(folder)
    return Player(str(version), f"version {version} of {model.name}", _seats(engine, settings, params))


def _seats(engine: "Engine", settings: "BuyerSettings", params: "Params") -> Callable[..., "Agent"]:
    from dealwright.players import rendered_buyer

    return lambda scenarios, seed, work: rendered_buyer(engine, settings, scenarios, params.game.max_turns, seed)


def _selected() -> int:
    from dealwright.tracking.checkpoints import read_selection

    return int(read_selection()["selected"])


def _model_folder(name: str, params: "Params") -> tuple[Path, int | None]:
    """Return the folder of a model by its name, and the training step that it is known by, if any."""
    if name == "base":
        return Path(params.warmstart.base), None
    if name == "warmstart":
        return WARM_START, None
    if name != "trained":
        return Path(name), None
    step = _selected()
    return checkpoint_folder(step), step


def _fitted() -> "Mapping[str, Ladder]":
    """Return the ladders that the rollouts stage fitted, where it has run."""
    from dealwright.written import read_scripts

    if not SCRIPTS.is_file():
        return {}
    return read_scripts(SCRIPTS).fitted
