"""Pictures and counts of the evaluation games themselves: how they end, at which price, and by which words."""

from collections.abc import Sequence
from typing import Any

import polars as pl

from dealwright.agents.arguments import Argument, detect_argument
from dealwright.game import Role, StopReason, Zone, parse_message
from dealwright.game.reward import TOLERANCE
from dealwright.report.drawing import BLUE, GREEN, INK, ORANGE, PURPLE, QUIET, VERMILION, Picture, drawing, whole_steps
from dealwright.report.words import STOPS, buyer_name, number, percent, plain

_ENDS = {
    StopReason.DEAL: (GREEN, ""),
    StopReason.MAX_TURNS: (ORANGE, "//"),
    StopReason.SELLER_QUIT: (VERMILION, "\\\\"),
    StopReason.BUYER_QUIT: (PURPLE, "xx"),
    StopReason.INVALID: (INK, ""),
    StopReason.SELLER_FAILED: (QUIET, ".."),
}


def endings(games: pl.DataFrame, buyers: Sequence[str], seller: str) -> Picture | None:
    """Draw how the games of each buyer against one seller end."""
    counts = games.filter(pl.col("seller") == seller).group_by("buyer", "stop").len()
    rows = []
    for buyer in buyers:
        ends = dict(counts.filter(pl.col("buyer") == buyer).select("stop", "len").iter_rows())
        if ends:
            rows.append((buyer_name(buyer), {stop: count / sum(ends.values()) for stop, count in ends.items()}))
    if not rows:
        return None
    words = "; ".join(
        f"{name}: " + ", ".join(f"{STOPS[stop]} {percent(shares[stop])}" for stop in STOPS if shares.get(stop))
        for name, shares in rows
    )
    with drawing(
        "endings", f"Where games end, against the {plain(seller)} seller", words, 1.2 + 0.36 * len(rows)
    ) as canvas:
        left = [0.0] * len(rows)
        for stop, (colour, hatch) in _ENDS.items():
            widths = [shares.get(stop, 0.0) for _, shares in rows]
            if not any(widths):
                continue
            canvas.axes.barh(
                range(len(rows)),
                widths,
                left=left,
                height=0.7,
                label=STOPS[stop],
                color=colour,
                alpha=0.75,
                hatch=hatch,
            )
            left = [before + width for before, width in zip(left, widths, strict=True)]
        canvas.axes.set_yticks(range(len(rows)), [name for name, _ in rows])
        canvas.axes.set_ylim(len(rows) - 0.5, -0.5)
        canvas.axes.set_xlim(0, 1)
        canvas.axes.grid(axis="y", visible=False)
        canvas.axes.set_xlabel("share of games")
        canvas.axes.figure.legend(loc="outside upper left", ncols=3)
    return canvas.picture


def concessions(games: pl.DataFrame, buyers: Sequence[str], seller: str) -> Picture | None:
    """Draw the mean formal offer and ask by turn, as shares of the list price."""
    curves = []
    for buyer in buyers:
        chosen = games.filter((pl.col("buyer") == buyer) & (pl.col("seller") == seller))
        if chosen.height:
            curves.append((buyer, _by_turn(chosen, "offers"), _by_turn(chosen, "asks")))
    if not curves:
        return None
    words = "; ".join(
        f"{buyer_name(buyer)} {kind} " + ", ".join(f"{number(value)} at turn {turn}" for turn, value in curve)
        for buyer, offers, asks in curves
        for kind, curve in (("offers", offers), ("gets asks of", asks))
    )
    title = f"Mean offer and ask by turn, against the {plain(seller)} seller"
    with drawing("concessions", title, words, 3.0) as canvas:
        for (buyer, offers, asks), colour in zip(curves, (BLUE, QUIET, ORANGE), strict=False):
            name = buyer_name(buyer)
            canvas.axes.plot(*_split(offers), color=colour, marker="o", label=f"{name}: offer")
            canvas.axes.plot(*_split(asks), color=colour, marker="s", linestyle="--", label="its seller: ask")
        whole_steps(canvas.axes)
        canvas.axes.set_xlabel("turn")
        canvas.axes.set_ylabel("share of the list price")
        canvas.axes.figure.legend(loc="outside upper left", ncols=2)
    return canvas.picture


def final_prices(games: pl.DataFrame, buyers: Sequence[str], seller: str) -> Picture | None:
    """Draw where between cost (0) and budget (1) the deals of the mutual zone lie."""
    place = (pl.col("price") - pl.col("cost")) / (pl.col("budget") - pl.col("cost"))
    overshot = pl.col("price") > pl.col("budget") + TOLERANCE
    deals = games.filter(
        (pl.col("seller") == seller) & (pl.col("zone") == Zone.MUTUAL) & (pl.col("stop") == StopReason.DEAL)
    ).with_columns(place=pl.when(overshot).then(1.05).otherwise(place.clip(0.0, 0.999)))
    rows = [(buyer, deals.filter(pl.col("buyer") == buyer)["place"].to_list()) for buyer in buyers]
    rows = [(buyer, places) for buyer, places in rows if places]
    if not rows:
        return None
    words = "; ".join(
        f"{buyer_name(buyer)}: half of {len(places)} deals at {number(sorted(places)[len(places) // 2])} or less"
        for buyer, places in rows
    )
    title = f"Final prices between cost and budget, against the {plain(seller)} seller"
    with drawing("prices", title, words, 2.8) as canvas:
        edges = [step / 10 for step in range(12)]
        for (buyer, places), colour, dash in zip(rows, (BLUE, QUIET, ORANGE), ("-", "--", "-."), strict=False):
            weights = [1 / len(places)] * len(places)
            canvas.axes.hist(
                places, edges, weights=weights, histtype="step", color=colour, linestyle=dash, linewidth=2,
                label=buyer_name(buyer),
            )  # fmt: skip
        canvas.axes.axvline(1, color=INK, linewidth=1)
        canvas.axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["C", "¼", "½", "¾", "B"])
        canvas.axes.text(
            1.05,
            0.5,
            "above B",
            rotation=90,
            transform=canvas.axes.get_xaxis_transform(),
            ha="center",
            va="center",
            fontsize=9,
        )
        canvas.axes.set_xlim(0, 1.1)
        canvas.axes.set_ylabel("share of its deals")
        canvas.axes.figure.legend(loc="outside upper left", ncols=3)
    return canvas.picture


def argument_uses(games: pl.DataFrame, buyer: str, seller: str) -> list[dict[str, Any]]:
    """Count each kind of argument in a buyer's messages, and how far the seller's ask fell in reply.

    The fall is a share of list price less cost, on average; a reply without an ask is left out. Messages without an
    argument stand under the kind None, so that what an argument brings can be compared.
    """
    chosen = games.filter((pl.col("buyer") == buyer) & (pl.col("seller") == seller))
    uses: dict[Argument | None, dict[str, Any]] = {}
    for row in chosen.iter_rows(named=True):
        ask, kinds = row["list_price"], set()
        spoken = [message["text"] for message in row["messages"] if message["role"] == Role.BUYER]
        for place, text in enumerate(spoken):
            message = parse_message(text, Role.BUYER)
            kind = detect_argument(message.talk) if message else None
            use = uses.setdefault(kind, {"messages": 0, "games": 0, "falls": [], "rewards": []})
            use["messages"] += 1
            if kind not in kinds:
                use["games"] += 1
                use["rewards"].append(row["reward"])
            kinds.add(kind)
            reply = row["asks"][place] if place < len(row["asks"]) else None
            if reply is not None and row["list_price"] > row["cost"]:
                use["falls"].append((ask - reply) / (row["list_price"] - row["cost"]))
                ask = reply
    return [
        {
            "kind": plain(kind) if kind else None,
            "messages": uses[kind]["messages"],
            "games": uses[kind]["games"] / chosen.height,
            "fall": _mean(uses[kind]["falls"]),
            "reward": _mean([reward for reward in uses[kind]["rewards"] if reward is not None]),
        }
        for kind in [*Argument, None]
        if kind in uses
    ]


def interventions(games: pl.DataFrame) -> list[dict[str, Any]]:
    """Count the regulator's interventions by seller and reason, and the part that the trained buyer met."""
    found = (
        games.select("buyer", "seller", "interventions")
        .explode("interventions")
        .drop_nulls("interventions")
        .unnest("interventions")
        .group_by("seller", "reason")
        .agg(pl.len().alias("count"), (pl.col("buyer") == "trained").sum().alias("trained"))
        .sort("seller", "reason")
    )
    played = games.group_by("seller").agg(pl.len().alias("games"))
    return found.join(played, on="seller", how="left", maintain_order="left").to_dicts()


def _by_turn(games: pl.DataFrame, column: str) -> list[tuple[int, float]]:
    amounts = games.select("list_price", amount=pl.col(column), turn=pl.int_ranges(1, pl.col(column).list.len() + 1))
    means = (
        amounts.explode("amount", "turn")
        .drop_nulls("amount")
        .group_by("turn")
        .agg((pl.col("amount") / pl.col("list_price")).mean())
        .sort("turn")
    )
    return list(means.iter_rows())


def _split(curve: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [turn for turn, _ in curve], [value for _, value in curve]


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None
