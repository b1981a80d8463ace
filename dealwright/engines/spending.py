"""What a paid server may cost, and what it has cost."""

from dataclasses import dataclass

from dealwright.errors import DealwrightError

MOST_TOKENS = 10**9  # of one prompt or answer; a server that counts more does not tell the truth


class BudgetSpentError(DealwrightError):
    """The budget is spent; nothing more is asked of the server."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Answers received, the tokens they were billed for, and their price in dollars."""

    answers: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    dollars: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.answers + other.answers,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.dollars + other.dollars,
        )


@dataclass(frozen=True, slots=True)
class Budget:
    """The most to spend, in tokens and in dollars, and the prices in dollars a million tokens; None is no limit."""

    tokens: int | None = None
    dollars: float | None = None
    prompt_price: float = 0.0
    completion_price: float = 0.0

    def __post_init__(self) -> None:
        if self.dollars is not None and self.prompt_price <= 0 and self.completion_price <= 0:
            raise DealwrightError(
                f"expected the price of tokens beside a budget of ${self.dollars:g}, got none; "
                "give prompt_price and completion_price in dollars a million tokens"
            )

    def usage(self, prompt_tokens: int, completion_tokens: int) -> Usage:
        """Return the usage of one answer."""
        dollars = (prompt_tokens * self.prompt_price + completion_tokens * self.completion_price) / 1e6
        return Usage(1, prompt_tokens, completion_tokens, dollars)

    def check(self, spent: Usage) -> None:
        """Raise BudgetSpentError once a limit is reached."""
        tokens = spent.prompt_tokens + spent.completion_tokens
        if self.tokens is not None and tokens >= self.tokens:
            raise BudgetSpentError(
                f"the budget of {self.tokens} tokens is spent ({tokens} in {spent.answers} answers); "
                "raise it or play fewer games"
            )
        if self.dollars is not None and spent.dollars >= self.dollars:
            raise BudgetSpentError(
                f"the budget of ${self.dollars:g} is spent (${spent.dollars:.4f} in {spent.answers} answers); "
                "raise it or play fewer games"
            )
