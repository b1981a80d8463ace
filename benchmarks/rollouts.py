"""Rollouts: against one game at a time, against TRL's own multi-turn loop, and as the number of games grows."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.games import Hall, buyer_turns, open_hall
from benchmarks.measure import Comparison, in_turn, seconds
from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.transformers import TransformersEngine
from dealwright.game import Negotiation
from dealwright.rollout import play, rollout

if TYPE_CHECKING:
    from trl import GRPOTrainer

UNIT = "seconds per 1000 buyer turns"


class OneByOneEngine:
    """Continues one conversation after another through `model.generate`, which reads each from its beginning."""

    def __init__(self, hall: Hall) -> None:
        self.model, self.tokenizer = hall.model, hall.tokenizer

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        """Return one completion a conversation, in order."""
        torch.manual_seed(sampling.seed % 2**63)
        return [self._complete(conversation, sampling) for conversation in conversations]

    def _complete(self, conversation: Conversation, sampling: Sampling) -> Completion:
        prompt = self.tokenizer.apply_chat_template(
            list(conversation), add_generation_prompt=True, return_tensors="pt", return_dict=True
        )
        output = self.model.generate(
            **prompt,
            do_sample=True,
            temperature=sampling.temperature,
            top_k=0,
            max_new_tokens=sampling.max_tokens,
        )
        ids = output[0, prompt["input_ids"].shape[1] :].tolist()
        ended = ids[-1] == self.tokenizer.eos_token_id
        return Completion(self.tokenizer.decode(ids[:-1] if ended else ids), "stop" if ended else "length")


def one_at_a_time(games: int = 256, every: int = 8, repeats: int = 3) -> Comparison:
    """Compare `play` on all games side by side with the same `play` on one game after another.

    Only every so many of the games are played one after another: what a turn costs there does not depend on them.
    """
    hall = open_hall()
    turns: dict[str, list[float]] = {"ours": [], "other": []}

    def side_by_side() -> float:
        dealt, buyer = hall.deal(games), hall.buyer(TransformersEngine(hall.model, hall.tokenizer), len(turns["ours"]))
        return per_turn(lambda: play(dealt, buyer, hall.seller()), dealt, turns["ours"])

    def one_by_one() -> float:
        dealt, buyer = hall.deal(games)[::every], hall.buyer(OneByOneEngine(hall), len(turns["other"]))
        return per_turn(lambda: [play([game], buyer, hall.seller()) for game in dealt], dealt, turns["other"])

    ours, others = in_turn(side_by_side, one_by_one, repeats)
    return Comparison(
        what="all games side by side, keys and values kept across turns",
        other="one game at a time through model.generate",
        unit=UNIT,
        ours=ours,
        others=others,
        target=15.0,
        sizes={"games": games, "one_at_a_time": len(range(0, games, every)), "repeats": repeats},
        found={"turns_per_game": turns},
    )


def trl_loop(games: int = 256, group_size: int = 8, repeats: int = 3) -> Comparison:
    """Compare what a GRPO step does before its update: by our rollout, and by TRL's loop over tool calls.

    Both trainers get the same rows and use TRL's own generation of a batch, rewards and advantages included.
    """
    from benchmarks.tool_loop import tool_trainer

    hall = open_hall()
    train = hall.params.train.model_copy(
        update={"steps": 1, "products": games // group_size, "group_size": group_size, "micro_batch": games}
    )
    params = hall.params.model_copy(update={"train": train})
    turns: dict[str, list[float]] = {"ours": [], "other": []}
    with TemporaryDirectory() as folder:
        own = hall.trainer(params, Path(folder))
        tools = tool_trainer(hall, own)
        ours, others = in_turn(
            lambda: _batch(own, group_size, turns["ours"]), lambda: _batch(tools, group_size, turns["other"]), repeats
        )
    return Comparison(
        what="a GRPO batch of games by the rollout function",
        other="the same batch by TRL's environment_factory with offer, accept, decline and walk_away as tools",
        unit=UNIT,
        ours=ours,
        others=others,
        target=3.0,
        sizes={"games": games, "group_size": group_size, "repeats": repeats},
        found={"turns_per_game": turns},
    )


def growth(games: Sequence[int] = (64, 256, 1024, 4096), repeats: int = 2) -> Comparison:
    """Compare the time a game takes among few with the time it takes among many; 1 is linear, more is better."""
    hall = open_hall()
    scenarios, names = hall.scenarios[: min(games)], ("base", hall.params.train.seller)
    times: dict[int, list[float]] = {count: [] for count in games}
    for repeat in range(repeats):
        for count in games:
            buyer = hall.buyer(TransformersEngine(hall.model, hall.tokenizer), repeat)
            rounds = range(count // len(scenarios))
            times[count].append(seconds(partial(rollout, scenarios, rounds, buyer, hall.seller(), names)))
    per_game = {count: [time / count for time in found] for count, found in times.items()}
    return Comparison(
        what=f"one of {max(games)} games",
        other=f"one of {min(games)} games",
        unit="seconds per game",
        ours=per_game[max(games)],
        others=per_game[min(games)],
        target=1.0,
        sizes={"games": list(games), "repeats": repeats},
        found={"seconds": {str(count): found for count, found in times.items()}},
    )


def per_turn(work: Callable[[], object], games: Sequence[Negotiation], turns: list[float]) -> float:
    """Return the seconds that 1000 buyer turns of this work take, and note the turns of its average game."""
    spent = seconds(work)
    turns.append(buyer_turns(games) / len(games))
    return 1000 * spent / buyer_turns(games)


def _batch(trainer: "GRPOTrainer", group_size: int, turns: list[float]) -> float:
    rows: list[Any] = [row for row in trainer.train_dataset for _ in range(group_size)]
    spent = seconds(lambda: trainer._generate_and_score_completions(rows))
    games = [table.game for table in trainer.environments]
    turns.append(buyer_turns(games) / len(games))
    return 1000 * spent / buyer_turns(games)
