"""The groups of params.yaml: one a stage, and those that several stages or no stage read."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from dealwright.params.engines import Address, AnyEngine, EngineName
from dealwright.params.group import Count, Group, Name, Seed, Share


def _rising(bounds: tuple[float, float]) -> tuple[float, float]:
    if bounds[0] > bounds[1]:
        raise ValueError("the first must not be above the second")
    return bounds


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
    untrained_categories: list[Name]
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
    engine: AnyEngine | None
    server: Address | None
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

    @field_validator("lora_rank")
    @classmethod
    def _adapter_for_the_server(cls, rank: int, info: ValidationInfo) -> int:
        if rank == 0 and info.data.get("server") is not None:
            raise ValueError("must be above 0 beside train.server, which is handed an adapter at every step")
        return rank


class Select(Group):
    """The probe games that choose a checkpoint."""

    seed: Seed
    rounds: Count
    seller: str
    temperature: Annotated[float, Field(ge=0)]
    overshoot: Share
    resamples: Count


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
