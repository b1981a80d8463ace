"""Write the report: one page, and beside it the games it is made of; both open from disk without a network.

Reads reports/*.json, reports/training.csv and data/rollouts/evaluation.parquet; writes reports/index.html and
reports/games/. Leaves out when, where and from which revision it was run: the page shows that from a file beside it.
"""

from pathlib import Path

from dealwright.errors import run_stage
from dealwright.files import write_text
from dealwright.report.browser import write_browser
from dealwright.report.build import build_page
from dealwright.report.inputs import read_inputs


def main() -> None:
    """Build the pages from what is there."""
    inputs = read_inputs(Path())
    page = build_page(inputs)
    best_script = inputs.evaluation["best_script"] if inputs.evaluation else None
    size = write_browser(inputs.games, best_script, Path("reports"))
    write_text("reports/index.html", page)
    print(f"reports/index.html written ({len(page) / 1e6:.1f} MB), and reports/games/ ({size / 1e6:.1f} MB)")


if __name__ == "__main__":
    run_stage(main)
