"""How often the guard of a buyer in service would have stepped in, from its probe games, played without it."""

from collections import Counter
from pathlib import Path

from dealwright.game import Negotiation, Role
from dealwright.rollout import read_episodes
from dealwright.serving import keeps_to_budget


def guard_rates(games: Path) -> dict[int, float]:
    """Return the share of each checkpoint's messages that the guard would have replaced, by its step."""
    said: Counter[int] = Counter()
    replaced: Counter[int] = Counter()
    for episode in read_episodes(games):
        if episode.checkpoint is None:
            continue
        game = Negotiation(episode.scenario, episode.outcome.turns, episode.round)
        for role, text in episode.messages:
            game.play(Role(role), text)
            if role == Role.BUYER:
                said[episode.checkpoint] += 1
                replaced[episode.checkpoint] += not keeps_to_budget(game)
    return {step: replaced[step] / said[step] for step in said}
