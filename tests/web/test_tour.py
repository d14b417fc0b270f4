"""The whole way as a person goes it: the demo, the viewer, from the report to the bytes, a search, the bundle elsewhere.

The pictures of docs/viewer.md are made here, of the same session: `HOLDALL_SCREENSHOTS=1 ./dev test tests/web/test_tour.py`
writes them anew.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.program import PROGRAM
from tests.upstream.launch import forked
from tests.web.conftest import Watched
from tests.web.support import viewer

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.browser, pytest.mark.in_full(one_in=3)]
ROOT = Path(__file__).parents[2]
PICTURES = ROOT / "docs" / "screenshots"
_PNG = b"\x89PNG\r\n\x1a\n"
_CHANGES = re.compile(r"\d+[smhd] ago|(?:Each is|They are) kept [^.]*\.")  # an imported session is kept until removed
_WIDE, _NARROW = {"width": 1180, "height": 800}, {"width": 375, "height": 760}


def holdall(*arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDALL_")}
    done = subprocess.run(
        forked([PROGRAM, *arguments]), capture_output=True, text=True, timeout=110, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home in which the demo has run, and the name of its session."""
    home = tmp_path_factory.mktemp("tour") / "home"
    said = holdall("demo", "--home", str(home))
    found = re.search(r"kept in session (\S+?)\.", said)
    assert found is not None, said
    return home, found[1]


def test_a_claim_of_the_report_leads_to_its_bytes_in_three_clicks(demo: tuple[Path, str], watched: Watched) -> None:
    home, name = demo
    with viewer(home) as shown:
        page = watched.page
        watched.visit(shown.address)
        page.get_by_role("link", name=name, exact=True).click()  # one
        page.get_by_text("payctl rotate-cert eu-2").first.wait_for()
        rests = page.locator("li.op", has_text="context_grep").last
        rests.locator("a[href*='byte=']").click()  # two
        marked = page.locator("mark.landed")
        marked.first.wait_for()
        assert "rotate-cert" in " ".join(marked.all_inner_texts())
        watched.is_calm()


def test_the_session_looks_the_same_where_it_was_imported(
    demo: tuple[Path, str], watched: Watched, tmp_path: Path
) -> None:
    home, name = demo
    bundle, there = tmp_path / "demo.holdall", tmp_path / "elsewhere"
    holdall("export", name, "-o", str(bundle), "--home", str(home))
    holdall("import", str(bundle), "--home", str(there))
    seen: list[list[str]] = []
    for place in (home, there):
        with viewer(place) as shown:
            watched.visit(shown.address)
            watched.page.get_by_role("link", name=name, exact=True).click()
            watched.page.get_by_text("payctl rotate-cert eu-2").first.wait_for()
            pages = [_words(watched.page)]
            links = watched.page.eval_on_selector_all("table a[href*='/o/']", "all => all.map(one => one.pathname)")
            for link in links:
                watched.visit(f"{shown.origin}{link}")
                watched.page.locator("[data-part=text] .row .text").first.wait_for()
                watched.page.locator("#panel-notice pre").wait_for()
                pages.append(_words(watched.page))
            seen.append(pages)
    assert len(seen[0]) == 5
    assert seen[0] == seen[1]
    watched.is_calm()


def _words(page: "Page") -> str:
    return _CHANGES.sub("TIME", page.locator("main").inner_text())


@pytest.mark.in_full
def test_the_pictures_of_the_documentation(demo: tuple[Path, str], browser: "Browser", tmp_path: Path) -> None:
    home, name = demo
    keep = tmp_path
    with viewer(home) as shown:
        context = browser.new_context()
        page = context.new_page()
        for dress, size, scheme in (("light", _WIDE, "light"), ("dark", _WIDE, "dark"), ("phone", _NARROW, "light")):
            page.set_viewport_size(size)  # type: ignore[arg-type] - of two words
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type] - one of three words
            page.goto(shown.address, wait_until="networkidle")
            page.screenshot(path=keep / f"sessions-{dress}.png")
            page.get_by_role("link", name=name, exact=True).click()
            page.get_by_text("payctl rotate-cert eu-2").first.wait_for()
            page.screenshot(path=keep / f"session-{dress}.png")
            page.goto(_log_of(page), wait_until="networkidle")
            if dress == "phone":
                page.get_by_role("button", name="Search", exact=True).click()
            page.get_by_role("searchbox").fill("PAY-417")
            page.keyboard.press("Enter")
            page.locator("mark.current").wait_for()
            page.screenshot(path=keep / f"output-{dress}.png")
        context.close()
    wanted = set(re.findall(r"screenshots/([\w-]+\.png)", (ROOT / "docs" / "viewer.md").read_text("utf-8")))
    assert wanted
    for picture in wanted:
        assert (keep / picture).read_bytes().startswith(_PNG)
        if os.environ.get("HOLDALL_SCREENSHOTS"):
            PICTURES.mkdir(exist_ok=True)
            shutil.copy(keep / picture, PICTURES)
        assert (PICTURES / picture).stat().st_size > 10_000


def _log_of(page: "Page") -> str:
    row = page.locator("tr", has_text="fetch_log").last
    return str(row.locator("a[href*='/o/']").evaluate("one => one.href"))
