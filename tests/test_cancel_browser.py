"""The button Cancel of Prefect's pages, pressed in a real browser in the middle of the pipeline's own training."""

from pathlib import Path

import psutil
import pytest

import flows  # noqa: F401  (before Prefect, which reads its settings when it is imported)
from dealwright.files import write_text
from tests.browsing import open_browser, watched
from tests.held import await_steps, descendants, ended, make_held_project
from tests.served import mlflow_states, served, start, state
from tests.servers import user_interfaces
from tests.standin import PATIENCE, wait_for

pytestmark = pytest.mark.browser


@pytest.fixture
def project(tmp_path: Path, made_store: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_held_project(tmp_path / "my project", made_store)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    return folder


def test_cancel_ends_all_that_a_run_started_and_the_next_run_goes_on(project: Path, tmp_path: Path) -> None:
    from dvc.repo import Repo
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with (
        user_interfaces(project, tmp_path / "prefect") as pages,
        temporary_settings({PREFECT_API_URL: f"{pages.prefect}/api"}),
        served(project) as service,
    ):
        first = start("reproduce/reproduce")
        await_steps(first, [1, 2])
        tree = descendants(service.process.pid)
        assert "stages.train" in tree.values()
        assert mlflow_states(project) == ["RUNNING"]

        press_cancel(f"{pages.prefect}/runs/flow-run/{first}")
        assert ended(first).is_cancelled(), state(first)
        wait_for(lambda: not any(psutil.pid_exists(pid) for pid in tree))
        assert mlflow_states(project) == ["KILLED"]
        with Repo() as repo, repo.lock:
            pass  # it would be refused where somebody still held the lock

        write_text(project / "hold", "4")
        second = start("reproduce/reproduce")
        await_steps(second, [3])
        assert mlflow_states(project) == ["RUNNING"]  # the same run goes on


def press_cancel(address: str) -> None:
    """Open a run's page, press Cancel, confirm, and stay until the page shows the run as cancelled."""
    with open_browser() as browser:
        page, _ = watched(browser)
        page.set_default_timeout(PATIENCE * 1000)
        page.goto(address)
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
        page.get_by_text("Cancelled", exact=True).first.wait_for()
