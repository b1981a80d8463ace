"""Draw the lowest and the highest price of each product of this folder: `python data/catalogue/price_histories.py`.

Reads and rewrites the *.jsonl files beside it. Two ratios are dealt out so that their spread is the one of the
AmazonHistoryPrice catalogue: highest price to list price, and lowest price to the larger of the two. A product that
once cost much more than its list price tends to have been cheap as well, and dear products fall less, as they do
there. The same titles and list prices always get the same histories.
"""

import bisect
import json
import math
import random
from pathlib import Path
from statistics import fmean, stdev

SEED = 20
CEILING = 4300.0

# (share of products at or below, ratio), joined by straight lines
HIGHEST_TO_LIST = (
    (0.0, 0.60), (0.02, 0.78), (0.05, 0.89), (0.10, 0.99), (0.12, 1.0), (0.50, 1.0), (0.60, 1.08), (0.70, 1.18),
    (0.75, 1.25), (0.80, 1.36), (0.90, 1.75), (0.95, 2.35), (0.98, 2.88), (1.0, 4.0),
)  # fmt: skip
LOWEST_TO_LARGEST = (
    (0.0, 0.086), (0.02, 0.17), (0.05, 0.217), (0.10, 0.26), (0.20, 0.332), (0.30, 0.403), (0.40, 0.471),
    (0.50, 0.508), (0.60, 0.56), (0.70, 0.607), (0.80, 0.671), (0.90, 0.75), (0.95, 0.80), (0.98, 0.854), (1.0, 0.97),
)  # fmt: skip
ENDINGS = (0.99, 0.0, 0.95, 0.98, 0.49, 0.97, 0.5)
ENDING_WEIGHTS = (52, 18, 5, 3, 3, 2, 2)
EXACT = 15  # weight of an odd amount, to the cent


def quantile(spread: tuple[tuple[float, float], ...], share: float) -> float:
    """Read the ratio at a share of the products."""
    after = max(1, bisect.bisect_left(spread, (share, 0.0)))
    (left, low), (right, high) = spread[after - 1], spread[after]
    return low + (high - low) * (share - left) / (right - left)


def shop_price(amount: float, draw: random.Random) -> float:
    """Move an amount to the nearest price with a drawn ending, as in 17.42 → 17.99; below $4 keep the cents."""
    ending = draw.choices((*ENDINGS, None), (*ENDING_WEIGHTS, EXACT))[0]
    if ending is None or amount < 4:
        return round(amount, 2)
    dollars = math.floor(amount)
    nearest = min(
        (dollars - 1 + ending, dollars + ending, dollars + 1 + ending), key=lambda price: abs(price - amount)
    )
    return round(nearest, 2)


def scores(values: list[float]) -> list[float]:
    """Centre values and scale them to unit spread."""
    mean, spread = fmean(values), stdev(values)
    return [(value - mean) / spread for value in values]


def dealt(spread: tuple[tuple[float, float], ...], keys: list[float]) -> list[float]:
    """Deal the ratios of a spread to products in the order of their keys, the lowest ratio to the lowest key."""
    order = sorted(range(len(keys)), key=keys.__getitem__)
    ratios = [0.0] * len(keys)
    for rank, index in enumerate(order):
        ratios[index] = quantile(spread, (rank + 0.5) / len(keys))
    return ratios


def histories(list_prices: list[float]) -> list[tuple[float, float]]:
    """Draw the lowest and the highest price for each list price."""
    draw = random.Random(SEED)
    rises = dealt(HIGHEST_TO_LIST, [draw.random() for _ in list_prices])
    highest = [
        price if rise == 1 else shop_price(min(price * rise, CEILING - 2), draw)
        for price, rise in zip(list_prices, rises, strict=True)
    ]
    largest = [max(pair) for pair in zip(list_prices, highest, strict=True)]
    dear, risen = scores([math.log(price) for price in largest]), scores([math.log(rise) for rise in rises])
    falls = dealt(
        LOWEST_TO_LARGEST,
        [0.4 * d - 0.55 * r + draw.gauss(0, 0.75) for d, r in zip(dear, risen, strict=True)],
    )
    lowest = [shop_price(price * fall, draw) for price, fall in zip(largest, falls, strict=True)]
    return [(min(trio), trio[1]) for trio in zip(lowest, highest, list_prices, strict=True)]


def main() -> None:
    """Rewrite every file of this folder with price histories."""
    files = sorted(Path(__file__).parent.glob("*.jsonl"))
    products = [(file, json.loads(line)) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    prices = histories([product["list_price"] for _, product in products])
    lines: dict[Path, list[str]] = {file: [] for file in files}
    for (file, product), (lowest, highest) in zip(products, prices, strict=True):
        line = {
            "title": product["title"],
            "category": file.stem,
            "description": product["description"],
            "list_price": product["list_price"],
            "lowest_price": lowest,
            "highest_price": highest,
        }
        lines[file].append(json.dumps(line, ensure_ascii=False) + "\n")
    for file, texts in lines.items():
        file.write_text("".join(texts), encoding="utf-8")


if __name__ == "__main__":
    main()
