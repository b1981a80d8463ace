"""Which products are held out (protocol, section 1).

The split is a function of the catalogue and the two sizes alone, not of a seed: a test product stays a test product
whatever else is varied, so runs with different seeds are comparable and none of them has trained on another's test.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b

from dealwright.errors import DealwrightError

TRAIN, VALIDATION, TEST = SPLITS = ("train", "validation", "test")

# Below this many products the held-out sizes are these percentages, or the given sizes where those are less.
SMALL_CATALOGUE = 500
TEST_PERCENT, VALIDATION_PERCENT = 14, 7


class SplitError(DealwrightError):
    """A catalogue that cannot be split into three non-empty parts."""


@dataclass(frozen=True, slots=True)
class Item:
    """What the split looks at in a product."""

    id: str
    category: str
    zone: str


def stable_hash(text: str) -> int:
    """Return a 64-bit hash that is the same in every process and on every machine."""
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def held_out_sizes(products: int, test: int, validation: int) -> tuple[int, int]:
    """Return how many products are held out for test and for validation.

    Raises SplitError where nothing would be left to train on.
    """
    if products < SMALL_CATALOGUE:
        test = min(test, _percent(products, TEST_PERCENT))
        validation = min(validation, _percent(products, VALIDATION_PERCENT))
    if test + validation >= products:
        raise SplitError(
            f"cannot hold out {test} products for test and {validation} for validation of {products}: none is left to "
            "train on; use a larger catalogue or lower prompts.test and prompts.validation"
        )
    return test, validation


def split_products(items: Sequence[Item], test: int, validation: int) -> dict[str, str]:
    """Assign each product id to `train`, `validation` or `test`.

    Stratified by zone and, within it, by category, counts by largest remainder; within a stratum the products with the
    lowest hashes of their ids go to test, the next to validation. Of 930 products that are 128 and 64.
    """
    test, validation = held_out_sizes(len(items), test, validation)
    strata: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in items:
        strata[item.zone, item.category].append(item.id)
    for ids in strata.values():
        ids.sort(key=lambda id: (stable_hash(id), id))
    splits = dict.fromkeys((item.id for item in items), TRAIN)
    for name, size in ((TEST, test), (VALIDATION, validation)):
        for stratum, count in _stratified_counts({key: len(ids) for key, ids in strata.items()}, size).items():
            for id in strata[stratum][:count]:
                splits[id] = name
            del strata[stratum][:count]
    return splits


def largest_remainder(sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """Share a total out in proportion to the sizes, in whole numbers; no share exceeds its size.

    Example: sizes {a: 5, b: 3, c: 2} and a total of 4 have the quotas 2.0, 1.2 and 0.8, so the counts 2, 1 and 1.
    Equal remainders are served in the order of a hash of the name, so that no category gains by its alphabet.
    """
    whole = sum(sizes.values())
    quotas = {name: Fraction(size * total, max(whole, 1)) for name, size in sizes.items()}
    counts = {name: int(quota) for name, quota in quotas.items()}
    order = sorted(sizes, key=lambda name: (counts[name] - quotas[name], stable_hash(name), name))
    for name in order[: total - sum(counts.values())]:
        counts[name] += 1
    return counts


def _stratified_counts(sizes: Mapping[tuple[str, str], int], total: int) -> dict[tuple[str, str], int]:
    zones = Counter[str]()
    for (zone, _), size in sizes.items():
        zones[zone] += size
    return {
        (zone, category): count
        for zone, share in largest_remainder(zones, total).items()
        for category, count in largest_remainder(
            {category: size for (other, category), size in sizes.items() if other == zone}, share
        ).items()
    }


def _percent(products: int, percent: int) -> int:
    return max(1, (products * percent + 50) // 100)
