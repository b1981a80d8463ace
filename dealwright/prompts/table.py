"""All prompts of a run as one table, to be read by people and to make a changed text visible to the pipeline."""

from collections.abc import Sequence

import polars as pl

from dealwright.game import Role, Scenario
from dealwright.prompts.render import PERSONAS, Style, render_buyer, render_seller


def prompts_frame(scenarios: Sequence[Scenario], style: Style, max_turns: int) -> pl.DataFrame:
    """Return the table of all prompts: for each scenario the buyer's, then the seller's in each persona."""
    rows: list[tuple[str, str, str, str]] = []
    for scenario in scenarios:
        rows.append((scenario.id, Role.BUYER, "", render_buyer(scenario, style, max_turns)))
        rows += [(scenario.id, Role.SELLER, name, render_seller(scenario, name, max_turns)) for name in PERSONAS]
    columns = ("scenario", "role", "persona", "text")
    return pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.String), orient="row")
