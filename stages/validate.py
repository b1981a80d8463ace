"""Hold the canonical table against its contract.

Reads data/catalogue.parquet and the groups `validate`, `catalogue` and `prompts` of params.yaml. Writes
reports/validation.json and reports/validation/ (Great Expectations' Data Docs), neither with a time in it. Ends with
exit status 1 and the names of the expectations that failed. Leaves mending to the stage `ingest`.
"""

from pathlib import Path

from dealwright.errors import run_stage
from dealwright.files import write_json
from dealwright.params import load_params


def main() -> None:
    """Validate the catalogue, write both reports, and fail on a broken contract."""
    params = load_params()
    from dealwright.catalogue.data_docs import write_pages
    from dealwright.catalogue.expectations import (
        BrokenContractError,
        contract,
        failures,
        read_products,
        report,
        validate,
    )

    suite = contract(params.validate_, params.catalogue)
    result = validate(read_products("data/catalogue.parquet", params.prompts.budget_factor), suite)
    write_json("reports/validation.json", report(result))
    write_pages(result, suite, Path("reports/validation"))
    if not result.success:
        raise BrokenContractError(f"data/catalogue.parquet breaks its contract: {'; '.join(failures(result))}")
    print(f"{len(result.results)} expectations met")


if __name__ == "__main__":
    run_stage(main)
