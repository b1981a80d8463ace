"""Random models of some ten thousand parameters, their tokenizers, and a scripted engine; all made here, offline."""

import re
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from dealwright.agents import Demonstrator
from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.chat import ChatTokens, History
from dealwright.game import Product, Scenario
from dealwright.params import Params, load_params
from dealwright.players import make_seller
from dealwright.prompts.render import render_buyer
from dealwright.rollout import Episode, rollout
from dealwright.training.pretrain import conversation, play_block
from dealwright.training.tokenizer import train_tokenizer

TITLES = [
    ("Brass desk lamp", "Home"),
    ("Trail running shoes, size 42", "Sport"),
    ("USB-C hub (7 ports)", "Electronics"),
]
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def own_tokenizer() -> PreTrainedTokenizerFast:
    """Train our own tokenizer on a few demonstrator dialogues."""
    games = play_block(TITLES, Random(1), 72)
    return train_tokenizer(turn["content"] for game in games for turn in conversation(game))


def chatml_tokenizer(template: str = CHATML) -> PreTrainedTokenizerFast:
    """Make a byte-level tokenizer with ChatML's tokens, whose template puts a newline between turns."""
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: id for id, token in enumerate([*specials, *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(specials)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=template
    )


def trl_template(name: str) -> str:
    """Read a chat template from TRL's wheel without importing TRL."""
    spec = find_spec("trl")
    assert spec is not None and spec.origin is not None
    return (Path(spec.origin).parent / "chat_templates" / name).read_text(encoding="utf-8")


def tiny_llama(tokenizer: PreTrainedTokenizerBase, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """Make a random Llama of the tiny base model's shape."""
    return _fresh(LlamaForCausalLM, LlamaConfig, tokenizer, seed, {"head_dim": 4, **changes})


def tiny_qwen(tokenizer: PreTrainedTokenizerBase, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """Make a random Qwen3."""
    return _fresh(Qwen3ForCausalLM, Qwen3Config, tokenizer, seed, {"head_dim": 8, **changes})


def tiny_qwen_moe(tokenizer: PreTrainedTokenizerBase, seed: int = 0, **changes: Any) -> PreTrainedModel:
    """Make a random Qwen3 with four experts, of which two work on a token."""
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8, "head_dim": 8}
    return _fresh(Qwen3MoeForCausalLM, Qwen3MoeConfig, tokenizer, seed, {**experts, **changes})


def _fresh(
    kind: Callable[..., PreTrainedModel],
    config: Callable[..., Any],
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
    changes: dict[str, Any],
) -> PreTrainedModel:
    torch.manual_seed(seed)
    sizes = {
        "vocab_size": len(tokenizer),
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "intermediate_size": 16,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": None,
    }
    return kind(config(**(sizes | changes))).eval()


def lively(model: PreTrainedModel) -> PreTrainedModel:
    """Scale a random model's matrices up, so that what it says next depends on what it reads."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.mul_(30)
    return model


def tiny_params(**groups: dict[str, Any]) -> Params:
    """Return parameters with a training of a few small steps, changed further by group."""
    sizes: dict[str, dict[str, Any]] = {
        "warmstart": {"steps": 2, "batch_size": 4},
        "train": {
            **{"steps": 4, "products": 2, "group_size": 4, "micro_batch": 4, "checkpoint_steps": 2, "seed": 0},
            **{"schedule": "linear", "temperature": 1.0, "message_tokens": 96, "kl": 0.0, "hold": 0.0},
            **{"credit": 1.0, "update_share": 1.0, "entropy": 0.0, "lora_rank": 0},
        },
    }
    params = load_params(Path(__file__).parents[1] / "params.yaml").model_dump(by_alias=True)
    for name in {*sizes, *groups}:
        params[name] |= sizes.get(name, {}) | groups.get(name, {})
    return Params.model_validate(params)


def tiny_scenarios(count: int, split: str = "train") -> list[Scenario]:
    """Return scenarios of a few products with prices of their own."""
    scenarios = []
    for number in range(count):
        price = 40.0 + 35.5 * number
        title, category = TITLES[number % len(TITLES)]
        product = Product(f"p{number}", f"{title} {number}", category, "", price, price / 2, price)
        scenarios.append(Scenario(f"s{number}", product, price, price / 2, 0.8 * price, number, split))
    return scenarios


def buyer_prompts(scenarios: Sequence[Scenario]) -> dict[str, str]:
    """Return the system prompts as the prompts stage writes them."""
    return {scenario.id: render_buyer(scenario, "brief", 6) for scenario in scenarios}


def demonstrations(scenarios: Sequence[Scenario], rounds: int = 1) -> list[Episode]:
    """Play the naive demonstrator against the training seller."""
    names = ("demonstrator", "training")
    return rollout(scenarios, range(rounds), Demonstrator(), make_seller("training"), names)


class ScriptedEngine:
    """Stands in for the transformers engine: real token accounting, scripted words.

    Its offers rise from turn to turn and differ between the games of a call. Every character is a token of its own, so
    its messages are not the tokens that writing them again would give.
    """

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.chat = ChatTokens(tokenizer)
        self.said: list[list[str]] = []

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one scripted completion a conversation."""
        texts = [self.message(at, conversation) for at, conversation in enumerate(conversations)]
        self.said.append(texts)
        return [self._speak(conversation, text) for conversation, text in zip(conversations, texts, strict=True)]

    def message(self, at: int, conversation: Conversation) -> str:
        """Offer more than before; the first offer depends on the place in the call."""
        budget = float(re.findall(r"budget \$([\d,.]+)", conversation[0]["content"])[0].replace(",", ""))
        said = [turn["content"] for turn in conversation if turn["role"] == "assistant"]
        offer = float(said[-1].rsplit("$", 1)[1]) + 0.1 * budget if said else budget * (0.45 + 0.04 * (at % 8))
        offer = min(offer, budget - 0.01)
        return f"Thought: bid {offer / budget:.0%}.\nTalk: I can pay cash today.\nAction: [BUY] ${offer:.2f}"

    def _speak(self, conversation: Conversation, text: str) -> Completion:
        history = self.chat.open(conversation)
        letters = [self.tokenizer(letter, add_special_tokens=False)["input_ids"] for letter in text]
        ids = (*(id for letter in letters for id in letter), self.tokenizer.eos_token_id)
        grown = History(history.ids + ids, history.sampled + (1,) * len(ids))
        self.chat.close(conversation, text, grown)
        return Completion(text, "stop", history.ids, ids, (0.0,) * len(ids), history.sampled)


def spoken_parts(tokenizer: PreTrainedTokenizerBase, ids: Sequence[int], mask: Sequence[int]) -> list[str]:
    """Decode each stretch of tokens whose mask is 1."""
    parts: list[list[int]] = []
    for id, bit, before in zip(ids, mask, [0, *mask], strict=False):
        if bit and not before:
            parts.append([])
        if bit:
            parts[-1].append(id)
    return [str(tokenizer.decode(part)) for part in parts]
