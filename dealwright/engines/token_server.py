"""A model behind vLLM that is asked token by token, so that what it read and sampled is known exactly.

Dialogues go to `/v1/completions` as the ids that this process counts, a message sampled earlier among them as it was
sampled. The answer must be of the model that was asked, after the very ids that were sent, with a log-probability for
every token: whatever is trained on it would otherwise be trained on something else.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from dealwright.engines.asking import VLLM_FIELDS, FailureError, Server, ServerError, side_by_side
from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.chat import ChatTokens, History
from dealwright.engines.seeds import conversation_seed

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from transformers import PreTrainedTokenizerBase

# Requests under way at a time. vLLM makes its own batches of what waits there, of 256 as it comes.
_PLACES = 256


class _Logprobs(BaseModel):
    token_logprobs: list[Annotated[float, Field(allow_inf_nan=False)]]


class _Choice(BaseModel):
    finish_reason: Literal["stop", "length"]
    prompt_token_ids: list[int]
    token_ids: Annotated[list[int], Field(min_length=1)]
    logprobs: _Logprobs


class _Answer(BaseModel):
    """The part of a text completion that is used."""

    model: str
    choices: Annotated[list[_Choice], Field(min_length=1)]


class TokenEngine:
    """Continues conversations with one model of a vLLM server; the draws of each depend on the seed and its place.

    `vocabulary` is the number of tokens that the model knows. It samples until the tokenizer's end token, whatever the
    server takes for one, and from the whole distribution.
    Raises ServerError for the first conversation that has no usable answer after its retries.
    """

    def __init__(self, server: Server, model: str, tokenizer: "PreTrainedTokenizerBase", vocabulary: int) -> None:
        self.model = model
        self._vocabulary = vocabulary
        self._server = server
        self._tokenizer = tokenizer
        self._chat = ChatTokens(tokenizer)
        end = tokenizer.eos_token_id
        self._fields: dict[str, Any] = {**VLLM_FIELDS, "ignore_eos": True, "stop_token_ids": [end]}

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one completion a conversation, in order; not to be called where an event loop runs."""
        return asyncio.run(self._generate(conversations, sampling))

    async def _generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        histories = [self._chat.open(conversation) for conversation in conversations]
        choices: dict[int, _Choice] = {}

        async def one(index: int) -> None:
            seeded = replace(sampling, seed=conversation_seed(sampling.seed, index))
            choices[index] = await self._sampled(client, histories[index].ids, seeded)

        async with self._server.client() as client:
            await side_by_side(one, deque(range(len(histories))), _PLACES)
        return [
            self._completion(conversation, history, choices[index])
            for index, (conversation, history) in enumerate(zip(conversations, histories, strict=True))
        ]

    async def _sampled(self, client: "AsyncOpenAI", ids: tuple[int, ...], sampling: Sampling) -> _Choice:
        try:
            return await self._server.persist(lambda: self._ask(client, ids, sampling), sampling.seed)
        except FailureError as failure:
            raise ServerError(
                f"expected an answer from the model {self.model!r} at {self._server.base_url}, got {failure} "
                f"({failure.attempts} attempts); {self._server.mend}"
            ) from None

    async def _ask(self, client: "AsyncOpenAI", ids: tuple[int, ...], sampling: Sampling) -> _Choice:
        request = client.completions.with_raw_response.create(
            model=self.model,
            prompt=list(ids),
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            seed=sampling.seed,
            logprobs=0,  # of the sampled token alone
            extra_body=self._fields,
        )
        answer = self._server.read(_Answer, (await self._server.send(request)).content)
        choice = answer.choices[0]
        if answer.model != self.model:
            raise FailureError("another model", f"{answer.model[:80]!r} answered", again=False)
        if choice.prompt_token_ids != list(ids):
            read = len(choice.prompt_token_ids)
            raise FailureError("another prompt", f"{read} tokens were read of {len(ids)} sent", again=False)
        if len(choice.logprobs.token_logprobs) != len(choice.token_ids):
            numbers = f"{len(choice.logprobs.token_logprobs)} for {len(choice.token_ids)} tokens"
            raise FailureError("log-probabilities are missing", numbers, again=False)
        if not self._possible(choice.token_ids, sampling.max_tokens):
            raise FailureError("tokens that were not asked for", f"{len(choice.token_ids)} of them", again=False)
        if choice.finish_reason == "stop" and not self._ended(choice):
            raise FailureError("another end", f"the last token is {choice.token_ids[-1]}", again=False)
        return choice

    def _possible(self, ids: Sequence[int], most: int) -> bool:
        """Whether the model can have sampled this: so many tokens at most, all known, none after the end token."""
        known = all(0 <= id < self._vocabulary for id in ids)
        return known and len(ids) <= most and self._tokenizer.eos_token_id not in ids[:-1]

    def _ended(self, choice: _Choice) -> bool:
        return choice.token_ids[-1] == self._tokenizer.eos_token_id

    def _completion(self, conversation: Conversation, history: History, choice: _Choice) -> Completion:
        token_ids = tuple(choice.token_ids)
        ended = self._ended(choice)
        text = str(self._tokenizer.decode(token_ids[: len(token_ids) - ended], clean_up_tokenization_spaces=False))
        if ended:
            grown = History(history.ids + token_ids, history.sampled + (1,) * len(token_ids))
            self._chat.close(conversation, text, grown)
        return Completion(
            text,
            "stop" if ended else "length",
            history.ids,
            token_ids,
            tuple(choice.logprobs.token_logprobs),
            history.sampled,
        )
