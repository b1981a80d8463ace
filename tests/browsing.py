"""The system's Chromium for tests, headless, with pages that keep what goes wrong in them."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request

QUIET = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"]


@dataclass
class Watch:
    """What a page asked for, and the errors and dialogs that it had."""

    requests: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def request(self, request: "Request") -> None:
        self.requests.append(request.url)

    def error(self, error: Exception) -> None:
        self.errors.append(str(error))

    def console(self, message: "ConsoleMessage") -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def dialog(self, dialog: "Dialog") -> None:
        self.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()


@contextmanager
def open_browser() -> Iterator["Browser"]:
    """Start Chromium and stop it at the end."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--disable-sync", *QUIET]
        )
        yield browser
        browser.close()


def watched(browser: "Browser", width: int = 1280) -> tuple["Page", Watch]:
    """Open an empty page that is watched from its start."""
    page, watch = browser.new_page(viewport={"width": width, "height": 900}), Watch()
    page.on("request", watch.request)
    page.on("pageerror", watch.error)
    page.on("console", watch.console)
    page.on("dialog", watch.dialog)
    return page, watch
