"""What the update reads of a step's games: which rows, at which weight, in which micro-batches."""

from random import Random
from typing import Any

import pytest
import torch

from dealwright.training.batches import by_length, inclusion, thinned

Batch = dict[str, Any]


def test_rows_are_dealt_out_by_length_and_cut_where_the_padding_is() -> None:
    def batch(row: int, prompt: list[int], completion: list[int], tool: list[int]) -> Batch:
        bits = {"prompt_mask": [int(id > 0) for id in prompt], "completion_mask": [int(id > 0) for id in completion]}
        rows = {"prompt_ids": prompt, "completion_ids": completion, "tool_mask": tool, **bits, "row": row}
        return {key: torch.tensor([value]) for key, value in rows.items()} | {"num_items_in_batch": torch.tensor(9)}

    dealt = by_length(
        [
            batch(0, [1, 2, 3], [4, 5, 6, 7], [1, 0, 1, 1]),
            batch(1, [0, 0, 8], [9, 0, 0, 0], [1, 1, 1, 1]),
            batch(2, [0, 1, 2], [3, 4, 0, 0], [1, 0, 1, 1]),
        ]
    )
    assert [batch["row"].tolist() for batch in dealt] == [[1], [2], [0]]
    assert [batch["prompt_ids"].tolist() for batch in dealt] == [[[8]], [[1, 2]], [[1, 2, 3]]]
    assert [batch["completion_ids"].tolist() for batch in dealt] == [[[9]], [[3, 4]], [[4, 5, 6, 7]]]
    assert [batch["tool_mask"].tolist() for batch in dealt] == [[[1]], [[1, 0]], [[1, 0, 1, 1]]]
    assert {batch["num_items_in_batch"].item() for batch in dealt} == {9}


def played(*advantages: float) -> Batch:
    """Return a batch of rows that are known by their number."""
    return {"advantages": torch.tensor(advantages), "row": torch.arange(len(advantages))}


def kept(batches: list[Batch]) -> dict[int, float]:
    return {
        row: advantage
        for batch in batches
        for row, advantage in zip(batch["row"].tolist(), batch["advantages"].tolist(), strict=True)
    }


def test_chances_go_with_the_size_of_the_advantage_and_stop_at_one() -> None:
    assert inclusion(torch.tensor([0.1, 0.2, 0.3, 0.4]), 2).tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert inclusion(torch.tensor([0.1, 0.1, 0.2, 9.0]), 2).tolist() == pytest.approx([0.25, 0.25, 0.5, 1.0])
    assert inclusion(torch.tensor([0.0, 0.0, 0.2, 0.0]), 2).tolist() == [0.0, 0.0, 1.0, 0.0]


def test_an_advantage_that_is_no_number_is_kept_for_the_loss_to_be_stopped_by_it() -> None:
    (found,) = thinned([played(0.1, float("nan"), 0.2, 0.1)], 0.5, Random(1))
    assert 1 in found["row"].tolist()
    assert len(found["row"]) == 2


def test_a_share_of_the_rows_is_kept_in_as_many_micro_batches() -> None:
    batches = [played(0.1, -0.2, 0.3, -0.4), played(0.4, 0.1, -0.1, -0.2)]
    found = thinned(batches, 0.5, Random(1))
    assert [len(batch["row"]) for batch in found] == [2, 2]
    assert all(len(batch["advantages"]) == 2 for batch in found)


def test_all_rows_are_kept_as_they_are_where_the_share_is_one() -> None:
    whole = played(0.1, -0.2, 0.0, 0.1)
    (found,) = thinned([whole], 1.0, Random(1))
    assert found["row"].tolist() == [0, 1, 2, 3]
    assert found["advantages"].tolist() == pytest.approx([0.1, -0.2, 0.0, 0.1])


def test_rows_without_advantage_go_first_and_the_others_keep_their_weight_in_the_mean() -> None:
    (found,) = thinned([played(0.0, 0.3, 0.0, -0.3)], 0.5, Random(1))
    # The mean over two rows is that over four, in which the other two add nothing.
    assert kept([found]) == pytest.approx({1: 0.15, 3: -0.15})


def test_over_many_draws_the_mean_gradient_weight_of_each_row_is_its_own() -> None:
    advantages = (0.05, -0.1, 0.15, -0.6, 0.2, -0.1, 0.3, 0.1)
    totals = dict.fromkeys(range(8), 0.0)
    draws = 4000
    for seed in range(draws):
        for row, weight in kept(thinned([played(*advantages)], 0.5, Random(seed))).items():
            totals[row] += weight * 8 / 4  # a mean over four rows instead of eight
    assert [totals[row] / draws for row in range(8)] == pytest.approx(advantages, abs=0.01)


def test_the_same_draw_keeps_the_same_rows_and_another_draw_others() -> None:
    whole = played(*[0.1] * 64)
    first, again, other = (kept(thinned([whole], 0.25, Random(seed))) for seed in (1, 1, 2))
    assert first == again and len(first) == 16
    assert first != other


def test_rows_whose_tokens_have_their_own_advantages_are_drawn_by_the_size_of_all_of_them() -> None:
    rows = torch.tensor([[0.0, 0.0], [0.3, 0.4], [0.0, 0.0], [-0.5, 0.0]])
    (found,) = thinned([{"advantages": rows, "row": torch.arange(4)}], 0.5, Random(1))
    assert found["row"].tolist() == [1, 3]
    assert found["advantages"].tolist() == [pytest.approx([0.15, 0.2]), pytest.approx([-0.25, 0.0])]
