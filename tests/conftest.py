"""Fixtures that several test modules share; torch is loaded only for those that ask."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@pytest.fixture(scope="session")
def tokenizer() -> "PreTrainedTokenizerFast":
    """Our own tokenizer, trained on a few demonstrator dialogues; not to be changed."""
    from tests.tiny import own_tokenizer

    return own_tokenizer()


@pytest.fixture
def model(tokenizer: "PreTrainedTokenizerFast") -> "PreTrainedModel":
    """A fresh random Llama of about ten thousand parameters that knows the tokenizer."""
    from tests.tiny import tiny_llama

    return tiny_llama(tokenizer)


@pytest.fixture(scope="session")
def base_folder(tokenizer: "PreTrainedTokenizerFast", tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny random model as a Hugging Face folder; not to be changed."""
    from tests.tiny import tiny_llama

    folder = tmp_path_factory.mktemp("model") / "base"
    tiny_llama(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
