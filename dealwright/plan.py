"""What a training run needs before it starts: parameters, bytes a GPU, tokens a step, hours.

Everything is arithmetic on the parameters and the model's shape, with the assumptions below. It is for choosing a
machine, not for quoting.
"""

import math
from dataclasses import dataclass

from dealwright.game import Product, Scenario
from dealwright.params import LocalEngine, Params
from dealwright.prompts import render_buyer
from dealwright.shapes import Shape, find_shape

LEARNING_SHARE = 0.25  # of the peak arithmetic that learning and reading reach
READING_SHARE = 0.5  # of the peak bandwidth that sampling reaches
LAYER_SECONDS = 2e-4  # that starting one layer's kernels takes, once a sampled token
MESSAGE_SHARE = 0.5  # of `train.message_tokens` that a message fills
REPLY_TOKENS = 40  # of a scripted seller's message
TOKEN_CHARACTERS = 4  # of English text
TITLE = 60  # characters of a title; descriptions are taken as long as they may be
RESERVE = 0.1  # of a GPU's memory that is left to the libraries and to fragmentation


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU: bfloat16 multiplications and additions a second without sparsity, bytes a second, bytes."""

    name: str
    flops: float
    bandwidth: float
    memory: float


GPUS = (
    Gpu("A100 80 GB", 312e12, 2.04e12, 80e9),
    Gpu("H100 SXM", 989e12, 3.35e12, 80e9),
    Gpu("H200 SXM", 989e12, 4.8e12, 141e9),
    Gpu("B200", 2250e12, 8.0e12, 180e9),
    Gpu("L40S", 362e12, 0.864e12, 48e9),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """One planned number and the formula that it follows from."""

    name: str
    value: float
    formula: str


@dataclass(frozen=True, slots=True)
class OneGpu:
    """What one of `count` GPUs of a kind holds, in bytes, and the hours that they take together."""

    gpu: Gpu
    count: int
    held: tuple[Figure, ...]
    hours: tuple[Figure, ...]

    @property
    def bytes(self) -> float:
        """The most that it holds at once: playing and learning take turns."""
        held = {figure.name: figure.value for figure in self.held}
        playing, learning = held["playing copy"] + held["cache"], held["activations"]
        return sum(held.values()) - min(playing, learning)

    @property
    def fits(self) -> bool:
        """Whether that fits beside the reserve."""
        return self.bytes <= (1 - RESERVE) * self.gpu.memory

    @property
    def total_hours(self) -> float:
        """The hours of the whole training."""
        return sum(figure.value for figure in self.hours)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run needs, with every formula."""

    base: str
    shape_from: str
    model: tuple[Figure, ...]
    step: tuple[Figure, ...]
    gpus: tuple[OneGpu, ...]


def make_plan(params: Params, gpus: int | None = None) -> Plan:
    """Plan a run on so many GPUs of each kind, or on the fewest (1, 2, 4, ...) that it fits on.

    There are no more of them than micro-batches in a step.
    Raises DealwrightError where the model's parameters cannot be counted.
    """
    base = params.warmstart.base
    shape, shape_from = find_shape(base)
    run = _Run(params, shape)
    most = max(1, run.games // params.train.micro_batch)
    counts = [gpus] if gpus else [1 << power for power in range(most.bit_length())]
    return Plan(base, shape_from, run.model(), run.step(), tuple(run.fewest(gpu, counts) for gpu in GPUS))


@dataclass(frozen=True, slots=True)
class _Run:
    params: Params
    shape: Shape

    @property
    def trained(self) -> int:
        rank = self.params.train.lora_rank
        return self.shape.adapter(rank, self.served) if rank else self.shape.parameters

    @property
    def served(self) -> bool:
        return self.params.train.server is not None

    @property
    def games(self) -> int:
        return self.params.train.products * self.params.train.group_size

    @property
    def prompt_tokens(self) -> int:
        product = Product("", "x" * TITLE, "", "x" * self.params.catalogue.description_characters, 2, 1, 2)
        scenario = Scenario("", product, 2, 1, 2, 0, "")
        prompt = render_buyer(scenario, self.params.prompts.buyer, self.params.game.max_turns)
        return math.ceil(len(prompt) / TOKEN_CHARACTERS)

    def game_tokens(self, share: float) -> float:
        """Return the tokens of a game whose messages fill that share of their limit."""
        turn = share * self.params.train.message_tokens + REPLY_TOKENS
        return self.prompt_tokens + self.params.game.max_turns * turn

    def model(self) -> tuple[Figure, ...]:
        shape, rank = self.shape, self.params.train.lora_rank
        experts = f"{shape.experts} experts of " if shape.experts else ""
        working = f"{shape.active_experts} experts" if shape.experts else "all of them"
        if shape.experts:
            adapted = "attention" if self.served else "attention, router and all experts"
        else:
            adapted = "linear layers"
        return (
            Figure(
                "parameters",
                shape.parameters,
                f"embeddings {shape.embeddings:,} + {shape.layers} layers x (attention {shape.attention:,} + {experts}"
                f"{shape.expert:,} + norms{' and router' if shape.experts else ''}) + last norm {shape.hidden:,}",
            ),
            Figure("active on a token", shape.active, f"the same with {working}"),
            Figure(
                "trained",
                self.trained,
                f"LoRA on {adapted}: {shape.layers} layers x rank {rank} x (ins + outs)"
                if rank
                else "every parameter",
            ),
        )

    def step(self) -> tuple[Figure, ...]:
        train, turns = self.params.train, self.params.game.max_turns
        words = f"prompt {self.prompt_tokens} + {turns} turns x ("
        return (
            Figure("games", self.games, f"{train.products} products x {train.group_size}"),
            Figure(
                "tokens of a game, at most",
                self.game_tokens(1),
                f"{words}{train.message_tokens} + reply {REPLY_TOKENS})",
            ),
            Figure(
                "tokens of a game, expected",
                self.game_tokens(MESSAGE_SHARE),
                f"{words}{MESSAGE_SHARE:g} x {train.message_tokens} + reply {REPLY_TOKENS})",
            ),
            Figure("tokens of a step", self._tokens, "games x expected tokens"),
            Figure(
                "tokens learnt from",
                train.update_share * self._tokens,
                f"update_share {train.update_share:g} x tokens of a step",
            ),
        )

    @property
    def _tokens(self) -> float:
        return self.games * self.game_tokens(MESSAGE_SHARE)

    def fewest(self, gpu: Gpu, counts: list[int]) -> OneGpu:
        """Return what a GPU holds with the first count that fits, or with the last."""
        for count in counts:
            one = OneGpu(gpu, count, self.held(count), self.hours(gpu, count))
            if one.fits:
                break
        return one

    def held(self, count: int) -> tuple[Figure, ...]:
        """Return the bytes on one of so many GPUs; several split what does not change while games are played."""
        shape, train = self.shape, self.params.train
        parameters, trained = shape.parameters, self.trained
        weights, kept = (
            (2 * parameters + 4 * trained, "(2 x parameters in bfloat16 + 4 x trained)")
            if train.lora_rank
            else (4 * parameters, "4 x parameters")
        )
        reference = 4 * parameters if (train.kl or train.hold) and not train.lora_rank else 0
        games, tokens = math.ceil(self.games / count), self.game_tokens(1)
        rows = min(train.micro_batch, games)
        return (
            Figure("weights", weights / count, f"{kept} / GPUs"),
            Figure("gradients", 4 * trained / count, "4 x trained / GPUs"),
            Figure("optimizer", 8 * trained / count, "8 x trained / GPUs: Adam's two moments"),
            Figure(
                "reference",
                reference / count,
                "4 x parameters / GPUs where train.kl or train.hold is above 0, without LoRA",
            ),
            Figure(
                "playing copy",
                2 * parameters if count > 1 else 0,
                "2 x parameters on each of several GPUs, while games are played",
            ),
            Figure(
                "seller",
                self._seller,
                "2 x parameters of train.engine on each GPU, where it is a folder; a served one takes none",
            ),
            Figure(
                "cache",
                0 if self.served else games * tokens * self._entry,
                f"games / GPUs x tokens of a game, at most x {self._entry:,} bytes: 2 x 2 bytes x {shape.layers} "
                f"layers x {shape.key_value_heads} heads x {shape.head_size}; none with train.server",
            ),
            Figure(
                "activations",
                rows * tokens * (2 * shape.layers * shape.hidden + 8 * shape.vocabulary),
                f"{rows} dialogues x tokens of a game, at most x (2 bytes x {shape.layers} layers x {shape.hidden} + "
                f"8 bytes x {shape.vocabulary} logits)",
            ),
        )

    @property
    def _seller(self) -> float:
        engine = self.params.train.engine
        return 2 * find_shape(engine.folder)[0].parameters if isinstance(engine, LocalEngine) else 0

    @property
    def _entry(self) -> int:
        """Bytes of one token's keys and values."""
        return 4 * self.shape.layers * self.shape.key_value_heads * self.shape.head_size

    def hours(self, gpu: Gpu, count: int) -> tuple[Figure, ...]:
        """Return the hours that so many GPUs of a kind take for playing and for learning."""
        shape, train = self.shape, self.params.train
        passes = (6 if train.lora_rank else 8) + (2 if train.kl or train.hold else 0)
        sampled = self.params.game.max_turns * train.message_tokens  # games side by side wait for the longest message
        arithmetic, bandwidth = count * gpu.flops * LEARNING_SHARE, gpu.bandwidth * READING_SHARE
        cache = math.ceil(self.games / count) * self.game_tokens(MESSAGE_SHARE) / 2 * self._entry
        token = (2 * shape.parameters + cache) / bandwidth + shape.layers * LAYER_SECONDS
        reading = 2 * shape.active * self._tokens / arithmetic
        hour = train.steps / 3600
        return (
            Figure(
                "playing",
                hour * (reading + sampled * token),
                f"{train.steps} steps x (2 x active x tokens of a step / arithmetic + {sampled} tokens in a row x "
                f"((2 x parameters + half the expected cache) / bandwidth + {shape.layers} layers x "
                f"{LAYER_SECONDS * 1000:g} ms))",
            ),
            Figure(
                "learning",
                hour * passes * shape.active * train.update_share * self._tokens / arithmetic,
                f"{train.steps} steps x {passes} x active x tokens learnt from / arithmetic",
            ),
        )
