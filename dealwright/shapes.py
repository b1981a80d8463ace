"""The shape of a causal language model, and how many parameters follow from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dealwright.errors import DealwrightError
from dealwright.files import read_json

_FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "qwen3_moe")


class ShapeError(DealwrightError):
    """A model whose parameters cannot be counted."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A decoder as its config.json describes it; `experts` is 0 for a dense model.

    `width` is that of the feed-forward part, of one expert where there are experts, of which `active_experts` work on
    a token.
    """

    vocabulary: int
    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    head_size: int
    width: int
    experts: int = 0
    active_experts: int = 0
    tied: bool = False
    query_key_norms: bool = False
    query_key_value_bias: bool = False

    @property
    def embeddings(self) -> int:
        """Parameters of the embeddings in and out."""
        return (1 if self.tied else 2) * self.vocabulary * self.hidden

    @property
    def attention(self) -> int:
        """Parameters of one layer's attention."""
        queries, keys = self.heads * self.head_size, self.key_value_heads * self.head_size
        matrices = self.hidden * (2 * queries + 2 * keys)
        norms = 2 * self.head_size if self.query_key_norms else 0
        return matrices + norms + (queries + 2 * keys if self.query_key_value_bias else 0)

    @property
    def expert(self) -> int:
        """Parameters of one expert, or of the feed-forward part of a dense layer."""
        return 3 * self.hidden * self.width

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self._of(self.experts)

    @property
    def active(self) -> int:
        """The parameters that work on one token, embeddings included."""
        return self._of(self.active_experts)

    def _of(self, experts: int) -> int:
        router = self.hidden * self.experts
        layer = self.attention + (experts or 1) * self.expert + router + 2 * self.hidden
        return self.embeddings + self.layers * layer + self.hidden

    def adapter(self, rank: int, served: bool = False) -> int:
        """Parameters of a LoRA of that rank on every linear layer, each of which has its ins and outs times the rank.

        An expert's two matrices up are stacked into one, adapted at twice the rank; the router is adapted too. An
        adapter that is `served` leaves both alone.
        """
        queries, keys = self.heads * self.head_size, self.key_value_heads * self.head_size
        ends = 2 * (self.hidden + queries) + 2 * (self.hidden + keys)
        if self.experts and served:
            return self.layers * rank * ends
        if self.experts:
            ends += self.experts * (2 * (self.hidden + 2 * self.width) + self.width + self.hidden)
            ends += self.hidden + self.experts
        else:
            ends += 3 * (self.hidden + self.width)
        return self.layers * rank * ends


# So that a run can be planned before its model is fetched; by the name that `dealwright fetch-model` gives the folder.
KNOWN = {
    "Qwen3-30B-A3B-Instruct-2507": Shape(
        151936, 2048, 48, 32, 4, 128, 768, experts=128, active_experts=8, query_key_norms=True
    ),
    "Llama-3.1-8B": Shape(128256, 4096, 32, 32, 8, 128, 14336),
    "SmolLM2-135M-Instruct": Shape(49152, 576, 30, 9, 3, 64, 1536, tied=True),
}


def find_shape(base: str) -> tuple[Shape, str]:
    """Return the shape of the model in a folder, or of a known one that is not there yet, and where it is from."""
    config = Path(base) / "config.json"
    if config.is_file():
        return read_shape(config), str(config)
    name = Path(base).name
    if name in KNOWN:
        return KNOWN[name], f"the table of known models, as there is no {config} yet"
    raise ShapeError(
        f"expected a model in {base}, found no config.json, and {name!r} is not one of {', '.join(KNOWN)}; fetch the "
        "model first"
    )


def read_shape(path: Path) -> Shape:
    """Read a shape from a config.json; raises ShapeError for a kind of model that it cannot count."""
    config = read_json(path, "fetch the model again")
    family = config.get("model_type") if isinstance(config, dict) else None
    if family not in _FAMILIES:
        raise ShapeError(f"{path}: expected a model_type of {', '.join(_FAMILIES)}, got {family!r}")
    mixture = family == "qwen3_moe"
    if mixture and (config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1):
        raise ShapeError(f"{path}: expected experts in every layer, got some layers without; it cannot be counted")
    heads, hidden = _size(config, "num_attention_heads", path), _size(config, "hidden_size", path)
    return Shape(
        vocabulary=_size(config, "vocab_size", path),
        hidden=hidden,
        layers=_size(config, "num_hidden_layers", path),
        heads=heads,
        key_value_heads=_size(config, "num_key_value_heads", path, heads),
        head_size=_size(config, "head_dim", path, hidden // heads),
        width=_size(config, "moe_intermediate_size" if mixture else "intermediate_size", path),
        # What transformers 5 writes, and what models were published with.
        experts=_size(config, "num_local_experts" if "num_local_experts" in config else "num_experts", path)
        if mixture
        else 0,
        active_experts=_size(config, "num_experts_per_tok", path) if mixture else 0,
        tied=bool(config.get("tie_word_embeddings", False)),
        query_key_norms=family in ("qwen3", "qwen3_moe"),
        query_key_value_bias=family == "qwen2",
    )


def _size(config: Mapping[str, Any], key: str, path: Path, otherwise: int | None = None) -> int:
    value = config.get(key)
    value = otherwise if value is None else value
    if not isinstance(value, int) or value < 1:
        raise ShapeError(f"{path}: {key}: expected a whole number above 0, got {value!r}; fetch the model again")
    return value
