"""Names for segments, by stated rules on their mean levels.

The paper's four phases are looked for, not assumed: a segment that no rule fits stays "other", and a phase that no
segment shows is "not observed".
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

FALL = 0.10
RISE = 0.05
NAIVE_OFFER = 0.70
NAIVE_RATIO = 0.50

Levels = Mapping[str, float | None]


class Phase(StrEnum):
    """What a stretch of training shows."""

    NAIVE = "naive bargaining"
    AGGRESSIVE = "aggressive first offers"
    DEADLOCK = "deadlock"
    PERSUASION = "persuasion"
    OTHER = "other"


PHASES = (Phase.NAIVE, Phase.AGGRESSIVE, Phase.DEADLOCK, Phase.PERSUASION)

# In the order in which they are asked: the first that holds names the segment.
RULES: dict[Phase, str] = {
    Phase.DEADLOCK: (
        f"the deal rate lies at least {FALL:.2f} below the highest of an earlier segment, and the share of games that"
        f" run out of turns or lose the seller at least {RISE:.2f} above that segment's"
    ),
    Phase.PERSUASION: (
        f"the argument rate and the bargained ratio lie at least {FALL:.2f} above the first segment's, and the deal"
        f" rate within {FALL:.2f} of the highest so far"
    ),
    Phase.AGGRESSIVE: (
        f"the first offer lies at least {FALL:.2f} of the budget below the first segment's, and the deal rate within"
        f" {FALL:.2f} of the highest so far"
    ),
    Phase.NAIVE: (
        f"no segment before it has another name, the first offer is at least {NAIVE_OFFER:.2f} of the budget, and the"
        f" bargained ratio below {NAIVE_RATIO:.2f}"
    ),
    Phase.OTHER: "none of the rules holds",
}


def label_segments(levels: Sequence[Levels]) -> list[Phase]:
    """Name each segment from the mean levels of its series and those of the segments before it."""
    names: list[Phase] = []
    for place, segment in enumerate(levels):
        names.append(_label(segment, levels[:place], names))
    return names


def not_observed(names: Sequence[Phase]) -> list[Phase]:
    """Return the phases of the paper that no segment shows."""
    return [phase for phase in PHASES if phase not in names]


def _label(segment: Levels, earlier: Sequence[Levels], names: Sequence[Phase]) -> Phase:
    if earlier:
        first, best = earlier[0], max(earlier, key=lambda levels: levels["deal_rate"] or 0.0)
        deals = _gain(segment, best, "deal_rate")
        if deals <= -FALL and _stalled(segment) - _stalled(best) >= RISE:
            return Phase.DEADLOCK
        arguments, ratio = _gain(segment, first, "argument_rate"), _gain(segment, first, "bargained_ratio")
        if arguments >= FALL and ratio >= FALL and deals > -FALL:
            return Phase.PERSUASION
        if _gain(segment, first, "first_offer_ratio") <= -FALL and deals > -FALL:
            return Phase.AGGRESSIVE
    offer, bargained = segment["first_offer_ratio"], segment["bargained_ratio"]
    untouched = all(name is Phase.NAIVE for name in names)
    if untouched and offer is not None and offer >= NAIVE_OFFER and (bargained is None or bargained < NAIVE_RATIO):
        return Phase.NAIVE
    return Phase.OTHER


def _gain(segment: Levels, other: Levels, name: str) -> float:
    """Return by how much a level lies above another segment's; 0 where either is unknown, so that no rule holds."""
    here, there = segment[name], other[name]
    return 0.0 if here is None or there is None else here - there


def _stalled(segment: Levels) -> float:
    return (segment["max_turns_rate"] or 0.0) + (segment["seller_quit_rate"] or 0.0)
