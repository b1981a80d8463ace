"""What a buyer did in one game, as numbers that clustering can compare."""

import polars as pl

from dealwright.game import StopReason

# What a low and a high value of each feature means, in words.
FEATURES: dict[str, tuple[str, str]] = {
    "first_offer_ratio": ("low first offers", "high first offers"),
    "last_offer_ratio": ("low last offers", "high last offers"),
    "concession": ("small steps", "large steps"),
    "argument_share": ("few arguments", "many arguments"),
    "reject_share": ("few rejections", "many rejections"),
    "turns": ("short games", "long games"),
    "took_ask": ("seldom takes an ask", "takes the seller's ask"),
    "offer_taken": ("offers seldom taken", "the seller takes its offer"),
    "saving": ("little saved", "much saved"),
    "stalled": ("seldom stalls", "runs out of turns or loses the seller"),
    "left": ("seldom leaves", "leaves the table"),
    "broke_rule": ("seldom breaks a rule", "breaks a rule"),
}

LARGEST = 2.0  # shares of the budget


def _share(amount: pl.Expr) -> pl.Expr:
    return (amount / pl.col("budget")).clip(upper_bound=LARGEST)


def episode_features(episodes: pl.DataFrame) -> pl.DataFrame:
    """Return one row of numbers a game, in the order of the episodes; amounts are shares of the budget.

    An amount above twice the budget, a slip, counts as twice: otherwise one game could be a kind of its own.
    A game without a formal offer takes the median of the others, so that it neither opens high nor low; `concession`
    is what the buyer gave per further offer; a game without a deal saves nothing.
    """
    offers = pl.col("offers").list.drop_nulls()
    first, last = (_share(offers.list.first()), _share(offers.list.last()))
    messages = pl.col("offers").list.len()
    deal = pl.col("stop") == StopReason.DEAL
    # The buyer speaks first, so it spoke last where the count of messages is odd.
    buyer_ended = pl.col("messages").list.len() % 2 == 1
    ended = (buyer_ended & (pl.col("stop") != StopReason.SELLER_FAILED)).cast(pl.Int64)
    rejects = messages.cast(pl.Int64) - offers.list.len().cast(pl.Int64) - ended
    columns = {
        "first_offer_ratio": first,
        "last_offer_ratio": last,
        "concession": (last - first) / (offers.list.len().cast(pl.Float64) - 1).clip(lower_bound=1),
        "argument_share": pl.col("arguments").list.len() / messages,
        "reject_share": rejects.clip(lower_bound=0) / messages,
        "turns": pl.col("turns"),
        "took_ask": deal & buyer_ended,
        "offer_taken": deal & ~buyer_ended,
        "saving": pl.when(deal).then(1 - _share(pl.col("price"))).otherwise(0.0),
        "stalled": pl.col("stop").is_in([StopReason.MAX_TURNS.value, StopReason.SELLER_QUIT.value]),
        "left": pl.col("stop") == StopReason.BUYER_QUIT,
        "broke_rule": pl.col("stop") == StopReason.INVALID,
    }
    numbers = episodes.select(value.cast(pl.Float64).alias(name) for name, value in columns.items())
    return numbers.with_columns(pl.all().fill_null(pl.all().median()).fill_null(0.0).fill_nan(0.0))
