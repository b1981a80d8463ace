"""The agent that is a language model: it adds its system prompt and an opening to its view of the game."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from weakref import WeakKeyDictionary

from dealwright.engines.base import Completion, Conversation, Engine, Sampling
from dealwright.errors import DealwrightError
from dealwright.game import Negotiation, Role
from dealwright.prompts.neutral import neutralise

# Behind a message that the token limit cut off: a last Action line that no rule accepts, so that an action which
# happens to look whole is not played.
CUT_OFF = "\nAction: [cut off by the token limit]"


class LanguageModelAgent:
    """Speaks for one side through an engine.

    `prompts` maps a scenario's id to the system prompt; `opening` are the turns between it and the game.
    What the model said is kept in `spoken`, a game's completions in order, for as long as the game lives.
    """

    def __init__(
        self, engine: Engine, role: Role, prompts: Mapping[str, str], opening: Conversation, sampling: Sampling
    ) -> None:
        self.engine = engine
        self.role = role
        self.prompts = prompts
        self.opening = opening
        self.sampling = sampling
        self.spoken: WeakKeyDictionary[Negotiation, list[Completion]] = WeakKeyDictionary()
        self._calls = 0

    def respond(self, games: Sequence[Negotiation]) -> list[str | None]:
        """Return the model's next message in each game; None where the backend failed."""
        sampling = Sampling(
            self.sampling.temperature, self.sampling.max_tokens, self.sampling.seed * 1_000_003 + self._calls
        )
        self._calls += 1
        completions = self.engine.generate([self.conversation(game) for game in games], sampling)
        for game, completion in zip(games, completions, strict=True):
            self.spoken.setdefault(game, []).append(completion)
        return [_text(completion) for completion in completions]

    def conversation(self, game: Negotiation) -> list[dict[str, str]]:
        """Return the whole conversation that the model continues."""
        prompt = self.prompts.get(game.scenario.id)
        if prompt is None:
            raise DealwrightError(f"there is no prompt for the scenario {game.scenario.id}; run `dvc repro` again")
        return conversation_of(game, self.role, prompt, self.opening)


def conversation_of(game: Negotiation, role: Role, prompt: str, opening: Conversation) -> list[dict[str, str]]:
    """Return a game as the conversation of the model that plays one side of it.

    It begins with the system prompt and the opening; the other side's words are neutralised.
    """
    said = [
        turn if turn["role"] == "assistant" else {"role": "user", "content": _neutral(turn["content"])}
        for turn in game.view(role)
    ]
    return [{"role": "system", "content": prompt}, *opening, *said]


@lru_cache(maxsize=4096)  # a message is read again in every later turn
def _neutral(content: str) -> str:
    # Only Talk is the other side's wording; the Action line beneath it is written by the rules.
    talk, action, move = content.rpartition("\nAction: ")
    label, _, words = talk.partition("Talk:")
    return f"{label}Talk:{neutralise(words)}{action}{move}" if action else content


def _text(completion: Completion) -> str | None:
    if completion.finish_reason == "error":
        return None
    return completion.text + CUT_OFF if completion.finish_reason == "length" else completion.text
