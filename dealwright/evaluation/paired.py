"""Two tables of games with one buyer each: who earned more where both played, and what went wrong."""

from dataclasses import dataclass

import polars as pl

from dealwright.errors import DealwrightError
from dealwright.evaluation.bootstrap import Estimate, exact_interval
from dealwright.evaluation.compare import SAFETY, compare, measure
from dealwright.evaluation.metrics import GAME, VALUES, prepare

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
    """Two buyers in the games that both played; `games` counts those, and `products` what they are over.

    `difference` is the first's reward less the second's, and `p_value` two-sided, that it is 0.
    """

    games: int
    products: int
    first: Side
    second: Side
    difference: Estimate
    p_value: float


def pair(first: pl.DataFrame, second: pl.DataFrame, resamples: int, seed: int) -> Paired:
    """Compare two tables of episodes on the scenarios, rounds and sellers that are in both, by product.

    Raises DealwrightError for a table with several buyers, a game that is there twice or a reward that cannot be, for
    scenarios that differ between the tables, and where nothing is shared.
    """
    tables = {"first": first, "second": second}
    buyers = {side: _buyer(side, table) for side, table in tables.items()}
    both = first.select(*GAME, *SAME).join(second.select(*GAME, *SAME), on=GAME, suffix="_other")
    if both.is_empty():
        raise DealwrightError(
            "expected two tables with games on the same scenarios, rounds and seller, got none that is in both; play "
            "the other buyer with the same --scenarios, --split and --seller"
        )
    if other := [name for name in SAME if (both[name] != both[f"{name}_other"]).any()]:
        raise DealwrightError(
            f"expected the same scenarios in both tables, got another {other[0]} in one; play both buyers with the "
            "same --scenarios"
        )
    # Both may have one name, such as `trained` before and after another training.
    shared = [table.join(both, on=GAME, how="semi").with_columns(buyer=pl.lit(side)) for side, table in tables.items()]
    games = prepare(pl.concat(shared))
    sides = {side: games.filter(pl.col("buyer") == side) for side in tables}
    compared = compare(sides["first"], sides["second"], resamples, seed)
    if compared is None:
        raise DealwrightError("expected games whose seller answered both buyers, got none; see the seller's server")
    difference, p_value = compared
    products = sides["first"]["product_id"].n_unique()
    told = {side: _side(buyers[side], len(table), sides[side], resamples, seed) for side, table in tables.items()}
    return Paired(difference.games, products, told["first"], told["second"], difference, p_value)


def _buyer(side: str, table: pl.DataFrame) -> str:
    buyers = table["buyer"].unique().sort().to_list()
    if len(buyers) != 1:
        raise DealwrightError(
            f"expected one buyer in the {side} table, as `dealwright rollout` writes it, got "
            f"{', '.join(buyers) or 'no game'}"
        )
    if table.select(GAME).is_duplicated().any():
        raise DealwrightError(f"expected each game once in the {side} table, got one twice; play it anew")
    if not (impossible := table.filter(~pl.col("reward").is_between(-1, 1))).is_empty():
        raise DealwrightError(
            f"expected rewards from -1 to 1 in the {side} table, got {impossible['reward'][0]:g}; play it anew"
        )
    return str(buyers[0])


def _side(buyer: str, games: int, counted: pl.DataFrame, resamples: int, seed: int) -> Side:
    [found] = measure(counted, ("buyer",), resamples, seed).values()
    played = found["reward"].games
    events = {rate: round(counted.select(VALUES[rate].sum()).item()) for rate in SAFETY}
    safety = {rate: Estimate(n / played, *exact_interval(n, played), played) for rate, n in events.items()}
    return Side(buyer, games, found["reward"], safety)
