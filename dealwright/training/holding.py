"""What training must not unlearn: the tokens of which the warm start is sure (`train.hold` above 0).

A message has few tokens that decide anything; the others copy, reckon and format, and the warm start is sure of them.
The reward of a game says nothing about those, but its noise moves them, and lower amounts under the same plan look
like gain until the numbers mean nothing. So a sure token is learnt from in another way: its advantage is the reverse
KL penalty against the warm start, log pi_warm - log pi, and the reward is left to the tokens that decide. To learn
from forking tokens alone follows Wang et al. 2025 (arXiv 2506.01939); there the model that is trained tells which they
are, here the one that it started from, so that a number does not become a decision by being unlearnt.
"""

from collections.abc import Sequence

import torch

SURE = 0.4  # nats of entropy below which the warm start is sure of a token
LARGEST = 5.0  # nats that one token may be pulled by


def held(
    advantages: torch.Tensor, sampled: torch.Tensor, reference: torch.Tensor, entropies: torch.Tensor, weight: float
) -> torch.Tensor:
    """Return the advantages of tokens with those of sure ones replaced by their pull towards the warm start.

    All of shape (games, tokens): log-probabilities of the sampled tokens under the policy that played (`sampled`) and
    under the warm start (`reference`), and the warm start's `entropies` in nats. Advantages may be (games,).
    """
    if advantages.dim() == 1:
        advantages = advantages[:, None].expand_as(sampled)
    pull = weight * (reference - sampled).clamp(-LARGEST, LARGEST)
    return torch.where(entropies < SURE, pull, advantages)


def at_own_tokens(values: Sequence[Sequence[float]], own: torch.Tensor) -> torch.Tensor:
    """Put the values of each game's own tokens at their places; `own`, of shape (games, tokens), is 1 there.

    Raises ValueError where there are not as many own tokens as values.
    """
    if own.sum(1).tolist() != [len(row) for row in values]:
        raise ValueError("expected a value for each own token; the mask and the games do not belong together")
    places = torch.zeros(own.shape, device=own.device)
    places[own.bool()] = torch.tensor([value for row in values for value in row], device=own.device)
    return places
