"""Which message earned what."""

from random import Random

import numpy as np
import pytest
import torch

from dealwright.game import Negotiation, Role
from dealwright.training.credit import Table, before_each_message, by_token, message_advantages
from tests.games import a_scenario, say

ASKS = (70.0, 90.0)  # of the budget of 80


def two_turns(first: str, ask: float, last: str) -> Negotiation:
    """Play an offer, an ask and a last word of the buyer."""
    game = Negotiation(a_scenario())
    for role, text in ((Role.BUYER, first), (Role.SELLER, say(f"[SELL] ${ask}")), (Role.BUYER, last)):
        game.play(role, text)
    return game


def games_decided_by_their_first_message() -> tuple[list[list[Table]], list[float]]:
    """Return 32 groups of 8 games: a first offer of $50 brings a low ask and a deal, one of $40 neither.

    The deal is worth 0.2 in every other group and 0.8 in the others. The last message makes no difference.
    """
    games, rewards, draw = [], [], Random(0)
    for number in range(256):
        good, word = draw.random() < 0.5, draw.randrange(2)
        games.append(two_turns(say(f"[BUY] ${50 if good else 40}"), ASKS[not good], say("[QUIT]", "Bye." * word)))
        rewards.append(good * (0.2 if number // 8 % 2 else 0.8))
    return [before_each_message(game) for game in games], rewards


def test_a_message_is_credited_with_what_it_changed_and_the_next_one_is_not() -> None:
    tables, rewards = games_decided_by_their_first_message()
    advantages = np.array(message_advantages(tables, rewards, 8, credit=0.0))
    good = np.array(rewards) > 0
    assert [advantages[good, 0].mean(), advantages[~good, 0].mean()] == pytest.approx([0.25, -0.25], abs=0.06)
    assert [advantages[good, 1].mean(), advantages[~good, 1].mean()] == pytest.approx([0.0, 0.0], abs=0.06)


def test_with_full_credit_a_message_has_all_that_came_after_it() -> None:
    tables, rewards = games_decided_by_their_first_message()
    none = np.array(message_advantages(tables, rewards, 8, credit=0.0))
    full = np.array(message_advantages(tables, rewards, 8, credit=1.0))
    half = np.array(message_advantages(tables, rewards, 8, credit=0.5))
    assert full[:, 0] == pytest.approx(none[:, 0] + none[:, 1])
    assert half[:, 0] == pytest.approx(none[:, 0] + 0.5 * none[:, 1])
    assert full[:, 1] == pytest.approx(none[:, 1])


def test_no_game_has_a_part_in_the_worth_that_it_is_held_against() -> None:
    tables, rewards = games_decided_by_their_first_message()
    before = message_advantages(tables, rewards, 8, credit=0.7)
    after = message_advantages(tables, [rewards[0] + 0.25, *rewards[1:]], 8, credit=0.7)
    assert after[0][1] - before[0][1] == pytest.approx(0.25)
    assert after[0][0] - before[0][0] == pytest.approx(0.7 * 0.25)


def test_a_game_without_a_reward_teaches_nothing() -> None:
    tables, rewards = games_decided_by_their_first_message()
    failed: list[float | None] = [None, *rewards[1:]]
    advantages = message_advantages(tables, failed, 8, credit=0.7)
    assert advantages[0] == [0.0, 0.0]
    assert all(np.isfinite(advantages).ravel())
    assert message_advantages(tables, [None] * 256, 8, credit=0.7) == [[0.0, 0.0]] * 256


def test_games_of_different_length_and_broken_messages_have_their_own_worths() -> None:
    tables, rewards = games_decided_by_their_first_message()
    short = Negotiation(a_scenario())
    short.play(Role.BUYER, "no action at all")
    advantages = message_advantages([before_each_message(short), *tables[1:]], [-1.0, *rewards[1:]], 8, credit=0.7)
    assert [len(messages) for messages in advantages] == [1, *[2] * 255]
    assert advantages[0][0] < -0.9


def test_advantages_are_spread_over_the_runs_of_the_buyers_tokens() -> None:
    own = torch.tensor([[1, 1, 0, 0, 1, 0], [1, 0, 1, 0, 1, 1]])
    spread = by_token([[0.5, -0.25], [1.0, 2.0, 3.0]], own)
    assert spread.tolist() == [[0.5, 0.5, 0.0, 0.0, -0.25, 0.0], [1.0, 0.0, 2.0, 0.0, 3.0, 3.0]]


def test_a_mask_of_other_games_is_refused() -> None:
    with pytest.raises(ValueError, match="a run of own tokens a message"):
        by_token([[0.5]], torch.tensor([[1, 0, 1]]))
