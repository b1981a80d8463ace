"""What varies from run to run and machine to machine, in a file that is no output of any stage."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from dealwright.files import write_json, write_text
from dealwright.params import flatten, load_params
from dealwright.tracking.registry import Registration
from dealwright.tracking.revisions import dvc_revision, git_revision

PROVENANCE = Path("reports/provenance.json")
PACKAGES = ("dealwright", "dvc", "great-expectations", "mlflow", "polars", "prefect", "torch", "transformers", "trl")


def write_provenance(registration: Registration) -> None:
    """Write reports/provenance.json for a registration, and the same as a script for the report's page.

    A page that is opened from disk may load a script beside it, but no JSON.
    """
    write_json(
        PROVENANCE,
        {
            "written": datetime.now(UTC).isoformat(timespec="seconds"),
            "git_revision": git_revision(),
            "dvc_revision": dvc_revision(),
            "python": platform.python_version(),
            "packages": {name: version(name) for name in PACKAGES},
            "machine": {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count()},
            "training_hours": registration.training_hours,
            "model": registration.model,
            "run": registration.run_id,
            "versions": {str(registered.step): registered.version for registered in registration.versions},
            "parameters": flatten(load_params().model_dump(by_alias=True)),
        },
    )
    write_text(PROVENANCE.with_suffix(".js"), f"provenance({PROVENANCE.read_text(encoding='utf-8').strip()});\n")
