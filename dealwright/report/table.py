"""The results as a plain table for terminals, and as Markdown."""

from collections.abc import Sequence
from typing import Any

from dealwright.report.words import BOUNDS, buyer_name, sorted_buyers, sorted_sellers


def results_table(evaluation: dict[str, Any]) -> str:
    """Write the mean rewards of buyers against sellers with their intervals, in columns of equal width."""
    header, *rows = _cells(evaluation)
    widths = [max(len(row[place]) for row in (header, *rows)) for place in range(len(header))]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in (header, *rows)
    ]
    rule = "-" * len(lines[0])
    return "\n".join(["Mean reward with 95 % intervals", rule, lines[0], rule, *lines[1:], rule, *_notes(evaluation)])


def results_markdown(evaluation: dict[str, Any]) -> str:
    """Write the same table as Markdown."""
    header, *rows = _cells(evaluation)
    lines = [_row(header), _row(["---", *["---:"] * (len(header) - 1)]), *(_row(row) for row in rows)]
    return "\n".join(["**Mean reward with 95 % intervals**", "", *lines, "", *_notes(evaluation)])


def _cells(evaluation: dict[str, Any]) -> list[list[str]]:
    best, buyers = evaluation["best_script"], evaluation["buyers"]
    sellers = sorted_sellers({seller for found in buyers.values() for seller in found})
    table = [["buyer", *sellers]]
    for buyer in sorted_buyers(set(buyers) - {"best_script"}, best):
        name = f"{buyer_name(buyer)} *" if buyer == best else buyer_name(buyer)
        table.append([name, *(_cell(buyers[buyer].get(seller, {}).get("reward")) for seller in sellers)])
    for bound, (name, _) in BOUNDS.items():
        found = evaluation.get("bounds", {}).get(bound, {})
        if found:
            table.append([name, *(_cell(found.get(seller, {}).get("reward")) for seller in sellers)])
    return table


def _cell(estimate: dict[str, Any] | None) -> str:
    if estimate is None:
        return "-"
    value, low, high = (_rounded(estimate[key]) for key in ("value", "low", "high"))
    return value if estimate["low"] is None else f"{value} [{low}, {high}]"


def _rounded(value: float | None) -> str:
    """Write two digits; what rounds to zero has no sign."""
    return "" if value is None else f"{round(value, 2) or 0.0:.2f}"


def _notes(evaluation: dict[str, Any]) -> list[str]:
    notes = [f"* the best script, chosen on train; {evaluation['products']} products"]
    for other in ("best_script", "warmstart"):
        seller = evaluation["primary"]["seller"]
        difference = evaluation.get("paired", {}).get("trained", {}).get(other, {}).get(seller)
        if difference:
            name = buyer_name(other, evaluation["best_script"])
            notes.append(f"trained less {name}, {seller} seller, paired: {_cell(difference)}")
    return notes


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
