"""dvc.yaml says the truth about the stages, and the packages keep their direction."""

import ast
import csv
import subprocess
import sys
from typing import Any

import pytest
import yaml

from dealwright.params import flatten
from tests.imports import ROOT, closure, imports, modules

PIPELINE: dict[str, Any] = yaml.safe_load((ROOT / "dvc.yaml").read_text())
STAGES: dict[str, dict[str, Any]] = PIPELINE["stages"]

# A package imports nothing of a greater rank.
RANKS = {
    **dict.fromkeys(["addresses", "checkpoints", "errors", "files", "offline", "params"], 0),
    "game": 1,
    "engines": 1,
    "shapes": 1,
    **dict.fromkeys(["catalogue", "prompts", "agents"], 2),
    **dict.fromkeys(["plan", "rollout", "shards", "players", "written", "reference", "probe", "seats"], 3),
    **dict.fromkeys(["training", "evaluation"], 4),
    **dict.fromkeys(["phases", "report"], 5),
    **dict.fromkeys(
        ["profiles", "lock", "checks", "clones", "processes", "serving", "tracking", "cli", "__main__"], 6
    ),
    "stages": 7,
    "flows": 8,
}


def part(module: str) -> str:
    """Return the package that a module ranks with: `game` for dealwright.game.money, `stages` for stages.train."""
    first, _, rest = module.partition(".")
    return rest.split(".")[0] if first == "dealwright" and rest else first


def outputs(stage: dict[str, Any]) -> list[str]:
    kinds = (stage.get(kind, []) for kind in ("outs", "metrics", "plots"))
    return [out if isinstance(out, str) else next(iter(out)) for kind in kinds for out in kind]


def test_the_stages_are_those_of_the_design_in_their_order() -> None:
    assert list(STAGES) == [
        "ingest",
        "validate",
        "prompts",
        "rollouts",
        "warmstart",
        "train",
        "select",
        "evaluate",
        "phases",
        "report",
    ]
    for name, stage in STAGES.items():
        assert stage["cmd"] == f"python -m stages.{name}"
        assert f"stages/{name}.py" in stage["deps"]


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_depends_on_all_that_it_imports_and_on_no_other_code(name: str) -> None:
    imported = {path.relative_to(ROOT).as_posix() for path in closure(ROOT / f"stages/{name}.py")}
    listed = {dep for dep in STAGES[name]["deps"] if dep.startswith("dealwright")}
    missing = {
        path for path in imported if path not in listed and not any(path.startswith(f"{dep}/") for dep in listed)
    }
    idle = {dep for dep in listed if dep not in imported and not any(path.startswith(f"{dep}/") for path in imported)}
    assert (sorted(missing), sorted(idle)) == ([], [])


@pytest.mark.parametrize("name", STAGES)
def test_what_a_stage_depends_on_is_in_the_repository_or_made_by_an_earlier_stage(name: str) -> None:
    earlier: set[str] = set()
    for other, stage in STAGES.items():
        if other == name:
            break
        earlier |= set(outputs(stage))
    for dep in STAGES[name]["deps"]:
        assert "${" in dep or dep in earlier or (ROOT / dep).exists(), dep


def test_paths_that_a_person_chooses_come_from_params() -> None:
    assert "${catalogue.path}" in STAGES["ingest"]["deps"]
    assert [name for name, stage in STAGES.items() if "${warmstart.base}" in stage["deps"]] == [
        "warmstart",
        "evaluate",
    ]


@pytest.mark.parametrize("name", STAGES)
def test_the_params_of_a_stage_exist_and_include_its_own_group(name: str) -> None:
    known = flatten(yaml.safe_load((ROOT / "params.yaml").read_text()))
    listed = STAGES[name].get("params", [])
    for key in listed:
        assert any(leaf == key or leaf.startswith(f"{key}.") for leaf in known), key
    own = {"ingest": "catalogue"}.get(name, name)
    assert own in listed or not any(leaf.startswith(f"{own}.") for leaf in known)


def test_metrics_are_in_git_and_models_are_not() -> None:
    for stage in STAGES.values():
        for kind in ("metrics", "plots"):
            for out in stage.get(kind, []):
                assert list(out.values()) == [{"cache": False}]
        assert not [
            out for out in stage.get("outs", []) if not isinstance(out, str) and not str(out).startswith("{'reports")
        ]


def test_one_small_file_is_the_metrics_of_a_run() -> None:
    assert [list(out) for stage in STAGES.values() for out in stage.get("metrics", [])] == [["reports/headline.json"]]


def test_plots_draw_columns_that_training_writes() -> None:
    columns = {
        *(
            "step",
            "reward",
            "reward_std",
            "deal_rate",
            "overshoot_rate",
            "invalid_rate",
            "quit_rate",
            "max_turns_rate",
        ),
        *("first_offer_ratio", "bargained_ratio", "argument_rate", "mean_turns", "entropy", "flat_groups", "loss"),
        *("grad_norm", "learning_rate"),
    }
    for plot in PIPELINE["plots"]:
        (settings,) = plot.values()
        assert (ROOT / f".dvc/plots/{settings['template']}.json").is_file()
        for file, drawn in settings["y"].items():
            wanted = {settings["x"], *([drawn] if isinstance(drawn, str) else drawn)}
            if file == "reports/training.csv":
                assert wanted <= columns
            elif (ROOT / file).is_file():
                with (ROOT / file).open(newline="") as table:
                    assert wanted <= set(next(csv.reader(table)))


def test_only_evaluate_reads_the_test_split() -> None:
    readers = set()
    for path in (ROOT / "stages").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "read_scenarios":
                splits = [ast.literal_eval(word.value) for word in node.keywords if word.arg == "split"]
                if splits not in (["train"], ["validation"]):
                    readers.add(path.stem)
    # The stage that writes the prompts must write all of them.
    assert readers == {"evaluate", "prompts"}


def test_no_module_imports_one_that_stands_above_it() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, path in modules().items()
        for target in imports(path)
        if target not in ("dealwright", "stages", "flows") and name not in ("dealwright", "stages", "flows")
        if RANKS[part(target)] > RANKS[part(name)]
    ]
    assert wrong == []


def test_the_rules_and_the_engines_stand_alone() -> None:
    for name, path in modules().items():
        if part(name) == "game":
            assert {part(target) for target in imports(path)} <= {"dealwright", "game"}, name
            assert imports(path, outside=True) <= sys.stdlib_module_names, name
        if part(name) == "engines":
            assert {part(target) for target in imports(path)} <= {"dealwright", "engines", "errors", "files"}, name


def test_no_stage_or_flow_is_imported_by_the_library() -> None:
    for name, path in modules().items():
        if name.startswith("dealwright"):
            assert not {target for target in imports(path) if part(target) in ("stages", "flows")}, name


def test_dvc_reads_the_pipeline_without_complaint() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "dvc", "stage", "list", "--all", "--fail", "--name-only"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert listed.returncode == 0, listed.stderr
    assert listed.stdout.split() == list(STAGES)


def test_caches_are_no_part_of_a_dependency() -> None:
    ignored = (ROOT / ".dvcignore").read_text().split()
    assert {"__pycache__", "*.py[cod]", "/data/work"} <= set(ignored)
