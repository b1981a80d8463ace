"""Fit the scripted buyers on train, play them against every seller, and record demonstrations.

Reads data/scenarios.parquet and data/catalogue.parquet. Writes data/rollouts/reference.parquet (every scripted buyer
against every seller on train scenarios, in rounds that no fit has seen), data/rollouts/demonstrations.parquet (the
naive demonstrator against the training seller) and reports/scripts.json (the fitted ladders and which script is best
on train). The validation and test splits are left alone.
"""

from dealwright.catalogue.scenarios import read_scenarios
from dealwright.errors import run_stage
from dealwright.files import write_json, write_parquet
from dealwright.params import load_params
from dealwright.reference import demonstrate, fit_scripts, play_reference, rank_scripts


def main() -> None:
    """Run the stage."""
    params = load_params()
    train = read_scenarios(split="train")
    fitted = fit_scripts(train, params)
    reference = play_reference(train, fitted, params)
    write_parquet("data/rollouts/reference.parquet", reference)
    write_json("reports/scripts.json", rank_scripts(reference, fitted, params))
    write_parquet("data/rollouts/demonstrations.parquet", demonstrate(train, params))


if __name__ == "__main__":
    run_stage(main)
