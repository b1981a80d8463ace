"""Prefect's pages in a real browser after a real run: its stages and artifacts, and the form of `retrain`."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browsing import open_browser, watched
from tests.served import served
from tests.servers import Pages, user_interfaces
from tests.standin import PATIENCE, ROOT, make_project

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, made_store: Path) -> Iterator[Pages]:
    """Serve the stand-in after one run of `reproduce`, whose selected version was made champion."""
    root = tmp_path_factory.mktemp("pages")
    project = make_project(root / "my project", made_store)
    with user_interfaces(project, root / "prefect") as started:
        environment = {"PYTHONPATH": str(ROOT), "PREFECT_API_URL": f"{started.prefect}/api"}

        def run(*module: str) -> None:
            surroundings = {**os.environ, **environment}
            subprocess.run([sys.executable, "-m", *module], cwd=project, env=surroundings, check=True)

        run("flows.reproduce")
        run("dealwright", "promote", "@candidate", "--force", "the first")
        with served(project, PREFECT_API_URL=environment["PREFECT_API_URL"]):
            yield started


@pytest.fixture
def page(pages: Pages) -> Iterator["Page"]:
    with open_browser() as browser:
        opened, _ = watched(browser)
        opened.set_default_timeout(PATIENCE * 1000)
        yield opened


def test_a_run_shows_a_task_run_for_each_stage_and_its_artifacts(pages: Pages, page: "Page") -> None:
    page.goto(f"{pages.prefect}/runs")
    run = page.locator("a[href*='/runs/flow-run/']")
    run.first.wait_for()
    assert run.count() == 1
    page.get_by_role("link", name="reproduce").first.wait_for()  # the page asks for the flow's name after the run
    run.click()
    page.get_by_text("step 2", exact=True).wait_for()  # a line of the stage, in the flow's log
    page.get_by_text("Task Runs", exact=True).click()
    page.get_by_text("(4 Completed)").wait_for()
    names = page.locator("a[href*='/runs/task-run/']")
    for place, stage in enumerate(["publish", "register", "train", "ingest"]):
        names.nth(place).filter(has_text=stage).wait_for()
    assert list(reversed(names.all_inner_texts())) == ["ingest", "train", "register", "publish"]
    page.get_by_text("Artifacts", exact=True).click()
    artifact(page, "http://127.0.0.1:8080/index.html").wait_for()
    artifact(page, "The results table").click()
    page.get_by_text("trained buyer", exact=True).wait_for()


def test_retrain_is_started_from_its_form_and_seen_to_end(pages: Pages, page: "Page") -> None:
    page.goto(f"{pages.prefect}/deployments")
    page.locator("a[href*='/deployments/deployment/']").filter(has_text="retrain").first.click()
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_text("Custom run").click()
    form = page.locator("form")
    for name in ("source", "path", "profile", "force", "promote", "minimum_gain"):
        form.get_by_text(f"{name} (Optional)", exact=True).wait_for()
    form.get_by_text("Train although the catalogue is what the champion was trained on.").wait_for()
    form.locator("input[type=text]").first.fill("from the form")
    with page.expect_response("**/create_flow_run"):
        page.get_by_role("button", name="Submit").click()
    page.goto(f"{pages.prefect}/runs")
    page.get_by_role("link", name="from the form").click()
    page.get_by_text("Unchanged", exact=True).first.wait_for()
    page.get_by_text("Artifacts", exact=True).click()
    artifact(page, "What the retraining came to").click()
    page.get_by_text("the catalogue is what the champion was trained on, so nothing was trained").wait_for()


def artifact(page: "Page", text: str) -> "Locator":
    """Return the card of an artifact by a text on it."""
    return page.locator("a[href*='/artifacts/artifact/']").filter(has_text=text)
