"""Seat language models by the names that params.yaml gives them under `engines`, beside the scripts.

A seller is named by its engine, as in `big`, or with a persona, as in `big/begging`; a buyer by its engine alone.
What they answer is kept in a work folder until `done`, so that a run that was killed pays for no answer twice.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from dealwright.agents import COLUMNS, FLOOR_ONLY, SELLERS, Agent, LanguageModelAgent
from dealwright.engines.base import Conversation, Engine, Sampling
from dealwright.engines.kept import KeptAnswers, KeptEngine
from dealwright.engines.spending import Budget
from dealwright.errors import DealwrightError
from dealwright.game import Role, Scenario
from dealwright.params import LocalEngine, Params, ServedEngine
from dealwright.players import make_seller, read_prompts
from dealwright.prompts import PERSONAS, opening_buyer, opening_seller, render_buyer, render_seller

WORK = Path("data/work/engines")
PROMPTS = Path("data/prompts.parquet")
NEUTRAL, *MANNERS = PERSONAS
VLLM = "`make .venv GPU=1` brings it where there is a GPU, and docs/engines.md says how to do without one"
# What an engine's folder is known by: a model or an adapter over one, a model, a tokenizer.
WANTED = {
    "transformers": ("config.json", "adapter_config.json"),
    "vllm": ("config.json",),
    "openai": ("tokenizer_config.json",),
}


class Seats:
    """The language models of a run; each engine is made when it is first asked for, and then shared."""

    def __init__(self, params: Params, work: Path = WORK, prompts: Path = PROMPTS) -> None:
        self._params = params
        self._work = work
        self._prompts = prompts
        self._kept: dict[str, KeptAnswers] = {}
        self._engines: dict[str, Engine] = {}

    def seller(self, name: str) -> Agent:
        """Seat a seller, script or language model; raises DealwrightError for a name that is neither."""
        engine, persona = split_seller(name, self._params)
        if engine is None:
            return make_seller(name)
        return self._seller(engine, read_prompts(Role.SELLER, persona, self._prompts))

    def seller_in(self, scenarios: Sequence[Scenario], engine: str, persona: str) -> LanguageModelAgent:
        """Seat an engine as the seller in some scenarios, with prompts rendered for them."""
        turns = self._params.game.max_turns
        return self._seller(engine, {one.id: render_seller(one, persona, turns) for one in scenarios})

    def buyer(self, name: str, scenarios: Sequence[Scenario]) -> LanguageModelAgent:
        """Seat an engine as the buyer, with the full instructions whatever the trained model reads."""
        turns = self._params.game.max_turns
        prompts = {scenario.id: render_buyer(scenario, "full", turns) for scenario in scenarios}
        return LanguageModelAgent(self._engine(name), Role.BUYER, prompts, opening_buyer("full"), self._sampling(name))

    def done(self) -> None:
        """Forget the answers kept: what was made of them is written."""
        for kept in self._kept.values():
            kept.forget()

    def _seller(self, engine: str, prompts: Mapping[str, str]) -> LanguageModelAgent:
        return LanguageModelAgent(self._engine(engine), Role.SELLER, prompts, opening_seller(), self._sampling(engine))

    def _sampling(self, name: str) -> Sampling:
        spec = self._params.engines[name]
        return Sampling(spec.temperature, spec.message_tokens, self._params.evaluate.seed)

    def _engine(self, name: str) -> Engine:
        if name not in self._engines:
            spec = self._params.engines[name]
            self._kept[name] = KeptAnswers(self._work / f"{name}.jsonl", spec.weights)
            self._engines[name] = make_engine(spec, self._kept[name])
        return self._engines[name]


def training_seller(params: Params, scenarios: Sequence[Scenario], work: Path) -> Callable[[int], Agent]:
    """Return what seats the seller of a training step by the step's seed: the engine of `train`, or else its script.

    What an engine answers is kept in `work`, so that a training that was killed asks for nothing twice.
    """
    spec = params.train.engine
    if spec is None:
        return lambda _: make_seller(params.train.seller)
    kept = KeptAnswers(work / "seller.jsonl", spec.weights)
    engine = make_engine(spec, kept)
    prompts = {one.id: render_seller(one, NEUTRAL, params.game.max_turns) for one in scenarios}

    def seat(seed: int) -> Agent:
        kept.scope = str(seed)  # a later step draws anew, whether the training was killed before it or not
        sampling = Sampling(spec.temperature, spec.message_tokens, seed)
        return LanguageModelAgent(engine, Role.SELLER, prompts, opening_seller(), sampling)

    return seat


def split_seller(name: str, params: Params) -> tuple[str | None, str]:
    """Return the engine and the persona that a seller's name means, or None and nothing for a script.

    Raises DealwrightError for a name that means nothing.
    """
    first, slash, rest = name.partition("/")
    if first in (*COLUMNS, FLOOR_ONLY):
        make_seller(name)  # refuses an unknown ablation
        return None, ""
    if first not in params.engines:
        raise DealwrightError(f"unknown seller {name!r}; expected one of {', '.join([*SELLERS, *params.engines])}")
    if slash and rest not in MANNERS:
        manners = ", ".join(f"{first}/{manner}" for manner in MANNERS)
        raise DealwrightError(f"unknown persona in {name!r}; expected {first}, {manners}")
    return first, rest or NEUTRAL


def make_engine(spec: LocalEngine | ServedEngine, kept: KeptAnswers) -> Engine:
    """Return the engine that a group of params.yaml describes; raises DealwrightError where it cannot be."""
    if isinstance(spec, ServedEngine):
        return _served(spec, kept)
    if spec.kind == "vllm":
        from dealwright.engines.vllm_process import VllmEngine

        return KeptEngine(VllmEngine.from_folder(spec.folder, **spec.options), kept)
    from dealwright.engines.transformers import TransformersEngine

    return KeptEngine(TransformersEngine.from_folder(spec.folder), kept)


def check_engine(spec: LocalEngine | ServedEngine) -> None:
    """Raise DealwrightError for what can be known to fail before an engine is made.

    A folder, an address, a key, a package.
    """
    folder = spec.folder if isinstance(spec, LocalEngine) else spec.tokenizer
    if folder is not None and not any((Path(folder) / name).is_file() for name in WANTED[spec.kind]):
        raise DealwrightError(f"expected a folder with a {WANTED[spec.kind][0]}, got {folder}; fetch the model first")
    if spec.kind == "vllm" and find_spec("vllm") is None:
        raise DealwrightError(f"expected the package vllm, got an environment without it; {VLLM}")
    if isinstance(spec, ServedEngine):
        from dealwright.engines.openai_server import OpenaiEngine

        OpenaiEngine(spec.model, spec.address, key_variable=spec.key_variable)


def _served(spec: ServedEngine, kept: KeptAnswers) -> Engine:
    from dealwright.engines.openai_server import OpenaiEngine

    return OpenaiEngine(
        spec.model,
        spec.address,
        key_variable=spec.key_variable,
        concurrency=spec.concurrency,
        timeout=spec.timeout,
        retries=spec.retries,
        budget=Budget(**spec.budget.model_dump()),
        token_counter=None if spec.tokenizer is None else _counter(spec.tokenizer),
        vllm=spec.vllm,
        kept=kept,
    )


def _counter(folder: str) -> Callable[[Conversation], int]:
    from transformers import AutoTokenizer

    from dealwright.engines.chat import render

    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda conversation: len(render(tokenizer, conversation, prompt=True))
