"""From conversations to token ids, continuing sampled messages token by token.

A model's own message must stay the tokens that it sampled: rendering the text again may split it differently. So the
ids of every conversation answered are remembered, and its next turn is those ids plus the template's own continuation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dealwright.engines.base import Conversation
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Conversations remembered, more than any batch of games has: of those that ended, nobody says so.
REMEMBERED = 2048

Turns = tuple[tuple[str, str], ...]  # a conversation as roles and contents
_HEAD = ({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"})


@dataclass(frozen=True, slots=True)
class History:
    """The ids of a conversation so far, and 1 where the model sampled them.

    `held` is the engine's call after which its cache holds them all, and their row there.
    """

    ids: tuple[int, ...]
    sampled: tuple[int, ...]
    held: tuple[int, int] | None = None


def render(tokenizer: "PreTrainedTokenizerBase", conversation: Conversation, prompt: bool = False) -> tuple[int, ...]:
    """Return a conversation's ids in the model's own template; with `prompt` the model's next message follows."""
    ids = tokenizer.apply_chat_template(
        list(conversation), add_generation_prompt=prompt, return_dict=False, enable_thinking=False
    )
    return tuple(ids)


class ChatTokens:
    """Renders conversations with the model's own chat template and remembers the latest that were answered.

    Raises DealwrightError for a template that does not end the model's messages with the tokenizer's end token.
    """

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.tokenizer = tokenizer
        self._ends = render(tokenizer, _HEAD).count(tokenizer.eos_token_id)
        if tokenizer.eos_token_id is None or self._ends == 0:
            raise DealwrightError(
                f"expected a chat template that ends the model's messages with the tokenizer's end token, got one "
                f"without {tokenizer.eos_token!r}; take an instruct model whose end token closes its turns"
            )
        # Two conversations may read the same and still be different ids, hence a list. The latest answered are last.
        self._answered: dict[Turns, list[History]] = {}
        self._count = 0

    def open(self, conversation: Conversation) -> History:
        """Return the ids that the model is to continue; an answered conversation is continued exactly."""
        key = turns(conversation[:-1])
        if key in self._answered and conversation[-1]["role"] == "user":
            history = self._take(key)
            suffix = self._suffix(conversation[-1]["content"])
            return History(history.ids + suffix, history.sampled + (0,) * len(suffix), history.held)
        ids = render(self.tokenizer, conversation, prompt=True)
        return History(ids, (0,) * len(ids))

    def close(self, conversation: Conversation, text: str, history: History) -> None:
        """Remember a conversation with the model's answer at its end."""
        key = turns([*conversation, {"role": "assistant", "content": text}])
        self._answered[key] = [*self._answered.pop(key, []), history]
        self._count += 1
        if self._count > REMEMBERED:
            self._take(next(iter(self._answered)), oldest=True)

    def forget(self) -> None:
        """Forget every conversation."""
        self._answered.clear()
        self._count = 0

    def _take(self, key: Turns, oldest: bool = False) -> History:
        """Take a history out, and its key where it was the last one."""
        known = self._answered[key]
        self._count -= 1
        history = known.pop(0 if oldest else -1)
        if not known:
            del self._answered[key]
        return history

    def _suffix(self, content: str) -> tuple[int, ...]:
        # What the template puts between the model's end-of-message token and its next message. A template may render
        # a last message differently from an earlier one, so end tokens are counted in one rendering, not compared.
        ids = render(self.tokenizer, [*_HEAD, {"role": "user", "content": content}], prompt=True)
        at = -1
        for _ in range(self._ends):
            at = ids.index(self.tokenizer.eos_token_id, at + 1)
        return ids[at + 1 :]


def turns(conversation: Sequence[dict[str, str]]) -> Turns:
    """Return a conversation as a key."""
    return tuple((turn["role"], turn["content"]) for turn in conversation)
