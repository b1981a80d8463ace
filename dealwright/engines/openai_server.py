"""A model behind any OpenAI-compatible address: vLLM, SGLang, llama.cpp, Ollama or a provider.

A server's own sampling defaults apply unless it is told otherwise: serve with `vllm serve --generation-config vllm
--logprobs-mode processed_logprobs`, or a model's generation_config.json narrows the sampling unseen.
"""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from dealwright.engines.asking import VLLM_FIELDS, FailureError, Server, ServerError, side_by_side
from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.kept import KeptAnswers
from dealwright.engines.openai_answer import Answer, UnusableAnswerError
from dealwright.engines.seeds import conversation_seed
from dealwright.engines.spending import Budget, Usage
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types.chat import ChatCompletionMessageParam

_log = logging.getLogger(__name__)

_GIVE_UP = 16  # conversations in a row that fail after all their retries: the server is gone
_SLACK = 4  # prompt tokens by which two counts of one template may differ (a begin-of-text mark, a newline)


class OpenaiEngine:
    """Continues conversations through a server.

    The first conversation of all is asked alone, and if it fails after its retries ServerError ends the run: a wrong
    address costs one question, not a batch. From then on a conversation that fails is a completion with the finish
    reason `error`, counted by kind in `failures`. Requests already under way when the budget is reached are finished
    and counted, so that the most it is passed by is one request a place of `concurrency`.

    `key_variable` names the environment variable that holds the key; None sends none. `token_counter` counts a
    conversation's prompt tokens by the model's own template: a server that reports fewer has cut the prompt. `vllm`
    says that the server is vLLM and tells tokens and log-probabilities.

    `kept` holds answers from before, which are not asked for again, and takes each new one as it comes; `usage` adds
    up all of them. Where the server does not tell, the prompt is counted as a token per three characters and the
    answer as `max_tokens`. A server that fails so many conversations in a row that it must be gone is a ServerError.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        key_variable: str | None = None,
        concurrency: int = 8,
        timeout: float = 120.0,
        retries: int = 4,
        backoff: float = 1.0,
        budget: Budget | None = None,
        token_counter: Callable[[Conversation], int] | None = None,
        vllm: bool = False,
        kept: KeptAnswers | None = None,
    ) -> None:
        if concurrency < 1 or timeout <= 0 or retries < 0 or backoff < 0:
            raise ServerError(
                "expected concurrency >= 1, timeout > 0, retries >= 0 and backoff >= 0, "
                f"got {concurrency}, {timeout}, {retries} and {backoff}"
            )
        self.model = model
        self.base_url = base_url
        self.usage = Usage() if kept is None else kept.usage
        self.failures: Counter[str] = Counter()
        self._server = Server(
            base_url,
            f"the model {model!r}",
            f"check the address, the model's name and the key ({key_variable or 'no variable named'})",
            key_variable=key_variable,
            timeout=timeout,
            retries=retries,
            backoff=backoff,
        )
        self._concurrency = concurrency
        self._budget = budget or Budget()
        self._token_counter = token_counter
        self._kept = kept
        self._failed_in_a_row = 0
        self._extra: dict[str, Any] = {"logprobs": True, "extra_body": VLLM_FIELDS} if vllm else {}
        self._limit_field = "max_tokens"
        self._reached = False

    def __repr__(self) -> str:
        return f"OpenaiEngine(model={self.model!r}, base_url={self.base_url!r})"

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one completion a conversation, in order; not to be called where an event loop runs."""
        return asyncio.run(self._generate(conversations, sampling))

    async def _generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        completions = {} if self._kept is None else self._kept.take(conversations, sampling)
        waiting = deque(index for index in range(len(conversations)) if index not in completions)

        async def one(index: int) -> None:
            seeded = replace(sampling, seed=conversation_seed(sampling.seed, index))
            spent: list[Usage] = []
            try:
                completion = await self._complete(client, conversations[index], seeded, spent)
            except DealwrightError:
                if self._kept is not None:
                    self._kept.bill(sum(spent, Usage()))
                raise
            completions[index] = replace(completion, usage=sum(spent, Usage()))
            if self._kept is not None:
                self._kept.add(conversations[index], sampling, completions[index])

        async with self._server.client() as client:
            if waiting and not self._reached:
                await one(waiting.popleft())
            await side_by_side(one, waiting, self._concurrency)
        return [completions[index] for index in range(len(conversations))]

    async def _complete(
        self,
        client: "AsyncOpenAI",
        conversation: Conversation,
        sampling: Sampling,
        spent: list[Usage],
    ) -> Completion:
        async def ask() -> Completion:
            self._budget.check(self.usage)
            return await self._ask(client, conversation, sampling, spent)

        try:
            completion = await self._server.persist(ask, sampling.seed)
        except FailureError as failure:
            return self._failed(failure)
        self._reached = True
        self._failed_in_a_row = 0
        return completion

    def _failed(self, failure: FailureError) -> Completion:
        """Count a conversation that failed after all its attempts; raises ServerError where the server is to blame."""
        if not self._reached:
            raise ServerError(
                f"expected an answer from {self._server.wanted} at {self.base_url}, got {failure} "
                f"({failure.attempts} attempts); check the address, the model's name and the server"
            )
        self._failed_in_a_row += failure.again
        if self._failed_in_a_row >= _GIVE_UP:
            raise ServerError(
                f"{self.base_url} no longer answers: {_GIVE_UP} conversations in a row failed, the last with "
                f"{failure}; see to the server and run it again"
            )
        self.failures[failure.kind] += 1
        _log.warning("%s: no usable answer after %d attempts: %s", self.base_url, failure.attempts, failure)
        return Completion("", "error")

    async def _ask(
        self,
        client: "AsyncOpenAI",
        conversation: Conversation,
        sampling: Sampling,
        spent: list[Usage],
    ) -> Completion:
        options: dict[str, Any] = {self._limit_field: sampling.max_tokens, **self._extra}
        request = client.chat.completions.with_raw_response.create(
            model=self.model,
            messages=cast("list[ChatCompletionMessageParam]", list(conversation)),
            temperature=sampling.temperature,
            seed=sampling.seed,
            **options,
        )
        try:
            answer = self._server.read(Answer, (await self._server.send(request)).content)
        except FailureError as failure:
            if (failure.kind, failure.param, self._limit_field) == ("status 400", "max_tokens", "max_tokens"):
                self._limit_field = "max_completion_tokens"  # the name that reasoning models insist on
                failure.again, failure.wait = True, 0.0
            raise
        spent.append(self._bill(answer, conversation, sampling))
        self.usage += spent[-1]
        self._check_whole(answer, conversation)
        try:
            return answer.completion()
        except UnusableAnswerError as error:
            raise FailureError("no message", str(error), again=error.again) from None

    def _bill(self, answer: Answer, conversation: Conversation, sampling: Sampling) -> Usage:
        prompt = answer.prompt_tokens
        if prompt is None:
            prompt = sum(len(message["content"]) for message in conversation) // 3
        completion = answer.completion_tokens
        return self._budget.usage(prompt, sampling.max_tokens if completion is None else completion)

    def _check_whole(self, answer: Answer, conversation: Conversation) -> None:
        if self._token_counter is None or answer.prompt_tokens is None:
            return
        expected = self._token_counter(conversation)
        if answer.prompt_tokens < expected - _SLACK:
            raise FailureError(
                "cut prompt",
                f"the server read {answer.prompt_tokens} tokens of a prompt of {expected}; raise its context length",
                again=False,
            )
