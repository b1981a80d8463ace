"""Who was champion, and why: one tag of the registered model for every time that the alias was moved.

The alias itself is the truth. A tag is written before the alias moves, so after a kill between the two the history
holds a move that never happened; whoever moves the alias by hand leaves no tag. Both are allowed for.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dealwright.tracking.connection import TrackingError

if TYPE_CHECKING:
    from mlflow import MlflowClient

CHAMPION = "champion"
_TAG = f"{CHAMPION} "


@dataclass(frozen=True, slots=True)
class Move:
    """One move of the alias: to which version, from which, and why; `back` for a rollback."""

    version: int
    previous: int | None
    reason: str
    back: bool


def read_moves(tags: Mapping[str, str]) -> list[Move]:
    """Return the moves that the tags of a registered model tell of, oldest first."""
    moves = []
    for key in sorted(key for key in tags if key.startswith(_TAG)):
        try:
            moves.append(Move(**json.loads(tags[key])))
        except (TypeError, ValueError) as error:
            raise TrackingError(
                f"expected the tag {key!r} of the registered model as `dealwright promote` writes it, got "
                f"{tags[key]!r}; mend or delete it in MLflow"
            ) from error
    return moves


def move_champion(client: "MlflowClient", name: str, move: Move) -> None:
    """Point the alias at a version and keep why."""
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%f}"
    client.set_registered_model_tag(name, f"{_TAG}{when}", json.dumps(asdict(move), ensure_ascii=False))
    client.set_registered_model_alias(name, CHAMPION, str(move.version))


def champions_before(moves: Sequence[Move], current: int) -> list[int]:
    """Return the versions that were champion before the present one, the latest first.

    A rollback takes the champion that it left off the list: 1, 2, 3, back to 2 leaves only 1 before 2.
    """
    line: list[int] = []
    for move in moves:
        if move.previous is not None:
            line = _cut(line, move.previous)
        line = _cut(line, move.version) if move.back else [*line, move.version]
    return _cut(line, current)[-2::-1]


def _cut(line: list[int], version: int) -> list[int]:
    """Cut a line of champions behind a version's last place in it; one that has no place is put at its end."""
    places = [place for place, one in enumerate(line) if one == version]
    return line[: places[-1] + 1] if places else [*line, version]
