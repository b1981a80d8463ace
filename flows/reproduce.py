"""The whole pipeline as one Prefect flow: check, every stage of dvc.yaml, registration, results.

`python -m flows.reproduce` runs it here and now, with a temporary Prefect server where PREFECT_API_URL names none.
"""

import sys
from typing import Any

from prefect import State, flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from dealwright.checks import check
from dealwright.cli.pipeline import REPORT, read_evaluation
from dealwright.errors import run_main
from dealwright.files import read_json
from dealwright.params import load_params
from dealwright.report.table import results_markdown, results_table
from dealwright.tracking.provenance import PROVENANCE
from flows.server import require_server
from flows.stages import reproduce_stages, run_command


def may_pass(task: Any, run: Any, state: State[Any]) -> bool:
    """Say whether a failure may pass by itself: a tracking server that is away, and nothing else."""
    return "cannot use MLflow" in (state.message or "")


@task(task_run_name="register", cache_policy=NO_CACHE, retries=2, retry_delay_seconds=30, retry_condition_fn=may_pass)
def register() -> dict[str, Any]:
    """Register the checkpoints in MLflow and return what reports/provenance.json says of it."""
    run_command([sys.executable, "-m", "dealwright", "register"], get_run_logger().info)
    provenance: dict[str, Any] = read_json(PROVENANCE)
    return provenance


@task(task_run_name="publish", cache_policy=NO_CACHE)
def publish(report: str) -> None:
    """Show the results table and the way to the report among the flow's artifacts."""
    evaluation = read_evaluation()
    for line in results_table(evaluation).splitlines():
        get_run_logger().info("%s", line)
    create_markdown_artifact(results_markdown(evaluation), key="results", description="The results table")
    create_link_artifact(report, link_text="the report", key="report", description=report)


@flow(name="reproduce", retries=0)
def reproduce() -> None:
    """Bring every stage up to date, register the checkpoints, and show the results."""
    reproduce_folder()
    publish(f"{load_params().retrain.reports}/{REPORT.name}")


def reproduce_folder() -> dict[str, Any]:
    """Bring the working folder up to date, register its checkpoints, and return the provenance of the registration."""
    logger = get_run_logger()
    for line in check().lines():
        logger.info("%s", line)
    outcomes = reproduce_stages()
    logger.info("stages: %s", ", ".join(f"{address} {outcome.lower()}" for address, outcome in outcomes.items()))
    provenance: dict[str, Any] = register()
    return provenance


def main() -> None:
    """Run the flow here and now, and end with status 1 where it does not complete."""
    require_server()
    state = reproduce(return_state=True)
    print(f"{state.name}: {state.message or 'the pipeline is up to date'}")
    sys.exit(0 if state.is_completed() else 1)


if __name__ == "__main__":
    run_main(main)
