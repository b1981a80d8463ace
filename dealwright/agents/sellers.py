"""Scripted sellers: the concession seller in words, and the seller that only minds its cost."""

from collections.abc import Sequence
from random import Random

from dealwright.agents.arguments import CUES, Argument, detect_argument
from dealwright.agents.concession import COLUMNS, Decision, SellerType, decide, draw_type, start
from dealwright.game import Action, ActionKind, Message, Negotiation, Role, format_message

FLOOR_ONLY = "floor_only"
SELLERS = (*COLUMNS, FLOOR_ONLY)

# The offer in dollars and the argument of each of the buyer's messages so far.
Heard = list[tuple[float | None, Argument | None]]

_OPENINGS = {
    "training": ("", "Welcome.", "Good day."),
    "stronger": ("", "It is worth it.", "Good day."),
    "begging": ("Please, I need this sale.", "Be kind to me.", "I beg you."),
    "insulting": ("Are you joking?", "You look cheap.", "Spare me."),
    "unyielding": ("I rarely move.", "My price is my price.", "I am firm."),
}
_WELCOME = ("Fair point.", "That is true.", "You have a point.")
_UNWELCOME = ("That does not move me.", "So what?", "That is nothing to me.")
_TOO_LOW = ("That is too low.", "I need more.", "Come up a little.")
_GOOD = ("That helps.", "We get closer.", "All right.")


class ConcessionSeller:
    """Plays a column of section 4a in words; its state is recomputed from the transcript, so it keeps nothing."""

    def __init__(self, column: str) -> None:
        if column not in COLUMNS:
            raise ValueError(f"expected one of {', '.join(COLUMNS)}, got {column!r}")
        self.column = column

    def respond(self, games: Sequence[Negotiation]) -> list[str]:
        """Return the seller's next message in each game."""
        return [self._reply(game) for game in games]

    def _reply(self, game: Negotiation) -> str:
        type = draw_type(self.column, game.scenario, game.round, game.max_turns)
        state = start(type)
        decision: Decision | None = None
        for offer, argument in self._hear(game):
            state, decision = decide(state, offer, argument)
        if decision is None:
            raise ValueError("the buyer speaks first; the seller has nothing to answer")
        draw = Random(f"{game.scenario.seed}/{game.round}/{state.turn}/words")
        talk = self._talk(state.turn, decision, self._hints(game, type), draw)
        return format_message(Message("", talk, Action(decision.kind, decision.price)))

    def _hear(self, game: Negotiation) -> Heard:
        return heard(game)

    def _hints(self, game: Negotiation, type: SellerType) -> list[Argument]:
        return sorted(type.receptive)

    def _talk(self, turn: int, decision: Decision, hints: list[Argument], draw: Random) -> str:
        if decision.kind is ActionKind.DEAL:
            return "Agreed."
        if decision.kind is ActionKind.QUIT:
            return "I am done here."
        if turn == 1:
            draw.shuffle(hints)
            cues = [draw.choice(CUES[kind]) for kind in hints]
            return " ".join(filter(None, [draw.choice(_OPENINGS[self.column]), *cues]))
        reply = [] if decision.welcome is None else [draw.choice(_WELCOME if decision.welcome else _UNWELCOME)]
        return " ".join([*reply, draw.choice(_GOOD if decision.gain >= 0.5 else _TOO_LOW)])


def heard(game: Negotiation) -> Heard:
    """Return the offer in dollars and the argument of each of the buyer's messages so far."""
    return [
        (
            entry.message.action.price if entry.message.action.kind is ActionKind.BUY else None,
            detect_argument(entry.message.talk),
        )
        for entry in game.transcript
        if entry.role is Role.BUYER and entry.message is not None
    ]


class FloorOnlySeller:
    """Accepts the first offer at or above its cost and rejects the rest, revealing nothing."""

    def respond(self, games: Sequence[Negotiation]) -> list[str]:
        """Return the seller's next message in each game."""
        return [self._reply(game) for game in games]

    def _reply(self, game: Negotiation) -> str:
        offer = game.standing_offer(Role.BUYER)
        if offer is not None and offer >= game.scenario.cost:
            return format_message(Message("", "Agreed.", Action(ActionKind.DEAL, offer)))
        return format_message(Message("", "No.", Action(ActionKind.REJECT)))
