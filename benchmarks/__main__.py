"""Run every benchmark and write reports/benchmarks.json."""

from benchmarks.bootstrap import bootstrap
from benchmarks.ingest import ingest
from benchmarks.measure import Comparison, machine
from benchmarks.rollouts import growth, one_at_a_time, trl_loop
from benchmarks.step import grpo_step
from dealwright.files import write_json


def main() -> None:
    """Run them at their default sizes, one after the other."""
    found: dict[str, Comparison] = {}

    def keep(name: str, comparison: Comparison) -> None:
        found[name] = comparison
        print(f"{name:24} {comparison.ratio:8.2f} x  (at least {comparison.target:g})", flush=True)

    keep("bootstrap", bootstrap())
    time, memory = ingest()
    keep("ingest", time)
    keep("ingest_memory", memory)
    keep("grpo_step", grpo_step())
    keep("trl_loop", trl_loop())
    keep("one_at_a_time", one_at_a_time())
    keep("growth", growth())
    report = {"machine": machine(), "comparisons": {name: comparison.as_json() for name, comparison in found.items()}}
    write_json("reports/benchmarks.json", report)


if __name__ == "__main__":
    main()
