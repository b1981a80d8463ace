"""`dealwright ...`: everything a person types, besides make and dvc.

The commands import what they need when they run, so that `dealwright --help` loads neither torch nor mlflow nor
prefect.
"""

import sys
from typing import Any

import click

from dealwright import __version__
from dealwright.cli.champion import checkpoints, promote, rollback
from dealwright.cli.compare import compare
from dealwright.cli.models import fetch_model, register
from dealwright.cli.pipeline import check, profile, results
from dealwright.cli.plan import plan
from dealwright.cli.play import play
from dealwright.cli.rollout import rollout
from dealwright.cli.transcripts import transcripts
from dealwright.cli.ui import ui
from dealwright.errors import DealwrightError, one_line

EPILOG = """\b
Examples:
  dealwright check                   what would run, and whether it can
  dealwright profile smoke           put the sizes of profiles/smoke.yaml into params.yaml
  dealwright plan --profile paper    what training needs, before it starts
  dealwright results                 the table of the last evaluation
  dealwright transcripts --buyer trained --outcome deal
  dealwright play --against @champion
  dealwright rollout mine --buyer cue_ladder --rounds 10
  dealwright compare mine other      two tables of rollouts, paired by product
  dealwright promote @candidate      champion, if it beats the present one

Exit codes: 0 done, 1 something you can mend (one line on standard error says what), 2 wrong usage, 3 the gate kept
a version from becoming champion.

Completion: eval "$(_DEALWRIGHT_COMPLETE=bash_source dealwright)", or zsh_source, or fish_source.
"""


class _Commands(click.Group):
    """A group whose errors meant for the user are one line on standard error, and exit status 1."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader has left, as `head` does; click ends quietly
            raise
        except (DealwrightError, OSError) as error:
            click.echo(one_line(error), err=True)
            sys.exit(1)


@click.group(cls=_Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, package_name="dealwright")
def main() -> None:
    """Train language-model buyers to bargain, and bargain with them.

    Run it from the project's root. The pipeline itself is `make reproduce` or `dvc repro`.
    """


for command in (
    *(check, profile, plan, results, transcripts, play, rollout, compare),
    *(register, checkpoints, promote, rollback, fetch_model, ui),
):
    main.add_command(command)
