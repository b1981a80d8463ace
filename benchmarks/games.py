"""Games on the bundled catalogue and the base model, made in memory, for the benchmarks that play."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dealwright.agents import Agent, LanguageModelAgent
from dealwright.catalogue.scenarios import make_scenarios, read_scenarios
from dealwright.catalogue.table import ingest
from dealwright.engines.loading import load_model
from dealwright.files import write_parquet
from dealwright.game import Negotiation, Scenario
from dealwright.params import Params, load_params
from dealwright.players import BuyerSettings, language_buyer, make_seller
from dealwright.prompts.render import render_buyer
from dealwright.seats import training_seller

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from dealwright.engines.base import Engine
    from dealwright.training.grpo import BuyerTrainer

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Hall:
    """What it takes to play: parameters, scenarios, the buyer's prompts, and the base model."""

    params: Params
    scenarios: list[Scenario]
    prompts: dict[str, str]
    model: "PreTrainedModel"
    tokenizer: "PreTrainedTokenizerBase"

    def deal(self, games: int) -> list[Negotiation]:
        """Return fresh games over as many scenarios, in further rounds where there are fewer of them."""
        places = (divmod(at, len(self.scenarios)) for at in range(games))
        return [Negotiation(self.scenarios[at], self.params.game.max_turns, round) for round, at in places]

    def buyer(self, engine: "Engine", seed: int) -> LanguageModelAgent:
        """Seat the model as the buyer, sampling as in training."""
        return language_buyer(engine, self.prompts, BuyerSettings.exploring(self.params), seed)

    def seller(self) -> Agent:
        """Return the seller of training."""
        return make_seller(self.params.train.seller)

    def training(self, steps: int, products: int | None, group_size: int | None) -> Params:
        """Return the parameters of a training with so many steps and no checkpoint, by default at its own sizes."""
        own = self.params.train
        sizes = {"products": products or own.products, "group_size": group_size or own.group_size}
        train = own.model_copy(update={**sizes, "steps": steps, "checkpoint_steps": 1_000_000})
        return self.params.model_copy(update={"train": train})

    def trainer(self, params: Params, folder: Path) -> "BuyerTrainer":
        """Return a trainer of a copy of the model, with other parameters, that keeps nothing of its games."""
        from dealwright.training.grpo import make_trainer

        seat = training_seller(params, self.scenarios, folder)
        model, nothing = deepcopy(self.model), lambda *_: None
        return make_trainer(model, self.tokenizer, self.scenarios, self.prompts, params, folder, nothing, seat)


@cache
def open_hall() -> Hall:
    """Read the parameters, the bundled catalogue and the base model of the repository."""
    params = load_params(ROOT / "params.yaml")
    catalogue = params.catalogue.model_copy(update={"source": "bundled", "path": str(ROOT / "data/catalogue")})
    products = ingest(catalogue).catalogue
    with TemporaryDirectory() as folder:
        tables = Path(folder, "scenarios.parquet"), Path(folder, "catalogue.parquet")
        write_parquet(tables[0], make_scenarios(products, params.prompts))
        write_parquet(tables[1], products)
        scenarios = read_scenarios(*tables)
    prompts = {
        scenario.id: render_buyer(scenario, params.prompts.buyer, params.game.max_turns) for scenario in scenarios
    }
    model, tokenizer = load_model(ROOT / "data/base")
    return Hall(params, scenarios, prompts, model.eval(), tokenizer)


def buyer_turns(games: Iterable[Negotiation]) -> int:
    """Count the buyer's messages."""
    return sum((len(game.transcript) + 1) // 2 for game in games)


def sampled_tokens(buyer: LanguageModelAgent, games: Sequence[Negotiation]) -> int:
    """Count the tokens that the buyer sampled."""
    return sum(len(completion.token_ids) for game in games for completion in buyer.spoken[game])
