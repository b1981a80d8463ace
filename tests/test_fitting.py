"""Text-free games, and the fits of the scripted ladders."""

from random import Random

import pytest

from dealwright.agents import (
    COLUMNS,
    FIXED_POLICIES,
    ConcessionSeller,
    Ladder,
    Policy,
    ScriptedBuyer,
    fit_ladder,
    mean_reward,
    play_text_free,
)
from dealwright.agents.fitting import FIRST_GUESS
from dealwright.game import reward
from dealwright.rollout import rollout
from tests.games import a_scenario, some_scenarios

ADAPTIVE = Ladder((0.5, 0.6, 0.66, 0.72, 0.8, 0.9), "cues", (0.0, 0.62, 0.68, 0.75, 0.8, 0.97), 0.95)
POLICIES: dict[str, Policy] = {
    **FIXED_POLICIES,
    "best_ladder": Ladder((0.56, 0.63, 0.69, 0.75, 0.81, 0.89)),
    "cue_ladder": Ladder((0.56, 0.63, 0.68, 0.74, 0.81, 0.98), "cues"),
    "adaptive_cue": ADAPTIVE,
    "adaptive": Ladder(ADAPTIVE.rungs, "nothing", ADAPTIVE.thresholds, 0.95),
}


@pytest.mark.parametrize("column", list(COLUMNS))
@pytest.mark.parametrize("name", list(POLICIES))
def test_a_game_without_words_ends_as_the_same_game_in_words(name: str, column: str) -> None:
    scenarios = some_scenarios(40)
    in_words = rollout(scenarios, [3], ScriptedBuyer(POLICIES[name]), ConcessionSeller(column), (name, column))
    assert [episode.outcome for episode in in_words] == [
        play_text_free(POLICIES[name], scenario, column, 3) for scenario in scenarios
    ]
    assert not any(episode.interventions for episode in in_words)


def test_a_game_without_words_may_have_another_number_of_turns() -> None:
    scenarios = some_scenarios(40)
    policy = POLICIES["cue_ladder"]
    in_words = rollout(scenarios, [0], ScriptedBuyer(policy), ConcessionSeller("training"), ("b", "s"), max_turns=3)
    outcomes = [play_text_free(policy, scenario, "training", 0, max_turns=3) for scenario in scenarios]
    assert [episode.outcome for episode in in_words] == outcomes
    assert {outcome.turns for outcome in outcomes} <= {1, 2, 3}


def test_the_mean_is_taken_over_scenarios_and_rounds() -> None:
    scenarios = some_scenarios(5)
    rewards = [
        reward(scenario, play_text_free(ADAPTIVE, scenario, "begging", round))
        for scenario in scenarios
        for round in (4, 9)
    ]
    assert mean_reward(ADAPTIVE, scenarios, "begging", [4, 9]) == pytest.approx(
        sum(earned for earned in rewards if earned is not None) / 10
    )


ALIKE = [a_scenario(seed=seed) for seed in range(60)]


def small_fit(plain: Ladder | None = None, seed: int = 0) -> Ladder:
    return fit_ladder(ALIKE, "training", "nothing", plain, seed, population=12, iterations=6)


def test_a_fitted_ladder_earns_more_than_the_guess_that_the_search_starts_from() -> None:
    fitted = small_fit()
    fresh = [100, 101, 102]
    guess = Ladder(FIRST_GUESS)
    assert mean_reward(fitted, ALIKE, "training", fresh) > mean_reward(guess, ALIKE, "training", fresh) + 0.05
    assert (len(fitted.rungs), fitted.reading, fitted.thresholds, fitted.ask_share) == (6, "nothing", (), None)
    assert list(fitted.rungs) == sorted(fitted.rungs)


def test_an_adaptive_fit_has_five_thresholds_and_a_share_of_the_ask_beside_its_rungs() -> None:
    fitted = small_fit(Ladder(FIRST_GUESS))
    assert len(fitted.rungs) == 6
    assert len(fitted.thresholds) == 6 and fitted.thresholds[0] == 0.0
    assert fitted.ask_share is not None and 0.8 < fitted.ask_share <= 1.0


def test_a_fit_follows_from_its_seed() -> None:
    assert small_fit(seed=1) == small_fit(seed=1)
    assert small_fit(seed=1) != small_fit(seed=2)


def test_an_adaptive_fit_starts_as_the_plain_ladder_that_it_extends() -> None:
    plain = Ladder((0.5, 0.6, 0.66, 0.72, 0.8, 0.9), "cues")
    unsearched = fit_ladder(some_scenarios(1), "training", "cues", plain, 0, population=4, iterations=0)
    assert unsearched == Ladder(plain.rungs, "cues", (0.0, *plain.rungs[1:]), 1.0)
    draw = Random(0)
    for scenario in some_scenarios(30):
        round = draw.randrange(100)
        assert play_text_free(unsearched, scenario, "training", round) == play_text_free(
            plain, scenario, "training", round
        )
