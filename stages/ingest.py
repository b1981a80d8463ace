"""Make the canonical table of products.

Reads the source named in params.yaml, group `catalogue`. Writes data/catalogue.parquet, data/rejected.parquet (source,
row, title, reason) and reports/ingest.json. Leaves splits and budgets to the stage `prompts`.
"""

from dealwright.catalogue.table import ingest
from dealwright.errors import run_stage
from dealwright.files import write_json, write_parquet
from dealwright.params import load_params


def main() -> None:
    """Ingest the source into the three files."""
    ingested = ingest(load_params().catalogue)
    write_parquet("data/catalogue.parquet", ingested.catalogue)
    write_parquet("data/rejected.parquet", ingested.rejected)
    write_json("reports/ingest.json", ingested.report)
    print(
        f"{ingested.report['read']} rows read, {ingested.report['kept']} kept, {ingested.report['rejected']} set aside"
    )


if __name__ == "__main__":
    run_stage(main)
