"""Make up texts and games, guided by the code that they reach, and check them by tests/invariants.py: `make fuzz`.

Every input is a text for the parser and a game through the regulator. One that breaks a rule is shown, kept as
crash-<hash> in the working directory, and becomes a test. Arguments go to libFuzzer, as in `-runs=1000000`.
Needs atheris, which requirements/tools.txt holds: CPython 3.11 to 3.13 on Linux.
"""

import sys

import atheris

with atheris.instrument_imports(include=["dealwright.game"]):
    import dealwright.game  # noqa: F401

from dealwright.game import Role
from tests.games import a_scenario
from tests.invariants import Move, check_game, check_secrets, check_text

# What random bytes hardly ever spell.
PIECES = (
    *("Thought:", "Talk:", "Action:", "\nTalk: ", "\nAction: ", "\n", "\r", "\u2028", " ", "\u200b"),
    *("[BUY]", "[SELL]", "[REJECT]", "[DEAL]", "[QUIT]", " $", "$", ",", ".", " dollars", "USD", "50.00", "80", "100"),
)


def fuzz(data: bytes) -> None:
    """Check the text and the game that some bytes spell."""
    provider = atheris.FuzzedDataProvider(data)
    role = Role.SELLER if provider.ConsumeBool() else Role.BUYER
    check_text(text(provider), role)
    cents = [provider.ConsumeIntInRange(1, 20_000) / 100 for _ in range(3)]
    scenario = a_scenario(cents[0], cents[1] + provider.ConsumeBool() / 1000, 0.8 * cents[2])
    moves = [move(provider) for _ in range(provider.ConsumeIntInRange(0, 8))]
    regulated, monotone = provider.ConsumeBool(), provider.ConsumeBool()
    game = check_game(scenario, moves, provider.ConsumeIntInRange(1, 6), regulated, monotone)
    check_secrets(game, role, provider.ConsumeIntInRange(1, 20_000) / 100, text(provider).strip())


def text(provider: atheris.FuzzedDataProvider) -> str:
    """Spell a text of pieces of messages and of any letters."""
    parts = []
    for _ in range(provider.ConsumeIntInRange(0, 12)):
        at = provider.ConsumeIntInRange(0, 2 * len(PIECES))
        parts.append(PIECES[at] if at < len(PIECES) else provider.ConsumeUnicodeNoSurrogates(8))
    return "".join(parts)


def move(provider: atheris.FuzzedDataProvider) -> Move:
    """Spell a move: an offer with any Talk, a deal at the standing offer or near it, or any text."""
    kind = provider.ConsumeIntInRange(0, 7)
    if kind == 0:
        return provider.ConsumeIntInRange(-2, 2)
    if kind == 1:
        return text(provider)
    action = ("[BUY]", "[SELL]", "[BUY]", "[SELL]", "[DEAL]", "[REJECT]")[kind - 2]
    cents = provider.ConsumeIntInRange(1, 20_000)
    amount = "" if action == "[REJECT]" else f" ${cents // 100}.{cents % 100:02}"
    return f"Thought: {text(provider)}\nTalk: {text(provider)}\nAction: {action}{amount}"


if __name__ == "__main__":
    atheris.Setup(sys.argv, fuzz)
    atheris.Fuzz()
