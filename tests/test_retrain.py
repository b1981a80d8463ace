"""Retraining, on the stand-in for the pipeline: what makes it train, where it trains, and what it comes to."""

import asyncio
import typing
from pathlib import Path
from typing import Any

import pytest

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)
from dealwright.evaluation.bootstrap import Estimate
from dealwright.profiles import names
from dealwright.tracking import promotion
from dealwright.tracking.catalogues import champion_run
from dealwright.tracking.contest import Comparison, Contrast
from tests.standin import PRODUCTS, ROOT, make_project

MODEL = "dealwright-buyer"


class FakeGames:
    """Stands in for the games of two versions; the gain is given."""

    def __init__(self) -> None:
        self.gain = 0.3
        self.played: list[tuple[int | None, int]] = []

    def compare_versions(self, champion: int | None, candidate: int, params: Any) -> Comparison:
        self.played.append((champion, candidate))
        none = Contrast(Estimate(0.0, 0.0, 0.1, 12), Estimate(0.0, 0.0, 0.1, 12), Estimate(0.0, 0.0, 0.0, 12))
        gain = Estimate(self.gain, self.gain - 0.1, self.gain + 0.1, 12)
        reward = Contrast(Estimate(0.3, 0.2, 0.4, 12), Estimate(0.3 + self.gain, 0.2, 0.6, 12), gain)
        return Comparison(champion, candidate, 4, 1, reward, none, none)


@pytest.fixture
def project(tmp_path: Path, made_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = make_project(tmp_path / "my project", made_store)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def games(monkeypatch: pytest.MonkeyPatch) -> FakeGames:
    fake = FakeGames()
    monkeypatch.setattr(promotion, "compare_versions", fake.compare_versions)
    return fake


def test_the_form_offers_every_source_and_every_profile() -> None:
    from dealwright.params import Catalogue
    from flows.retrain import Profile, Source

    sources = typing.get_args(Catalogue.model_fields["source"].annotation)
    assert typing.get_args(Source) == ("params.yaml", *sources)
    assert typing.get_args(Profile) == ("params.yaml", *names(ROOT / "profiles"))


def test_the_form_says_what_each_parameter_is() -> None:
    from flows.retrain import retrain

    fields = retrain.parameters.properties
    assert list(fields) == ["source", "path", "profile", "force", "promote", "minimum_gain"]
    assert fields["promote"] == {
        "default": "auto",
        "description": "auto moves the alias champion where the gate is passed; never only compares.",
        "enum": ["auto", "never"],
        "position": 4,
        "title": "promote",
        "type": "string",
    }
    types = ["string", "string", "string", "boolean", "string", "number"]
    assert [field["type"] for field in fields.values()] == types
    assert all(field["description"] for field in fields.values())


@pytest.mark.slow
def test_a_retraining_is_promoted_then_finds_nothing_new_then_keeps_the_champion(
    project: Path, games: FakeGames, server: None
) -> None:
    from flows.retrain import retrain

    def run(**parameters: Any) -> tuple[Any, Any]:
        state = retrain(**parameters, return_state=True)
        return state.name, state.message

    assert run() == ("Promoted", "there was no champion; its reward is 0.600 [0.200, 0.600]")
    champion = champion_run(MODEL)
    assert champion is not None
    assert champion[0] == 2
    assert not (project / "data/models").exists()
    assert (project / "data/work/retrain/data/models/checkpoints").is_dir()

    assert run() == ("Unchanged", "the catalogue is what the champion was trained on, so nothing was trained")
    assert games.played == [(None, 2)]

    (project / "products.csv").write_text(PRODUCTS.replace("60,30", "90,30"))
    reason = "gain +0.300 [+0.200, +0.400] over version 2 is not above 0.25 with 95 % confidence"
    assert run(minimum_gain=0.25) == ("Kept", reason)
    assert champion_run(MODEL) == champion
    assert "prices in office moved by 25.0%" in latest("catalogue").description
    assert "+0.300 [+0.200, +0.400]" in latest("comparison").data
    assert latest("decision").data == f"**Kept**: {reason}"
    assert "(http://127.0.0.1:8080/retrained/version-4/index.html)" in latest("report").data
    assert (project / "reports/retrained/version-4/index.html").is_file()

    name, reason = run(force=True, promote="never", profile="smoke")
    assert (name, reason.split(":")[0]) == ("Kept", "promote is never; the gate would let it pass")
    assert champion_run(MODEL) == champion


def latest(key: str) -> Any:
    """Return the newest artifact of a key."""
    from prefect.artifacts import Artifact

    return asyncio.run(Artifact.aget(key))
