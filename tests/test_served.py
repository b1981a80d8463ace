"""A policy that plays through a server: its adapter goes there at every step, and nothing else is trained on."""

import re
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import PreTrainedTokenizerBase

from dealwright.engines.loading import load_model
from dealwright.files import read_table
from dealwright.profiles import set_params
from dealwright.seats import training_seller
from dealwright.training import served
from dealwright.training.games import TrainingError
from dealwright.training.grpo import BuyerTrainer, make_trainer
from dealwright.training.run import last_checkpoint, train_buyer
from dealwright.training.served import check_server
from stages.train import main
from tests.faulty_server import FaultyServer, Reply, close, fail, say, send
from tests.lora_server import LoraServer
from tests.tiny import buyer_prompts, spoken_parts, tiny_llama, tiny_params, tiny_qwen_moe, tiny_scenarios
from tests.training_process import Silent

ROOT = Path(__file__).parents[1]
SCENARIOS = tiny_scenarios(5)
HTML = send("<html><h1>Welcome</h1></html>", kind="text/html")
Batch = dict[str, Any]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "RETRIES", 0)


@pytest.fixture
def vllm(base_folder: Path) -> LoraServer:
    """What stands in for vLLM."""
    return LoraServer(base_folder)


@pytest.fixture
def http(vllm: LoraServer) -> Iterator[FaultyServer]:
    """The server on loopback behind which it stands."""
    with FaultyServer(vllm) as server:
        yield server


@pytest.fixture
def train(base_folder: Path, http: FaultyServer, tmp_path: Path) -> Callable[..., Path]:
    """Train through the server; a keyword changes the parameters. Returns the work folder, always the same one."""

    def run(**changes: Any) -> Path:
        model, tokenizer = load_model(base_folder)
        sizes = {"learning_rate": 0.05, "lora_rank": 2, "checkpoint_steps": 1, "server": http.base_url}
        params = tiny_params(train={"steps": 3, **sizes, **changes})
        work = tmp_path / "train-0"
        seat = training_seller(params, SCENARIOS, work)
        train_buyer(model, tokenizer, SCENARIOS, buyer_prompts(SCENARIOS), params, work, Silent(), seat)
        return work

    return run


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Batch, float]]:
    """The micro-batches that a loss was computed on, with it."""
    found: list[tuple[Batch, float]] = []
    compute = BuyerTrainer._compute_loss

    def noted(self: BuyerTrainer, model: Any, inputs: Batch) -> torch.Tensor:
        loss = compute(self, model, inputs)
        found.append((inputs, loss.item()))
        return loss

    monkeypatch.setattr(BuyerTrainer, "_compute_loss", noted)
    return found


Train = Callable[..., Path]


def names(vllm: LoraServer) -> list[str]:
    return [name for what, name in vllm.done if what == "load"]


def test_every_step_is_played_with_its_own_adapter_and_the_one_before_is_unloaded(
    train: Train, vllm: LoraServer
) -> None:
    train()
    first, second, third = names(vllm)
    assert [re.sub("-[0-9a-f]{12}$", " and its hash", name) for name in (first, second, third)] == [
        *("step-00001 and its hash", "step-00002 and its hash", "step-00003 and its hash")
    ]
    assert vllm.done == [
        *(("load", first), ("play", first)),
        *(("load", second), ("unload", first), ("play", second)),
        *(("load", third), ("unload", second), ("play", third)),
    ]


def test_the_adapter_of_a_step_is_what_the_step_before_has_learnt(
    train: Train, vllm: LoraServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    came: list[dict[str, torch.Tensor]] = []
    load = LoraServer._load

    def noted(self: LoraServer, body: dict[str, Any]) -> Reply:
        came.append(load_file(f"{body['lora_path']}/adapter_model.safetensors"))
        return load(self, body)

    monkeypatch.setattr(LoraServer, "_load", noted)
    work = train()
    assert all(not weight.any() for name, weight in came[0].items() if "lora_B" in name)
    for step, adapter in enumerate(came[1:], start=1):
        learnt = load_file(work / f"checkpoint-{step}/adapter_model.safetensors")
        assert adapter.keys() == learnt.keys()
        assert all(torch.equal(weight, learnt[name]) for name, weight in adapter.items())
        assert any(weight.any() for name, weight in adapter.items() if "lora_B" in name)


def test_what_is_trained_on_is_what_the_server_sampled(
    train: Train, vllm: LoraServer, base_folder: Path, batches: list[tuple[Batch, float]]
) -> None:
    work = train(steps=1)
    tokenizer = load_model(base_folder)[1]
    games = read_table(work / "games/step-00001.parquet")["messages"]
    said = []
    for batch, _ in batches:
        for at, game in enumerate(batch["row"].tolist()):
            length = int(batch["completion_mask"][at].sum())
            row = (batch[key][at, :length].tolist() for key in ("completion_ids", "tool_mask"))
            spoken = [part.removesuffix("<|end|>") for part in spoken_parts(tokenizer, *row)]
            assert spoken == [message["text"] for message in games[game] if message["role"] == "buyer"]
            said += spoken
    assert sorted(said) == sorted(vllm.said)
    assert len(said) > 16


def test_the_loss_makes_up_for_what_the_server_reckons_otherwise(
    train: Train, vllm: LoraServer, batches: list[tuple[Batch, float]]
) -> None:
    vllm.shift = -0.05
    train(steps=1, micro_batch=8)
    [(batch, loss)] = batches
    own = (batch["completion_mask"] * batch["tool_mask"]).sum(1)
    # Each token weighs its advantage times exp(0.05), over 6 x 96 tokens.
    expected = -1.0513 * (batch["advantages"] * own).sum() / (8 * 6 * 96)
    assert abs(expected) > 1e-4
    assert loss == pytest.approx(expected.item(), rel=0.01)


def test_games_that_another_policy_played_are_not_trained_on(
    train: Train, vllm: LoraServer, batches: list[tuple[Batch, float]]
) -> None:
    vllm.shift = -0.5
    with pytest.raises(TrainingError) as stop:
        train()
    assert str(stop.value) == (
        "step 1: expected log-probabilities within 0.1 of the trainer's from the server, got 0.500 apart on average; "
        "serve the weights of the warm start with --logprobs-mode processed_logprobs (docs/engines.md); no checkpoint "
        "was written yet"
    )
    assert batches == []


@pytest.mark.parametrize(
    ("fault", "came"),
    [
        (fail(500, "out of memory"), "status 500: out of memory"),
        (close, "connection: RemoteProtocolError"),
        (HTML, "not a completion: Invalid JSON: .*"),
    ],
    ids=["a status 500", "a closed connection", "HTML"],
)
def test_a_server_that_fails_within_a_step_stops_the_run_which_goes_on_from_the_step_before(
    fault: Reply, came: str, train: Train, vllm: LoraServer, http: FaultyServer
) -> None:
    vllm.faults = {"step-00002": (9, fault)}
    with pytest.raises(TrainingError) as stop:
        train()
    second = names(vllm)[-1]
    assert re.fullmatch(
        f"step 2: expected an answer from the model '{second}' at {http.base_url}, got {came} \\(1 attempts\\); start "
        "the server of train.server as docs/engines.md says, and run it again; the checkpoint of step 1 is kept",
        str(stop.value),
    )
    vllm.faults = {}
    vllm.done.clear()
    assert last_checkpoint(train()) == 3
    # The server has kept the adapter of the second step, and is handed the same one again.
    assert names(vllm)[0] == second
    assert len(names(vllm)) == 2


def test_an_adapter_that_the_server_does_not_take_stops_the_run(
    train: Train, vllm: LoraServer, http: FaultyServer
) -> None:
    vllm.refusal = fail(500, "LoRA rank 2 is greater than max_lora_rank 1.")
    with pytest.raises(TrainingError) as stop:
        train()
    assert str(stop.value) == (
        f"step 1: expected {http.base_url} to load an adapter, got status 500: LoRA rank 2 is greater than "
        "max_lora_rank 1. (1 attempts); start the server of train.server as docs/engines.md says, and run it again; "
        "no checkpoint was written yet"
    )


def test_a_server_that_was_started_anew_between_steps_is_handed_the_next_adapter(
    train: Train, vllm: LoraServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = LoraServer._load

    def forgetful(self: LoraServer, body: dict[str, Any]) -> Reply:
        self.adapters.clear()
        return load(self, body)

    monkeypatch.setattr(LoraServer, "_load", forgetful)
    assert last_checkpoint(train()) == 3
    assert len(names(vllm)) == 3


def test_the_work_folder_has_one_adapter_and_no_half_of_one(train: Train) -> None:
    work = train()
    assert sorted(file.name for file in work.iterdir() if file.is_dir()) == [
        *("adapter", "checkpoint-1", "checkpoint-2", "checkpoint-3", "curve", "games")
    ]
    assert {"adapter_config.json", "adapter_model.safetensors"} <= {file.name for file in (work / "adapter").iterdir()}


@pytest.mark.parametrize(
    ("kind", "layers"),
    [
        (tiny_llama, ["down_proj", "gate_proj", "k_proj", "o_proj", "q_proj", "up_proj", "v_proj"]),
        (tiny_qwen_moe, ["k_proj", "o_proj", "q_proj", "v_proj"]),
    ],
    ids=["dense", "experts"],
)
def test_an_adapter_for_a_server_is_of_linear_layers_alone(
    kind: Callable[..., Any], layers: list[str], tokenizer: PreTrainedTokenizerBase, tmp_path: Path
) -> None:
    params = tiny_params(train={"lora_rank": 2, "server": "http://127.0.0.1:9/v1"})
    seat = training_seller(params, SCENARIOS, tmp_path)
    prompts, model = buyer_prompts(SCENARIOS), kind(tokenizer)
    trainer = make_trainer(model, tokenizer, SCENARIOS, prompts, params, tmp_path, lambda *_: None, seat)
    trained = [name for name, weight in trainer.model.named_parameters() if weight.requires_grad]
    assert sorted({name.split(".")[-4] for name in trained}) == layers
    assert all(".lora_" in name for name in trained)


def test_a_server_is_known_by_how_it_refuses_an_adapter_that_it_never_had(http: FaultyServer) -> None:
    check_server(http.base_url)
    assert http.bodies == [{"lora_name": "dealwright-nobody"}]


NO_ADAPTERS = send('{"detail": "Not Found"}', status=404)


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (NO_ADAPTERS, "{} refused the adapter with status 404: Error code: 404; start the server"),
        (HTML, "expected {} to unload an adapter, got another answer: <html><h1>Welcome</h1></html> (1 attempts)"),
        (say("Hello"), "expected {} to unload an adapter, got another answer: "),
        (fail(401, "no key"), "{} refused the adapter with status 401: no key; start the server"),
        (fail(401, "no key for dealwright-nobody"), "{} refused the adapter with status 401: no key for"),
        (fail(503, "dealwright-nobody?"), "expected {} to unload an adapter, got status 503: dealwright-nobody?"),
        (fail(500), "expected {} to unload an adapter, got status 500: sorry (1 attempts); start the server"),
    ],
    ids=["no adapters", "HTML", "a completion", "a key is wanted", "the same by name", "busy by name", "a status 500"],
)
def test_a_server_that_takes_no_adapters_is_found_out_before_a_model_is_loaded(reply: Reply, message: str) -> None:
    with FaultyServer(reply) as server:
        with pytest.raises(TrainingError) as stop:
            check_server(server.base_url)
        assert str(stop.value).startswith(f"train.server: {message.format(server.base_url)}")


def test_the_stage_finds_out_that_nobody_listens_before_it_reads_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "params.yaml", tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but not listening
        address = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        set_params({"train.lora_rank": 2, "train.server": address}, tmp_path / "params.yaml", "the test")
        with pytest.raises(TrainingError) as stop:
            main()
    assert str(stop.value) == (
        f"train.server: expected {address} to unload an adapter, got connection: ConnectError (1 attempts); start the "
        "server of train.server as docs/engines.md says, and run it again"
    )
