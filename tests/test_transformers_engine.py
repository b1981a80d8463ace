"""The transformers engine against plain forward passes over whole dialogues."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from dealwright.engines import transformers as engine_module
from dealwright.engines.base import Completion, Sampling
from dealwright.engines.cache import BlockCache
from dealwright.engines.loading import save_model
from dealwright.engines.transformers import TransformersEngine
from dealwright.errors import DealwrightError
from tests.tiny import chatml_tokenizer, lively, tiny_llama, tiny_qwen

GREEDY = Sampling(0.0, 12, 0)
WARM = Sampling(1.0, 12, 7)
WORDS = ["lamp", "a hub with seven ports", "shoes", "", "a very fine and old desk made of oak", "7"]

Dialogue = list[dict[str, str]]


class Ends:
    """Draws as the engine does, but ends each row's message at a given length; a random model seldom would."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.lengths: list[int] = []
        self.step = 0
        self.real = engine_module._draw

    def after(self, *lengths: int) -> None:
        self.lengths, self.step = list(lengths), 0

    def __call__(
        self, logits: torch.Tensor, temperature: float, draw: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.step += 1
        drawn, _ = self.real(logits, temperature, draw)
        logits = (logits / (temperature or 1.0)).clone()
        over = torch.tensor([self.step == length for length in self.lengths])
        token = torch.where(over, torch.full_like(drawn, self.end), drawn)
        return token, logits.log_softmax(-1).gather(1, token[:, None])[:, 0]


@pytest.fixture(scope="module", params=["llama", "qwen"])
def loaded(request: pytest.FixtureRequest, tokenizer: PreTrainedTokenizerBase) -> TransformersEngine:
    """An engine over a random model: Llama with our own template, or Qwen3 with text between the turns."""
    if request.param == "llama":
        return TransformersEngine(lively(tiny_llama(tokenizer, 1)), tokenizer)
    return TransformersEngine(lively(tiny_qwen(chatml_tokenizer())), chatml_tokenizer())


@pytest.fixture
def engine(loaded: TransformersEngine) -> TransformersEngine:
    """The engine, remembering nothing."""
    loaded.forget()
    return loaded


@pytest.fixture
def ends(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> Ends:
    """Decides where messages end."""
    chosen = Ends(engine.tokenizer.eos_token_id)
    monkeypatch.setattr(engine_module, "_draw", chosen)
    return chosen


def opened(count: int) -> list[Dialogue]:
    return [
        [{"role": "system", "content": WORDS[at % 6] * (at + 1)}, {"role": "user", "content": "Begin."}]
        for at in range(count)
    ]


def answered(dialogue: Dialogue, completion: Completion, reply: str) -> Dialogue:
    return [*dialogue, {"role": "assistant", "content": completion.text}, {"role": "user", "content": reply}]


def logprobs_by_rereading(engine: TransformersEngine, completion: Completion, temperature: float) -> torch.Tensor:
    """Return the log-probabilities over the vocabulary at each sampled token, by one plain forward pass."""
    ids = torch.tensor([completion.prompt_ids + completion.token_ids])
    with torch.no_grad():
        logits = engine.model(ids).logits[0, len(completion.prompt_ids) - 1 : -1]
    return (logits / (temperature or 1.0)).log_softmax(-1)


def assert_as_reread(engine: TransformersEngine, completions: Sequence[Completion], temperature: float) -> None:
    for completion in completions:
        expected = logprobs_by_rereading(engine, completion, temperature)
        sampled = torch.tensor(completion.token_ids)
        torch.testing.assert_close(
            torch.tensor(completion.logprobs), expected.gather(1, sampled[:, None])[:, 0], atol=1e-4, rtol=0
        )
        if temperature == 0:
            assert sampled[:-1].tolist() == expected[:-1].argmax(-1).tolist()


@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "sampled"])
def test_continued_dialogues_are_as_if_read_afresh_while_games_drop_out(
    engine: TransformersEngine, ends: Ends, sampling: Sampling
) -> None:
    dialogues = opened(6)
    alive = []
    for turn, lengths in enumerate(([3, 12, 1, 8, 99, 5], [7, 1, 99, 12, 2], [12, 3, 1, 99], [4, 6, 11])):
        ends.after(*lengths)
        completions = engine.generate(dialogues, sampling)
        alive.append(len(completions))
        assert_as_reread(engine, completions, sampling.temperature)
        dialogues = [
            answered(dialogue, completion, WORDS[(turn + at) % 6])
            for at, (dialogue, completion) in enumerate(zip(dialogues, completions, strict=True))
            if completion.finish_reason == "stop"
        ]
    assert alive == [6, 5, 4, 3]


def test_a_continued_dialogue_is_the_tokens_as_sampled_and_only_what_is_new_is_read(
    engine: TransformersEngine, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialogues, firsts = spoken(engine, ends, 3, 5)
    widths = read(engine, monkeypatch)
    ends.after(2, 2)
    seconds = engine.generate(
        [answered(dialogue, first, "No.") for dialogue, first in zip(dialogues, firsts, strict=True)], WARM
    )
    for first, second in zip(firsts, seconds, strict=True):
        before = first.prompt_ids + first.token_ids
        assert second.prompt_ids[: len(before)] == before
        assert second.prompt_sampled[: len(before)] == (0,) * len(first.prompt_ids) + (1,) * len(first.token_ids)
        assert set(second.prompt_sampled[len(before) :]) == {0}
        assert widths[0] == len(second.prompt_ids) - len(before)


def spoken(engine: TransformersEngine, ends: Ends, *lengths: int) -> tuple[list[Dialogue], list[Completion]]:
    """Return dialogues with the model's first messages, of these lengths."""
    dialogues = opened(len(lengths))
    ends.after(*lengths)
    return dialogues, engine.generate(dialogues, WARM)


def test_a_batch_may_go_on_in_another_order_and_without_some(engine: TransformersEngine, ends: Ends) -> None:
    dialogues, firsts = spoken(engine, ends, 3, 9, 1, 6)
    ends.after(4, 2, 99)
    seconds = engine.generate([answered(dialogues[at], firsts[at], WORDS[at]) for at in (3, 0, 2)], GREEDY)
    assert_as_reread(engine, seconds, 0)
    for at, second in zip((3, 0, 2), seconds, strict=True):
        assert second.prompt_ids[: len(firsts[at].prompt_ids)] == firsts[at].prompt_ids


def test_a_dialogue_that_was_left_out_of_a_call_is_read_again_and_not_mistaken_for_another(
    engine: TransformersEngine, ends: Ends
) -> None:
    dialogues, firsts = spoken(engine, ends, 3, 9, 1)
    ends.after(4, 2)
    engine.generate([answered(dialogues[at], firsts[at], "No.") for at in (2, 0)], GREEDY)
    ends.after(99)
    late = engine.generate([answered(dialogues[1], firsts[1], "No.")], GREEDY)
    assert late[0].prompt_ids[: len(firsts[1].prompt_ids)] == firsts[1].prompt_ids
    assert sum(late[0].prompt_sampled) == len(firsts[1].token_ids)
    assert_as_reread(engine, late, 0)


def test_a_new_dialogue_may_join_continued_ones(engine: TransformersEngine, ends: Ends) -> None:
    dialogues, firsts = spoken(engine, ends, 3, 9)
    ends.after(4, 99, 2)
    mixed = [answered(dialogues[0], firsts[0], "No."), *opened(3)[2:], answered(dialogues[1], firsts[1], "Well?")]
    seconds = engine.generate(mixed, GREEDY)
    assert_as_reread(engine, seconds, 0)
    assert [sum(second.prompt_sampled) for second in seconds] == [
        len(firsts[0].token_ids),
        0,
        len(firsts[1].token_ids),
    ]


def read(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch, side: int = 1) -> list[int]:
    """Return a list that grows by the width of every forward pass, or with `side` 0 by its number of rows."""
    sizes: list[int] = []
    forward = TransformersEngine._forward

    def counted(self: TransformersEngine, cache: BlockCache, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        sizes.append(ids.shape[side])
        return forward(self, cache, ids, mask)

    monkeypatch.setattr(TransformersEngine, "_forward", counted)
    return sizes


def test_another_try_and_the_turn_after_it_read_only_what_differs(
    engine: TransformersEngine, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialogues, firsts = spoken(engine, ends, 3, 9, 1, 6)
    widths = read(engine, monkeypatch)
    seconds = dict(enumerate(firsts))
    for tries, lengths in (([3, 1], (4, 99)), ([1], (5,))):
        widths.clear()
        ends.after(*lengths)
        again = engine.generate([dialogues[at] for at in tries], GREEDY)
        assert widths[0] == 1
        assert_as_reread(engine, again, 0)
        seconds |= dict(zip(tries, again, strict=True))
    # The last try of one was cut off, and another message stands in its place.
    going_on = [answered(dialogues[at], seconds[at], WORDS[at]) for at in (0, 2, 3)]
    going_on.append(answered(dialogues[1], Completion("I stay with my price.", "stop"), "Well?"))
    widths.clear()
    ends.after(2, 7, 3, 99)
    thirds = engine.generate(going_on, GREEDY)
    before = [*(len(seconds[at].prompt_ids + seconds[at].token_ids) for at in (0, 2, 3)), len(firsts[1].prompt_ids)]
    assert widths[0] <= max(len(third.prompt_ids) - held for third, held in zip(thirds, before, strict=True))
    assert_as_reread(engine, thirds, 0)
    assert [sum(third.prompt_sampled) for third in thirds] == [
        *(len(seconds[at].token_ids) for at in (0, 2, 3)),
        0,
    ]
    ends.after(1, 2, 3)
    after = [answered(dialogue, third, "No.") for dialogue, third in zip(going_on[:3], thirds[:3], strict=True)]
    widths.clear()
    fourths = engine.generate(after, GREEDY)
    assert_as_reread(engine, fourths, 0)
    assert widths[0] == max(
        len(fourth.prompt_ids) - len(third.prompt_ids + third.token_ids)
        for fourth, third in zip(fourths, thirds[:3], strict=True)
    )


def test_what_dialogues_begin_with_alike_is_read_once(
    engine: TransformersEngine, ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    dialogues = [opened(3)[at] for at in (2, 0, 2, 0, 2, 1)]
    rows, widths = read(engine, monkeypatch, side=0), read(engine, monkeypatch)
    ends.after(4, 2, 6, 3, 1, 5)
    firsts = engine.generate(dialogues, WARM)
    assert rows == [3, *[6] * 7]
    assert widths == [max(len(first.prompt_ids) for first in firsts) - 1, *[1] * 7]
    assert_as_reread(engine, firsts, 1.0)
    ends.after(2, 1, 3, 1, 2, 4)
    going_on = [answered(*both, "No.") for both in zip(dialogues, firsts, strict=True)]
    assert_as_reread(engine, engine.generate(going_on, WARM), 1.0)


def test_dialogues_beyond_the_memory_take_turns(engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    config = engine.model.config
    a_token = 2 * 4 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim
    dialogues = opened(5)
    longest = max(len(completion.prompt_ids) for completion in engine.generate(dialogues, Sampling(0.0, 1, 0)))
    whole = engine.generate(dialogues, GREEDY)
    engine.forget()
    widths = read(engine, monkeypatch)
    monkeypatch.setattr(engine_module, "MEMORY", 2 * (longest + GREEDY.max_tokens) * a_token)
    parts = engine.generate(dialogues, GREEDY)
    assert len([width for width in widths if width > 1]) == 3
    assert [part.token_ids for part in parts] == [one.token_ids for one in whole]
    assert_as_reread(engine, engine.generate([answered(dialogues[4], parts[4], "No.")], GREEDY), 0)
    monkeypatch.setattr(engine_module, "MEMORY", 0)
    assert [part.token_ids for part in engine.generate(dialogues, GREEDY)] == [one.token_ids for one in whole]


def test_equal_dialogues_in_two_batches_differ_in_their_draws(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "MEMORY", 0)
    first, second = engine.generate(opened(1) * 2, WARM)
    assert first.token_ids != second.token_ids


def test_dialogues_that_read_the_same_are_kept_apart(engine: TransformersEngine, ends: Ends) -> None:
    dialogue = opened(3)[2]
    ends.after(4, 4)
    firsts = engine.generate([dialogue, dialogue], GREEDY)
    assert firsts[0].token_ids == firsts[1].token_ids
    ends.after(5, 7)
    seconds = engine.generate([answered(dialogue, firsts[0], "No.")] * 2, WARM)
    assert_as_reread(engine, seconds, 1.0)
    assert [sum(second.prompt_sampled) for second in seconds] == [4, 4]


def test_a_message_is_cut_off_at_the_token_limit(engine: TransformersEngine, ends: Ends) -> None:
    ends.after(2, 3, 4)
    completions = engine.generate(opened(3), Sampling(1.0, 3, 1))
    assert [completion.finish_reason for completion in completions] == ["stop", "stop", "length"]
    assert [len(completion.token_ids) for completion in completions] == [2, 3, 3]
    assert engine.tokenizer.eos_token_id not in completions[2].token_ids


def test_temperature_0_needs_no_seed_and_a_seed_fixes_the_draws(engine: TransformersEngine) -> None:
    def said(temperature: float, seed: int) -> list[Completion]:
        engine.forget()
        return engine.generate(opened(4), Sampling(temperature, 6, seed))

    assert said(0.0, 1) == said(0.0, 2)
    assert said(1.0, 1) == said(1.0, 1)
    assert said(1.0, 1) != said(1.0, 2)


def test_tokens_are_drawn_as_often_as_they_are_likely_and_never_when_they_cannot_be() -> None:
    logits = torch.tensor([0.0, 0.5, 0.0, 0.3, 0.2, 0.0]).log().expand(20_000, -1)
    tokens, logprobs = engine_module._draw(logits, 1.0, torch.Generator().manual_seed(1))
    shares = torch.bincount(tokens, minlength=6) / len(tokens)
    assert shares.tolist() == pytest.approx([0.0, 0.5, 0.0, 0.3, 0.2, 0.0], abs=0.02)
    assert shares[[0, 2, 5]].tolist() == [0.0, 0.0, 0.0]
    assert logprobs.exp().tolist() == pytest.approx(logits[0].exp()[tokens].tolist())


def test_log_probabilities_are_of_the_tempered_distribution(engine: TransformersEngine) -> None:
    assert_as_reread(engine, engine.generate(opened(3), Sampling(0.7, 8, 5)), 0.7)


def test_ids_flags_and_log_probabilities_have_equal_lengths(engine: TransformersEngine) -> None:
    for completion in engine.generate(opened(5), WARM):
        assert len(completion.token_ids) == len(completion.logprobs) > 0
        assert len(completion.prompt_ids) == len(completion.prompt_sampled) > 0


def test_nothing_is_said_to_nobody_and_the_model_stays_in_training(engine: TransformersEngine) -> None:
    engine.model.train()
    assert engine.generate([], GREEDY) == []
    engine.generate(opened(1), Sampling(0.0, 2, 0))
    assert engine.model.training
    engine.model.eval()


def test_a_sampled_special_token_is_text_and_stays_the_token_that_it_is(
    engine: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = engine.tokenizer.eos_token_id
    special = next(id for id in range(len(engine.tokenizer)) if id != end and id in engine.tokenizer.all_special_ids)
    letter = engine.tokenizer("x", add_special_tokens=False)["input_ids"][0]
    monkeypatch.setattr(engine_module, "_draw", scripted([letter, special, letter, end]))
    dialogue = opened(1)[0]
    first = engine.generate([dialogue], WARM)[0]
    assert first.text == f"x{engine.tokenizer.decode([special])}x"
    assert first.token_ids == (letter, special, letter, end)
    monkeypatch.undo()
    second = engine.generate([answered(dialogue, first, "No.")], WARM)[0]
    assert second.prompt_ids[: len(first.prompt_ids) + 4] == first.prompt_ids + first.token_ids


def scripted(tokens: list[int]) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    left = iter(tokens)

    def draw(logits: torch.Tensor, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.full((len(logits),), next(left)), torch.zeros(len(logits))

    return draw


def test_a_model_with_another_attention_is_refused(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    model.set_attn_implementation("eager")
    with pytest.raises(ValueError, match="expected a model with sdpa attention, got eager"):
        TransformersEngine(model, tokenizer)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_weights_that_are_no_numbers_are_one_clear_error(
    temperature: float, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> None:
    next(model.parameters()).data.fill_(float("nan"))
    with pytest.raises(DealwrightError, match="the model answers with what is no number: its weights are damaged"):
        TransformersEngine(model, tokenizer).generate(opened(2), Sampling(temperature, 2, 0))


def test_a_folder_is_loaded_and_a_missing_one_is_an_error(base_folder: Path, tmp_path: Path) -> None:
    completion = TransformersEngine.from_folder(base_folder).generate(opened(1), Sampling(0.0, 2, 0))[0]
    assert len(completion.token_ids) == 2
    with pytest.raises(DealwrightError, match=r"expected a folder with a causal language model, got .*/nothing"):
        TransformersEngine.from_folder(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("stored", "instructions", "taken"),
    [
        (torch.bfloat16, {"amx_bf16": True, "avx512_bf16": False}, torch.bfloat16),
        (torch.bfloat16, {"amx_bf16": False, "avx512_bf16": True}, torch.bfloat16),
        (torch.bfloat16, {"amx_bf16": False, "avx512_bf16": False}, torch.float32),
        (torch.bfloat16, {}, torch.float32),
        (torch.float32, {"amx_bf16": True}, torch.float32),
        (torch.float16, {"amx_bf16": True}, torch.float32),
    ],
)
def test_a_processor_takes_bfloat16_where_it_is_stored_and_the_processor_multiplies_it(
    stored: torch.dtype,
    instructions: dict[str, bool],
    taken: torch.dtype,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    save_model(copy.deepcopy(model).to(stored), tokenizer, tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions)
    engine = TransformersEngine.from_folder(tmp_path)
    assert {weights.dtype for weights in engine.model.parameters()} == {taken}
    assert len(engine.generate(opened(2), Sampling(0.0, 2, 0))[0].token_ids) == 2


def test_the_cache_keeps_rows_in_the_order_asked_for_and_closes_shared_holes(model: PreTrainedModel) -> None:
    cache = BlockCache(model.config, 3, torch.device("cpu"))
    for columns, mask in (
        (range(0, 3), [[0, 1, 1], [1, 1, 1], [0, 0, 1]]),
        (range(3, 5), [[1, 0], [1, 0], [1, 1]]),
    ):
        # Every key says which row and column it is of.
        keys = torch.tensor([[[[10.0 * row + column] for column in columns]] for row in range(3)])
        cache.extend(torch.tensor(mask, dtype=torch.bool))
        for layer in range(model.config.num_hidden_layers):
            cache.update(keys, -keys, layer)
    cache.keep([2, 0])
    assert cache.mask.tolist() == [[True, True, True], [True, True, True]]
    keys, values = cache.update(torch.tensor([[[[100.0]]], [[[200.0]]]]), torch.zeros(2, 1, 1, 1), 1)
    assert keys[:, 0, :, 0].tolist() == [[22, 23, 24, 100], [1, 2, 3, 200]]
    assert values[:, 0, :, 0].tolist() == [[-22, -23, -24, 0], [-1, -2, -3, 0]]
    assert cache.get_seq_length(1) == 4


def test_a_kept_row_that_is_shorter_keeps_its_holes_on_the_left(model: PreTrainedModel) -> None:
    cache = BlockCache(model.config, 2, torch.device("cpu"))
    cache.extend(torch.tensor([[1, 1, 1], [1, 0, 1]], dtype=torch.bool))
    keys = torch.tensor([[[[0.0], [1.0], [2.0]]], [[[10.0], [11.0], [12.0]]]])
    for layer in range(model.config.num_hidden_layers):
        cache.update(keys, keys, layer)
    cache.keep([0, 1])
    assert cache.mask.tolist() == [[True, True, True], [False, True, True]]
    keys, _ = cache.update(torch.zeros(2, 1, 1, 1), torch.zeros(2, 1, 1, 1), 0)
    assert keys[:, 0, :, 0].tolist() == [[0, 1, 2, 0], [11, 10, 12, 0]]
