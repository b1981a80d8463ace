"""Commands around registered versions: which is best, which is champion, and which was before."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dealwright.tracking.promotion import Promotion
    from dealwright.tracking.versions import Standing

KEPT = 3  # exit status


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def checkpoints(as_json: bool) -> None:
    """List the registered versions by their reward on the validation games.

    A star marks the best of those that keep to their budget (select.overshoot), and those that chance alone may have
    put below it. Validation chooses checkpoints; results are what `dealwright results` prints.

    \b
    dealwright checkpoints
    dealwright checkpoints --json
    """
    from dealwright.params import load_params
    from dealwright.tracking.versions import read_model, standings

    params = load_params()
    rows = standings(read_model(params.tracking.model), params.select.overshoot)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    click.echo(_line("version", "step", "validation reward", "above budget", "leaks", "guarded", "aliases"))
    for row in rows:
        rates = (_share(rate) for rate in (row.overshoot_rate, row.leak_rate, row.guard_rate))
        step = "?" if row.step is None else str(row.step)
        click.echo(_line(str(row.version), step, _reward(row), *rates, ", ".join(row.aliases)))
    click.echo("* the best, and what chance alone may have put below it")


@click.command()
@click.argument("version")
@click.option(
    "--minimum-gain",
    type=float,
    help="The gain in reward that the whole 95 % interval must lie above.  [default: retrain.minimum_gain]",
)
@click.option("--force", metavar="REASON", help="Skip the games; the reason is recorded.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@click.pass_context
def promote(
    context: click.Context, version: str, minimum_gain: float | None, force: str | None, as_json: bool
) -> None:
    """Make a version champion, if it passes the gate.

    VERSION is a number, or an alias as in @candidate. It and the champion play the same validation games, on products
    that neither was trained on. It passes where its gain in reward is above the minimum with 95 % confidence and it
    neither goes above the budget nor states it more often. The reason is recorded in MLflow, also of a refusal.

    \b
    dealwright promote @candidate
    dealwright promote 12 --minimum-gain 0.02
    dealwright promote 12 --force "the champion's catalogue is gone"

    Exit codes: 0 champion now, or already; 3 the gate kept it back.
    """
    from dealwright.params import load_params
    from dealwright.tracking.promotion import promote as pass_gate
    from dealwright.tracking.versions import read_model

    params = load_params()
    number = read_model(params.tracking.model).find(version)
    least = params.retrain.minimum_gain if minimum_gain is None else minimum_gain
    promotion = pass_gate(number, params, least, force)
    _say(promotion, as_json)
    if not promotion.promoted and promotion.previous != number:
        context.exit(KEPT)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def rollback(as_json: bool) -> None:
    """Make the champion before champion again.

    Run again, it goes back further. The history stays in the tags of the registered model.

    \b
    dealwright rollback
    """
    from dealwright.params import load_params
    from dealwright.tracking.promotion import rollback as go_back

    _say(go_back(load_params()), as_json)


def _say(promotion: "Promotion", as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(asdict(promotion), indent=2))
        return
    from dealwright.tracking.connection import shown_uri

    if promotion.comparison is not None and promotion.comparison.champion is not None:
        compared = promotion.comparison
        click.echo(f"{compared.products} products that neither was trained on, {compared.left_out} left out")
    click.echo(promotion.reason)
    champion = promotion.version if promotion.promoted else promotion.previous
    before = f" (was {promotion.previous})" if promotion.promoted and promotion.previous is not None else ""
    click.echo(f"champion: version {champion}{before}; written to {shown_uri()}")


def _reward(row: "Standing") -> str:
    if row.reward is None:
        return "unknown  "
    bounds = "" if row.low is None or row.high is None else f" [{row.low:.3f}, {row.high:.3f}]"
    return f"{row.reward:.3f}{bounds} {'*' if row.tied else ' '}"


def _share(rate: float | None) -> str:
    return "?" if rate is None else f"{rate:.1%}"


def _line(*cells: str) -> str:
    *aligned, last = cells
    widths = (7, 5, 26, 12, 6, 7)
    return "  ".join([*(f"{cell:>{width}}" for cell, width in zip(aligned, widths, strict=True)), last]).rstrip()
