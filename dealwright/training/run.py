"""A training run that can be killed at any moment and goes on where it last stood whole.

It works in a folder named by a hash of everything that shapes it, so changed parameters start afresh. A checkpoint
counts once its mark is written, after everything else in it.
"""

import csv
import hashlib
import io
import json
import math
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl
from transformers import TrainerCallback

from dealwright.agents import Agent
from dealwright.checkpoints import checkpoint_name
from dealwright.engines.loading import save_tokenizer
from dealwright.evaluation.metrics import means
from dealwright.files import read_json, replacing_folder, write_parquet, write_text
from dealwright.game import Scenario, Zone
from dealwright.params import Params
from dealwright.rollout import Episode, episodes_frame
from dealwright.training.games import TrainingError
from dealwright.training.grpo import make_trainer
from dealwright.training.processes import ALONE, Processes, is_lost

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, TrainerControl, TrainerState, TrainingArguments

MARK = "complete"
WEIGHTS = ("config.json", "generation_config.json", "adapter_config.json", "*.safetensors", "*.safetensors.index.json")
PATIENCE = 3  # steps in a row that may be mostly invalid, or mostly given up
CURVE = (
    *("step", "reward", "reward_std", "deal_rate", "overshoot_rate", "invalid_rate", "quit_rate", "max_turns_rate"),
    *("first_offer_ratio", "bargained_ratio", "argument_rate", "mean_turns"),
    *("entropy", "flat_groups", "loss", "grad_norm", "learning_rate"),
)
# TRL's name of what the trainer itself measures.
_LOGGED = {
    "reward_std": "reward_std",
    "entropy": "entropy",
    "flat_groups": "frac_reward_zero_std",
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}


class StepLog(Protocol):
    """Takes the metrics of each step as it ends."""

    def log_step(self, step: int, metrics: dict[str, float | None]) -> None:
        """Log one step."""
        ...


def work_folder(root: Path, params: Params, inputs: Sequence[Path]) -> Path:
    """Return the folder of the run that these parameters and input files make, whichever server it plays through."""
    shaping = params.model_dump(mode="json", include={"prompts", "game", "train"}, exclude={"train": {"server"}})
    if params.train.server is not None:
        shaping["served"] = True
    digest = hashlib.sha256(json.dumps(shaping, sort_keys=True).encode())
    for path in inputs:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            content = file.read_bytes() if file.is_file() else b""
            digest.update(f"{file.relative_to(path)} {len(content)} ".encode() + content)
    return root / f"train-{digest.hexdigest()[:16]}"


def train_buyer(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    scenarios: Sequence[Scenario],
    prompts: dict[str, str],
    params: Params,
    work: Path,
    log: StepLog,
    seat: Callable[[int], Agent],
    processes: Processes = ALONE,
) -> None:
    """Train in a work folder, from its last whole checkpoint where there is one.

    `seat` returns the seller of a step by its seed.
    Raises TrainingError when the policy collapses, or a reward or a loss is no number, or another process has ended.
    """
    step = processes.agree(last_checkpoint(work))
    if processes.first:
        _forget_after(work, step)
    if step == params.train.steps:
        return
    keeper = _Keeper(work, log, processes)
    trainer = make_trainer(model, tokenizer, scenarios, prompts, params, work, keeper.keep, seat, processes.count)
    trainer.add_callback(keeper)
    try:
        trainer.train(resume_from_checkpoint=str(work / f"checkpoint-{step}") if step else None)
    except TrainingError as error:
        raise TrainingError(f"{error}; {_kept(work)}") from None
    except (RuntimeError, SystemExit) as error:
        if processes.count == 1 or not is_lost(error):
            raise
        raise TrainingError(
            f"process {processes.index} of {processes.count} stops, because another one has ended: see what that one "
            f"said, and start all of them again; {_kept(work)}"
        ) from error


def _kept(work: Path) -> str:
    whole = last_checkpoint(work)
    return f"the checkpoint of step {whole} is kept" if whole else "no checkpoint was written yet"


def publish(work: Path, tokenizer: "PreTrainedTokenizerBase", checkpoints: Path, games: Path, curve: Path) -> None:
    """Copy weights, tokenizer, games and curve of a finished run to their places, and remove the work folder."""
    marks = sorted(work.glob(f"checkpoint-*/{MARK}"), key=lambda mark: _step(mark.parent))
    with replacing_folder(checkpoints) as beside:
        for mark in marks:
            target = beside / checkpoint_name(_step(mark.parent))
            target.mkdir()
            for pattern in WEIGHTS:
                for file in mark.parent.glob(pattern):
                    shutil.copy2(file, target)
            save_tokenizer(tokenizer, target)
    write_parquet(games, pl.concat([pl.read_parquet(file) for file in sorted((work / "games").glob("*.parquet"))]))
    text = io.StringIO()
    writer = csv.DictWriter(text, CURVE, lineterminator="\n")
    writer.writeheader()
    writer.writerows(read_json(file) for file in sorted((work / "curve").glob("*.json")))
    write_text(curve, text.getvalue())
    for mark in reversed(marks):  # first of all, so that what a kill leaves behind is never taken for whole
        mark.unlink()
    shutil.rmtree(work)


def last_checkpoint(work: Path) -> int:
    """Return the step of the last whole checkpoint, or 0."""
    return max((_step(mark.parent) for mark in work.glob(f"checkpoint-*/{MARK}")), default=0)


def _step(path: Path) -> int:
    return int(path.stem.rsplit("-", 1)[1])


def _forget_after(work: Path, step: int) -> None:
    """Remove what a killed run left behind its last whole checkpoint."""
    for folder in work.glob("checkpoint-*"):
        if not (folder / MARK).exists():
            shutil.rmtree(folder)
    for file in [*work.glob("games/step-*"), *work.glob("curve/step-*")]:
        if _step(file) > step:
            file.unlink()


class _Keeper(TrainerCallback):
    """Writes each step's games and metrics, marks whole checkpoints, and stops a run that has collapsed."""

    def __init__(self, work: Path, log: StepLog, processes: Processes) -> None:
        self.work = work
        self.log = log
        self.processes = processes
        self.games: dict[int, pl.DataFrame] = {}

    def keep(self, step: int, episodes: list[Episode]) -> None:
        """Take the episodes of a step from the rollout; the first process alone writes them."""
        if self.processes.first:
            self.games[step] = episodes_frame(episodes)

    def on_log(
        self,
        args: "TrainingArguments",
        state: "TrainerState",
        control: "TrainerControl",
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a step's games and metrics once the trainer has measured it."""
        step = state.global_step
        if logs is None or "loss" not in logs or step not in self.games:
            return
        games = self.games.pop(step)
        for key in ("loss", "grad_norm"):
            if not math.isfinite(logs[key]):
                ids = ", ".join(games["scenario_id"].unique(maintain_order=True)[:3])
                raise TrainingError(
                    f"step {step}: {key} is {logs[key]}, expected a finite number, in games over {ids} and others; "
                    "lower train.learning_rate"
                )
        rates = means(games)
        if "reward" not in rates:
            raise TrainingError(f"step {step}: the seller failed in every game; see its backend's log")
        row = {key: logs.get(_LOGGED[key]) if key in _LOGGED else rates.get(key) for key in CURVE} | {"step": step}
        write_parquet(_games_file(self.work, step), games)
        write_text(self.work / "curve" / f"step-{step:05d}.json", json.dumps(row, allow_nan=False))
        self.log.log_step(step, row)
        first_offer = f"{rates['first_offer_ratio']:.2f}" if "first_offer_ratio" in rates else "none"
        print(
            f"step {step}/{state.max_steps}  reward {rates['reward']:+.3f}  deals {rates['deal_rate']:.0%}  "
            f"first offer {first_offer}  arguments {rates['argument_rate']:.0%}",
            flush=True,
        )
        self._check(step)

    def on_save(
        self, args: "TrainingArguments", state: "TrainerState", control: "TrainerControl", **kwargs: Any
    ) -> None:
        """Mark the checkpoint just written as whole, once every process has written its part."""
        self.processes.wait()
        if self.processes.first:
            write_text(self.work / f"checkpoint-{state.global_step}" / MARK, "")

    def _check(self, step: int) -> None:
        # From the files, so that a run that was killed and goes on counts the steps before too.
        files = [_games_file(self.work, at) for at in range(step, step - PATIENCE, -1)]
        if all(file.exists() and max(_broken(pl.read_parquet(file))) > 0.5 for file in files):
            invalid, quits = _broken(pl.read_parquet(files[0]))
            raise TrainingError(
                f"step {step}: the policy has collapsed: {invalid:.0%} of the games are invalid, {quits:.0%} given up "
                f"although a deal was there, more than half for {PATIENCE} steps; lower train.learning_rate or raise "
                "train.kl"
            )


def _games_file(work: Path, step: int) -> Path:
    return work / "games" / f"step-{step:05d}.parquet"


def _broken(games: pl.DataFrame) -> tuple[float, float]:
    """Return the share of a step's games that are invalid, and of those with a zone that the buyer gave up."""
    mutual = games.filter(pl.col("zone") == Zone.MUTUAL)
    return means(games)["invalid_rate"], means(mutual).get("quit_rate", 0.0) if len(mutual) else 0.0
