"""A policy that plays through a vLLM server, which is handed its LoRA adapter as it stands before each step's games.

The server holds the warm start, and was started with `--enable-lora` and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True
(docs/engines.md). An adapter's name tells its step and its content, so the server never takes one for another: what it
keeps of dialogues, it keeps under that name. The first process hands it over, and all play with it.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError
from torch.nn import Linear

from dealwright.engines.asking import FailureError, Server, ServerError
from dealwright.engines.base import Engine
from dealwright.engines.token_server import TokenEngine
from dealwright.errors import DealwrightError
from dealwright.files import replacing_folder, unwritable
from dealwright.training.games import TrainingError
from dealwright.training.processes import Processes, whole_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase
    from trl import GRPOTrainer

WEIGHTS = "adapter_model.safetensors"
MEND = "start the server of train.server as docs/engines.md says, and run it again"
TIMEOUT = 300.0  # seconds an answer, its wait for a place on a busy server included
RETRIES = 3
TIMEOUT_OF_CHECK = 30.0  # seconds, once: nothing else asks it yet
NOT_FOUND = 404
NOBODY = "dealwright-nobody"  # an adapter that no server holds


class ServedPolicy:
    """Lends the policy's voice to games through a server; `folder` is where the adapter is written for it.

    Raises TrainingError where the server does not do its part: no game is trained on that it did not play whole.
    """

    def __init__(self, address: str, tokenizer: "PreTrainedTokenizerBase", folder: Path) -> None:
        self._server = Server(address, "the adapter", MEND, timeout=TIMEOUT, retries=RETRIES)
        self._tokenizer = tokenizer
        self._folder = folder
        self._loaded = ""

    @contextmanager
    def voice(self, trainer: "GRPOTrainer") -> Iterator[Engine]:
        """Hand over the adapter and yield the engine that plays with it."""
        step = trainer.state.global_step + 1
        processes = Processes(trainer.accelerator.process_index, trainer.accelerator.num_processes)
        try:
            with whole_model(trainer) as model:
                name = self._hand_over(model, step) if processes.first else ""
                vocabulary = model.get_input_embeddings().num_embeddings
        except DealwrightError as error:
            raise TrainingError(f"step {step}: {error}") from error
        try:
            yield TokenEngine(self._server, processes.agree(name), self._tokenizer, vocabulary)
        except ServerError as error:
            raise TrainingError(f"step {step}: {error}") from error

    def _hand_over(self, model: "PreTrainedModel", step: int) -> str:
        """Return the name under which the server now holds the adapter; that of the step before it forgets."""
        # From the parameters, as the state of split weights is split even while they are whole.
        adapter = {name: weight.detach() for name, weight in model.named_parameters() if ".lora_" in name}
        with replacing_folder(self._folder) as beside:
            try:
                model.save_pretrained(beside, state_dict=adapter)
            except SafetensorError as error:  # what a full disk is called while weights are written
                raise unwritable(self._folder, error) from error
        digest = blake2b((self._folder / WEIGHTS).read_bytes(), digest_size=6).hexdigest()
        name = f"step-{step:05d}-{digest}"
        # In place, as a run that was killed in this step may have left the same adapter there.
        _post(self._server, "load", name, lora_path=str(self._folder.absolute()), load_inplace=True)
        if self._loaded not in ("", name):
            _forget(self._server, self._loaded)
        self._loaded = name
        return name


def adapted_layers(model: "PreTrainedModel") -> list[str]:
    """Return the names of the layers that an adapter for a server has: the linear ones.

    What peft would adapt besides, experts in one stack and their router, vLLM takes in other forms or not at all.
    """
    head = model.get_output_embeddings()
    linear = [name for name, module in model.named_modules() if isinstance(module, Linear) and module is not head]
    return sorted({name.rpartition(".")[2] for name in linear})


def check_server(address: str) -> None:
    """Raise TrainingError unless a server takes adapters while it runs: it is asked to forget one it never had."""
    try:
        _forget(Server(address, "the adapter", MEND, timeout=TIMEOUT_OF_CHECK, retries=0), NOBODY)
    except ServerError as error:
        raise TrainingError(f"train.server: {error}") from error


def _forget(server: Server, name: str) -> None:
    """Have an adapter unloaded, if it is there: a server that was started anew never had it."""
    try:
        _post(server, "unload", name)
    except ServerError as error:
        # vLLM names what it looked for in vain; whoever knows no such request does not.
        if error.status != NOT_FOUND or name not in str(error):
            raise


def _post(server: Server, verb: str, name: str, **fields: str | bool) -> None:
    """Have an adapter loaded or unloaded; raises ServerError unless the server says that it was."""

    async def ask() -> None:
        async with server.client() as client:
            body = {"lora_name": name, **fields}
            said = await server.send(client.post(f"/{verb}_lora_adapter", cast_to=str, body=body))
        if name not in said:
            raise FailureError("another answer", " ".join(said.split())[:80])

    try:
        asyncio.run(server.persist(ask, seed=0))
    except FailureError as failure:
        raise ServerError(
            f"expected {server.base_url} to {verb} an adapter, got {failure} ({failure.attempts} attempts); {MEND}"
        ) from None
