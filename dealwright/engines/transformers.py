"""Text generation with transformers: batched, and continuing dialogues without reading them again.

Many dialogues advance together. Their keys and values stay in one preallocated cache between turns; a call whose
conversations all continue the last call's reads only what is new. A call that asks some of the last call's
conversations again, for another try, and the call that then goes on read no more than what differs from before. Any
other call starts afresh.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.cache import BlockCache
from dealwright.engines.chat import ChatTokens, History, Turns, turns
from dealwright.engines.loading import load_model
from dealwright.engines.seeds import conversation_seed
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

MEMORY = 8 * 2**30  # bytes for a batch's keys and values on a CPU; on a GPU it is half of what is free


@dataclass(frozen=True, slots=True)
class _Call:
    """What a call left behind: its cache, and of each row the conversation that was asked and the tokens held."""

    cache: BlockCache
    asked: list[Turns]
    ids: list[tuple[int, ...]]


class TransformersEngine:
    """Generates with a causal language model in this process.

    After the weights have changed, `forget` must be called: kept keys and values belong to the old ones.
    Raises ValueError for a model whose attention is not `sdpa`: the other kinds read a mask with holes differently.
    """

    def __init__(self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
        if model.config._attn_implementation != "sdpa":
            raise ValueError(f"expected a model with sdpa attention, got {model.config._attn_implementation}")
        self.model = model
        self.tokenizer = tokenizer
        self._chat = ChatTokens(tokenizer)
        self._calls: dict[int, _Call] = {}  # that the next one may go on from, by their numbers
        self._last = 0

    @classmethod
    def from_folder(cls, folder: str | Path) -> "TransformersEngine":
        """Load a model's folder onto the GPU where there is one; raises DealwrightError as `load_model` does.

        A GPU takes any model in bfloat16, a processor only one that is stored so and only where it multiplies such
        numbers itself; all else is float32.
        """
        if torch.cuda.is_available():
            model, tokenizer = load_model(folder, torch.bfloat16)
            return cls(model.cuda().eval(), tokenizer)
        model, tokenizer = load_model(folder, "auto")
        if model.dtype != torch.bfloat16 or not _multiplies_bfloat16():
            model.float()
        return cls(model.eval(), tokenizer)

    def forget(self) -> None:
        """Drop every dialogue."""
        self._chat.forget()
        self._calls.clear()

    @torch.inference_mode()
    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one completion a conversation; the draws depend on the seed and on the batch as a whole."""
        if not conversations:
            return []
        was_training = self.model.training
        self.model.eval()
        histories = [self._chat.open(conversation) for conversation in conversations]
        rows = self._room(max(len(history.ids) for history in histories) + sampling.max_tokens)
        completions: list[Completion] = []
        for batch, first in enumerate(range(0, len(histories), rows)):
            if batch:
                self._calls.clear()  # there is room for one batch only
                sampling = replace(sampling, seed=conversation_seed(sampling.seed, batch))
            part = slice(first, first + rows)
            completions += self._speak(conversations[part], histories[part], sampling)
        self.model.train(was_training)
        return completions

    def _room(self, tokens: int) -> int:
        """Return how many dialogues of so many tokens a batch may have; more take turns."""
        config = self.model.config.to_dict()
        heads = config.get("num_key_value_heads") or config["num_attention_heads"]
        size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        a_token = 2 * config["num_hidden_layers"] * heads * size * self.model.dtype.itemsize
        room = torch.cuda.mem_get_info()[0] // 2 if self.model.device.type == "cuda" else MEMORY
        return max(1, room // (tokens * a_token))

    def _speak(
        self, conversations: Sequence[Conversation], histories: Sequence[History], sampling: Sampling
    ) -> list[Completion]:
        asked = [turns(conversation) for conversation in conversations]
        cache, new = self._resume(histories, asked)
        self._last += 1
        sampled, logprobs = self._sample(cache, new, sampling)
        ids = [history.ids + token_ids for history, token_ids in zip(histories, sampled, strict=True)]
        self._calls[self._last] = _Call(cache, asked, ids)
        return [
            self._completion(row, *parts)
            for row, parts in enumerate(zip(conversations, histories, sampled, logprobs, strict=True))
        ]

    def _resume(
        self, histories: Sequence[History], asked: Sequence[Turns]
    ) -> tuple[BlockCache, list[tuple[int, ...]]]:
        """Return a cache for these dialogues, and the tokens of each that are not yet in it."""
        last = self._calls.get(self._last)
        rows = [history.held[1] for history in histories if history.held and history.held[0] == self._last]
        if last is not None and len(rows) == len(histories):
            self._calls.clear()
            last.cache.keep(rows)
            return last.cache, [
                history.ids[len(last.ids[row]) :] for history, row in zip(histories, rows, strict=True)
            ]
        again = last is not None and set(asked) <= set(last.asked)
        parts = [
            self._longest(history.ids, conversation) if again or len(conversation) > 2 else None
            for history, conversation in zip(histories, asked, strict=True)
        ]
        if not again:  # after another try, the calls before are still gone on from
            self._calls.clear()
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return self._fresh([history.ids for history in histories])
        cache = BlockCache.joined(self.model.config, found)
        return cache, [history.ids[count:] for history, (_, _, count) in zip(histories, found, strict=True)]

    def _fresh(self, rows: Sequence[tuple[int, ...]]) -> tuple[BlockCache, list[tuple[int, ...]]]:
        """Return a new cache, and what is not yet in it: of dialogues that begin alike the last token.

        The other tokens of what a group's games begin with are read once for all of them.
        """
        unique = list(dict.fromkeys(rows))
        if len(unique) == len(rows) or min(map(len, unique)) < 2:
            return BlockCache(self.model.config, len(rows), self.model.device), list(rows)
        cache = BlockCache(self.model.config, len(unique), self.model.device)
        self._forward(cache, *self._padded([ids[:-1] for ids in unique]))
        places = {ids: place for place, ids in enumerate(unique)}
        cache.keep([places[ids] for ids in rows])
        return cache, [ids[-1:] for ids in rows]

    def _padded(self, rows: Sequence[tuple[int, ...]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return token ids, padded on the left, and the mask of those that are real, both of shape (rows, width)."""
        device, width = self.model.device, max(map(len, rows))
        ids = torch.full((len(rows), width), self.tokenizer.eos_token_id, device=device)
        mask = torch.zeros(len(rows), width, dtype=torch.bool, device=device)
        for row, tokens in enumerate(rows):
            ids[row, width - len(tokens) :] = torch.tensor(tokens, device=device)
            mask[row, width - len(tokens) :] = True
        return ids, mask

    def _longest(self, ids: tuple[int, ...], conversation: Turns) -> tuple[BlockCache, int, int] | None:
        """Return the row that begins like these tokens for longest, of the dialogues that began alike."""
        found = [
            (_common(ids[:-1], held), call.cache, row)
            for call in self._calls.values()
            for row, (held, other) in enumerate(zip(call.ids, call.asked, strict=True))
            if other[:2] == conversation[:2]
        ]
        if not found:
            return None
        count, cache, row = max(found, key=lambda item: item[0])
        return cache, row, count

    def _completion(
        self,
        row: int,
        conversation: Conversation,
        history: History,
        token_ids: tuple[int, ...],
        logprobs: tuple[float, ...],
    ) -> Completion:
        ended = token_ids[-1] == self.tokenizer.eos_token_id
        said = token_ids[:-1] if ended else token_ids
        text = str(self.tokenizer.decode(said, clean_up_tokenization_spaces=False))
        grown = History(history.ids + token_ids, history.sampled + (1,) * len(token_ids), (self._last, row))
        if ended:
            self._chat.close(conversation, text, grown)
        return Completion(text, "stop" if ended else "length", history.ids, token_ids, logprobs, history.sampled)

    def _sample(
        self, cache: BlockCache, new: Sequence[tuple[int, ...]], sampling: Sampling
    ) -> tuple[list[tuple[int, ...]], list[tuple[float, ...]]]:
        device = self.model.device
        draw = torch.Generator(device).manual_seed(sampling.seed % 2**63)
        end = self.tokenizer.eos_token_id
        ids, mask = self._padded(new)
        tokens_by_step: list[torch.Tensor] = []
        logprobs_by_step: list[torch.Tensor] = []
        masks: list[torch.Tensor] = []
        live = torch.ones(len(new), dtype=torch.bool, device=device)
        for _ in range(sampling.max_tokens):
            logits = self._forward(cache, ids, mask)
            token, logprob = _draw(logits, sampling.temperature, draw)
            token = token.where(live, torch.full_like(token, end))
            tokens_by_step.append(token)
            logprobs_by_step.append(logprob)
            masks.append(live)
            ids, mask = token[:, None], live[:, None]
            live = live & (token != end)
            if not bool(live.any()):
                break
        # The last token sampled is read too, so that the next turn finds every one of its row in the cache.
        self._forward(cache, ids, mask)
        counts = torch.stack(masks).sum(0).tolist()
        tokens = torch.stack(tokens_by_step, 1).tolist()
        logprobs = torch.stack(logprobs_by_step, 1).tolist()
        if not all(map(math.isfinite, chain.from_iterable(logprobs))):
            raise DealwrightError("the model answers with what is no number: its weights are damaged; make it again")
        return (
            [tuple(row[:count]) for row, count in zip(tokens, counts, strict=True)],
            [tuple(row[:count]) for row, count in zip(logprobs, counts, strict=True)],
        )

    def _forward(self, cache: BlockCache, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Read new columns, shape (rows, width), and return the logits after the last one, in float32."""
        filled, width = cache.mask.shape[1], ids.shape[1]
        cache.extend(mask)
        positions = (cache.mask.cumsum(1)[:, filled:] - 1).clamp(min=0)
        # A hole may look at everything before it: its output is never read, and a row of the mask must not be empty.
        seen = torch.ones(width, filled + width, dtype=torch.bool, device=ids.device).tril(filled)
        visible = seen[None] & (cache.mask[:, None, :] | ~mask[:, :, None])
        output = self.model(
            input_ids=ids, attention_mask=visible[:, None], position_ids=positions, cache=cache, logits_to_keep=1
        )
        return output.logits[:, -1].float()


def _multiplies_bfloat16() -> bool:
    """Tell whether this processor has instructions for it; where it lacks them, float32 is faster."""
    found = torch.cpu.get_capabilities()
    return bool(found.get("amx_bf16") or found.get("avx512_bf16"))


def _common(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """Return how many tokens two rows have in common at their beginning."""
    return next(
        (at for at, (one, other) in enumerate(zip(first, second, strict=False)) if one != other),
        min(len(first), len(second)),
    )


def _draw(logits: torch.Tensor, temperature: float, draw: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    if temperature == 0:
        logprobs = logits.log_softmax(-1)
        token = logits.argmax(-1)
    else:
        logprobs = (logits / temperature).log_softmax(-1)
        # One random number a row; torch.multinomial takes one a token of the vocabulary, ten times as long.
        reached = logprobs.exp().cumsum(-1)
        share = torch.rand(len(logits), 1, generator=draw, device=logits.device)
        token = torch.searchsorted(reached, share * reached[:, -1:], right=True)[:, 0]
        token = token.clamp(max=logits.shape[1] - 1)  # no number is beyond them all
    return token, logprobs.gather(1, token[:, None])[:, 0]
