"""Two registered versions on the same validation games, paired."""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from dealwright.catalogue.scenarios import read_scenarios
from dealwright.evaluation.bootstrap import Estimate
from dealwright.evaluation.compare import compare, measure
from dealwright.evaluation.metrics import VALUES, prepare
from dealwright.game import Scenario
from dealwright.params import Params
from dealwright.players import BuyerSettings, play_games, rendered_buyer
from dealwright.tracking.connection import TrackingError
from dealwright.tracking.downloads import downloaded
from dealwright.tracking.products import read_products
from dealwright.tracking.versions import read_model
from dealwright.tracking.weights import loadable

if TYPE_CHECKING:
    from dealwright.engines.transformers import TransformersEngine


@dataclass(frozen=True, slots=True)
class Contrast:
    """A metric of both versions over the same games, and the candidate's less the champion's, paired by product.

    Without a champion only the candidate has a figure. `difference` has no bounds where a single product was left.
    """

    champion: Estimate | None
    candidate: Estimate
    difference: Estimate | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two versions reached on the same games; `left_out` counts the products that one of them was trained on."""

    champion: int | None
    candidate: int
    products: int
    left_out: int
    reward: Contrast
    overshoot_rate: Contrast
    leak_rate: Contrast


def compare_versions(champion: int | None, candidate: int, params: Params) -> Comparison:
    """Play two versions on the validation scenarios, in the same games; without a champion the candidate alone.

    Products that either was trained on are left out. The rounds are such that selection has not played, so that the
    luck which made a checkpoint the candidate does not count again.
    """
    versions = [candidate] if champion is None else [champion, candidate]
    model = read_model(params.tracking.model)
    for version in versions:
        model.require(version)
    scenarios = read_scenarios(split="validation")
    with ExitStack() as opened:
        folders = {version: opened.enter_context(downloaded(model.address(version))) for version in versions}
        seen = frozenset().union(*(read_products(folder, version) for version, folder in folders.items()))
        fair = [scenario for scenario in scenarios if scenario.product.id not in seen]
        if not fair:
            raise TrackingError(
                f"all {len(scenarios)} validation products were trained on by version "
                f"{' or '.join(map(str, versions))}, so no fair game is left; promote with --force REASON"
            )
        games = prepare(pl.concat([_play(version, folders[version], fair, params) for version in versions]))
    return contrast(games, champion, candidate, len(scenarios) - len(fair), params)


def load_version(folder: Path) -> tuple["TransformersEngine", BuyerSettings]:
    """Load the buyer whose files are in a folder, with the settings that it was trained with."""
    from mlflow.models import Model

    from dealwright.engines.transformers import TransformersEngine

    flavors = Model.load(str(folder)).flavors
    try:
        settings = BuyerSettings(**flavors["python_function"]["config"]["settings"])
    except (KeyError, TypeError) as error:
        raise TrackingError(
            f"{folder} does not say how its buyer was trained, as another release of dealwright may have written it; "
            "register its checkpoint again"
        ) from error
    with loadable(folder) as weights:
        return TransformersEngine.from_folder(weights), settings


def contrast(games: pl.DataFrame, champion: int | None, candidate: int, left_out: int, params: Params) -> Comparison:
    """Compare prepared games of buyers that are named by their versions."""
    options = params.select
    measured = {
        int(buyer): found for (buyer,), found in measure(games, ("buyer",), options.resamples, options.seed).items()
    }
    tables = {int(buyer): table for (buyer,), table in games.partition_by("buyer", as_dict=True).items()}

    def of(metric: str) -> Contrast:
        if champion is None:
            return Contrast(None, measured[candidate][metric], None)
        # The paired comparison looks at the reward, so another metric takes its place.
        first, second = (tables[version].with_columns(reward=VALUES[metric]) for version in (candidate, champion))
        found = compare(first, second, options.resamples, options.seed)
        return Contrast(measured[champion][metric], measured[candidate][metric], None if found is None else found[0])

    products = games["product_id"].n_unique()
    return Comparison(champion, candidate, products, left_out, of("reward"), of("overshoot_rate"), of("leak_rate"))


def _play(version: int, folder: Path, scenarios: list[Scenario], params: Params) -> pl.DataFrame:
    options = params.select
    rounds = range(options.rounds, 2 * options.rounds)
    print(f"version {version} plays {len(scenarios) * len(rounds)} games", file=sys.stderr, flush=True)
    engine, settings = load_version(folder)
    buyer = rendered_buyer(engine, settings, scenarios, params.game.max_turns, params.train.seed)
    return play_games(str(version), buyer, [options.seller], scenarios, rounds, params)
