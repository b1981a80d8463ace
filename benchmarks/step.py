"""One GRPO step against the time that its floating-point operations take as bare matrix products."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from benchmarks.games import open_hall
from benchmarks.measure import Comparison, seconds

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from dealwright.training.grpo import BuyerTrainer

Shapes = Counter[tuple[int, int]]  # (inputs, outputs) of the weight matrices
PRODUCT_SECONDS = 0.2  # spent on measuring one rate


@dataclass(frozen=True, slots=True)
class Work:
    """Dialogues that are read: the length of each, and the number of tokens whose logits are needed."""

    lengths: tuple[int, ...]
    scored: int

    def operations(self, model: "PreTrainedModel") -> float:
        """Count the operations of one forward pass without padding; attention counts for the tokens before each."""
        layers, head = shapes_of(model)
        config = model.config
        per_token = 2 * sum(inputs * outputs * count for (inputs, outputs), count in layers.items())
        attention = 4 * config.num_hidden_layers * config.num_attention_heads * config.head_dim
        looks = sum(length * (length + 1) / 2 for length in self.lengths)
        return per_token * sum(self.lengths) + attention * looks + 2 * head[0] * head[1] * self.scored


class Clock(TrainerCallback):
    """Notes the seconds of each step's two parts, and right after it those of their operations as bare products."""

    def __init__(self, trainer: "BuyerTrainer") -> None:
        self.trainer = trainer
        self.parts: list[dict[str, float]] = []
        self.limits: list[dict[str, float]] = []
        self._roll, trainer.rollout_func = trainer.rollout_func, self._timed_rollout
        self._start = self._rollout = 0.0
        self._played = Work((), 0)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start the clock."""
        self._start = perf_counter()

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Stop it, and measure the limit of the work just done."""
        self.parts.append({"rollout": self._rollout, "update": perf_counter() - self._start - self._rollout})
        model, batches = self.trainer.model, self.trainer._buffered_inputs
        learnt = _learnt(batches)
        rollout_rate = product_rate(model, len(self._played.lengths))
        update_rate = product_rate(model, sum(learnt.lengths) // len(batches), backward=True)
        self.limits.append(
            {
                "rollout": self._played.operations(model) / rollout_rate,
                "update": 3 * learnt.operations(model) / update_rate,
            }
        )

    def _timed_rollout(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        start = perf_counter()
        output = self._roll(prompts, trainer)
        self._rollout = perf_counter() - start
        dialogues = zip(output["prompt_ids"], output["completion_ids"], strict=True)
        self._played = Work(
            tuple(len(prompt) + len(completion) for prompt, completion in dialogues), sum(map(sum, output["env_mask"]))
        )
        return output


def grpo_step(products: int | None = None, group_size: int | None = None, repeats: int = 5) -> Comparison:
    """Compare the time of a step with that of its operations at the rate of bare products.

    The sizes are those of params.yaml where none are given. The first step warms up and does not count.
    """
    hall = open_hall()
    params = hall.training(repeats + 1, products, group_size)
    with TemporaryDirectory() as folder:
        trainer = hall.trainer(params, Path(folder))
        clock = Clock(trainer)
        trainer.add_callback(clock)
        trainer.train()
    parts, limits = clock.parts[1:], clock.limits[1:]
    sizes = params.train.model_dump(include={"products", "group_size", "update_share", "micro_batch"})
    return Comparison(
        what="one GRPO step: rollout and update",
        other="its operations as bare float32 matrix products of the model's shapes",
        unit="seconds",
        ours=[sum(part.values()) for part in parts],
        others=[sum(limit.values()) for limit in limits],
        target=0.4,
        sizes=sizes | {"repeats": repeats},
        found={
            part: {"ours": median(times[part] for times in parts), "other": median(limit[part] for limit in limits)}
            for part in ("rollout", "update")
        },
    )


def _learnt(batches: list[dict[str, Any]]) -> Work:
    """Read from a step's micro-batches what its update read."""
    lengths = [batch["prompt_mask"].sum(1) + batch["completion_mask"].sum(1) for batch in batches]
    scored = sum(int((batch["completion_mask"] * batch["tool_mask"]).sum()) for batch in batches)
    return Work(tuple(int(length) for row in lengths for length in row), scored)


def shapes_of(model: "PreTrainedModel") -> tuple[Shapes, tuple[int, int]]:
    """Return the shapes of the layers' weight matrices, and that of the output layer."""
    head = model.get_output_embeddings()
    linear = [module for module in model.modules() if isinstance(module, torch.nn.Linear) and module is not head]
    return Counter((module.in_features, module.out_features) for module in linear), (
        head.in_features,
        head.out_features,
    )


@torch.inference_mode()
def product_rate(model: "PreTrainedModel", rows: int, backward: bool = False) -> float:
    """Return the operations a second of products of some rows with every weight matrix; `backward` adds its two."""
    layers, head = shapes_of(model)
    shapes = list((layers + Counter([head])).elements())
    jobs = []
    for inputs, outputs in shapes:
        x, weight, y = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs)
        jobs.append((x, weight.T, y))
        if backward:
            jobs += [(y, weight, torch.empty_like(x)), (y.T, x, torch.empty_like(weight))]

    def multiply() -> None:
        for left, right, result in jobs:
            torch.mm(left, right, out=result)

    multiply()
    once = seconds(multiply)
    times = [seconds(multiply) for _ in range(max(3, int(PRODUCT_SECONDS / once)))]
    operations = 2 * rows * sum(inputs * outputs for inputs, outputs in shapes) * (3 if backward else 1)
    return operations / median(times)
