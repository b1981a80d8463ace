"""The report is kept with the run of its training, and sent once."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from dealwright.cli import main
from dealwright.tracking.connection import connect
from dealwright.tracking.pages import TAG, log_report
from tests.registry import MODEL, enter_project

ROOT = Path(__file__).parents[1]


@pytest.fixture
def project(tmp_path: Path, empty_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enter a project with two checkpoints and a report."""
    folder = enter_project(tmp_path / "project", empty_store, monkeypatch)
    Path("params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())
    Path("reports/index.html").write_text("<h1>The report</h1>")
    Path("reports/games").mkdir()
    Path("reports/games/games-0.js").write_text("games(0, [])")
    return folder


def run_id() -> str:
    return str(connect().get_model_version_by_alias(MODEL, "candidate").run_id)


def kept(run: str) -> dict[str, str]:
    """Return the files of the report that a run has."""
    folder = Path(connect().download_artifacts(run, "report"))
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}


def test_registering_puts_the_report_beside_the_run_with_its_games_and_provenance(project: Path) -> None:
    result = CliRunner().invoke(main, ["register"])
    assert result.exit_code == 0, result.stderr
    files = kept(run_id())
    assert set(files) == {"index.html", "provenance.js", "games/games-0.js"}
    assert files["index.html"] == "<h1>The report</h1>"
    assert files["provenance.js"].startswith("provenance({")


def test_the_same_report_is_not_sent_twice_and_another_takes_its_place(project: Path) -> None:
    CliRunner().invoke(main, ["register"])
    run = run_id()
    (file,) = project.glob("mlartifacts/**/games-0.js")
    file.write_text("sent once")
    log_report(run)
    assert kept(run)["games/games-0.js"] == "sent once"
    (project / "reports/games/games-0.js").write_text("games(0, [[]])")
    log_report(run)
    assert kept(run)["games/games-0.js"] == "games(0, [[]])"


def test_without_a_report_there_is_nothing_to_keep(project: Path) -> None:
    (project / "reports/index.html").unlink()
    result = CliRunner().invoke(main, ["register"])
    assert result.exit_code == 0, result.stderr
    assert TAG not in connect().get_run(run_id()).data.tags
