"""Load causal language models with their tokenizers from local folders."""

from pathlib import Path
from typing import Literal

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from dealwright.engines.chat import ChatTokens, render
from dealwright.errors import DealwrightError
from dealwright.files import read_json, unwritable

CONFIGURATIONS = ("config.json", "adapter_config.json")  # of a whole model, of an adapter over one
SIZES = (
    *("vocab_size", "hidden_size", "intermediate_size", "head_dim", "max_position_embeddings"),
    *("num_hidden_layers", "num_attention_heads", "num_key_value_heads"),
)
# What every tokenizer must bring back as it is, and what every chat template must render.
ACTION = "[BUY] $1234.50"
DIALOGUE = [
    {"role": "system", "content": "You are the buyer."},
    {"role": "user", "content": "Begin."},
    {"role": "assistant", "content": f"Talk: Hello.\nAction: {ACTION}"},
    {"role": "user", "content": "Talk: No.\nAction: [REJECT]"},
]


def load_model(
    folder: str | Path, dtype: torch.dtype | Literal["auto"] = torch.float32
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a model with its tokenizer; only safetensors weights are read, and no code that a folder brings is run.

    `auto` takes the weights as they are stored.
    Raises DealwrightError for a folder that does not hold such a model whole.
    """
    if not any((Path(folder) / name).is_file() for name in CONFIGURATIONS):
        raise DealwrightError(f"expected a folder with a causal language model, got {folder}; make or fetch it first")
    _check_sizes(Path(folder) / CONFIGURATIONS[0])
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            str(folder),
            dtype=dtype,
            use_safetensors=True,
            trust_remote_code=False,
            attn_implementation="sdpa",
            output_loading_info=True,
        )
        tokenizer = AutoTokenizer.from_pretrained(str(folder), trust_remote_code=False)
    except Exception as error:  # of every kind, for a damaged folder; tokenizers' own are plain exceptions
        raise DealwrightError(f"cannot load the model in {folder}: {_why(error)}; make or fetch it again") from error
    for names, problem in (
        (found["missing_keys"], "lack {} tensors of the model"),
        (found["unexpected_keys"], "hold {} tensors that are none of the model's"),
    ):
        if names:
            raise DealwrightError(
                f"the weights in {folder} {problem.format(len(names))}, among them {min(names)}; make or fetch it "
                "again"
            )
    _check_tokenizer(tokenizer, model.get_input_embeddings().weight.shape[0], folder)
    return model, tokenizer


def _check_sizes(configuration: Path) -> None:
    """Refuse a whole model's configuration with sizes by which no model can be built."""
    if not configuration.is_file():
        return
    config = read_json(configuration, "make or fetch the model again")
    if not isinstance(config, dict):
        raise DealwrightError(
            f"{configuration}: expected an object, got {type(config).__name__}; make or fetch the model again"
        )
    for name in SIZES:
        size = config.get(name)
        if isinstance(size, int) and size < 1:
            raise DealwrightError(
                f"{configuration}: expected {name} of at least 1, got {size}; make or fetch the model again"
            )
    layers, tensors = config.get("num_hidden_layers"), _tensors(configuration.parent)
    if isinstance(layers, int) and layers > tensors > 0:  # to build them would take minutes, before they are missed
        raise DealwrightError(
            f"{configuration}: expected no more num_hidden_layers than the {tensors} tensors of the weights, got "
            f"{layers}; make or fetch the model again"
        )


def _tensors(folder: Path) -> int:
    """Count the tensors of a folder's weights by their headers; 0 where a header cannot be read."""
    try:
        return sum(len(list(safe_open(file, "pt").keys())) for file in folder.glob("*.safetensors"))
    except (OSError, SafetensorError):
        return 0


def _check_tokenizer(tokenizer: PreTrainedTokenizerBase, known: int, folder: str | Path) -> None:
    """Refuse a tokenizer that cannot write a dialogue that its model can read, before any work."""
    if len(tokenizer) > known:
        raise DealwrightError(
            f"the tokenizer in {folder} has {len(tokenizer)} tokens, but the model knows {known}; they do not belong "
            "together, so fetch both again"
        )
    if tokenizer.chat_template is None:
        raise DealwrightError(f"the tokenizer in {folder} has no chat template; take an instruct model")
    try:
        written = tokenizer.decode(
            tokenizer(ACTION, add_special_tokens=False)["input_ids"], clean_up_tokenization_spaces=False
        )
        render(tokenizer, DIALOGUE, prompt=True)
    except Exception as error:  # of every kind: a template is a program
        raise DealwrightError(
            f"the tokenizer in {folder} cannot write a dialogue: {_why(error)}; take an instruct model, or fetch it "
            "again"
        ) from error
    if ACTION not in written:
        raise DealwrightError(
            f"the tokenizer in {folder} reads {ACTION!r} as {written!r}; fetch it again, or take another model"
        )
    ChatTokens(tokenizer)  # refuses a template without an end token


def _why(error: Exception) -> str:
    if "ignore_mismatched_sizes" in str(error):
        return "its weights have other sizes than its config.json says"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a model with its tokenizer into a folder; raises DealwrightError where the disk does not take them."""
    try:
        model.save_pretrained(folder)
    except SafetensorError as error:  # what a full disk is called while weights are written
        raise unwritable(folder, error) from error
    save_tokenizer(tokenizer, folder)


def save_tokenizer(tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Write a tokenizer into a folder; raises DealwrightError where the disk does not take it."""
    try:
        tokenizer.save_pretrained(folder)
    except Exception as error:  # tokenizers calls a full disk just that
        raise unwritable(folder, error) from error
