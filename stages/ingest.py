"""Make the canonical table of products.

Reads the source named in params.yaml, group `catalogue`. Writes data/catalogue.parquet, data/rejected.parquet (source,
row, title, reason) and reports/ingest.json. Leaves splits and budgets to the stage `prompts`.
"""

from pathlib import Path

from dealwright.catalogue.table import ingest_into
from dealwright.errors import run_stage
from dealwright.files import write_json
from dealwright.params import load_params


def main() -> None:
    """Ingest the source into the three files."""
    report = ingest_into(load_params().catalogue, Path("data"))
    write_json("reports/ingest.json", report)
    print(f"{report['read']} rows read, {report['kept']} kept, {report['rejected']} set aside")


if __name__ == "__main__":
    run_stage(main)
