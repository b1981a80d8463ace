"""Keys and values kept across the turns of many dialogues, in memory allocated once.

Columns are filled in blocks: a call's prompts are left-padded to one width, then one column a sampled token. A mask
marks the holes; positions come from the mask, so a hole costs a little arithmetic and no accuracy.
"""

from collections.abc import Sequence

import torch
from transformers import Cache, PretrainedConfig
from transformers.cache_utils import CacheLayerMixin

SPARE_COLUMNS = 256


class BlockLayer(CacheLayerMixin):
    """One layer's keys and values, shape (rows, heads, columns, head size), written in place."""

    def __init__(self) -> None:
        super().__init__()
        self.filled = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate nothing yet; `update` does, as it knows the width."""
        self.keys, self.values = key_states[:, :, :0], value_states[:, :, :0]
        self.is_initialized = True

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write new columns and return all that are filled."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.filled + key_states.shape[2]
        if end > self.keys.shape[2]:
            self.keys, self.values = (
                _grown(old, self.filled, end + SPARE_COLUMNS) for old in (self.keys, self.values)
            )
        self.keys[:, :, self.filled : end] = key_states
        self.values[:, :, self.filled : end] = value_states
        self.filled = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def keep(self, rows: torch.Tensor, columns: torch.Tensor) -> None:
        """Keep some rows, and of each the given columns, shape (rows, width), in that order."""
        index = columns[:, None, :, None].expand(-1, self.keys.shape[1], -1, self.keys.shape[3])
        self.keys, self.values = (old[rows].gather(2, index) for old in (self.keys, self.values))
        self.filled = columns.shape[1]

    def allocate(self, other: "BlockLayer", rows: int, columns: int) -> None:
        """Make room for rows of another layer, all of them holes, unless there is some."""
        if not self.is_initialized:
            shape = (rows, other.keys.shape[1], columns, other.keys.shape[3])
            self.keys, self.values = other.keys.new_zeros(shape), other.values.new_zeros(shape)
            self.filled, self.is_initialized = columns, True

    def take(self, other: "BlockLayer", places: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> None:
        """Put some columns of another layer's rows at the right of our rows at these places."""
        heads, size = other.keys.shape[1], other.keys.shape[3]
        index = columns[:, None, :, None].expand(-1, heads, -1, size)
        first = self.filled - columns.shape[1]
        for ours, theirs in ((self.keys, other.keys), (self.values, other.values)):
            ours[places, :, first : self.filled] = theirs[rows].gather(2, index)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the width that a mask must have, and its offset."""
        return self.filled + query_length, 0

    def get_seq_length(self) -> int:
        """Return the number of filled columns."""
        return self.filled

    def get_max_length(self) -> int:
        """Return -1: the cache grows."""
        return -1


class BlockCache(Cache):
    """The cache of a whole model, and the mask of its columns, shape (rows, columns), True where a token stands."""

    def __init__(self, config: PretrainedConfig, rows: int, device: torch.device) -> None:
        super().__init__(layers=[BlockLayer() for _ in range(config.num_hidden_layers)])
        self.mask = torch.zeros(rows, 0, dtype=torch.bool, device=device)

    def extend(self, mask: torch.Tensor) -> None:
        """Announce new columns, before the forward pass that fills them."""
        self.mask = torch.cat([self.mask, mask], dim=1)

    def keep(self, rows: Sequence[int]) -> None:
        """Keep some rows, in that order, and close the holes that all of them share."""
        index = torch.tensor(rows, device=self.mask.device)
        self.mask, columns = _closed(self.mask[index])
        for layer in self.layers:
            layer.keep(index, columns)

    @classmethod
    def joined(cls, config: PretrainedConfig, parts: Sequence[tuple["BlockCache", int, int]]) -> "BlockCache":
        """Return a cache of copied rows; a part is a cache, its row, and how many of its first tokens to take."""
        device = parts[0][0].mask.device
        cache = cls(config, len(parts), device)
        width = max(count for _, _, count in parts)
        cache.mask = torch.zeros(len(parts), width, dtype=torch.bool, device=device)
        for source in {id(source): source for source, _, _ in parts}.values():
            chosen = [(place, row, count) for place, (other, row, count) in enumerate(parts) if other is source]
            places, rows, counts = (torch.tensor(column, device=device) for column in zip(*chosen, strict=True))
            whole = source.mask[rows]
            mask, columns = _closed(whole & (whole.cumsum(1) <= counts[:, None]))
            cache.mask[places, width - mask.shape[1] :] = mask
            for ours, theirs in zip(cache.layers, source.layers, strict=True):
                ours.allocate(theirs, len(parts), width)
                ours.take(theirs, places, rows, columns)
        return cache


def _closed(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a mask without the holes that all rows share, and the columns that it is made of."""
    width = int(mask.sum(1).max())
    # A stable sort moves each row's holes to the left and keeps its tokens in order.
    columns = mask.to(torch.int8).argsort(dim=1, stable=True)[:, mask.shape[1] - width :]
    return mask.gather(1, columns), columns


def _grown(old: torch.Tensor, filled: int, columns: int) -> torch.Tensor:
    new = old.new_zeros(old.shape[0], old.shape[1], columns, old.shape[3])
    new[:, :, :filled] = old[:, :, :filled]
    return new
