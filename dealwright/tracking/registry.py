"""Registration of checkpoints as versions of one model in MLflow; what is registered already is left or completed.

A version is known by its step and the hash of its files. Its tags are written in the same transaction as the version
itself, and its files before it, so that a kill leaves no version that lies.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dealwright.params import Params
from dealwright.players import BuyerSettings
from dealwright.tracking.card import model_card
from dealwright.tracking.catalogues import log_catalogue
from dealwright.tracking.checkpoints import (
    SCENARIOS,
    Checkpoint,
    read_checkpoints,
    read_curves,
    read_selection,
    summary,
)
from dealwright.tracking.connection import experiment_id, store
from dealwright.tracking.packaging import write_package
from dealwright.tracking.products import FILE as PRODUCTS
from dealwright.tracking.products import training_products, write_products
from dealwright.tracking.runs import KIND, create_run
from dealwright.tracking.versions import all_pages
from dealwright.tracking.weights import REFERENCE, write_reference

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run
    from mlflow.entities.model_registry import ModelVersion

CANDIDATE = "candidate"


@dataclass(frozen=True, slots=True)
class Registered:
    """A checkpoint's version in the registry, and whether this registration made it."""

    step: int
    version: int
    new: bool
    candidate: bool


@dataclass(frozen=True, slots=True)
class Registration:
    """The versions in order of step, the run that they belong to, and its hours where MLflow saw it train."""

    model: str
    versions: tuple[Registered, ...]
    run_id: str
    training_hours: float | None


def register(params: Params) -> Registration:
    """Register every checkpoint and point the alias `candidate` at the selected one."""
    selection = read_selection()
    checkpoints = read_checkpoints(selection)
    read_curves()  # which would else stop a registration that is half done
    with store() as client:
        return _Registry(client, params).register(checkpoints, int(selection["selected"]))


class _Registry:
    """One registration; holds what all its steps need."""

    def __init__(self, client: "MlflowClient", params: Params) -> None:
        self.client = client
        self.params = params
        self.name = params.tracking.model
        self.experiment = experiment_id(client, params.tracking.experiment)
        self.base: str | None = None  # where the version of step 0 is, once it is registered

    def register(self, checkpoints: list[Checkpoint], selected: int) -> Registration:
        if not self.client.search_registered_models(f"name = '{self.name}'"):
            self.client.create_registered_model(self.name, description="A buyer that bargains; see its model card.")
        run = self._run()
        run_id = run.info.run_id
        log_catalogue(self.client, run_id)
        versions = self._versions()
        registered = []
        for checkpoint in checkpoints:
            old = versions.get(checkpoint.identity)
            version = self._complete(old, checkpoint, run_id) if old else self._create(checkpoint, run_id)
            if checkpoint.step == 0:
                self.base = self.client.get_model_version(self.name, version).source
            if checkpoint.step == selected:
                self.client.set_registered_model_alias(self.name, CANDIDATE, version)
            new = old is None or version != str(old.version)
            registered.append(Registered(checkpoint.step, int(version), new, checkpoint.step == selected))
        took = None if "rebuilt" in run.data.tags else (run.info.end_time or 0) - run.info.start_time
        hours = None if took is None or took < 0 else took / 3_600_000
        return Registration(self.name, tuple(registered), run_id, hours)

    def _versions(self) -> dict[tuple[str, str], "ModelVersion"]:
        found = {}
        versions = all_pages(self.client.search_model_versions, f"name = '{self.name}'")
        for version in sorted(versions, key=lambda version: int(version.version)):
            found[version.tags.get("step", ""), version.tags.get("checkpoint_hash", "")] = version
        return found

    def _complete(self, version: "ModelVersion", checkpoint: Checkpoint, run_id: str) -> str:
        """Bring a version's tags up to date, and its files back where they are gone."""
        from mlflow.exceptions import MlflowException

        try:
            model = self.client.get_logged_model(str(version.source).removeprefix("models:/"))
        except MlflowException:
            model = None
        if model is None or (model.experiment_id != self.experiment and not self._is_whole(model)):
            replacement = self._create(checkpoint, run_id)
            for alias in self._aliases(str(version.version)):
                self.client.set_registered_model_alias(self.name, alias, replacement)
            self.client.delete_model_version(self.name, str(version.version))
            return replacement
        if not self._is_whole(model):
            self._upload(model, checkpoint)
        for key, value in checkpoint.tags.items():
            # Revisions stay those of the first registration.
            if key not in version.tags or (key.startswith("validation_") and version.tags[key] != value):
                self.client.set_model_version_tag(self.name, str(version.version), key, value)
        return str(version.version)

    def _create(self, checkpoint: Checkpoint, run_id: str) -> str:
        model = self._unversioned(checkpoint) or self.client.create_logged_model(
            self.experiment,
            name=f"step-{checkpoint.step}",
            source_run_id=run_id,
            tags={"step": checkpoint.tags["step"], "checkpoint_hash": checkpoint.tags["checkpoint_hash"]},
            model_type="buyer",
        )
        if not self._is_whole(model):
            self._upload(model, checkpoint)
        version = self.client.create_model_version(
            self.name,
            f"models:/{model.model_id}",
            run_id=run_id,
            tags=dict(checkpoint.tags),
            description=summary(checkpoint),
            model_id=model.model_id,
        )
        return str(version.version)

    def _unversioned(self, checkpoint: Checkpoint) -> "LoggedModel | None":
        """Return the model that a killed registration left without a version."""
        hash = checkpoint.tags["checkpoint_hash"]
        query = f"tags.checkpoint_hash = '{hash}' AND tags.step = '{checkpoint.step}'"
        models = self.client.search_logged_models([self.experiment], query)
        return models[0] if models else None

    def _is_whole(self, model: "LoggedModel") -> bool:
        from mlflow.entities import LoggedModelStatus

        if model.status != LoggedModelStatus.READY:
            return False
        names = {file.path for file in self.client.list_logged_model_artifacts(model.model_id)}
        weighted = REFERENCE in names or any(name.endswith(".safetensors") for name in names)
        return weighted and {"MLmodel", PRODUCTS} <= names and bool(names & {"config.json", "adapter_config.json"})

    def _upload(self, model: "LoggedModel", checkpoint: Checkpoint) -> None:
        print(f"writing step {checkpoint.step}", file=sys.stderr, flush=True)
        run_id = model.source_run_id or ""
        with TemporaryDirectory() as folder:
            beside = Path(folder)
            settings, max_turns = BuyerSettings.of(self.params), self.params.game.max_turns
            card = model_card(self.name, checkpoint.tags, self.params)
            write_package(beside, model.model_id, run_id, settings, max_turns, card)
            write_products(beside, training_products(SCENARIOS))
            hash = checkpoint.tags["checkpoint_hash"]
            for file in write_reference(beside, checkpoint.folder, hash, self.base):
                place = file.parent.relative_to(checkpoint.folder).as_posix()
                self.client.log_model_artifact(model.model_id, str(file), "" if place == "." else place)
            self.client.log_model_artifacts(model.model_id, folder)
        self.client.finalize_logged_model(model.model_id, "READY")

    def _aliases(self, version: str) -> list[str]:
        aliases = self.client.get_registered_model(self.name).aliases
        return [alias for alias, target in aliases.items() if str(target) == version]

    def _run(self) -> "Run":
        """Return the run of this training, known by its last metrics; make it from the curves where MLflow lost it."""
        curves = read_curves()
        runs = all_pages(self.client.search_runs, [self.experiment], f"tags.kind = '{KIND}'")
        for run in runs:
            shared = run.data.metrics.keys() & curves[-1][1].keys()
            if shared and all(_close(run.data.metrics[name], curves[-1][1][name]) for name in shared):
                return run
        from mlflow.entities import Metric

        run_id = create_run(self.client, self.experiment, self.params, {"rebuilt": "from reports/training.csv"})
        for step, metrics in curves:
            self.client.log_batch(run_id, [Metric(name, value, 0, step) for name, value in metrics.items()])
        self.client.set_terminated(run_id, "FINISHED")
        return self.client.get_run(run_id)


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-6 * max(1.0, abs(one), abs(other))
