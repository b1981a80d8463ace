"""The answer of an OpenAI-compatible server, checked: nothing that a server says is believed unread.

The `openai` package builds its answer types without looking at the values, so a page of HTML or a missing choice would
surface far away as an AttributeError. Here only the fields that are used are declared, and strictly read.
"""

from typing import Annotated

from pydantic import BaseModel, Field

from dealwright.engines.base import Completion, FinishReason
from dealwright.engines.spending import MOST_TOKENS

Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS)]


class UnusableAnswerError(ValueError):
    """An answer that holds no message; `again` says whether the same question may fare better."""

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.again = again


class _Message(BaseModel):
    content: str | None = None
    reasoning: str | None = None  # vLLM, OpenRouter
    reasoning_content: str | None = None  # SGLang, llama.cpp, DeepSeek


class _TokenLogprob(BaseModel):
    logprob: float


class _Logprobs(BaseModel):
    content: list[_TokenLogprob] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str
    logprobs: _Logprobs | None = None
    token_ids: list[int] | None = None  # vLLM, on demand


class _Usage(BaseModel):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None


class Answer(BaseModel):
    """The part of a chat completion that is used."""

    choices: list[_Choice]
    usage: _Usage | None = None
    prompt_token_ids: list[int] | None = None  # vLLM, on demand

    @property
    def prompt_tokens(self) -> int | None:
        """The number of prompt tokens that the server says it read."""
        return None if self.usage is None else self.usage.prompt_tokens

    @property
    def completion_tokens(self) -> int | None:
        """The number of tokens that the server says it sampled."""
        return None if self.usage is None else self.usage.completion_tokens

    def completion(self) -> Completion:
        """Return the message, or raise UnusableAnswerError.

        A message without content beside filled reasoning is `length`, whatever the server calls it: the model spent
        its tokens on thinking, and would again.
        """
        if not self.choices:
            raise UnusableAnswerError("no choices", again=True)
        choice = self.choices[0]
        text = choice.message.content or ""
        thought = choice.message.reasoning or choice.message.reasoning_content
        finish: FinishReason
        if choice.finish_reason == "length" or (not text and thought):
            finish = "length"
        elif choice.finish_reason == "stop":
            finish = "stop"
        else:
            reason = choice.finish_reason
            raise UnusableAnswerError(f"finish reason {reason[:40]!r}", again=reason != "content_filter")
        logprobs = choice.logprobs.content if choice.logprobs and choice.logprobs.content else []
        return Completion(
            text,
            finish,
            tuple(self.prompt_token_ids or ()),
            tuple(choice.token_ids or ()),
            tuple(item.logprob for item in logprobs),
        )
