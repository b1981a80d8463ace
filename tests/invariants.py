"""What holds of every text and of every game, whoever made it up; the property tests and the fuzzer check it alike."""

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from dealwright.game import (
    MAX_CHARACTERS,
    OFFERS,
    ActionKind,
    Negotiation,
    Outcome,
    Regulator,
    Role,
    Scenario,
    StopReason,
    format_message,
    format_price,
    parse_message,
    reward,
    to_cents,
)
from tests.games import say

_MARKED = re.compile(r"\$([0-9]+\.[0-9]{2})(?![0-9])")

# A move is a text, or a deal at the other side's standing offer give or take some cents.
Move = str | int


def check_text(text: str, role: Role) -> None:
    """Check that a text is read or refused without an exception, and reads the same once it is written again."""
    message = parse_message(text, role)
    if message is None:
        return
    kind, price = message.action.kind, message.action.price
    assert kind is not OFFERS[role.other]
    assert (price is None) == (kind in (ActionKind.REJECT, ActionKind.QUIT))
    assert price is None or (0 < price * 100 < math.inf and to_cents(price) > 0)
    again = format_message(message)
    assert len(again) > MAX_CHARACTERS or parse_message(again, role) == message


def check_game(
    scenario: Scenario,
    moves: Iterable[Move],
    max_turns: int = 6,
    regulated: bool = True,
    monotone: bool = True,
    reached: Counter[str] | None = None,
) -> Negotiation:
    """Play a game from the first move on, check every step, and return the game; count what was refused."""
    game, regulator = Negotiation(scenario, max_turns), Regulator(scenario, monotone)
    for move in moves:
        if game.outcome is not None:
            break
        role = game.to_move
        text = _in_words(game, move)
        if role is Role.SELLER and regulated:
            text = _ruled(game, regulator, text, Counter() if reached is None else reached)
        standing = game.standing_offer(role.other)
        outcome = game.play(role, text)
        assert outcome == game.outcome
        if outcome is not None and outcome.stop is StopReason.DEAL:
            last = game.transcript[-1].message
            assert standing is not None and outcome.price == standing
            assert last is not None and last.action.price is not None
            assert abs(to_cents(last.action.price) - to_cents(standing)) <= 1
        if regulated:
            _check_seller(game, monotone)
    _check_end(game, regulated)
    return game


def check_secrets(game: Negotiation, role: Role, limit: float, thought: str) -> None:
    """Check that another limit and other thoughts of one side change nothing that the other side sees."""
    scenario = replace(game.scenario, cost=limit) if role is Role.SELLER else replace(game.scenario, budget=limit)
    other = Negotiation(scenario, game.max_turns)
    for entry in game.transcript:
        text = entry.text
        if entry.role is role and entry.message is not None:
            text = format_message(replace(entry.message, thought=thought))
            if len(text) > MAX_CHARACTERS:
                return
        other.play(entry.role, text)
    assert other.view(role.other) == game.view(role.other)
    assert other.outcome == game.outcome


def exact_reward(scenario: Scenario, outcome: Outcome) -> Fraction | None:
    """Reckon the reward once more, in fractions and from the protocol's sentence.

    Amounts that differ by less than a thousandth of a cent are equal: a budget of 0.8 of a price is rarely exact.
    """
    if outcome.stop == "seller_failed":
        return None
    if outcome.stop == "invalid":
        return Fraction(-1)
    if outcome.stop != "deal" or outcome.price is None:
        return Fraction(0)
    budget, cost, price = (Fraction(amount) for amount in (scenario.budget, scenario.cost, outcome.price))
    if price - budget > Fraction(1, 100_000):
        return Fraction(-1)
    width = budget - cost if budget > cost else cost - budget
    if width <= Fraction(1, 100_000):
        return Fraction(0)
    share = (budget - price) / width
    return Fraction(1) if share > 1 else Fraction(-1) if share < -1 else share


def _in_words(game: Negotiation, move: Move) -> str:
    if isinstance(move, str):
        return move
    offer = game.standing_offer(game.to_move.other) or 40.0
    return say(f"[DEAL] {format_price(offer + move / 100)}")


def _ruled(game: Negotiation, regulator: Regulator, text: str, reached: Counter[str]) -> str:
    """Let the regulator rule; what it puts in place of a message concedes nothing."""
    ruling = regulator.rule(game, text)
    message = parse_message(ruling.text, Role.SELLER)
    assert message is not None
    if ruling.violation is None:
        assert ruling.text == text
        return text
    reached[f"refused: {ruling.violation}"] += 1
    ask = game.standing_offer(Role.SELLER)
    assert message.action.kind is ActionKind.SELL and message.action.price is not None
    assert message.action.price >= (game.scenario.list_price if ask is None else ask)
    return ruling.text


def _check_seller(game: Negotiation, monotone: bool) -> None:
    """Check the seller's side of a game whose seller is regulated."""
    assert game.outcome is None or game.outcome.stop is not StopReason.SELLER_FAILED
    assert game.outcome is None or game.outcome.price is None or game.outcome.price >= game.scenario.cost
    asks = [ask for ask in game.offers(Role.SELLER) if ask is not None]
    assert all(ask >= game.scenario.cost for ask in asks)
    assert not monotone or asks == sorted(asks, reverse=True)
    formal = {to_cents(ask) for ask in asks}
    for entry in game.transcript:
        if entry.role is Role.SELLER and entry.message is not None:
            price = entry.message.action.price
            told = {
                to_cents(float(amount)) for amount in re.findall(r"\$([0-9]+\.[0-9]{2})(?![0-9])", entry.message.talk)
            }
            stated = told - formal - ({to_cents(price)} if price is not None else set())
            assert to_cents(game.scenario.cost) not in stated


def _check_end(game: Negotiation, regulated: bool) -> None:
    """Check that a game has one outcome, that nothing follows it, and what it is worth."""
    if len(game.transcript) == 2 * game.max_turns:
        assert game.outcome is not None
    if game.outcome is None:
        return
    assert 1 <= game.outcome.turns == (len(game.transcript) + 1) // 2 <= game.max_turns
    assert (game.outcome.price is not None) == (game.outcome.stop is StopReason.DEAL)
    before, length = game.outcome, len(game.transcript)
    for role in Role:
        try:
            game.play(role, say("[REJECT]"))
        except ValueError:
            continue
        raise AssertionError("a message was played after the end")
    assert (game.outcome, len(game.transcript)) == (before, length)
    earned, exact = reward(game.scenario, game.outcome), exact_reward(game.scenario, game.outcome)
    if earned is None or exact is None:
        assert earned is None and exact is None and not regulated
    else:
        assert -1.0 <= earned <= 1.0 and abs(Fraction(earned) - exact) < Fraction(1, 10**9)
