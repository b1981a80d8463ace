"""Choose a checkpoint: the one with the highest validation reward that does not overshoot."""

from dataclasses import asdict
from typing import Any

import polars as pl

from dealwright.errors import DealwrightError
from dealwright.evaluation.compare import compare, measure
from dealwright.evaluation.metrics import prepare
from dealwright.params import Select

SHOWN = ("reward", "deal_rate", "overshoot_rate", "invalid_rate", "leak_rate", "bargained_ratio", "first_offer_ratio")


def select_checkpoint(episodes: pl.DataFrame, params: Select) -> dict[str, Any]:
    """Return which checkpoint to take and why, from probe games on the validation scenarios.

    A checkpoint is eligible where at most `params.overshoot` of its games end above the budget; where none is, those
    that overshoot least are. Among the eligible the one with the highest mean reward is taken, and of equal ones the
    earliest. One that is merely not worse would not do: while the learning rate is high, slips are frequent that a few
    hundred games do not show.
    The reward of the chosen one is the winner of a contest and is never quoted as a result. Raises DealwrightError
    where a reward is no number.
    """
    broken = episodes.filter(pl.col("reward").is_nan())["checkpoint"].unique().sort()
    if len(broken):
        raise DealwrightError(
            f"the probe games of step {broken[0]} have rewards that are no numbers; check the prices in "
            "data/scenarios.parquet"
        )
    games = prepare(episodes)
    measured = {
        step: found for (step,), found in measure(games, ("checkpoint",), params.resamples, params.seed).items()
    }
    tables = {step: games.filter(pl.col("checkpoint") == step) for step in sorted(measured)}
    eligible = [step for step in tables if measured[step]["overshoot_rate"].value <= params.overshoot]
    allowed = f"at most {params.overshoot:.1%} of games above the budget"
    if not eligible:
        least = min(measured[step]["overshoot_rate"].value for step in tables)
        eligible = [step for step in tables if measured[step]["overshoot_rate"].value == least]
        allowed = f"the fewest games above the budget, {least:.1%}; none has at most {params.overshoot:.1%}"
    best = max(eligible, key=lambda step: (measured[step]["reward"].value, -step))
    entries = []
    for step, table in tables.items():
        found = compare(table, tables[best], params.resamples, params.seed)
        difference = None if found is None else found[0]
        entry = {name: asdict(measured[step][name]) for name in SHOWN if name in measured[step]}
        entries.append({"step": step, **entry, "difference": None if difference is None else asdict(difference)})
    why = f"step {best} has the highest validation reward of those with {allowed}"
    return {"selected": best, "why": why, "checkpoints": entries}
