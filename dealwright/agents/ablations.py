"""The concession seller with one road of language cut, to see what a buyer's words and the seller's hints are worth.

Each is the same seller in everything else: the same type, the same draws, the same rule.
"""

from dealwright.agents.arguments import Argument
from dealwright.agents.concession import SellerType, draw_type
from dealwright.agents.sellers import ConcessionSeller, Heard
from dealwright.game import Negotiation

OTHER_GAME = 1_000_000  # added to the round: that game's seller is met nowhere else


class TalkEmptied(ConcessionSeller):
    """Hears the buyer's offers and none of its arguments."""

    def _hear(self, game: Negotiation) -> Heard:
        return [(offer, None) for offer, _ in super()._hear(game)]


class StockArguments(ConcessionSeller):
    """Hears, in place of the arguments that the buyer chose, the six kinds in turn."""

    def _hear(self, game: Negotiation) -> Heard:
        heard: Heard = []
        kinds = list(Argument)
        said = 0
        for offer, argument in super()._hear(game):
            heard.append((offer, None if argument is None else kinds[said % len(kinds)]))
            said += argument is not None
        return heard


class CuesRemoved(ConcessionSeller):
    """Hints at nothing."""

    def _hints(self, game: Negotiation, type: SellerType) -> list[Argument]:
        return []


class CuesSwapped(ConcessionSeller):
    """Hints at what would move the seller of another game."""

    def _hints(self, game: Negotiation, type: SellerType) -> list[Argument]:
        return sorted(draw_type(self.column, game.scenario, game.round + OTHER_GAME, game.max_turns).receptive)


ABLATIONS: dict[str, type[ConcessionSeller]] = {
    "talk_emptied": TalkEmptied,
    "stock_arguments": StockArguments,
    "cues_removed": CuesRemoved,
    "cues_swapped": CuesSwapped,
}
