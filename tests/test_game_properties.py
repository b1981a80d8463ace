"""Games of arbitrary messages: what holds of every one of them."""

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from dealwright.game import Role, Scenario
from tests.games import a_scenario, say
from tests.invariants import Move, check_game, check_secrets, check_text

CENTS = st.integers(1, 20_000)
# Many games are about the same few amounts, so that limits, offers and what is said of them meet.
AMOUNTS = st.sampled_from([39_99, 40_00, 49_99, 50_00, 50_01, 80_00, 99_99, 100_00]) | CENTS
PRICES = AMOUNTS.map(lambda cents: f"{cents // 100}.{cents % 100:02}")
WORDS = st.sampled_from(["It cost me ", "$", " dollars", "50.00", "$80.00", "USD ", "\n", "Action: ", "[DEAL] $1"])
TALK = st.lists(WORDS | PRICES | st.text(max_size=8), max_size=5).map("".join)
ODD = st.sampled_from(["[QUIT]", "[BUY]", "[SELL] $0", "[BUY] $1,00", "[BUY] $40", "[SELL] $40", ""])


def moves(kind: str) -> st.SearchStrategy[Move]:
    """Return what a side may do: mostly offers of its own kind, at times a refusal, a deal, or any text at all."""
    offer = st.builds(say, st.builds("{} ${}".format, st.just(kind), PRICES), TALK, TALK)
    refusal = st.builds(say, st.just("[REJECT]"), TALK, TALK)
    odd = st.builds(say, ODD, TALK, TALK) | st.text(max_size=40)
    # A choice among strategies would take each of them once.
    choices: list[st.SearchStrategy[Move]] = [*[offer] * 12, *[refusal] * 3, st.integers(-2, 2), odd]
    return st.sampled_from(choices).flatmap(lambda chosen: chosen)


MOVES: st.SearchStrategy[list[Move]] = st.lists(
    st.tuples(moves("[BUY]"), moves("[SELL]")), min_size=1, max_size=7
).map(lambda turns: [move for turn in turns for move in turn])
SCENARIOS: st.SearchStrategy[Scenario] = st.builds(
    lambda list_price, cost, factor: a_scenario(list_price / 100, cost / 100, factor * list_price / 100),
    AMOUNTS,
    AMOUNTS | CENTS.map(lambda cents: cents + 0.1),  # a cost between two cents
    st.sampled_from([0.8, 0.5, 1.0]),
)


@settings(deadline=None, max_examples=500)
@given(SCENARIOS, MOVES, st.integers(1, 6), st.booleans(), st.booleans())
def test_any_messages_give_one_outcome_and_a_regulated_seller_never_goes_below_cost(
    scenario: Scenario, moves: list[Move], max_turns: int, regulated: bool, monotone: bool
) -> None:
    check_game(scenario, moves, max_turns, regulated, monotone)


@settings(deadline=None, max_examples=300)
@given(SCENARIOS, MOVES, st.booleans(), st.sampled_from(Role), AMOUNTS, TALK.map(str.strip))
def test_neither_limit_nor_thought_of_one_side_changes_what_the_other_sees(
    scenario: Scenario, moves: list[Move], regulated: bool, role: Role, limit: int, thought: str
) -> None:
    check_secrets(check_game(scenario, moves, regulated=regulated), role, limit / 100, thought)


LINES = st.lists(
    st.sampled_from(
        ["Thought: ", "Talk: ", "Action: ", "ACTION:", "[BUY]", "[DEAL]", "[QUIT]", " $", "$5.00", "1,0", "\n"]
    )
    | st.text(string.printable + "\u0131\u0130\u017f\u2028\x85", max_size=8)
).map("".join)


@settings(deadline=None, max_examples=500)
@given(LINES | st.builds(say, ODD, TALK, TALK), st.sampled_from(Role))
def test_any_text_is_read_or_refused_and_reads_the_same_once_it_is_written_again(text: str, role: Role) -> None:
    check_text(text, role)
