"""Reports and tables damaged after the pipeline wrote them: every command that reads one says so in a line."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import CliRunner

from dealwright.cli import main
from dealwright.errors import run_stage
from dealwright.params import load_params
from stages.report import main as report
from tests.registry import enter_project

ROOT = Path(__file__).parents[1]
LADDER = {"rungs": [0.5, 0.6, 0.7, 0.8, 0.9, 1.0], "reading": "nothing", "thresholds": [], "ask_share": None}


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project with two checkpoints, scenarios, a fitted ladder and an evaluation."""
    folder = enter_project(tmp_path / "project", empty_store, monkeypatch)
    Path("params.yaml").write_text((ROOT / "params.yaml").read_text())
    Path("reports/scripts.json").write_text(json.dumps({"best_script": "staller", "fitted": {"best_ladder": LADDER}}))
    games = pl.read_parquet("data/rollouts/validation.parquet")
    games.write_parquet("data/rollouts/evaluation.parquet")
    assert load_params().train.seller == "training"
    return folder


def refusal(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()
    return line


def fitted(**changes: Any) -> str:
    ladder = {name: value for name, value in {**LADDER, **changes}.items() if value != "gone"}
    return json.dumps({"best_script": "staller", "fitted": {"best_ladder": ladder}})


def evaluation(**changes: Any) -> str:
    known = json.loads((ROOT / "reports/evaluation.json").read_text())
    return json.dumps({name: value for name, value in {**known, **changes}.items() if value != "gone"})


def worded() -> dict[str, Any]:
    return {"trained": {"training": {"reward": {"value": "high", "low": None, "high": None}}}}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "expected an object, got []"),
        ("{}", "expected the key best_script, got none"),
        (evaluation(primary="gone"), "expected the key primary, got none"),
        (
            evaluation(buyers=worded()),
            "expected buyers.trained.training.reward.value to be a valid number, got 'high'",
        ),
    ],
)
def test_results_of_a_damaged_evaluation_are_one_line(text: str, expected: str, project: Path) -> None:
    Path("reports/evaluation.json").write_text(text)
    line = f"error: reports/evaluation.json is not as the pipeline writes it: {expected}; run `dvc repro` again"
    assert refusal("results") == line


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "expected an object, got []"),
        ("{}", "expected the key selected, got none"),
        ('{"selected": "x", "checkpoints": [{"step": 5}]}', "expected selected to be a valid integer, got 'x'"),
        (
            '{"selected": 99, "checkpoints": [{"step": 5}, {"step": 10}]}',
            "expected selected to be one of the steps 5, 10, got 99",
        ),
        ('{"selected": 10}', "expected the key checkpoints, got none"),
    ],
)
def test_a_damaged_selection_is_not_registered(text: str, expected: str, project: Path) -> None:
    Path("reports/selection.json").write_text(text)
    before = Path("mlflow.db").read_bytes()
    line = f"error: reports/selection.json is not as the pipeline writes it: {expected}; run `dvc repro` again"
    assert refusal("register") == line
    assert Path("mlflow.db").read_bytes() == before


@pytest.mark.parametrize(
    "command", [("rollout", "mine", "--buyer", "best_ladder"), ("play", "--against", "cue_ladder")]
)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[]", "expected an object, got []"),
        ("{}", "expected the key best_script, got none"),
        (fitted(rungs="gone"), "expected the key fitted.best_ladder.rungs, got none"),
        (fitted(rungs=["x"] * 6), "expected fitted.best_ladder.rungs.0 to be a valid number, got 'x'"),
        (fitted(rungs=[0.5]), "fitted.best_ladder.rungs"),
        (fitted(thresholds=[0.5]), "fitted.best_ladder.thresholds"),
    ],
)
def test_damaged_ladders_seat_nobody(command: tuple[str, ...], text: str, expected: str, project: Path) -> None:
    Path("reports/scripts.json").write_text(text)
    assert expected in refusal(*command)


CURVES = [
    ("", "expected one header line with the columns step and reward, got nothing"),
    ("step,loss\n1,0.5\n", "expected one header line with the columns step and reward, got step,loss"),
    ("step,reward\n1,0.5,7\n", "expected 2 values in every row, got 1,0.5,7"),
    ("step,reward\n1,high\n", "expected a number for every value, a whole one for the step, got 1,high"),
]


@pytest.mark.parametrize(("text", "expected"), CURVES)
def test_damaged_curves_are_neither_registered_nor_drawn(
    text: str, expected: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("reports/training.csv").write_text(text)
    line = f"error: reports/training.csv is not as the pipeline writes it: {expected}; run `dvc repro` again"
    assert CliRunner().invoke(main, ["register"]).stderr.splitlines()[-1] == line
    with pytest.raises(SystemExit):
        run_stage(report)
    assert capsys.readouterr().err.splitlines() == [line]


def test_scenarios_without_a_cost_are_not_played(project: Path) -> None:
    path = Path("data/scenarios.parquet")
    table = pl.read_parquet(path)
    begin = f"error: {path} is not as the pipeline writes it: expected"
    table.drop("cost").write_parquet(path)
    assert refusal("rollout", "mine", "--buyer", "staller").startswith(f"{begin} the column cost, got id, product_id,")
    table.with_columns(cost=pl.lit(None, pl.Float64)).write_parquet(path)
    assert refusal("rollout", "mine", "--buyer", "staller") == (
        f"{begin} a value in every row of the column cost, got 8 rows without; run `dvc repro` again"
    )
    table.with_columns(cost=pl.lit("x")).write_parquet(path)
    assert refusal("play", "--against", "staller") == (
        f"{begin} Float64 in the column cost, got String; run `dvc repro` again"
    )


def test_games_of_a_buyer_only_are_not_told(project: Path) -> None:
    path = Path("data/rollouts/evaluation.parquet")
    pl.DataFrame({"buyer": ["trained"]}).write_parquet(path)
    assert refusal("transcripts") == (
        f"error: {path} is not as the pipeline writes it: expected the column title, got buyer; run `dvc repro` again"
    )


def test_games_that_ended_as_none_can_are_not_told(project: Path) -> None:
    path = Path("data/rollouts/evaluation.parquet")
    pl.read_parquet(path).with_columns(stop=pl.lit("x")).write_parquet(path)
    assert refusal("transcripts").startswith(f"error: {path} holds a game that cannot be: 'x' is not a valid")
