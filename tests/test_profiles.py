"""Profiles set sizes in params.yaml, all of them, and nothing else."""

import re
from pathlib import Path

import pytest
import yaml

from dealwright.params import ParamsError, flatten, load_params, parse_params
from dealwright.profiles import (
    Change,
    ProfileError,
    apply_profile,
    differences,
    load_profile,
    names,
    standing_profile,
)

ROOT = Path(__file__).parents[1]
PROFILES = ROOT / "profiles"


@pytest.fixture
def params(tmp_path: Path) -> Path:
    """Return a copy of params.yaml with the sizes of the default profile."""
    copy = tmp_path / "params.yaml"
    copy.write_text((ROOT / "params.yaml").read_text())
    apply_profile("tiny", copy, PROFILES)
    return copy


def folder_with(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "tiny.yaml").write_text((PROFILES / "tiny.yaml").read_text())
    (folder / "odd.yaml").write_text(text)
    return folder


def test_the_profiles_of_the_design_are_there() -> None:
    assert names(PROFILES) == ["full", "paper", "smoke", "smol", "smol_cpu", "tiny"]


def test_tiny_is_what_params_yaml_has_committed() -> None:
    committed = flatten(yaml.safe_load((ROOT / "params.yaml").read_text()))
    assert {key: committed[key] for key in load_profile("tiny", PROFILES)} == load_profile("tiny", PROFILES)


@pytest.mark.parametrize("name", names(PROFILES))
def test_every_profile_gives_valid_parameters(name: str, params: Path) -> None:
    apply_profile(name, params, PROFILES)
    load_params(params)
    assert standing_profile(yaml.safe_load(params.read_text()), PROFILES) == (name, [])


@pytest.mark.parametrize("name", names(PROFILES))
def test_no_profile_touches_the_catalogue(name: str) -> None:
    assert {key.split(".")[0] for key in load_profile(name, PROFILES)} == {
        "prompts",
        "game",
        "rollouts",
        "warmstart",
        "train",
        "select",
        "evaluate",
    }


def test_applying_a_profile_changes_values_and_keeps_every_comment(params: Path) -> None:
    before = params.read_text()
    apply_profile("smoke", params, PROFILES)
    after = params.read_text()
    assert re.findall("#.*", after) == re.findall("#.*", before)
    assert "  steps: 2                     # optimizer steps, one batch of games each\n" in after
    assert "  cost_ratio: null " in after


def test_tiny_brings_the_file_back_to_the_byte(params: Path) -> None:
    before = params.read_text()
    for name in ("smoke", "paper", "tiny"):
        apply_profile(name, params, PROFILES)
    assert params.read_text() == before


def test_a_profile_says_what_it_changed(params: Path) -> None:
    assert Change("prompts.test", 128, 24) in apply_profile("smoke", params, PROFILES)
    assert apply_profile("smoke", params, PROFILES) == []
    assert str(Change("prompts.test", 128, 24)) == "prompts.test: 128 -> 24"


def test_a_profile_leaves_what_is_no_size(params: Path) -> None:
    params.write_text(
        params.read_text().replace("source: bundled ", "source: csv ").replace("seller: training", "seller: stronger")
    )
    apply_profile("full", params, PROFILES)
    assert load_params(params).catalogue.source == "csv"
    assert load_params(params).train.seller == "stronger"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("train:\n  stepz: 3\n", "train.stepz is no size"),
        ("trian:\n  steps: 3\n", "trian.steps is no size"),
        ("catalogue:\n  path: elsewhere\n", "catalogue.path is no size"),
        ("train: {steps: 3\n", "is not valid YAML"),
        ("- train\n", "expected groups of parameters, got CommentedSeq"),
    ],
)
def test_a_profile_with_a_wrong_key_is_refused_and_nothing_is_written(
    text: str, message: str, params: Path, tmp_path: Path
) -> None:
    before = params.read_bytes()
    with pytest.raises(ProfileError, match=re.escape(message)):
        apply_profile("odd", params, folder_with(tmp_path, text))
    assert params.read_bytes() == before


def test_the_catalogue_is_refused_even_where_tiny_lists_it(params: Path, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, "")
    (folder / "tiny.yaml").write_text("catalogue:\n  path: elsewhere\n")
    with pytest.raises(ProfileError, match="never touches the catalogue"):
        apply_profile("tiny", params, folder)


def test_a_profile_with_a_wrong_value_is_refused_and_nothing_is_written(params: Path, tmp_path: Path) -> None:
    before = params.read_bytes()
    with pytest.raises(ParamsError, match=r"with the profile odd: train.steps: .* got 0"):
        apply_profile("odd", params, folder_with(tmp_path, "train:\n  steps: 0\n"))
    assert params.read_bytes() == before


def test_an_unknown_profile_is_refused_with_the_names_of_the_known(params: Path) -> None:
    with pytest.raises(ProfileError, match="one of the profiles full, paper, smoke, smol, smol_cpu, tiny, got 'huge'"):
        apply_profile("huge", params, PROFILES)
    with pytest.raises(ProfileError, match=r"got '\.\./params'"):
        apply_profile("../params", params, PROFILES)


def test_the_standing_profile_is_the_nearest_with_what_differs_from_it(params: Path) -> None:
    apply_profile("smoke", params, PROFILES)
    values = yaml.safe_load(params.read_text())
    values["train"]["steps"] = 3
    assert standing_profile(values, PROFILES) == ("smoke", [Change("train.steps", 2, 3)])


def test_differences_name_changed_added_and_missing_parameters() -> None:
    old = {"train": {"steps": 1, "seed": 0}, "columns": {}}
    new = {"train": {"steps": 2, "rate": 0.5}, "columns": {"title": "name"}}
    assert [str(change) for change in differences(old, new)] == [
        "train.steps: 1 -> 2",
        "train.seed: 0 -> None",
        "train.rate: None -> 0.5",
        "columns.title: None -> name",
    ]


def test_numbers_of_a_profile_are_numbers_to_every_yaml_reader(params: Path) -> None:
    apply_profile("paper", params, PROFILES)
    assert yaml.safe_load(params.read_text())["train"]["learning_rate"] == 3e-5
    assert parse_params(params.read_text(), "params").train.learning_rate == 3e-5
