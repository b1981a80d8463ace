"""A trained buyer in service: it answers a dialogue so far, and is held to its budget.

The guard belongs to serving alone; training and evaluation run without it.
"""

from collections.abc import Mapping, Sequence
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
    overshoots,
)
from dealwright.game.reward import TOLERANCE
from dealwright.players import BuyerSettings, language_buyer
from dealwright.prompts import render_buyer

REFUSAL = format_message(Message("", "I cannot do that.", Action(ActionKind.REJECT)))
ROLES = {"assistant": Role.BUYER, "buyer": Role.BUYER, "user": Role.SELLER, "seller": Role.SELLER}


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
            outcome = game.play(Role.BUYER, text)
            broken = outcome is not None and (outcome.stop is StopReason.INVALID or overshoots(game.scenario, outcome))
            if not broken and (game.standing_offer(Role.BUYER) or 0) <= game.scenario.budget + TOLERANCE:
                return text
        self.guarded += 1
        return REFUSAL


def replay(dialogue: Mapping[str, Any], id: str, max_turns: int) -> Negotiation:
    """Rebuild the game from a dialogue; raises DialogueError where it is not the buyer's move."""
    list_price, budget = _amount(dialogue, "list_price"), _amount(dialogue, "budget")
    title = dialogue.get("title")
    if not isinstance(title, str) or not title.strip():
        raise DialogueError(f"dialogue {id}: expected a title, got {title!r}")
    words = {key: value if isinstance(value := dialogue.get(key), str) else "" for key in ("category", "description")}
    product = Product(id, title, words["category"], words["description"], list_price, list_price, list_price)
    # The cost is the seller's secret: a buyer in service has none to know, and its view shows none.
    game = Negotiation(Scenario(id, product, list_price, 0.0, budget, 0, "served"), max_turns)
    messages = dialogue.get("messages")
    for index, message in enumerate(messages if isinstance(messages, Sequence) else [], start=1):
        role = ROLES.get(message.get("role"))
        if role is not game.to_move:
            raise DialogueError(
                f"dialogue {id}, message {index}: expected the {game.to_move}, got {message.get('role')!r}"
            )
        if (outcome := game.play(role, str(message.get("content")))) is not None:
            raise DialogueError(f"dialogue {id}, message {index}: the game is over there ({outcome.stop})")
    if game.to_move is not Role.BUYER:
        raise DialogueError(f"dialogue {id}: expected the seller's answer last, got the buyer's message")
    return game


def _amount(dialogue: Mapping[str, Any], key: str) -> float:
    value = dialogue.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise DialogueError(f"expected {key} as a positive amount in dollars, got {value!r}")
    return float(value)
