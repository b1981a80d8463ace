"""Find the phases of training in the probe games of all checkpoints.

Reads data/rollouts/validation.parquet; writes reports/phases.json and reports/plots/phases.csv (one row a checkpoint).
Leaves out the training games: they meet other products at every step, the probe games the same ones.
"""

from dealwright.errors import run_stage
from dealwright.files import read_table, write_json, write_text
from dealwright.params import load_params
from dealwright.phases.analysis import analyse_phases


def main() -> None:
    """Segment the run and write what was found."""
    params = load_params()
    report = analyse_phases(read_table("data/rollouts/validation.parquet"), params.phases)
    write_json("reports/phases.json", report.figures)
    write_text("reports/plots/phases.csv", report.checkpoints.write_csv())
    summary = report.figures["summary"]
    print(
        f"{summary['segments']} segment(s) over {summary['checkpoints']} checkpoints; observed: {summary['observed']};"
        f" not observed: {summary['not_observed']}"
    )


if __name__ == "__main__":
    run_stage(main)
