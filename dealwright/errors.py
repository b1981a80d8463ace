"""Errors meant for the user: one line each, and a non-zero exit."""

import sys
from collections.abc import Callable


class DealwrightError(ValueError):
    """Something the user can mend; the message says what was expected, what came and what to do."""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the error's kind where it has no message."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def one_line(error: DealwrightError | OSError) -> str:
    """Return the one line that tells a user of an error; the operating system's names the file, where it knows it.

    What a terminal would obey, as a hostile file may have it in the names of its columns, is left out.
    """
    if isinstance(error, DealwrightError) or error.strerror is None:
        message = str(error)
    else:
        place = "a file" if error.filename is None else error.filename
        message = f"cannot use {place}: {error.strerror}; see to the disk and its permissions"
    words = " ".join(message.split())
    return f"error: {''.join(letter for letter in words if letter.isprintable())}"


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage; what the user can mend, a full disk too, becomes one line on standard error and exit status 1."""
    try:
        main()
    except (DealwrightError, OSError) as error:
        print(one_line(error), file=sys.stderr)
        sys.exit(1)
