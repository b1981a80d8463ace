"""Answers kept as they come: none is paid for twice, and none is given out twice."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dealwright.engines.asking import ServerError
from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.kept import KeptAnswers, KeptEngine
from dealwright.engines.openai_server import OpenaiEngine
from dealwright.engines.spending import Budget, BudgetSpentError, Usage
from dealwright.errors import DealwrightError
from tests.disk import full_disk
from tests.faulty_server import FaultyServer, close, completion, echo, say, send

SAMPLING = Sampling(temperature=0.7, max_tokens=16, seed=3)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "work" / "big.jsonl"


def ask(*texts: str) -> list[Conversation]:
    return [[{"role": "user", "content": text}] for text in texts]


def engine(server: FaultyServer, path: Path, **options: Any) -> OpenaiEngine:
    kept = KeptAnswers(path, "m")
    return OpenaiEngine("m", server.base_url, kept=kept, **{"retries": 0, "concurrency": 1, **options})


def texts(completions: Sequence[Completion]) -> list[str]:
    return [item.text for item in completions]


def test_answers_from_before_are_not_asked_again(path: Path) -> None:
    with FaultyServer(say("one"), say("two"), say("three")) as server:
        assert texts(engine(server, path).generate(ask("a", "b"), SAMPLING)) == ["one", "two"]
        assert texts(engine(server, path).generate(ask("b", "c", "a"), SAMPLING)) == ["two", "three", "one"]
        assert len(server.bodies) == 3


def test_a_conversation_asked_twice_gets_two_answers_then_and_later(path: Path) -> None:
    with FaultyServer(say("one"), say("two"), say("three")) as server:
        for expected in (["one", "two"], ["one", "two", "three"]):
            assert texts(engine(server, path).generate(ask(*"aaa"[: len(expected)]), SAMPLING)) == expected
        assert len(server.bodies) == 3


def test_answers_to_other_sampling_or_of_another_model_are_not_given_out(path: Path) -> None:
    with FaultyServer(echo) as server:
        engine(server, path).generate(ask("a"), SAMPLING)
        engine(server, path).generate(ask("a"), Sampling(0.0, 16, 3))
        engine(server, path).generate(ask("a"), Sampling(0.7, 17, 3))
        OpenaiEngine("n", server.base_url, kept=KeptAnswers(path, "n")).generate(ask("a"), SAMPLING)
        assert len(server.bodies) == 4
        engine(server, path).generate(ask("a"), Sampling(0.7, 16, 99))
        assert len(server.bodies) == 4


def test_every_part_of_an_answer_that_a_game_needs_comes_back(path: Path) -> None:
    with FaultyServer(completion({"content": "I can go dow"}, "length", {"prompt_tokens": 9})) as server:
        model = engine(server, path, budget=Budget(prompt_price=1e6))
        [first] = model.generate(ask("a"), SAMPLING)
    [again] = engine(server, path).generate(ask("a"), SAMPLING)
    assert (again, again.usage) == (Completion("I can go dow", "length"), Usage(1, 9, 16, 9.0))
    assert first.usage == again.usage


def test_a_line_that_a_kill_cut_off_is_asked_again_and_the_file_stays_whole(path: Path) -> None:
    with FaultyServer(echo) as server:
        engine(server, path).generate(ask("a", "b"), SAMPLING)
        path.write_bytes(path.read_bytes()[:-20])
        assert texts(engine(server, path).generate(ask("a", "b"), SAMPLING)) == ["a", "b"]
        assert len(server.bodies) == 3
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ["a", "b"]


def test_a_line_is_cut_off_without_writing_the_answers_before_it_anew(path: Path) -> None:
    with FaultyServer(echo) as server:
        engine(server, path).generate(ask("a", "b"), SAMPLING)
    path.write_bytes(path.read_bytes()[:-20])
    with full_disk(0):
        KeptAnswers(path, "m")
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == ["a"]


def test_a_damaged_file_is_one_clear_error(path: Path) -> None:
    path.parent.mkdir()
    path.write_text("{}}\n")
    with pytest.raises(DealwrightError, match=r"big.jsonl is damaged: .*; remove it, and all is asked again"):
        KeptAnswers(path, "m")


GOOD = {"key": "k", "text": "one", "finish_reason": "stop", "token_ids": [1], "usage": None}
PAID = {"answers": 1, "prompt_tokens": 9, "completion_tokens": 5, "dollars": 0.5}
DAMAGED: list[tuple[object, str]] = [
    (1, "line 2: Input should be an object"),
    ([], "line 2: Input should be an object"),
    ({}, "line 2: key: Field required"),
    ({**GOOD, "key": 5}, "line 2: key: Input should be a valid string"),
    ({**GOOD, "text": None}, "line 2: text: Input should be a valid string"),
    ({**GOOD, "finish_reason": "abort"}, "line 2: finish_reason: Input should be 'stop', 'length' or 'error'"),
    ({**GOOD, "token_ids": 5}, "line 2: token_ids: Input should be a valid array"),
    ({**GOOD, "token_ids": ["a"]}, "line 2: token_ids: 0: Input should be a valid integer"),
    ({**GOOD, "usage": {"x": 1}}, "line 2: usage: answers: Field required"),
    ({**GOOD, "usage": {**PAID, "x": 1}}, "line 2: usage: x: Extra inputs are not permitted"),
    ({**GOOD, "usage": {**PAID, "answers": -1}}, "line 2: usage: answers: Input should be greater than or equal to 0"),
    ({**GOOD, "usage": {**PAID, "prompt_tokens": 2**62}}, "line 2: usage: prompt_tokens: Input should be less than"),
    ({**GOOD, "usage": {**PAID, "dollars": float("nan")}}, "line 2: usage: dollars: Input should be"),
]


@pytest.mark.parametrize(("line", "message"), DAMAGED, ids=lambda value: str(value)[:40])
def test_a_line_of_another_shape_is_one_clear_error(path: Path, line: object, message: str) -> None:
    path.parent.mkdir()
    path.write_text(f"{json.dumps(GOOD)}\n{json.dumps(line)}\n")
    with pytest.raises(
        DealwrightError, match=r"big.jsonl is damaged: .*; remove it, and all is asked again"
    ) as caught:
        KeptAnswers(path, "m")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_budget_counts_what_was_paid_before_and_answers_for_nothing(path: Path) -> None:
    unusable = send('{"choices": [], "usage": {"prompt_tokens": 30, "completion_tokens": 0}}')
    with FaultyServer(say("one", 15, 5), unusable, say("two", 15, 5)) as server:
        with pytest.raises(BudgetSpentError, match=r"budget of 50 tokens is spent \(50 in 2 answers\)"):
            engine(server, path, budget=Budget(tokens=50), retries=1, backoff=0.0).generate(ask("a", "b"), SAMPLING)
        with pytest.raises(BudgetSpentError, match="50 in 2 answers"):
            engine(server, path, budget=Budget(tokens=50)).generate(ask("a", "b"), SAMPLING)
        assert len(server.bodies) == 2
        model = engine(server, path, budget=Budget(tokens=100))
        assert texts(model.generate(ask("a", "b"), SAMPLING)) == ["one", "two"]
        assert len(server.bodies) == 3
    assert model.usage == Usage(3, 60, 10)


def test_what_was_answered_before_needs_no_budget_and_no_server(path: Path) -> None:
    with FaultyServer(say("one", 50, 50)) as server:
        engine(server, path).generate(ask("a"), SAMPLING)
    model = engine(server, path, budget=Budget(tokens=100))
    assert texts(model.generate(ask("a"), SAMPLING)) == ["one"]


def test_a_failure_among_answers_stays_and_those_at_the_end_are_asked_again(path: Path) -> None:
    with FaultyServer(say("one"), close, say("three"), close, close, say("last")) as server:
        first = engine(server, path).generate(ask(*"abcde"), SAMPLING)
        assert texts(first) == ["one", "", "three", "", ""]
        again = engine(server, path).generate(ask(*"abcde"), SAMPLING)
        assert [(item.text, item.finish_reason) for item in again] == [
            ("one", "stop"),
            ("", "error"),
            ("three", "stop"),
            ("last", "stop"),
            ("last", "stop"),
        ]
        assert len(server.bodies) == 7


def test_a_server_that_is_gone_ends_the_run_and_its_answers_stay(path: Path) -> None:
    with FaultyServer(say("one"), close) as server:
        with pytest.raises(ServerError, match=r"no longer answers: 16 conversations in a row failed.* run it again"):
            engine(server, path).generate(ask("one", *(str(number) for number in range(40))), SAMPLING)
        assert len(server.bodies) == 17
    with FaultyServer(echo) as server:
        model = engine(server, path)
        assert texts(model.generate(ask("one", "0", "1"), SAMPLING)) == ["one", "0", "1"]
        assert len(server.bodies) == 2


class Counter:
    """An engine that numbers its answers."""

    def __init__(self) -> None:
        self.said = 0

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        self.said += len(conversations)
        return [Completion(f"{self.said} {c[0]['content']}", "stop", token_ids=(1, 2)) for c in conversations]


def test_an_engine_of_this_process_is_asked_only_for_what_is_missing(path: Path) -> None:
    first, second = Counter(), Counter()
    assert texts(KeptEngine(first, KeptAnswers(path, "m")).generate(ask("a", "b"), SAMPLING)) == ["2 a", "2 b"]
    again = KeptEngine(second, KeptAnswers(path, "m")).generate(ask("c", "b", "a"), SAMPLING)
    assert texts(again) == ["1 c", "2 b", "2 a"]
    assert [item.token_ids for item in again] == [(1, 2)] * 3
    assert second.said == 1


def test_what_is_forgotten_is_asked_again(path: Path) -> None:
    model = Counter()
    kept = KeptAnswers(path, "m")
    KeptEngine(model, kept).generate(ask("a"), SAMPLING)
    kept.forget()
    assert not path.exists()
    kept.forget()
