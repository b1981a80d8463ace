import polars as pl
import pytest

from dealwright.evaluation.compare import EvaluationError, compare, evaluate_games, headline, measure
from dealwright.evaluation.metrics import means, prepare
from dealwright.params import Evaluate

PARAMS = Evaluate(
    seed=0, rounds=1, buyers=(), sellers=("training",), ablations=(), resamples=1000, bound_offers=8, belief_rounds=0
)

SCHEMA: dict[str, pl.DataType | type[pl.DataType]] = {
    "scenario_id": pl.String,
    "product_id": pl.String,
    "category": pl.String,
    "zone": pl.String,
    "buyer": pl.String,
    "seller": pl.String,
    "round": pl.Int64,
    "stop": pl.String,
    "price": pl.Float64,
    "budget": pl.Float64,
    "cost": pl.Float64,
    "reward": pl.Float64,
    "turns": pl.Int64,
    "first_offer": pl.Float64,
    "arguments": pl.List(pl.String),
    "interventions": pl.List(pl.Struct({"turn": pl.Int64, "reason": pl.String, "text": pl.String})),
    "leaks": pl.Int64,
    "unsupported_numbers": pl.Int64,
    "ask_rises": pl.Int64,
}


def game(product: str = "a", **fields: object) -> dict[str, object]:
    """A game without a deal over a product of budget 80 and cost 40."""
    return {
        "scenario_id": f"s-{product}",
        "product_id": product,
        "category": "books",
        "zone": "mutual",
        "buyer": "trained",
        "seller": "training",
        "round": 0,
        "stop": "max_turns",
        "price": None,
        "budget": 80.0,
        "cost": 40.0,
        "reward": 0.0,
        "turns": 6,
        "first_offer": None,
        "arguments": [],
        "interventions": [],
        "leaks": 0,
        "unsupported_numbers": 0,
        "ask_rises": 0,
        **fields,
    }


def frame(*games: dict[str, object]) -> pl.DataFrame:
    return pl.DataFrame(list(games), schema=SCHEMA)


def deal(product: str, reward: float, **fields: object) -> dict[str, object]:
    return game(product, **{"stop": "deal", "reward": reward, "price": 80 - 40 * reward, "turns": 3, **fields})


FOUR = frame(
    deal("a", 0.75, first_offer=40.0, arguments=["condition", "condition"], leaks=2),
    game("b", stop="buyer_quit", turns=2, first_offer=20.0, unsupported_numbers=3),
    game("c", stop="invalid", reward=-1.0, turns=1),
    game(
        "d",
        stop="deal",
        price=90.0,
        reward=-1.0,
        turns=5,
        first_offer=60.0,
        ask_rises=1,
        interventions=[{"turn": 1, "reason": "leak", "text": ""}, {"turn": 2, "reason": "rise", "text": ""}],
    ),
)


def test_each_metric_is_its_mean_over_the_games_it_counts() -> None:
    assert means(FOUR) == pytest.approx(
        {
            "reward": -0.3125,
            "deal_rate": 0.5,
            "bargained_ratio": (0.75 - 0.25) / 2,
            "first_offer_ratio": 0.5,
            "overshoot_rate": 0.25,
            "invalid_rate": 0.25,
            "quit_rate": 0.25,
            "max_turns_rate": 0.0,
            "mean_turns": 2.75,
            "argument_rate": 0.25,
            "intervention_rate": 0.25,
            "malformed_intervention_rate": 0.0,
            "below_cost_intervention_rate": 0.0,
            "leak_intervention_rate": 0.25,
            "rise_intervention_rate": 0.25,
            "ask_rise_rate": 0.25,
            "leak_rate": 0.25,
            "unsupported_number_rate": 0.25,
            "failed_rate": 0.0,
        }
    )


def test_a_metric_without_games_is_absent() -> None:
    found = means(frame(game()))
    assert "bargained_ratio" not in found
    assert "first_offer_ratio" not in found
    assert "share_of_best_response" not in found
    assert found["reward"] == 0.0


def test_bargained_ratio_leaves_the_conflict_zone_out() -> None:
    conflict = deal("b", -0.5, zone="conflict", budget=80.0, cost=90.0, price=80.0)
    assert means(frame(deal("a", 0.75), conflict))["bargained_ratio"] == 0.75
    assert "bargained_ratio" not in means(frame(conflict))


def test_a_deal_a_hair_above_the_budget_is_no_overshoot() -> None:
    assert means(frame(deal("a", 0.0, price=80.000001)))["overshoot_rate"] == 0.0
    assert means(frame(deal("a", -1.0, price=80.01)))["overshoot_rate"] == 1.0


def test_metrics_say_over_how_many_games_they_were_taken() -> None:
    found = measure(prepare(FOUR), ("buyer",), 100, 0)[("trained",)]
    assert found["reward"].games == 4
    assert found["bargained_ratio"].games == 2
    assert found["first_offer_ratio"].games == 3


def test_reasons_of_interventions_are_told_only_of_a_seller_that_was_refused_something() -> None:
    found = measure(prepare(pl.concat([FOUR, frame(game("a", seller="stronger"))])), ("seller",), 100, 0)
    reasons = ("malformed", "below_cost", "leak", "rise")
    told = {reason: found[("training",)][f"{reason}_intervention_rate"] for reason in reasons}
    assert [(each.value, each.games) for each in told.values()] == [(0.0, 4), (0.0, 4), (0.25, 4), (0.25, 4)]
    assert [name for name in found[("stronger",)] if "intervention" in name] == ["intervention_rate"]


def test_share_of_best_response_is_a_ratio_of_sums_over_the_games_with_a_bound() -> None:
    best = pl.DataFrame(
        {
            "scenario_id": ["s-a", "s-b", "s-c"],
            "round": [0, 0, 0],
            "seller": ["training"] * 3,
            "best_response": [0.9, 0.6, 0.5],
        }
    )
    games = frame(deal("a", 0.75), game("b"), deal("c", 0.25), deal("d", 1.0))
    found = measure(prepare(games, best), ("seller",), 100, 0)
    assert found[("training",)]["share_of_best_response"].value == pytest.approx(1.0 / 2.0)
    assert found[("training",)]["share_of_best_response"].games == 3


def test_share_of_best_response_is_absent_where_nothing_can_be_won() -> None:
    best = pl.DataFrame({"scenario_id": ["s-a"], "round": [0], "seller": ["training"], "best_response": [0.0]})
    assert "share_of_best_response" not in measure(prepare(frame(game("a")), best), ("seller",), 100, 0)[("training",)]


BROKEN = frame(
    game("a", stop="seller_failed", reward=None, turns=1),
    deal("b", 0.5),
    deal("a", 1.0, buyer="base"),
    deal("b", 0.25, buyer="base"),
    deal("a", 1.0, buyer="base", seller="stronger"),
)


def test_a_game_whose_seller_failed_is_dropped_for_all_buyers_and_charged_to_its_own() -> None:
    found = measure(prepare(BROKEN), ("buyer", "seller"), 100, 0)
    assert found["trained", "training"]["reward"].value == 0.5
    assert found["base", "training"]["reward"].value == 0.25
    assert found["base", "training"]["deal_rate"].games == 1
    assert found["base", "stronger"]["reward"].value == 1.0
    assert found["trained", "training"]["failed_rate"].value == 0.5
    assert found["base", "training"]["failed_rate"].value == 0.0
    assert found["trained", "training"]["failed_rate"].games == 2


def test_dropped_games_are_counted_by_seller() -> None:
    assert evaluate_games(BROKEN, "base", PARAMS, None)["dropped"] == {"stronger": 0, "training": 1}


def test_a_buyer_whose_every_seller_failed_has_its_failure_rate_alone() -> None:
    found = measure(prepare(frame(game(stop="seller_failed", reward=None))), ("buyer",), 100, 0)
    assert list(found[("trained",)]) == ["failed_rate"]


def test_buyers_are_compared_on_the_games_that_both_played() -> None:
    first = prepare(frame(deal("a", 0.75), deal("b", 0.5), deal("b", 1.0, round=1)))
    second = prepare(frame(deal("a", 0.5, buyer="base"), deal("b", 0.0, buyer="base"), deal("c", 1.0, buyer="base")))
    compared = compare(first, second, 100, 0)
    assert compared is not None
    assert compared[0].value == pytest.approx((0.25 + 0.5) / 2)
    assert compared[0].games == 2


def test_buyers_without_a_common_game_have_no_difference() -> None:
    assert compare(prepare(frame(deal("a", 0.5))), prepare(frame(deal("b", 0.5))), 100, 0) is None


def _field(buyer: str, seller: str, rewards: list[float]) -> list[dict[str, object]]:
    categories = ["books", "tools"]
    return [
        deal(f"p{index}", reward, buyer=buyer, seller=seller, category=categories[index % 2])
        for index, reward in enumerate(rewards)
    ]


TABLE = frame(
    *_field("trained", "training", [0.5, 0.6, 0.7, 0.8, 0.9, 0.7]),
    *_field("warmstart", "training", [0.2, 0.1, 0.3, 0.2, 0.1, 0.3]),
    *_field("base", "training", [0.1, 0.1, 0.1, 0.2, 0.1, 0.0]),
    *_field("cue_ladder", "training", [0.4, 0.4, 0.5, 0.5, 0.6, 0.6]),
    *_field("staller", "training", [0.5, 0.7, 0.6, 0.9, 0.8, 0.7]),
    *_field("trained", "stronger", [0.1, 0.3, 0.2, 0.1, 0.3, 0.2]),
    *_field("cue_ladder", "stronger", [0.3, 0.1, 0.1, 0.2, 0.2, 0.3]),
)


def test_the_report_holds_every_buyer_and_the_best_script_beside_them() -> None:
    report = evaluate_games(TABLE, "cue_ladder", PARAMS, None)
    assert sorted(report["buyers"]) == ["base", "best_script", "cue_ladder", "staller", "trained", "warmstart"]
    assert report["buyers"]["best_script"]["training"]["reward"]["value"] == pytest.approx(0.5)
    assert report["buyers"]["trained"]["training"]["reward"]["value"] == pytest.approx(0.7)
    assert report["buyers"]["trained"]["training"]["deal_rate"] == pytest.approx(
        {"value": 1.0, "low": 0.5407, "high": 1.0, "games": 6}, abs=1e-4
    )
    assert report["primary"] == {"buyer": "trained", "other": "best_script", "seller": "training"}


def test_the_headline_is_the_trained_buyer_against_the_primary_seller_in_a_dozen_figures() -> None:
    found = headline(evaluate_games(TABLE, "cue_ladder", PARAMS, None))
    assert found["reward"] == pytest.approx(0.7)
    assert found["gain_over_best_script"] == pytest.approx(0.2)
    assert found["gain_over_best_script_low"] < 0.2 < found["gain_over_best_script_high"]
    assert found["gain_over_warmstart"] == pytest.approx(0.5)
    assert found["overshoot_rate"] == found["invalid_rate"] == found["leak_rate"] == 0.0
    assert len(found) == 12  # and share_of_best_response where there is a bound


def test_the_report_pairs_the_trained_buyer_with_all_and_the_warm_start_with_its_base() -> None:
    paired = evaluate_games(TABLE, "cue_ladder", PARAMS, None)["paired"]
    assert sorted(paired) == ["trained", "warmstart"]
    assert sorted(paired["trained"]) == ["base", "best_script", "cue_ladder", "staller", "warmstart"]
    assert list(paired["warmstart"]) == ["base"]
    assert sorted(paired["trained"]["best_script"]) == ["stronger", "training"]
    assert paired["trained"]["best_script"]["training"]["value"] == pytest.approx(0.2)
    assert paired["warmstart"]["base"]["training"]["value"] == pytest.approx(0.1)


def test_the_primary_comparison_stands_alone_and_the_rest_of_the_family_is_corrected() -> None:
    paired = evaluate_games(TABLE, "cue_ladder", PARAMS, None)["paired"]["trained"]
    primary = paired["best_script"]["training"]
    assert primary["significant"] and "p_holm" not in primary
    # Three comparisons are corrected: warm start, base, and the best script against `stronger`.
    assert paired["warmstart"]["training"]["p_holm"] == pytest.approx(3 * paired["warmstart"]["training"]["p_value"])
    assert paired["warmstart"]["training"]["significant"]
    assert not paired["best_script"]["stronger"]["significant"]
    assert "significant" not in paired["staller"]["training"]


def test_the_report_breaks_the_trained_buyer_down_by_zone_and_category() -> None:
    report = evaluate_games(TABLE, "cue_ladder", PARAMS, None)
    assert report["by_zone"]["mutual"]["training"]["reward"]["value"] == pytest.approx(0.7)
    assert report["by_category"]["books"]["training"]["reward"]["value"] == pytest.approx(0.7)
    assert report["by_category"]["tools"]["stronger"]["reward"]["value"] == pytest.approx(0.2)
    assert report["by_category"]["tools"]["stronger"]["reward"]["games"] == 3


def test_the_report_bounds_what_must_hardly_ever_happen_exactly() -> None:
    safety = evaluate_games(TABLE, "cue_ladder", PARAMS, None)["safety"]
    assert safety["trained"]["training"]["overshoot_rate"] == pytest.approx(
        {"value": 0.0, "low": 0.0, "high": 0.4593, "games": 6}, abs=1e-4
    )
    assert safety["trained"]["all"]["leak_rate"] == pytest.approx(
        {"value": 0.0, "low": 0.0, "high": 0.2646, "games": 12}, abs=1e-4
    )


def test_the_report_says_what_the_best_response_earns() -> None:
    best = pl.DataFrame(
        {
            "scenario_id": [f"s-p{index}" for index in range(6)],
            "round": [0] * 6,
            "seller": ["training"] * 6,
            "best_response": [1.0, 1.0, 0.75, 0.75, 1.0, 0.75],
        }
    )
    report = evaluate_games(TABLE, "cue_ladder", PARAMS, best)
    assert report["bounds"]["clairvoyant"]["training"]["reward"]["value"] == pytest.approx(0.875)
    assert report["bounds"]["clairvoyant"]["training"]["reward"]["games"] == 6
    assert report["buyers"]["trained"]["training"]["share_of_best_response"]["value"] == pytest.approx(0.8)
    assert "share_of_best_response" not in report["buyers"]["trained"]["stronger"]
    assert list(report["bounds"]) == ["clairvoyant"]


def test_further_bounds_stand_beside_the_best_response() -> None:
    known = {"scenario_id": ["s-p0", "s-p1"], "round": [0, 0], "seller": ["training"] * 2}
    bounds = pl.DataFrame({**known, "best_response": [1.0, 0.8], "all_but_margin": [0.9, 0.7], "belief": [0.7, None]})
    found = evaluate_games(TABLE, "cue_ladder", PARAMS, bounds)["bounds"]
    assert found["all_but_margin"]["training"]["reward"]["value"] == pytest.approx(0.8)
    assert found["belief"]["training"]["reward"]["value"] == pytest.approx(0.7)
    assert found["belief"]["training"]["reward"]["games"] == 1


def test_a_missing_best_script_is_an_error_of_one_line() -> None:
    with pytest.raises(EvaluationError, match="the best script oracle has no episodes; expected it among base, "):
        evaluate_games(TABLE, "oracle", PARAMS, None)


def test_a_game_played_twice_is_an_error() -> None:
    with pytest.raises(EvaluationError, match="trained played scenario s-p0, round 0 against training more than once"):
        evaluate_games(pl.concat([TABLE, TABLE.head(1)]), "cue_ladder", PARAMS, None)
