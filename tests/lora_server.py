"""A stand-in for vLLM that takes adapters: it loads them with peft and reckons with transformers.

What it says is scripted, so that games last; its log-probabilities are the model's own, with the adapter that it was
asked for.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedTokenizerBase

from dealwright.engines.loading import load_model
from tests.faulty_server import Reply, fail, send


class LoraServer:
    """A reply for FaultyServer. `done` holds what was asked for in order, a run of equal requests once.

    `shift` is added to every log-probability. `faults` holds by the step of the adapter how many completions are
    given, and what is replied from then on; `refusal` is replied to an adapter.
    """

    def __init__(self, base: Path, shift: float = 0.0) -> None:
        self.base = base
        self.shift = shift
        self.done: list[tuple[str, str]] = []
        self.adapters: dict[str, Any] = {}
        self.said: list[str] = []
        self.faults: dict[str, tuple[int, Reply]] = {}
        self.refusal: Reply | None = None
        self._tokenizer: PreTrainedTokenizerBase = load_model(base)[1]
        self._lock = threading.Lock()

    def __call__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
        """Answer one request."""
        with self._lock:
            reply = {
                "/v1/load_lora_adapter": self._load,
                "/v1/unload_lora_adapter": self._unload,
                "/v1/completions": self._complete,
            }[handler.path](body)
        reply(handler, body, closing)

    def _note(self, what: str, name: str) -> None:
        if self.done[-1:] != [(what, name)]:
            self.done.append((what, name))

    def _load(self, body: dict[str, Any]) -> Reply:
        name = body["lora_name"]
        self._note("load", name)
        if self.refusal is not None:
            return self.refusal
        if name in self.adapters and not body["load_inplace"]:
            return fail(400, f"The lora adapter '{name}' has already been loaded.")
        self.adapters[name] = PeftModel.from_pretrained(load_model(self.base)[0], body["lora_path"]).eval()
        return send(f"Success: LoRA adapter '{name}' added successfully.", kind="text/plain")

    def _unload(self, body: dict[str, Any]) -> Reply:
        name = body["lora_name"]
        self._note("unload", name)
        if self.adapters.pop(name, None) is None:
            return fail(404, f"The lora adapter '{name}' cannot be found.")
        return send(f"Success: LoRA adapter '{name}' removed successfully.", kind="text/plain")

    def _complete(self, body: dict[str, Any]) -> Reply:
        name = body["model"]
        self._note("play", name)
        if name not in self.adapters:
            return fail(404, f"The model `{name}` does not exist.")
        if name[:10] in self.faults:
            left, reply = self.faults[name[:10]]
            if left == 0:
                return reply
            self.faults[name[:10]] = (left - 1, reply)
        prompt: list[int] = body["prompt"]
        text = self._message(prompt, body["seed"])
        self.said.append(text)
        letters = [self._tokenizer(letter, add_special_tokens=False)["input_ids"] for letter in text]
        ids = [*(id for letter in letters for id in letter), *body["stop_token_ids"]]
        choice = {
            "text": text,
            "finish_reason": "stop",
            "prompt_token_ids": prompt,
            "token_ids": ids,
            "logprobs": {"token_logprobs": self._logprobs(name, prompt, ids, body["temperature"])},
        }
        return send(json.dumps({"model": name, "choices": [choice]}))

    def _message(self, prompt: list[int], seed: int) -> str:
        """Offer more at every turn, from a first offer that hangs on the seed, as the length of the Talk does."""
        read = str(self._tokenizer.decode(prompt))
        budget = float(re.findall(r"budget \$([\d,.]+)", read)[0].replace(",", ""))
        offer = budget * min(0.99, 0.3 + 0.1 * read.count("<|assistant|>") + 0.04 * (seed % 8))
        return f"Thought: bid {offer / budget:.0%}.\nTalk: Cash{', cash' * (seed % 8)}.\nAction: [BUY] ${offer:.2f}"

    @torch.no_grad()
    def _logprobs(self, name: str, prompt: list[int], ids: list[int], temperature: float) -> list[float]:
        logits = self.adapters[name](input_ids=torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1]
        logprobs = (logits / temperature).log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
        return [value + self.shift for value in logprobs.tolist()]
