"""The environment a user gets: what the locks hold, and that nothing reports usage or looks things up on the net."""

import configparser
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dealwright import offline

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SETTINGS = {**offline.NO_REPORTING, **offline.NO_HUB, **offline.QUIET}


def locked(name: str) -> dict[str, list[str]]:
    """Map each package of a lock to its blocks: a pinned line, and the lines of hashes below it."""
    blocks = re.findall(r"^([a-z0-9-]+)==((?:.*\\\n)*.*)$", (ROOT / "requirements" / name).read_text(), re.M)
    packages: dict[str, list[str]] = {}
    for package, block in blocks:
        packages.setdefault(package, []).append(block)
    return packages


def python(code: str, **variables: str) -> str:
    """Run code in a fresh interpreter whose environment holds none of our settings and no sign of CI or pytest."""
    hidden = {*SETTINGS, "CI", "PYTEST_CURRENT_TEST", "PYTEST_VERSION"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden} | variables
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_importing_dealwright_loads_no_other_package() -> None:
    code = "import sys; before = set(sys.modules); import dealwright; print(*sorted(set(sys.modules) - before))"
    assert python(code) == "dealwright dealwright.offline"


def test_importing_dealwright_sets_what_the_environment_does_not() -> None:
    code = "import os, dealwright; print(os.environ['HF_HUB_OFFLINE'], os.environ['MLFLOW_DISABLE_TELEMETRY'])"
    assert python(code) == "1 true"
    assert python(code, HF_HUB_OFFLINE="0") == "0 true"


@pytest.mark.parametrize(
    "code",
    [
        "from huggingface_hub import constants as c; print(c.HF_HUB_OFFLINE and c.HF_HUB_DISABLE_TELEMETRY)",
        "from huggingface_hub.utils import are_progress_bars_disabled as off; print(off())",
        "from datasets import config; print(config.HF_DATASETS_OFFLINE)",
        "from mlflow.telemetry.utils import is_telemetry_disabled; print(is_telemetry_disabled())",
        "from dvc.analytics import is_enabled; print(not is_enabled())",
        "from prefect.settings import get_current_settings as now; print(not now().server.analytics_enabled)",
        "from prefect._internal.analytics.enabled import is_telemetry_enabled; print(not is_telemetry_enabled())",
    ],
)
def test_the_libraries_themselves_say_that_reporting_and_progress_bars_are_off(code: str) -> None:
    assert python(f"import dealwright; {code}") == "True"


def test_the_hub_can_be_allowed_before_its_library_is_imported() -> None:
    code = "from dealwright import offline; offline.allow_hub(); from huggingface_hub import constants as c"
    assert python(f"{code}; print(c.HF_HUB_OFFLINE, c.HF_HUB_DISABLE_PROGRESS_BARS)") == "False False"


def test_dvc_reports_nothing_when_run_by_itself() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / ".dvc" / "config")
    assert dict(config["core"]) == {"analytics": "false", "autostage": "false", "check_update": "false"}


@pytest.mark.parametrize("lock", ["lock.txt", "gpu.txt"])
def test_every_package_of_a_lock_has_hashes_and_no_lock_names_an_index(lock: str) -> None:
    packages = locked(lock)
    assert len(packages) > 200
    assert [name for name, blocks in packages.items() if any("--hash=sha256:" not in block for block in blocks)] == []
    assert "://" not in (ROOT / "requirements" / lock).read_text()


@pytest.mark.parametrize(("lock", "extras"), [("lock.txt", ["dev"]), ("gpu.txt", ["dev", "vllm"])])
def test_every_direct_dependency_is_locked_within_its_range(lock: str, extras: list[str]) -> None:
    packages = locked(lock)
    optional = PROJECT["optional-dependencies"]
    wanted = [
        Requirement(line) for line in PROJECT["dependencies"] + [line for extra in extras for line in optional[extra]]
    ]
    assert wanted
    for requirement in wanted:
        name = canonicalize_name(requirement.name)
        if name == "torch" and lock == "lock.txt":
            continue
        versions = [re.split(r"[ \\]", block, maxsplit=1)[0] for block in packages[name]]
        assert all(requirement.specifier.contains(version) for version in versions), f"{requirement}: {versions}"


def test_the_build_backend_is_locked_because_the_project_is_installed_without_isolation() -> None:
    assert {"hatchling"} <= set(locked("lock.txt")) & set(locked("gpu.txt"))


def test_the_cpu_lock_holds_nothing_of_cuda_and_no_torch() -> None:
    unwanted = re.compile(r"(torch|triton|vllm|cuda|nvidia)")
    assert [name for name in locked("lock.txt") if unwanted.match(name)] == []


def test_torch_has_one_version_everywhere() -> None:
    pins = [
        line for line in (ROOT / "requirements" / "torch.txt").read_text().splitlines() if not line.startswith("#")
    ]
    assert pins == ["torch==2.13.0"]
    assert "torch==2.13.0" in PROJECT["dependencies"]
    assert [block.split()[0] for block in locked("gpu.txt")["torch"]] == ["2.13.0"]
