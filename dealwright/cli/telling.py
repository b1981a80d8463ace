"""How a game is told in a terminal: its messages, its end, and the numbers that were hidden."""

from dealwright.game import Outcome, format_price
from dealwright.game.negotiation import Entry
from dealwright.prompts import neutralise


def printable(text: str) -> str:
    """Return text that may be printed: on one line, without anything that a terminal would obey."""
    return "".join(letter for letter in " ".join(neutralise(text).split()) if letter.isprintable())


def told(entry: Entry) -> str:
    """Write one message as the other side may see it."""
    if entry.message is None:
        return f"{entry.role}> (says nothing that the rules allow)"
    action = entry.message.action
    price = "" if action.price is None else f" {format_price(action.price)}"
    talk = f"   {printable(entry.message.talk)}" if entry.message.talk else ""
    return f"{entry.role}> [{action.kind}]{price}{talk}"


def ending(outcome: Outcome) -> str:
    """Write how a game ended."""
    price = "" if outcome.price is None else f" at {format_price(outcome.price)}"
    return f"{outcome.stop.replace('_', ' ')}{price} in turn {outcome.turns}"


def prices(list_price: float, budget: float, cost: float, zone: str) -> str:
    """Write the three prices of a scenario."""
    amounts = {"list price": list_price, "budget": budget, "cost": cost}
    return f"{', '.join(f'{name} {format_price(amount)}' for name, amount in amounts.items())} ({zone} zone)"


def gained(reward: float) -> str:
    """Write the buyer's reward."""
    return f"the buyer's reward is {reward:+.2f} (1: at cost, 0: no gain, -1: above the budget or broken rules)"
