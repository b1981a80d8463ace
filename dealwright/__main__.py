"""`python -m dealwright` is `dealwright`."""

from dealwright.cli import main

main(prog_name="dealwright")
