"""A home for each test, and one browser for a module: a real one, headless, that must be left alone by the network."""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Dialog, Page, ViewportSize

_ARGUMENTS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(scope="module")
def browser() -> "Generator[Browser]":
    """For modules whose tests are not async: an event loop runs in this thread for as long as it is open."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield opened
        opened.close()


@dataclass  # without slots: Playwright notes on a handler's object that it has wrapped it
class Watched:
    """A page, and everything on it that must not happen."""

    page: "Page"
    context: "BrowserContext"
    troubles: list[str] = field(default_factory=list[str])

    def is_calm(self) -> None:
        assert self.troubles == []

    def dismiss(self, dialog: "Dialog") -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def mark(self) -> dict[str, str]:
        """The header of answers that the page believes."""
        name = "holdall-viewer"
        return {name: str(self.page.locator(f"meta[name={name}]").get_attribute("content"))}

    def visit(self, address: str) -> None:
        """Until everything that the page fetches by itself is there."""
        self.page.goto(address, wait_until="networkidle")


_SIZE: "ViewportSize" = {"width": 1100, "height": 900}


@pytest.fixture
def alone(browser: "Browser") -> Generator[Watched]:
    """A browser window of its own. Dialogs, errors, refused content and requests that leave the origin are noted."""
    with _opened(browser) as made:
        yield made


@pytest.fixture
def watched(alone: Watched) -> Watched:
    return alone


@pytest.fixture(scope="module")
def _one_window(browser: "Browser") -> Generator[Watched]:
    with _opened(browser) as made:
        yield made


@pytest.fixture
def window(_one_window: Watched) -> Generator[Watched]:
    """A window that other tests have used, without what they left: a new one takes more than a second of processor."""
    _one_window.troubles.clear()
    _one_window.page.set_viewport_size(_SIZE)
    _one_window.page.emulate_media(color_scheme="light")
    yield _one_window
    if _one_window.page.url.startswith("http"):
        _one_window.page.evaluate("localStorage.clear()")
        _one_window.page.goto("about:blank")  # a page of a session asks on, and its viewer may be gone
    _one_window.context.clear_permissions()


@contextmanager
def _opened(browser: "Browser") -> Generator[Watched]:
    context = browser.new_context(viewport=_SIZE)
    context.set_default_timeout(90_000)  # ms: the machine may be busy
    page = context.new_page()
    made = Watched(page, context)
    page.on("dialog", made.dismiss)
    page.on("pageerror", lambda error: made.troubles.append(f"error: {error}"))
    page.on("console", lambda said: made.troubles.append(f"console: {said.text}") if said.type == "error" else None)
    page.on("request", lambda request: _leaves(made, request.url))
    yield made
    context.close()


def _leaves(made: Watched, url: str) -> None:
    name = urlsplit(url).hostname or ""
    if not url.startswith("blob:") and name not in ("127.0.0.1", "localhost") and not name.endswith(".localhost"):
        made.troubles.append(f"left the origin: {url}")
