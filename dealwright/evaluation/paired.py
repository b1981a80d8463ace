"""Tables of games with one buyer each: who earned more where all of them played, and what went wrong."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from dealwright.errors import DealwrightError
from dealwright.evaluation.bootstrap import Estimate
from dealwright.evaluation.compare import compare_trainings, measure, safety_rates
from dealwright.evaluation.metrics import GAME, VALUES, prepare
from dealwright.game import StopReason

# What two games of one scenario and round share, or they are not the same game.
SAME = ("product_id", "seed", "list_price", "cost", "budget")


@dataclass(frozen=True, slots=True)
class Side:
    """A buyer, the games of its table, and its mean reward and exact safety rates in those that count."""

    buyer: str
    games: int
    reward: Estimate
    safety: dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class Paired:
    """A buyer, of one or more trainings, and another one in the games that all of them played.

    `games` counts those, and `products` what they are over. `difference` is the mean of the firsts' rewards less the
    second's, and `p_value` two-sided, that it is 0.
    """

    games: int
    products: int
    firsts: tuple[Side, ...]
    second: Side
    difference: Estimate
    p_value: float


def pair(firsts: Sequence[pl.DataFrame], second: pl.DataFrame, resamples: int, seed: int) -> Paired:
    """Compare tables of episodes on the scenarios, rounds and sellers that are in all of them, by product.

    Several `firsts` are trainings of one buyer.
    Raises DealwrightError for a table with several buyers, a game that is there twice or a reward that cannot be, for
    scenarios that differ between the tables, and where nothing is shared.
    """
    tables = [*firsts, second]
    buyers = [_buyer(number, table) for number, table in enumerate(tables, 1)]
    shared = second.select(*GAME, *SAME)
    for first in firsts:
        shared = shared.join(first.select(*GAME, *SAME), on=GAME, suffix="_other")
        if shared.is_empty():
            raise DealwrightError(
                "expected tables with games on the same scenarios, rounds and seller, got none that all of them hold; "
                "play every buyer with the same --scenarios, --split and --seller"
            )
        if other := [name for name in SAME if (shared[name] != shared[f"{name}_other"]).any()]:
            raise DealwrightError(
                f"expected the same scenarios in all tables, got another {other[0]} in one; play every buyer with the "
                "same --scenarios"
            )
        shared = shared.select(*GAME, *SAME)
    met = [table.join(shared, on=GAME, how="semi") for table in tables]
    # Together, as a game that the seller of one failed in counts for none; they may have one name, of two trainings.
    numbered = (table.with_columns(buyer=pl.lit(str(number))) for number, table in enumerate(met))
    games = prepare(pl.concat(numbered)).partition_by("buyer", maintain_order=True)
    compared = compare_trainings(games[:-1], games[-1], resamples, seed)
    if compared is None:
        raise DealwrightError("expected games whose seller answered every buyer, got none; see the seller's server")
    difference, p_value = compared
    sides = [
        _side(buyer, len(table), counted, resamples, seed)
        for buyer, table, counted in zip(buyers, tables, games, strict=True)
    ]
    products = games[-1].filter(VALUES["reward"].is_not_null())["product_id"].n_unique()
    return Paired(difference.games, products, tuple(sides[:-1]), sides[-1], difference, p_value)


def _buyer(number: int, table: pl.DataFrame) -> str:
    buyers = table["buyer"].unique().sort().to_list()
    if len(buyers) != 1:
        raise DealwrightError(
            f"expected one buyer in table {number}, got {', '.join(buyers) or 'no game'}; name one of several behind "
            "the table, as in evaluation:trained"
        )
    if table.select(GAME).is_duplicated().any():
        raise DealwrightError(f"expected each game once in table {number}, got one twice; play it anew")
    if not (impossible := table.filter(~pl.col("reward").is_between(-1, 1))).is_empty():
        raise DealwrightError(
            f"expected rewards from -1 to 1 in table {number}, got {impossible['reward'][0]:g}; play it anew"
        )
    failed = pl.col("stop") == StopReason.SELLER_FAILED
    if not table.filter(pl.col("reward").is_null() & ~failed).is_empty():
        raise DealwrightError(f"expected a reward of every game in table {number}, got one without; play it anew")
    return str(buyers[0])


def _side(buyer: str, games: int, counted: pl.DataFrame, resamples: int, seed: int) -> Side:
    [found] = measure(counted, ("buyer",), resamples, seed).values()
    return Side(buyer, games, found["reward"], safety_rates(counted))
