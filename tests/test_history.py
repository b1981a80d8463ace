"""Who was champion before, from the moves that are recorded."""

import json

import pytest

from dealwright.tracking.connection import TrackingError
from dealwright.tracking.history import Move, champions_before, read_moves


def move(version: int, previous: int | None) -> Move:
    return Move(version, previous, "better", back=False)


def back(version: int, previous: int) -> Move:
    return Move(version, previous, f"rolled back from version {previous}", back=True)


FIRST, SECOND, THIRD = move(1, None), move(2, 1), move(3, 2)


def test_the_champions_before_come_latest_first() -> None:
    assert champions_before([FIRST, SECOND, THIRD], 3) == [2, 1]
    assert champions_before([FIRST], 1) == []
    assert champions_before([], 4) == []


def test_a_rollback_leaves_the_champion_that_failed_out_of_the_line() -> None:
    moves = [FIRST, SECOND, THIRD, back(2, 3)]
    assert champions_before(moves, 2) == [1]
    assert champions_before([*moves, back(1, 2)], 1) == []
    assert champions_before([*moves, move(3, 2)], 3) == [2, 1]


def test_a_version_may_be_champion_twice() -> None:
    assert champions_before([FIRST, SECOND, move(1, 2)], 1) == [2, 1]


def test_a_champion_made_by_hand_has_its_place() -> None:
    assert champions_before([FIRST, move(6, 5)], 6) == [5, 1]
    assert champions_before([FIRST, SECOND], 7) == [2, 1]


def test_a_move_that_was_recorded_but_never_made_counts_for_nothing() -> None:
    assert champions_before([FIRST, SECOND, THIRD], 2) == [1]
    assert champions_before([FIRST, SECOND, THIRD, move(4, 2)], 4) == [2, 1]


def test_moves_are_read_in_the_order_of_their_times_and_other_tags_are_left_alone() -> None:
    tags = {
        "champion 2026-02-01 00:00:00.000000": '{"version": 2, "previous": 1, "reason": "gain", "back": false}',
        "champion 2026-01-01 00:00:00.000000": '{"version": 1, "previous": null, "reason": "first", "back": false}',
        "owner": "someone",
    }
    assert read_moves(tags) == [Move(1, None, "first", False), Move(2, 1, "gain", False)]


@pytest.mark.parametrize("value", ["no JSON", json.dumps([1]), json.dumps({"version": 1}), json.dumps(None)])
def test_a_tag_that_nobody_can_read_is_named(value: str) -> None:
    with pytest.raises(TrackingError, match=r"the tag 'champion x' of the registered model .* mend or delete it"):
        read_moves({"champion x": value})
