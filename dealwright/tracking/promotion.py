"""The gate before the champion: two versions play the same games, and the better one keeps or takes the alias.

Every decision is kept: the reason in the tag `gate` of the version that asked, each move of the alias in the tags of
the registered model.
"""

import math
from dataclasses import dataclass

from dealwright.params import Params
from dealwright.tracking.connection import TrackingError, store
from dealwright.tracking.contest import Comparison, Contrast, compare_versions
from dealwright.tracking.history import Move, champions_before, move_champion, read_moves
from dealwright.tracking.versions import read_model

__all__ = [
    "Comparison",
    "Contrast",
    "Promotion",
    "PromotionError",
    "compare_versions",
    "judge",
    "promote",
    "rollback",
]

GATE = "gate"


class PromotionError(TrackingError):
    """A promotion or a rollback that cannot be carried out; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """Whether the alias was moved, to which version from which, and why; `comparison` where games were played."""

    version: int
    previous: int | None
    promoted: bool
    reason: str
    comparison: Comparison | None


def promote(version: int, params: Params, minimum_gain: float, force_reason: str | None = None) -> Promotion:
    """Let a version pass the gate and move the alias `champion` to it; with a reason to force it, without the games.

    It passes where the 95 % interval of its gain in reward lies above `minimum_gain`, and where neither its share of
    games above the budget nor that with the budget stated is higher than the champion's by more than chance. The
    first champion has nobody to beat.
    """
    if force_reason is not None and not force_reason.strip():
        raise PromotionError("a promotion is forced with a reason, which is recorded; got an empty one")
    model = read_model(params.tracking.model)
    model.require(version)
    previous = model.champion
    if previous == version:
        return Promotion(version, previous, False, f"version {version} is the champion already", None)
    if force_reason is None:
        comparison = compare_versions(previous, version, params)
        promoted, reason = judge(comparison, minimum_gain)
    else:
        comparison, promoted, reason = None, True, f"forced: {force_reason.strip()}"
    with store() as client:
        client.set_model_version_tag(model.name, str(version), GATE, reason if promoted else f"kept back: {reason}")
        if promoted:
            move_champion(client, model.name, Move(version, previous, reason, back=False))
    return Promotion(version, previous, promoted, reason, comparison)


def rollback(params: Params) -> Promotion:
    """Give the alias back to the champion before, as the history has it; one that was deleted since is passed over."""
    model = read_model(params.tracking.model)
    current = model.champion
    if current is None:
        raise PromotionError(f"no version of {model.name} is champion; run `dealwright promote VERSION`")
    before = [version for version in champions_before(read_moves(model.tags), current) if version in model.runs]
    if not before:
        raise PromotionError(f"no champion is known before version {current}; run `dealwright promote VERSION`")
    reason = f"rolled back from version {current}"
    with store() as client:
        move_champion(client, model.name, Move(before[0], current, reason, back=True))
    return Promotion(before[0], current, True, reason, None)


def judge(comparison: Comparison, minimum_gain: float) -> tuple[bool, str]:
    """Say whether the candidate passes, and why."""
    if not math.isfinite(comparison.reward.candidate.value):
        return False, f"its reward is {comparison.reward.candidate.value}, which is no number"
    if comparison.champion is None:
        return True, f"there was no champion; its reward is {comparison.reward.candidate.said()}"
    gain = comparison.reward.difference
    if gain is None or gain.low is None:
        return False, f"of {comparison.products} products no interval can be made"
    told = f"gain {gain.said('+')} over version {comparison.champion}"
    problems = [] if gain.low > minimum_gain else [f"{told} is not above {minimum_gain:g} with 95 % confidence"]
    problems += _worse("goes above the budget", comparison.overshoot_rate)
    problems += _worse("states its budget", comparison.leak_rate)
    return (False, "; ".join(problems)) if problems else (True, f"{told}; overshoot and leaks no worse")


def _worse(words: str, contrast: Contrast) -> list[str]:
    change = contrast.difference
    if contrast.champion is None or change is None or change.low is None or change.low <= 0:
        return []
    return [
        f"it {words} in {contrast.candidate.value:.1%} of its games, the champion in {contrast.champion.value:.1%}"
    ]
