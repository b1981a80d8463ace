"""The rules of the game: pure, and free of everything else in this project."""

from dealwright.game.message import (
    MAX_CHARACTERS,
    OFFERS,
    Action,
    ActionKind,
    Message,
    format_message,
    parse_message,
)
from dealwright.game.money import find_money, format_price, round_down, round_up, to_cents
from dealwright.game.negotiation import Entry, Negotiation, Outcome, StopReason
from dealwright.game.regulator import Regulator, Ruling, Violation
from dealwright.game.reward import overshoots, reward
from dealwright.game.scenario import Product, Role, Scenario, Zone

__all__ = [
    "MAX_CHARACTERS",
    "OFFERS",
    "Action",
    "ActionKind",
    "Entry",
    "Message",
    "Negotiation",
    "Outcome",
    "Product",
    "Regulator",
    "Role",
    "Ruling",
    "Scenario",
    "StopReason",
    "Violation",
    "Zone",
    "find_money",
    "format_message",
    "format_price",
    "overshoots",
    "parse_message",
    "reward",
    "round_down",
    "round_up",
    "to_cents",
]
