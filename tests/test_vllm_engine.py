import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.vllm_process import VllmEngine, VllmError

SAMPLING = Sampling(temperature=0.7, max_tokens=3, seed=3)


class FakeTokenizer:
    """One token a character, between a mark for the role and a mark for the end."""

    def apply_chat_template(
        self, conversation: list[dict[str, str]], *, add_generation_prompt: bool, tokenize: bool, return_dict: bool
    ) -> list[int]:
        assert (add_generation_prompt, tokenize, return_dict) == (True, True, False)
        turns = [[1, *(ord(letter) for letter in turn["content"]), 2] for turn in conversation]
        return [token for turn in turns for token in turn] + [1]


class FakeSamplingParams:
    def __init__(self, *, temperature: float, max_tokens: int, seed: int, logprobs: int) -> None:
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.seed = seed
        self.logprobs = logprobs


class FakeLlm:
    """Repeats the third token of the prompt, and ends with 2 unless the limit or the finish reason comes first."""

    def __init__(self, model: str, **options: Any) -> None:
        self.folder = model
        self.options = options
        self.model_config = SimpleNamespace(max_model_len=options["max_model_len"])
        self.asked: list[FakeSamplingParams] = []
        self.finish = "stop"

    def get_tokenizer(self) -> FakeTokenizer:
        return FakeTokenizer()

    def generate(
        self, prompts: list[dict[str, list[int]]], params: list[FakeSamplingParams], *, use_tqdm: bool
    ) -> Any:
        assert use_tqdm is False
        self.asked += params
        return [self._output(prompt["prompt_token_ids"], each) for prompt, each in zip(prompts, params, strict=True)]

    def _output(self, prompt: list[int], params: FakeSamplingParams) -> Any:
        assert len(prompt) < self.model_config.max_model_len
        tokens = [prompt[1], prompt[2], 2][: params.max_tokens]
        sampled = SimpleNamespace(
            text="".join(chr(token) for token in tokens if token != 2),
            token_ids=tokens,
            logprobs=[{token: SimpleNamespace(logprob=-0.5 * place)} for place, token in enumerate(tokens)],
            finish_reason=self.finish if tokens[-1] == 2 else "length",
        )
        return SimpleNamespace(prompt_token_ids=prompt, outputs=[sampled])


def fake_engine(max_model_len: int = 32) -> tuple[VllmEngine, FakeLlm]:
    llm = FakeLlm("folder", max_model_len=max_model_len)
    return VllmEngine(llm, FakeSamplingParams), llm


def ask(*texts: str) -> list[Conversation]:
    return [[{"role": "user", "content": text}] for text in texts]


def test_a_completion_holds_the_tokens_read_and_sampled_and_their_log_probabilities() -> None:
    engine, _ = fake_engine()
    assert engine.generate(ask("AB", "CDE"), SAMPLING) == [
        Completion("AB", "stop", (1, 65, 66, 2, 1), (65, 66, 2), (0.0, -0.5, -1.0)),
        Completion("CD", "stop", (1, 67, 68, 69, 2, 1), (67, 68, 2), (0.0, -0.5, -1.0)),
    ]


def test_a_message_at_the_token_limit_is_length() -> None:
    engine, _ = fake_engine()
    [item] = engine.generate(ask("AB"), Sampling(temperature=0.0, max_tokens=2, seed=3))
    assert item == Completion("AB", "length", (1, 65, 66, 2, 1), (65, 66), (0.0, -0.5))


def test_an_aborted_message_is_an_error() -> None:
    engine, llm = fake_engine()
    llm.finish = "abort"
    [item] = engine.generate(ask("AB"), SAMPLING)
    assert (item.text, item.finish_reason) == ("", "error")


def test_equal_conversations_of_one_call_differ_in_seed_and_a_second_call_repeats_them() -> None:
    engine, llm = fake_engine()
    for _ in range(2):
        engine.generate(ask("AB", "AB", "AB"), SAMPLING)
    seeds = [params.seed for params in llm.asked]
    assert len(set(seeds[:3])) == 3
    assert seeds[:3] == seeds[3:]
    assert {(params.temperature, params.max_tokens, params.logprobs) for params in llm.asked} == {(0.7, 3, 0)}


def test_a_conversation_beyond_the_context_fails_alone() -> None:
    engine, llm = fake_engine(max_model_len=7)
    completions = engine.generate(ask("AB", "ABCD", "CDE"), SAMPLING)
    assert completions[1] == Completion("", "error", (1, 65, 66, 67, 68, 2, 1))
    assert [item.text for item in completions] == ["AB", "", "CD"]
    # A conversation's seed does not depend on its neighbours.
    assert [params.seed for params in llm.asked] == [seeds_of_three()[0], seeds_of_three()[2]]


def seeds_of_three() -> list[int]:
    engine, llm = fake_engine()
    engine.generate(ask("AB", "AB", "AB"), SAMPLING)
    return [params.seed for params in llm.asked]


def pretend_vllm(monkeypatch: pytest.MonkeyPatch, make: Callable[..., FakeLlm]) -> None:
    """Put a module `vllm` in place that makes models so."""
    module = ModuleType("vllm")
    module.__dict__.update(LLM=make, SamplingParams=FakeSamplingParams)
    monkeypatch.setitem(sys.modules, "vllm", module)


def test_a_folder_is_loaded_by_vllm_with_the_options_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    made: list[FakeLlm] = []

    def make(model: str, **options: Any) -> FakeLlm:
        made.append(FakeLlm(model, **options))
        return made[-1]

    pretend_vllm(monkeypatch, make)
    engine = VllmEngine.from_folder(tmp_path, max_model_len=32, enforce_eager=True)
    assert engine.generate(ask("AB"), SAMPLING)[0].text == "AB"
    assert made[0].folder == str(tmp_path)
    assert made[0].options == {
        "max_model_len": 32,
        "enforce_eager": True,
        "logprobs_mode": "processed_logprobs",
    }


def test_an_option_that_vllm_refuses_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")

    def make(model: str, **options: Any) -> FakeLlm:
        raise ValueError("Unknown dtype:\nfloat31")

    pretend_vllm(monkeypatch, make)
    with pytest.raises(VllmError) as refused:
        VllmEngine.from_folder(tmp_path, dtype="float31")
    assert str(refused.value) == (
        f"vLLM cannot load {tmp_path} with options {{'dtype': 'float31'}}: Unknown dtype: float31"
    )


def test_a_folder_without_a_model_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(VllmError, match=r"expected a model folder with a config.json, got .*; give the folder"):
        VllmEngine.from_folder(tmp_path / "nowhere")


def test_a_missing_vllm_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(VllmError, match=r"expected the package vllm, got .*; docs/engines.md says how to install it"):
        VllmEngine.from_folder(tmp_path)
