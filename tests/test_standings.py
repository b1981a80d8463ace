"""The order of registered versions, and which of them are as good as the best."""

import pytest

from dealwright.tracking.connection import TrackingError
from dealwright.tracking.versions import RegisteredModel, all_pages, standings

SAME = {"scenarios_hash": "abc"}


def tags(reward: float, low: float, high: float, **others: str) -> dict[str, str]:
    figures = {"validation_reward": reward, "validation_reward_low": low, "validation_reward_high": high}
    return {**SAME, **{key: str(value) for key, value in figures.items()}, "step": "4", **others}


def model(versions: dict[int, dict[str, str]], runs: dict[int, str] | None = None, **aliases: int) -> RegisteredModel:
    return RegisteredModel("buyer", versions, runs or dict.fromkeys(versions, "run"), aliases, {})


def marks(registered: RegisteredModel) -> list[tuple[int, bool]]:
    return [(row.version, row.tied) for row in standings(registered, overshoot=0.02)]


def test_versions_stand_by_reward_and_those_without_one_come_last() -> None:
    registered = model({1: tags(0.1, 0.0, 0.2), 2: {"step": "4"}, 3: tags(0.3, 0.2, 0.4)}, champion=1, candidate=1)
    rows = standings(registered, overshoot=0.02)
    assert [row.version for row in rows] == [3, 1, 2]
    assert (rows[1].reward, rows[1].low, rows[1].high, rows[1].step) == (0.1, 0.0, 0.2, 4)
    assert rows[1].aliases == ("candidate", "champion")
    assert (rows[2].reward, rows[2].tied) == (None, False)


def test_versions_of_one_training_are_tied_by_their_paired_interval() -> None:
    versions = {
        1: tags(0.29, 0.2, 0.38, validation_difference_high="-0.001"),
        2: tags(0.20, 0.1, 0.30, validation_difference_high="0.0"),
        3: tags(0.30, 0.2, 0.40, validation_difference_high="0.0"),
        4: tags(0.30, 0.2, 0.40),
    }
    assert marks(model(versions)) == [(3, True), (4, False), (1, False), (2, True)]


def test_versions_of_two_trainings_are_tied_by_their_own_intervals() -> None:
    # hypot(0.03, 0.04) is 0.05, so a version is tied up to 0.05 below the best.
    versions = {1: tags(0.50, 0.46, 0.54), 2: tags(0.451, 0.42, 0.481), 3: tags(0.449, 0.42, 0.479)}
    assert marks(model(versions, {1: "a", 2: "b", 3: "b"})) == [(1, True), (2, True), (3, False)]


def test_other_scenarios_are_no_ground_for_a_tie() -> None:
    versions = {1: tags(0.50, 0.46, 0.54), 2: tags(0.49, 0.42, 0.56, scenarios_hash="other")}
    assert marks(model(versions, {1: "a", 2: "b"})) == [(1, True), (2, False)]


def test_a_version_that_goes_above_its_budget_too_often_is_not_the_best() -> None:
    versions = {
        1: tags(0.9, 0.8, 1.0, validation_overshoot_rate="0.021"),
        2: tags(0.5, 0.4, 0.6, validation_overshoot_rate="0.02"),
    }
    assert marks(model(versions)) == [(1, False), (2, True)]
    assert marks(model({1: versions[1]})) == [(1, True)]


@pytest.mark.parametrize("value", ["", "n/a", "nan", "inf"])
def test_a_figure_that_is_no_number_counts_as_missing_and_never_wins(value: str) -> None:
    versions = {1: {**tags(0.1, 0.0, 0.2), "validation_reward": value}, 2: tags(0.1, 0.0, 0.2)}
    assert marks(model(versions)) == [(2, True), (1, False)]


def test_a_version_is_found_by_number_and_by_alias() -> None:
    registered = model({1: {}, 12: {}}, champion=12)
    assert registered.find("1") == 1
    assert registered.find("@champion") == 12
    assert registered.champion == 12


def test_every_page_of_a_search_is_read() -> None:
    pages = {None: ([1, 2], "second"), "second": ([3], "third"), "third": ([], "")}

    class Page(list[int]):
        token: str

    def search(query: str, max_results: int, page_token: str | None) -> Page:
        assert (query, max_results) == ("name = 'a'", 1000)
        found, token = pages[page_token]
        page = Page(found)
        page.token = token
        return page

    assert all_pages(search, "name = 'a'") == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("3", "buyer has no version 3; there are 1, 12"),
        ("@best", "no version of buyer has the alias @best; there are @champion"),
        ("best", "expected a version, as in 7, or an alias, as in @champion, got 'best'"),
        ("-1", "expected a version, as in 7, or an alias, as in @champion, got '-1'"),
        ("", "expected a version, as in 7, or an alias, as in @champion, got ''"),
    ],
)
def test_what_is_not_registered_is_named_with_what_is(name: str, message: str) -> None:
    with pytest.raises(TrackingError, match=f"^{message}$"):
        model({1: {}, 12: {}}, champion=12).find(name)
