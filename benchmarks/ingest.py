"""Ingest of a large CSV file against the same plan in pandas: time, and the memory at its peak.

Each measurement runs in a process of its own, because a process has one peak: `python -m benchmarks.ingest SIDE FILE`
prints the seconds and the megabytes of one side.
"""

import csv
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.measure import Comparison, in_turn, seconds
from dealwright.params import Catalogue

ROOT = Path(__file__).parents[1]
OURS, OTHER = "polars", "pandas"
MEGABYTES = {"linux": 1 / 1024, "darwin": 1 / 1024**2}  # of the unit that the system counts a peak in
# What stands in a column instead of a good value, in so many rows of a thousand.
FAULTS = {
    "list_price": ["", "N/A", "ask us", "-12.50", "0", "10 - 20"],
    "lowest_price": ["", "tbd", "99999999"],
    "title": [""],
}
FAULTY = 10


def ingest(rows: int = 1_000_000, repeats: int = 3) -> tuple[Comparison, Comparison]:
    """Compare seconds, and peak memory, of both sides on one file of so many rows."""
    peaks: dict[str, list[float]] = {OURS: [], OTHER: []}

    def side(name: str, path: Path) -> Callable[[], float]:
        def run() -> float:
            command = [sys.executable, "-m", "benchmarks.ingest", name, str(path)]
            spent, peak = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
            peaks[name].append(peak)
            return float(spent)

        return run

    with TemporaryDirectory() as folder:
        path = Path(folder, "products.csv")
        write_products(path, rows)
        sizes = {"rows": rows, "file_megabytes": round(path.stat().st_size / 1024**2, 1), "repeats": repeats}
        ours, others = in_turn(side(OURS, path), side(OTHER, path), repeats)
    what, other = "ingest of a CSV file in polars", "the same plan in pandas"
    return (
        Comparison(what, other, "seconds", ours, others, 5.0, sizes),
        Comparison(f"{what}, at its peak", other, "megabytes", peaks[OURS], peaks[OTHER], 3.0, sizes),
    )


def write_products(path: Path, rows: int) -> None:
    """Write a CSV file of the bundled products over and over, each time with another lot in its title.

    Prices are written in four ways, one description in five holds markup, one row in fifty repeats an earlier one,
    and one in a hundred of each column in FAULTS cannot be used.
    """
    draw = Random(0)
    lines = [line for file in sorted((ROOT / "data/catalogue").glob("*.jsonl")) for line in file.open()]
    products = [json.loads(line) for line in lines]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["id", *products[0]])
        writer.writeheader()
        for row in range(rows):
            lot = draw.randrange(row) if row % 50 == 49 else row
            product = products[lot % len(products)]
            written = product | {"id": "", "title": f"{product['title']}, lot {lot}"}
            if lot % 5 == 0:
                written["description"] = f"<p>{product['description']}</p>\n<b>Now</b> &amp; here"
            for field in ("list_price", "lowest_price", "highest_price"):
                price = product[field]
                written[field] = draw.choice([f"{price:.2f}", f"${price:,.2f}", f"USD {price:.2f}", f"{price:.2f} $"])
            for field, faults in FAULTS.items():
                if draw.randrange(1000) < FAULTY:
                    written[field] = draw.choice(faults)
            writer.writerow(written)


def plan(path: Path) -> Catalogue:
    """Return the parameters of the ingest of such a file."""
    return Catalogue(
        source="csv",
        path=str(path),
        columns={},
        currency="USD",
        cost_ratio=None,
        title_characters=(1, 500),
        description_characters=1200,
    )


def _run(name: str, path: Path) -> None:
    with TemporaryDirectory() as folder:
        if name == OURS:
            from dealwright.catalogue.table import ingest_into

            spent = seconds(lambda: ingest_into(plan(path), Path(folder)))
        else:
            from benchmarks.pandas_plan import ingest_into as other

            spent = seconds(lambda: other(str(path), plan(path).description_characters, Path(folder)))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MEGABYTES[sys.platform]
    print(json.dumps([spent, peak]))


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]))
