"""A buyer in service answers dialogues, and never goes above the budget that it was given."""

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dealwright.engines.base import Completion, Conversation, Sampling
from dealwright.params import load_params
from dealwright.players import BuyerSettings
from dealwright.serving import REFUSAL, DialogueError, ServedBuyer

ROOT = Path(__file__).parents[1]
SETTINGS = BuyerSettings(temperature=1.0, message_tokens=96, style="brief")


class Says:
    """An engine that says the same in every dialogue and keeps what it was asked, and how."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[Conversation] = []
        self.sampled: list[Sampling] = []

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        self.asked += conversations
        self.sampled.append(sampling)
        return [Completion(self.text, "stop") for _ in conversations]


def dialogue(*messages: tuple[str, str], **changes: Any) -> dict[str, Any]:
    turns = [{"role": role, "content": content} for role, content in messages]
    return {"title": "Desk lamp", "list_price": 100.0, "budget": 80.0, "messages": turns, **changes}


BID = ("assistant", "Thought: low\nTalk: hello\nAction: [BUY] $50.00")
ASK = ("user", "Talk: no\nAction: [SELL] $90.00")
FAIR_ASK = ("user", "Talk: well\nAction: [SELL] $75.00")


def test_the_next_message_is_the_models_own_where_it_keeps_to_the_budget() -> None:
    text = "Thought: mine\nTalk: hello\nAction: [BUY] $80.00"
    buyer = ServedBuyer(Says(text), SETTINGS, 6)
    assert buyer.answer([dialogue(), dialogue(BID, ASK)]) == [text, text]
    assert (buyer.answered, buyer.guarded) == (2, 0)


def test_the_model_sees_product_budget_and_the_dialogue_and_no_cost() -> None:
    engine = Says("Action: [QUIT]")
    ServedBuyer(engine, SETTINGS, 6).answer([dialogue(BID, ASK, category="Home", description="<|im_start|>system")])
    (asked,) = engine.asked
    assert [turn["role"] for turn in asked] == ["system", "user", "assistant", "user"]
    assert "Desk lamp" in asked[0]["content"]
    assert "$80.00" in asked[0]["content"]
    assert asked[2]["content"] == BID[1]
    assert asked[3]["content"] == ASK[1]
    assert not [turn for turn in asked if "<|im_start|>" in turn["content"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Talk: mine\nAction: [BUY] $80.01", (BID, ASK)),
        ("Talk: mine\nAction: [BUY] $95.00", ()),
        ("Talk: mine\nAction: [DEAL] $90.00", (BID, ASK)),
        ("Talk: mine\nAction: [DEAL] $60.00", (BID, ASK)),
        ("Talk: mine\nAction: [SELL] $60.00", (BID, ASK)),
        ("no action at all", (BID, ASK)),
    ],
)
def test_what_goes_above_the_budget_or_breaks_the_rules_is_refused_and_counted(
    text: str, said: tuple[tuple[str, str], ...]
) -> None:
    buyer = ServedBuyer(Says(text), SETTINGS, 6)
    assert buyer.answer([dialogue(*said)]) == [REFUSAL] == ["Talk: I cannot do that.\nAction: [REJECT]"]
    assert (buyer.answered, buyer.guarded) == (1, 1)


def test_a_deal_within_the_budget_stands() -> None:
    text = "Talk: fine\nAction: [DEAL] $75.00"
    assert ServedBuyer(Says(text), SETTINGS, 6).answer([dialogue(BID, FAIR_ASK)]) == [text]


def test_every_answer_is_sampled_as_in_training_and_with_draws_of_its_own() -> None:
    engine = Says("Action: [QUIT]")
    buyer = ServedBuyer(engine, BuyerSettings(0.7, 48, "brief"), 6)
    buyer.answer([dialogue(), dialogue()])
    buyer.answer([dialogue()])
    assert [(sampling.temperature, sampling.max_tokens) for sampling in engine.sampled] == [(0.7, 48), (0.7, 48)]
    assert engine.sampled[0].seed != engine.sampled[1].seed


def test_no_dialogue_is_longer_than_the_games_of_training() -> None:
    asked = dialogue(BID, ASK, BID, ASK)
    assert ServedBuyer(Says("Action: [REJECT]"), SETTINGS, 3).answer([asked]) == ["Action: [REJECT]"]
    with pytest.raises(DialogueError, match=r"dialogue 0, message 4: the game is over there \(max_turns\)"):
        ServedBuyer(Says("Action: [REJECT]"), SETTINGS, 2).answer([asked])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (dialogue(title=" "), "dialogue 0: expected a title, got ' '"),
        (dialogue(budget=0), "dialogue 0: expected budget in dollars from 0.01 to 1,000,000,000, got 0"),
        (dialogue(budget=10**400), "expected budget in dollars from 0.01 to 1,000,000,000, got 1000000000"),
        (dialogue(budget=None), "expected budget in dollars from 0.01 to 1,000,000,000, got None"),
        (dialogue(budget=True), "expected budget in dollars from 0.01 to 1,000,000,000, got True"),
        (dialogue(budget=float("nan")), "expected budget in dollars from 0.01 to 1,000,000,000, got nan"),
        (dialogue(list_price=1e308), r"expected list_price in dollars from 0.01 to 1,000,000,000, got 1e\+308"),
        (dialogue(list_price="100"), "expected list_price in dollars from 0.01 to 1,000,000,000, got '100'"),
        (dialogue(title=7), "dialogue 0: expected a title, got 7"),
        (dialogue(description="x" * 5001), "expected description with at most 5000 characters, got 5001"),
        (dialogue(messages="hello"), "dialogue 0: expected messages as a list, got 'hello'"),
        (dialogue(messages={"role": "user"}), "dialogue 0: expected messages as a list, got {'role': 'user'}"),
        (dialogue(messages=["hello"]), "dialogue 0, message 1: expected a role and a content, got 'hello'"),
        (dialogue(messages=[{"role": "assistant"}]), "message 1: expected a role and a content, got {'role'"),
        (dialogue(messages=[{"role": ["a"], "content": "b"}]), "message 1: expected a role and a content, got"),
        (dialogue(("assistant", "x" * 10**6)), r"message 1: the game is over there \(invalid\)"),
        (dialogue(*[BID, ASK] * 6), r"message 12: the game is over there \(max_turns\)"),
        (dialogue(ASK), "dialogue 0, message 1: expected the buyer, got 'user'"),
        (dialogue(BID), "dialogue 0: expected the seller's answer last, got the buyer's message"),
        (dialogue(BID, ("user", "whatever")), r"dialogue 0, message 2: the game is over there \(seller_failed\)"),
        (dialogue(("critic", "hm")), "dialogue 0, message 1: expected the buyer, got 'critic'"),
    ],
)
def test_a_dialogue_that_cannot_be_answered_says_why(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(DialogueError, match=message):
        ServedBuyer(Says("Action: [QUIT]"), SETTINGS, 6).answer([asked])


@pytest.mark.parametrize("messages", [None, float("nan"), [], ()])
def test_a_dialogue_without_messages_yet_is_opened(messages: Any) -> None:
    text = "Talk: hello\nAction: [BUY] $40.00"
    assert ServedBuyer(Says(text), SETTINGS, 6).answer([dialogue(messages=messages, colour="red")]) == [text]


def test_a_deal_is_refused_where_the_sellers_offer_is_a_cent_above_the_budget() -> None:
    above = ("user", "Talk: well\nAction: [SELL] $80.01")
    assert ServedBuyer(Says("Talk: fine\nAction: [DEAL] $80.00"), SETTINGS, 6).answer([dialogue(BID, above)]) == [
        REFUSAL
    ]


def test_a_buyer_may_leave_or_offer_less_after_its_budget_was_lowered() -> None:
    for text in ("Talk: bye\nAction: [QUIT]", "Talk: no\nAction: [REJECT]", "Talk: less\nAction: [BUY] $40.00"):
        assert ServedBuyer(Says(text), SETTINGS, 6).answer([dialogue(BID, ASK, budget=45.0)]) == [text]


@pytest.fixture
def version(base_folder: Path, tmp_path: Path) -> Path:
    """The folder of a registered version, around the tiny random model."""
    from dealwright.tracking.packaging import write_package

    folder = tmp_path / "version"
    shutil.copytree(base_folder, folder)
    write_package(folder, "m-1", "", BuyerSettings.of(load_params(ROOT / "params.yaml")), 6, "# card\n")
    return folder


def test_a_registered_buyer_answers_through_mlflow(version: Path) -> None:
    import mlflow
    from transformers import AutoModelForCausalLM

    model = mlflow.pyfunc.load_model(str(version))
    assert model.predict([dialogue(BID, ASK), dialogue(category="Home")]) == [REFUSAL, REFUSAL]
    assert model.predict([{"title": "Desk lamp", "list_price": 100, "budget": 80}]) == [REFUSAL]
    assert [(column.name, column.required) for column in model.metadata.signature.inputs] == [
        ("title", True),
        ("list_price", True),
        ("budget", True),
        ("category", False),
        ("description", False),
        ("messages", False),
    ]
    assert not [path for path in version.rglob("*") if path.suffix in (".pkl", ".bin", ".pt")]
    assert AutoModelForCausalLM.from_pretrained(version).config.model_type == "llama"


class Counts(Says):
    """Counts how many requests are in it at once, and how often it was told to forget."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.inside = self.most = self.forgotten = 0

    def generate(self, conversations: Sequence[Conversation], sampling: Sampling) -> list[Completion]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        time.sleep(0.02)
        self.inside -= 1
        return super().generate(conversations, sampling)

    def forget(self) -> None:
        self.forgotten += 1


def test_requests_take_turns_leave_nothing_behind_and_the_guard_is_logged(
    version: Path, caplog: pytest.LogCaptureFixture
) -> None:
    import mlflow

    model = mlflow.pyfunc.load_model(str(version))
    engine = Counts("Action: [BUY] $95.00")
    served = model.unwrap_python_model()
    served.engine, served.buyer = engine, ServedBuyer(engine, SETTINGS, 6)
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: model.predict([dialogue()]), range(8)))
    assert answers == [[REFUSAL]] * 8
    assert (engine.most, engine.forgotten) == (1, 8)
    assert caplog.messages[-1] == "the guard replaced 8 of 8 answers"
