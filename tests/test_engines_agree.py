"""The same weights, greedy: in this process and behind an address they say the same in the same games."""

import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from dealwright.agents import ConcessionSeller, LanguageModelAgent
from dealwright.engines.base import Engine, Sampling
from dealwright.engines.openai_server import OpenaiEngine
from dealwright.engines.transformers import TransformersEngine
from dealwright.game import Role
from dealwright.prompts import opening_buyer
from dealwright.rollout import Episode, rollout
from tests.faulty_server import FaultyServer, Reply, completion
from tests.tiny import buyer_prompts, tiny_scenarios

BASE = Path(__file__).parents[1] / "data/base"


def serving(engine: TransformersEngine) -> Reply:
    """Reply as a server of these weights does, one request after the other."""
    alone = threading.Lock()

    def reply(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
        sampling = Sampling(body["temperature"], body["max_tokens"], body["seed"])
        with alone:
            [said] = engine.generate([body["messages"]], sampling)
        usage = {"prompt_tokens": len(said.prompt_ids), "completion_tokens": len(said.token_ids)}
        completion({"content": said.text}, said.finish_reason, usage)(handler, body, closing)

    return reply


def played(engine: Engine) -> list[Episode]:
    scenarios = tiny_scenarios(4)
    buyer = LanguageModelAgent(
        engine, Role.BUYER, buyer_prompts(scenarios), opening_buyer("brief"), Sampling(0.0, 96, 0)
    )
    return rollout(scenarios, [0], buyer, ConcessionSeller("training"), ("base", "training"))


def test_the_weights_say_the_same_in_this_process_and_behind_an_address() -> None:
    here = played(TransformersEngine.from_folder(BASE))
    with FaultyServer(serving(TransformersEngine.from_folder(BASE))) as server:
        there = played(OpenaiEngine("base", server.base_url, retries=0))
    assert [episode.messages for episode in there] == [episode.messages for episode in here]
    assert [episode.outcome for episode in there] == [episode.outcome for episode in here]
    assert [episode.tokens for episode in there] == [episode.tokens for episode in here]
    assert max(episode.outcome.turns for episode in here) > 1
