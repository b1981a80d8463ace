"""What is bargained over, and what each side knows of it (protocol, section 1)."""

import math
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """A side of the table."""

    BUYER = "buyer"
    SELLER = "seller"

    @property
    def other(self) -> "Role":
        """The side across the table."""
        return Role.SELLER if self is Role.BUYER else Role.BUYER


class Zone(StrEnum):
    """Whether a price exists that suits both sides."""

    MUTUAL = "mutual"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Product:
    """A product of the catalogue with its price history, in dollars."""

    id: str
    title: str
    category: str
    description: str
    list_price: float
    lowest_price: float
    highest_price: float


@dataclass(frozen=True, slots=True)
class Scenario:
    """One product to be bargained over once; prices in dollars.

    `list_price` is P, known to both; `cost` is C, the seller's reservation price, known to the seller alone;
    `budget` is B, the buyer's reservation price, exact, known to the buyer alone. Raises ValueError for a price that
    is no positive number, or too large to be counted in cents: no reward would mean anything.
    """

    id: str
    product: Product
    list_price: float
    cost: float
    budget: float
    seed: int
    split: str

    def __post_init__(self) -> None:
        for name, amount in (("list price", self.list_price), ("cost", self.cost), ("budget", self.budget)):
            if not 0 < amount * 100 < math.inf:
                raise ValueError(
                    f"the {name} of scenario {self.id} must be a positive amount in dollars, got {amount!r}"
                )

    @property
    def zone(self) -> Zone:
        """`mutual` if the budget exceeds the cost, else `conflict`."""
        return Zone.MUTUAL if self.budget > self.cost else Zone.CONFLICT
