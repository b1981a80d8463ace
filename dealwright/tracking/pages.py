"""The report, kept with the run of the training that it tells of, wherever that training ran."""

from pathlib import Path

from dealwright.tracking.connection import store
from dealwright.tracking.revisions import hash_file, hash_folder

REPORTS = Path("reports")
PAGE = REPORTS / "index.html"
GAMES = REPORTS / "games"
PROVENANCE = REPORTS / "provenance.js"
FOLDER = "report"
TAG = "report_hash"


def log_report(run_id: str) -> None:
    """Put the working tree's report with its games beside a training's run, unless that run has it already.

    MLflow's pages show `report/index.html`; whoever downloads the folder `report` can read every game too.
    """
    if not PAGE.is_file():
        return
    hash = hash_file(PAGE)[:16] + (hash_folder(GAMES)[:16] if GAMES.is_dir() else "")
    with store() as client:
        if client.get_run(run_id).data.tags.get(TAG) == hash:
            return
        for file in (PROVENANCE, PAGE):
            if file.is_file():
                client.log_artifact(run_id, str(file), FOLDER)
        if GAMES.is_dir():
            client.log_artifacts(run_id, str(GAMES), f"{FOLDER}/{GAMES.name}")
        client.set_tag(run_id, TAG, hash)
