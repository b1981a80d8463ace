"""Make up texts and games, guided by the code that they reach, and check them by tests/invariants.py: `make fuzz`.

Every input is a text for the parser and a game through the regulator. One that breaks a rule is shown, kept as
crash-<hash> in the working directory, and becomes a test. What was reached is counted, and told every 100,000 inputs.
The inputs that reached something new stay in corpus/, where the next run begins.
Arguments go to libFuzzer, as in `-runs=1000000`. Needs atheris, which requirements/tools.txt holds: CPython 3.11 to
3.13 on Linux.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["dealwright.game"]):
    import dealwright.game  # noqa: F401

from dealwright.game import OFFERS, Role, format_price, parse_message
from tests.games import a_scenario, say
from tests.invariants import Move, check_game, check_secrets, check_text

CORPUS = Path("corpus")
BYTES = 1024
# What random bytes hardly ever spell.
PIECES = (
    *("Thought:", "Talk:", "Action:", "\nTalk: ", "\nAction: ", "\n", "\r", "\u2028", " ", "\u200b"),
    *("[BUY]", "[SELL]", "[REJECT]", "[DEAL]", "[QUIT]", " $", "$", ",", ".", " dollars", "USD", "50.00", "80", "100"),
)
reached: Counter[str] = Counter()


def fuzz(data: bytes) -> None:
    """Check the text and the game that some bytes spell."""
    provider = atheris.FuzzedDataProvider(data)
    role = Role.SELLER if provider.ConsumeBool() else Role.BUYER
    cents = [provider.ConsumeIntInRange(1, 20_000) / 100 for _ in range(3)]
    scenario = a_scenario(cents[0], cents[1] + provider.ConsumeBool() / 1000, 0.8 * cents[2])
    # Limits, offers and what is said of them meet in few games of random amounts.
    amounts = (cents[1], scenario.budget, scenario.list_price)
    pieces = (*PIECES, *map(format_price, amounts))
    words = said(provider, role, amounts, pieces)
    check_text(words, role)
    reached["inputs"] += 1
    reached["a text that is a message"] += parse_message(words, role) is not None
    count, max_turns = provider.ConsumeIntInRange(0, 12), provider.ConsumeIntInRange(1, 6)
    moves = [move(provider, (Role.BUYER, Role.SELLER)[number % 2], amounts, pieces) for number in range(count)]
    regulated, monotone = provider.ConsumeBool(), provider.ConsumeBool()
    game = check_game(scenario, moves, max_turns, regulated, monotone, reached)
    check_secrets(game, role, provider.ConsumeIntInRange(1, 20_000) / 100, text(provider, pieces).strip())
    reached[f"ends: {game.outcome.stop if game.outcome else 'none yet'}"] += 1
    if reached["inputs"] % 100_000 == 0:
        print(", ".join(f"{name} {number:,}" for name, number in sorted(reached.items())), flush=True)


def text(provider: atheris.FuzzedDataProvider, pieces: Sequence[str]) -> str:
    """Spell a text of pieces of messages and of any letters."""
    parts = []
    for _ in range(provider.ConsumeIntInRange(0, 6)):
        at = provider.ConsumeIntInRange(0, 2 * len(pieces))
        parts.append(pieces[at] if at < len(pieces) else provider.ConsumeUnicodeNoSurrogates(8))
    return "".join(parts)


def said(provider: atheris.FuzzedDataProvider, role: Role, amounts: Sequence[float], pieces: Sequence[str]) -> str:
    """Spell a message of a side, mostly of its own kinds; at times any text."""
    kind = provider.ConsumeIntInRange(0, 9)
    if kind == 0:
        return text(provider, pieces)
    own = OFFERS[role]
    actions = (own, own, own, own, "DEAL", "DEAL", "REJECT", "QUIT", OFFERS[role.other])
    action = actions[kind - 1]
    at = provider.ConsumeIntInRange(0, 7)
    amount = amounts[at] if at < len(amounts) else provider.ConsumeIntInRange(1, 20_000) / 100
    price = "" if action in ("REJECT", "QUIT") else f" {format_price(amount)}"
    return say(f"[{action}]{price}", text(provider, pieces), text(provider, pieces))


def move(provider: atheris.FuzzedDataProvider, role: Role, amounts: Sequence[float], pieces: Sequence[str]) -> Move:
    """Spell a move: a message, or a deal at the standing offer or near it."""
    kind = provider.ConsumeIntInRange(0, 9)
    return kind - 2 if kind < 5 else said(provider, role, amounts, pieces)


def seeds() -> None:
    """Write inputs that are long enough for whole games, as libFuzzer begins with the shortest."""
    CORPUS.mkdir(exist_ok=True)
    draw = Random(0)
    for number in range(200):
        (CORPUS / f"seed-{number:03}").write_bytes(draw.randbytes(BYTES))


if __name__ == "__main__":
    seeds()
    atheris.Setup([*sys.argv, f"-max_len={BYTES}", "-len_control=0", "-reduce_inputs=0", str(CORPUS)], fuzz)
    atheris.Fuzz()
