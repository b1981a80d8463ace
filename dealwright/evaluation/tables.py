"""Two tables of games side by side, one buyer in each: who earned more where both played, and what went wrong."""

from dataclasses import dataclass

import polars as pl

from dealwright.errors import DealwrightError
from dealwright.evaluation.bootstrap import Estimate, exact_interval
from dealwright.evaluation.compare import SAFETY, compare, measure
from dealwright.evaluation.metrics import GAME, VALUES, prepare


@dataclass(frozen=True, slots=True)
class Side:
    """A buyer's mean reward, and of each safety rate its exact interval over the same games."""

    buyer: str
    reward: Estimate
    safety: dict[str, Estimate]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Two buyers in the games that both played, paired by product.

    `difference` is the first's reward less the second's, and `p_value` two-sided, that it is 0.
    """

    games: int
    products: int
    first: Side
    second: Side
    difference: Estimate
    p_value: float


def side_by_side(first: pl.DataFrame, second: pl.DataFrame, resamples: int, seed: int) -> SideBySide:
    """Compare two tables of episodes on the scenarios, rounds and sellers that are in both.

    Raises DealwrightError for a table with several buyers or a game that is there twice, and where nothing is shared.
    """
    names = [_only_buyer(table) for table in (first, second)]
    both = first.select(GAME).join(second.select(GAME), on=GAME)
    if both.is_empty():
        raise DealwrightError(
            "expected two tables with games on the same scenarios, rounds and seller, got none that is in both; play "
            "the other buyer with the same --scenarios, --split and --seller"
        )
    # Both may have one name, such as `trained` before and after another training.
    named = {"first": first, "second": second}
    shared = [table.join(both, on=GAME, how="semi").with_columns(buyer=pl.lit(side)) for side, table in named.items()]
    games = prepare(pl.concat(shared))
    one, other = (games.filter(pl.col("buyer") == side) for side in named)
    compared = compare(one, other, resamples, seed)
    if compared is None:
        raise DealwrightError("expected games whose seller answered both buyers, got none; see the seller's server")
    return SideBySide(
        compared[0].games,
        one["product_id"].n_unique(),
        _side(names[0], one, resamples, seed),
        _side(names[1], other, resamples, seed),
        *compared,
    )


def _only_buyer(table: pl.DataFrame) -> str:
    buyers = table["buyer"].unique().sort().to_list()
    if len(buyers) != 1:
        raise DealwrightError(
            f"expected a table with one buyer, as `dealwright rollout` writes it, got {', '.join(buyers) or 'no game'}"
        )
    if table.select(GAME).is_duplicated().any():
        raise DealwrightError(
            f"expected each game of {buyers[0]} once, got one twice; play it into a table of its own"
        )
    return str(buyers[0])


def _side(name: str, games: pl.DataFrame, resamples: int, seed: int) -> Side:
    [found] = measure(games, ("buyer",), resamples, seed).values()
    played = found["reward"].games
    events = {rate: round(games.select(VALUES[rate].sum()).item()) for rate in SAFETY}
    safety = {rate: Estimate(n / played, *exact_interval(n, played), played) for rate, n in events.items()}
    return Side(name, found["reward"], safety)
