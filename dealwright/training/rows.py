"""From dialogues to training rows: token ids, and a mask that is 1 on the buyer's own tokens alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dealwright.engines.base import Completion, Conversation

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class Row:
    """A dialogue as token ids; `mask` is 1 where the buyer spoke (its end-of-message tokens included), else 0."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]


def sampled_row(spoken: Sequence[Completion]) -> Row:
    """Return the row of a dialogue that a model spoke in, from its completions in order.

    The last completion's prompt holds the whole dialogue before it, token by token as sampled:
    prompts (p1), (p1 + m1 + s1), (p1 + m1 + s1 + m2 + s2) with messages m1, m2, m3 give the row p1 m1 s1 m2 s2 m3.
    """
    last = spoken[-1]
    return Row(last.prompt_ids + last.token_ids, last.prompt_sampled + (1,) * len(last.token_ids))


def rendered_row(tokenizer: "PreTrainedTokenizerBase", conversation: Conversation) -> Row:
    """Return the row of a written dialogue; mask 1 on assistant turns up to and including their end tokens.

    Each assistant turn is the difference of two renderings, so it works for any template that only ever appends.
    Raises ValueError for a template that rewrites earlier turns.
    """
    ids: tuple[int, ...] = ()
    mask: list[int] = []
    for index, turn in enumerate(conversation):
        if turn["role"] != "assistant":
            continue
        prompt = _render(tokenizer, conversation[:index], True)
        whole = _render(tokenizer, conversation[: index + 1], False)
        if prompt[: len(ids)] != ids or whole[: len(prompt)] != prompt:
            raise ValueError("the chat template rewrites earlier turns; use one that only appends")
        end = len(whole) - whole[::-1].index(tokenizer.eos_token_id)
        mask += [0] * (len(prompt) - len(ids)) + [1] * (end - len(prompt))
        ids = whole[:end]
    return Row(ids, tuple(mask))


def _render(tokenizer: "PreTrainedTokenizerBase", conversation: Conversation, prompt: bool) -> tuple[int, ...]:
    return tuple(
        tokenizer.apply_chat_template(
            list(conversation), add_generation_prompt=prompt, return_dict=False, enable_thinking=False
        )
    )
