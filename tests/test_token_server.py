"""Asking a vLLM server token by token: what is sent, what is believed, and what ends the run."""

import json
import threading
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from transformers import PreTrainedTokenizerBase

from dealwright.engines.asking import Server, ServerError
from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.chat import ChatTokens
from dealwright.engines.token_server import TokenEngine
from dealwright.training.rows import sampled_logprobs, sampled_row
from tests.faulty_server import FaultyServer, Reply, close, fail, send, stay_silent

SAMPLING = Sampling(temperature=0.7, max_tokens=16, seed=3)
OPENED = [{"role": "system", "content": "Desk lamp"}, {"role": "user", "content": "Begin."}]


class Says:
    """Answers as vLLM does with these tokens; a keyword changes a field of the choice, `model` the model's name."""

    def __init__(self, *ids: int, finish: str = "stop", model: str = "step-1", **changes: Any) -> None:
        self.ids = ids
        self.finish = finish
        self.model = model
        self.changes = changes

    def __call__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
        """Answer one request."""
        choice = {
            "text": "not looked at",
            "finish_reason": self.finish,
            "prompt_token_ids": body["prompt"],
            "token_ids": list(self.ids),
            "logprobs": {"token_logprobs": [-0.5 - at for at in range(len(self.ids))], "tokens": ["?"]},
            **self.changes,
        }
        choices = [{key: value for key, value in choice.items() if value is not None}]
        send(json.dumps({"model": self.model, "choices": choices}))(handler, body, closing)


def engine(server: FaultyServer, tokenizer: PreTrainedTokenizerBase, **options: Any) -> TokenEngine:
    there = Server(server.base_url, "the adapter", "look after it", **{"retries": 1, "backoff": 0.01, **options})
    return TokenEngine(there, "step-1", tokenizer, len(tokenizer))


def ids_of(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def spelt(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Return tokens of single letters, which are not those that writing the text gives, and the end token."""
    return [*(id for letter in text for id in ids_of(tokenizer, letter)), tokenizer.eos_token_id]


def with_answer(before: Conversation, said: str, heard: str) -> list[dict[str, str]]:
    return [*before, {"role": "assistant", "content": said}, {"role": "user", "content": heard}]


def test_a_request_holds_token_ids_and_the_whole_distribution(tokenizer: PreTrainedTokenizerBase) -> None:
    with FaultyServer(Says(0)) as server:
        engine(server, tokenizer).generate([OPENED], SAMPLING)
        body = server.bodies[0]
    assert 0 <= body.pop("seed") < 2**31
    assert body == {
        "model": "step-1",
        "prompt": list(ChatTokens(tokenizer).open(OPENED).ids),
        "max_tokens": 16,
        "temperature": 0.7,
        "logprobs": 0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "return_token_ids": True,
        "ignore_eos": True,
        "stop_token_ids": [0],
    }


def test_equal_conversations_of_one_call_differ_in_seed_and_a_second_call_repeats_them(
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    with FaultyServer(Says(0)) as server:
        for _ in range(2):
            engine(server, tokenizer).generate([OPENED] * 3, SAMPLING)
        seeds = [body["seed"] for body in server.bodies]
    assert len(set(seeds[:3])) == 3
    assert sorted(seeds[:3]) == sorted(seeds[3:])


def test_a_dialogue_s_row_is_what_was_sampled_turn_by_turn(tokenizer: PreTrainedTokenizerBase) -> None:
    first, second = spelt(tokenizer, "Hello there"), spelt(tokenizer, "Deal")
    assert ids_of(tokenizer, "Hello there") != first[:-1]
    with FaultyServer(Says(*first), Says(*second)) as server:
        model = engine(server, tokenizer)
        [opening] = model.generate([OPENED], SAMPLING)
        [closing] = model.generate([with_answer(OPENED, "Hello there", "No.")], SAMPLING)
        prompts = [body["prompt"] for body in server.bodies]
    assert (opening.text, opening.finish_reason) == ("Hello there", "stop")
    assert prompts[1][: len(prompts[0]) + len(first)] == prompts[0] + first
    row = sampled_row([opening, closing])
    assert list(row.ids) == prompts[1] + second
    between = len(prompts[1]) - len(prompts[0]) - len(first)
    assert list(row.mask) == [0] * len(prompts[0]) + [1] * len(first) + [0] * between + [1] * len(second)
    assert sampled_logprobs([opening, closing]) == [
        -0.5 - at for length in (len(first), len(second)) for at in range(length)
    ]


def test_a_message_cut_off_by_the_limit_is_length_and_has_no_end_token(tokenizer: PreTrainedTokenizerBase) -> None:
    ids = ids_of(tokenizer, "Hello")
    with FaultyServer(Says(*ids, finish="length")) as server:
        [item] = engine(server, tokenizer).generate([OPENED], SAMPLING)
        prompt = tuple(server.bodies[0]["prompt"])
    logprobs = tuple(-0.5 - at for at in range(len(ids)))
    assert item == Completion("Hello", "length", prompt, tuple(ids), logprobs, (0,) * len(prompt))


def test_completions_come_in_the_order_of_the_conversations(tokenizer: PreTrainedTokenizerBase) -> None:
    everyone = threading.Barrier(8)

    def echo(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
        everyone.wait(5)  # all must be open together, or this fails
        Says(body["prompt"][-3], 0)(handler, body, closing)

    asked: list[Conversation] = [[*OPENED[:1], {"role": "user", "content": letter}] for letter in "abcdefgh"]
    with FaultyServer(echo) as server:
        completions = engine(server, tokenizer).generate(asked, SAMPLING)
    assert [item.text for item in completions] == ["a", "b", "c", "d", "e", "f", "g", "h"]


def test_a_passing_fault_is_overcome(tokenizer: PreTrainedTokenizerBase) -> None:
    with FaultyServer(fail(503), close, Says(0)) as server:
        [item] = engine(server, tokenizer, retries=2).generate([OPENED], SAMPLING)
        assert len(server.bodies) == 3
    assert item.token_ids == (0,)


NUMBERS = {"token_logprobs": [-0.5]}
FAULTS: dict[str, tuple[Reply, str, int]] = {
    "HTML": (send("<html></html>", kind="text/html"), "not a completion: Invalid JSON", 2),
    "no choices": (send('{"model": "step-1", "choices": []}'), "not a completion: choices List should have", 2),
    "no token ids": (Says(7, 0, token_ids=None), "not a completion: choices.0.token_ids Field required", 2),
    "no tokens": (Says(), "not a completion: choices.0.token_ids List should have at least 1 item", 2),
    "no prompt ids": (Says(7, 0, prompt_token_ids=None), "not a completion: choices.0.prompt_token_ids Field req", 2),
    "no such token": (Says(10**6, 0), "tokens that were not asked for: 2 of them", 1),
    "a token below zero": (Says(-5, 0), "tokens that were not asked for: 2 of them", 1),
    "a token too large for a number": (Says(10**30, 0), "tokens that were not asked for: 2 of them", 1),
    "more than was asked for": (Says(*[7] * 17, finish="length"), "tokens that were not asked for: 17 of them", 1),
    "an end in the middle": (Says(7, 0, 7, 0), "tokens that were not asked for: 4 of them", 1),
    "no log-probabilities": (Says(7, 0, logprobs=None), "not a completion: choices.0.logprobs Field required", 2),
    "a log-probability that is none": (
        Says(7, logprobs={"token_logprobs": [float("nan")]}),
        "not a completion: choices.0.logprobs.token_logprobs.0 Input should be a finite number",
        2,
    ),
    "a strange finish reason": (Says(7, 0, finish="abort"), "not a completion: choices.0.finish_reason Input", 2),
    "too few log-probabilities": (Says(7, 0, logprobs=NUMBERS), "log-probabilities are missing: 1 for 2 tokens", 1),
    "another model": (Says(7, 0, model="base"), "another model: 'base' answered", 1),
    "a cut prompt": (Says(7, 0, prompt_token_ids=[2, 5]), "another prompt: 2 tokens were read of ", 1),
    "another end": (Says(7, 8), "another end: the last token is 8", 1),
    "a prompt that is too long": (fail(400, "the context length is 2048"), "status 400: the context length is 20", 1),
    "a status 500": (fail(500, "out of memory"), "status 500: out of memory", 2),
    "a closed connection": (close, "connection: RemoteProtocolError", 2),
    "silence": (stay_silent, "timeout: no answer within 0.3 s", 2),
}


@pytest.mark.parametrize(("fault", "came", "attempts"), FAULTS.values(), ids=FAULTS.keys())
def test_an_answer_that_cannot_be_trained_on_ends_the_run_with_one_line(
    fault: Reply, came: str, attempts: int, tokenizer: PreTrainedTokenizerBase
) -> None:
    with FaultyServer(fault) as server:
        with pytest.raises(ServerError) as stop:
            engine(server, tokenizer, timeout=0.3).generate([OPENED], SAMPLING)
        assert len(server.bodies) == attempts
    said = str(stop.value)
    assert said.startswith(f"expected an answer from the model 'step-1' at {server.base_url}, got {came}")
    assert said.endswith(f" ({attempts} attempts); look after it")
    assert "\n" not in said


def test_a_model_that_the_server_does_not_have_ends_the_run_at_once(tokenizer: PreTrainedTokenizerBase) -> None:
    with FaultyServer(fail(404, "The model `step-1` does not exist.")) as server:
        with pytest.raises(ServerError, match=r"with status 404: The model `step-1` does not exist\.; look"):
            engine(server, tokenizer).generate([OPENED], SAMPLING)
        assert len(server.bodies) == 1


def test_one_conversation_without_an_answer_ends_the_run_for_all(tokenizer: PreTrainedTokenizerBase) -> None:
    with (
        FaultyServer(Says(0), Says(0), fail(400, "too long"), Says(0)) as server,
        pytest.raises(ServerError, match="got status 400: too long"),
    ):
        engine(server, tokenizer).generate([OPENED] * 8, SAMPLING)


def test_no_conversations_need_no_server(tokenizer: PreTrainedTokenizerBase) -> None:
    there = Server("http://127.0.0.1:9/v1", "the adapter", "look after it")
    assert TokenEngine(there, "step-1", tokenizer, len(tokenizer)).generate([], SAMPLING) == []
