"""What a killed stage left of the checkpoints is not registered."""

from collections.abc import Callable
from pathlib import Path

import pytest
from dvc.repo import Repo

from dealwright.params import Params
from dealwright.tracking.connection import TrackingError
from dealwright.tracking.registry import register
from tests.registry import enter_project, write_checkpoint, write_selection
from tests.tiny import tiny_params

CHECKPOINT = Path("data/models/checkpoints/step-0010")
PIPELINE = "stages: {select: {cmd: echo compared, deps: [data/models/checkpoints, data/models/warmstart]}}"


@pytest.fixture
def params() -> Params:
    return tiny_params()


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project whose warm start and two checkpoints are those that DVC's stage of selection read."""
    folder = enter_project(tmp_path / "project", empty_store, monkeypatch)
    write_checkpoint(folder, 0)
    write_selection(folder, selected=10, reward=0.4, steps=(0, 5, 10))
    Path("dvc.yaml").write_text(PIPELINE)
    with Repo.init(no_scm=True) as repo:
        repo.reproduce()
    return folder


def cut_the_weights(project: Path) -> None:
    (CHECKPOINT / "model.safetensors").write_bytes(b"weig")


def lose_the_weights(project: Path) -> None:
    (CHECKPOINT / "model.safetensors").unlink()


def lose_the_tokenizer(project: Path) -> None:
    (CHECKPOINT / "tokenizer.json").unlink()


def train_anew(project: Path) -> None:
    """Put weights of the same size there, as a training does that was killed before selection began."""
    write_checkpoint(project, 10, b"renewed")


def cut_the_warm_start(project: Path) -> None:
    Path("data/models/warmstart/model.safetensors").write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "folder"),
    [
        (cut_the_weights, "data/models/checkpoints"),
        (lose_the_weights, "data/models/checkpoints"),
        (lose_the_tokenizer, "data/models/checkpoints"),
        (train_anew, "data/models/checkpoints"),
        (cut_the_warm_start, "data/models/warmstart"),
    ],
)
def test_checkpoints_that_are_not_those_that_selection_compared_are_not_registered(
    damage: Callable[[Path], None], folder: str, project: Path, params: Params
) -> None:
    damage(project)
    before = Path("mlflow.db").read_bytes()
    with pytest.raises(TrackingError) as stop:
        register(params)
    assert str(stop.value) == (
        f"{folder} does not hold what reports/selection.json compared, as after a stage that was killed; run "
        "`dvc repro` first"
    )
    assert Path("mlflow.db").read_bytes() == before


def test_checkpoints_that_selection_compared_are_registered(project: Path, params: Params) -> None:
    (CHECKPOINT / ".DS_Store").touch()
    assert [version.step for version in register(params).versions] == [0, 5, 10]
