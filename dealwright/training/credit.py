"""Which message earned what: an advantage for each of the buyer's messages (`train.credit` below 1).

A game's reward is the work of up to six messages, so as the advantage of each it is mostly noise. Here a message is
credited with what the table was worth after it less what it was worth before, and with a falling share of the changes
that later messages brought: generalised advantage estimation (Schulman et al. 2016, arXiv 1506.02438), without a
discount and without a second network. What a table is worth is a ridge regression of the rewards on what stands on it:
the mean reward of the group's other games, the offers, the arguments used. It is fitted on the games over other
products of the same step, so that no game has a part in the worth that it is held against.
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from dealwright.agents import detect_argument
from dealwright.agents.buyers import observe
from dealwright.game import Negotiation, Role

Floats = NDArray[np.float64]
Table = tuple[float, ...]  # what the offers and arguments so far amount to

FOLDS = 4  # parts of a step's groups; the worth in one is fitted on the others
RIDGE = 1.0
LARGEST = 6.0  # shares of the budget above this say no more


def before_each_message(game: Negotiation) -> list[Table]:
    """Return what stands on the table before each of the buyer's messages, amounts as shares of the budget."""
    asks, offers = game.offers(Role.SELLER), game.offers(Role.BUYER)
    said = [entry.message for entry in game.transcript if entry.role is Role.BUYER]
    cues = observe(game).cues
    ask = last_ask = game.scenario.list_price / game.scenario.budget
    offer, hinted, other = 0.0, 0, 0
    tables: list[Table] = []
    for turn, message in enumerate(said):
        row = (ask, ask * ask, max(0.0, 1 - ask), offer, offer * offer, ask * offer, last_ask - ask, hinted, other)
        tables.append(tuple(min(LARGEST, max(-LARGEST, value)) for value in row))
        argument = detect_argument(message.talk) if message else None
        if argument is not None:
            hinted, other = hinted + (argument in cues), other + (argument not in cues)
        last_ask = ask
        offer = _share(game, offers, turn, offer)
        ask = _share(game, asks, turn, ask)
    return tables


def message_advantages(
    tables: Sequence[Sequence[Table]], rewards: Sequence[float | None], group_size: int, credit: float
) -> list[list[float]]:
    """Return the advantage of each of the buyer's messages in finished games, which stand group by group.

    `tables` holds what stood before each of a game's messages; `credit` in [0, 1] is the share of the change after the
    next message, its square that of the one after, and so on.
    A game without a reward has zeros, and no part in what tables are worth.
    """
    earned = np.array([np.nan if value is None else value for value in rewards], dtype=np.float64)
    advantages = []
    for reward, worths in zip(earned, _worths(tables, earned, group_size), strict=True):
        changes = np.diff([*worths, reward])
        later, found = 0.0, []
        for change in changes[::-1]:
            later = float(change) + credit * later
            found.append(later)
        advantages.append(found[::-1] if np.isfinite(reward) else [0.0] * len(worths))
    return advantages


def by_token(advantages: Sequence[Sequence[float]], own: torch.Tensor) -> torch.Tensor:
    """Spread the messages' advantages over tokens: `own`, of shape (games, tokens), is 1 where the buyer spoke.

    A message is a run of its own tokens; every other token gets 0. Raises ValueError where there are not as many runs
    as messages.
    """
    begins = own.bool() & ~torch.nn.functional.pad(own.bool(), (1, 0))[:, :-1]
    if begins.sum(1).tolist() != [len(messages) for messages in advantages]:
        raise ValueError("expected a run of own tokens a message; the mask and the games do not belong together")
    padded = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor([0.0, *messages], device=own.device) for messages in advantages], batch_first=True
    )
    return padded.gather(1, begins.cumsum(1)) * own


def _worths(tables: Sequence[Sequence[Table]], earned: Floats, group_size: int) -> list[Floats]:
    """Return what the table of each game was worth before each of the buyer's messages."""
    groups = np.arange(len(tables)) // group_size
    others = _means_of_others(earned.reshape(-1, group_size)).reshape(-1)
    worths = [np.zeros(len(table)) for table in tables]
    for turn in range(max(map(len, tables))):
        rows = [row for row, table in enumerate(tables) if len(table) > turn and np.isfinite(earned[row])]
        features = np.array([[others[row], *tables[row][turn]] for row in rows])
        for fold in range(FOLDS):
            inside = groups[rows] % FOLDS == fold
            if inside.any() and not inside.all():
                worth = _fitted(features[~inside], earned[rows][~inside])
                for row, value in zip(np.array(rows)[inside], worth(features[inside]), strict=True):
                    worths[row][turn] = value
    return worths


def _means_of_others(earned: Floats) -> Floats:
    """Return, for each game of a group a row, the mean reward of the others; 0 where there are none."""
    known = np.isfinite(earned)
    total = np.where(known, earned, 0.0)
    return (total.sum(1, keepdims=True) - total) / np.maximum(known.sum(1, keepdims=True) - known, 1)


def _fitted(features: Floats, rewards: Floats) -> Callable[[Floats], Floats]:
    """Fit a ridge regression on standardised features."""
    mean, spread = features.mean(0), features.std(0)
    spread[spread == 0] = 1.0
    scaled = (features - mean) / spread
    penalty = RIDGE * np.eye(scaled.shape[1])
    weights = np.linalg.solve(scaled.T @ scaled + penalty, scaled.T @ (rewards - rewards.mean()))
    return lambda rows: rewards.mean() + (rows - mean) / spread @ weights


def _share(game: Negotiation, amounts: Sequence[float | None], turn: int, before: float) -> float:
    """Return the amount of a turn as a share of the budget, or what stood before where none was named."""
    amount = amounts[turn] if turn < len(amounts) else None
    return before if amount is None else amount / game.scenario.budget
