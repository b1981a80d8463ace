"""`dealwright compare`: two tables of games, paired."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dealwright.cli.tables import ROLLOUTS, complete_table, open_table, table_path
from dealwright.cli.telling import printable
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    import polars as pl

    from dealwright.evaluation.bootstrap import Estimate

# What the metrics are counted from, and what tells games apart.
NULLABLE = ("price", "reward", "first_offer")
READ = (
    *("scenario_id", "product_id", "category", "zone", "list_price", "cost", "budget", "seed", "round"),
    *("buyer", "seller", "stop", "turns", "interventions", "arguments", "leaks", "unsupported_numbers", "ask_rises"),
    *NULLABLE,
)
MEND = "play it again with `dealwright rollout`"
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
    from dealwright.evaluation.paired import pair
    from dealwright.params import load_params

    options = load_params().evaluate
    tables = _read(first, category), _read(second, category)
    _check_rules(first, second)
    found = pair(*tables, options.resamples, options.seed)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2, allow_nan=False))
        return
    click.echo(
        f"{found.games} games on {found.products} products are in both (of {found.first.games} and "
        f"{found.second.games}); mean rewards with 95 % intervals"
    )
    for name, side in ((first, found.first), (second, found.second)):
        rates = (f"{words} {_rate(side.safety[rate])}" for rate, words in RATES.items())
        click.echo(f"  {name} ({printable(side.buyer)}): {side.reward.said()}; {', '.join(rates)}")
    click.echo(f"{first} less {second}, paired: {found.difference.said('+')}, p {found.p_value:.4f}")


def _read(name: str, category: str | None) -> "pl.DataFrame":
    """Return what is counted of a table's games, of a category alone where one is named."""
    import polars as pl
    from polars.exceptions import PolarsError

    from dealwright.rollout import SCHEMA
    from dealwright.written import require_columns

    every = open_table(name)
    schema = {column: SCHEMA[column] for column in READ}
    require_columns(table_path(name), schema, NULLABLE, MEND, every)
    try:
        games = every.select(READ).collect().cast(pl.Schema(schema))
    except (OSError, PolarsError) as error:
        raise DealwrightError(f"{table_path(name)} is no readable table of games; {MEND}") from error
    if category is None:
        return games
    chosen = games.filter(category=category)
    if chosen.is_empty():
        known = games["category"].unique().sort().to_list()
        more = f" and {len(known) - 20} more" if len(known) > 20 else ""
        raise DealwrightError(f"{table_path(name)} has no category {category!r}; it has {', '.join(known[:20])}{more}")
    return chosen


def _check_rules(first: str, second: str) -> None:
    """Refuse tables that were played by other rules, as far as they say by which."""
    from dealwright.files import read_json
    from dealwright.shards import ABOUT

    files = [ROLLOUTS / name / ABOUT for name in (first, second)]
    rules = [read_json(file, MEND).get("game") for file in files if file.is_file()]
    if len(rules) == 2 and rules[0] != rules[1]:
        raise DealwrightError(f"expected games by the same rules, got {rules[0]} and {rules[1]}; play them alike")


def _rate(rate: "Estimate") -> str:
    return f"{rate.value:.2%} ({rate.low:.2%} to {rate.high:.2%})"
