"""The six kinds of argument and the hints at them."""

from random import Random

import pytest

from dealwright.agents import SENTENCES, Argument, detect_argument, detect_cues
from dealwright.agents.arguments import CUES
from dealwright.agents.demonstrator import FILLERS
from dealwright.agents.sellers import _GOOD, _OPENINGS, _TOO_LOW, _UNWELCOME, _WELCOME


def test_there_are_six_kinds_with_several_wordings_each() -> None:
    assert [kind.value for kind in Argument] == [
        "competitor",
        "prompt_payment",
        "condition",
        "repeat_custom",
        "long_on_market",
        "easy_collection",
    ]
    assert all(len(set(SENTENCES[kind])) >= 3 and len(set(CUES[kind])) >= 3 for kind in Argument)


@pytest.mark.parametrize(("kind", "sentence"), [(kind, text) for kind in Argument for text in SENTENCES[kind]])
def test_each_of_a_buyers_sentences_is_heard_as_its_kind(kind: Argument, sentence: str) -> None:
    assert detect_argument(sentence) is kind
    assert detect_argument(f"Hello! {sentence.upper()}\nThanks.") is kind


@pytest.mark.parametrize(("kind", "cue"), [(kind, text) for kind in Argument for text in CUES[kind]])
def test_each_of_a_sellers_cues_hints_at_its_kind_alone(kind: Argument, cue: str) -> None:
    assert detect_cues(f"Good day. {cue.upper()}") == [kind]


@pytest.mark.parametrize(
    ("talk", "expected"),
    [
        ("Other stores have it for less.", Argument.COMPETITOR),
        ("I found it CHEAPER.", Argument.COMPETITOR),
        ("Payment right away!", Argument.PROMPT_PAYMENT),
        ("It is worn and dented.", Argument.CONDITION),
        ("I may place future orders.", Argument.REPEAT_CUSTOM),
        ("It has been on the market for months.", Argument.LONG_ON_MARKET),
        ("No shipping needed.", Argument.EASY_COLLECTION),
        ("I can pick it up and pay cash.", Argument.EASY_COLLECTION),
        ("I pay cash and pick it up.", Argument.PROMPT_PAYMENT),
        ("", None),
        ("What about this?", None),
        ("I paid for it in weeks.", None),
        ("This is a dental swear cashew collection.", None),
    ],
)
def test_the_first_argument_in_talk_is_heard(talk: str, expected: Argument | None) -> None:
    assert detect_argument(talk) is expected


@pytest.mark.parametrize("words", FILLERS)
def test_small_talk_is_no_argument(words: str) -> None:
    assert detect_argument(words) is None


def test_nothing_else_that_a_seller_says_hints_at_anything() -> None:
    openings = [words for column in _OPENINGS.values() for words in column]
    assert detect_cues(" ".join([*openings, *_WELCOME, *_UNWELCOME, *_TOO_LOW, *_GOOD])) == []


def test_cues_are_listed_in_the_order_in_which_they_were_said() -> None:
    kinds = list(Argument)
    Random(3).shuffle(kinds)
    assert detect_cues(" ".join(CUES[kind][1] for kind in kinds)) == kinds
    assert detect_cues("") == []
