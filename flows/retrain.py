"""Retraining: look at the catalogue, train in a clone, hold the candidate against the champion, promote or keep."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from prefect import State, flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.states import Completed
from pydantic import Field

from dealwright.catalogue.drift import compare_catalogues
from dealwright.catalogue.table import ingest
from dealwright.cli.pipeline import REPORT
from dealwright.clones import CLONE, entered, keep_reports, refresh_clone
from dealwright.params import Catalogue, Params, load_params
from dealwright.tracking import promotion
from dealwright.tracking.catalogues import champion_run, read_catalogue, rejected_share
from dealwright.tracking.checkpoints import read_selection
from dealwright.tracking.contest import Comparison
from dealwright.tracking.promotion import Promotion
from flows.reproduce import publish, reproduce_folder

# The form shows a list of choices as a menu; an optional parameter would be two buttons and a blank.
AS_SET = "params.yaml"
Source = Literal["params.yaml", "bundled", "amazon_history_price", "csv", "jsonl", "parquet"]
Profile = Literal["params.yaml", "full", "paper", "smoke", "smol", "smol_cpu", "tiny"]
Gain = Annotated[float, Field(ge=0, le=2)]


@flow(name="retrain", retries=0)
def retrain(
    source: Source = "params.yaml",
    path: str = "",
    profile: Profile = "params.yaml",
    force: bool = False,
    promote: Literal["auto", "never"] = "auto",
    minimum_gain: Gain = 0.0,
) -> State[Any]:
    """Train a buyer where the catalogue has changed, and make it champion where it gains.

    Ends as Unchanged, Promoted or Kept.

    Args:
        source: The kind of catalogue, or as it is set in params.yaml.
        path: The catalogue's file or folder; empty for the one that is set in params.yaml.
        profile: The sizes of the training, or as they are set in params.yaml.
        force: Train although the catalogue is what the champion was trained on.
        promote: auto moves the alias champion where the gate is passed; never only compares.
        minimum_gain: The mean reward that the candidate must gain on the champion, with 95 % confidence.
    """
    params = load_params()
    given = ({"source": source} if source != AS_SET else {}) | ({"path": str(Path(path).absolute())} if path else {})
    reasons = look_at_catalogue(Catalogue(**{**params.catalogue.model_dump(), **given}), params)
    if not reasons and not force:
        return end("Unchanged", "the catalogue is what the champion was trained on, so nothing was trained")
    prepare_clone(
        profile if profile != AS_SET else None, {f"catalogue.{name}": value for name, value in given.items()}
    )
    project = Path.cwd()
    with entered(CLONE):
        versions = reproduce_folder()["versions"]
        version = versions[str(read_selection()["selected"])]
        decision = decide(version, promote == "auto", minimum_gain)
        publish(f"{params.retrain.reports}/{keep_reports(project, version)}/{REPORT.name}")
    return end("Promoted" if decision.promoted else "Kept", decision.reason)


@task(task_run_name="look at catalogue", cache_policy=NO_CACHE)
def look_at_catalogue(catalogue: Catalogue, params: Params) -> list[str]:
    """Compare the source with the champion's catalogue, show it, and return the reasons to train."""
    champion = champion_run(params.tracking.model)
    if champion is None:
        return ["there is no champion yet"]
    version, run_id = champion
    before = read_catalogue(run_id)
    if before is None:
        return [f"it is not known on which catalogue version {version} was trained"]
    now = ingest(catalogue)
    drift = compare_catalogues(before.products, now.catalogue, before.rejected, rejected_share(now.report))
    reasons = drift.reasons(params.retrain)
    create_table_artifact(
        [asdict(category) for category in drift.categories],
        key="catalogue",
        description=f"The source beside the catalogue of version {version}: {'; '.join(reasons) or 'no change'}",
    )
    return reasons


@task(task_run_name="prepare clone", cache_policy=NO_CACHE)
def prepare_clone(profile: str | None, overrides: dict[str, str]) -> None:
    """Bring the clone to the project's commit and parameters."""
    left = refresh_clone(Path.cwd(), CLONE, profile, overrides)
    if left:
        get_run_logger().warning("the clone has the commit, without what was changed since in %s", ", ".join(left))


@task(task_run_name="decide", cache_policy=NO_CACHE)
def decide(version: int, may_promote: bool, minimum_gain: float) -> Promotion:
    """Hold a version against the champion on products that neither trained on, and promote it where it may be."""
    params = load_params()
    if may_promote:
        decision = promotion.promote(version, params, minimum_gain)
    else:
        decision = compare_only(version, params, minimum_gain)
    if decision.comparison is not None:
        create_table_artifact(
            rows(decision.comparison),
            key="comparison",
            description=f"{decision.comparison.products} validation products that neither version trained on",
        )
    return decision


def compare_only(version: int, params: Params, minimum_gain: float) -> Promotion:
    """Return what the gate would have said, with nothing promoted."""
    found = champion_run(params.tracking.model)
    champion = found and found[0]
    comparison = promotion.compare_versions(champion, version, params)
    passes, reason = promotion.judge(comparison, minimum_gain)
    told = f"promote is never; the gate would {'let it pass' if passes else 'keep it back'}: {reason}"
    return Promotion(version, champion, False, told, comparison)


def rows(comparison: Comparison) -> list[dict[str, str | None]]:
    """Return the comparison as a table: one row a metric, with 95 % intervals."""
    return [
        {
            "metric": metric,
            f"champion {comparison.champion}": contrast.champion and contrast.champion.said(),
            f"candidate {comparison.candidate}": contrast.candidate.said(),
            "difference, paired": contrast.difference and contrast.difference.said("+"),
        }
        for metric in ("reward", "overshoot_rate", "leak_rate")
        for contrast in [getattr(comparison, metric)]
    ]


def end(name: str, reason: str) -> State[Any]:
    """Return a completed state of that name, and show the reason among the artifacts."""
    create_markdown_artifact(f"**{name}**: {reason}", key="decision", description="What the retraining came to")
    return Completed(name=name, message=reason)
