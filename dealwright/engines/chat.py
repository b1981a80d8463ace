"""From conversations to token ids, continuing sampled messages token by token.

A model's own message must stay the tokens that it sampled: rendering the text again may split it differently. So the
ids of every conversation answered are remembered, and its next turn is those ids plus the template's own continuation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dealwright.engines.base import Conversation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_Key = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class History:
    """The ids of a conversation so far, 1 where the model sampled them, and the row of the cache that holds them."""

    ids: tuple[int, ...]
    sampled: tuple[int, ...]
    row: int | None = None


class ChatTokens:
    """Renders conversations with the model's own chat template and remembers those that were answered."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.tokenizer = tokenizer
        # Two conversations may read the same and still be different ids, hence a list.
        self._answered: dict[_Key, list[History]] = {}

    def open(self, conversation: Conversation) -> History:
        """Return the ids that the model is to continue; an answered conversation is continued exactly."""
        known = self._answered.get(_key(conversation[:-1]))
        if known and conversation[-1]["role"] == "user":
            history = known.pop()
            suffix = self._suffix(conversation[-1]["content"])
            return History(history.ids + suffix, history.sampled + (0,) * len(suffix), history.row)
        ids = self._render(conversation, add_generation_prompt=True)
        return History(ids, (0,) * len(ids))

    def close(self, conversation: Conversation, text: str, history: History) -> None:
        """Remember a conversation with the model's answer at its end."""
        key = _key([*conversation, {"role": "assistant", "content": text}])
        self._answered.setdefault(key, []).append(history)

    def forget(self) -> None:
        """Forget every conversation."""
        self._answered.clear()

    def _suffix(self, content: str) -> tuple[int, ...]:
        # What the template puts between the model's end-of-message token and its next message.
        head = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
        before = self._render(head, add_generation_prompt=False)
        after = self._render([*head, {"role": "user", "content": content}], add_generation_prompt=True)
        end = self.tokenizer.eos_token_id
        last = len(before) - 1 - before[::-1].index(end)
        return after[last + 1 :]

    def _render(self, conversation: Conversation, add_generation_prompt: bool) -> tuple[int, ...]:
        ids = self.tokenizer.apply_chat_template(
            list(conversation), add_generation_prompt=add_generation_prompt, return_dict=False, enable_thinking=False
        )
        return tuple(ids)


def _key(conversation: Sequence[dict[str, str]]) -> _Key:
    return tuple((turn["role"], turn["content"]) for turn in conversation)
