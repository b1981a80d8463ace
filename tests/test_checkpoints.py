"""Where checkpoints lie, and how they are called."""

from pathlib import Path

import pytest

from dealwright.checkpoints import checkpoint_folder, checkpoint_name, checkpoint_steps


def test_a_checkpoint_is_called_by_its_step_and_step_0_is_the_warm_start() -> None:
    assert [checkpoint_name(step) for step in (5, 50, 12345)] == ["step-0005", "step-0050", "step-12345"]
    assert checkpoint_folder(50) == Path("data/models/checkpoints/step-0050")
    assert checkpoint_folder(0) == Path("data/models/warmstart")


def test_the_steps_are_in_order_from_the_warm_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert checkpoint_steps() == [0]
    for name in ("step-9990", "step-10000", "step-0005", "elsewhere"):
        (tmp_path / "data/models/checkpoints" / name).mkdir(parents=True)
    assert checkpoint_steps() == [0, 5, 9990, 10000]
