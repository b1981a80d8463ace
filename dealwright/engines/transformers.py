"""Text generation with transformers: batched, and continuing dialogues without reading them again.

Many dialogues advance together. Their keys and values stay in one preallocated cache between turns; a call whose
conversations all continue the last call's reads only what is new. Any other call starts afresh.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.cache import BlockCache
from dealwright.engines.chat import ChatTokens, History
from dealwright.engines.loading import load_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


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
        self._cache: BlockCache | None = None
        self._call = 0

    @classmethod
    def from_folder(cls, folder: str | Path) -> "TransformersEngine":
        """Load a model's folder onto the GPU where there is one; raises DealwrightError as `load_model` does."""
        device, dtype = ("cuda", torch.bfloat16) if torch.cuda.is_available() else ("cpu", torch.float32)
        model, tokenizer = load_model(folder, dtype)
        return cls(model.to(device).eval(), tokenizer)

    def forget(self) -> None:
        """Drop every dialogue."""
        self._chat.forget()
        self._cache = None

    @torch.inference_mode()
    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one completion a conversation; the draws depend on the seed and on the batch as a whole."""
        if not conversations:
            return []
        was_training = self.model.training
        self.model.eval()
        histories = [self._chat.open(conversation) for conversation in conversations]
        # The cache holds what the last call left in it, and nothing of the calls before.
        rows = [history.held[1] for history in histories if history.held and history.held[0] == self._call]
        if self._cache is not None and len(rows) == len(histories):
            before = self._cache.mask.sum(1).tolist()
            self._cache.keep(rows)
            new = [history.ids[before[row] :] for history, row in zip(histories, rows, strict=True)]
        else:
            self._cache = BlockCache(self.model.config, len(histories), self.model.device)
            new = [history.ids for history in histories]
        self._call += 1
        sampled, logprobs = self._sample(self._cache, new, sampling)
        self.model.train(was_training)
        return [
            self._completion(row, *parts)
            for row, parts in enumerate(zip(conversations, histories, sampled, logprobs, strict=True))
        ]

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
        grown = History(history.ids + token_ids, history.sampled + (1,) * len(token_ids), (self._call, row))
        if ended:
            self._chat.close(conversation, text, grown)
        return Completion(text, "stop" if ended else "length", history.ids, token_ids, logprobs, history.sampled)

    def _sample(
        self, cache: BlockCache, new: Sequence[tuple[int, ...]], sampling: Sampling
    ) -> tuple[list[tuple[int, ...]], list[tuple[float, ...]]]:
        device = self.model.device
        draw = torch.Generator(device).manual_seed(sampling.seed % 2**63)
        end = self.tokenizer.eos_token_id
        width = max(map(len, new))
        ids = torch.full((len(new), width), end, device=device)
        mask = torch.zeros(len(new), width, dtype=torch.bool, device=device)
        for row, tokens in enumerate(new):
            ids[row, width - len(tokens) :] = torch.tensor(tokens, device=device)
            mask[row, width - len(tokens) :] = True
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
    return token, logprobs.gather(1, token[:, None])[:, 0]
