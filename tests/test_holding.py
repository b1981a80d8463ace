"""What training holds to the warm start: the tokens of which that is sure."""

import pytest
import torch

from dealwright.training.holding import at_own_tokens, held


def test_a_sure_token_is_pulled_towards_the_warm_start_and_any_other_has_its_reward() -> None:
    sampled = torch.tensor([[-0.1, -2.0, -1.0]])
    reference = torch.tensor([[-0.1, -0.5, -3.0]])
    entropies = torch.tensor([[0.0, 0.39, 0.41]])
    advantages = held(torch.tensor([[0.3, 0.3, 0.3]]), sampled, reference, entropies, 0.2)
    assert advantages.tolist() == [pytest.approx([0.0, 0.3, 0.3])]
    assert held(torch.tensor([0.7]), sampled, reference, entropies, 0.1).tolist() == [pytest.approx([0.0, 0.15, 0.7])]


def test_a_slip_that_the_warm_start_would_hardly_make_is_pushed_down_by_a_bounded_pull() -> None:
    slip = held(torch.zeros(1, 1), torch.tensor([[-1.0]]), torch.tensor([[-30.0]]), torch.zeros(1, 1), 0.2)
    assert slip.tolist() == [[-1.0]]


def test_values_of_own_tokens_stand_at_their_places() -> None:
    own = torch.tensor([[1, 0, 1, 0], [0, 0, 1, 1]])
    assert at_own_tokens([[-1.0, -2.0], [-3.0, -4.0]], own).tolist() == [
        [-1.0, 0.0, -2.0, 0.0],
        [0.0, 0.0, -3.0, -4.0],
    ]


def test_values_of_other_games_are_refused() -> None:
    with pytest.raises(ValueError, match="a value for each own token"):
        at_own_tokens([[-1.0]], torch.tensor([[1, 1]]))
