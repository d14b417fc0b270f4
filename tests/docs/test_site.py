"""The documentation as a site: it builds without a warning, asks no other host, and its search finds what people type."""

import functools
import http.server
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.docs import reference
from tests.web.conftest import browser as browser  # noqa: PLC0414 - a fixture

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("reference"))
    reference.write(folder / "docs" / "reference")
    shutil.copy(ROOT / "zensical.toml", folder)
    built = subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--strict"],
        cwd=folder, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    return folder / ".dev" / "site"


def test_the_site_loads_nothing_from_other_hosts(site: Path) -> None:
    index = (site / "index.html").read_text("utf-8")
    assert "Nothing is lost silently" in index
    for kind in ('src="http', 'src="//', '<link rel="stylesheet" href="http', "@import"):
        assert kind not in index


def test_the_index_of_the_search_has_every_page(site: Path) -> None:
    items = json.loads((site / "search.json").read_text("utf-8"))["items"]
    found = {one["location"].partition("#")[0] for one in items}
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html") if path.name != "404.html"}
    assert pages <= found


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(site))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# The results are in the only shadow tree that has links; the navigation, which has all titles, is not.
_IS_FOUND = """title => [...document.querySelectorAll("*")].some(one => one.shadowRoot &&
    [...one.shadowRoot.querySelectorAll("a")].some(link => link.textContent.includes(title)))"""


@pytest.mark.in_full(one_in=4)
@pytest.mark.browser
@pytest.mark.parametrize(
    ("typed", "title"),
    [
        ("client cuts", "My MCP client cuts results"),
        ("out of context", "My agent runs out of context"),
        ("agent read", "What did my agent read?"),
        ("max_inline_tokens", "All settings"),
    ],
)
def test_the_search_finds_the_page(browser: "Browser", address: str, typed: str, title: str) -> None:
    with browser.new_context() as context:
        context.set_default_timeout(90_000)
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/index.html")
        page.locator(".md-search__button").click()
        page.keyboard.type(typed)
        page.wait_for_function(_IS_FOUND, arg=title)
        assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
