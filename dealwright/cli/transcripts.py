"""`dealwright transcripts`: finished games, message by message."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from dealwright.cli.tables import complete_table, open_table, table_path
from dealwright.cli.telling import ending, gained, prices, printable, told
from dealwright.errors import DealwrightError
from dealwright.game import Outcome, Role, StopReason, parse_message
from dealwright.game.negotiation import Entry

if TYPE_CHECKING:
    import polars as pl

_TOLD = (  # what a game is told from
    *("title", "category", "buyer", "seller", "round", "list_price", "budget", "cost", "zone"),
    *("stop", "price", "turns", "reward", "messages", "interventions"),
)
_INDENT = "      "


@click.command()
@click.argument("table", default="evaluation", shell_complete=complete_table)
@click.option("--buyer", help="Only games of this buyer, as in trained or adaptive_cue.")
@click.option("--seller", help="Only games against this seller, as in training or begging.")
@click.option("--category", help="Only products of this category.")
@click.option("--outcome", type=click.Choice([stop.value for stop in StopReason]), help="Only games that ended so.")
@click.option(
    "--reward",
    type=(float, float),
    metavar="FROM TO",
    help="Only games with a reward from one number to another, both included.",
)
@click.option("--limit", type=click.IntRange(1), default=5, show_default=True, help="At most so many games.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON: a list of games.")
def transcripts(
    table: str,
    buyer: str | None,
    seller: str | None,
    category: str | None,
    outcome: str | None,
    reward: tuple[float, float] | None,
    limit: int,
    as_json: bool,
) -> None:
    """Print games of the table TABLE in data/rollouts, with what each side thought and what the regulator refused.

    TABLE is evaluation unless another is named: demonstrations, reference, training, validation, or one that
    `dealwright rollout` has played. The trained buyer's games come first, then those of the warm start and the base
    model, then the scripts' by name.

    \b
    dealwright transcripts --buyer trained --seller training
    dealwright transcripts --buyer trained --outcome deal --reward 0.5 1
    dealwright transcripts training --category Electronics --limit 1
    dealwright transcripts --buyer trained --limit 100 --json > games.json
    """
    import polars as pl
    from polars.exceptions import PolarsError

    from dealwright.rollout import SCHEMA
    from dealwright.written import require_columns

    wanted = {"buyer": buyer, "seller": seller, "category": category, "stop": outcome}
    chosen = {column: value for column, value in wanted.items() if value is not None}
    fits = [pl.lit(True), *(pl.col(column) == value for column, value in chosen.items())]
    if reward is not None:
        fits.append(pl.col("reward").is_between(*reward))
    every = open_table(table)
    columns = {name: SCHEMA[name] for name in _TOLD}
    require_columns(table_path(table), columns, nullable=("price", "reward"), table=every)
    try:
        games = _in_order(every.filter(fits).collect())
        problem = _nothing(every, table, chosen) if games.is_empty() else None
    except (OSError, PolarsError) as error:
        raise DealwrightError(
            f"{table_path(table)} is no readable table of games; run `dvc repro` to make it"
        ) from error
    if problem is not None:
        raise DealwrightError(problem)
    shown = games.head(limit)
    if as_json:
        click.echo(json.dumps(shown.to_dicts(), indent=2, ensure_ascii=False))
        return
    for row in shown.iter_rows(named=True):
        try:
            lines = _tell(row)
        except (TypeError, ValueError) as error:
            raise DealwrightError(
                f"{table_path(table)} holds a game that cannot be: {error}; run `dvc repro` again"
            ) from error
        click.echo("\n".join(lines) + "\n")
    more = "" if len(shown) == len(games) else f"; --limit {len(games)} prints them all"
    click.echo(f"{len(shown)} of {len(games)} games of {table_path(table)}{more}")


def _in_order(games: "pl.DataFrame") -> "pl.DataFrame":
    """Sort games by their buyer, as the results table does; those of one buyer stay as they were played."""
    import polars as pl

    from dealwright.report.words import sorted_buyers

    buyers = pl.Enum(sorted_buyers(games["buyer"].unique()))
    return games.sort(pl.col("buyer").cast(buyers), maintain_order=True)


def _nothing(games: "pl.LazyFrame", table: str, chosen: Mapping[str, str]) -> str:
    """Say which filter fits no game, and what would."""
    for column, value in chosen.items():
        known = games.select(column).unique().collect()[column].drop_nulls().sort().to_list()
        if value not in known:
            word = "outcome" if column == "stop" else column
            return f"{table_path(table)} has no {word} {value!r}; it has {', '.join(known) or 'no games'}"
    return f"no game of {table_path(table)} fits all of that; leave a filter out"


def _tell(row: Mapping[str, Any]) -> list[str]:
    title = f"{printable(row['title'])} ({printable(row['category'])})"
    lines = [
        f"{title}   {row['buyer']} and {row['seller']}, round {row['round']}",
        prices(row["list_price"], row["budget"], row["cost"], row["zone"]),
    ]
    for place, message in enumerate(row["messages"]):
        role = Role(message["role"])
        entry = Entry(role, message["text"], parse_message(message["text"], role))
        refused = [item for item in row["interventions"] if item["turn"] == place // 2 + 1 and role is Role.SELLER]
        lines += [f"{_INDENT}(refused: {item['reason']}) {printable(item['text'])}" for item in refused]
        if entry.message is None:
            lines.append(f"  {role}> (breaks the rules) {printable(entry.text)}")
            continue
        if entry.message.thought:
            lines.append(f"{_INDENT}({role} thinks) {printable(entry.message.thought)}")
        lines.append(f"  {told(entry)}")
    lines.append(ending(Outcome(StopReason(row["stop"]), row["price"], row["turns"])))
    return lines if row["reward"] is None else [*lines, gained(row["reward"])]
