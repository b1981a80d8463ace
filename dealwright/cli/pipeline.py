"""Commands around a run of the pipeline: what would run, with which sizes, and what came out."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

EVALUATION = Path("reports/evaluation.json")
REPORT = Path("reports/index.html")


def complete_profile(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Complete a profile's name in the shell."""
    from dealwright.profiles import names

    return [name for name in names() if name.startswith(incomplete)]


@click.command()
@click.argument("name", shell_complete=complete_profile)
def profile(name: str) -> None:
    """Put the sizes of a profile into params.yaml.

    Comments stay, and so does all that is no size; the catalogue is never touched.

    \b
    dealwright profile smoke
    dealwright profile tiny            the default sizes again
    """
    from dealwright.profiles import apply_profile

    changes = apply_profile(name)
    sizes = "1 size" if len(changes) == 1 else f"{len(changes)} sizes"
    click.echo(
        f"params.yaml now has the profile {name}; {sizes} changed, as `dealwright check` lists them"
        if changes
        else f"params.yaml has the profile {name} already"
    )


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def check(as_json: bool) -> None:
    """Validate params.yaml and the source of products, and say what would run.

    Names the profile that stands and all that differs from the committed params.yaml.

    \b
    dealwright check
    """
    from dealwright.checks import check as look

    looked = look()
    if as_json:
        click.echo(json.dumps(asdict(looked), indent=2))
    else:
        click.echo("\n".join(looked.lines()))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Write the whole evaluation as JSON.")
def results(as_json: bool) -> None:
    """Print the results table of the last evaluation, and where the report is.

    A first line says where the table is of an earlier run than what stands: while a run is under way, or after
    params.yaml has changed. With --json it goes to standard error.

    \b
    dealwright results
    dealwright results --json | jq .paired.trained.best_script.training
    """
    from dealwright.cli.earlier import why_earlier

    evaluation = read_evaluation()
    if earlier := why_earlier(EVALUATION):
        click.echo(earlier, err=as_json)
    if as_json:
        click.echo(json.dumps(evaluation, indent=2, ensure_ascii=False))
        return
    from dealwright.report.table import results_table

    click.echo(results_table(evaluation))
    where = REPORT.absolute().as_uri() if REPORT.is_file() else "not written yet; run `dvc repro report`"
    click.echo(f"\nreport: {where}")


def read_evaluation() -> dict[str, Any]:
    """Read reports/evaluation.json."""
    from dealwright import written

    return written.read_evaluation(EVALUATION)
