"""Load causal language models from local folders, and put new folders in their places."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dealwright.errors import DealwrightError

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_model(folder: str | Path) -> "tuple[PreTrainedModel, PreTrainedTokenizerBase]":
    """Load a model to be trained, in float32, with its tokenizer; only safetensors weights are read.

    Raises DealwrightError for a folder that does not hold such a model whole.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from dealwright.engines.chat import ChatTokens

    if not (Path(folder) / "config.json").is_file():
        raise DealwrightError(f"expected a folder with a causal language model, got {folder}; see warmstart.base")
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=torch.float32,
            use_safetensors=True,
            attn_implementation="sdpa",
            output_loading_info=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(str(folder))
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        reason = str(error).strip().splitlines()[0]
        raise DealwrightError(f"cannot load the model in {folder}: {reason}; make or fetch it again") from error
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


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """Yield a new folder beside the given path, and put it there whole when the block ends without an error."""
    beside = path.with_name(f".{path.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        yield beside
        shutil.rmtree(path, ignore_errors=True)
        beside.rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
