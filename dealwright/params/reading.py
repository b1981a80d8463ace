"""Read a parameter file, or say in one line what is wrong with it."""

import re
from collections.abc import Mapping
from pathlib import Path
from reprlib import Repr
from typing import Any

import yaml
from pydantic import ValidationError

from dealwright.errors import DealwrightError
from dealwright.params.stages import Params

MOST_PROBLEMS = 20  # that one line names
_SECRET = re.compile("key|secret|password|token$", re.IGNORECASE)
_LOGIN = re.compile(r"""(?://[^/\s]*|[^/\s'"]+:[^/\s]*)@""")  # in an address, wherever it stands
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


class ParamsError(DealwrightError):
    """A parameter file that cannot be used; the message names the key, what was expected and what came."""


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and check a parameter file; raises ParamsError where it cannot be used."""
    return parse_params(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """Read a file of parameters; raises ParamsError where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ParamsError(f"cannot read {path}: {error.strerror}; run from the project's root") from error
    except UnicodeDecodeError as error:
        raise ParamsError(
            f"cannot read {path}: expected UTF-8, got byte {error.object[error.start]:#04x} at {error.start}; save it "
            "as UTF-8"
        ) from error


def parse_params(text: str, where: str) -> Params:
    """Check the text of a parameter file; `where` names it in errors.

    Raises ParamsError with one line that names each bad key, what was expected and what came.
    """
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # an impossible date; too deep a nesting
        raise ParamsError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from error
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        found = error.errors()
        problems = [
            f"{'.'.join(str(part) for part in item['loc']) or 'the file'}: {item['msg']}{_got(item)}"
            for item in found[:MOST_PROBLEMS]
        ]
        more = [f"and {len(found) - MOST_PROBLEMS} more"] if len(found) > MOST_PROBLEMS else []
        raise ParamsError(f"{where}: {'; '.join([*problems, *more])}") from error


def _shown(value: Any) -> str:
    """Write what came, cut short; a file may refer to the same thing again and again, without end."""
    whole = _LOGIN.sub("...@", value) if isinstance(value, str) else value  # before the middle is cut out
    text = _LOGIN.sub("...@", _SHORT.repr(whole))
    return text if len(text) <= 100 else f"{text[:100]}..."


def _got(problem: Mapping[str, Any]) -> str:
    # Whoever takes the variable's name for the key itself shall not find it in a log.
    secret = _SECRET.search(str(problem["loc"][-1])) if problem["loc"] else None
    return "" if secret else f", got {_shown(problem['input'])}"


def flatten(group: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a nested mapping by their dotted names; a list or an empty mapping is a leaf."""
    leaves: dict[str, Any] = {}
    for key, value in group.items():
        name = f"{prefix}{key}"
        leaves |= flatten(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return leaves
