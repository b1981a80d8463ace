"""What rollouts ask of whoever sits at the table."""

from collections.abc import Sequence
from typing import Protocol

from dealwright.game import Negotiation


class Agent(Protocol):
    """A buyer or a seller that answers many games at once."""

    def respond(self, games: Sequence[Negotiation]) -> Sequence[str | None]:
        """Return the next message in each game, in order; None where the backend gave nothing usable."""
        ...
