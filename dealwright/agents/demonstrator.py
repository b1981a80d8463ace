"""The naive demonstrator: bargains like an untrained person, so that a tiny model learns the format and the numbers.

Its Thought reads, reckons and plans - the turn, which kinds of argument the seller hinted at that it has not brought
up yet, whether the ask is above the budget, which kind it will bring up, by what share of the budget it will raise its
last offer - but its moves use little of that: it opens anywhere, climbs by any step, argues now and then while it has
heard of something, often about that and often about anything, and takes most asks that it can afford. To act on what
it reads, and to find out which steps pay, is left to training; so its manner differs from game to game as widely as
what training may have to find.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from dealwright.agents.arguments import SENTENCES, Argument, detect_argument
from dealwright.agents.buyers import observe
from dealwright.game import Negotiation, Role, format_price
from dealwright.prompts.ruler import MARKS, mark_below, mark_of, offer_at, plain

# A kind's word in a Thought, whether heard or to be said.
WORDS = {
    Argument.COMPETITOR: "rival",
    Argument.PROMPT_PAYMENT: "cash",
    Argument.CONDITION: "wear",
    Argument.REPEAT_CUSTOM: "loyal",
    Argument.LONG_ON_MARKET: "shelf",
    Argument.EASY_COLLECTION: "pickup",
}
# An ask nearer to the budget is left alone: a tiny model misjudges amounts that are nearly equal.
AFFORDABLE_MARK = 96
FILLERS = ("", "What about this?", "Can you do better?", "Please come down.")


@dataclass(frozen=True, slots=True)
class Habits:
    """The ranges that a demonstrator's manner is drawn from, once a game; offers and steps are shares of the budget.

    It argues only while something that the seller hinted at is left to bring up; `echo_rate` is the share of its
    arguments that do so, and the others are of any kind. With `last_push` its last offer is any from where its climb
    has come to up to `highest_percent`.
    """

    first_offer: tuple[float, float] = (0.62, 0.97)
    step: tuple[float, float] = (0.01, 0.07)
    argument_rate: tuple[float, float] = (0.2, 0.8)
    echo_rate: tuple[float, float] = (0.4, 0.9)
    accept_rate: tuple[float, float] = (0.3, 0.9)
    reject_rate: float = 0.04
    quit_rate: float = 0.01
    highest_percent: int = MARKS[-1]
    last_push: bool = False


NAIVE = Habits((0.50, 0.97), (0.01, 0.14), highest_percent=96, last_push=True)
# Wider habits teach a base model to reckon with every share that training may come to use.
WIDE = Habits((0.48, 0.99), (0.01, 0.12), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), 0.05, 0.02)


class Demonstrator:
    """A buyer whose draws follow from the scenario's seed, the round and the turn; it never pays above its budget."""

    def __init__(self, habits: Habits = NAIVE) -> None:
        self.habits = habits

    def respond(self, games: Sequence[Negotiation]) -> list[str]:
        """Return the demonstrator's next message in each game."""
        return [self._message(game) for game in games]

    def _message(self, game: Negotiation) -> str:
        scenario, turn = game.scenario, game.turn
        manner = Random(f"{scenario.seed}/{game.round}/0/demonstrator")
        share = manner.uniform(*self.habits.first_offer)
        step = manner.uniform(*self.habits.step)
        argument_rate = manner.uniform(*self.habits.argument_rate)
        echo_rate = manner.uniform(*self.habits.echo_rate)
        accept_rate = manner.uniform(*self.habits.accept_rate)
        for past in range(2, turn + 1):
            share += step * Random(f"{scenario.seed}/{game.round}/{past}/climb").uniform(0.3, 1.7)
        if self.habits.last_push and turn == game.max_turns:
            highest = self.habits.highest_percent / 100
            push = Random(f"{scenario.seed}/{game.round}/{turn}/push")
            share = push.uniform(min(share, highest), highest)
        last = _last_percent(game)
        percent = max(last or 0, mark_below(min(self.habits.highest_percent, 100 * share)))
        draw = Random(f"{scenario.seed}/{game.round}/{turn}/demonstrator")
        argues, echoes, accepts, rejects, quits = (draw.random() for _ in range(5))
        cues = _left(game)
        thought = [f"turn {turn}.", *_cue_note(turn, cues), _reckoning(game)]
        ask = game.standing_offer(Role.SELLER)
        affordable = ask is not None and ask <= offer_at(AFFORDABLE_MARK, scenario.budget)
        offer = offer_at(percent, scenario.budget)
        if ask is not None and affordable and (ask <= offer or accepts < accept_rate or turn == game.max_turns):
            return _text([*thought, "take it."], "Agreed.", f"[DEAL] {format_price(ask)}")
        if ask is not None and not affordable and turn > 2 and quits < self.habits.quit_rate:
            return _text([*thought, "leave."], "No, thank you.", "[QUIT]")
        talk = draw.choice(FILLERS)
        if cues and argues < argument_rate:
            argument = draw.choice(cues if echoes < echo_rate else tuple(Argument))
            thought.append(f"say {WORDS[argument]}.")
            talk = draw.choice(SENTENCES[argument])
        if turn > 1 and rejects < self.habits.reject_rate:
            return _text([*thought, "wait."], talk, "[REJECT]")
        return _text([*thought, bid(percent, last)], talk, f"[BUY] ${plain(offer)}")


def bid(percent: int, last: int | None) -> str:
    """Write the share of the budget that is offered, as a raise of the last one where there is one."""
    return f"bid {percent}%." if last is None else f"bid {last}%+{percent - last}={percent}%."


def short(amount: float) -> str:
    """Write an amount as a Thought does: from 100 dollars on without its cents, cut and not rounded."""
    decimals = 2 if amount < 100 else 0
    return f"{math.floor(amount * 10**decimals + 1e-6) / 10**decimals:.{decimals}f}"


def is_under(ask: float, budget: float) -> bool:
    """Say whether the ask is below the budget as far as the Thought's digits can tell; equal digits count as above."""
    return float(short(ask)) < float(short(budget))


def _last_percent(game: Negotiation) -> int | None:
    """Return the mark of the ruler that the last offer was meant to be."""
    offer = game.standing_offer(Role.BUYER)
    return None if offer is None else mark_of(offer, game.scenario.budget)


def _left(game: Negotiation) -> list[Argument]:
    """Return the kinds that the seller hinted at and that have not been brought up yet."""
    own = [entry.message.talk for entry in game.transcript if entry.role is Role.BUYER and entry.message is not None]
    said = set(map(detect_argument, own))
    return [cue for cue in observe(game).cues if cue not in said]


def _cue_note(turn: int, cues: Sequence[Argument]) -> list[str]:
    if turn == 1:
        return []
    return [f"hears {' '.join(WORDS[cue] for cue in cues)}."] if cues else ["hears nothing."]


def _reckoning(game: Negotiation) -> str:
    ask, budget = game.standing_offer(Role.SELLER), game.scenario.budget
    return f"mine {short(budget)}." if ask is None else comparison(ask, budget)


def comparison(ask: float, budget: float) -> str:
    """Write the ask and the budget down, and behind them the verdict.

    An ask below the budget has the mark of the ruler that it would take to meet it, another its whole percentage.
    """
    under = is_under(ask, budget)
    percent = mark_of(ask, budget) if under else round(100 * ask / budget)
    return f"ask {short(ask)} mine {short(budget)} {'under' if under else 'over'} {percent}%."


def _text(thought: Sequence[str], talk: str, action: str) -> str:
    return f"Thought: {' '.join(thought)}\nTalk: {talk}".rstrip() + f"\nAction: {action}"
