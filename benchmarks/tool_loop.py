"""The buyer's game as TRL's documentation has multi-turn training: an environment whose methods are the model's tools.

TRL's loop is given its best case. The model keeps its own message format, so it speaks exactly as in our rollout: the
parser below turns a message into the call of a tool, the chat template spends no tokens on calls or tool schemas, and
a finished game is not played on. TRL has no way for an environment to end an episode; but a result that is longer than
the token budget is dropped without another turn.
"""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from trl import GRPOTrainer

from benchmarks.games import Hall
from dealwright.game import ActionKind, Negotiation, Regulator, Role, parse_message, reward
from dealwright.prompts.render import opening_buyer

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOOLS = {
    ActionKind.BUY: "offer",
    ActionKind.DEAL: "accept",
    ActionKind.REJECT: "decline",
    ActionKind.QUIT: "walk_away",
}
TEMPLATE = (
    "{% for message in messages %}<|{{ 'user' if message.role == 'tool' else message.role }}|>{{ message.content }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}{{ call.function.arguments | tojson }}"
    "{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
OVER = "0" * 2048  # one token a digit, more than any budget


class ToolTable:
    """A game whose buyer moves by calling tools; each takes the buyer's whole message."""

    def __init__(self, hall: Hall) -> None:
        self._hall = hall
        self._scenarios = {scenario.id: scenario for scenario in hall.scenarios}
        self._seller = hall.seller()
        self._game: Negotiation | None = None

    def reset(self, scenario: str, round: int, **row: Any) -> None:
        """Start the game of a row."""
        self._game = Negotiation(self._scenarios[scenario], self._hall.params.game.max_turns, round)
        self._regulator = Regulator(self._scenarios[scenario], self._hall.params.game.regulator.monotone)

    def get_reward(self) -> float | None:
        """Return the reward; a message that called no tool left the game unfinished and breaks the format."""
        return -1.0 if self.game.outcome is None else reward(self.game.scenario, self.game.outcome)

    def offer(self, message: str) -> str:
        """Make a formal offer.

        Args:
            message: The whole message.
        """
        return self._move(message)

    def accept(self, message: str) -> str:
        """Accept the seller's last formal offer.

        Args:
            message: The whole message.
        """
        return self._move(message)

    def decline(self, message: str) -> str:
        """Decline without an offer.

        Args:
            message: The whole message.
        """
        return self._move(message)

    def walk_away(self, message: str) -> str:
        """End the game without a deal.

        Args:
            message: The whole message.
        """
        return self._move(message)

    @property
    def game(self) -> Negotiation:
        """The game of the row that the table was last reset with."""
        assert self._game is not None
        return self._game

    def _move(self, text: str) -> str:
        game = self.game
        if game.play(Role.BUYER, text) is None:
            (answer,) = self._seller.respond([game])
            assert answer is not None
            game.play(Role.SELLER, self._regulator.rule(game, answer).text)
        return OVER if game.outcome else game.view(Role.BUYER)[-1]["content"]


def tool_trainer(hall: Hall, ours: GRPOTrainer) -> GRPOTrainer:
    """Return TRL's trainer on the rows and with the settings of ours; its rollouts are the loop over tool calls."""
    args = deepcopy(ours.args)
    args.generation_kwargs = {"max_new_tokens": hall.params.train.message_tokens}  # of one message, as ours
    begin = opening_buyer(hall.params.prompts.buyer)
    return GRPOTrainer(
        model=deepcopy(hall.model),
        processing_class=_tool_tokenizer(hall.tokenizer),
        train_dataset=ours.train_dataset.map(
            lambda row: {"prompt": [{"role": "system", "content": hall.prompts[row["scenario"]]}, *begin]}
        ),
        environment_factory=lambda: ToolTable(hall),
        args=args,
    )


def _tool_tokenizer(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerBase":
    caller = deepcopy(tokenizer)
    caller.chat_template = TEMPLATE
    caller.response_template = {}  # TRL parses messages only where there is one
    caller.parse_response = lambda ids, **_: _called(str(tokenizer.decode(ids, skip_special_tokens=True)))
    return caller


def _called(text: str) -> dict[str, Any]:
    """Read a message as the call of the tool that its action names; what breaks the format calls none."""
    message = parse_message(text, Role.BUYER)
    if message is None:
        return {"role": "assistant", "content": text}
    call = {"name": TOOLS[message.action.kind], "arguments": {"message": text}}
    return {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": call}]}
