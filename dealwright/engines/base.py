"""What every text-generation engine takes and gives."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from dealwright.engines.spending import Usage

Conversation = Sequence[dict[str, str]]  # {"role", "content"} from the system prompt to the last user turn
FinishReason = Literal["stop", "length", "error"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to sample; `temperature` 0 is greedy. `seed` fixes the draws of one call."""

    temperature: float
    max_tokens: int
    seed: int


@dataclass(frozen=True, slots=True)
class Completion:
    """One generated message.

    `prompt_ids` are the tokens that the model read and `token_ids` those that it sampled, the end-of-message token
    included; `logprobs` holds one natural-log probability a sampled token; `prompt_sampled` is 1 at those of
    `prompt_ids` that were sampled in earlier turns of the same conversation. All four are empty where a server tells
    none. `finish_reason` is `length` for a message cut off by the token limit and `error` where the backend gave
    nothing usable after its retries. `usage` is what a server billed for it, its failed attempts included.
    """

    text: str
    finish_reason: FinishReason
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()
    prompt_sampled: tuple[int, ...] = ()
    usage: Usage | None = field(default=None, compare=False)  # what it cost is no part of what was said


class Engine(Protocol):
    """A language model that continues conversations, a batch at a time."""

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one completion a conversation, in order."""
        ...
