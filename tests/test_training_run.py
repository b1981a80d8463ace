"""A whole training run: killed and resumed, published, stopped with a reason."""

import csv
import json
import math
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from trl import GRPOTrainer

from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.engines.loading import load_model
from dealwright.errors import DealwrightError
from dealwright.game import reward
from dealwright.seats import training_seller
from dealwright.training import grpo
from dealwright.training.games import TrainingError
from dealwright.training.grpo import BuyerTrainer
from dealwright.training.run import CURVE, MARK, last_checkpoint, publish, train_buyer, work_folder
from tests.disk import full_disk
from tests.faulty_server import FaultyServer, say
from tests.tiny import ScriptedEngine, buyer_prompts, tiny_params, tiny_scenarios

SCENARIOS = tiny_scenarios(5)
Metrics = dict[str, float | None]


class Moody(ScriptedEngine):
    """A scripted buyer whose offers hang on the seed of the call and on every weight, as a policy's do."""

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        with torch.no_grad():
            total = sum(weight.double().abs().sum().item() for weight in self.model.parameters())
        self.draw = Random(f"{sampling.seed} {total!r}")
        return super().generate(conversations, sampling)

    def message(self, at: int, conversation: Conversation) -> str:
        return super().message(self.draw.randrange(8), conversation)


class Quitter(ScriptedEngine):
    """Walks away at once."""

    def message(self, at: int, conversation: Conversation) -> str:
        return "Talk: No.\nAction: [QUIT]"


class Babbler(ScriptedEngine):
    """Breaks the rules at once."""

    def message(self, at: int, conversation: Conversation) -> str:
        return "lamp lamp lamp"


class Log:
    """Keeps the metrics of each step; a step may be a bad one."""

    def __init__(self, at: int | None = None) -> None:
        self.steps: dict[int, Metrics] = {}
        self.at = at

    def log_step(self, step: int, metrics: Metrics) -> None:
        self.steps[step] = metrics
        if step == self.at:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpo, "TransformersEngine", Moody)


@pytest.fixture(scope="module")
def base(base_folder: Path) -> Path:
    return base_folder


def train(base: Path, work: Path, log: Log | None = None, **changes: Any) -> Log:
    """Train from the base in a work folder."""
    log = log or Log()
    model, tokenizer = load_model(base)
    params = tiny_params(train={"learning_rate": 0.01, **changes})
    seat = training_seller(params, SCENARIOS, work)
    train_buyer(model, tokenizer, SCENARIOS, buyer_prompts(SCENARIOS), params, work, log, seat)
    return log


@pytest.fixture(scope="module")
def finished(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Log]]:
    """The work folder of an uninterrupted run of four steps, with checkpoints at the second and the last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grpo, "TransformersEngine", Moody)
        work = tmp_path_factory.mktemp("run") / "train-0"
        yield work, train(base, work)


def final_weights(work: Path, step: int = 4) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = load_file(work / f"checkpoint-{step}" / "model.safetensors")
    return found


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def test_a_killed_run_goes_on_to_the_same_weights_games_and_curve(
    base: Path, finished: tuple[Path, Log], tmp_path: Path
) -> None:
    work = tmp_path / "train-0"
    with pytest.raises(KeyboardInterrupt):
        train(base, work, Log(at=3))
    assert last_checkpoint(work) == 2
    assert (work / "games" / "step-00003.parquet").exists()
    log = train(base, work)
    assert sorted(log.steps) == [3, 4]
    whole, whole_log = finished
    assert not same(final_weights(whole, 2), final_weights(whole, 4))
    assert same(final_weights(work), final_weights(whole))
    assert contents(work / "games") == contents(whole / "games")
    assert contents(work / "curve") == contents(whole / "curve")
    assert log.steps[4] == whole_log.steps[4]


def test_a_language_model_sells_in_training_and_after_a_kill_is_asked_nothing_twice(
    base: Path, tmp_path: Path
) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    with FaultyServer(say("Talk: No.\nAction: [REJECT]", 100, 10)) as server:
        engine = {"kind": "openai", "model": "m", "address": server.base_url}
        train(base, whole, engine=engine)
        asked = len(server.bodies)
        with pytest.raises(KeyboardInterrupt):
            train(base, killed, Log(at=3), engine=engine)
        train(base, killed, engine=engine)
        assert len(server.bodies) == 2 * asked
    games = pl.read_parquet(whole / "games/*.parquet")
    assert games["seller"].unique().to_list() == ["engine"]
    assert games["messages"].len() == 32
    assert asked == games["turns"].sum()
    assert contents(killed / "games") == contents(whole / "games")


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(
    base: Path, finished: tuple[Path, Log], tmp_path: Path
) -> None:
    train(base, tmp_path / "again")
    train(base, tmp_path / "other", seed=1)
    assert same(final_weights(tmp_path / "again"), final_weights(finished[0]))
    assert not same(final_weights(tmp_path / "other"), final_weights(finished[0]))


def test_a_half_written_checkpoint_is_never_resumed_from(
    base: Path, finished: tuple[Path, Log], tmp_path: Path
) -> None:
    work = tmp_path / "train-0"
    shutil.copytree(finished[0], work)
    (work / "checkpoint-4" / MARK).unlink()
    (work / "checkpoint-4" / "model.safetensors").write_bytes(b"half")
    (work / "checkpoint-3").mkdir()
    assert last_checkpoint(work) == 2
    assert sorted(train(base, work).steps) == [3, 4]
    assert same(final_weights(work), final_weights(finished[0]))
    assert not (work / "checkpoint-3").exists()


def test_a_finished_run_is_not_trained_again(base: Path, finished: tuple[Path, Log]) -> None:
    before = contents(finished[0])
    assert train(base, finished[0]).steps == {}
    assert contents(finished[0]) == before


def published(work: Path, base: Path, place: Path) -> tuple[Path, Path, Path]:
    places = place / "models" / "checkpoints", place / "training.parquet", place / "training.csv"
    publish(work, load_model(base)[1], *places)
    return places


def test_publishing_leaves_weights_and_the_tokenizer_and_no_work_folder(
    base: Path, finished: tuple[Path, Log], tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    work = tmp_path / "work" / "train-0"
    shutil.copytree(finished[0], work)
    checkpoints, games, curve = published(work, base, tmp_path)
    assert sorted(folder.name for folder in checkpoints.iterdir()) == ["step-0002", "step-0004"]
    for folder in checkpoints.iterdir():
        assert sorted(file.name for file in folder.iterdir()) == [
            *("chat_template.jinja", "config.json", "generation_config.json", "model.safetensors"),
            *("tokenizer.json", "tokenizer_config.json"),
        ]
        assert AutoTokenizer.from_pretrained(str(folder)).chat_template == tokenizer.chat_template
        model, loaded = load_model(folder)
        assert same(dict(model.state_dict()), final_weights_with_head(finished[0], int(folder.name[-4:])))
        assert loaded.get_vocab() == tokenizer.get_vocab()
    assert list((tmp_path / "work").iterdir()) == []
    played = pl.read_parquet(games)
    assert played["checkpoint"].to_list() == [step for step in range(4) for _ in range(8)]
    assert played.group_by("checkpoint", "scenario_id", "round").len()["len"].unique().to_list() == [4]
    with curve.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == list(CURVE)
    assert [int(line["step"]) for line in lines] == [1, 2, 3, 4]
    for line, (step, games_of_step) in zip(lines, played.group_by("checkpoint", maintain_order=True), strict=True):
        assert float(line["reward"]) == pytest.approx(games_of_step["reward"].mean())
        assert float(line["learning_rate"]) == pytest.approx(0.01 * (4 - step[0]) / 4)
        assert float(line["entropy"]) > 0 and 0 <= float(line["flat_groups"]) <= 1


def final_weights_with_head(work: Path, step: int) -> dict[str, torch.Tensor]:
    found = final_weights(work, step)
    return found | {"lm_head.weight": found["model.embed_tokens.weight"]}


def test_publishing_replaces_what_was_there_and_a_killed_one_can_be_done_again(
    base: Path, finished: tuple[Path, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work" / "train-0"
    shutil.copytree(finished[0], work)
    old = tmp_path / "models" / "checkpoints" / "step-0099"
    old.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr("dealwright.training.run.write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            published(work, base, tmp_path)
    train(base, work)
    checkpoints, *_ = published(work, base, tmp_path)
    assert sorted(folder.name for folder in checkpoints.iterdir()) == ["step-0002", "step-0004"]


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_work_folder_half_removed_is_not_taken_for_a_whole_run(
    base: Path, finished: tuple[Path, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work" / "train-0"
    shutil.copytree(finished[0], work)
    with monkeypatch.context() as patch:
        patch.setattr("dealwright.training.run.shutil.rmtree", remove_some)
        with pytest.raises(KeyboardInterrupt):
            published(work, base, tmp_path)
    assert last_checkpoint(work) == 0


def remove_some(path: Path, ignore_errors: bool = False) -> None:
    if path.name == "train-0":
        (path / "checkpoint-4" / "model.safetensors").unlink()
        raise KeyboardInterrupt


def test_changed_parameters_or_inputs_make_another_work_folder(base: Path, tmp_path: Path) -> None:
    model = tmp_path / "warmstart"
    shutil.copytree(base, model)
    table = tmp_path / "scenarios.parquet"
    table.write_bytes(b"table")
    folders = {work_folder(tmp_path, tiny_params(), [model, table])}
    assert folders == {work_folder(tmp_path, tiny_params(select={"rounds": 3}), [model, table])}
    folders.add(work_folder(tmp_path, tiny_params(train={"seed": 1}), [model, table]))
    folders.add(work_folder(tmp_path, tiny_params(train={"lora_rank": 2}), [model, table]))
    one, moved = (
        work_folder(tmp_path, tiny_params(train={"lora_rank": 2, "server": f"http://{host}/v1"}), [model, table])
        for host in ("one", "other")
    )
    assert one == moved
    folders.add(one)
    folders.add(work_folder(tmp_path, tiny_params(game={"max_turns": 5}), [model, table]))
    folders.add(work_folder(tmp_path, tiny_params(prompts={"buyer": "full"}), [model, table]))
    table.write_bytes(b"other")
    folders.add(work_folder(tmp_path, tiny_params(), [model, table]))
    table.write_bytes(b"table")
    (model / "config.json").rename(model / "confic.json")
    folders.add(work_folder(tmp_path, tiny_params(), [model, table]))
    assert len(folders) == 8
    assert {folder.parent for folder in folders} == {tmp_path}


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        (Babbler, "100% of the games are invalid, 0% given up although a deal was there"),
        (Quitter, "0% of the games are invalid, 100% given up although a deal was there"),
    ],
)
def test_a_collapsed_policy_stops_the_run_and_keeps_the_last_checkpoint(
    engine: type, message: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpo, "TransformersEngine", engine)
    work = tmp_path / "train-0"
    log = Log()
    with pytest.raises(TrainingError) as stop:
        train(base, work, log, steps=6)
    assert str(stop.value) == (
        f"step 3: the policy has collapsed: {message}, more than half for 3 steps; lower train.learning_rate or raise "
        "train.kl; the checkpoint of step 2 is kept"
    )
    assert sorted(log.steps) == [1, 2, 3]
    assert last_checkpoint(work) == 2


def test_the_steps_before_a_kill_count_towards_a_collapse(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpo, "TransformersEngine", Quitter)
    work = tmp_path / "train-0"
    with pytest.raises(KeyboardInterrupt):
        train(base, work, Log(at=2), steps=6, checkpoint_steps=1)
    assert last_checkpoint(work) == 1
    log = Log()
    with pytest.raises(TrainingError, match=r"^step 3: the policy has collapsed"):
        train(base, work, log, steps=6, checkpoint_steps=1)
    assert sorted(log.steps) == [2, 3]


def test_a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compute = GRPOTrainer._compute_loss

    def poisoned(self: BuyerTrainer, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss: torch.Tensor = compute(self, model, inputs)
        return loss * math.nan if self.state.global_step == 2 else loss

    monkeypatch.setattr(GRPOTrainer, "_compute_loss", poisoned)
    work = tmp_path / "train-0"
    with pytest.raises(TrainingError, match=r"^step 3: the loss is nan, .* over s\d.*; the checkpoint of step 2 is"):
        train(base, work)
    assert last_checkpoint(work) == 2
    monkeypatch.setattr(GRPOTrainer, "_compute_loss", compute)
    assert sorted(train(base, work).steps) == [3, 4]


def test_a_gradient_that_is_no_number_is_not_hidden_and_its_weights_are_not_kept(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = BuyerTrainer._clip_grad_norm

    def poisoned(self: BuyerTrainer, model: Any) -> Any:
        if self.state.global_step == 1:
            next(iter(model.parameters())).grad[0] = math.nan
        return clip(self, model)

    monkeypatch.setattr(BuyerTrainer, "_clip_grad_norm", poisoned)
    work = tmp_path / "train-0"
    with pytest.raises(TrainingError, match=r"^step 2: grad_norm is nan, .*; no checkpoint was written yet$"):
        train(base, work)
    assert list(work.glob("checkpoint-*")) == []


def test_a_full_disk_while_a_checkpoint_is_written_leaves_the_one_before_whole(
    base: Path, finished: tuple[Path, Log], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = BuyerTrainer._save_optimizer_and_scheduler

    def full(self: BuyerTrainer, folder: str) -> None:
        if self.state.global_step == 4:
            raise OSError(28, "No space left on device")
        save(self, folder)

    work = tmp_path / "train-0"
    with monkeypatch.context() as patch:
        patch.setattr(BuyerTrainer, "_save_optimizer_and_scheduler", full)
        with pytest.raises(TrainingError) as stop:
            train(base, work)
    assert str(stop.value) == (
        "step 4: the checkpoint cannot be written: [Errno 28] No space left on device; make room and run it again; "
        "the checkpoint of step 2 is kept"
    )
    assert (work / "checkpoint-4" / "model.safetensors").exists()
    assert last_checkpoint(work) == 2
    train(base, work)
    assert same(final_weights(work), final_weights(finished[0]))


@pytest.mark.parametrize(
    ("room", "file"),
    [(500, "config.json"), (4_000, "model.safetensors"), (40_000, "tokenizer.json"), (50_000, "optimizer.pt")],
)
def test_whatever_file_of_a_checkpoint_the_disk_has_no_room_for_the_run_says_so(
    room: int,
    file: str,
    finished: tuple[Path, Log],
    base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes = {place.name: place.stat().st_size for place in (finished[0] / "checkpoint-4").iterdir()}
    assert sizes[file] > room
    save = GRPOTrainer._save_checkpoint

    def full(self: BuyerTrainer, model: Any, trial: Any) -> None:
        with full_disk(room if self.state.global_step == 4 else 10**9):
            save(self, model, trial)

    work = tmp_path / "train-0"
    monkeypatch.setattr(GRPOTrainer, "_save_checkpoint", full)
    with pytest.raises(TrainingError) as stop:
        train(base, work)
    assert re.fullmatch(
        r"step 4: the checkpoint cannot be written: .+; make room and run it again; the checkpoint of step 2 is kept",
        str(stop.value),
    )
    assert last_checkpoint(work) == 2


def test_a_reward_that_is_no_number_names_its_game_and_keeps_the_last_checkpoint(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "train-0"
    monkeypatch.setattr(
        "dealwright.training.games.reward", lambda *game: math.nan if last_checkpoint(work) == 2 else reward(*game)
    )
    with pytest.raises(
        TrainingError, match=r"^step 3: the reward is nan, .* in a game over s\d; .* of step 2 is kept$"
    ):
        train(base, work)
    assert last_checkpoint(work) == 2


def test_a_disk_without_room_for_the_published_tokenizer_leaves_what_was_there(
    base: Path, finished: tuple[Path, Log], tmp_path: Path
) -> None:
    work = tmp_path / "work" / "train-0"
    shutil.copytree(finished[0], work)
    old = tmp_path / "models" / "checkpoints" / "step-0099"
    old.mkdir(parents=True)
    with full_disk(40_000), pytest.raises(DealwrightError, match=r"^cannot write .*step-0002: File too large"):
        published(work, base, tmp_path)
    assert [folder.name for folder in old.parent.iterdir()] == ["step-0099"]
    assert last_checkpoint(work) == 4


def test_every_step_s_metrics_are_kept_and_finite(finished: tuple[Path, Log]) -> None:
    work, log = finished
    assert sorted(log.steps) == [1, 2, 3, 4]
    for step, metrics in log.steps.items():
        assert list(metrics) == list(CURVE)
        assert all(value is not None and math.isfinite(value) for value in metrics.values())
        assert json.loads((work / "curve" / f"step-{step:05d}.json").read_text()) == metrics


def test_an_adapter_s_checkpoints_load_over_their_base(base: Path, tmp_path: Path) -> None:
    from dealwright.engines.transformers import TransformersEngine

    work = tmp_path / "work" / "train-0"
    train(base, work, lora_rank=2, steps=2)
    checkpoints, *_ = published(work, base, tmp_path)
    folder = checkpoints / "step-0002"
    assert (folder / "adapter_model.safetensors").is_file() and not list(folder.glob("*.bin"))
    said = TransformersEngine.from_folder(folder).generate(
        [[{"role": "user", "content": "Begin."}]], Sampling(0.0, 3, 0)
    )
    assert len(said[0].token_ids) == 3
