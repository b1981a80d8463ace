"""The scripted buyers as a yardstick: fitted on train, played against every seller, and ranked."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from random import Random
from typing import Any

import polars as pl

from dealwright.agents import SELLERS, Demonstrator, Ladder, fit_ladder
from dealwright.agents.buyers import Reading
from dealwright.game import Scenario
from dealwright.params import Params
from dealwright.players import make_scripts, play_games

FITTED: dict[str, tuple[Reading, bool]] = {
    "best_ladder": ("nothing", False),
    "adaptive": ("nothing", True),
    "cue_ladder": ("cues", False),
    "adaptive_cue": ("cues", True),
}
FIRST_FRESH_ROUND = 1000  # the fits use the rounds below
DEMONSTRATION_ROUND = 2000


def fit_scripts(train: Sequence[Scenario], params: Params) -> dict[str, Ladder]:
    """Fit the ladders on a sample of the train scenarios against the seller that training uses.

    An adaptive ladder starts from the fitted plain one, which it contains.
    """
    options = params.rollouts
    scenarios = _sample(train, options.fit_scenarios, f"{options.seed}/fit")
    fitted: dict[str, Ladder] = {}
    for name, (reading, adaptive) in FITTED.items():
        plain = fitted["best_ladder" if reading == "nothing" else "cue_ladder"] if adaptive else None
        fitted[name] = fit_ladder(
            scenarios,
            params.train.seller,
            reading,
            plain,
            options.seed,
            options.fit_population,
            options.fit_iterations,
        )
    return fitted


def play_reference(train: Sequence[Scenario], fitted: Mapping[str, Ladder], params: Params) -> pl.DataFrame:
    """Play every script against every seller on the sample of train scenarios, in fresh rounds."""
    options = params.rollouts
    scenarios = _sample(train, options.fit_scenarios, f"{options.seed}/fit")
    rounds = range(FIRST_FRESH_ROUND, FIRST_FRESH_ROUND + options.reference_rounds)
    return pl.concat(
        play_games(name, buyer, SELLERS, scenarios, rounds, params) for name, buyer in make_scripts(fitted).items()
    )


def rank_scripts(reference: pl.DataFrame, fitted: Mapping[str, Ladder], params: Params) -> dict[str, Any]:
    """Return the best script of any kind against the training seller, the rewards behind it, and the fitted ladders.

    The oracle knows the cost and does not compete.
    """
    rewards = (
        reference.filter(pl.col("seller") == params.train.seller)
        .group_by("buyer")
        .agg(pl.col("reward").mean())
        .sort("reward", "buyer", descending=[True, False])
    )
    ranked = dict(rewards.iter_rows())
    best = next(name for name in ranked if name != "oracle")
    return {
        "best_script": best,
        "train_reward": ranked,
        "fitted": {name: asdict(ladder) for name, ladder in fitted.items()},
    }


def demonstrate(train: Sequence[Scenario], params: Params) -> pl.DataFrame:
    """Record games of the naive demonstrator against the training seller, over the train scenarios in turn."""
    count = params.rollouts.demonstrations
    rounds = range(DEMONSTRATION_ROUND, DEMONSTRATION_ROUND + -(-count // len(train)))
    games = play_games("demonstrator", Demonstrator(), [params.train.seller], train, rounds, params)
    return games.head(count)


def _sample(scenarios: Sequence[Scenario], count: int, seed: str) -> list[Scenario]:
    return Random(seed).sample(list(scenarios), min(count, len(scenarios)))
