"""Questions to a server with an OpenAI-compatible address, asked again where that may help.

The `openai` package speaks HTTP. Retries are counted here and not there, because an answer that arrives whole and says
nothing (HTML, no choices) deserves them as much as a 503, and because the budget is looked at before every request.
"""

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar
from urllib.parse import urlsplit

import openai
from pydantic import BaseModel, ValidationError

from dealwright.errors import DealwrightError

Read = TypeVar("Read", bound=BaseModel)
Given = TypeVar("Given")

# What vLLM is told so that it samples from the whole distribution and says which tokens it read and sampled.
VLLM_FIELDS = {"top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "return_token_ids": True}

_LONGEST_WAIT = 60.0  # seconds between two attempts, whatever the server asks for
_HOPELESS = {401, 402, 403, 404}  # key, account or address: no later request will fare better
_WORTH_A_RETRY = {408, 409, 425, 429}  # and every 5xx


class ServerError(DealwrightError):
    """A server that cannot be used, or an address, key or account that it refuses, with the status that it gave."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class FailureError(Exception):
    """A failed attempt: its kind, what came, whether to try again, and the wait that the server asks for.

    `param` is the field of the request that the server names as the reason; `attempts` counts those that were made.
    """

    def __init__(
        self,
        kind: str,
        detail: str = "",
        *,
        again: bool = True,
        wait: float | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.kind = kind
        self.again = again
        self.wait = wait
        self.param = param
        self.attempts = 1


class Server:
    """An address to be asked, with the key, the patience and the words of the error for what it refuses.

    `wanted` is what is asked for, such as a model, and `mend` what to do when it is refused. `key_variable` names the
    environment variable that holds the key; None sends none. The key is read anew at every call and kept nowhere.
    """

    def __init__(
        self,
        base_url: str,
        wanted: str,
        mend: str,
        *,
        key_variable: str | None = None,
        timeout: float = 120.0,
        retries: int = 4,
        backoff: float = 1.0,
    ) -> None:
        _check_address(base_url)
        self.base_url = base_url
        self.wanted = wanted
        self.mend = mend
        self._key_variable = key_variable
        self._timeout = timeout
        self._retries = retries
        self._backoff = backoff
        self._key()

    def client(self) -> openai.AsyncOpenAI:
        """Return a client for the event loop that runs: its connections end with it."""
        return openai.AsyncOpenAI(
            api_key=self._key() or "none", base_url=self.base_url, timeout=self._timeout, max_retries=0
        )

    async def send(self, request: Awaitable[Given]) -> Given:
        """Return what one request gives; raises FailureError, or ServerError where no other would fare better."""
        try:
            # The client's timeout watches the gaps between bytes; this one the whole answer.
            async with asyncio.timeout(self._timeout):
                return await request
        except (TimeoutError, openai.APITimeoutError):
            raise FailureError("timeout", f"no answer within {self._timeout:g} s") from None
        except openai.APIConnectionError as error:
            raise FailureError("connection", type(error.__cause__).__name__) from None
        except openai.APIStatusError as error:
            raise self._refusal(error) from None

    def read(self, kind: type[Read], content: bytes) -> Read:
        """Return an answer as what it should be; raises FailureError where it is not."""
        try:
            return kind.model_validate_json(content)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise FailureError("not a completion", self._clean(f"{where} {problem['msg']}")) from None

    async def persist(self, attempt: Callable[[], Awaitable[Given]], seed: int) -> Given:
        """Return what the first attempt that succeeds gives; the last one's FailureError where none does."""
        jitter = Random(seed)
        made = 0
        while True:
            try:
                return await attempt()
            except FailureError as failure:
                made += 1
                failure.attempts = made
                if not failure.again or made > self._retries:
                    raise
                pause = failure.wait
            if pause is None:
                pause = self._backoff * 2 ** (made - 1) * jitter.uniform(0.5, 1)
            await asyncio.sleep(min(pause, _LONGEST_WAIT))

    def _refusal(self, error: openai.APIStatusError) -> ServerError | FailureError:
        said = self._clean(error.message.removeprefix(f"Error code: {error.status_code} - "))
        if error.status_code in _HOPELESS or error.code == "insufficient_quota":
            return ServerError(
                f"{self.base_url} refused {self.wanted} with status {error.status_code}: {said}; {self.mend}",
                error.status_code,
            )
        again = error.status_code in _WORTH_A_RETRY or error.status_code >= 500
        wait = _seconds(error.response.headers.get("retry-after"))
        return FailureError(f"status {error.status_code}", said, again=again, wait=wait, param=error.param)

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


async def side_by_side(one: Callable[[int], Awaitable[None]], waiting: deque[int], places: int) -> None:
    """Do one thing after another for each that waits, at most so many at a time.

    A DealwrightError lets nothing more begin, and is raised once the others have finished what they have begun.
    """

    async def work() -> None:
        while waiting:
            try:
                await one(waiting.popleft())
            except DealwrightError:
                waiting.clear()
                raise

    workers = [work() for _ in range(min(places, len(waiting)))]
    for end in await asyncio.gather(*workers, return_exceptions=True):
        if end is not None:
            raise end


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
