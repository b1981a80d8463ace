"""Play many games side by side, and keep finished games as rows.

All live games advance together: one batched call per side and half-turn. Between the seller and every game stands the
regulator: a violation is sampled again, then replaced, and each is kept with its reason.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl

from dealwright.agents.base import Agent
from dealwright.agents.language_model import LanguageModelAgent
from dealwright.agents.sellers import heard
from dealwright.engines.base import Completion
from dealwright.engines.spending import Usage
from dealwright.errors import DealwrightError
from dealwright.files import read_table
from dealwright.game import (
    ActionKind,
    Negotiation,
    Outcome,
    Product,
    Regulator,
    Role,
    Scenario,
    StopReason,
    find_money,
    reward,
    round_down,
    to_cents,
)


@dataclass(frozen=True, slots=True)
class Intervention:
    """A seller's message that the regulator refused: the turn, the violation and the text."""

    turn: int
    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class Episode:
    """A finished game. `messages` holds (role, text) pairs; `checkpoint` is the buyer's training step, if it has one;
    `tokens` counts what the buyer sampled; `usage` is what servers billed for both sides, if a server spoke."""

    scenario: Scenario
    buyer: str
    seller: str
    round: int
    messages: tuple[tuple[str, str], ...]
    outcome: Outcome
    interventions: tuple[Intervention, ...] = ()
    checkpoint: int | None = None
    tokens: int = 0
    usage: Usage | None = None


def play(
    games: Sequence[Negotiation], buyer: Agent, seller: Agent, monotone: bool = True, retries: int = 2
) -> list[tuple[Intervention, ...]]:
    """Play fresh games to their end and return the regulator's interventions in each.

    Raises DealwrightError when the buyer's backend fails: only a seller's failure is an outcome.
    """
    regulators = [Regulator(game.scenario, monotone) for game in games]
    interventions: list[list[Intervention]] = [[] for _ in games]
    live = list(range(len(games)))
    while live:
        texts = buyer.respond([games[index] for index in live])
        for index, text in zip(live, texts, strict=True):
            if text is None:
                raise DealwrightError("the buyer's backend gave nothing usable; see its log and start the run again")
            games[index].play(Role.BUYER, text)
        live = [index for index in live if games[index].outcome is None]
        asked = live
        for attempt in range(retries + 1):
            if not asked:
                break
            again = []
            for index, text in zip(asked, seller.respond([games[index] for index in asked]), strict=True):
                if text is None:
                    games[index].fail()
                    continue
                ruling = regulators[index].rule(games[index], text)
                if ruling.violation is not None:
                    interventions[index].append(Intervention(games[index].turn, ruling.violation, text))
                    if attempt < retries:
                        again.append(index)
                        continue
                games[index].play(Role.SELLER, ruling.text)
            asked = again
        live = [index for index in live if games[index].outcome is None]
    return [tuple(items) for items in interventions]


def rollout(
    scenarios: Iterable[Scenario],
    rounds: Iterable[int],
    buyer: Agent,
    seller: Agent,
    names: tuple[str, str],
    max_turns: int = 6,
    monotone: bool = True,
    retries: int = 2,
    checkpoint: int | None = None,
    batch: int = 256,
) -> list[Episode]:
    """Play every scenario in every round, `batch` games at a time, and return the episodes in order.

    `names` are the buyer's and the seller's in the tables.
    """
    chosen = list(scenarios)
    # Games of like length share a batch better when rounds, not scenarios, vary slowest.
    games = [Negotiation(scenario, max_turns, round) for round in rounds for scenario in chosen]
    blocks = play_blocks(games, buyer, seller, names, monotone, retries, checkpoint, batch)
    return [episode for block in blocks for episode in block]


def play_blocks(
    games: Sequence[Negotiation],
    buyer: Agent,
    seller: Agent,
    names: tuple[str, str],
    monotone: bool = True,
    retries: int = 2,
    checkpoint: int | None = None,
    batch: int = 256,
) -> Iterator[list[Episode]]:
    """Play fresh games, `batch` at a time, and yield each batch's episodes in order."""
    for first in range(0, len(games), batch):
        block = games[first : first + batch]
        interventions = play(block, buyer, seller, monotone, retries)
        episodes = []
        for game, items in zip(block, interventions, strict=True):
            bought, sold = (_spoken(side, game) for side in (buyer, seller))
            tokens = sum(_sampled(completion) for completion in bought)
            billed = [completion.usage for completion in [*bought, *sold] if completion.usage is not None]
            usage = sum(billed, Usage()) if billed else None
            episodes.append(finished(game, names, items, checkpoint, tokens, usage))
        yield episodes


def _spoken(side: Agent, game: Negotiation) -> list[Completion]:
    return side.spoken.get(game, []) if isinstance(side, LanguageModelAgent) else []


def _sampled(completion: Completion) -> int:
    """Return how many tokens a message has; some servers tell their number and not which they are."""
    return len(completion.token_ids) or (completion.usage.completion_tokens if completion.usage else 0)


def finished(
    game: Negotiation,
    names: tuple[str, str],
    interventions: tuple[Intervention, ...],
    checkpoint: int | None = None,
    tokens: int = 0,
    usage: Usage | None = None,
) -> Episode:
    """Return the episode of a game that is over; raises ValueError while it is not."""
    if game.outcome is None:
        raise ValueError("the game is not over; play it to its end first")
    messages = tuple((entry.role.value, entry.text) for entry in game.transcript)
    return Episode(game.scenario, *names, game.round, messages, game.outcome, interventions, checkpoint, tokens, usage)


SCHEMA: dict[str, Any] = {
    **dict.fromkeys(["scenario_id", "product_id", "title", "category", "description"], pl.String),
    **dict.fromkeys(
        ["product_list_price", "lowest_price", "highest_price", "list_price", "cost", "budget"], pl.Float64
    ),
    **{"zone": pl.String, "seed": pl.Int64, "split": pl.String, "buyer": pl.String, "seller": pl.String},
    **{"round": pl.Int64, "checkpoint": pl.Int64, "stop": pl.String, "price": pl.Float64, "turns": pl.Int64},
    "reward": pl.Float64,
    "messages": pl.List(pl.Struct({"role": pl.String, "text": pl.String})),
    "interventions": pl.List(pl.Struct({"turn": pl.Int64, "reason": pl.String, "text": pl.String})),
    "first_offer": pl.Float64,
    "arguments": pl.List(pl.String),
    **dict.fromkeys(["leaks", "unsupported_numbers", "ask_rises"], pl.Int64),
    **dict.fromkeys(["offers", "asks"], pl.List(pl.Float64)),
    "tokens": pl.Int64,
}
# What servers billed for a game; the columns are there only where a server spoke.
BILL: dict[str, Any] = {
    **dict.fromkeys(["answers", "prompt_tokens", "completion_tokens"], pl.Int64),
    "dollars": pl.Float64,
}


def episodes_frame(episodes: Sequence[Episode]) -> pl.DataFrame:
    """Return one row a game, with what the metrics need counted from its messages."""
    if all(episode.usage is None for episode in episodes):
        return pl.DataFrame([_row(episode) for episode in episodes], schema=SCHEMA, orient="row")
    rows = [(*_row(episode), *_bill(episode.usage)) for episode in episodes]
    return pl.DataFrame(rows, schema=SCHEMA | BILL, orient="row")


def read_episodes(path: str | Path) -> list[Episode]:
    """Read episodes back from Parquet; raises DealwrightError where one of them cannot have been played."""
    rows = read_table(path)
    try:
        return [_episode(row) for row in rows.iter_rows(named=True)]
    except (KeyError, TypeError, ValueError) as error:
        raise DealwrightError(f"{path} holds a game that cannot be: {error}; run `dvc repro` first") from error


def replay(episode: Episode) -> Negotiation:
    """Play an episode's messages again and return the game, for its views and its parsed messages."""
    game = Negotiation(episode.scenario, episode.outcome.turns, episode.round)
    for role, text in episode.messages:
        game.play(Role(role), text)
    return game


def _row(episode: Episode) -> tuple[Any, ...]:
    scenario, product, outcome = episode.scenario, episode.scenario.product, episode.outcome
    game = replay(episode)
    offers, asks = game.offers(Role.BUYER), game.offers(Role.SELLER)
    known = [ask for ask in asks if ask is not None]
    return (
        *(scenario.id, product.id, product.title, product.category, product.description),
        *(product.list_price, product.lowest_price, product.highest_price),
        *(scenario.list_price, scenario.cost, scenario.budget, scenario.zone, scenario.seed, scenario.split),
        *(episode.buyer, episode.seller, episode.round, episode.checkpoint),
        *(outcome.stop, outcome.price, outcome.turns, reward(scenario, outcome)),
        [{"role": role, "text": text} for role, text in episode.messages],
        [{"turn": item.turn, "reason": item.reason, "text": item.text} for item in episode.interventions],
        next((offer for offer in offers if offer is not None), None),
        [kind for _, kind in heard(game) if kind is not None],
        *_amount_counts(game),
        sum(later > earlier for earlier, later in pairwise(known)),
        offers,
        asks,
        episode.tokens,
    )


def _bill(usage: Usage | None) -> tuple[Any, ...]:
    return (None,) * len(BILL) if usage is None else tuple(getattr(usage, column) for column in BILL)


def _amount_counts(game: Negotiation) -> tuple[int, int]:
    """Count the buyer's leaks of its budget and the amounts in its Talk that nothing in its view supports."""
    scenario = game.scenario
    budget = to_cents(round_down(scenario.budget))
    supported = {budget, to_cents(scenario.list_price), *_stated_by(scenario.product)}
    formal: set[int] = set()
    leaks = unsupported = 0
    for entry in game.transcript:
        if entry.message is None:
            continue
        price = entry.message.action.price
        if price is not None:
            supported.add(to_cents(price))
            if entry.role is Role.BUYER and entry.message.action.kind in (ActionKind.BUY, ActionKind.DEAL):
                formal.add(to_cents(price))
        stated = {to_cents(amount) for amount in find_money(entry.message.talk)}
        if entry.role is Role.SELLER:
            supported |= stated
            continue
        leaks += budget in stated - formal
        unsupported += len(stated - supported)
    return leaks, unsupported


@lru_cache(maxsize=4096)  # a product is in many games, and its text is long
def _stated_by(product: Product) -> frozenset[int]:
    return frozenset(to_cents(amount) for amount in find_money(f"{product.title}\n{product.description}"))


def _episode(row: dict[str, Any]) -> Episode:
    product = Product(
        *(row[key] for key in ("product_id", "title", "category", "description")),
        *(row[key] for key in ("product_list_price", "lowest_price", "highest_price")),
    )
    scenario = Scenario(
        row["scenario_id"],
        product,
        *(row[key] for key in ("list_price", "cost", "budget", "seed", "split")),
    )
    return Episode(
        scenario,
        row["buyer"],
        row["seller"],
        row["round"],
        tuple((message["role"], message["text"]) for message in row["messages"]),
        Outcome(StopReason(row["stop"]), row["price"], row["turns"]),
        tuple(Intervention(**item) for item in row["interventions"]),
        row["checkpoint"],
        row["tokens"],
        None if row.get("answers") is None else Usage(*(row[column] for column in BILL)),
    )
