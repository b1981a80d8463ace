"""From dialogues to training rows: token ids, and a mask that is 1 on the buyer's own tokens alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dealwright.engines.base import Completion, Conversation
from dealwright.engines.chat import render
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Row:
    """A dialogue as token ids; `mask` is 1 where the buyer spoke (its end-of-message tokens included), else 0."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]

    def __post_init__(self) -> None:
        """Refuse a row whose mask could train other tokens than those that it was made for."""
        if len(self.ids) != len(self.mask):
            raise ValueError(f"expected one mask bit a token, got {len(self.mask)} for {len(self.ids)} tokens")


def sampled_row(spoken: Sequence[Completion]) -> Row:
    """Return the row of a dialogue that a model spoke in, from its completions in order.

    The last completion's prompt holds the whole dialogue before it, token by token as sampled:
    prompts (p1), (p1 + m1 + s1), (p1 + m1 + s1 + m2 + s2) with messages m1, m2, m3 give the row p1 m1 s1 m2 s2 m3.
    Raises ValueError where an earlier message is not in it as sampled: it would silently not be trained.
    """
    last = spoken[-1]
    row = Row(last.prompt_ids + last.token_ids, last.prompt_sampled + (1,) * len(last.token_ids))
    messages = sum(bit > before for before, bit in zip((0, *row.mask), row.mask, strict=False))
    if messages != len(spoken):
        raise ValueError(f"expected the tokens of {len(spoken)} messages in the dialogue's row, got {messages}")
    return row


def sampled_logprobs(spoken: Sequence[Completion]) -> list[float]:
    """Return the log-probabilities with which the own tokens of a dialogue's row were sampled, in order."""
    return [logprob for completion in spoken for logprob in completion.logprobs]


def rendered_row(tokenizer: "PreTrainedTokenizerBase", conversation: Conversation, given: int = 0) -> Row:
    """Return the row of a written dialogue; mask 1 on assistant turns up to and including their end tokens.

    The first `given` turns are what the model was given, an example among them perhaps: mask 0.

    Each assistant turn is the difference of two renderings, so it works for any template that only ever appends.
    Raises DealwrightError for a template that rewrites earlier turns.
    """
    ids: tuple[int, ...] = ()
    mask: list[int] = []
    for index, turn in enumerate(conversation):
        if turn["role"] != "assistant":
            continue
        prompt = render(tokenizer, conversation[:index], prompt=True)
        whole = render(tokenizer, conversation[: index + 1])
        if prompt[: len(ids)] != ids or whole[: len(prompt)] != prompt:
            raise DealwrightError("the chat template rewrites earlier turns; take a model whose template only appends")
        end = len(whole) - whole[::-1].index(tokenizer.eos_token_id)
        mask += [0] * (len(prompt) - len(ids)) + [int(index >= given)] * (end - len(prompt))
        ids = whole[:end]
    return Row(ids, tuple(mask))
