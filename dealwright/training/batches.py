"""What the update reads of a step's games: the rows that teach, dealt out in micro-batches of like length."""

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from accelerate import Accelerator

# Tensors of a training batch whose columns belong to the prompt, and those whose columns belong to the completion.
_PROMPT = {"prompt_ids", "prompt_mask"}
_COMPLETION = {
    *("completion_ids", "completion_mask", "tool_mask", "old_per_token_logps", "ref_per_token_logps"),
    "sampled_logprobs",
    "advantages",  # where they are those of tokens
}


def is_rows(value: Any) -> bool:
    """Say whether a value of a batch has one entry a row."""
    return isinstance(value, torch.Tensor) and value.dim() > 0


def of_all_processes(batches: Sequence[dict[str, Any]], accelerator: "Accelerator") -> list[dict[str, Any]]:
    """Return the micro-batches of all processes, in every process, padded alike; `row` counts through all of them."""
    count = accelerator.num_processes
    if count == 1:
        return list(batches)
    whole = _joined(batches)
    whole["row"] += accelerator.process_index * len(whole["row"])
    for key, value in whole.items():
        if not is_rows(value):
            continue
        if value.dim() > 1:
            whole[key] = accelerator.pad_across_processes(value, dim=1, pad_first=key in _PROMPT)
        whole[key] = accelerator.gather(whole[key].contiguous())
    rows = torch.arange(len(whole["row"]), device=whole["row"].device)
    return [_taken(whole, part) for part in rows.chunk(count * len(batches))]


def by_length(batches: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Deal the rows of some micro-batches out again by length, and cut each micro-batch to its longest row.

    Prompts are padded on the left and completions on the right; the `dr_grpo` loss is a sum over rows, so it does not
    matter which of them share a micro-batch.
    """
    whole = _joined(batches)
    prompts, completions = whole["prompt_mask"].sum(1), whole["completion_mask"].sum(1)
    order = (prompts + completions).argsort(stable=True).chunk(len(batches))
    dealt = []
    for rows in order:
        prompt, completion = int(prompts[rows].max()), int(completions[rows].max())
        batch = _taken(whole, rows)
        batch |= {key: batch[key][:, -prompt:] for key in _PROMPT}
        batch |= {key: batch[key][:, :completion] for key in _COMPLETION if _has_columns(batch.get(key))}
        dealt.append(batch)
    return dealt


def thinned(batches: Sequence[dict[str, Any]], share: float, draw: Random) -> list[dict[str, Any]]:
    """Keep a share of the rows, and weigh them so that the gradient expected over the draws is that of all rows.

    Playing is cheaper than learning, and most games of a group end much alike. A row is kept with a probability in
    proportion to the size of its advantage, at most 1 (systematic sampling), and its advantage is divided by that
    probability. Rows without advantage teach nothing and go first. The number of micro-batches stays. Where tokens
    have advantages of their own, the size of a row's is the root of their squares' sum.
    """
    whole = _joined(batches)
    by_token = whole["advantages"].double()
    advantages = by_token if by_token.dim() == 1 else by_token.norm(dim=1)
    keep = max(1, round(share * len(advantages) / len(batches))) * len(batches)
    chances = inclusion(advantages.abs(), keep)
    if int((chances > 0).sum()) <= keep:
        rows = advantages.abs().argsort(descending=True, stable=True)[:keep].sort().values
    else:
        rows = torch.searchsorted(chances.cumsum(0), torch.arange(keep).double() + draw.random(), right=True)
        rows = rows.clamp(max=len(advantages) - 1).to(advantages.device)
    # The loss is a mean over the rows that are left; the last factor makes it one over all that were played.
    weights = torch.where(chances[rows] > 0, 1 / chances[rows], 0.0) * (keep / len(advantages))
    kept = _taken(whole, rows)
    weights = weights.reshape(-1, *[1] * (by_token.dim() - 1))
    kept["advantages"] = (by_token[rows] * weights).to(whole["advantages"].dtype)
    return [_taken(kept, part) for part in torch.arange(keep).chunk(len(batches))]


def inclusion(sizes: torch.Tensor, keep: int) -> torch.Tensor:
    """Return probabilities in proportion to sizes, none above 1, with the sum `keep`; 1 where fewer sizes count."""
    sure = torch.zeros_like(sizes, dtype=torch.bool)
    while True:
        left, total = keep - int(sure.sum()), sizes[~sure].sum()
        if left <= 0 or total <= 0:
            return sure.to(sizes.dtype)
        chances = torch.where(sure, 1.0, left * sizes / total)
        if not bool((chances > 1).any()):
            return chances
        sure = chances >= 1


def _has_columns(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 1


def _joined(batches: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        key: torch.cat([batch[key] for batch in batches]) if is_rows(value) else value
        for key, value in batches[0].items()
    }


def _taken(whole: dict[str, Any], rows: torch.Tensor) -> dict[str, Any]:
    return {key: value[rows] if is_rows(value) else value for key, value in whole.items()}
