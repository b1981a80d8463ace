"""Language models that buy and sell in the evaluation (params.yaml, `engines`)."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from dealwright.addresses import possible
from dealwright.params.group import Count, Group, Name

EngineName = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9._-]*$")]
Address = Annotated[str, Field(pattern="^https?://"), AfterValidator(possible)]


class Spending(Group):
    """What a server may cost in one run, its restarts included, and its prices in dollars a million tokens."""

    tokens: Count | None = None
    dollars: Annotated[float, Field(gt=0)] | None = None
    prompt_price: Annotated[float, Field(ge=0)] = 0.0
    completion_price: Annotated[float, Field(ge=0)] = 0.0

    @model_validator(mode="after")
    def _dollars_need_prices(self) -> Self:
        if self.dollars is not None and not (self.prompt_price or self.completion_price):
            raise ValueError("dollars need prompt_price and completion_price, in dollars a million tokens")
        return self


class Engine(Group):
    """How a language model samples, wherever it runs."""

    temperature: Annotated[float, Field(ge=0)] = 0.7
    message_tokens: Count = 256


class LocalEngine(Engine):
    """A model's folder, loaded into this process; `options` are arguments of `vllm.LLM`."""

    kind: Literal["transformers", "vllm"]
    folder: Name
    options: dict[str, bool | int | float | str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _options_are_of_vllm(self) -> Self:
        if self.options and self.kind != "vllm":
            raise ValueError("options are arguments of vLLM; expected none for the kind transformers")
        return self

    @property
    def weights(self) -> str:
        """What the model is known by."""
        return self.folder


class ServedEngine(Engine):
    """A model behind an OpenAI-compatible address.

    `key_variable` names the environment variable that holds the key; `tokenizer` is a folder by which prompts are
    counted, so that one cut by the server is noticed; `vllm` says that the server is vLLM.
    """

    kind: Literal["openai"]
    model: Name
    address: Address
    key_variable: Annotated[str, Field(pattern="^[A-Z][A-Z0-9_]*$")] | None = None
    tokenizer: Name | None = None
    vllm: bool = False
    concurrency: Count = 8
    timeout: Annotated[float, Field(gt=0)] = 120.0
    retries: Annotated[int, Field(ge=0)] = 4
    budget: Spending = Spending()

    @property
    def weights(self) -> str:
        """What the model is known by."""
        return self.model


def _kind(given: Any) -> str | None:
    kind = given.get("kind") if isinstance(given, dict) else getattr(given, "kind", None)
    return kind if isinstance(kind, str) else None


AnyEngine = Annotated[
    Annotated[LocalEngine, Tag("transformers")]
    | Annotated[LocalEngine, Tag("vllm")]
    | Annotated[ServedEngine, Tag("openai")],
    Discriminator(
        _kind, custom_error_type="kind", custom_error_message="expected a kind: transformers, vllm or openai"
    ),
]
