"""The concession seller with one road of language cut: the same seller in everything else."""

import polars as pl
import pytest

from dealwright.agents import ABLATIONS, Argument, ConcessionSeller, detect_cues, draw_type
from dealwright.errors import DealwrightError
from dealwright.evaluation.reading import reading_figures
from dealwright.game import Negotiation, Role
from dealwright.params import Evaluate
from dealwright.players import make_seller
from tests.games import a_scenario, say

TWO_OFFERS = [say("[BUY] $40"), say("[BUY] $42", "I can pay cash today.")]


def asks(seller: ConcessionSeller, *texts: str, seed: int = 0) -> list[float | None]:
    """Return the seller's asks, its cues being lost on a buyer that recites."""
    game = Negotiation(a_scenario(cost=20.0, seed=seed))
    for text in texts:
        if game.outcome is None:
            game.play(Role.BUYER, text)
        if game.outcome is None:
            game.play(Role.SELLER, seller.respond([game])[0])
    return game.offers(Role.SELLER)


def first_words(seller: ConcessionSeller, seed: int) -> list[Argument]:
    game = Negotiation(a_scenario(cost=20.0, seed=seed))
    game.play(Role.BUYER, say("[BUY] $50"))
    game.play(Role.SELLER, seller.respond([game])[0])
    message = game.transcript[-1].message
    assert message is not None
    return sorted(detect_cues(message.talk))


def receptive(seed: int) -> list[Argument]:
    return sorted(draw_type("training", a_scenario(cost=20.0, seed=seed), 0).receptive)


def test_with_talk_emptied_an_argument_changes_nothing() -> None:
    mute = [text.replace("I can pay cash today.", "") for text in TWO_OFFERS]
    for seed in range(20):
        assert asks(ABLATIONS["talk_emptied"]("training"), *TWO_OFFERS, seed=seed) == asks(
            ConcessionSeller("training"), *mute, seed=seed
        )
    plain = ConcessionSeller("training")
    assert any(asks(plain, *TWO_OFFERS, seed=seed) != asks(plain, *mute, seed=seed) for seed in range(20))


def test_stock_arguments_are_the_six_kinds_in_turn_whatever_was_said() -> None:
    # The first argument of a game is then the first kind, a cheaper competitor.
    competitor = [text.replace("I can pay cash today.", "Another shop asks less.") for text in TWO_OFFERS]
    for seed in range(20):
        assert asks(ABLATIONS["stock_arguments"]("training"), *TWO_OFFERS, seed=seed) == asks(
            ConcessionSeller("training"), *competitor, seed=seed
        )


def test_with_cues_removed_the_seller_hints_at_nothing_and_is_moved_as_before() -> None:
    for seed in range(20):
        assert first_words(ABLATIONS["cues_removed"]("training"), seed) == []
        assert first_words(ConcessionSeller("training"), seed) == receptive(seed)
        assert asks(ABLATIONS["cues_removed"]("training"), *TWO_OFFERS, seed=seed) == asks(
            ConcessionSeller("training"), *TWO_OFFERS, seed=seed
        )


def test_swapped_cues_are_those_of_another_game_and_say_nothing_about_this_one() -> None:
    swapped = ABLATIONS["cues_swapped"]("training")
    hints = [first_words(swapped, seed) for seed in range(300)]
    assert {len(kinds) for kinds in hints} == {2}
    assert first_words(swapped, 7) == first_words(swapped, 7)
    agreeing = sum(len(set(kinds) & set(receptive(seed))) for seed, kinds in enumerate(hints)) / 600
    assert agreeing == pytest.approx(1 / 3, abs=0.05)  # two of six kinds, by chance


def test_a_seller_with_a_road_cut_is_seated_by_its_name() -> None:
    assert type(make_seller("stronger/cues_removed")) is ABLATIONS["cues_removed"]
    for name in ("training/whispering", "nobody/cues_removed", "floor_only/cues_removed"):
        with pytest.raises(DealwrightError, match=f"unknown seller '{name}'; expected one of training, stronger"):
            make_seller(name)


def games(seller: str, rewards: dict[str, float], arguments: list[str], talk: str) -> list[dict[str, object]]:
    """Return one game a product of the buyer `b`, with a seller's first reply."""
    messages = [
        {"role": "buyer", "text": say("[BUY] $50")},
        {"role": "seller", "text": say("[SELL] $90", talk)},
    ]
    return [
        {
            **{"scenario_id": f"s-{product}", "product_id": product, "buyer": "b", "seller": seller, "round": 0},
            **{"stop": "deal", "reward": reward, "arguments": arguments, "messages": messages},
        }
        for product, reward in rewards.items()
    ]


PARAMS = Evaluate(
    seed=0,
    rounds=1,
    buyers=(),
    sellers=("training",),
    ablations=("cues_removed",),
    resamples=500,
    bound_offers=8,
    belief_rounds=0,
)


def test_the_loss_of_an_ablation_is_paired_and_hinted_arguments_are_counted() -> None:
    played = pl.DataFrame(
        [
            *games("training", {"p": 0.5, "q": 0.3}, ["prompt_payment", "condition"], "My bills are due."),
            *games("training/cues_removed", {"p": 0.4, "q": 0.2}, ["condition"], "Good day."),
        ]
    )
    figures = reading_figures(played, "training", ["training/cues_removed"], PARAMS)
    assert set(figures) == {"b"}
    loss = figures["b"]["cues_removed"]
    assert (loss["value"], loss["low"], loss["high"]) == pytest.approx((-0.1, -0.1, -0.1))
    assert loss["games"] == 2
    assert figures["b"]["hinted_share"] == {"value": 0.5, "low": 0.5, "high": 0.5, "games": 2}


def test_a_buyer_that_never_argues_has_no_share_of_hinted_arguments() -> None:
    silent = games("training", {"p": 0.5}, [], "Good day.")
    played = pl.DataFrame(silent, schema_overrides={"arguments": pl.List(pl.String)})
    assert reading_figures(played, "training", ["training/cues_removed"], PARAMS) == {"b": {}}
