"""The verifiable reward of the protocol, section 5."""

from dealwright.game.negotiation import Outcome, StopReason
from dealwright.game.scenario import Scenario

# A budget of 0.8 · P is rarely exact in binary; a thousandth of a cent is no overshoot.
TOLERANCE = 1e-5


def overshoots(scenario: Scenario, outcome: Outcome) -> bool:
    """Say whether the game ended in a deal above the budget."""
    return outcome.price is not None and outcome.price > scenario.budget + TOLERANCE


def reward(scenario: Scenario, outcome: Outcome) -> float | None:
    """Return the buyer's reward in [-1, 1] from the final state alone; None where the seller's backend failed.

    R = clip((B - price) / |B - C|, -1, 1) for a deal within the budget, -1 for a deal above it or a broken rule, 0 for
    no deal (arXiv 2604.09855; protocol, section 5). Where B = C, to within the tolerance, a deal within the budget
    earns 0.
    """
    if outcome.stop is StopReason.SELLER_FAILED:
        return None
    if outcome.stop is StopReason.INVALID or overshoots(scenario, outcome):
        return -1.0
    if outcome.price is None:
        return 0.0
    spread = abs(scenario.budget - scenario.cost)
    if spread <= TOLERANCE:
        return 0.0
    return max(-1.0, min(1.0, (scenario.budget - outcome.price) / spread))
