"""The whole pipeline as one Prefect flow: check, every stage of dvc.yaml, registration, results.

`python -m flows.reproduce` runs it here and now, with a temporary Prefect server where PREFECT_API_URL names none.
"""

import sys

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from dealwright.checks import check
from dealwright.cli.pipeline import REPORT, read_evaluation
from dealwright.report.table import results_markdown, results_table
from flows.stages import reproduce_stages, run_command


@task(cache_policy=NO_CACHE)
def register() -> None:
    """Register the checkpoints in MLflow."""
    run_command([sys.executable, "-m", "dealwright", "register"], get_run_logger().info)


@task(cache_policy=NO_CACHE)
def publish() -> None:
    """Show the results table and the way to the report among the flow's artifacts."""
    evaluation = read_evaluation()
    for line in results_table(evaluation).splitlines():
        get_run_logger().info("%s", line)
    create_markdown_artifact(results_markdown(evaluation), key="results", description="The results table")
    if REPORT.is_file():
        create_link_artifact(REPORT.absolute().as_uri(), link_text="the report", key="report")


@flow(name="reproduce", retries=0)
def reproduce() -> None:
    """Bring every stage up to date, register the checkpoints, and show the results."""
    logger = get_run_logger()
    for line in check().lines():
        logger.info("%s", line)
    outcomes = reproduce_stages()
    logger.info("stages: %s", ", ".join(f"{address} {outcome.lower()}" for address, outcome in outcomes.items()))
    register()
    publish()


if __name__ == "__main__":
    state = reproduce(return_state=True)
    print(f"{state.name}: {state.message or 'the pipeline is up to date'}")
    sys.exit(0 if state.is_completed() else 1)
