"""`dealwright compare`: two tables of games, paired."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dealwright.cli.tables import complete_table, open_table, table_path
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    import polars as pl

    from dealwright.evaluation.bootstrap import Estimate

# What the metrics are counted from.
NULLABLE = ("price", "reward", "first_offer")
READ = (
    *("scenario_id", "product_id", "category", "zone", "cost", "budget", "buyer", "seller", "round", "stop", "turns"),
    *("interventions", "arguments", "leaks", "unsupported_numbers", "ask_rises", *NULLABLE),
)
RATES = {"overshoot_rate": "above the budget", "invalid_rate": "rules broken", "leak_rate": "budget stated"}


@click.command()
@click.argument("first", shell_complete=complete_table)
@click.argument("second", shell_complete=complete_table)
@click.option("--category", help="Only products of this category.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def compare(first: str, second: str, category: str | None, as_json: bool) -> None:
    """Compare the buyers of two tables that `dealwright rollout` has played, in the games that are in both.

    The difference of their rewards is paired by product, with a 95 % interval; the rates have exact ones.

    \b
    dealwright rollout before --buyer 3 --split test --rounds 40
    dealwright rollout after --buyer 7 --split test --rounds 40
    dealwright compare after before
    """
    from dealwright.evaluation.tables import side_by_side
    from dealwright.params import load_params

    options = load_params().evaluate
    found = side_by_side(_read(first, category), _read(second, category), options.resamples, options.seed)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2))
        return
    click.echo(f"{found.games} games on {found.products} products, mean rewards with 95 % intervals")
    for name, side in ((first, found.first), (second, found.second)):
        rates = (f"{words} {_rate(side.safety[rate])}" for rate, words in RATES.items())
        click.echo(f"  {name} ({side.buyer}): {side.reward.said()}; {', '.join(rates)}")
    click.echo(f"{first} less {second}, paired: {found.difference.said('+')}, p {found.p_value:.4f}")


def _read(name: str, category: str | None) -> "pl.DataFrame":
    """Return what is counted of a table's games, of a category alone where one is named."""
    import polars as pl
    from polars.exceptions import PolarsError

    from dealwright.rollout import SCHEMA
    from dealwright.written import require_columns

    every = open_table(name)
    require_columns(table_path(name), {column: SCHEMA[column] for column in READ}, nullable=NULLABLE)
    try:
        games = every.select(READ).collect()
    except (OSError, PolarsError) as error:
        raise DealwrightError(f"{table_path(name)} is no readable table of games; play it again") from error
    known = games["category"].unique().sort().to_list()
    if category is not None and category not in known:
        raise DealwrightError(f"{table_path(name)} has no category {category!r}; it has {', '.join(known)}")
    return games if category is None else games.filter(pl.col("category") == category)


def _rate(rate: "Estimate") -> str:
    return f"{rate.value:.2%} ({rate.low:.2%} to {rate.high:.2%})"
