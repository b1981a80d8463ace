"""Pictures of reports/training.csv and reports/phases.json: how the buyer changed."""

from typing import Any

import polars as pl

from dealwright.phases.series import HEADLINE
from dealwright.report.drawing import (
    BLUE,
    CYCLE,
    GREEN,
    INK,
    ORANGE,
    QUIET,
    SKY,
    SMALL,
    VERMILION,
    Picture,
    drawing,
    extents,
    whole_steps,
)
from dealwright.report.words import interval, number

# Colour and short name of each phase's band.
BANDS = {
    "naive bargaining": (SKY, "naive"),
    "aggressive first offers": (ORANGE, "aggressive"),
    "deadlock": (VERMILION, "deadlock"),
    "persuasion": (GREEN, "persuasion"),
    "other": (QUIET, "other"),
}
PLANTED = "naive bargaining"  # what the demonstrator does that the warm start learns from
ZONE = "share of the zone"
CURVES = {
    "reward": ("Reward", "mean reward"),
    "deal_rate": ("Deals", "share of games"),
    "first_offer_ratio": ("First offer", "share of the budget"),
    "bargained_ratio": ("Bargained ratio of the deals", ZONE),
    "argument_rate": ("Games with an argument", "share of games"),
    "max_turns_rate": ("Games out of turns", "share of games"),
    "seller_quit_rate": ("Games the seller left", "share of games"),
    "overshoot_rate": ("Deals above the budget", "share of games"),
    "entropy": ("Entropy of the buyer's words", "nats a token"),
    "flat_groups": ("Groups without variance", "share of groups"),
}
TRAINING = (
    "reward",
    "deal_rate",
    "first_offer_ratio",
    "bargained_ratio",
    "argument_rate",
    "max_turns_rate",
    "overshoot_rate",
    "entropy",
    "flat_groups",
)
SMOOTH = 5
# A deal far above the budget costs many times the zone, and would flatten all the rest of the bargained ratio's curve.
LOWEST = -0.5


def training_curves(training: pl.DataFrame, phases: dict[str, Any] | None) -> list[Picture]:
    """Draw a curve for each metric of the training log, with its running mean and the phases as bands."""
    pictures = []
    for metric in TRAINING:
        if metric not in training.columns:
            continue
        curve = training.select("step", pl.col(metric).cast(pl.Float64)).drop_nulls()
        if curve.is_empty():
            continue
        steps, values = curve["step"].to_list(), curve[metric].to_list()
        title, unit = CURVES[metric]
        words = f"{title} from {number(values[0])} at step {steps[0]} to {number(values[-1])} at step {steps[-1]}"
        with drawing(f"train-{metric}", title, words, 1.9, SMALL) as canvas:
            axes = canvas.axes
            # Told apart by width: a line faint enough to stand back on white is lost on a dark page.
            axes.plot(steps, values, color=BLUE, linewidth=0.9, alpha=0.8, marker="." if len(steps) < 30 else None)
            if len(steps) > SMOOTH:
                smooth = curve[metric].rolling_mean(SMOOTH, min_samples=1, center=True)
                axes.plot(steps, smooth.to_list(), color=BLUE, linewidth=2.4)
            _finish(axes, unit, phases)
        pictures.append(canvas.picture)
    return pictures


def probe_curves(phases: dict[str, Any]) -> list[Picture]:
    """Draw each headline series of the checkpoints' probe games with its interval and the phases as bands."""
    pictures = []
    for metric in HEADLINE:
        rows = [(entry["step"], entry[metric]) for entry in phases["series"] if metric in entry]
        if not rows:
            continue
        steps, estimates = [step for step, _ in rows], [estimate for _, estimate in rows]
        values = [estimate["value"] for estimate in estimates]
        title, unit = CURVES[metric]
        start, end = f"{number(values[0])} at step {steps[0]}", f"{number(values[-1])} at step {steps[-1]}"
        words = f"{title} on probe games from {start} to {end}"
        with drawing(f"probe-{metric}", title, words, 1.9, SMALL) as canvas:
            lows, highs = [item["low"] for item in estimates], [item["high"] for item in estimates]
            canvas.axes.fill_between(steps, lows, highs, color=BLUE, alpha=0.2, linewidth=0)
            canvas.axes.plot(steps, values, color=BLUE, marker="o", markersize=3)
            _finish(canvas.axes, unit, phases)
        pictures.append(canvas.picture)
    return pictures


def kind_shares(phases: dict[str, Any]) -> Picture | None:
    """Draw the shares of the kinds of episodes over the checkpoints."""
    kinds = phases["kinds"]["found"]
    steps = [entry["step"] for entry in phases["series"]]
    if len(steps) < 2 or len(kinds) < 2:
        return None
    shares = [[entry[f"kind_{kind['name']}"]["value"] for entry in phases["series"]] for kind in kinds]
    words = "; ".join(
        f"kind {kind['name']} ({kind['traits']}) from {number(share[0])} to {number(share[-1])}"
        for kind, share in zip(kinds, shares, strict=True)
    )
    with drawing("kinds", "Kinds of episodes", words, 1.9, SMALL) as canvas:
        layers = canvas.axes.stackplot(steps, shares, colors=CYCLE[: len(kinds)], alpha=0.75, linewidth=0)
        for kind, share, layer in zip(kinds, shares, layers, strict=True):
            layer.set_edgecolor(INK)
            layer.set_linewidth(0.6)
            widest = max(range(len(share)), key=lambda place: share[place])
            if share[widest] > 0.08:
                below = sum(other[widest] for other in shares[: kinds.index(kind)])
                inside = steps[min(max(widest, 1), len(steps) - 2)] if len(steps) > 2 else steps[widest]
                canvas.axes.text(
                    inside, below + share[widest] / 2, kind["name"], ha="center", va="center", weight="bold"
                )
        canvas.axes.set_xlim(steps[0], steps[-1])
        canvas.axes.set_ylim(0, 1)
        _finish(canvas.axes, "share of games", phases, filled=False)
    return canvas.picture


def checkpoint_rewards(selection: dict[str, Any]) -> Picture | None:
    """Draw the validation reward of every checkpoint with its interval, and mark the selected one."""
    rows = [(row["step"], row["reward"]) for row in selection["checkpoints"] if "reward" in row]
    if len(rows) < 2:
        return None
    chosen = selection["selected"]
    words = "; ".join(f"step {step}: {number(reward['value'])} ({interval(reward)})" for step, reward in rows)
    with drawing("checkpoints-reward", "Validation reward by checkpoint", words, 2.4) as canvas:
        for selected, colour, marker, label in ((False, QUIET, "o", "checkpoint"), (True, BLUE, "D", "selected")):
            here = [(step, reward) for step, reward in rows if (step == chosen) == selected]
            if here:
                steps = [step for step, _ in here]
                values, lows, highs = extents([reward for _, reward in here])
                canvas.axes.vlines(steps, lows, highs, color=colour, linewidth=1.4)
                canvas.axes.plot(
                    steps, values, color=colour, marker=marker, linestyle="none", markersize=6, label=label
                )
        whole_steps(canvas.axes)
        canvas.axes.set_xlabel("training step")
        canvas.axes.set_ylabel("mean reward")
        canvas.axes.figure.legend(loc="outside upper left", ncols=2)
    return canvas.picture


def _finish(axes: Any, unit: str, phases: dict[str, Any] | None, filled: bool = True) -> None:
    whole_steps(axes)
    axes.set_xlabel("training step")
    axes.set_ylabel(unit)
    if unit == ZONE:
        axes.set_ylim(bottom=max(axes.get_ylim()[0], LOWEST))
    segments = phases["segments"] if phases else []
    if len(segments) < 2:
        return
    left, right = axes.get_xlim()
    starts = [left, *(segment["first_step"] for segment in segments[1:])]
    for segment, start, end in zip(segments, starts, [*starts[1:], right], strict=True):
        colour, short = BANDS[segment["phase"]]
        if filled:
            axes.axvspan(start, end, color=colour, alpha=0.13, linewidth=0)
        if start != left:
            axes.axvline(start, color=INK, linewidth=0.8, linestyle=":")
        wide = (end - start) / (right - left) > 0.16
        axes.annotate(
            short if wide else short[:1],
            ((start + end) / 2, 1),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8,
        )
    axes.set_xlim(left, right)
