"""How time and memory grow with the load: scripted games, a report over them, versions in one MLflow file, rows.

`python -m benchmarks.load` measures each work at a quarter, a half and the whole of its size, each in a process of its
own, because a process has one peak, and prints a table. `python -m benchmarks.load WORK SIZE` prints the seconds of
processor time and the megabytes of one.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import TYPE_CHECKING

from benchmarks.ingest import MEGABYTES, plan, write_products

if TYPE_CHECKING:
    import polars as pl

ROOT = Path(__file__).parents[1]
PARTS = (4, 2, 1)  # of the whole
BUYER = "arguing_ladder"


def seconds(work: Callable[[], object]) -> float:
    """Return the seconds of processor time that the work takes, over all its threads."""
    start = process_time()
    work()
    return process_time() - start


def games(count: int) -> float:
    """Play so many scripted games and write them as one table."""
    with TemporaryDirectory() as folder:
        return seconds(lambda: _played(count).write_parquet(Path(folder, "games.parquet")))


def report(count: int) -> float:
    """Write the report's pages over so many games of two buyers."""
    import polars as pl

    from dealwright.report.browser import write_browser
    from dealwright.report.build import build_page
    from dealwright.report.inputs import Inputs

    half = _played(count // 2)
    played = pl.concat([half.with_columns(buyer=pl.lit(name)) for name in ("trained", "warmstart")])
    inputs = Inputs(None, None, None, None, None, None, training=None, games=played)
    with TemporaryDirectory() as folder:
        return seconds(lambda: (build_page(inputs), write_browser(played, None, Path(folder))))


def versions(count: int) -> float:
    """Read the standings of so many versions, each with its metrics, from one MLflow file."""
    from dealwright.tracking.connection import store
    from dealwright.tracking.versions import read_model, standings

    os.environ.pop("MLFLOW_TRACKING_URI", None)
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        with store() as client:
            client.create_registered_model("buyer")
            run = client.create_run(client.create_experiment("load")).info.run_id
            for step in range(count):
                tags = {"step": str(step), "validation_reward": str(step / count), "validation_overshoot_rate": "0.0"}
                client.create_model_version("buyer", folder, run, tags)
        return seconds(lambda: standings(read_model("buyer"), 0.05))


def catalogue(count: int) -> float:
    """Read a CSV file of so many products."""
    from dealwright.catalogue.table import ingest

    with TemporaryDirectory() as folder:
        path = Path(folder, "products.csv")
        write_products(path, count)
        return seconds(lambda: ingest(plan(path)))


WORKS: dict[str, tuple[Callable[[int], float], int]] = {
    "games": (games, 100_000),
    "report": (report, 20_000),
    "versions": (versions, 10_000),
    "catalogue": (catalogue, 1_000_000),
}


def _played(count: int) -> "pl.DataFrame":
    """Play a scripted buyer against the training seller on 500 products, in as many rounds as it takes."""
    from dealwright.agents.buyers import FIXED_POLICIES, ScriptedBuyer
    from dealwright.game import Product, Scenario
    from dealwright.players import make_seller
    from dealwright.rollout import episodes_frame, rollout

    scenarios = []
    for number in range(500):
        price = 10.0 + number
        product = Product(f"p{number}", f"Lamp {number}", "home", "It shines.", price, 0.4 * price, price)
        scenarios.append(Scenario(f"s{number}", product, price, 0.4 * price, 0.8 * price, number, "train"))
    buyer, seller = ScriptedBuyer(FIXED_POLICIES[BUYER]), make_seller("training")
    return episodes_frame(rollout(scenarios, range(count // 500), buyer, seller, (BUYER, "training")))


def main() -> None:
    """Measure every work at its sizes and print what it took."""
    for name, (_, whole) in WORKS.items():
        for part in PARTS:
            command = [sys.executable, "-m", "benchmarks.load", name, str(whole // part)]
            spent, peak = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
            print(f"{name:10} {whole // part:>9,}  {spent:8.1f} s  {peak:8.0f} MB", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        spent = WORKS[sys.argv[1]][0](int(sys.argv[2]))
        print(json.dumps([spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MEGABYTES[sys.platform]]))
