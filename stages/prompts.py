"""Make scenarios and prompt texts from the validated catalogue.

Reads data/catalogue.parquet and reports/validation.json (which must say that the contract holds); writes
data/scenarios.parquet and data/prompts.parquet. What a prompt looks like is in dealwright/prompts/.
"""

from pathlib import Path

from dealwright.catalogue.scenarios import make_scenarios, read_scenarios
from dealwright.errors import DealwrightError, run_stage
from dealwright.files import read_json, read_table, write_parquet
from dealwright.params import load_params
from dealwright.prompts.table import prompts_frame

CATALOGUE, VALIDATION = "data/catalogue.parquet", "reports/validation.json"
SCENARIOS, PROMPTS = "data/scenarios.parquet", "data/prompts.parquet"


def main() -> None:
    """Run the stage."""
    params = load_params()
    check_validated(VALIDATION)
    write_parquet(SCENARIOS, make_scenarios(read_table(CATALOGUE), params.prompts))
    scenarios = read_scenarios(SCENARIOS, CATALOGUE)
    write_parquet(PROMPTS, prompts_frame(scenarios, params.prompts.buyer, params.game.max_turns))


def check_validated(path: str | Path) -> None:
    """Refuse to go on from a catalogue that broke its contract or was never held against it."""
    found = read_json(path, "run `dvc repro validate`")
    if not isinstance(found, dict) or found.get("success") is not True:
        raise DealwrightError(f"{path} says that the catalogue breaks its contract; mend it and run `dvc repro`")


if __name__ == "__main__":
    run_stage(main)
