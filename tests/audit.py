"""Ask for known vulnerabilities of the packages in the lock: part of `make lint`, by pip-audit from .venv-tools.

Exit status 1, which `make lint` passes over, where one is known that a newer release mends. Without a network, or
where the package index has no such data, it says so.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

LOCK = Path("requirements/lock.txt")
SECONDS = 120
COMMAND = (
    *("-r", str(LOCK), "--require-hashes", "--disable-pip", "--timeout", "10"),
    *("--progress-spinner", "off", "--format", "json"),
)


def judge(output: str, errors: str) -> tuple[list[str], bool]:
    """Return what to say of pip-audit's answer, and whether something in it can be mended."""
    try:
        packages: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except ValueError:
        said = [line for line in errors.splitlines() if line.strip()]
        return [f"{LOCK} was not audited: {said[-1] if said else 'pip-audit gave no answer'}"], False
    known = [package for package in packages if "vulns" in package]
    lines, mendable = [f"{LOCK}: {len(known)} of {len(packages)} packages could be audited"], False
    for package in known:
        for found in package["vulns"]:
            mended = ", ".join(found["fix_versions"])
            lines.append(
                f"{package['name']} {package['version']}: {found['id']}, mended in {mended or 'no release yet'}"
            )
            mendable = mendable or bool(mended)
    return lines, mendable


def main(tool: str = ".venv-tools/bin/pip-audit") -> int:
    """Audit the lock and return the exit status."""
    try:
        done = subprocess.run([tool, *COMMAND], capture_output=True, text=True, timeout=SECONDS, check=False)
    except FileNotFoundError:
        lines, mendable = [f"{LOCK} was not audited: there is no {tool}; `make tools` installs it"], False
    except subprocess.TimeoutExpired:
        lines, mendable = [f"{LOCK} was not audited: no answer within {SECONDS} seconds"], False
    else:
        lines, mendable = judge(done.stdout, done.stderr)
    print("\n".join(lines))
    return int(mendable)


if __name__ == "__main__":
    sys.exit(main())
