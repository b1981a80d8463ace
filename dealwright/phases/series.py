"""Each checkpoint described by numbers, with the noise that comes from playing few games."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dealwright.evaluation.bootstrap import resample_counts
from dealwright.evaluation.metrics import VALUES, prepare
from dealwright.game import StopReason

Floats = NDArray[np.float64]

# The series of behaviour that phases are found in; the shares of the kinds of episodes come beside them.
HEADLINE = (
    "first_offer_ratio",
    "deal_rate",
    "bargained_ratio",
    "max_turns_rate",
    "seller_quit_rate",
    "argument_rate",
)
_SELLER_QUIT = pl.when(pl.col("stop") != StopReason.SELLER_FAILED).then(
    (pl.col("stop") == StopReason.SELLER_QUIT).cast(pl.Float64)
)
_EXPRESSIONS = {name: VALUES.get(name, _SELLER_QUIT) for name in (*HEADLINE, "reward")}


@dataclass(frozen=True, slots=True)
class Series:
    """Values of checkpoints by names, and resampled values of resamples by checkpoints by names.

    A value is NaN where no game of the checkpoint counts for it, as a bargained ratio without a deal.
    """

    steps: tuple[int, ...]
    names: tuple[str, ...]
    games: NDArray[np.int64]
    values: Floats
    resampled: Floats

    def __getitem__(self, name: str) -> Floats:
        return self.values[:, self.names.index(name)]

    def noise(self) -> Floats:
        """Return each name's standard error at a typical checkpoint, never less than half a game's worth.

        A rate that is 0 or 1 in every resample still has noise: that of a share with half a game added.
        """
        known = np.isfinite(self.resampled)
        count = np.maximum(known.sum(axis=0), 1)
        filled = np.where(known, self.resampled, 0.0)
        variance = (filled**2).sum(axis=0) / count - (filled.sum(axis=0) / count) ** 2
        typical = np.sqrt(np.maximum(variance, 0.0).mean(axis=0))
        games = float(self.games.mean())
        smallest = 0.5 / (games + 1)
        return np.maximum(typical, np.sqrt(smallest * (1 - smallest) / games))


def checkpoint_series(episodes: pl.DataFrame, kinds: NDArray[np.int64], resamples: int, seed: int) -> Series:
    """Measure every checkpoint, and again on `resamples` draws of products with all their games.

    A draw takes the same products at every checkpoint, since all checkpoints play the same probe games. The shares of
    the kinds are named kind_A, kind_B and so on.
    """
    names = [f"kind_{chr(ord('A') + kind)}" for kind in range(int(kinds.max()) + 1)]
    shares = {name: (pl.lit(pl.Series(kinds)) == place).cast(pl.Float64) for place, name in enumerate(names)}
    # A kind is known before prepare drops anything: both keep the order of the rows.
    games = prepare(episodes.with_columns(**shares)).with_columns(
        value.alias(name) for name, value in _EXPRESSIONS.items()
    )
    columns = [*_EXPRESSIONS, *names]
    sums = games.group_by("checkpoint", "product_id").agg(
        *(pl.col(name).sum() for name in columns),
        *(pl.col(name).count().alias(f"{name}/over") for name in columns),
    )
    steps = sorted(games["checkpoint"].unique())
    products = sorted(games["product_id"].unique())
    grid = pl.DataFrame({"checkpoint": steps}).join(pl.DataFrame({"product_id": products}), how="cross")
    table = grid.join(sums, on=["checkpoint", "product_id"], how="left", maintain_order="left").fill_null(0)
    shape = (len(steps), len(products), len(columns))
    totals = table.select(columns).to_numpy().astype(np.float64).reshape(shape)
    over = table.select(f"{name}/over" for name in columns).to_numpy().astype(np.float64).reshape(shape)
    counts = resample_counts(len(products), resamples, seed)
    resampled = _ratio(np.einsum("rp,tpd->rtd", counts, totals), np.einsum("rp,tpd->rtd", counts, over))
    played = games.group_by("checkpoint").len().sort("checkpoint")["len"].to_numpy().astype(np.int64)
    return Series(tuple(steps), tuple(columns), played, _ratio(totals.sum(axis=1), over.sum(axis=1)), resampled)


def _ratio(totals: Floats, over: Floats) -> Floats:
    return np.divide(totals, over, out=np.full_like(totals, np.nan), where=over > 0)
