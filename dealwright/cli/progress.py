"""The bar of a long rollout: games, games a second, the time left, tokens a second, deals and dollars."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dealwright.game.negotiation import StopReason

if TYPE_CHECKING:
    from dealwright.rollout import Episode


class Progress:
    """A bar on standard error where that is a terminal, and nothing elsewhere.

    Games count whoever plays them; tokens, deals and dollars are those of this process.
    """

    def __init__(self, games: int) -> None:
        from tqdm import tqdm

        self._bar = tqdm(total=games, unit=" games", disable=None, file=sys.stderr, dynamic_ncols=True)
        self._begun = time.monotonic()
        self._games = self._deals = self._tokens = 0
        self._dollars = 0.0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def stand(self, games: int) -> None:
        """Set how many games are finished in all, other processes' too."""
        self._bar.update(games - self._bar.n)

    def add(self, episodes: Sequence["Episode"]) -> None:
        """Count games that this process has just played."""
        self._games += len(episodes)
        self._deals += sum(episode.outcome.stop is StopReason.DEAL for episode in episodes)
        self._tokens += sum(episode.tokens for episode in episodes)
        self._dollars += sum(episode.usage.dollars for episode in episodes if episode.usage is not None)
        self._bar.set_postfix_str(self.line(time.monotonic() - self._begun), refresh=False)
        self._bar.update(len(episodes))

    def line(self, seconds: float) -> str:
        """Return what stands behind the bar after so many seconds."""
        speed = self._tokens / seconds if seconds > 0 else 0.0
        return f"{speed:.0f} tokens/s, deals {self._deals / self._games:.0%}, ${self._dollars:.2f}"
