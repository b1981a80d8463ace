"""Files and folders are there whole or not at all."""

import os
from pathlib import Path

import pytest

from dealwright.errors import DealwrightError
from dealwright.files import read_json, replacing_folder, write_json


def test_a_folder_is_put_in_place_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "models" / "warmstart"
    with replacing_folder(place) as beside:
        (beside / "weights").write_text("old")
    with pytest.raises(DealwrightError) as stop, replacing_folder(place) as beside:
        (beside / "weights").write_text("ne")
        raise OSError(28, "No space left on device")
    assert str(stop.value) == (
        f"cannot write {place}: No space left on device; what was there is kept, so make room and run it again"
    )
    assert (place / "weights").read_text() == "old"
    with replacing_folder(place) as beside:
        (beside / "other").write_text("new")
    assert [file.name for file in place.iterdir()] == ["other"]
    assert [folder.name for folder in place.parent.iterdir()] == ["warmstart"]


def test_what_a_killed_process_left_beside_a_file_goes_with_the_next_writing(tmp_path: Path) -> None:
    for process in (2**22 + 1, os.getppid()):  # above the highest of Linux, and one that lives
        (tmp_path / f".figures.json.{process}").write_text("ha")
    (tmp_path / ".figures.json.old").write_text("mine")
    write_json(tmp_path / "figures.json", {})
    left = {f".figures.json.{os.getppid()}", ".figures.json.old", "figures.json"}
    assert {file.name for file in tmp_path.iterdir()} == left


def test_what_was_written_as_json_is_read_back(tmp_path: Path) -> None:
    write_json(tmp_path / "figures.json", {"reward": 0.12345678, "name": "Büro"})
    assert read_json(tmp_path / "figures.json") == {"reward": 0.123457, "name": "Büro"}


@pytest.mark.parametrize("content", [None, b"", b'{"half": ', b"\xff\xfe"])
def test_a_json_file_that_is_missing_or_broken_is_one_line_that_says_what_to_do(
    content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / "figures.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DealwrightError) as stop:
        read_json(path)
    assert str(stop.value) == f"{path} is missing or unreadable; run `dvc repro` first"
    with pytest.raises(DealwrightError) as stop:
        read_json(path, "fetch it again")
    assert str(stop.value) == f"{path} is missing or unreadable; fetch it again"
