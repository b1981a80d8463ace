"""`dealwright compare`: tables of games, paired."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from dealwright.cli.seating import complete_seller
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
@click.argument("firsts", metavar="FIRST...", nargs=-1, required=True, shell_complete=complete_table)
@click.argument("second", shell_complete=complete_table)
@click.option("--category", help="Only products of this category.")
@click.option("--seller", help="Only games against this seller.", shell_complete=complete_seller)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def compare(firsts: tuple[str, ...], second: str, category: str | None, seller: str | None, as_json: bool) -> None:
    """Compare the buyers of two tables in data/rollouts, in the games that are in both.

    The difference of their rewards is paired by product, with a 95 % interval; the rates have exact ones. In a table
    with several buyers one is named behind a colon. Several tables before the last are trainings of one buyer with
    other seeds: their mean is compared, and the interval is over products and seeds.

    \b
    dealwright rollout before --buyer 3 --split test --rounds 40
    dealwright rollout after --buyer 7 --split test --rounds 40
    dealwright compare after before
    dealwright compare seed0 seed1 seed2 script
    dealwright compare evaluation:trained evaluation:adaptive_cue --seller stronger
    """
    from dealwright.evaluation.paired import pair
    from dealwright.params import load_params

    if len(set(firsts)) < len(firsts):
        raise DealwrightError(f"expected each training once, got {', '.join(map(printable, firsts))}; name each once")
    options = load_params().evaluate
    tables = [_read(name, {"seller": seller, "category": category}) for name in (*firsts, second)]
    _check_rules((*firsts, second))
    found = pair(tables[:-1], tables[-1], options.resamples, options.seed)
    if as_json:
        click.echo(json.dumps(asdict(found), indent=2, allow_nan=False))
        return
    several = len(firsts) > 1
    sides = list(zip((*firsts, second), (*found.firsts, found.second), strict=True))
    of = ", ".join(str(side.games) for _, side in sides)
    click.echo(
        f"{found.games} games on {found.products} products are in {'all' if several else 'both'} (of {of}); mean "
        "rewards with 95 % intervals"
    )
    for name, side in sides:
        rates = (f"{words} {_rate(side.safety[rate])}" for rate, words in RATES.items())
        click.echo(f"  {printable(name)} ({printable(side.buyer)}): {side.reward.said()}; {', '.join(rates)}")
    over = f"the mean of {len(firsts)}" if several else printable(firsts[0])
    click.echo(f"{over} less {printable(second)}, paired: {found.difference.said('+')}, p {found.p_value:.4f}")


def _read(named: str, wanted: Mapping[str, str | None]) -> "pl.DataFrame":
    """Return what is counted of a table's games: of the buyer behind the colon, and of what else is wanted."""
    import polars as pl
    from polars.exceptions import PolarsError

    from dealwright.rollout import SCHEMA
    from dealwright.written import require_columns

    name, _, buyer = named.partition(":")
    every = open_table(name)
    schema = {column: SCHEMA[column] for column in READ}
    require_columns(table_path(name), schema, NULLABLE, MEND, every)
    try:
        games = every.select(READ).collect().cast(pl.Schema(schema))
    except (OSError, PolarsError) as error:
        raise DealwrightError(f"{table_path(name)} is no readable table of games; {MEND}") from error
    for column, value in {"buyer": buyer or None, **wanted}.items():
        if value is None:
            continue
        chosen = games.filter(pl.col(column) == value)
        if chosen.is_empty():
            known = games[column].unique().sort().to_list()
            more = f" and {len(known) - 20} more" if len(known) > 20 else ""
            raise DealwrightError(
                f"{table_path(name)} has no {column} {value!r}; it has {', '.join(known[:20])}{more}"
            )
        games = chosen
    return games


def _check_rules(names: Sequence[str]) -> None:
    """Refuse tables that were played by other rules, as far as they say by which."""
    from dealwright.files import read_json
    from dealwright.shards import ABOUT

    files = [ROLLOUTS / name.partition(":")[0] / ABOUT for name in names]
    rules = [read_json(file, MEND).get("game") for file in files if file.is_file()]
    for other in rules[1:]:
        if other != rules[0]:
            raise DealwrightError(f"expected games by the same rules, got {rules[0]} and {other}; play them alike")


def _rate(rate: "Estimate") -> str:
    return f"{rate.value:.2%} ({rate.low:.2%} to {rate.high:.2%})"
