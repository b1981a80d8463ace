"""vLLM itself, as a server on loopback and inside a process, with this project's base model: `make vllm`."""

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import torch

from dealwright.agents import conversation_of
from dealwright.agents.language_model import CUT_OFF
from dealwright.engines.base import Sampling
from dealwright.engines.loading import load_model
from dealwright.engines.openai_server import OpenaiEngine
from dealwright.engines.transformers import TransformersEngine
from dealwright.files import read_json, read_table
from dealwright.game import Negotiation, Role
from dealwright.prompts import opening_buyer
from dealwright.rollout import Episode
from dealwright.seats import training_seller
from dealwright.training.grpo import BuyerTrainer
from dealwright.training.run import train_buyer
from dealwright.training.served import check_server
from tests.evaluating import configure, enter_project, evaluation, prepare_evaluation, small_tables
from tests.servers import free_ports
from tests.test_engines_agree import BASE, played
from tests.tiny import buyer_prompts, spoken_parts, tiny_params, tiny_scenarios
from tests.training_process import Silent

pytestmark = pytest.mark.vllm

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-vllm/bin/python"
START = 600  # seconds; no test measures them
GREEDY = Sampling(0.0, 96, 0)
# A gigabyte for keys and values; threads are left where the machine puts them.
SMALL = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "PYTHONPATH": str(ROOT)}
ADAPTERS = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True"}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server of the base model, which takes adapters, and yield its address."""
    assert PYTHON.exists(), "vLLM's environment is missing: run `make vllm`"
    [port] = free_ports(1)
    log = tmp_path_factory.mktemp("vllm") / "server.log"
    command = [str(PYTHON), "-m", "vllm.entrypoints.openai.api_server", "--model", str(BASE), "--host", "127.0.0.1"]
    command += ["--served-model-name", "base", "--port", port, "--enforce-eager", "--dtype", "float32"]
    # Where the CPU build reads a prompt in pieces, a request with a seed ends the server.
    command += ["--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048"]
    command += ["--enable-lora", "--max-lora-rank", "8", "--logprobs-mode", "processed_logprobs"]
    with log.open("w") as file:
        process = subprocess.Popen(command, env={**os.environ, **SMALL, **ADAPTERS}, stdout=file, stderr=file)
        try:
            _wait(f"http://127.0.0.1:{port}/health", process, log)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait()


def _wait(health: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text()[-4000:]
        try:
            with urllib.request.urlopen(health, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-4000:])


@pytest.fixture(scope="module")
def here() -> list[Episode]:
    """The games as transformers plays them."""
    return played(TransformersEngine.from_folder(BASE))


def test_a_vllm_server_says_what_transformers_says(address: str, here: list[Episode]) -> None:
    there = played(OpenaiEngine("base", address, retries=0, vllm=True))
    assert [episode.messages for episode in there] == [episode.messages for episode in here]
    assert [episode.outcome for episode in there] == [episode.outcome for episode in here]
    assert [episode.tokens for episode in there] == [episode.tokens for episode in here]
    assert max(episode.outcome.turns for episode in here) > 1


def test_the_buyer_trains_on_what_a_vllm_server_sampled_with_the_adapter_of_each_step(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: dict[int, list[dict[str, Any]]] = {}
    compute = BuyerTrainer._compute_loss

    def noted(self: BuyerTrainer, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        batches.setdefault(self.state.global_step + 1, []).append(inputs)
        return compute(self, model, inputs)

    monkeypatch.setattr(BuyerTrainer, "_compute_loss", noted)
    scenarios = tiny_scenarios(4)
    sizes = {"steps": 2, "products": 2, "group_size": 4, "micro_batch": 4, "checkpoint_steps": 1, "hold": 0.2}
    params = tiny_params(train={**sizes, "learning_rate": 0.02, "temperature": 0.9, "lora_rank": 8, "server": address})
    model, tokenizer = load_model(BASE)
    seat = training_seller(params, scenarios, tmp_path)
    check_server(address)
    train_buyer(model, tokenizer, scenarios, buyer_prompts(scenarios), params, tmp_path, Silent(), seat)
    with urllib.request.urlopen(f"{address}/models", timeout=60) as answer:
        base, adapter = [model["id"] for model in json.load(answer)["data"]]
    assert (base, adapter[:11]) == ("base", "step-00002-")
    before, after = load_model(BASE)[0], load_model(tmp_path / "checkpoint-1")[0]
    for step, policy in ((1, before), (2, after)):
        games = read_table(tmp_path / f"games/step-{step:05d}.parquet")["messages"]
        for batch in batches[step]:
            for at, game in enumerate(batch["row"].tolist()):
                said = [message["text"] for message in games[game] if message["role"] == "buyer"]
                length = int(batch["completion_mask"][at].sum())
                row = (batch[key][at, :length].tolist() for key in ("completion_ids", "tool_mask"))
                assert [part.removesuffix("<|end|>") for part in spoken_parts(tokenizer, *row)] == [
                    text.removesuffix(CUT_OFF) for text in said
                ]
            assert apart(policy, batch) < 1e-3
    assert max(apart(before, batch) for batch in batches[2]) > 0.1
    assert load_model(tmp_path / "checkpoint-2")[0].peft_config["default"].r == 8


@torch.no_grad()
def apart(policy: Any, batch: dict[str, Any]) -> float:
    """Return the most by which the log-probability of a sampled token differs between a server and a policy here."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    width = batch["completion_ids"].shape[1]
    logits = policy(input_ids=ids, attention_mask=mask).logits[:, -width - 1 : -1] / 0.9
    logprobs = logits.log_softmax(-1).gather(2, batch["completion_ids"][..., None])[..., 0]
    own = (batch["tool_mask"] * batch["completion_mask"]).bool()
    most = (logprobs - batch["sampled_logprobs"])[own].abs().max().item()
    print(f"at most {most:.1e} apart over {int(own.sum())} tokens")
    return float(most)


def test_vllm_inside_a_process_says_what_transformers_says(here: list[Episode], tmp_path: Path) -> None:
    prompts = buyer_prompts([episode.scenario for episode in here])
    conversations, said = [], []
    for episode in here:
        game = Negotiation(episode.scenario)
        for role, text in episode.messages:
            if role == Role.BUYER:
                prompt = prompts[episode.scenario.id]
                conversations.append(conversation_of(game, Role.BUYER, prompt, opening_buyer("brief")))
                said.append(text)
            game.play(Role(role), text)
    asked, answered = tmp_path / "asked.json", tmp_path / "answered.json"
    asked.write_text(json.dumps(conversations))
    command = [str(PYTHON), "-m", "tests.vllm_answers", str(BASE), str(asked), str(answered)]
    finished = subprocess.run(command, env={**os.environ, **SMALL}, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr[-4000:]
    completions = json.loads(answered.read_text())
    assert [completion["text"] for completion in completions] == said
    assert {completion["finish_reason"] for completion in completions} == {"stop"}
    ours = TransformersEngine.from_folder(BASE).generate(conversations, GREEDY)
    for completion, own in zip(completions, ours, strict=True):
        assert tuple(completion["prompt_ids"]) == own.prompt_ids
        assert tuple(completion["token_ids"]) == own.token_ids
        assert completion["logprobs"] == pytest.approx(own.logprobs, abs=1e-3)


@pytest.fixture
def sold_by(base_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A check that an engine sells in an evaluation and that the regulator holds it to the rules."""
    tables = small_tables(tmp_path / "tables")
    (tmp_path / "project").mkdir()
    enter_project(tables, tmp_path / "project", monkeypatch)
    prepare_evaluation(base_folder)

    def check(engine: dict[str, Any], *surroundings: Any) -> None:
        configure({"own": {**engine, "message_tokens": 48}}, sellers=["training", "own"], rounds=1)
        process = evaluation(*surroundings)
        _, said = process.communicate(timeout=START)
        assert process.returncode == 0, said[-4000:]
        games = read_table("data/rollouts/evaluation.parquet", pl.col("seller") == "own")
        assert (games["buyer"].n_unique(), len(games)) == (9, 36)
        assert games.filter(pl.col("price") < pl.col("cost")).is_empty()
        # It was taught to buy, so what it says is refused, and its first price stands.
        figures = read_json("reports/evaluation.json")["buyers"]["linear_ladder"]["own"]
        assert figures["failed_rate"]["value"] == 0.0
        assert figures["intervention_rate"]["value"] == 1.0
        assert figures["deal_rate"]["value"] == 0.0

    return check


def test_a_vllm_server_sells_in_an_evaluation_and_is_held_to_the_rules(
    address: str, sold_by: Callable[..., None]
) -> None:
    sold_by({"kind": "openai", "model": "base", "address": address, "vllm": True, "tokenizer": str(BASE)})
    assert read_table("data/rollouts/evaluation.parquet", pl.col("seller") == "own")["answers"].sum() > 200


def test_vllm_inside_the_process_sells_in_an_evaluation_and_is_held_to_the_rules(
    sold_by: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in SMALL.items():
        monkeypatch.setenv(name, value)
    options = {"dtype": "float32", "enforce_eager": True, "max_model_len": 2048, "enable_chunked_prefill": False}
    sold_by({"kind": "vllm", "folder": str(BASE), "options": options}, str(PYTHON), [str(ROOT)])
