"""The picture of what a buyer loses when a road of language between it and the seller is cut."""

from typing import Any

from dealwright.agents import COLUMNS, Argument
from dealwright.report.drawing import BLUE, INK, ORANGE, QUIET, Picture, drawing, interval_rows
from dealwright.report.words import BEST_SCRIPT, buyer_name, interval, number, plain, sorted_buyers

ABLATIONS = {
    "talk_emptied": "no argument\nreaches the seller",
    "stock_arguments": "stock arguments\nreach it instead",
    "cues_removed": "the seller\nhints at nothing",
    "cues_swapped": "it hints at what\nmoves another",
}
MARKS = {"trained": (BLUE, "o"), "warmstart": (QUIET, "s")}


def reading(evaluation: dict[str, Any]) -> dict[str, Any] | None:
    """Return the picture, the table and a verdict in words; None where no road was cut."""
    figures, best = evaluation.get("reading", {}), evaluation["best_script"]
    cut = [name for name in ABLATIONS if any(name in found for found in figures.values())]
    if not cut:
        return None
    rows = [
        (buyer_name(BEST_SCRIPT if name == best else name, best), name, figures[name])
        for name in sorted_buyers(figures, best)
    ]
    seller = evaluation["primary"]["seller"]
    return {
        "picture": _picture(rows, cut, seller),
        "rows": rows,
        "columns": [(name, _spoken(name)) for name in cut],
        "chance": COLUMNS[seller].receptive / len(Argument) if seller in COLUMNS else None,
        "verdict": _verdict(figures.get("trained", {}).get("cues_swapped")),
    }


def _picture(rows: list[tuple[str, str, dict[str, Any]]], cut: list[str], seller: str) -> Picture:
    words = "; ".join(
        f"{label}, where {_spoken(name)}: {number(found[name]['value'], 3)} ({interval(found[name], 3)})"
        for label, _, found in rows
        for name in cut
        if name in found
    )
    title = f"What cutting a road of language costs, against the {plain(seller)} seller"
    with drawing("reading", title, words, 1.2 + 0.6 * len(cut)) as canvas:
        series = [(label, *MARKS.get(buyer, (ORANGE, "D")), found) for label, buyer, found in rows]
        interval_rows(canvas.axes, series, {name: ABLATIONS[name] for name in cut}, 0.2)
        canvas.axes.axvline(0, color=INK, linewidth=1.2)
        canvas.axes.set_xlabel("change in mean reward, same games")
    return canvas.picture


def _verdict(swapped: dict[str, Any] | None) -> str | None:
    """Say whether the trained buyer takes up the seller's hints, and no more than the interval allows."""
    if swapped is None or swapped["low"] is None:
        return None
    figures = f"{number(swapped['value'], 3)}, 95 % interval {interval(swapped, 3)}"
    if swapped["high"] < 0:
        return f"The trained buyer acts on the seller's hints: wrong ones cost it reward ({figures})."
    if swapped["low"] > 0:
        return f"The trained buyer earns more with wrong hints than with right ones ({figures})."
    return (
        "It does not show that the trained buyer acts on the seller's hints: with wrong ones it earns the same, to "
        f"within the interval ({figures})."
    )


def _spoken(ablation: str) -> str:
    return ABLATIONS[ablation].replace("\n", " ")
