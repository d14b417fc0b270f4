"""A tab that is open for longer than its viewer: whoever has the port then puts nothing into it."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdall.blocking import Holdall as BlockingHoldall
from holdall.mcp.gateway import http_connection
from tests.requirements import requirement
from tests.web.conftest import Watched
from tests.web.stories import investigation, plain
from tests.web.support import done, viewer

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.in_full(one_in=3)]

# What passes a policy that allows scripts of its own origin; in what htmx and the scripts of the pages look for.
FORGED = b'<iframe srcdoc="<script src=/evil.js></script>"></iframe><b>FORGED</b>'
PARTS = b"".join(
    b'<div id="%s" data-stamp="x" hx-swap-oob="true">%s</div>' % (id, FORGED) for id in (b"live", b"calls-found")
)
BACK = "name => (name === 'focus' ? window : document).dispatchEvent(new Event(name))"
LEAVE = "document.querySelector('.brand').dispatchEvent(new Event('click', {bubbles: true, cancelable: true}))"


@contextmanager
def _neighbour(port: int) -> Generator[list[str]]:
    """Has the port at both addresses, and answers everything with a forgery. Yields what it is asked."""
    heard: list[str] = []

    class Neighbour(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.path)
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("holdall-viewer", "a guess")
            self.send_header("hx-trigger", '{"rows": 1}')
            self.end_headers()
            self.wfile.write(FORGED + PARTS)

        do_HEAD = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    servers: list[ThreadingHTTPServer] = []
    for listening in http_connection.listen(http_connection.LOOPBACK, port):
        server = ThreadingHTTPServer(("127.0.0.1", port), Neighbour, bind_and_activate=False)
        server.socket.close()
        server.socket = listening
        servers.append(server)
    serving = [threading.Thread(target=server.serve_forever) for server in servers]
    for one in serving:
        one.start()
    try:
        yield heard
    finally:
        for server, one in zip(servers, serving, strict=True):
            server.shutdown()
            one.join()
            server.server_close()


def _ended(page: "Page") -> None:
    page.locator(".viewer-ended", has_text="This viewer has ended").wait_for()


@requirement("viewer:ended")
def test_a_tab_takes_nothing_from_a_neighbour_that_has_the_port_of_its_ended_viewer(
    home: Path, watched: Watched
) -> None:
    with viewer(home, fork=False) as at, BlockingHoldall.open(home=str(home), session="live") as bag:
        writer = bag.begin(tool="slow")
        writer.write(b"what was really written\n")
        session = f"{at.base}/s/{writer.facts.session}"
        tabs = {at.address: "1 output", session: "live", f"{session}/calls": "slow"}
        tabs |= {f"{session}/o/{writer.handle}": "what was really written"}
        pages: list[Page] = []
        for address, shown in tabs.items():
            pages.append(page := watched.context.new_page())
            page.clock.install()
            page.goto(address, wait_until="load")
            page.get_by_text(shown).first.wait_for()
        at.end(signal.SIGKILL)
        with _neighbour(at.port) as heard:
            for page in pages:
                _ended(page)
            for page in pages:
                page.evaluate("fetch('/done')")
            assert not any("evil" in path for path in heard)
            heard.clear()
            for page, shown in zip(pages, tabs.values(), strict=True):
                page.clock.run_for(60_000)  # ms
                assert page.get_by_text(shown).first.is_visible()
                assert "FORGED" not in page.content()
                assert page.locator("iframe").count() == 0
            for page in pages:
                assert page.evaluate(LEAVE) is False, "what is at this address now is not the viewer"
            pages[0].evaluate("fetch('/done')")
            assert heard == ["/done"], "nobody is asked any more"
        writer.finish("ready")


@requirement("viewer:ended")
def test_a_tab_whose_viewer_does_not_answer_says_so_and_asks_no_more(home: Path, watched: Watched) -> None:
    told, page = done(lambda: plain(home, "kept", [("fetch", "x\n")])), watched.page
    with viewer(home, fork=False) as at:
        page.clock.install()
        page.goto(f"{at.base}/s/{told.session}/calls?token={at.token}")
        page.get_by_text("fetch").first.wait_for()
        at.end(signal.SIGKILL)
        _ended(page)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.clock.run_for(60_000)  # ms
        assert page.evaluate("fetch('/done').catch(() => 'nobody is there')") == "nobody is there"
    assert [url.rpartition("/")[2] for url in asked] == ["done"]


@pytest.mark.in_full(one_in=2)
@requirement("viewer:ended")
@pytest.mark.parametrize("size", [(1280, 800), (375, 700)])
def test_an_output_that_was_followed_says_that_it_is_not_and_still_fits_its_window(
    home: Path, watched: Watched, size: tuple[int, int]
) -> None:
    page, (width, height) = watched.page, size
    page.set_viewport_size({"width": width, "height": height})
    with viewer(home, fork=False) as at, BlockingHoldall.open(home=str(home), session="live") as bag:
        writer = bag.begin(tool="slow")
        writer.write(b"x\n")
        with page.expect_response(lambda answer: "/changes" in answer.url):  # the next question stays open
            page.goto(f"{at.base}/s/{writer.facts.session}/o/{writer.handle}?token={at.token}")
        page.locator("[data-part=follow][aria-pressed=true]").wait_for(state="attached")
        at.end(signal.SIGKILL)
        _ended(page)
        page.locator("[data-part=status]", has_text="It is not followed any more").wait_for()
        follow = page.locator("[data-part=follow]")
        assert (follow.get_attribute("aria-pressed"), follow.is_visible()) == ("false", False)
        footer = page.locator(".output-status").bounding_box()
        assert footer is not None
        assert footer["y"] + footer["height"] <= height
        assert page.evaluate("document.documentElement.scrollHeight") <= height
        writer.finish("ready")


@pytest.mark.in_full(one_in=2)
@requirement("viewer:ended")
@pytest.mark.parametrize("event", ["visibilitychange", "focus"])
@pytest.mark.parametrize("has_neighbour", [True, False])
def test_a_page_on_which_nothing_runs_says_so_when_somebody_comes_back_to_it(
    home: Path, watched: Watched, event: str, has_neighbour: bool
) -> None:
    told, page = done(lambda: plain(home, "kept", [("fetch", "x\n")])), watched.page
    with viewer(home, fork=False) as at:
        page.goto(f"{at.base}/s/{told.session}/o/{told.handles[0]}?token={at.token}", wait_until="networkidle")
        with page.expect_request("**/icon.svg") as asked:
            page.evaluate(BACK, event)
        assert asked.value.method == "HEAD"
        page.evaluate("fetch('/done')")
        assert page.locator(".viewer-ended").count() == 0
        at.end(signal.SIGKILL)
        with _neighbour(at.port) if has_neighbour else nullcontext([]) as heard:
            page.evaluate(BACK, event)
            _ended(page)
            page.evaluate(BACK, event)
            page.evaluate("fetch('/done').catch(() => 'nobody is there')")
        assert [path.rpartition("/")[2] for path in heard] == (["icon.svg", "done"] if has_neighbour else [])


@requirement("viewer:ended")
def test_what_is_opened_on_a_page_is_not_a_neighbours(home: Path, watched: Watched) -> None:
    told, page = done(lambda: investigation(home)), watched.page
    with viewer(home, fork=False) as at:
        page.route("**/live?*", lambda _: None)  # or this is what finds out first
        page.goto(f"{at.base}/s/{told.session}?token={at.token}", wait_until="load")
        at.end(signal.SIGKILL)
        with _neighbour(at.port) as heard:
            page.locator("details.op-open > summary").first.click()
            _ended(page)
            page.locator("details.op-open > summary").nth(1).click()
            page.evaluate("fetch('/done')")
            assert "FORGED" not in page.content()
        asked = [path.rpartition("/")[2].partition("?")[0] for path in heard]
        # On a busy machine the page may have looked first whether its viewer is still there.
        assert [one for one in asked if one != "icon.svg"] == ["step", "done"]


@requirement("viewer:ended")
def test_a_download_is_not_a_neighbours(home: Path, watched: Watched) -> None:
    told, page = done(lambda: plain(home, "kept", [("fetch", "x\n")])), watched.page
    with viewer(home, fork=False) as at:
        page.goto(f"{at.base}/s/{told.session}/o/{told.handles[0]}?token={at.token}", wait_until="networkidle")
        at.end(signal.SIGKILL)
        with _neighbour(at.port) as heard:
            page.get_by_role("link", name="Download").click()
            _ended(page)
            page.evaluate("fetch('/done')")
        assert [path.rpartition("/")[2] for path in heard] == ["icon.svg", "done"]


@requirement("viewer:ended")
def test_what_is_put_into_a_page_later_runs_no_script_of_its_own_origin(home: Path, watched: Watched) -> None:
    """As if a forgery had got in after all: the neighbour is the origin now."""
    page = watched.page
    with viewer(home, fork=False) as at:
        watched.visit(at.address)
        at.end(signal.SIGKILL)
        with _neighbour(at.port) as heard:
            page.evaluate(
                """forged => new Promise((done) => {
                    const script = document.createElement("script");
                    Object.assign(script, { src: "/evil.js", onload: frame, onerror: frame });
                    document.body.append(script);
                    function frame() {
                        document.body.insertAdjacentHTML("beforeend", forged);
                        document.querySelector("iframe").onload = done;
                    }
                })""",
                FORGED.decode(),
            )
            page.evaluate("fetch('/done')")
    assert heard == ["/done"]
