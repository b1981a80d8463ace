"""Load causal language models from local folders."""

from pathlib import Path
from typing import TYPE_CHECKING

from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_model(folder: str | Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Load a model to be trained, in float32, with its tokenizer; only safetensors weights are read.

    Raises DealwrightError for a folder that does not hold such a model.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not (Path(folder) / "config.json").is_file():
        raise DealwrightError(f"expected a folder with a causal language model, got {folder}; see warmstart.base")
    try:
        model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32, use_safetensors=True)
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise DealwrightError(f"cannot load the model in {folder}: {reason}; make or fetch it again") from error
    if tokenizer.chat_template is None:
        raise DealwrightError(f"the tokenizer in {folder} has no chat template; take an instruct model")
    return model, tokenizer
