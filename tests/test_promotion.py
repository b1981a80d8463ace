"""The alias champion: promoted through the gate, rolled back, and every decision kept; and the commands around it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dealwright.cli import main
from dealwright.evaluation.bootstrap import Estimate
from dealwright.params import Params, load_params
from dealwright.tracking import promotion
from dealwright.tracking.catalogues import champion_run
from dealwright.tracking.connection import TrackingError, connect
from dealwright.tracking.contest import Comparison, Contrast
from dealwright.tracking.promotion import PromotionError, promote, rollback
from dealwright.tracking.registry import register
from tests.registry import MODEL, enter_project, write_checkpoint, write_selection

ROOT = Path(__file__).parents[1]
EVEN = Contrast(Estimate(0.0, 0.0, 0.0, 192), Estimate(0.0, 0.0, 0.0, 192), Estimate(0.0, 0.0, 0.0, 192))


def gains(value: float) -> Callable[[int | None, int, Params], Comparison]:
    """Stand in for the games: every candidate gains as much on the champion, give or take 0.02."""

    def compare(champion: int | None, candidate: int, params: Params) -> Comparison:
        old = None if champion is None else Estimate(0.2, 0.18, 0.22, 192)
        new = Estimate(0.2 + value, 0.18 + value, 0.22 + value, 192)
        difference = None if champion is None else Estimate(value, value - 0.02, value + 0.02, 192)
        return Comparison(champion, candidate, 64, 0, Contrast(old, new, difference), EVEN, EVEN)

    return compare


def no_games(champion: int | None, candidate: int, params: Params) -> Comparison:
    raise AssertionError("a forced promotion plays no games")


@pytest.fixture
def params() -> Params:
    return load_params(ROOT / "params.yaml")


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project whose checkpoints are not registered yet."""
    monkeypatch.setattr(promotion, "compare_versions", gains(0.1))
    folder = enter_project(tmp_path / "project", empty_store, monkeypatch)
    shutil.copy(ROOT / "params.yaml", folder)
    return folder


@pytest.fixture
def registered(project: Path, params: Params) -> Path:
    """Enter a project with versions 1 and 2 and no champion."""
    register(params)
    return project


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def champion() -> int | None:
    aliases = connect().get_registered_model(MODEL).aliases
    return int(aliases["champion"]) if "champion" in aliases else None


def gate(version: int) -> str | None:
    tags: dict[str, str] = connect().get_model_version(MODEL, str(version)).tags
    return tags.get("gate")


def history() -> list[dict[str, object]]:
    tags = connect().get_registered_model(MODEL).tags
    return [json.loads(value) for key, value in sorted(tags.items()) if key.startswith("champion ")]


def test_the_first_champion_has_nobody_to_beat(registered: Path, params: Params) -> None:
    promoted = promote(1, params, minimum_gain=0.0)
    assert (promoted.version, promoted.previous, promoted.promoted) == (1, None, True)
    assert promoted.reason == "there was no champion; its reward is 0.300 [0.280, 0.320]"
    assert champion() == 1
    assert gate(1) == promoted.reason


def test_a_better_version_becomes_champion_and_the_history_says_why(registered: Path, params: Params) -> None:
    promote(1, params, 0.0)
    promoted = promote(2, params, minimum_gain=0.05)
    told = "gain +0.100 [+0.080, +0.120] over version 1; overshoot and leaks no worse"
    assert (promoted.previous, promoted.promoted, promoted.reason) == (1, True, told)
    assert promoted.comparison is not None
    assert champion() == 2
    assert [entry["version"] for entry in history()] == [1, 2]
    assert history()[1] == {"version": 2, "previous": 1, "reason": told, "back": False}


def test_a_version_that_gains_too_little_is_kept_back_and_told_so(registered: Path, params: Params) -> None:
    promote(1, params, 0.0)
    refused = promote(2, params, minimum_gain=0.08)
    assert not refused.promoted
    assert champion() == 1
    assert gate(2) == "kept back: gain +0.100 [+0.080, +0.120] over version 1 is not above 0.08 with 95 % confidence"
    assert len(history()) == 1


def test_force_skips_the_games_and_its_reason_is_recorded(
    registered: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(promotion, "compare_versions", no_games)
    promoted = promote(2, params, 5.0, force_reason=" the catalogue changed ")
    assert (promoted.promoted, promoted.reason, promoted.comparison) == (True, "forced: the catalogue changed", None)
    assert (champion(), gate(2)) == (2, "forced: the catalogue changed")
    with pytest.raises(PromotionError, match="forced with a reason"):
        promote(1, params, 0.0, force_reason="  ")


def test_the_champion_is_not_promoted_again(registered: Path, params: Params) -> None:
    promote(1, params, 0.0)
    again = promote(1, params, 0.0, force_reason="once more")
    assert (again.promoted, again.previous, again.reason) == (False, 1, "version 1 is the champion already")
    assert len(history()) == 1


def test_a_rollback_brings_the_champion_before_and_keeps_the_history(registered: Path, params: Params) -> None:
    promote(1, params, 0.0)
    promote(2, params, 0.0)
    went_back = rollback(params)
    assert (went_back.version, went_back.previous, went_back.reason) == (1, 2, "rolled back from version 2")
    assert champion() == 1
    assert [(entry["version"], entry["back"]) for entry in history()] == [(1, False), (2, False), (1, True)]
    with pytest.raises(PromotionError, match="no champion is known before version 1"):
        rollback(params)


def test_a_rollback_passes_over_a_version_that_was_deleted(registered: Path, params: Params) -> None:
    write_checkpoint(registered, 10, b"third")
    register(params)
    for version in (1, 2, 3):
        promote(version, params, 0.0)
    connect().delete_model_version(MODEL, "2")
    assert rollback(params).version == 1


def test_a_promotion_killed_before_the_alias_moved_counts_for_nothing(
    registered: Path, params: Params, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    class Killed(Exception):
        pass

    def die(*_: object) -> None:
        raise Killed

    promote(1, params, 0.0)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(MlflowClient, "set_registered_model_alias", die)
        promote(2, params, 0.0)
    assert champion() == 1
    with pytest.raises(PromotionError, match="no champion is known before version 1"):
        rollback(params)
    assert promote(2, params, 0.0).previous == 1
    assert rollback(params).version == 1


def test_what_is_missing_is_one_line(project: Path, params: Params) -> None:
    for attempt in (lambda: promote(1, params, 0.0), lambda: rollback(params)):
        with pytest.raises(TrackingError, match=r"^no version of dealwright-buyer is registered at .*; run"):
            attempt()
    register(params)
    with pytest.raises(TrackingError, match=r"^dealwright-buyer has no version 99; there are 1, 2$"):
        promote(99, params, 0.0)
    with pytest.raises(PromotionError, match="no version of dealwright-buyer is champion"):
        rollback(params)


def test_checkpoints_lists_versions_with_intervals_marks_and_aliases(registered: Path, params: Params) -> None:
    promote(2, params, 0.0)
    result = run("checkpoints")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "version   step           validation reward  above budget   leaks  guarded  aliases",
        "      1      5      0.400 [0.300, 0.500] *          0.0%       ?     0.0%",
        "      2     10      0.400 [0.300, 0.500]            0.0%       ?     0.0%  candidate, champion",
        "* the best, and what chance alone may have put below it",
    ]
    rows = json.loads(run("checkpoints", "--json").stdout)
    assert [(row["version"], row["step"], row["reward"], row["tied"]) for row in rows] == [
        (1, 5, 0.4, True),
        (2, 10, 0.4, False),
    ]
    assert rows[1]["aliases"] == ["candidate", "champion"]


def test_promote_and_rollback_say_what_was_written_and_exit_by_what_became_of_it(registered: Path) -> None:
    where = f"written to sqlite:///{registered}/mlflow.db\n"
    first = run("promote", "1")
    assert (first.exit_code, first.stdout) == (
        0,
        f"there was no champion; its reward is 0.300 [0.280, 0.320]\nchampion: version 1; {where}",
    )
    kept = run("promote", "@candidate", "--minimum-gain", "0.5")
    assert kept.exit_code == 3
    assert kept.stdout.splitlines()[-1] == f"champion: version 1; {where.strip()}"
    moved = run("promote", "@candidate")
    assert moved.exit_code == 0
    assert moved.stdout.splitlines() == [
        "64 products that neither was trained on, 0 left out",
        "gain +0.100 [+0.080, +0.120] over version 1; overshoot and leaks no worse",
        f"champion: version 2 (was 1); {where.strip()}",
    ]
    assert run("promote", "2").exit_code == 0
    back = json.loads(run("rollback", "--json").stdout)
    assert (back["version"], back["previous"], back["promoted"]) == (1, 2, True)
    forced = json.loads(run("promote", "2", "--force", "a demo", "--json").stdout)
    assert (forced["reason"], forced["comparison"]) == ("forced: a demo", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["promote", "99"], "error: dealwright-buyer has no version 99; there are 1, 2"),
        (
            ["promote", "@champion"],
            "error: no version of dealwright-buyer has the alias @champion; there are @candidate",
        ),
        (["promote", "best"], "error: expected a version, as in 7, or an alias, as in @champion, got 'best'"),
        (
            ["promote", "1", "--force", ""],
            "error: a promotion is forced with a reason, which is recorded; got an empty",
        ),
        (["rollback"], "error: no version of dealwright-buyer is champion; run `dealwright promote VERSION`"),
    ],
)
def test_a_command_that_cannot_be_carried_out_is_one_line(
    arguments: list[str], message: str, registered: Path
) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["checkpoints"], ["promote", "1"], ["rollback"], ["play", "--against", "@champion"]]
)
def test_an_empty_registry_says_what_to_run(arguments: list[str], project: Path) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: no version of dealwright-buyer is registered at sqlite:///{project}/mlflow.db; "
        "run `dealwright register`\n"
    )


@pytest.mark.parametrize(
    "arguments", [["checkpoints"], ["promote", "1"], ["rollback"], ["play", "--against", "@champion"]]
)
def test_to_ask_a_registry_that_is_not_there_makes_none(arguments: list[str], project: Path) -> None:
    (project / "mlflow.db").unlink()
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.endswith(f"is registered at sqlite:///{project}/mlflow.db; run `dealwright register`\n")
    assert champion_run(MODEL) is None
    assert not (project / "mlflow.db").exists()


@pytest.mark.parametrize("arguments", [["checkpoints"], ["promote", "1"], ["rollback"], ["register"]])
def test_a_server_that_is_not_there_is_one_line(
    arguments: list[str], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: cannot use MLflow at http://127.0.0.1:9: ")
    assert result.stderr.count("\n") == 1


def test_a_selection_with_other_steps_is_listed_too(registered: Path, params: Params) -> None:
    write_checkpoint(registered, 0)
    write_selection(registered, selected=5, reward=0.5, steps=(0, 5))
    register(params)
    rows = json.loads(run("checkpoints", "--json").stdout)
    assert [(row["version"], row["step"]) for row in rows] == [(1, 5), (3, 0), (2, 10)]
