"""Errors meant for the user: one line each, and a non-zero exit."""

import sys
from collections.abc import Callable


class DealwrightError(ValueError):
    """Something the user can mend; the message says what was expected, what came and what to do."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the error's kind where it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage; a DealwrightError becomes one line on standard error and exit status 1."""
    try:
        main()
    except DealwrightError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
