"""The message format of the protocol, section 2."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dealwright.game import (
    MAX_CHARACTERS,
    OFFERS,
    Action,
    ActionKind,
    Message,
    Role,
    format_message,
    parse_message,
)
from tests.games import say

BUYER, SELLER = Role.BUYER, Role.SELLER
BUY, SELL, REJECT, DEAL, QUIT = ActionKind


@pytest.mark.parametrize(
    ("action", "role", "expected"),
    [
        ("[BUY] $95.00", BUYER, Action(BUY, 95.0)),
        ("[SELL] $95.00", SELLER, Action(SELL, 95.0)),
        ("[DEAL] $95.00", BUYER, Action(DEAL, 95.0)),
        ("[DEAL] $95.00", SELLER, Action(DEAL, 95.0)),
        ("[REJECT]", BUYER, Action(REJECT)),
        ("[REJECT]", SELLER, Action(REJECT)),
        ("[QUIT]", BUYER, Action(QUIT)),
        ("[QUIT]", SELLER, Action(QUIT)),
        ("[buy] $95", BUYER, Action(BUY, 95.0)),
        ("[Buy] $95.5", BUYER, Action(BUY, 95.5)),
        ("[BUY] 95", BUYER, Action(BUY, 95.0)),
        ("[BUY]95", BUYER, Action(BUY, 95.0)),
        ("[BUY] $ 95", BUYER, Action(BUY, 95.0)),
        ("[BUY] $0.01", BUYER, Action(BUY, 0.01)),
        ("[BUY] $1,234.56", BUYER, Action(BUY, 1234.56)),
        ("[BUY] $1234.56", BUYER, Action(BUY, 1234.56)),
        ("[BUY] $12,345,678", BUYER, Action(BUY, 12345678.0)),
        ("[BUY] $95.00 \t ", BUYER, Action(BUY, 95.0)),
        ("\t[BUY] $95.00", BUYER, Action(BUY, 95.0)),
        ("[BUY] $179" + "0" * 304, BUYER, Action(BUY, 1.79e306)),  # the most whose cents a float can hold
    ],
)
def test_a_well_formed_action_is_read(action: str, role: Role, expected: Action) -> None:
    message = parse_message(f"Talk: Hello.\nAction: {action}", role)
    assert message == Message("", "Hello.", expected)


@pytest.mark.parametrize(
    "action",
    [
        "[BUY]",  # no amount
        "[DEAL]",
        "[BUY] $",
        "[BUY] $0",
        "[BUY] $0.00",
        "[BUY] $-5",
        "[BUY] -$5",
        "[BUY] $inf",
        "[BUY] $nan",
        "[BUY] $1e5",
        "[BUY] $" + "9" * 400,
        "[BUY] $" + "9" * 308,  # finite in dollars, infinite in cents
        "[BUY] $ten",
        "[BUY] $95.001",
        "[BUY] $95.",
        "[BUY] $.95",
        "[BUY] $9 5",
        "[BUY] $  95",
        "[BUY] $$95",
        "[BUY] €95",
        "[BUY] $1,23",
        "[BUY] $12,34.00",
        "[BUY] $1234,567",
        "[BUY] $1,234,56",
        "[BUY] $,123",
        "[BUY] $0,123",
        "[BUY] $1,234,",
        "[BUY] $９５",  # noqa: RUF001
        "[BUY] $٩٥",
        "[BUY] $95 please",
        "[BUY] $95.00 [QUIT]",
        "[BUY] $95 [BUY] $96",
        "[BUY] $95-96",
        "[REJECT] $95",
        "[QUIT] $95",
        "[QUIT] now",
        "[REJECT] [QUIT]",
        "[SELL] $95",  # the other side's
        "BUY $95",
        "(BUY) $95",
        "[BUY $95]",
        "[BID] $95",
        "[ſELL] $95",  # noqa: RUF001
        "",
        "x [BUY] $95",
    ],
)
def test_a_malformed_action_of_the_buyer_is_refused(action: str) -> None:
    assert parse_message(f"Talk: Hello.\nAction: {action}", BUYER) is None


def test_the_sellers_message_with_the_buyers_action_is_refused() -> None:
    assert parse_message("Talk: Hello.\nAction: [BUY] $95.00", SELLER) is None


def test_the_last_action_line_counts_and_not_the_first() -> None:
    message = parse_message("Action: [BUY] $10\nTalk: No, wait.\nAction: [BUY] $20", BUYER)
    assert message == Message("", "No, wait.", Action(BUY, 20.0))


def test_an_earlier_action_does_not_help_where_the_last_one_is_broken() -> None:
    assert parse_message("Action: [BUY] $10\nAction: [BUY] twenty", BUYER) is None


def test_lines_after_the_last_action_are_ignored() -> None:
    message = parse_message("Talk: Hello.\nAction: [BUY] $10\nTalk: And $20!\nThought: hm", BUYER)
    assert message == Message("", "Hello.", Action(BUY, 10.0))


def test_the_price_is_never_read_from_talk() -> None:
    assert parse_message("Talk: I offer $40. [BUY] $40\nAction: [BUY]", BUYER) is None
    message = parse_message("Talk: I offer $40.\nAction: [BUY] $50", BUYER)
    assert message == Message("", "I offer $40.", Action(BUY, 50.0))


def test_an_action_inside_a_line_is_none() -> None:
    assert parse_message("Talk: my Action: [BUY] $10", BUYER) is None
    assert parse_message(" Action: [BUY] $10", BUYER) is None


@pytest.mark.parametrize(
    "text", ["", "hello", "Thought: x\nTalk: y", "Action", "[BUY] $95.00", "Thought: x\nTalk: y\nAct"]
)
def test_a_message_without_an_action_is_refused(text: str) -> None:
    assert parse_message(text, BUYER) is None


def test_thought_and_talk_may_span_lines() -> None:
    message = parse_message("Thought: one\ntwo\nTalk: three\n\nfour\nAction: [REJECT]", BUYER)
    assert message == Message("one\ntwo", "three\n\nfour", Action(REJECT))


def test_thought_may_be_missing_and_talk_empty() -> None:
    assert parse_message("Talk:\nAction: [REJECT]", BUYER) == Message("", "", Action(REJECT))
    assert parse_message("Action: [REJECT]", BUYER) == Message("", "", Action(REJECT))


def test_the_blank_behind_a_label_may_be_missing() -> None:
    assert parse_message("Thought:a\nTalk:b\nAction:[REJECT]", BUYER) == Message("a", "b", Action(REJECT))


def test_labels_are_read_in_any_case() -> None:
    message = parse_message("THOUGHT: a\ntalk: b\naCtIoN: [reject]", BUYER)
    assert message == Message("a", "b", Action(REJECT))


@pytest.mark.parametrize("label", ["Actıon", "ACTİON", "Tal\u212a"])  # noqa: RUF001
def test_letters_that_only_fold_to_a_label_open_no_part(label: str) -> None:
    message = parse_message(f"Talk: Hello.\n{label}: x\nAction: [REJECT]", BUYER)
    assert message == Message("", f"Hello.\n{label}: x", Action(REJECT))


def test_text_before_any_label_and_under_an_earlier_action_stays_private() -> None:
    message = parse_message("my secret\nAction: [BUY] $10\nanother\nTalk: Hello.\nAction: [BUY] $20", BUYER)
    assert message == Message("my secret", "Hello.", Action(BUY, 20.0))


def test_windows_line_ends_are_read() -> None:
    message = parse_message("Thought: a\r\nTalk: b\r\nAction: [BUY] $95.00\r\n", BUYER)
    assert message == Message("a", "b", Action(BUY, 95.0))


def test_a_message_may_have_2000_characters_and_no_more() -> None:
    start, end = "Talk: ", "\nAction: [BUY] $95.00"
    longest = start + "x" * (2000 - len(start) - len(end)) + end
    assert MAX_CHARACTERS == 2000
    assert parse_message(longest, BUYER) is not None
    assert parse_message("x" + longest, BUYER) is None
    assert parse_message(longest + "\n", BUYER) is None


def test_a_message_is_written_with_its_three_parts() -> None:
    assert (
        format_message(Message("low first", "Please.", Action(BUY, 1234.5)))
        == "Thought: low first\nTalk: Please.\nAction: [BUY] $1234.50"
    )


def test_an_empty_thought_is_left_out() -> None:
    assert format_message(Message("", "", Action(QUIT))) == "Talk:\nAction: [QUIT]"


def test_a_written_line_that_looks_like_a_label_cannot_open_a_part() -> None:
    message = Message("a\nTalk: secret", "b\nAction: [BUY] $1\nThought: c", Action(BUY, 2.0))
    text = format_message(message)
    assert text == ("Thought: a\n Talk: secret\nTalk: b\n Action: [BUY] $1\n Thought: c\nAction: [BUY] $2.00")
    assert parse_message(text, BUYER) == message


PARTS = (
    st.text(st.one_of(st.characters(codec="utf-8"), st.sampled_from("\n :")), max_size=60)
    | st.lists(st.sampled_from(["Action: [BUY] $1", " talk: x", "  Thought:", "\r", "hm", "", "$5"])).map("\n".join)
).map(str.strip)
PRICES = st.integers(1, 10**9).map(lambda cents: cents / 100)


@st.composite
def messages(draw: st.DrawFn, role: Role) -> Message:
    kind = draw(st.sampled_from([OFFERS[role], DEAL, REJECT, QUIT]))
    price = draw(PRICES) if kind in (OFFERS[role], DEAL) else None
    return Message(draw(PARTS), draw(PARTS), Action(kind, price))


@settings(deadline=None)
@given(st.sampled_from(Role).flatmap(lambda role: st.tuples(st.just(role), messages(role))))
def test_reading_what_was_written_gives_the_message_back(case: tuple[Role, Message]) -> None:
    role, message = case
    assert parse_message(format_message(message), role) == message


@settings(deadline=None)
@given(st.integers(1, 10**8), st.booleans(), st.sampled_from(["", "$", "$ "]))
def test_every_amount_in_cents_is_read_with_and_without_commas(cents: int, commas: bool, mark: str) -> None:
    amount = f"{cents // 100:,}.{cents % 100:02}" if commas else f"{cents // 100}.{cents % 100:02}"
    message = parse_message(say(f"[SELL] {mark}{amount}"), SELLER)
    assert message is not None and message.action.price == cents / 100
