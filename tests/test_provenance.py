"""What a registration leaves beside the report: facts for programs, and the same for the page."""

import json
import shutil
from pathlib import Path

import pytest

from dealwright.tracking.provenance import write_provenance
from dealwright.tracking.registry import Registered, Registration
from tests.imports import ROOT


def test_the_page_is_given_the_same_facts_as_programs_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    versions = (Registered(step=4, version=2, new=True, candidate=True),)
    write_provenance(Registration("dealwright-buyer", versions, "a1b2", 0.25))
    facts = json.loads(Path("reports/provenance.json").read_text(encoding="utf-8"))
    assert (facts["run"], facts["training_hours"], facts["versions"]) == ("a1b2", 0.25, {"4": 2})
    assert facts["parameters"]["train.seed"] == 0
    script = Path("reports/provenance.js").read_text(encoding="utf-8")
    assert script.startswith("provenance(") and script.endswith(");\n")
    assert json.loads(script.removeprefix("provenance(").removesuffix(");\n")) == facts
