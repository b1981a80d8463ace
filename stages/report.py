"""Write the report: one page that opens from disk without a network.

Reads reports/*.json, reports/training.csv and data/rollouts/evaluation.parquet; writes reports/index.html. Leaves out
when, where and from which revision it was run: that is in reports/provenance.json beside it.
"""

from pathlib import Path

from dealwright.errors import run_stage
from dealwright.files import write_text
from dealwright.report.build import build_page
from dealwright.report.inputs import read_inputs


def main() -> None:
    """Build the page from what is there."""
    page = build_page(read_inputs(Path()))
    write_text("reports/index.html", page)
    print(f"reports/index.html written ({len(page) / 1e6:.1f} MB)")


if __name__ == "__main__":
    run_stage(main)
