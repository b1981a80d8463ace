"""A trained buyer in service: it answers a dialogue so far, and is held to its budget.

The guard belongs to serving alone; training and evaluation run without it.
"""

import math
from collections.abc import Mapping, Sequence
from reprlib import repr as shown
from typing import Any

from dealwright.engines.base import Engine
from dealwright.errors import DealwrightError
from dealwright.game import (
    Action,
    ActionKind,
    Message,
    Negotiation,
    Product,
    Role,
    Scenario,
    StopReason,
    format_message,
)
from dealwright.game.reward import TOLERANCE
from dealwright.players import BuyerSettings, language_buyer
from dealwright.prompts import render_buyer

REFUSAL = format_message(Message("", "I cannot do that.", Action(ActionKind.REJECT)))
AMOUNTS = (0.01, 1_000_000_000)
LONGEST_TEXT = 5000  # characters
ROLES = {"assistant": Role.BUYER, "buyer": Role.BUYER, "user": Role.SELLER, "seller": Role.SELLER}
# The cost is the seller's secret: a buyer in service has none to know, and its view shows none.
UNKNOWN_COST = 0.01


class DialogueError(DealwrightError):
    """A dialogue that cannot be answered; the message says which part of it and why."""


class ServedBuyer:
    """Answers dialogues of games with `max_turns` turns; `guarded` counts the answers that the guard replaced."""

    def __init__(self, engine: Engine, settings: BuyerSettings, max_turns: int) -> None:
        self.engine = engine
        self.settings = settings
        self.max_turns = max_turns
        self.answered = 0
        self.guarded = 0

    def answer(self, dialogues: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the buyer's next message in each dialogue.

        A dialogue has `title`, `list_price`, `budget`, and where known `category`, `description` and `messages`: the
        messages so far as {"role", "content"}, the buyer's own (`assistant`) first, then the seller's (`user`).
        """
        games = [replay(dialogue, str(index), self.max_turns) for index, dialogue in enumerate(dialogues)]
        prompts = {
            game.scenario.id: render_buyer(game.scenario, self.settings.style, self.max_turns) for game in games
        }
        buyer = language_buyer(self.engine, prompts, self.settings, seed=self.answered)
        answers = [self._guard(game, text) for game, text in zip(games, buyer.respond(games), strict=True)]
        self.answered += len(answers)
        return answers

    def _guard(self, game: Negotiation, text: str | None) -> str:
        """Refuse in the buyer's name where its own message breaks the rules or goes above the budget."""
        if text is not None:
            game.play(Role.BUYER, text)
            if keeps_to_budget(game):
                return text
        self.guarded += 1
        return REFUSAL


def keeps_to_budget(game: Negotiation) -> bool:
    """Say whether the buyer's message that was just played is by the rules and not above its budget."""
    message, outcome = game.transcript[-1].message, game.outcome
    if message is None or (outcome is not None and outcome.stop is StopReason.INVALID):
        return False
    # A deal is struck at the seller's offer, which may be a cent above the price that the buyer wrote.
    price = message.action.price if outcome is None else outcome.price
    return price is None or price <= game.scenario.budget + TOLERANCE


def replay(dialogue: Mapping[str, Any], id: str, max_turns: int) -> Negotiation:
    """Rebuild the game from a dialogue; raises DialogueError where it is not the buyer's move."""
    list_price, budget = (_amount(dialogue, key, id) for key in ("list_price", "budget"))
    title, category, description = (_text(dialogue, key, id) for key in ("title", "category", "description"))
    if not title:
        raise DialogueError(f"dialogue {id}: expected a title, got {dialogue.get('title')!r}")
    product = Product(id, title, category, description, list_price, list_price, list_price)
    game = Negotiation(Scenario(id, product, list_price, UNKNOWN_COST, budget, 0, "served"), max_turns)
    for index, message in enumerate(_messages(dialogue, id), start=1):
        role = ROLES.get(message["role"])
        if role is not game.to_move:
            raise DialogueError(
                f"dialogue {id}, message {index}: expected the {game.to_move}, got {shown(message['role'])}"
            )
        if (outcome := game.play(role, message["content"])) is not None:
            raise DialogueError(f"dialogue {id}, message {index}: the game is over there ({outcome.stop})")
    if game.to_move is not Role.BUYER:
        raise DialogueError(f"dialogue {id}: expected the seller's answer last, got the buyer's message")
    return game


def _messages(dialogue: Mapping[str, Any], id: str) -> Sequence[Mapping[str, str]]:
    """Return the messages so far; none where the field is missing, or empty as pandas has it."""
    messages = dialogue.get("messages")
    if messages is None or (isinstance(messages, float) and math.isnan(messages)):
        return []
    if isinstance(messages, str) or not isinstance(messages, Sequence):
        raise DialogueError(f"dialogue {id}: expected messages as a list, got {shown(messages)}")
    for index, message in enumerate(messages, start=1):
        texts = [message.get(key) for key in ("role", "content")] if isinstance(message, Mapping) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            raise DialogueError(f"dialogue {id}, message {index}: expected a role and a content, got {shown(message)}")
    return messages


def _text(dialogue: Mapping[str, Any], key: str, id: str) -> str:
    value = dialogue.get(key)
    text = value.strip() if isinstance(value, str) else ""
    if len(text) > LONGEST_TEXT:
        raise DialogueError(f"dialogue {id}: expected {key} with at most {LONGEST_TEXT} characters, got {len(text)}")
    return text


def _amount(dialogue: Mapping[str, Any], key: str, id: str) -> float:
    value = dialogue.get(key)
    low, high = AMOUNTS
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise DialogueError(f"dialogue {id}: expected {key} in dollars from {low} to {high:,}, got {shown(value)}")
    return float(value)
