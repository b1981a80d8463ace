"""Who imports whom in this repository, read from the source."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


@cache
def modules() -> dict[str, Path]:
    """Return the files of our packages by module name."""
    files = [path for package in ("dealwright", "stages", "flows") for path in (ROOT / package).rglob("*.py")]
    return {_name(path): path for path in files}


@cache
def imports(path: Path, outside: bool = False) -> frozenset[str]:
    """Return our modules that a file imports anywhere in it, or with `outside` the other packages' names.

    Packages above an imported module count; what is only imported for type checkers does not.
    """
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    prefixes = {
        ".".join(parts[:length])
        for name in found
        for parts in [name.split(".")]
        for length in range(1, len(parts) + 1)
    }
    if outside:
        return frozenset(name for name in prefixes if "." not in name) - {"dealwright", "stages", "flows"}
    return frozenset(prefixes & modules().keys())


@cache
def closure(path: Path) -> frozenset[Path]:
    """Return every file of ours that a file imports, directly or not."""
    seen: set[Path] = set()
    ahead = [path]
    while ahead:
        for name in imports(ahead.pop()):
            if modules()[name] not in seen:
                seen.add(modules()[name])
                ahead.append(modules()[name])
    return frozenset(seen)


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
