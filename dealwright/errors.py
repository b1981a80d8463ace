"""Errors meant for the user: one line each, and a non-zero exit."""

import sys
from collections.abc import Callable


class DealwrightError(ValueError):
    """Something the user can mend; the message says what was expected, what came and what to do."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the error's kind where it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def one_line(error: DealwrightError | OSError) -> str:
    """Return the one line that tells a user of an error; the operating system's names the file, where it knows it."""
    if isinstance(error, DealwrightError) or error.strerror is None:
        return f"error: {first_line(error)}"
    place = f" {error.filename}" if error.filename is not None else ""
    return f"error: cannot use{place or ' a file'}: {error.strerror}; see to the disk and its permissions"


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage; what the user can mend, a full disk too, becomes one line on standard error and exit status 1."""
    try:
        main()
    except (DealwrightError, OSError) as error:
        print(one_line(error), file=sys.stderr)
        sys.exit(1)
