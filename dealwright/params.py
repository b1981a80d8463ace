"""The parameters of every stage: one frozen model per group of params.yaml, so that a typo fails before any work."""

from collections.abc import Mapping
from pathlib import Path
from reprlib import Repr
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dealwright.errors import DealwrightError

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what NumPy takes
Name = Annotated[str, Field(min_length=1)]
EngineName = Annotated[str, Field(pattern="^[a-z0-9][a-z0-9._-]*$")]

MOST_PROBLEMS = 20  # that one line names
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError("the first must not be above the second")
    return bounds


class ParamsError(DealwrightError):
    """A parameter file that cannot be used; the message names the key, what was expected and what came."""


class Group(BaseModel):
    """A group of parameters; unknown keys, infinite numbers, and true or false for a number are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool) and cls.model_fields[info.field_name or ""].annotation is not bool:
            raise ValueError("expected no true or false")
        return value


class Catalogue(Group):
    """Where products come from and how their columns are called."""

    source: Literal["bundled", "amazon_history_price", "csv", "jsonl", "parquet"]
    path: Name
    columns: dict[str, str]
    currency: Annotated[str, Field(pattern="^[A-Z]{3}$")]
    cost_ratio: Annotated[float, Field(gt=0, lt=1)] | None
    title_characters: Annotated[tuple[Count, Count], AfterValidator(_rising)]
    description_characters: Count


class Validate(Group):
    """The contract of the canonical table."""

    minimum_rows: Count
    categories: Annotated[tuple[str, ...], Field(min_length=1)] | None
    conflict_share: Annotated[tuple[Share, Share], AfterValidator(_rising)]


class Prompts(Group):
    """Scenarios, splits and prompt texts."""

    seed: Seed
    budget_factor: Annotated[float, Field(gt=0, le=1)]
    test: Count
    validation: Count
    buyer: Literal["brief", "full"]


class Regulator(Group):
    """What the regulator enforces besides the cost and the format."""

    monotone: bool
    retries: Annotated[int, Field(ge=0)]


class Game(Group):
    """The rules that are not fixed by the protocol."""

    max_turns: Count
    regulator: Regulator


class Rollouts(Group):
    """Scripted reference games, the fits of the scripts, and the demonstrations."""

    seed: Seed
    demonstrations: Count
    reference_rounds: Count
    fit_scenarios: Count
    fit_population: Annotated[int, Field(ge=4)]
    fit_iterations: Count


class Gate(Group):
    """What a warm start must reach on validation games."""

    valid: Share
    overshoot: Share


class Warmstart(Group):
    """Supervised fine-tuning of the base model."""

    base: Name
    seed: Seed
    steps: Annotated[int, Field(ge=0)]
    batch_size: Count
    learning_rate: Annotated[float, Field(gt=0)]
    gate: Gate
    gate_games: Count


class Train(Group):
    """GRPO training against the regulated seller."""

    seed: Seed
    seller: str
    steps: Count
    products: Count
    group_size: Annotated[int, Field(ge=2)]
    credit: Share
    update_share: Annotated[float, Field(gt=0, le=1)]
    micro_batch: Count
    learning_rate: Annotated[float, Field(gt=0)]
    schedule: Literal["constant", "linear", "cosine"]
    hold: Annotated[float, Field(ge=0)]
    kl: Annotated[float, Field(ge=0)]
    entropy: Annotated[float, Field(ge=0)]
    temperature: Annotated[float, Field(gt=0)]
    message_tokens: Count
    checkpoint_steps: Count
    lora_rank: Annotated[int, Field(ge=0)]

    @field_validator("micro_batch")
    @classmethod
    def _whole_micro_batches(cls, size: int, info: ValidationInfo) -> int:
        games = info.data.get("products", 0) * info.data.get("group_size", 0)
        if games > size and games % size:
            raise ValueError(f"must divide the {games} games of a step (products times group_size)")
        return size

    @field_validator("kl")
    @classmethod
    def _penalty_on_every_game(cls, kl: float, info: ValidationInfo) -> float:
        if kl > 0 and info.data.get("update_share", 1.0) < 1:
            raise ValueError("needs update_share 1: the games that are left out of the update would carry no penalty")
        return kl


class Select(Group):
    """The probe games that choose a checkpoint."""

    seed: Seed
    rounds: Count
    seller: str
    temperature: Annotated[float, Field(ge=0)]
    overshoot: Share
    resamples: Count


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
    """A model's folder, loaded into this process."""

    kind: Literal["transformers", "vllm"]
    folder: Name


class ServedEngine(Engine):
    """A model behind an OpenAI-compatible address.

    `key_variable` names the environment variable that holds the key; `tokenizer` is a folder by which prompts are
    counted, so that one cut by the server is noticed; `vllm` says that the server is vLLM.
    """

    kind: Literal["openai"]
    model: Name
    address: Annotated[str, Field(pattern="^https?://")]
    key_variable: Annotated[str, Field(pattern="^[A-Z][A-Z0-9_]*$")] | None = None
    tokenizer: Name | None = None
    vllm: bool = False
    concurrency: Count = 8
    timeout: Annotated[float, Field(gt=0)] = 120.0
    retries: Annotated[int, Field(ge=0)] = 4
    budget: Spending = Spending()


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


class Evaluate(Group):
    """The final games on the test scenarios."""

    seed: Seed
    rounds: Count
    buyers: tuple[str, ...]
    sellers: Annotated[tuple[str, ...], Field(min_length=1)]
    ablations: tuple[Literal["talk_emptied", "stock_arguments", "cues_removed", "cues_swapped"], ...]
    resamples: Count
    bound_offers: Annotated[int, Field(ge=4)]
    belief_rounds: Annotated[int, Field(ge=0)]


class Phases(Group):
    """Clusters of episodes and change points over checkpoints."""

    clusters: Annotated[int, Field(ge=2)]
    seed: Seed
    false_alarm: Annotated[float, Field(gt=0, lt=1)]


class Tracking(Group):
    """Names in MLflow."""

    experiment: Name
    model: Annotated[str, Field(pattern="^[^/:]+$")]


class Retrain(Group):
    """When the flow `retrain` runs, what makes it train, what a candidate must gain, and where its report is shown."""

    cron: str | None
    new_products: Share
    rejected_rise: Share
    price_drift: Annotated[float, Field(ge=0)]
    minimum_gain: Annotated[float, Field(ge=0, le=2)]
    reports: Annotated[str, Field(pattern="^https?://")]


class Params(Group):
    """The whole of params.yaml."""

    catalogue: Catalogue
    validate_: Validate = Field(alias="validate")
    prompts: Prompts
    game: Game
    engines: dict[EngineName, AnyEngine]
    rollouts: Rollouts
    warmstart: Warmstart
    train: Train
    select: Select
    evaluate: Evaluate
    phases: Phases
    tracking: Tracking
    retrain: Retrain


def load_params(path: str | Path = "params.yaml") -> Params:
    """Read and check a parameter file; raises ParamsError where it cannot be used."""
    return parse_params(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """Read a file of parameters; raises ParamsError where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ParamsError(f"cannot read {path}: {error.strerror}; run from the project's root") from error
    except UnicodeDecodeError as error:
        raise ParamsError(
            f"cannot read {path}: expected UTF-8, got byte {error.object[error.start]:#04x} at {error.start}; save it "
            "as UTF-8"
        ) from error


def parse_params(text: str, where: str) -> Params:
    """Check the text of a parameter file; `where` names it in errors.

    Raises ParamsError with one line that names each bad key, what was expected and what came.
    """
    try:
        values = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # an impossible date; too deep a nesting
        raise ParamsError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from error
    try:
        return Params.model_validate(values)
    except ValidationError as error:
        found = error.errors()
        problems = [
            f"{'.'.join(str(part) for part in item['loc']) or 'the file'}: {item['msg']}{_got(item)}"
            for item in found[:MOST_PROBLEMS]
        ]
        more = [f"and {len(found) - MOST_PROBLEMS} more"] if len(found) > MOST_PROBLEMS else []
        raise ParamsError(f"{where}: {'; '.join([*problems, *more])}") from error


def _shown(value: Any) -> str:
    """Write what came, cut short; a file may refer to the same thing again and again, without end."""
    text = _SHORT.repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _got(problem: Mapping[str, Any]) -> str:
    # Whoever takes the variable's name for the key itself shall not find it in a log.
    return "" if problem["loc"][-1:] == ("key_variable",) else f", got {_shown(problem['input'])}"


def flatten(group: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the leaves of a nested mapping by their dotted names; a list or an empty mapping is a leaf."""
    leaves: dict[str, Any] = {}
    for key, value in group.items():
        name = f"{prefix}{key}"
        leaves |= flatten(value, f"{name}.") if isinstance(value, Mapping) and value else {name: value}
    return leaves
