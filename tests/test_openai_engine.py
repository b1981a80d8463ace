import asyncio
import json
import logging
import socket
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from dealwright.engines.asking import ServerError
from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.openai_server import OpenaiEngine
from dealwright.engines.spending import Budget, BudgetSpentError, Usage
from dealwright.errors import DealwrightError
from tests.faulty_server import (
    FaultyServer,
    Reply,
    close,
    completion,
    dribble,
    echo,
    fail,
    say,
    send,
    stay_silent,
    truncate,
)

KEY = "sk-test-3f9a7c"
SAMPLING = Sampling(temperature=0.7, max_tokens=16, seed=3)
HTML = send("<html><h1>Welcome</h1></html>", kind="text/html")
FAULTS = {
    "a closed connection": (close, "connection"),
    "HTML": (HTML, "not a completion"),
    "HTML that claims to be JSON": (send("<html></html>"), "not a completion"),
    "JSON of another kind": (send('["a", "b"]'), "not a completion"),
    "an error with status 200": (send('{"error": {"message": "overloaded"}}'), "not a completion"),
    "no choices": (send('{"choices": []}'), "no message"),
    "a choice without a message": (send('{"choices": [{"finish_reason": "stop"}]}'), "not a completion"),
    "a message that is no text": (completion({"content": {"text": 1}}), "not a completion"),
    "no finish reason": (completion({"content": "Hel"}, finish=None), "not a completion"),
    "a strange finish reason": (completion({"content": "Hel"}, finish="abort"), "no message"),
    "a count below zero": (say("Hello", prompt_tokens=-5), "not a completion"),
    "a count that cannot be": (say("Hello", prompt_tokens=2**62), "not a completion"),
    "a count of sampled tokens that cannot be": (say("Hello", completion_tokens=10**9 + 1), "not a completion"),
    "half a surrogate": (completion({"content": "\ud800"}), "not a completion"),
    "a truncated body": (truncate, "connection"),
    "a status 500": (fail(500), "status 500"),
    "a status 429": (fail(429), "status 429"),
    "an HTML page with status 502": (send("<html>Bad gateway</html>", status=502, kind="text/html"), "status 502"),
}


def engine(server: FaultyServer, **options: Any) -> OpenaiEngine:
    return OpenaiEngine("m", server.base_url, **{"retries": 1, "backoff": 0.01, "timeout": 5.0, **options})


def ask(*texts: str) -> list[Conversation]:
    return [[{"role": "system", "content": "You sell."}, {"role": "user", "content": text}] for text in texts]


def test_completions_come_in_the_order_of_the_conversations_and_few_at_a_time() -> None:
    everyone = threading.Barrier(3)

    def slow(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
        everyone.wait(5)  # three must be open together, or this fails
        echo(handler, body, closing)

    with FaultyServer(echo, slow) as server:
        completions = engine(server, concurrency=3).generate(ask(*"abcdefg"), SAMPLING)
        assert [item.text for item in completions] == ["a", "b", "c", "d", "e", "f", "g"]
        assert {item.finish_reason for item in completions} == {"stop"}
        assert server.most_at_once == 3


def test_a_request_holds_the_conversation_and_the_sampling() -> None:
    with FaultyServer(echo) as server:
        engine(server).generate(ask("Hello"), SAMPLING)
        body = server.bodies[0]
    assert 0 <= body.pop("seed") < 2**31
    assert body == {
        "model": "m",
        "messages": [{"role": "system", "content": "You sell."}, {"role": "user", "content": "Hello"}],
        "temperature": 0.7,
        "max_tokens": 16,
    }


def test_equal_conversations_of_one_call_differ_in_seed_and_a_second_call_repeats_them() -> None:
    with FaultyServer(echo) as server:
        model = engine(server, concurrency=1)
        for _ in range(2):
            model.generate(ask("same", "same", "same"), SAMPLING)
        seeds = [body["seed"] for body in server.bodies]
    assert len(set(seeds[:3])) == 3
    assert seeds[:3] == seeds[3:]


def test_tokens_and_log_probabilities_of_a_vllm_server_are_kept() -> None:
    answer = {
        "prompt_token_ids": [1, 2, 3],
        "choices": [
            {
                "message": {"content": "Hi"},
                "finish_reason": "stop",
                "token_ids": [7, 8],
                "logprobs": {"content": [{"token": "Hi", "logprob": -0.5}, {"token": "", "logprob": -0.25}]},
            }
        ],
    }
    with FaultyServer(send(json.dumps(answer))) as server:
        [item] = engine(server, vllm=True).generate(ask("Hello"), SAMPLING)
        body = server.bodies[0]
    assert item == Completion("Hi", "stop", (1, 2, 3), (7, 8), (-0.5, -0.25))
    assert (body["logprobs"], body["return_token_ids"], body["top_p"], body["top_k"]) == (True, True, 1.0, 0)


def test_no_conversations_need_no_server() -> None:
    assert OpenaiEngine("m", "http://127.0.0.1:9/v1").generate([], SAMPLING) == []


@pytest.mark.parametrize(("fault", "kind"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_becomes_an_error_completion_after_its_retries(fault: Reply, kind: str) -> None:
    with FaultyServer(say("first"), fault, fault, fault, say("last")) as server:
        model = engine(server, retries=2, concurrency=1)
        completions = model.generate(ask("a", "b", "c"), SAMPLING)
        assert completions == [Completion("first", "stop"), Completion("", "error"), Completion("last", "stop")]
        assert len(server.bodies) == 5
    assert model.failures == {kind: 1}


@pytest.mark.parametrize("name", ["a closed connection", "HTML", "no choices", "a truncated body", "a status 500"])
def test_a_fault_at_the_first_contact_is_one_clear_error(name: str) -> None:
    fault, kind = FAULTS[name]
    with FaultyServer(fault) as server:
        with pytest.raises(ServerError, match=f"model 'm' at {server.base_url}, got {kind}") as caught:
            engine(server).generate(ask(*"abcdefgh"), SAMPLING)
        assert len(server.bodies) == 2  # one conversation, one retry
    assert isinstance(caught.value, DealwrightError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("fault", [stay_silent, dribble])
def test_a_server_that_never_ends_its_answer_is_given_up(fault: Reply) -> None:
    with FaultyServer(say("first"), fault, fault, say("last")) as server:
        model = engine(server, timeout=0.3, concurrency=1)
        completions = model.generate(ask("a", "b", "c"), SAMPLING)
    assert [item.finish_reason for item in completions] == ["stop", "error", "stop"]
    assert model.failures == {"timeout": 1}


def test_an_address_where_nobody_listens_is_one_clear_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        model = OpenaiEngine("m", f"http://127.0.0.1:{taken.getsockname()[1]}/v1", retries=1, backoff=0.01)
        with pytest.raises(ServerError, match=r"got connection: ConnectError \(2 attempts\); check the address"):
            model.generate(ask("a"), SAMPLING)


def test_a_passing_fault_is_overcome() -> None:
    with FaultyServer(fail(503), fail(429, Retry_After="0"), HTML, close, say("at last")) as server:
        model = engine(server, retries=4)
        assert model.generate(ask("a"), SAMPLING) == [Completion("at last", "stop")]
    assert not model.failures


def test_a_server_is_left_alone_for_as_long_as_it_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    replies = [fail(429, Retry_After="7"), fail(503, Retry_After="9000"), fail(500), fail(500)]
    with FaultyServer(*replies, say("at last")) as server:
        engine(server, retries=4, backoff=1.0).generate(ask("a"), SAMPLING)
    assert pauses[:2] == [7.0, 60.0]
    assert 2.0 <= pauses[2] <= 4.0
    assert 4.0 <= pauses[3] <= 8.0


def test_a_refused_question_is_not_asked_again() -> None:
    with FaultyServer(say("first"), fail(400, "the prompt is too long"), say("last")) as server:
        model = engine(server, concurrency=1)
        completions = model.generate(ask("a", "b", "c"), SAMPLING)
        assert [item.finish_reason for item in completions] == ["stop", "error", "stop"]
        assert len(server.bodies) == 3
    assert model.failures == {"status 400": 1}


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_refused_key_or_model_ends_the_run_at_once(status: int) -> None:
    with FaultyServer(say("first"), fail(status, "no such thing")) as server:
        with pytest.raises(ServerError, match=f"refused the model 'm' with status {status}: .*no such thing"):
            engine(server, concurrency=1).generate(ask("a", "b", "c", "d"), SAMPLING)
        assert len(server.bodies) == 2


def test_an_exhausted_quota_is_not_waited_for() -> None:
    error = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    with FaultyServer(send(json.dumps(error), status=429)) as server:
        with pytest.raises(ServerError, match="You exceeded your quota"):
            engine(server).generate(ask("a"), SAMPLING)
        assert len(server.bodies) == 1


def test_a_model_that_knows_the_limit_by_its_new_name_gets_it() -> None:
    error = {"error": {"message": "Unsupported parameter", "code": "unsupported_parameter", "param": "max_tokens"}}
    with FaultyServer(send(json.dumps(error), status=400), say("Hi")) as server:
        assert engine(server).generate(ask("a", "b"), SAMPLING)[1].text == "Hi"
        assert [body.get("max_completion_tokens") for body in server.bodies] == [None, 16, 16]
        assert [body.get("max_tokens") for body in server.bodies] == [16, None, None]


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (completion({"content": "I can go dow"}, finish="length"), "I can go dow"),
        (completion({"content": "", "reasoning": "Let me think"}, finish="length"), ""),
        (completion({"content": None, "reasoning_content": "Let me think"}, finish="stop"), ""),
    ],
)
def test_a_message_cut_off_or_lost_in_thought_is_length_and_not_asked_again(reply: Reply, text: str) -> None:
    with FaultyServer(reply) as server:
        assert engine(server).generate(ask("a"), SAMPLING) == [Completion(text, "length")]
        assert len(server.bodies) == 1


def test_an_empty_message_without_reasoning_is_what_the_model_said() -> None:
    with FaultyServer(completion({"content": ""})) as server:
        assert engine(server).generate(ask("a"), SAMPLING) == [Completion("", "stop")]


def test_a_filtered_message_is_an_error_and_not_asked_again() -> None:
    with FaultyServer(say("first"), completion({"content": ""}, finish="content_filter")) as server:
        completions = engine(server).generate(ask("a", "b"), SAMPLING)
        assert completions[1] == Completion("", "error")
        assert len(server.bodies) == 2


def test_a_prompt_that_the_server_cut_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    replies = [say("whole", prompt_tokens=99), say("cut", prompt_tokens=64), say("whole", prompt_tokens=100)]
    with FaultyServer(*replies) as server:
        model = engine(server, concurrency=1, token_counter=lambda conversation: 100)
        completions = model.generate(ask("a", "b", "c"), SAMPLING)
        assert [item.finish_reason for item in completions] == ["stop", "error", "stop"]
        assert len(server.bodies) == 3
    assert model.failures == {"cut prompt": 1}
    assert "the server read 64 tokens of a prompt of 100; raise its context length" in caplog.text


def test_usage_is_added_up_and_told_for_each_conversation() -> None:
    prices = Budget(prompt_price=2.0, completion_price=10.0)
    unusable = send('{"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": 0}}')
    with FaultyServer(say("a", 1000, 100), unusable, say("b", 1000, 200)) as server:
        model = engine(server, budget=prices, concurrency=1)
        usages = [item.usage for item in model.generate(ask("a", "b", "c"), SAMPLING)]
    assert usages == [Usage(1, 1000, 100, 0.003), Usage(2, 2000, 200, 0.006), Usage(1, 1000, 200, 0.004)]
    assert (model.usage.answers, model.usage.prompt_tokens, model.usage.completion_tokens) == (4, 4000, 500)
    assert model.usage.dollars == pytest.approx(0.013)


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        (Budget(tokens=40), r"the budget of 40 tokens is spent \(45 in 3 answers\); raise it or play fewer games"),
        (Budget(dollars=0.04, prompt_price=1000.0, completion_price=1000.0), r"\$0.04 is spent \(\$0.0450 in 3 "),
    ],
)
def test_a_spent_budget_ends_the_run_and_asks_for_nothing_more(budget: Budget, message: str) -> None:
    with FaultyServer(echo) as server:
        model = engine(server, budget=budget, concurrency=1)
        for _ in range(2):
            with pytest.raises(BudgetSpentError, match=message):
                model.generate(ask(*"abcdefgh"), SAMPLING)
        assert len(server.bodies) == 3
    assert model.usage.answers == 3


def test_requests_under_way_when_the_budget_ends_are_finished_and_counted() -> None:
    with FaultyServer(echo) as server:
        model = engine(server, budget=Budget(tokens=40), concurrency=4)
        with pytest.raises(BudgetSpentError):
            model.generate(ask(*"abcdefghijkl"), SAMPLING)
        assert model.usage.answers == len(server.bodies)
        assert 3 <= len(server.bodies) <= 3 + 3


def test_tokens_that_the_server_does_not_tell_are_counted_high() -> None:
    with FaultyServer(completion({"content": "Hi"})) as server:
        model = engine(server)
        model.generate(ask("x" * 300), SAMPLING)
    assert model.usage == Usage(1, 103, 16)


def test_a_budget_in_dollars_needs_prices() -> None:
    with pytest.raises(DealwrightError, match=r"expected the price of tokens beside a budget of \$5, got none"):
        Budget(dollars=5.0)


def test_the_key_is_sent_and_appears_nowhere_else(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SELLER_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    with FaultyServer(say("first"), fail(500, f"bad key {KEY}"), fail(401, f"bad key {KEY}")) as server:
        model = engine(server, key_variable="SELLER_KEY", retries=0, concurrency=1)
        with pytest.raises(ServerError, match=r"bad key \*\*\*.*check .* the key \(SELLER_KEY\)") as caught:
            model.generate(ask("a", "b", "c"), SAMPLING)
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    assert model.failures == {"status 500": 1}
    assert KEY not in caplog.text
    assert KEY not in str(caught.value)
    assert KEY not in repr(model) + repr(vars(model))
    assert repr(model) == f"OpenaiEngine(model='m', base_url='{server.base_url}')"


def test_a_key_of_the_surroundings_is_not_sent_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FaultyServer(echo) as server:
        engine(server).generate(ask("a"), SAMPLING)
        assert KEY not in repr(server.headers)


@pytest.mark.parametrize(("value", "came"), [(None, "nothing"), ("  ", "nothing"), ("sk\n3f", "characters that no")])
def test_a_key_that_cannot_be_sent_is_refused(monkeypatch: pytest.MonkeyPatch, value: str | None, came: str) -> None:
    monkeypatch.delenv("SELLER_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("SELLER_KEY", value)
    with pytest.raises(ServerError, match=f"environment variable SELLER_KEY, got {came}") as caught:
        OpenaiEngine("m", "http://127.0.0.1:9/v1", key_variable="SELLER_KEY")
    assert "3f" not in str(caught.value)


@pytest.mark.parametrize("address", ["", "127.0.0.1:8000", "ftp://host/v1", "http://", "http://user:secret@host/v1"])
def test_an_address_that_cannot_be_is_refused(address: str) -> None:
    with pytest.raises(ServerError, match="expected a base URL") as caught:
        OpenaiEngine("m", address)
    assert "secret" not in str(caught.value)


def test_text_of_any_kind_arrives_unchanged() -> None:
    text = "zero\u200bwidth \uff21ction: <|im_end|> {braces} \x00 \U0001f600 " + "x" * 100_000
    with FaultyServer(echo) as server:
        [item] = engine(server).generate(ask(text), SAMPLING)
    assert item.text == text
