"""Answers kept as they come, so that a run that was killed asks for none of them twice.

An answer is kept under the conversation that it answers, not under a game. Equal conversations, of two rounds or of a
second try, are interchangeable draws: each kept answer is given out once, in the order in which it came.
"""

import json
import os
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dealwright.engines.base import Completion, Conversation, Engine, FinishReason, Sampling
from dealwright.engines.spending import MOST_TOKENS, Usage
from dealwright.errors import DealwrightError
from dealwright.files import unwritable

# A line adds up the tries of one conversation, of which nobody makes a thousand.
_Count = Annotated[int, Field(ge=0, le=1000 * MOST_TOKENS)]


class _Usage(BaseModel):
    model_config = ConfigDict(extra="forbid")

    answers: _Count
    prompt_tokens: _Count
    completion_tokens: _Count
    dollars: Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Line(BaseModel):
    key: str | None
    text: str
    finish_reason: FinishReason
    token_ids: tuple[int, ...]
    usage: _Usage | None


class KeptAnswers:
    """The answers of one model in a file of lines, one an answer; a line that a kill cut off is dropped.

    A failure among answers is kept as the outcome that it was, so that a run goes on as it would have; failures at the
    end of the file, when the server was gone, are asked again. Answers that came in this run are not given out again.
    Only answers kept under the same `scope` are interchangeable. `usage` is what all of them cost. Raises
    DealwrightError for a file that is damaged, and where the disk is full.
    """

    def __init__(self, path: Path, model: str) -> None:
        self.path = path
        self.usage = Usage()
        self.scope = ""
        self._model = model
        self._known: dict[str, deque[Completion]] = {}
        self._read()

    def take(self, conversations: Sequence[Conversation], sampling: Sampling) -> dict[int, Completion]:
        """Return answers from before by the places of their conversations, each answer once."""
        found: dict[int, Completion] = {}
        for place, conversation in enumerate(conversations):
            if known := self._known.get(self._key(conversation, sampling)):
                found[place] = known.popleft()
        return found

    def add(self, conversation: Conversation, sampling: Sampling, completion: Completion) -> None:
        """Keep an answer, or a failure."""
        self._write(self._key(conversation, sampling), completion)

    def bill(self, usage: Usage) -> None:
        """Keep what was paid for no answer."""
        if usage.answers:
            self._write(None, Completion("", "error", usage=usage))

    def forget(self) -> None:
        """Remove the file, once what was made of the answers is written."""
        self.path.unlink(missing_ok=True)

    def _key(self, conversation: Conversation, sampling: Sampling) -> str:
        asked = [self._model, self.scope, sampling.temperature, sampling.max_tokens, list(conversation)]
        return blake2b(json.dumps(asked, sort_keys=True).encode(), digest_size=16).hexdigest()

    def _write(self, key: str | None, completion: Completion) -> None:
        line = {
            "key": key,
            "text": completion.text,
            "finish_reason": completion.finish_reason,
            "token_ids": completion.token_ids,
            "usage": None if completion.usage is None else asdict(completion.usage),
        }
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Opened anew each time: once closed, the line is with the operating system, and survives a kill.
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _read(self) -> None:
        if not self.path.exists():
            return
        content = self.path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self.path, len(whole))  # writing it anew would lose answers to a full disk or a second kill
        answers = [self._answer(number, line) for number, line in enumerate(whole.splitlines(), start=1)]
        self.usage = sum((answer.usage for _, answer in answers if answer.usage is not None), Usage())
        asked = [(key, answer) for key, answer in answers if key is not None]
        while asked and asked[-1][1].finish_reason == "error":
            asked.pop()
        for key, answer in asked:
            self._known.setdefault(key, deque()).append(answer)

    def _answer(self, number: int, line: bytes) -> tuple[str | None, Completion]:
        try:
            kept = _Line.model_validate_json(line, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = "".join(f"{part}: " for part in first["loc"])
            raise DealwrightError(
                f"{self.path} is damaged: line {number}: {place}{first['msg']}; remove it, and all is asked again"
            ) from error
        usage = None if kept.usage is None else Usage(**kept.usage.model_dump())
        return kept.key, Completion(kept.text, kept.finish_reason, token_ids=kept.token_ids, usage=usage)


class KeptEngine:
    """An engine of this process with its answers kept; those of a call are written when all of them have come."""

    def __init__(self, engine: Engine, kept: KeptAnswers) -> None:
        self._engine = engine
        self._kept = kept

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one completion a conversation, in order; only those that are not kept are generated."""
        completions = self._kept.take(conversations, sampling)
        missing = [place for place in range(len(conversations)) if place not in completions]
        fresh = self._engine.generate([conversations[place] for place in missing], sampling) if missing else []
        for place, completion in zip(missing, fresh, strict=True):
            self._kept.add(conversations[place], sampling, completion)
            completions[place] = completion
        return [completions[place] for place in range(len(conversations))]
