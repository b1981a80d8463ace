"""The registered versions: what their tags say of them, and which are as good as the best."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dealwright.tracking.connection import TrackingError, is_made, shown_uri, store
from dealwright.tracking.history import CHAMPION

PAGE = 1000  # MLflow's own, of ten thousand versions, takes a gigabyte of memory


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """What the registry holds of one model; `runs` and `version_tags` are by version."""

    name: str
    version_tags: Mapping[int, Mapping[str, str]]
    runs: Mapping[int, str]
    aliases: Mapping[str, int]
    tags: Mapping[str, str]

    @property
    def champion(self) -> int | None:
        """The version that has the alias `champion`."""
        return self.aliases.get(CHAMPION)

    def address(self, version: int) -> str:
        """Return where MLflow finds a version's files."""
        return f"models:/{self.name}/{version}"

    def find(self, name: str) -> int:
        """Return the version that a number or an alias names, as in `7` or `@champion`."""
        if name.startswith("@"):
            if name[1:] in self.aliases:
                return self.aliases[name[1:]]
            known = ", ".join(f"@{alias}" for alias in sorted(self.aliases)) or "none"
            raise TrackingError(f"no version of {self.name} has the alias {name}; there are {known}")
        if not name.isdecimal():
            raise TrackingError(f"expected a version, as in 7, or an alias, as in @champion, got {name!r}")
        self.require(int(name))
        return int(name)

    def require(self, version: int) -> None:
        """Raise TrackingError for a version that is not registered."""
        if version not in self.version_tags:
            known = ", ".join(map(str, sorted(self.version_tags)))
            raise TrackingError(f"{self.name} has no version {version}; there are {known}")


@dataclass(frozen=True, slots=True)
class Standing:
    """How a version stands among the others by its validation games; None where its tags hold no such number.

    `tied` marks the best, and those that chance alone may have put below it.
    """

    version: int
    step: int | None
    reward: float | None
    low: float | None
    high: float | None
    overshoot_rate: float | None
    leak_rate: float | None
    guard_rate: float | None
    aliases: tuple[str, ...]
    tied: bool


def read_model(name: str) -> RegisteredModel:
    """Read what the registry holds of a model; raises TrackingError where it holds no version."""
    none = TrackingError(f"no version of {name} is registered at {shown_uri()}; run `dealwright register`")
    if not is_made():
        raise none
    with store() as client:
        found = client.search_registered_models(f"name = '{name}'")
        versions = all_pages(client.search_model_versions, f"name = '{name}'") if found else []
    if not versions:
        raise none
    return RegisteredModel(
        name,
        {int(version.version): version.tags for version in versions},
        {int(version.version): version.run_id or "" for version in versions},
        {alias: int(version) for alias, version in found[0].aliases.items()},
        found[0].tags,
    )


def all_pages(search: Callable[..., Any], *query: Any) -> list[Any]:
    """Return everything that one of MLflow's searches finds, page by page."""
    found, token = [], None
    while True:
        page = search(*query, max_results=PAGE, page_token=token)
        found += page
        token = page.token
        if not token:
            return found


def standings(model: RegisteredModel, overshoot: float) -> list[Standing]:
    """Return the versions by validation reward, the best first and those without one last.

    The best is the one with the highest reward among those that go above the budget in at most `overshoot` of their
    games; where none keeps to that, among all. Another is tied with it when it keeps to that too and its difference
    may be chance: for versions of one training by the paired interval that selection recorded, for others of the same
    scenarios by their own two intervals, which takes more for chance.
    """
    rows = [_standing(model, version) for version in model.version_tags]
    rows.sort(key=lambda row: (-math.inf if row.reward is None else row.reward, -row.version), reverse=True)
    scored = [row for row in rows if row.reward is not None]
    eligible = [row for row in scored if (row.overshoot_rate or 0.0) <= overshoot] or scored
    tied = {row.version for row in eligible if _is_tied(model, row, eligible[0])}
    return [replace(row, tied=row.version in tied) for row in rows]


def _standing(model: RegisteredModel, version: int) -> Standing:
    tags = model.version_tags[version]
    step = tags.get("step", "")
    return Standing(
        version,
        int(step) if step.isdecimal() else None,
        _number(tags, "validation_reward"),
        _number(tags, "validation_reward_low"),
        _number(tags, "validation_reward_high"),
        _number(tags, "validation_overshoot_rate"),
        _number(tags, "validation_leak_rate"),
        _number(tags, "validation_guard_rate"),
        tuple(sorted(alias for alias, one in model.aliases.items() if one == version)),
        tied=False,
    )


def _is_tied(model: RegisteredModel, row: Standing, best: Standing) -> bool:
    if row.version == best.version:
        return True
    tags, best_tags = model.version_tags[row.version], model.version_tags[best.version]
    if tags.get("scenarios_hash") != best_tags.get("scenarios_hash"):
        return False
    if model.runs[row.version] == model.runs[best.version]:
        high = _number(tags, "validation_difference_high")
        return high is not None and high >= 0
    if row.reward is None or row.high is None or best.reward is None or best.low is None:
        return False
    # The upper bound of a difference of independent estimates, from their own intervals (Zou and Donner 2008).
    return row.reward - best.reward + math.hypot(row.high - row.reward, best.reward - best.low) >= 0


def _number(tags: Mapping[str, str], key: str) -> float | None:
    try:
        value = float(tags.get(key, ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
