"""The six kinds of argument: how buyers word them, how they are detected, and how a seller hints at what moves it.

Both detectors are published: scripts, metrics and the concession seller use the same ones.
"""

import re
from enum import StrEnum


class Argument(StrEnum):
    """A kind of reason to lower a price (protocol, section 4a)."""

    COMPETITOR = "competitor"
    PROMPT_PAYMENT = "prompt_payment"
    CONDITION = "condition"
    REPEAT_CUSTOM = "repeat_custom"
    LONG_ON_MARKET = "long_on_market"
    EASY_COLLECTION = "easy_collection"


# What a buyer may say; the first of each kind is the stock argument.
SENTENCES: dict[Argument, tuple[str, ...]] = {
    Argument.COMPETITOR: ("I saw it cheaper elsewhere.", "Another shop asks less.", "A competitor sells it for less."),
    Argument.PROMPT_PAYMENT: ("I can pay cash today.", "I would pay right away.", "I pay at once."),
    Argument.CONDITION: ("It shows some wear.", "There are scratches on it.", "Its condition is not perfect."),
    Argument.REPEAT_CUSTOM: ("I would buy from you again.", "I will be a regular.", "I will come back for more."),
    Argument.LONG_ON_MARKET: ("It has been listed for weeks.", "It is still unsold.", "It sits here a long time."),
    Argument.EASY_COLLECTION: ("I can collect it myself.", "I will pick it up.", "I need no delivery."),
}

_PATTERNS: dict[Argument, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        Argument.COMPETITOR: r"\b(?:cheaper|elsewhere|competitors?|(?:another|other) (?:shop|seller|store)s?)\b",
        Argument.PROMPT_PAYMENT: r"\bcash\b|\bpay(?:ment)? (?:\w+ )?(?:now|today|right away|at once|immediately)\b",
        Argument.CONDITION: r"\bcondition\b|\bwear\b|\bworn\b|\bscratch(?:es|ed)?\b|\bdent(?:s|ed)?\b|\bblemish",
        Argument.REPEAT_CUSTOM: r"\b(?:buy (?:\w+ ){0,2}again|regular|come back|future (?:orders|purchases))\b",
        Argument.LONG_ON_MARKET: r"\bfor (?:weeks|months)\b|\bunsold\b|\ba long time\b|\bon the market\b",
        Argument.EASY_COLLECTION: r"\bcollect\b|\bpick (?:it|this) up\b|\bno (?:delivery|shipping)\b",
    }.items()
}

# What a seller says in its first reply about the kinds that move it.
CUES: dict[Argument, tuple[str, ...]] = {
    Argument.COMPETITOR: (
        "People do compare.",
        "I know what rivals charge.",
        "I hate to lose a sale to the neighbour.",
    ),
    Argument.PROMPT_PAYMENT: ("Ready money always helps.", "My bills are due.", "I dislike waiting for money."),
    Argument.CONDITION: ("It has lived a little.", "I will not call it flawless.", "It is not factory fresh."),
    Argument.REPEAT_CUSTOM: ("Loyal people matter to me.", "I like faces that return.", "I hope to see you often."),
    Argument.LONG_ON_MARKET: ("It has stood here since spring.", "My shelf is full.", "I thought it would go sooner."),
    Argument.EASY_COLLECTION: ("Parcels are a nuisance.", "I would rather not post it.", "My van is off the road."),
}

_KIND_OF_CUE = {cue.casefold(): kind for kind, cues in CUES.items() for cue in cues}


def detect_argument(talk: str) -> Argument | None:
    """Return the kind of the first argument in a buyer's Talk, or None."""
    found = [(match.start(), kind) for kind, pattern in _PATTERNS.items() if (match := pattern.search(talk))]
    return min(found, key=lambda item: item[0])[1] if found else None


def detect_cues(talk: str) -> list[Argument]:
    """Return the kinds that a seller's Talk hints at, in the order in which it does."""
    plain = talk.casefold()
    found = {kind: plain.find(cue) for cue, kind in _KIND_OF_CUE.items() if cue in plain}
    return sorted(found, key=found.__getitem__)
