"""A model behind any OpenAI-compatible address: vLLM, SGLang, llama.cpp, Ollama or a provider.

The `openai` package speaks HTTP. Retries are counted here and not there, because an answer that arrives whole and says
nothing (HTML, no choices) deserves them as much as a 503, and because the budget is looked at before every request.

A server's own sampling defaults apply unless it is told otherwise: serve with `vllm serve --generation-config vllm
--logprobs-mode processed_logprobs`, or a model's generation_config.json narrows the sampling unseen.
"""

import asyncio
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import openai
from pydantic import ValidationError

from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.kept import KeptAnswers
from dealwright.engines.openai_answer import Answer, UnusableAnswerError
from dealwright.engines.seeds import conversation_seed
from dealwright.engines.spending import Budget, Usage
from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionMessageParam

_log = logging.getLogger(__name__)

_LONGEST_WAIT = 60.0  # seconds between two attempts, whatever the server asks for
_HOPELESS = {401, 402, 403, 404}  # key, account or address: no later request will fare better
_WORTH_A_RETRY = {408, 409, 425, 429}  # and every 5xx
_GIVE_UP = 16  # conversations in a row that fail after all their retries: the server is gone
_SLACK = 4  # prompt tokens by which two counts of one template may differ (a begin-of-text mark, a newline)
# What vLLM is told so that it samples from the whole distribution and says which tokens it read and sampled.
_VLLM_FIELDS = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True}


class ServerError(DealwrightError):
    """A server that cannot be used, or an address, key or account that it refuses."""


class _FailureError(Exception):
    """One failed attempt: its kind, what came, whether to try again, and the wait that the server asks for."""

    def __init__(self, kind: str, detail: str = "", *, again: bool = True, wait: float | None = None) -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind
        self.again = again
        self.wait = wait


class OpenaiEngine:
    """Continues conversations through a server.

    The first conversation of all is asked alone, and if it fails after its retries ServerError ends the run: a wrong
    address costs one question, not a batch. From then on a conversation that fails is a completion with the finish
    reason `error`, counted by kind in `failures`. Requests already under way when the budget is reached are finished
    and counted, so that the most it is passed by is one request a place of `concurrency`.

    `key_variable` names the environment variable that holds the key; None sends none. The key is read anew at every
    call and kept nowhere. `token_counter` counts a conversation's prompt tokens by the model's own template: a server
    that reports fewer has cut the prompt. `vllm` says that the server is vLLM and tells tokens and log-probabilities.

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
        _check_address(base_url)
        if concurrency < 1 or timeout <= 0 or retries < 0 or backoff < 0:
            raise ServerError(
                "expected concurrency >= 1, timeout > 0, retries >= 0 and backoff >= 0, "
                f"got {concurrency}, {timeout}, {retries} and {backoff}"
            )
        self.model = model
        self.base_url = base_url
        self.usage = Usage() if kept is None else kept.usage
        self.failures: Counter[str] = Counter()
        self._key_variable = key_variable
        self._concurrency = concurrency
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._budget = budget or Budget()
        self._token_counter = token_counter
        self._kept = kept
        self._failed_in_a_row = 0
        self._extra: dict[str, Any] = {"logprobs": True, "extra_body": _VLLM_FIELDS} if vllm else {}
        self._limit_field = "max_tokens"
        self._reached = False
        self._key()

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

        async def work() -> None:
            while waiting:
                try:
                    await one(waiting.popleft())
                except DealwrightError:
                    waiting.clear()  # the other workers finish what they have begun
                    raise

        # A client a call: its connections belong to the event loop, which ends with the call.
        async with openai.AsyncOpenAI(
            api_key=self._key() or "none", base_url=self.base_url, timeout=self._timeout, max_retries=0
        ) as client:
            if waiting and not self._reached:
                await one(waiting.popleft())
            workers = [work() for _ in range(min(self._concurrency, len(waiting)))]
            ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if end is not None:
                raise end
        return [completions[index] for index in range(len(conversations))]

    async def _complete(
        self,
        client: openai.AsyncOpenAI,
        conversation: Conversation,
        sampling: Sampling,
        spent: list[Usage],
    ) -> Completion:
        jitter = Random(sampling.seed)
        attempt = 0
        while True:
            self._budget.check(self.usage)
            try:
                completion = await self._ask(client, conversation, sampling, spent)
            except _FailureError as error:
                failure = error
            else:
                self._reached = True
                self._failed_in_a_row = 0
                return completion
            if not failure.again or attempt == self._retries:
                break
            pause = failure.wait if failure.wait is not None else self._backoff * 2**attempt * jitter.uniform(0.5, 1)
            await asyncio.sleep(min(pause, _LONGEST_WAIT))
            attempt += 1
        if not self._reached:
            raise ServerError(
                f"expected an answer from the model {self.model!r} at {self.base_url}, got {failure} "
                f"({attempt + 1} attempts); check the address, the model's name and the server"
            )
        self._failed_in_a_row += failure.again
        if self._failed_in_a_row >= _GIVE_UP:
            raise ServerError(
                f"{self.base_url} no longer answers: {_GIVE_UP} conversations in a row failed, the last with "
                f"{failure}; see to the server and run it again"
            )
        self.failures[failure.kind] += 1
        _log.warning("%s: no usable answer after %d attempts: %s", self.base_url, attempt + 1, failure)
        return Completion("", "error")

    async def _ask(
        self,
        client: openai.AsyncOpenAI,
        conversation: Conversation,
        sampling: Sampling,
        spent: list[Usage],
    ) -> Completion:
        options: dict[str, Any] = {self._limit_field: sampling.max_tokens, **self._extra}
        try:
            # The client's timeout watches the gaps between bytes; this one the whole answer.
            async with asyncio.timeout(self._timeout):
                response = await client.chat.completions.with_raw_response.create(
                    model=self.model,
                    messages=cast("list[ChatCompletionMessageParam]", list(conversation)),
                    temperature=sampling.temperature,
                    seed=sampling.seed,
                    **options,
                )
        except (TimeoutError, openai.APITimeoutError):
            raise _FailureError("timeout", f"no answer within {self._timeout:g} s") from None
        except openai.APIConnectionError as error:
            raise _FailureError("connection", type(error.__cause__).__name__) from None
        except openai.APIStatusError as error:
            raise self._refusal(error) from None
        try:
            answer = Answer.model_validate_json(response.content)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise _FailureError("not a completion", self._clean(f"{where} {problem['msg']}")) from None
        spent.append(self._bill(answer, conversation, sampling))
        self.usage += spent[-1]
        self._check_whole(answer, conversation)
        try:
            return answer.completion()
        except UnusableAnswerError as error:
            raise _FailureError("no message", str(error), again=error.again) from None

    def _refusal(self, error: openai.APIStatusError) -> DealwrightError | _FailureError:
        said = self._clean(error.message.removeprefix(f"Error code: {error.status_code} - "))
        if error.status_code == 400 and error.param == "max_tokens" and self._limit_field == "max_tokens":
            self._limit_field = "max_completion_tokens"  # the name that reasoning models insist on
            return _FailureError("status 400", said, wait=0.0)
        if error.status_code in _HOPELESS or error.code == "insufficient_quota":
            return ServerError(
                f"{self.base_url} refused the model {self.model!r} with status {error.status_code}: {said}; "
                f"check the address, the model's name and the key ({self._key_variable or 'no variable named'})"
            )
        again = error.status_code in _WORTH_A_RETRY or error.status_code >= 500
        wait = _seconds(error.response.headers.get("retry-after"))
        return _FailureError(f"status {error.status_code}", said, again=again, wait=wait)

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
            raise _FailureError(
                "cut prompt",
                f"the server read {answer.prompt_tokens} tokens of a prompt of {expected}; raise its context length",
                again=False,
            )

    def _key(self) -> str:
        if self._key_variable is None:
            return ""
        key = os.environ.get(self._key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            came = "characters that no key has" if key else "nothing"
            raise ServerError(
                f"expected a key in the environment variable {self._key_variable}, got {came}; export it first"
            )
        return key

    def _clean(self, text: str) -> str:
        """Return a server's words on one short line, without the key that some servers echo."""
        key = self._key()
        return " ".join((text.replace(key, "***") if key else text).split())[:200]


def _check_address(base_url: str) -> None:
    parts = urlsplit(base_url)
    if parts.username is not None or parts.password is not None:
        raise ServerError("expected a base URL without a name or password in it; give a key by key_variable")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerError(f"expected a base URL such as http://127.0.0.1:8000/v1, got {base_url!r}")


def _seconds(header: str | None) -> float | None:
    """Read a Retry-After in seconds; a date, or anything else, is left to the backoff."""
    if header is None or not header.strip().isdecimal():
        return None
    return float(header)
