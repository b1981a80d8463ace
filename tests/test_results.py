"""`dealwright results`: the table, and whose run it is of."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dealwright.cli import main
from dealwright.profiles import set_params
from tests.standin import make_project

REWARD = {"value": 0.5, "low": 0.45, "high": 0.55, "games": 512}
EVALUATION = {
    "best_script": "staller",
    "products": 128,
    "primary": {"buyer": "trained", "other": "best_script", "seller": "training"},
    "buyers": {"trained": {"training": {"reward": REWARD}}},
    "bounds": {"all_but_margin": {"training": {"reward": {"value": 0.849, "low": 0.8, "high": 0.896}}}},
}
TEXT = json.dumps(EVALUATION)
PARAMS = """
catalogue: {path: data/catalogue, columns: {}}
train: {seed: 0, steps: 24, learning_rate: 1e-4, group_size: 16}
phases: {window: 5}
"""
LOCK = f"""
schema: '2.0'
stages:
  ingest:
    cmd: python -m stages.ingest
    deps: [{{path: data/catalogue, hash: md5, md5: a0.dir, size: 9, nfiles: 2}}]
    params: {{params.yaml: {{catalogue: {{path: data/catalogue, columns: {{}}}}}}}}
    outs: [{{path: data/catalogue.parquet, hash: md5, md5: b0, size: 9}}]
  phases:
    cmd: python -m stages.phases
    deps: [{{path: data/models, hash: md5, md5: c0.dir, size: 9, nfiles: 2}}]
    params: {{params.yaml: {{phases: {{window: 5}}}}}}
    outs: [{{path: reports/phases.json, hash: md5, md5: d0, size: 9}}]
  train:
    cmd: python -m stages.train
    deps: [{{path: data/catalogue.parquet, hash: md5, md5: b0, size: 9}}]
    params: {{params.yaml: {{train: {{seed: 0, steps: 24, learning_rate: 0.0001, group_size: 16}}}}}}
    outs: [{{path: data/models, hash: md5, md5: c0.dir, size: 9, nfiles: 2}}]
  evaluate:
    cmd: python -m stages.evaluate
    deps: [{{path: data/models, hash: md5, md5: c0.dir, size: 9, nfiles: 2}}]
    params: {{params.yaml: {{train.seed: 0}}}}
    outs: [{{path: reports/evaluation.json, hash: md5, md5: {hashlib.md5(TEXT.encode()).hexdigest()}, size: 9}}]
"""
HEADING = "Mean reward with 95 % intervals"
UNKNOWN = "Which run this table is of cannot be told: dvc.lock or params.yaml is missing or unreadable"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project whose evaluation is of what stands."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data/models").mkdir(parents=True)
    (tmp_path / "data/catalogue.parquet").touch()
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/evaluation.json").write_text(TEXT)
    (tmp_path / "params.yaml").write_text(PARAMS)
    (tmp_path / "dvc.lock").write_text(LOCK)
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["results", *arguments])


def replaced(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_table_of_what_stands_is_printed_without_a_word_about_its_run(project: Path) -> None:
    result = run()
    assert result.exit_code == 0
    assert result.stdout.splitlines()[0] == HEADING


def test_the_bound_without_the_hidden_margin_is_a_row(project: Path) -> None:
    assert "all but the margin (bound)  0.85 [0.80, 0.90]" in run().stdout.splitlines()
    replaced(project / "reports/evaluation.json", "all_but_margin", "another")
    assert "bound" not in run().stdout


def test_the_belief_buyer_is_a_row(project: Path) -> None:
    replaced(project / "reports/evaluation.json", "all_but_margin", "belief")
    assert "belief buyer   0.85 [0.80, 0.90]" in run().stdout.splitlines()


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        ("params.yaml", "seed: 0", "seed: 1", "params.yaml has other values now of train.seed"),
        (
            "params.yaml",
            "columns: {}",
            "columns: {title: name}",
            "params.yaml has other values now of catalogue.columns.title",
        ),
        ("params.yaml", "steps: 24, ", "", "params.yaml has other values now of train.steps"),
        (
            "params.yaml",
            "seed: 0, steps: 24, learning_rate: 1e-4, group_size: 16",
            "seed: 1, steps: 2, learning_rate: 2e-4, group_size: 4",
            "params.yaml has other values now of train.seed, train.steps, train.learning_rate and 1 more",
        ),
        ("dvc.lock", "b0", "b1", "data/catalogue.parquet has been made anew since"),
    ],
)
def test_a_table_of_an_earlier_run_is_labelled(file: str, old: str, new: str, reason: str, project: Path) -> None:
    replaced(project / file, old, new)
    result = run()
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == [f"This table is of an earlier run: {reason}", HEADING]


def test_while_a_stage_before_the_evaluation_runs_the_table_is_of_an_earlier_run(project: Path) -> None:
    (project / "data/models").rmdir()  # DVC removes what a stage makes before it starts
    assert run().stdout.splitlines()[0] == "This table is of an earlier run: data/models is yet to be made here"


def test_what_the_evaluation_does_not_follow_from_says_nothing_about_its_run(project: Path) -> None:
    replaced(project / "params.yaml", "window: 5", "window: 7")
    assert not (project / "reports/phases.json").exists()
    assert run().stdout.splitlines()[0] == HEADING


def test_an_evaluation_that_dvc_has_not_recorded_is_of_another_run(project: Path) -> None:
    replaced(project / "reports/evaluation.json", "128", "129")
    assert run().stdout.splitlines()[:2] == ["This table is of another run than dvc.lock records", HEADING]


def test_json_stays_json_and_the_label_goes_to_standard_error(project: Path) -> None:
    assert run("--json").stderr == ""
    replaced(project / "params.yaml", "seed: 0", "seed: 1")
    result = run("--json")
    assert json.loads(result.stdout) == EVALUATION
    assert result.stderr == "This table is of an earlier run: params.yaml has other values now of train.seed\n"


@pytest.mark.parametrize("file", ["dvc.lock", "params.yaml"])
@pytest.mark.parametrize("text", [None, "", "stages: [", "- a list", "\x00"])
def test_without_a_lock_or_parameters_the_table_is_printed_all_the_same(
    file: str, text: str | None, project: Path
) -> None:
    (project / file).unlink()
    if text is not None:
        (project / file).write_text(text)
    result = run()
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == [UNKNOWN, HEADING]


def test_a_lock_that_is_being_written_is_no_error(project: Path) -> None:
    for length in range(0, len(LOCK), 40):
        (project / "dvc.lock").write_text(LOCK[:length])
        result = run()
        assert result.exit_code == 0
        assert HEADING in result.stdout


@pytest.mark.slow
def test_after_a_run_by_dvc_the_table_is_of_what_stands(
    tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project(tmp_path / "project", empty_store)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], check=True)
    assert run().stdout.splitlines()[0] == HEADING
    set_params({"train.seed": 1}, folder / "params.yaml", "the test")
    assert run().stdout.startswith("This table is of an earlier run: params.yaml has other values now of train.seed\n")
