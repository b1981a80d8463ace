"""Profiles: sets of sizes that are put into params.yaml, its comments kept.

profiles/tiny.yaml holds every size there is, as params.yaml has them; another profile holds what it changes. Applying
one sets all sizes, so what an earlier profile set does not linger.
"""

import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from dealwright.errors import DealwrightError
from dealwright.files import write_text
from dealwright.params import Params, flatten, parse_params, read_text

DEFAULT = "tiny"
PARAMS = Path("params.yaml")
FOLDER = Path("profiles")


class ProfileError(DealwrightError):
    """A profile that is not there, or that holds what no profile may."""


@dataclass(frozen=True, slots=True)
class Change:
    """One parameter that differs, by its dotted name; None where a side lacks it."""

    name: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.old} -> {self.new}"


def names(folder: Path = FOLDER) -> list[str]:
    """Return the names of the profiles."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def load_profile(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """Read a profile as every size by its dotted name.

    Raises ProfileError for an unknown profile, a key that is no size, and any key of the catalogue.
    """
    known = names(folder)
    if DEFAULT not in known:
        raise ProfileError(f"expected {folder / DEFAULT}.yaml, found none; run from the project's root")
    if name not in known:
        raise ProfileError(f"expected one of the profiles {', '.join(known)}, got {name!r}")
    sizes = _read(folder / f"{DEFAULT}.yaml")
    own = _read(folder / f"{name}.yaml")
    if unknown := [key for key in own if key not in sizes]:
        raise ProfileError(
            f"{folder / name}.yaml: {', '.join(unknown)} is no size; sizes are listed in {DEFAULT}.yaml"
        )
    if touched := [key for key in own if key.split(".")[0] == "catalogue"]:
        raise ProfileError(f"{folder / name}.yaml: {', '.join(touched)}: a profile never touches the catalogue")
    return {**sizes, **own}


def apply_profile(name: str, params: Path = PARAMS, folder: Path = FOLDER) -> list[Change]:
    """Write a profile's sizes into the parameter file, whole or not at all, and return what changed."""
    return set_params(load_profile(name, folder), params, f"the profile {name}")


def profiled_params(name: str, params: Path = PARAMS, folder: Path = FOLDER) -> Params:
    """Return the parameters with a profile's sizes; the parameter file is left as it is."""
    return _with_values(load_profile(name, folder), params, f"the profile {name}")[1]


def set_params(values: Mapping[str, Any], params: Path, origin: str) -> list[Change]:
    """Write values by their dotted names into a parameter file, whole or not at all, and return what changed.

    `origin` says in errors where the values come from. Raises ProfileError for a name that the file lacks, ParamsError
    for a value that it cannot have.
    """
    text, _, changes = _with_values(values, params, origin)
    if changes:
        write_text(params, text)
    return changes


def _with_values(values: Mapping[str, Any], params: Path, origin: str) -> tuple[str, Params, list[Change]]:
    """Return a parameter file's text with other values in it, its parameters, and what changed."""
    document = _parse(read_text(params), params)
    changes = []
    for key, value in values.items():
        *groups, leaf = key.split(".")
        group: Any = document
        for part in groups:
            group = group.get(part) if isinstance(group, dict) else None
        if not isinstance(group, dict) or leaf not in group:
            raise ProfileError(f"{origin}: {key} is not in {params}; mend one or the other")
        if group[leaf] != value:
            changes.append(Change(key, _plain(group[leaf]), _plain(value)))
            group[leaf] = value
            _align_comment(group, leaf)
    written = io.StringIO()
    _yaml().dump(document, written)
    return written.getvalue(), parse_params(written.getvalue(), f"{params} with {origin}"), changes


def standing_profile(params: Mapping[str, Any], folder: Path = FOLDER) -> tuple[str, list[Change]]:
    """Return the profile that the parameters are nearest to, and the sizes in which they differ from it."""
    values = flatten(params)
    candidates = [
        (name, [Change(key, size, values.get(key)) for key, size in sizes.items() if values.get(key) != size])
        for name in sorted(names(folder), key=lambda name: (name != DEFAULT, name))
        for sizes in [load_profile(name, folder)]
    ]
    return min(candidates, key=lambda candidate: len(candidate[1]))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Return every parameter in which two parameter files differ."""
    before, after = flatten(old), flatten(new)
    return [
        Change(key, before.get(key), after.get(key))
        for key in dict.fromkeys([*before, *after])
        if (before.get(key) != after.get(key) or (key in before) != (key in after))
        and not any(other.startswith(f"{key}.") for other in (*before, *after))  # an empty group that has been filled
    ]


def read_params(text: str, where: str) -> dict[str, Any]:
    """Parse a parameter file as plain values; raises ProfileError where it is no mapping."""
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(values, dict):
        raise ProfileError(f"{where}: expected groups of parameters, got {type(values).__name__}")
    return values


def _read(path: Path) -> dict[str, Any]:
    return flatten(_parse(read_text(path), path))


def _parse(text: str, path: Path) -> dict[str, Any]:
    try:
        document = _yaml().load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise ProfileError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, dict):
        raise ProfileError(f"{path}: expected groups of parameters, got {type(document).__name__}")
    return document


def _yaml() -> YAML:
    round_trip = YAML()
    round_trip.width = 4096
    round_trip.preserve_quotes = True
    round_trip.representer.add_representer(
        type(None), lambda representer, _: representer.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return round_trip


def _align_comment(group: Any, leaf: str) -> None:
    """Put the comment of a leaf where its siblings' stand; a long value that stood before had pushed it out."""
    comments = {key: tokens[2] for key, tokens in group.ca.items.items() if tokens[2] is not None}
    if leaf in comments:
        comments[leaf].column = min(comment.column for comment in comments.values())


def _plain(value: Any) -> Any:
    """Return ruamel's scalar as Python's own."""
    if isinstance(value, float) and not isinstance(value, bool):
        return float(value)
    return list(value) if isinstance(value, list) else value
