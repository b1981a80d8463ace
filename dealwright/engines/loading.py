"""Load causal language models with their tokenizers from local folders."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from dealwright.engines.chat import ChatTokens
from dealwright.errors import DealwrightError, first_line
from dealwright.files import unwritable

CONFIGURATIONS = ("config.json", "adapter_config.json")  # of a whole model, of an adapter over one


def load_model(
    folder: str | Path, dtype: torch.dtype = torch.float32
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model with its tokenizer; only safetensors weights are read.

    Raises DealwrightError for a folder that does not hold such a model whole.
    """
    if not any((Path(folder) / name).is_file() for name in CONFIGURATIONS):
        raise DealwrightError(f"expected a folder with a causal language model, got {folder}; make or fetch it first")
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            str(folder), dtype=dtype, use_safetensors=True, attn_implementation="sdpa", output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        why = first_line(error)
        raise DealwrightError(f"cannot load the model in {folder}: {why}; make or fetch it again") from error
    if found["missing_keys"]:
        raise DealwrightError(
            f"the weights in {folder} lack {len(found['missing_keys'])} tensors of the model, among them "
            f"{min(found['missing_keys'])}; make or fetch it again"
        )
    rows = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > rows:
        raise DealwrightError(
            f"the tokenizer in {folder} has {len(tokenizer)} tokens, but the model knows {rows}; they do not belong "
            "together, so fetch both again"
        )
    if tokenizer.chat_template is None:
        raise DealwrightError(f"the tokenizer in {folder} has no chat template; take an instruct model")
    ChatTokens(tokenizer)  # refuses a template that cannot be used, before any work
    return model, tokenizer


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a model with its tokenizer into a folder; raises DealwrightError where the disk does not take them."""
    try:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    except SafetensorError as error:  # what a full disk is called while weights are written
        raise unwritable(folder, error) from error
