"""The regulator that stands between any seller and the game (protocol, section 4)."""

from dataclasses import dataclass
from enum import StrEnum

from dealwright.game.message import Action, ActionKind, Message, format_message, parse_message
from dealwright.game.money import find_money, round_up, to_cents
from dealwright.game.negotiation import Negotiation
from dealwright.game.scenario import Role, Scenario

REPLACEMENT_TALK = "I stay with my price."


class Violation(StrEnum):
    """A rule that a seller's message broke."""

    MALFORMED = "malformed"
    BELOW_COST = "below_cost"
    LEAK = "leak"
    RISE = "rise"


@dataclass(frozen=True, slots=True)
class Ruling:
    """The text that may be played, and the violation that made the regulator replace the seller's own."""

    text: str
    violation: Violation | None


class Regulator:
    """Keeps a seller from selling below cost, leaking its cost, breaking the format or raising its ask.

    `monotone` forbids formal offers above the seller's own last one.
    """

    def __init__(self, scenario: Scenario, monotone: bool = True) -> None:
        self.scenario = scenario
        self.monotone = monotone
        # A cost between two cents is shown to a seller rounded up.
        self._costs = {to_cents(scenario.cost), to_cents(round_up(scenario.cost))}

    def rule(self, game: Negotiation, text: str) -> Ruling:
        """Pass a seller's message, or replace it by its last ask repeated (the list price if it has none).

        The replacement never concedes, so provoking violations never pays.
        """
        violation = self._violation(game, text)
        if violation is None:
            return Ruling(text, None)
        ask = game.standing_offer(Role.SELLER)
        price = round_up(max(self.scenario.list_price, self.scenario.cost)) if ask is None else ask
        return Ruling(format_message(Message("", REPLACEMENT_TALK, Action(ActionKind.SELL, price))), violation)

    def _violation(self, game: Negotiation, text: str) -> Violation | None:
        message = parse_message(text, Role.SELLER)
        if message is None:
            return Violation.MALFORMED
        action, ask, bid = message.action, game.standing_offer(Role.SELLER), game.standing_offer(Role.BUYER)
        price = action.price
        if action.kind is ActionKind.DEAL:
            if bid is None or price is None or abs(to_cents(price) - to_cents(bid)) > 1:
                return Violation.MALFORMED
            price = bid
        if price is not None and price < self.scenario.cost:
            return Violation.BELOW_COST
        formal = {to_cents(amount) for amount in [*game.offers(Role.SELLER), price] if amount is not None}
        if self._costs & {to_cents(amount) for amount in find_money(message.talk)} - formal:
            return Violation.LEAK
        rises = action.kind is ActionKind.SELL and ask is not None and price is not None and price > ask
        return Violation.RISE if self.monotone and rises else None
