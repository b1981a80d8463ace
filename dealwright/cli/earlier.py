"""Whether the evaluation is of what stands, by dvc.lock alone."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dealwright.lock import LOCK, UNREADABLE, LockError, Stage, output_hashes, read_stages, read_yaml
from dealwright.params import flatten
from dealwright.profiles import PARAMS, differences

NAMED = 3  # of the parameters that have changed


def why_earlier(evaluation: Path) -> str | None:
    """Say in one line why an evaluation is not of what stands; None where it is."""
    try:
        stages = read_stages()
        params = TypeAdapter(dict[str, Any]).validate_python(read_yaml(PARAMS))
    except (LockError, *UNREADABLE):
        return f"Which run this table is of cannot be told: {LOCK} or {PARAMS} is missing or unreadable"
    made = output_hashes(stages)
    if made.get(evaluation.as_posix()) != hashlib.md5(evaluation.read_bytes()).hexdigest():
        return f"This table is of another run than {LOCK} records"
    behind = _behind(evaluation, stages)
    if changed := _changed(behind, params):
        more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
        reason = f"{PARAMS} has other values now of {', '.join(changed[:NAMED])}{more}"
    elif remade := [dep.path for stage in behind for dep in stage.deps if made.get(dep.path, dep.md5) != dep.md5]:
        reason = f"{remade[0]} has been made anew since"
    elif missing := [out.path for stage in behind for out in stage.outs if not Path(out.path).exists()]:
        reason = f"{missing[0]} is yet to be made here"
    else:
        return None
    return f"This table is of an earlier run: {reason}"


def _behind(output: Path, stages: Mapping[str, Stage]) -> list[Stage]:
    """Return the stage that makes an output and all those that it follows from."""
    wanted = {output.as_posix()}
    found: dict[str, Stage] = {}
    while new := {
        name: stage
        for name, stage in stages.items()
        if name not in found and any(out.path in wanted for out in stage.outs)
    }:
        found |= new
        wanted |= {dep.path for stage in new.values() for dep in stage.deps}
    return [stage for name, stage in stages.items() if name in found]


def _changed(stages: Sequence[Stage], params: Mapping[str, Any]) -> list[str]:
    """Return the names of the parameters that had other values when the stages ran."""
    standing = flatten(params)
    names: dict[str, None] = {}
    for stage in stages:
        for group, values in stage.params.get(str(PARAMS), {}).items():
            now = {name: value for name, value in standing.items() if f"{name}.".startswith(f"{group}.")}
            names |= dict.fromkeys(change.name for change in differences({group: values}, now))
    return list(names)
