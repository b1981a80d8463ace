"""The tiny model's own tokenizer."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from dealwright.prompts.ruler import MARKS
from dealwright.training.tokenizer import SPECIALS, TEMPLATE, VOCABULARY


def pieces(tokenizer: PreTrainedTokenizerBase, text: str) -> list[str]:
    return [tokenizer.decode([id]) for id in tokenizer(text, add_special_tokens=False)["input_ids"]]


def test_a_digit_is_a_token_of_its_own_but_in_a_mark_of_the_ruler(tokenizer: PreTrainedTokenizerBase) -> None:
    assert [piece for piece in pieces(tokenizer, "$1,234.56") if piece.isdigit()] == list("123456")
    learned = [tokenizer.decode([id]) for id in range(len(tokenizer))]
    with_digits = [piece for piece in learned if len(piece) > 1 and any(character.isdigit() for character in piece)]
    assert with_digits == [f"{mark}%" for mark in MARKS]


def test_a_mark_of_the_ruler_is_one_token(tokenizer: PreTrainedTokenizerBase) -> None:
    assert pieces(tokenizer, "48%+6=54%.") == ["48%", "+", "6", "=", "54%", "."]


def test_a_label_with_the_action_behind_it_is_one_token(tokenizer: PreTrainedTokenizerBase) -> None:
    message = "Thought: bid 80%.\nTalk: Please come down.\nAction: [BUY] $12.5"
    assert pieces(tokenizer, message)[-5:] == ["\nAction: [BUY] $", "1", "2", ".", "5"]
    assert pieces(tokenizer, message)[0] == "Thought:"


@settings(max_examples=200, deadline=None)
@given(text=st.text())
def test_any_text_comes_back_from_its_tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_the_vocabulary_has_every_byte_and_the_role_tokens(tokenizer: PreTrainedTokenizerBase) -> None:
    assert 256 + len(SPECIALS) <= len(tokenizer) <= VOCABULARY + len(MARKS)
    assert [tokenizer.convert_tokens_to_ids(token) for token in SPECIALS] == [0, 1, 2, 3, 4]
    assert (tokenizer.eos_token, tokenizer.pad_token, tokenizer.bos_token) == ("<|end|>", "<|pad|>", None)


def test_a_conversation_is_role_tokens_around_its_turns(tokenizer: PreTrainedTokenizerBase) -> None:
    turns = [{"role": "system", "content": "Lamp"}, {"role": "user", "content": "Begin."}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    assert tokenizer.decode(ids) == "<|system|>Lamp<|end|><|user|>Begin.<|end|><|assistant|>"
    assert [id for id in ids if id < len(SPECIALS)] == [2, 0, 3, 0, 4]


def test_it_loads_again_as_it_was_saved(tokenizer: PreTrainedTokenizerBase, tmp_path: Path) -> None:
    tokenizer.save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(str(tmp_path))
    text = "Thought: ask 957 over 789, 121%.\nTalk:\nAction: [REJECT]"
    assert loaded(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert (loaded.chat_template, loaded.eos_token_id, loaded.pad_token_id) == (TEMPLATE, 0, 1)
    assert loaded.decode(loaded(text)["input_ids"]) == text


@pytest.mark.parametrize("text", ["", " ", "\n\n", "a  b", "12,50 €", "наушники", "🎧 7"])
def test_no_end_or_role_token_arises_from_plain_text(tokenizer: PreTrainedTokenizerBase, text: str) -> None:
    assert not set(tokenizer(text)["input_ids"]) & set(range(len(SPECIALS)))
