"""Errors meant for the user: one line each, and a non-zero exit."""

import fcntl
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


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


def run_main(main: Callable[[], None]) -> None:
    """Run a program; what the user can mend, a full disk too, becomes one line on standard error and exit status 1."""
    try:
        main()
    except (DealwrightError, OSError) as error:
        print(one_line(error), file=sys.stderr)
        sys.exit(1)


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage like any program, but only where no other stage is at work in this folder."""
    run_main(_alone()(main))


@contextmanager
def _alone() -> Iterator[None]:
    """Hold dvc.yaml while a stage is at work.

    DVC keeps two of its own processes apart. Where one is killed by itself, its stage works on, and the
    next `dvc repro` would start another beside it. Of the processes of one training the first holds the file.
    """
    pipeline = Path("dvc.yaml")
    if int(os.environ.get("RANK", "0")) > 0 or not pipeline.exists():
        yield
        return
    with pipeline.open() as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DealwrightError(
                "another stage is still at work in this folder, as after a `dvc repro` that was killed; wait until it "
                "has ended, or end it (`pgrep -af stages` names it), and run this again"
            ) from None
        yield
