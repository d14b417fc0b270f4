"""The output page in a real browser: any size, any shape, and nothing in an output that runs."""

import asyncio
import gzip
import json
import os
import re
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from holdall.bag import Holdall
from holdall.blocking import Holdall as BlockingHoldall
from holdall.values.settings import Settings
from tests.requirements import requirement
from tests.web.conftest import Watched
from tests.web.stories import REAL_QUOTE, investigation
from tests.web.support import Viewer, viewer

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

pytestmark = [pytest.mark.browser, pytest.mark.in_full(one_in=3)]
FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))
MANY_LINES = 10_000_000 if FULL else 700_000
LONG_LINE = 100_000_000 if FULL else 20_000_000
LARGE = 1_000_000_000 if FULL else 60_000_000
HOSTILE = (
    "<script>window.ran=1</script></script></textarea></style><img src=x onerror=window.ran=2><svg onload=window.ran=3>"
    "<a href=javascript:window.ran=4>x</a>{{7*7}}${7*7} \x1b[31mred\x1b[0m\x1b]8;;http://evil.example\x07link "
    "\u202eoverridden\u202c \u200bzero\0nul\r <style>*{display:none}</style><base href=http://evil.example>\n"
)


def in_thread(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Beside the browser, whose own loop runs in this thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


@dataclass(slots=True)
class Site:
    viewer: Viewer
    home: Path
    outputs: dict[str, str] = field(default_factory=dict[str, str])

    def address(self, name: str, asked: str = "") -> str:
        join = "&" if asked else "?"
        return f"{self.viewer.base}{self.outputs[name]}{asked}{join}token={self.viewer.token}"


def _many_lines() -> Iterator[bytes]:
    for first in range(0, MANY_LINES, 10_000):
        yield b"".join(b"row %d\n" % (at + 1) for at in range(first, first + 10_000))


def _long_line() -> Iterator[bytes]:
    yield b'{"items":['
    piece = b'{"id":1234567,"v":"abcdefgh"},' * 10_000
    for _ in range(LONG_LINE // len(piece)):
        yield piece
    yield '{"id":0,"v":"ü","needle":"find me"}]}'.encode()


def _large() -> Iterator[bytes]:
    line = b"2026-11-15T11:00:00Z INFO a line of a log that is about a hundred bytes long and says nothing at all\n"
    for at in range(LARGE // (len(line) * 10_000)):
        yield b"%08d\n" % at + line * 10_000


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Generator[Site]:
    home = tmp_path_factory.mktemp("viewer") / "home"
    outputs = {
        "many": _many_lines(), "long": _long_line(), "large": _large(), "hostile": HOSTILE * 200,
        "empty": "", "small": "".join(f"line {at}\n" for at in range(1, 301)),
        "odd": "äöü\x1b[31m😀\u202eend\n\nlast",
        "mixed": "".join(f"line {at}\n" + "x" * 5000 * (at == 9) + "\n" * (at == 9) for at in range(1, 3000)),
        "csv": "id,name\n" + "".join(f'{at},"n, {at}"\n' for at in range(20_000)),
        "nameless": "".join(f"{at},/usr/lib/{at}\n" for at in range(1, 3001)),
        "wide": "\n".join(",".join(f"{name}{at}" for at in range(400)) for name in ("col", *"vvvv")) + "\n",
        "growing": "id,when,text\n" + "".join(f"{at},long ago,x\n" for at in range(3000))
        + f'5549963,"5,549,963 and more",{"x" * 60}\n',
        "odd names": json.dumps({"plain": [1, {"x": 7}], "\u202eoverridden <b>": {"inside": "deep"}}),
        "log": "".join(
            f"2026-11-15T11:00:00Z {('INFO', 'WARN', 'ERROR', 'DEBUG')[at % 4]} worker {at} {'long ' * (at % 50)}\n"
            for at in range(1, 2001)
        ),
        "json": json.dumps({"meta": {"page": 1}, "items": [{"n": at} for at in range(3000)], "last": "end"}),
        "broken": '{"items": [' + '{"n": 1}, ' * 3000,
        "not text": b"\xef\xbb\xbfgood\xff\xfe\nlast",
        "packed": gzip.compress(b"PAY-417 was declined\n" * 500),
    }  # fmt: skip

    async def keep() -> dict[str, str]:
        async with Holdall.open(home=str(home), session="pages") as bag:
            tool = {"hostile": HOSTILE}
            kept = {name: await bag.keep(made, tool=tool.get(name, name)) for name, made in outputs.items()}
            return {name: f"/s/{bag.session.id}/o/{facts.handle}" for name, facts in kept.items()}

    async def lose() -> str:
        async with Holdall.open(home=str(home), session="gone", settings=Settings(retention="session")) as bag:
            facts = await bag.keep("gone soon\n" * 1000, tool="gone")
            return f"/s/{bag.session.id}/o/{facts.handle}"

    addresses = in_thread(keep) | {"gone": in_thread(lose)}
    story = in_thread(lambda: investigation(home))
    with viewer(home, fork=False) as running:
        yield Site(running, home, addresses | {"story": f"/s/{story.session}/o/{story.handles[0]}"})


@pytest.fixture
def watched(window: Watched) -> Watched:
    return window


def rows(page: "Page") -> "Locator":
    return page.locator("[data-part=text] .row")


def shown(page: "Page", text: str) -> "Locator":
    """The row with this text, once it is there."""
    found = rows(page).filter(has_text=re.compile(text)).first
    found.wait_for(timeout=60_000)
    return found


def go(page: "Page", where: str) -> None:
    page.fill("[name=to]", where)
    page.press("[name=to]", "Enter")


def place(page: "Page") -> str:
    return page.locator("[data-part=place]").inner_text()


def settled(page: "Page", wanted: str) -> None:
    page.locator("[data-part=place]", has_text=re.compile(wanted)).wait_for(timeout=60_000)


@requirement("viewer:pages")
@pytest.mark.parametrize(
    ("name", "last"), [("many", f"row {MANY_LINES}$"), ("large", "says nothing at all"), ("long", '"find me"}]}')]
)
def test_web_011_an_output_of_any_shape_is_there_at_once_and_its_end_too(
    site: Site, alone: Watched, name: str, last: str
) -> None:
    page = alone.page
    alone.visit(site.address("csv"))  # with its notice: what every page needs is loaded now
    page.locator("#panel-notice", has_text="Not recorded").wait_for()
    got, before = _bytes_received(page), _memory(site.viewer.process.pid)
    started = time.perf_counter()
    page.goto(site.address(name))
    rows(page).first.locator(".text").wait_for()
    painted = time.perf_counter() - started
    go(page, "50%")
    page.locator("mark.landed").first.wait_for()
    page.locator("[data-part=text]").focus()
    page.keyboard.press("End")
    shown(page, re.escape(last) if name == "long" else last)
    assert rows(page).count() < 150
    assert sum(got) < 1_000_000
    assert page.evaluate("() => performance.memory.usedJSHeapSize") < 60_000_000
    assert _memory(site.viewer.process.pid) - before < 60_000_000
    assert not FULL or painted < 1.0  # alone, in `./dev test browser`: else other workers have the processor
    alone.is_calm()


def _memory(pid: int) -> int:
    """What a process holds; 0 where nobody tells."""
    status = Path(f"/proc/{pid}/status")
    found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return int(found[1]) * 1024 if found else 0


def _bytes_received(page: "Page") -> list[int]:
    got: list[int] = []
    page.on("response", lambda answer: got.append(int(answer.headers.get("content-length", 0))))
    return got


@requirement("viewer:pages")
def test_web_011_long_lists_scroll_by_the_pixel_and_jump_by_the_bar(site: Site, watched: Watched) -> None:
    page = watched.page
    page.goto(site.address("many"))
    shown(page, "^1\\s*row 1$")
    go(page, f"L{MANY_LINES // 2}")
    row = shown(page, f"row {MANY_LINES // 2}$")
    before = row.bounding_box()
    assert before is not None
    page.mouse.move(before["x"] + 200, before["y"])
    page.mouse.wheel(0, 60)
    deadline = time.monotonic() + 10
    while (after := row.bounding_box()) is not None and after["y"] == before["y"] and time.monotonic() < deadline:
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert after is not None
    assert abs(before["y"] - after["y"] - 60) < 3
    box = page.locator("[data-part=text]")
    box.evaluate("box => { box.scrollTop = box.scrollHeight * 0.75 }")
    settled(page, "lines")
    deadline = time.monotonic() + 10
    while abs(_first_line(page) / MANY_LINES - 0.75) > 0.02 and time.monotonic() < deadline:
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert abs(_first_line(page) / MANY_LINES - 0.75) < 0.02
    assert int(box.evaluate("box => box.scrollHeight")) < 16_000_000
    watched.is_calm()


def _first_line(page: "Page") -> int:
    found = re.match(r"lines ([\d,]+)", place(page))
    return int(found[1].replace(",", "")) if found else 0


@requirement("viewer:search")
def test_a_needle_in_one_long_line_is_found_and_its_bytes_are_marked(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("long"))
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    page.keyboard.press("Enter")
    marked = page.locator("[data-part=text] mark.current")
    marked.first.wait_for(timeout=30_000)
    assert "".join(marked.all_inner_texts()) == "needle"  # it may go over the end of a row
    assert _is_in_sight(page, marked.first)
    assert page.locator("[data-part=search-status]").inner_text() == "1 of 1"
    address = re.compile(r"byte=(\d+)&to=(\d+)")
    page.wait_for_url(address)
    found = address.search(page.url)
    assert found is not None
    data = page.evaluate(
        "async ([base, from, to]) => (await fetch(`${base}/raw`, {headers: {Range: `bytes=${from}-${to - 1}`}})).text()",
        [f"{site.viewer.base}{site.outputs['long']}", int(found[1]), int(found[2])],
    )
    assert data == "needle"
    watched.is_calm()


@requirement("viewer:search")
def test_matches_are_listed_and_stepped_through_both_ways(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("small"))
    page.locator("label.toggle", has_text=".*").click()
    page.fill("[data-search]", "line 1\\d$")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=matches] button").nth(9).wait_for()
    assert page.locator("[data-part=search-status]").inner_text() == "1 of 10"
    page.locator("mark.current", has_text="line 10").wait_for()
    page.locator("[data-part=text] :focus").wait_for()  # nothing has to be left before the keys go to the matches
    page.keyboard.press("n")
    page.locator("mark.current", has_text="line 11").wait_for()
    page.keyboard.press("Enter")
    page.locator("mark.current", has_text="line 12").wait_for()
    page.keyboard.press("Shift+Enter")
    page.locator("mark.current", has_text="line 11").wait_for()
    page.keyboard.press("N")
    page.keyboard.press("N")
    page.locator("mark.current", has_text="line 19").wait_for()
    assert page.locator("[data-part=search-status]").inner_text() == "10 of 10"
    page.locator("[data-part=matches] button").nth(4).click()
    page.locator("mark.current", has_text="line 14").wait_for()
    page.press("[data-search]", "Shift+Enter")
    page.locator("mark.current", has_text="line 13").wait_for()
    page.press("[data-search]", "Escape")
    assert page.input_value("[data-search]") == "line 1\\d$", "what the matches are of"
    assert page.evaluate("document.activeElement.dataset.part") == "text"
    page.keyboard.press("n")
    page.locator("mark.current", has_text="line 14").wait_for()
    page.fill("[data-search]", "(")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=search-error]", has_text="This bracket is not closed").wait_for()
    assert page.locator("[data-part=search-status]").inner_text() == ""
    error, bar = page.locator("[data-part=search-error]").bounding_box(), page.locator(".output-bar").bounding_box()
    assert error is not None
    assert bar is not None
    assert error["y"] >= bar["y"] + bar["height"] - 1
    assert error["width"] > 0.9 * bar["width"]
    assert watched.troubles.pop().startswith("console: Failed to load resource")  # the refusal itself
    watched.is_calm()


@requirement("viewer:search")
def test_the_address_has_what_is_searched_for_and_the_match(site: Site, watched: Watched) -> None:
    page, status = watched.page, watched.page.locator("[data-part=search-status]")
    watched.visit(site.address("small"))
    page.locator("label.toggle", has_text=".*").click()
    page.fill("[data-search]", "LINE 1\\d$")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=matches] button").nth(3).click()
    page.wait_for_url(re.compile(r"\?byte=87&to=94&q=LINE\+1%5Cd%24&pattern=1$"))
    watched.visit(page.url)
    page.locator("mark.current", has_text="line 13").wait_for()
    assert (status.inner_text(), page.input_value("[data-search]")) == ("4 of 10", "LINE 1\\d$")
    page.locator("label.toggle", has_text="Aa").click()
    status.get_by_text("nothing found").wait_for()
    page.wait_for_url("**&case=1&pattern=1")
    page.fill("[data-search]", "")
    page.wait_for_url(re.compile(r"\?byte=\d+&to=\d+$"))
    watched.visit(site.address("small", "?q=line&byte=8&to=9"))
    page.locator("mark.landed").wait_for()
    assert status.inner_text() == "300 matches", "that place is none of them"
    watched.is_calm()


@requirement("viewer:search")
def test_a_line_in_the_address_is_shown_beside_a_search(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("small", "?q=line&line=250"))
    page.locator("[data-part=text] .row:has(mark.landed)", has_text="line 250").wait_for()
    assert page.locator("[data-part=search-status]").inner_text() == "300 matches"
    page.wait_for_url(re.compile(r"\?byte=\d+&to=\d+&q=line$"))
    watched.is_calm()


@requirement("viewer:search")
def test_the_strip_marks_all_matches_although_the_list_has_the_first_only(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("log"))
    page.fill("[data-search]", "error")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=search-status]", has_text="1 of 500").wait_for()
    assert page.locator("[data-part=matches] button").count() == 200
    ticks = page.locator("[data-part=strip] .tick").evaluate_all("all => all.map(one => Number(one.getAttribute('y')))")
    assert len(ticks) > 350
    assert max(after - before for before, after in pairwise(ticks)) < 8
    assert ticks[0] < 4
    assert ticks[-1] > 396
    page.locator("[data-part=text]").focus()
    page.keyboard.press("G")
    settled(page, "of 2,000")
    watched.is_calm()


@requirement("viewer:search")
def test_all_matches_in_sight_are_marked(site: Site, watched: Watched) -> None:
    page, marks = watched.page, watched.page.locator("[data-part=text] mark")
    watched.visit(site.address("odd names", "?q=de&line=1"))
    page.locator("[data-part=text] mark.hit").nth(2).wait_for()
    assert marks.all_inner_texts() == [
        '{"plain": [1, {"x": 7}], "\\u202eoverrid',
        "de",
        'n <b>": {"insi',
        "de",
        '": "',
        "de",
        'ep"}}',
    ]
    assert page.locator("[data-part=text] mark.hit").all_inner_texts() == ["de"] * 3
    page.click("#tab-tree")
    page.locator("[data-part=tree] .tree-hit").first.wait_for()
    assert page.locator("[data-part=tree] .tree-hit").count() == 1
    watched.visit(site.address("log", "?q=worker&line=1500"))  # the list has the first two hundred
    page.locator("[data-part=text] .row", has_text="worker 1500").locator("mark.hit", has_text="worker").wait_for()
    watched.visit(site.address("small", "?q=i"))
    marks.last.wait_for()
    assert marks.count() == page.locator("[data-part=text] .row .text").count()
    watched.visit(site.address("csv", "?q=n%2C+1&view=table"))
    page.locator("[data-part=table] .row-hit").nth(9).wait_for()
    watched.is_calm()


@pytest.mark.parametrize(
    ("name", "asked", "text"),
    [
        ("small", "?line=250", "line 250↵?"), ("small", "?byte=8&to=12", "ine "), ("many", "?line=650000", "row 650000↵?"),
        ("long", "?byte=15000000&to=15000004", ".{4}"), ("small", "?byte=999999", "↵"), ("small", "?line=99999", "line 300↵?"),
        ("odd", "?byte=2&to=4", "ö"), ("odd", "?byte=3&to=4", "ö"), ("odd", "?byte=6&to=7", re.escape("\\e")),
        ("odd", "?byte=11&to=15", "😀"), ("odd", "?byte=15&to=18", re.escape("\\u202e")), ("odd", "?line=2", "↵"),
        ("odd", "?line=3", "last"), ("odd", "?byte=0&to=99", "äöü"),
    ],
)  # fmt: skip
def test_a_deep_link_lands_on_its_bytes_with_the_focus(
    site: Site, window: Watched, name: str, asked: str, text: str
) -> None:
    page = window.page
    page.goto(site.address(name, asked))
    marked = page.locator("mark.landed").first
    marked.wait_for()
    assert re.fullmatch(text, marked.inner_text())
    page.locator(".row:focus mark.landed").first.wait_for()
    assert _is_in_sight(page, marked)
    window.is_calm()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("?line=x", "The address names no line"), ("?line=12abc&view=table", "The address names no line"),
        ("?byte=x&to=9", "The address names no byte"), ("?byte=3&to=-1", "The address names no byte"),
        ("?byte=99999999&to=5", "There is no byte 99,999,999: this is the last"),
        ("?byte=10&to=5", "To byte 5 there is nothing from byte 10 on"),
        ("?view=tree", "This output has no view “tree”. It has: text, table, sql, compare."),
        ("?view=no%22pe&line=3", "This output has no view “no\"pe”"),
    ],
)  # fmt: skip
def test_an_address_that_asks_for_what_there_is_not_says_so(site: Site, watched: Watched, asked: str, why: str) -> None:
    watched.visit(site.address("csv", asked))
    watched.page.locator("[data-part=status].is-wrong", has_text=why).wait_for()
    watched.is_calm()


def _is_in_sight(page: "Page", one: "Locator") -> bool:
    box, around = one.bounding_box(), page.locator("[data-part=text]").bounding_box()
    assert box is not None
    assert around is not None
    inside = around["y"] - 1 <= box["y"] and box["y"] + box["height"] <= around["y"] + around["height"] + 1
    return inside and around["x"] <= box["x"] < around["x"] + around["width"]


def test_a_long_line_among_short_ones_goes_on_by_bytes(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("mixed"))
    more = page.locator("button.more").first
    more.wait_for()
    assert _is_in_sight(page, more)
    assert more.inner_text() == "… 4.0 kB more of this line"
    gutter = page.locator("[data-part=text] .gutter").first
    place_before = gutter.bounding_box()
    page.locator("[data-part=text]").evaluate("box => { box.scrollLeft = 3000 }")
    assert gutter.bounding_box() == place_before
    more.click()
    settled(page, "^bytes 1,")
    assert page.locator("input[value=bytes]").is_checked()
    go(page, "L12")
    page.locator("mark.landed").first.wait_for()
    assert "".join(page.locator("mark.landed").all_inner_texts()) == "line 11↵"  # the long one is a line, too
    watched.is_calm()


def test_an_output_that_is_gone_says_so(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("gone"))
    assert "expired" in page.locator(".output-gone").inner_text()
    page.locator("#panel-notice", has_text="The output is gone, and with it").wait_for()
    for part in ("search", "copy", "jump"):
        assert not page.locator(f"[data-part={part}]").is_visible()
    watched.is_calm()


def test_a_quotes_link_lands_on_the_bytes_that_it_stands_at(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("story"))
    page.get_by_role("tab", name="Quotes").click()
    page.locator(".quote-verified a").click()
    page.locator("mark.landed").first.wait_for()
    assert REAL_QUOTE in page.locator("mark.landed").first.inner_text()
    assert page.locator(".quote-unverified a").count() == 0
    assert page.locator(".row.seen-all", has=page.locator("mark.landed")).count() == 1
    assert page.locator(".strip .shown").count() > 0
    watched.is_calm()


@requirement("viewer:tail")
def test_what_is_written_appears_as_it_comes_until_it_has_ended(site: Site, watched: Watched) -> None:
    page = watched.page

    with BlockingHoldall.open(home=str(site.home), session="running") as bag:
        writer = bag.begin(tool="slow")
        writer.write(b"".join(b"early %d\n" % at for at in range(500)))
        page.goto(f"{site.viewer.base}/s/{writer.facts.session}/o/{writer.handle}?token={site.viewer.token}")
        shown(page, "early 499$")
        assert page.locator("[data-part=follow]").get_attribute("aria-pressed") == "true"
        writer.write(b"then this\n")
        shown(page, "then this")
        page.locator("[data-part=text]").focus()
        page.keyboard.press("Home")
        shown(page, "early 0$")
        assert page.locator("[data-part=follow]").get_attribute("aria-pressed") == "false"
        writer.write(b"unseen for now\n" * 50)
        settled(page, "of 551")
        assert _first_line(page) == 1
        page.locator("[data-part=follow]").click()
        shown(page, "unseen for now")
        writer.write(b"the last line")
        writer.finish("ready")
        shown(page, "the last line")
        page.locator("[data-part=state]", has_text="ready").wait_for()
        page.locator("#panel-notice", has_text="It was written by a command").wait_for()  # and no longer that it is
        assert page.locator("[data-part=follow]").is_hidden()
    watched.is_calm()


@requirement("viewer:search")
def test_a_search_in_what_is_being_written_says_of_how_much_it_is_and_goes_on(site: Site, watched: Watched) -> None:
    page = watched.page
    status, field = page.locator("[data-part=search-status]"), page.locator("[data-search]")

    def found(wanted: str) -> None:
        status.filter(has_text=re.compile(f"^{wanted}$")).wait_for()

    with BlockingHoldall.open(home=str(site.home), session="searched") as bag:
        writer = bag.begin(tool="slow")
        writer.write(b"ERROR one\n" + b"fine\n" * 200)
        page.goto(f"{site.viewer.base}/s/{writer.facts.session}/o/{writer.handle}?token={site.viewer.token}")
        shown(page, "fine")
        field.fill("error")
        field.press("Enter")
        found("1 of 1 in the first 1.0 kB")
        writer.write(b"ERROR two\n" + b"fine\n" * 200)
        page.locator("[data-part=size]", has_text="2.0 kB").wait_for()
        field.press("Enter")
        found("2 of 2 in the first 2.0 kB")
        assert page.locator("[data-part=matches] button").count() == 2
        writer.write(b"ERROR three\n")
        page.locator("[data-part=lines]", has_text="403 lines").wait_for()
        found("2 of 2 in the first 2.0 kB")
        writer.finish("ready")
        found("2 of 3")
        assert page.locator("[data-part=matches] [aria-current]").inner_text().startswith("line 202")
        assert page.locator(".strip .tick").count() == 3
        field.press("Enter")
        page.locator("mark.current", has_text="ERROR").wait_for()
        found("3 of 3")
    watched.is_calm()


@pytest.mark.parametrize("by", ["lines", "bytes", "hex"])
def test_hostile_output_is_text_and_nothing_runs_or_leaves(site: Site, watched: Watched, by: str) -> None:
    page = watched.page
    watched.visit(site.address("hostile"))
    page.locator(f"input[name=by][value={by}]").check(force=True)
    rows(page).first.locator(".text").wait_for()
    page.fill("[data-search]", "<script>")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=matches] button").first.wait_for()
    for tab in ("Call", "Quotes", "Seen by the model", "Matches"):
        page.get_by_role("tab", name=tab).click()
    assert page.evaluate("() => window.ran") is None
    inside = page.locator("#output")
    for tag in ("script", "img", "base", "style", "a[href^=javascript]", "[onerror]", "[onload]", "[style*=url]"):
        assert inside.locator(tag).count() == 0
    text = page.evaluate("() => document.getElementById('output').textContent")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]", text)
    if by != "hex":
        assert "<script>window.ran=1</script>" in text
        assert page.locator("[data-part=text] .esc").count() > 0
    watched.is_calm()


def test_a_search_that_finds_nothing_says_what_was_not_searched(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("packed"))
    page.fill("[data-search]", "PAY-417")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=search-error]", has_text="these are the bytes of a gzip").wait_for()
    assert page.locator("[data-part=search-status]").inner_text() == "nothing found"
    watched.is_calm()


def test_a_query_answers_a_table_or_says_what_is_wrong(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv"))
    page.get_by_role("tab", name="SQL").click()
    page.fill("[name=sql]", "select count(*) as n, max(id) as m from t")
    page.keyboard.press("Control+Enter")
    page.locator("table.answer td").first.wait_for(timeout=60_000)
    page.locator("table.answer td", has_text="20000").wait_for()
    assert page.locator("table.answer td").all_inner_texts() == ["1", "20000", "19999"]
    # What is there while another question is asked is not its answer; and the next one does not wait for its end.
    page.fill("[name=sql]", "select count(*) from t a, t b, t c where a.id + b.id + c.id < 0")
    page.keyboard.press("Control+Enter")
    page.locator(".sql-result.is-old .is-asking", has_text="What stands below is the former answer.").wait_for()
    page.fill("[name=sql]", "select 43 as x")
    page.keyboard.press("Control+Enter")
    page.locator("table.answer td", has_text="43").wait_for(timeout=45_000)  # the other one may take 60 s
    assert page.locator(".is-old, .is-asking").count() == 0
    page.fill("[name=sql]", "select nonsense from t")
    page.locator(".sql button[type=submit]").click()
    page.locator(".sql-result .is-wrong", has_text="Columns of t: id").wait_for()
    assert "sql=select+nonsense+from+t" in page.url, "the address has what was asked"
    page.go_back()
    page.locator("table.answer td", has_text="43").wait_for()
    assert page.input_value("[name=sql]") == "select 43 as x"
    assert watched.troubles.pop().startswith("console: Failed to load resource")
    watched.is_calm()


def test_a_query_that_runs_says_for_how_long_and_can_be_stopped(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv", "?view=sql"))
    page.locator("table.answer td").first.wait_for(timeout=60_000)
    page.fill("[name=sql]", "select count(*) from t a, t b, t c where a.id + b.id + c.id < 0")
    page.keyboard.press("Control+Enter")
    clock = page.locator(".is-asking .asking-time", has_text=re.compile(r"^\d+\.\d s$"))
    clock.wait_for()
    first = clock.inner_text()
    page.wait_for_function("first => document.querySelector('.asking-time').innerText !== first", arg=first)
    page.get_by_role("button", name="Stop").click()
    page.locator(".sql-result .note", has_text=re.compile(r"^Stopped after \d+\.\d s\.$")).wait_for()
    assert page.locator(".is-old, .is-asking, .is-wrong, table.answer, [aria-busy]").count() == 0
    assert "sql=select+count" in page.url
    assert not page.get_by_role("link", name="All rows as CSV").is_visible()
    assert page.locator(".sql [type=submit]").evaluate("one => one === document.activeElement")
    page.fill("[name=sql]", "select 44 as x")
    page.keyboard.press("Control+Enter")
    page.locator("table.answer td", has_text="44").wait_for(timeout=45_000)  # the server has ended the other one
    assert page.get_by_role("button", name="Stop").count() == 0
    watched.is_calm()


def test_a_table_is_sorted_paged_and_exported_as_it_is_shown(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv"))
    page.get_by_role("tab", name="Table").click()
    page.locator("[data-part=table-head] .cell", has_text="id").click(position={"x": 3, "y": 3})  # beside its name
    cells = page.locator("table.answer tbody tr").first.locator("td")
    page.locator("th[aria-sort=ascending]", has_text="id").wait_for(timeout=60_000)
    page.locator("table.answer th", has_text="id").click(position={"x": 3, "y": 3})
    page.locator("th[aria-sort=descending]").wait_for()
    assert cells.all_inner_texts() == ["20,000", "19999", "n, 19999"]
    alignments = [cells.nth(at).evaluate("one => getComputedStyle(one).textAlign") for at in range(3)]
    assert alignments == ["end", "end", "start"]
    page.get_by_role("button", name="Next", exact=True).click()
    page.locator(".answer-pager", has_text="rows 101–200 of 20,000").wait_for()
    assert cells.all_inner_texts() == ["19,900", "19899", "n, 19899"]
    assert "skip=100" in page.url
    watched.page.reload()  # the address has the page, too
    page.locator(".answer-pager", has_text="rows 101–200 of 20,000").wait_for()
    with page.expect_download() as waited:
        page.get_by_role("link", name="All rows as CSV").click()
    lines = Path(waited.value.path()).read_text().splitlines()
    assert (len(lines), lines[0], lines[1]) == (20_001, '"id","name"', '19999,"n, 19999"')
    page.get_by_role("button", name="Previous", exact=True).click()
    page.locator(".answer-pager", has_text="rows 1–100 of 20,000").wait_for()
    page.locator("table.answer th button", has_text="id").click()
    page.locator("th[aria-sort]").wait_for(state="detached")
    watched.is_calm()


def test_csv_is_offered_of_what_is_shown_only_and_dates_are_not_broken(site: Site, watched: Watched) -> None:
    page = watched.page
    day = ", ".join(f"'2026-02-14 SKU-{at}' as day_{at}" for at in range(30))
    watched.visit(site.address("csv", f"?{urlencode({'view': 'sql', 'sql': f'select {day} from t limit 3'})}"))
    cell = page.locator(".answer td .cell").first
    cell.wait_for()
    box = cell.bounding_box()
    assert box is not None
    assert box["height"] < 30, "one line"
    link = page.get_by_role("link", name="All rows as CSV")
    assert link.is_visible()
    page.fill("#sql-text", "select 1 as one")
    assert not link.is_visible()
    page.press("#sql-text", "Control+Enter")
    link.wait_for()
    assert "select+1+as+one" in (link.get_attribute("href") or "")
    watched.is_calm()


def test_of_very_many_columns_of_an_answer_the_first_are_shown(site: Site, watched: Watched) -> None:
    page = watched.page
    asked = "select t.* from t, range(100)"
    watched.visit(site.address("wide", f"?{urlencode({'view': 'sql', 'sql': asked})}"))
    page.get_by_text("The first 100 of 400 columns are shown: name others in the SQL. The CSV has all.").wait_for()
    assert page.locator(".answer th").count() == 101
    assert page.locator(".answer tbody tr").first.locator("td").count() == 101
    watched.is_calm()


def test_columns_are_beside_the_sql_and_the_table_is_filled_in(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("json"))
    page.get_by_role("tab", name="SQL").click()
    page.locator("table.answer td").first.wait_for(timeout=60_000)
    assert page.locator("[name=at]").input_value() == "$.items"
    columns = page.locator(".sql-columns li")
    assert columns.all_inner_texts() == ["n\nBIGINT"]
    sql, beside = page.locator("[name=sql]").bounding_box(), page.locator(".sql-columns").bounding_box()
    assert sql is not None
    assert beside is not None
    assert beside["x"] >= sql["x"] + sql["width"]
    page.fill("[name=sql]", "select max() from t")
    page.locator("[name=sql]").evaluate("one => one.setSelectionRange(11, 11)")
    columns.locator("button").click()
    assert page.locator("[name=sql]").input_value() == "select max(n) from t"
    page.locator(".sql button[type=submit]").click()
    page.locator("table.answer td", has_text="2999").wait_for()
    watched.visit(site.address("small"))
    page.get_by_role("tab", name="SQL").click()
    page.locator("table.answer td a", has_text=re.compile("^42$")).click(timeout=60_000)
    page.locator("mark.landed", has_text="line 42").wait_for()
    watched.is_calm()


def test_a_column_is_put_where_it_means_something_before_the_sql_had_the_focus(site: Site, watched: Watched) -> None:
    page, sql = watched.page, watched.page.locator("[name=sql]")
    columns = page.locator(".sql-columns li button")
    watched.visit(site.address("csv", "?view=sql"))
    for at in (0, 1):
        columns.nth(at).click()
    assert sql.input_value() == "select id, name from t", "the second one stands where the cursor is since"
    watched.visit(site.address("csv", f"?{urlencode({'view': 'sql', 'sql': 'select id from t'})}"))
    columns.nth(1).click()
    assert sql.input_value() == "select id from t name"
    assert not page.get_by_role("link", name="All rows as CSV").is_visible(), "it is of other SQL"
    watched.is_calm()


def test_json_is_a_tree_that_opens_by_clicks_and_keys(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("json"))
    page.get_by_role("tab", name="Tree").click()
    items = page.get_by_role("treeitem")
    page.locator(".tree-name", has_text="last").wait_for()
    page.locator(".tree-more button").wait_for()  # what most of it is, is open
    assert items.count() == 104
    assert "3,000 elements" in page.locator(".tree-line", has=page.locator(".tree-name", has_text="items")).inner_text()
    page.locator(".tree-more button").click()
    page.locator(".tree-index", has_text=re.compile("^199$")).wait_for()
    page.locator(".tree-name", has_text="meta").click()
    page.locator(".tree-name", has_text="page").wait_for()
    page.keyboard.press("ArrowLeft")
    page.locator(".tree-name", has_text="page").wait_for(state="hidden")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("() => document.activeElement.dataset.path") == "$.meta.page"
    page.keyboard.press("Enter")
    marked = page.locator("mark.landed").first
    marked.wait_for()
    assert marked.inner_text() == "1"
    watched.is_calm()


@requirement("viewer:search")
def test_a_search_from_the_tree_stays_in_the_tree(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("json"))
    page.get_by_role("tab", name="Tree").click()
    page.locator(".tree-more button").wait_for()
    page.fill("[data-search]", '"n": 2500')
    page.press("[data-search]", "Enter")
    page.locator(".tree-found .tree-hit").wait_for()  # the match begins in the name
    assert page.locator("[name=path]").input_value() == "$.items[2500].n"
    page.fill("[data-search]", "2501")
    page.press("[data-search]", "Enter")
    page.locator(".tree mark.current", has_text="2501").wait_for()
    page.locator("[data-part=tree]").focus()
    page.keyboard.press("n")
    assert page.locator("#panel-tree").is_visible()
    assert page.locator("[data-part=search-status]").inner_text() == "1 of 1"
    page.locator(".tree-more button").first.click()  # the gap is filled from its beginning
    page.locator(".tree-index", has_text=re.compile("^100$")).wait_for()
    order = page.locator(".tree-index").all_inner_texts()[1:]
    assert order == sorted(order, key=int)
    page.keyboard.press(":")  # of lines and bytes the text knows
    assert page.locator("[name=to]").evaluate("one => one === document.activeElement")
    watched.is_calm()


def test_a_long_way_into_the_tree_is_gone_in_parts_and_says_how_far_it_is(site: Site, watched: Watched) -> None:
    page, text = (
        watched.page,
        json.dumps({"meta": {"page": 1}, "items": [{"n": at} for at in range(3000)], "last": "end"}),
    )
    watched.visit(site.address("json", "?view=tree"))
    asked: list[Any] = []
    page.route("**/way?*", lambda route: asked.append(route))  # noqa: PLW0108 - it must be a function
    page.fill("[data-search]", "2501")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=status]", has_text=re.compile(r"^looking …$")).wait_for()
    page.set_viewport_size({"width": 375, "height": 700})
    page.get_by_role("tab", name="Output").click()
    page.locator("[data-part=status]", has_text="looking").wait_for()  # there, it is not shown otherwise
    page.set_viewport_size({"width": 1100, "height": 900})
    items, half = text.index("["), text.index(' {"n": 1500}')
    steps = [{"at": 0, "after": [0, 0]}, {"at": items, "after": [text.index(' "items"'), 1]}]
    found = {"way": steps, "next": {"at": items, "after": half, "index": 1500}}
    asked[0].fulfill(json=found, headers=watched.mark())
    share = 100 * half // text.index("2501")
    page.locator("[data-part=status]", has_text=re.compile(rf"^looking … {share} %$")).wait_for()
    asked[1].continue_()
    page.locator(".tree mark.current", has_text="2501").wait_for()
    assert page.locator("[name=path]").input_value() == "$.items[2501].n"
    page.locator("[data-part=status]", has_text="line 1, byte").wait_for()
    page.unroute("**/way?*")
    watched.is_calm()


def test_a_way_into_the_tree_that_gets_no_further_ends_in_the_text_and_says_why(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("json", "?view=tree"))
    asked: list[str] = []
    mark = watched.mark()

    def late(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(json={"way": [], "next": {"at": None, "after": 0, "index": 0}}, headers=mark)

    page.route("**/way?*", late)
    page.fill("[data-search]", "2501")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=status].is-wrong", has_text="could not be opened there in time").wait_for()
    page.locator("[data-part=text] mark.current", has_text="2501").wait_for()
    assert ["patient=1" in one for one in asked] == [False, False, True]
    page.unroute("**/way?*")
    watched.is_calm()


def test_who_does_not_wait_for_the_tree_finds_the_match_in_the_text(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("json", "?view=tree"))
    asked: list[Any] = []
    page.route("**/way?*", lambda route: asked.append(route))  # noqa: PLW0108 - it must be a function
    page.fill("[data-search]", "2501")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=status]", has_text="looking").wait_for()
    page.get_by_role("tab", name="Text").click()
    page.locator("[data-part=text] mark.current", has_text="2501").wait_for()
    said = page.locator("[data-part=status]").inner_text()
    with page.expect_response("**/way?*"):
        asked[0].continue_()
    page.wait_for_load_state("networkidle")
    assert page.locator("[data-part=status]").inner_text() == said
    assert page.locator("#panel-text").is_visible()
    page.unroute("**/way?*")
    watched.is_calm()


def test_a_path_opens_the_tree_at_its_value_and_is_copied(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    watched.visit(site.address("odd names"))
    page.get_by_role("tab", name="Tree").click()
    page.locator(".tree-name", has_text="plain").wait_for()
    page.fill("[name=path]", "$.plain[1].x")
    page.press("[name=path]", "Enter")
    page.locator(".tree mark.current", has_text="7").wait_for()
    page.locator(".tree-name", has_text="overridden").click()
    page.locator(".tree-name", has_text="inside").click()
    path = page.locator("[name=path]").input_value()
    assert path == '$["\\u202eoverridden <b>"].inside'
    page.locator("[data-part=copy-path]").click()
    page.locator("[data-part=path-status]", has_text="Copied").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == path
    page.press("[name=path]", "Enter")
    page.locator(".tree mark.current", has_text="deep").wait_for()
    page.fill("[name=path]", "$.nowhere")
    page.press("[name=path]", "Enter")
    page.locator("[data-part=path-status].is-wrong").wait_for()
    page.fill("[data-search]", "deep")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=path-status].is-wrong").wait_for(state="detached")  # it was about another path
    assert page.locator("[name=path]").input_value() == path
    watched.is_calm()


def test_after_a_path_the_status_is_of_its_value_and_no_longer_of_a_match(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("json", "?view=tree&q=end"))
    status = page.locator("[data-part=status]")
    page.locator(".tree mark.current", has_text="end").wait_for()
    status.filter(has_text="line 1, byte ").wait_for()
    page.fill("[name=path]", "$.meta.page")
    page.press("[name=path]", "Enter")
    status.filter(has_text="line 1, byte 18 to 19").wait_for()
    assert page.url.endswith("?view=tree&byte=18&to=19&q=end"), "its matches are listed still"
    page.get_by_role("tab", name="Text").click()
    page.locator("mark.landed", has_text=re.compile("^1$")).wait_for()
    watched.is_calm()


def test_a_path_that_takes_long_says_for_how_long_it_is_looked_for(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("json", "?view=tree"))
    page.locator("[data-part=tree] [data-at]").first.wait_for()
    page.route("**/query?*", lambda _: None)  # it is never answered
    page.get_by_label("Path of a value").fill("$.items[?(@.n > 5)]")
    page.get_by_role("button", name="Go").last.click()
    page.locator("[data-part=path-status]", has_text=re.compile(r"^looking … \d s$")).wait_for()
    page.unroute("**/query?*")
    page.locator("[data-part=tree] .tree-line").first.click()
    watched.is_calm()


def test_the_late_answer_of_a_path_does_not_take_the_place_of_a_newer_one(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("odd names"))
    page.get_by_role("tab", name="Tree").click()
    page.locator(".tree-name", has_text="plain").wait_for()
    late: list[Any] = []
    page.route("**/query?*plain*", lambda route: late.append(route))  # noqa: PLW0108 - it must be a function
    page.fill("[name=path]", "$.plain[1].x")
    page.press("[name=path]", "Enter")
    page.locator("[data-part=path-status]", has_text="looking").wait_for()
    page.fill("[name=path]", "$.nowhere")
    page.press("[name=path]", "Enter")
    page.locator("[data-part=path-status].is-wrong").wait_for()
    with suppress(Exception):  # nobody waits for it any more
        late[0].continue_()
    page.wait_for_timeout(200)
    assert page.locator(".tree mark.current").count() == 0
    assert page.locator("[data-part=path-status].is-wrong").count() == 1


def test_csv_is_a_table_that_scrolls_to_its_end(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv"))
    page.get_by_role("tab", name="Table").click()
    cells = page.locator("[data-part=table] .cell")
    cells.filter(has_text=re.compile("^n, 0$")).wait_for()
    assert page.locator("[data-part=table-head] .cell").all_inner_texts() == ["id", "name"]
    page.locator("[data-part=table]").evaluate("box => { box.scrollTop = box.scrollHeight }")
    cells.filter(has_text=re.compile("^n, 19999$")).wait_for()
    assert page.locator("[data-part=table] .row").count() < 150
    watched.is_calm()


def test_in_a_table_escape_leaves_the_search_and_n_goes_on(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv", "?view=table"))
    page.fill("[data-search]", "n, 77")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=search-status]", has_text=re.compile("^1 of ")).wait_for()
    page.press("[data-search]", "Escape")
    page.keyboard.press("n")
    page.locator("[data-part=search-status]", has_text=re.compile("^2 of ")).wait_for()
    assert page.input_value("[data-search]") == "n, 77"
    watched.is_calm()


def test_a_table_without_a_header_has_its_first_line_as_a_row(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("nameless", "?view=table"))
    cells = page.locator("[data-part=table] .cell")
    cells.filter(has_text=re.compile("^/usr/lib/1$")).wait_for()
    assert page.locator("[data-part=table-head] .cell").all_inner_texts() == ["column0", "column1"]
    page.locator("[data-part=table]").evaluate("box => { box.scrollTop = box.scrollHeight }")
    cells.filter(has_text=re.compile("^/usr/lib/3000$")).wait_for()
    watched.is_calm()


@pytest.mark.parametrize("width", [1100, 375])
def test_each_name_of_a_wide_table_is_above_its_column(site: Site, watched: Watched, width: int) -> None:
    page = watched.page
    page.set_viewport_size({"width": width, "height": 900})
    watched.visit(site.address("wide", "?view=table"))
    page.locator("[data-part=table] .row").first.locator(".cell").first.wait_for()
    note = page.locator("[data-part=table-head] .cell-note")
    assert note.inner_text() == "… 200 more columns: SQL has them"
    left = "all => all.map(one => Math.round(one.getBoundingClientRect().left))"
    names = page.locator("[data-part=table-head] [role=columnheader]")
    cells = page.locator("[data-part=table] .row").nth(1).locator(".cell")
    assert names.all_inner_texts() == [f"col{at}" for at in range(200)]
    assert cells.all_inner_texts() == [f"v{at}" for at in range(200)]
    assert names.evaluate_all(left) == cells.evaluate_all(left)
    page.locator("[data-part=table]").evaluate("box => { box.scrollLeft = box.scrollWidth }")
    page.wait_for_function("() => document.querySelector('[data-part=table-head]').scrollLeft > 0")
    assert names.evaluate_all(left) == cells.evaluate_all(left)
    edge = page.locator("[data-part=table]").bounding_box()
    box = note.bounding_box()
    assert edge is not None
    assert box is not None
    assert edge["x"] < box["x"] < box["x"] + box["width"] <= edge["x"] + edge["width"] + 1
    watched.is_calm()


def test_a_column_is_wide_enough_for_what_comes_later(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("growing", "?view=table"))
    page.locator("[data-part=table] .row", has_text="long ago").first.wait_for()
    page.locator("[data-part=table]").focus()
    page.keyboard.press("End")
    last = page.locator("[data-part=table] .row", has_text="5,549,963 and more").first
    last.wait_for()
    cut = "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.textContent)"
    assert last.locator(".cell").evaluate_all(cut) == ["x" * 60]
    assert last.locator(".cell").nth(2).get_attribute("title") == "x" * 60
    left = "all => all.map(one => Math.round(one.getBoundingClientRect().left))"
    names = page.locator("[data-part=table-head] [role=columnheader]")
    assert names.evaluate_all(left) == last.locator(".cell").evaluate_all(left)
    watched.is_calm()


def test_a_table_is_gone_through_by_keys_and_opens_at_a_line(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv", "?view=table&line=5000"))
    page.locator(".row-found", has_text="n, 4998").wait_for()
    assert page.get_by_role("tab", name="Table").get_attribute("aria-selected") == "true"
    page.keyboard.press("g")
    settled(page, "^lines 2–")
    page.keyboard.press("ArrowDown")
    settled(page, "^lines 3–")
    page.keyboard.press("G")
    settled(page, "–20,001 of 20,001$")
    page.keyboard.press(":")
    page.keyboard.type("L3000")
    page.keyboard.press("Enter")
    page.locator(".row-found", has_text="n, 2998").wait_for()
    assert page.locator("[data-part=status]").inner_text().startswith("line 3,000, byte ")
    watched.is_calm()


def test_the_text_and_the_table_open_where_somebody_landed_in_the_other(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv", "?line=15000"))
    page.locator("mark.landed", has_text="n, 14998").wait_for()
    page.get_by_role("tab", name="Table").click()
    page.locator(".row-found", has_text="n, 14998").wait_for()
    assert "?view=table&byte=" in page.url
    page.locator("[data-part=table]").focus()
    page.keyboard.press("g")
    settled(page, "^lines 2–")
    page.get_by_role("tab", name="Text").click()
    settled(page, "^lines 14,")
    page.get_by_role("tab", name="Table").click()
    settled(page, "^lines 2–")  # as it was left
    go(page, "50%")
    page.locator(".row-found").wait_for()
    found = page.locator(".row-found .cell").last.inner_text()
    page.get_by_role("tab", name="Text").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    page.locator("mark.landed").wait_for()
    assert found in shown(page, re.escape(found)).inner_text()
    assert page.get_by_role("tab", name="Text").evaluate("one => one === document.activeElement")
    watched.is_calm()


def test_a_viewer_that_is_gone_is_said_to_be(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("small"))
    page.evaluate("() => { window.fetch = () => Promise.reject(new TypeError('Failed to fetch')) }")
    page.fill("[data-search]", "line")
    page.press("[data-search]", "Enter")
    page.locator("[data-part=search-error]", has_text="start it again: holdall view").wait_for()


def test_what_is_wrong_with_json_is_said_once_and_parts_are_listed_on_a_phone_too(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("broken", "?view=tree"))
    page.locator(".tree-note.is-wrong").first.wait_for()
    page.locator(".tree-name", has_text="items").click()
    page.locator("[data-path='$.items[0]']").wait_for()
    assert page.locator(".tree-note.is-wrong").count() == 1
    page.set_viewport_size({"width": 375, "height": 740})
    watched.visit(site.address("packed"))
    page.get_by_role("link", name="what it holds, unpacked").wait_for()
    assert rows(page).first.is_visible()
    watched.is_calm()


def test_levels_of_a_log_are_in_colour(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("log"))
    colours: dict[str, str] = {}
    for level in ("INFO", "WARN", "ERROR", "DEBUG"):
        text = shown(page, f" {level} worker").locator(".text")
        colours[level] = text.evaluate("one => getComputedStyle(one).color")
    assert len(set(colours.values())) == 4
    watched.visit(site.address("csv"))
    assert page.locator("[class*=level-]").count() == 0
    watched.is_calm()


def test_long_lines_are_wrapped_and_scroll_to_both_ends(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("log"))
    page.locator("[data-part=text]").focus()
    page.keyboard.press("w")
    assert page.locator("[data-part=wrap]").is_checked()
    row = shown(page, "worker 30 ")
    box = row.bounding_box()
    assert box is not None
    assert box["height"] >= 40
    text = page.locator("[data-part=text]")
    assert text.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.keyboard.press("End")
    last = shown(page, "worker 2000 ")
    deadline = time.monotonic() + 10
    while not _is_whole(page, last) and time.monotonic() < deadline:
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert _is_whole(page, last)
    go(page, "L1049")
    marked = page.locator("mark.landed").first
    marked.wait_for()
    assert _is_in_sight(page, marked)
    before = marked.bounding_box()
    assert before is not None
    page.mouse.move(before["x"] + 50, before["y"] + 5)
    page.mouse.wheel(0, 60)
    deadline = time.monotonic() + 10
    while (after := marked.bounding_box()) == before and time.monotonic() < deadline:
        page.evaluate("() => new Promise(requestAnimationFrame)")
    assert after is not None
    assert abs(before["y"] - after["y"] - 60) < 3
    text.evaluate("box => { box.scrollTop = 0 }")
    shown(page, "worker 1 ")
    settled(page, "^lines 1–")
    watched.visit(site.address("small"))
    assert page.locator("[data-part=wrap]").is_checked()  # as it was on the page before
    watched.is_calm()


def _is_whole(page: "Page", one: "Locator") -> bool:
    box, around = one.bounding_box(), page.locator("[data-part=text]").bounding_box()
    assert box is not None
    assert around is not None
    return around["y"] - 1 <= box["y"] and box["y"] + box["height"] <= around["y"] + around["height"] + 1


def test_the_panel_beside_the_output_is_folded_away(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("small"))
    fold = page.get_by_role("button", name="Panel beside the output")
    fold.click()
    assert fold.get_attribute("aria-expanded") == "false"
    assert not page.locator(".output-side").is_visible()
    box = page.locator(".output-main").bounding_box()
    assert box is not None
    assert box["width"] > 1000
    page.reload(wait_until="networkidle")
    assert not page.locator(".output-side").is_visible()
    page.locator("[data-part=text]").focus()
    page.keyboard.press("s")
    assert page.locator(".output-side").is_visible()
    watched.is_calm()


@pytest.mark.parametrize("height", [667, 740, 844] if FULL else [667])
def test_on_a_phone_at_most_a_fifth_of_the_screen_is_not_the_output(site: Site, window: Watched, height: int) -> None:
    page = window.page
    page.set_viewport_size({"width": 375, "height": height})
    for name, tab, part in (
        ("log", "Text", ".pane"),
        ("json", "Tree", "[data-part=tree]"),
        ("csv", "Table", "#panel-table"),
    ):
        window.visit(site.address(name))
        page.get_by_role("tab", name=tab, exact=True).click()
        box = page.locator(f"{part} >> visible=true").first.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= height
        assert 1 - box["width"] * box["height"] / (375 * height) <= 0.2, tab
        assert page.evaluate("() => document.documentElement.scrollHeight") <= height
    assert not page.locator("[data-part=search]").is_visible()
    page.get_by_role("button", name="Search", exact=True).click()
    page.keyboard.type("n, 77")
    page.keyboard.press("Enter")
    page.locator("[data-part=search-status]", has_text="1 of").wait_for()
    window.is_calm()


def test_everything_is_reached_by_keys(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("small"))
    settled(page, "^lines 1–")
    page.keyboard.press("ArrowDown")
    settled(page, "^lines 2–")
    page.keyboard.press("PageDown")
    assert _first_line(page) > 10
    page.keyboard.press("PageUp")
    settled(page, "^lines 2–")
    page.keyboard.press("G")
    settled(page, "–300 of 300")
    page.keyboard.press("g")
    settled(page, "^lines 1–")
    page.keyboard.press("End")
    settled(page, "–300 of 300")
    page.keyboard.press("Home")
    settled(page, "^lines 1–")
    page.locator("input[type=radio][value=hex]").check(force=True)
    page.locator("input[type=radio][value=lines]").check(force=True)
    page.keyboard.press(":")  # though the choice has the focus
    page.keyboard.type("byte 20")
    page.keyboard.press("Enter")
    page.locator("mark.landed").wait_for()
    assert page.locator("[data-part=status]").inner_text() == "line 3, byte 20"
    page.keyboard.press("G")
    settled(page, "–300 of 300")
    page.keyboard.press("w")
    assert place(page).endswith("–300 of 300"), "and not back where somebody landed before"
    page.keyboard.press("/")
    assert page.evaluate("() => document.activeElement.name") == "q"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.locator("dialog[open]").inner_text().count("previous match") == 1
    watched.is_calm()


def test_what_is_marked_or_in_sight_is_copied_as_it_is_kept(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    watched.visit(site.address("small", "?byte=7&to=14"))
    page.locator("mark.landed").first.wait_for()
    page.get_by_role("button", name="Copy").click()
    page.locator("[data-part=status]", has_text="Copied what is marked").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == "line 2\n"
    with page.expect_download() as waited:
        page.get_by_role("link", name="Download").click()
    assert waited.value.suggested_filename == f"{site.outputs['small'].rpartition('/')[2]}.txt"
    assert Path(waited.value.path()).read_text() == "".join(f"line {at}\n" for at in range(1, 301))
    watched.is_calm()


def test_a_copy_that_is_not_what_is_kept_says_so(site: Site, watched: Watched) -> None:
    page, status = watched.page, watched.page.locator("[data-part=status]")
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    watched.visit(site.address("not text"))
    page.locator("[data-part=text] .esc-x").wait_for()
    page.click("[data-part=copy]")
    status.get_by_text("Bytes that are not UTF-8 became \ufffd: the download has them as they are.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "\ufeffgood\ufffd\ufffd\nlast"
    page.evaluate("getSelection().selectAllChildren(document.querySelector('[data-part=text] .row .text'))")
    page.click("[data-part=copy]")
    status.get_by_text("Copied the selection. It has the escapes that are shown, not what they stand for.").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "\\ufeffgood\\xff\\xfe↵last"
    watched.is_calm()


def test_in_the_tree_the_value_that_is_chosen_is_copied(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.context.grant_permissions(["clipboard-read", "clipboard-write"])
    watched.visit(site.address("json", "?byte=20&to=30"))
    page.locator("mark.landed").first.wait_for()
    page.get_by_role("tab", name="Tree").click()
    page.locator(".tree-name", has_text="meta").click()
    page.get_by_role("button", name="Copy", exact=True).click()
    page.locator("[data-part=status]", has_text="Copied the value at this path").wait_for()
    assert page.evaluate("() => navigator.clipboard.readText()") == '{"page": 1}'
    watched.is_calm()


def test_what_is_marked_stays_in_sight_in_hex(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("log"))
    go(page, "L500")
    shown(page, "worker 500 ")
    page.locator("label", has_text="hex").click()
    marked = page.locator("[data-part=text][data-by=hex] mark.landed").first
    marked.wait_for()
    assert _is_in_sight(page, marked)
    watched.is_calm()


def test_a_line_past_the_end_is_said_not_to_be_there(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("small"))
    page.get_by_label("Jump to a line").fill("L9999")
    page.keyboard.press("Enter")
    page.get_by_text("There is no line 9,999: this is the last, 300.").wait_for()
    go(page, "byte 99999")
    page.get_by_text("There is no byte 99,999: this is the last, 2,591.").wait_for()
    go(page, "150%")
    page.get_by_text("There is no 150%: this is the end.").wait_for()
    go(page, "L0")
    page.get_by_text("There is no line 0: this is the first.").wait_for()
    page.get_by_role("tab", name="SQL").click()
    page.locator("[data-part=status].is-wrong").wait_for(state="hidden")
    assert page.locator("[data-part=status]").inner_text() == "", "it is about the text, not about this"
    watched.visit(site.address("empty"))
    go(page, "L1")
    page.get_by_text("There is nothing to jump to.").wait_for()
    watched.is_calm()


def test_the_main_array_is_open_although_its_end_was_not_reached_in_time_and_what_is_large_is_counted_later(
    site: Site, alone: Watched
) -> None:
    page = alone.page
    page.add_init_script("""
      const ask = window.fetch;
      window.fetch = async (address, ...rest) => {
        const answer = await ask(address, ...rest);
        if (!String(address).includes("/tree?")) return answer;
        const level = await answer.json();
        for (const child of level.children) {
          if (child.plain === "items") child.end = null;
          if (child.plain === "meta") child.count = null;
        }
        return new Response(JSON.stringify(level), { headers: answer.headers });
      };
    """)
    alone.visit(site.address("json", "?view=tree"))
    page.locator("[data-path='$.items[0]']").wait_for()
    page.locator("[data-path='$.meta'] > .tree-line", has_text="1 member · 11 B").wait_for()
    alone.is_calm()


def test_numbers_are_not_broken_on_a_phone(site: Site, watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size({"width": 375, "height": 740})
    columns = ", ".join(f"id + 1234567{at} as c{at}" for at in range(8))
    asked = urlencode({"view": "sql", "sql": f"select {columns} from t limit 3"})
    watched.visit(site.address("csv", f"?{asked}"))
    cells = page.locator("table.answer td.cell-right")
    cells.first.wait_for()
    heights = cells.evaluate_all("(all) => all.map((one) => one.getClientRects()[0].height)")
    assert max(heights) < 30, "one line"
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    watched.is_calm()


@pytest.mark.parametrize("name", ["long", "hostile", "json", *(["small", "csv", "story"] if FULL else [])])
def test_a_narrow_page_never_scrolls_sideways_and_shows_one_thing_at_a_time(
    site: Site, window: Watched, name: str
) -> None:
    page = window.page
    page.set_viewport_size({"width": 375, "height": 740})
    page.goto(site.address(name))
    rows(page).first.locator(".text").wait_for()
    sides = page.locator(".output-side > [role=tablist] [role=tab]")
    views = page.locator(".output-main [role=tablist] [role=tab]")
    for tabs in (views, sides):
        for at in range(tabs.count()):
            tabs.nth(at).click()
            assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    assert page.locator("#panel-matches").is_visible()
    assert not page.locator(".output-main").is_visible()
    sides.first.click()
    assert page.locator(".output-main").is_visible()
    assert not page.locator("#panel-matches").is_visible()
    window.is_calm()


def test_every_control_has_a_name(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("json"))
    nameless = page.evaluate(
        """() => [...document.querySelectorAll('#output button, #output input, #output textarea, #output a, #output [role=tabpanel], #output [tabindex="0"]')]
          .filter((one) => !(one.getAttribute('aria-label') || one.getAttribute('aria-labelledby') || one.textContent.trim() || one.labels?.length))
          .map((one) => one.outerHTML)"""
    )
    assert nameless == []
    watched.is_calm()


def test_the_address_leads_to_the_view_that_is_looked_at(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv"))
    page.get_by_role("tab", name="Table").click()
    page.locator(".output-status", has_text="lines 2–").wait_for()
    assert page.url.endswith("?view=table")
    page.locator("[data-part=table-head] button", has_text="id").click()
    page.locator("th[aria-sort=ascending]").wait_for(timeout=60_000)
    page.locator("table.answer th button", has_text="id").click()
    page.locator("th[aria-sort=descending]").wait_for()
    watched.visit(page.url)
    page.locator("th[aria-sort=descending]", has_text="id").wait_for(timeout=60_000)
    assert page.locator("table.answer tbody tr").first.locator("td").all_inner_texts()[1] == "19999"
    watched.visit(site.address("json"))
    page.get_by_role("tab", name="Tree").click()
    page.locator("[data-part=tree] [data-at]").first.wait_for()
    page.get_by_label("Path of a value").fill("$.items[7]")
    page.get_by_role("button", name="Go").last.click()
    page.locator(".tree-found").wait_for()
    page.wait_for_url(re.compile(r"\?view=tree&byte="))  # it is marked before its line is known
    watched.visit(page.url)
    page.locator(".tree-found").wait_for()
    assert page.get_by_role("tab", name="Tree").get_attribute("aria-selected") == "true"
    watched.is_calm()


def test_the_address_may_name_what_is_beside_the_output(site: Site, watched: Watched) -> None:
    watched.visit(site.address("story", "?side=retrievals"))
    assert watched.page.get_by_role("tab", name="Asked").get_attribute("aria-selected") == "true"
    assert watched.page.locator("#panel-retrievals article").first.is_visible()
    watched.visit(site.address("story", "?side=%22nothing"))
    assert watched.page.get_by_role("tab", name="Seen by the model").get_attribute("aria-selected") == "true"
    watched.is_calm()


def test_back_leads_to_the_view_before(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("small"))
    page.get_by_role("tab", name="SQL").click()
    page.locator("table.answer td").first.wait_for(timeout=60_000)
    page.fill("[name=sql]", "select * from t where text = 'line 42'")
    page.locator(".sql button[type=submit]").click()
    page.locator("table.answer tr").nth(2).wait_for(state="detached")  # the answer before has a 42, too
    page.locator("table.answer td a", has_text=re.compile("^42$")).click()
    page.locator("mark.landed", has_text="line 42").wait_for()
    page.go_back()
    page.locator("table.answer td a", has_text=re.compile("^42$")).wait_for(timeout=60_000)
    assert page.get_by_role("tab", name="SQL").get_attribute("aria-selected") == "true"
    page.go_forward()
    page.locator("mark.landed", has_text="line 42").wait_for()
    watched.is_calm()


def test_back_leads_to_the_order_and_the_page_before(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv", "?view=sql"))
    page.locator(".answer-pager", has_text="rows 1–100 of 20,000").wait_for()
    page.get_by_role("tab", name="Table").click()
    page.locator("[data-part=table-head] button", has_text="id").click()
    page.locator("th[aria-sort=ascending]", has_text="id").wait_for()
    page.locator("table.answer th button", has_text="id").click()
    page.locator("th[aria-sort=descending]").wait_for()
    page.get_by_role("button", name="Next", exact=True).click()
    page.locator(".answer-pager", has_text="rows 101–200 of 20,000").wait_for()
    first = page.locator("table.answer tbody tr").first.locator("td").nth(1)
    assert first.inner_text() == "19899"
    page.go_back()
    page.locator(".answer-pager", has_text="rows 1–100 of 20,000").wait_for()
    page.locator("th[aria-sort=descending]").wait_for()
    assert first.inner_text() == "19999"
    page.go_back()
    page.locator("th[aria-sort=ascending]").wait_for()
    assert first.inner_text() == "0"
    page.go_back()
    page.locator("[data-part=table] .cell", has_text=re.compile("^n, 0$")).wait_for()
    assert page.get_by_role("tab", name="Table").get_attribute("aria-selected") == "true"
    page.go_forward()
    page.locator("th[aria-sort=ascending]").wait_for()
    watched.is_calm()


def test_a_table_is_one_for_a_screen_reader_too(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv", "?view=table"))
    table = page.get_by_role("table", name="The rows")
    table.get_by_role("cell", name="n, 0", exact=True).wait_for()
    assert table.get_by_role("columnheader").all_inner_texts() == ["id", "name"]


def test_an_output_is_compared_with_another_by_keys_alone(site: Site, watched: Watched) -> None:
    page = watched.page
    watched.visit(site.address("csv"))
    page.get_by_role("tab", name="Text").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    page.locator("#compare-other").wait_for()
    page.locator("#compare-other").select_option(site.outputs["small"].rpartition("/")[2])
    page.locator("#panel-compare [role=status]").wait_for(timeout=60_000)
    other = page.locator("#compare-other").input_value()
    assert page.url.endswith(f"?view=compare&other={other}")
    address, next_one = page.url, site.outputs["log"].rpartition("/")[2]
    page.locator("#compare-other").select_option(next_one)
    page.wait_for_url(f"**?view=compare&other={next_one}")
    page.go_back()
    page.wait_for_url(address)
    page.locator(f"#compare-other option[selected][value={other}]").wait_for(state="attached")
    watched.visit(address)
    page.locator(f"#compare-other option[selected][value={other}]").wait_for(state="attached")
    watched.is_calm()


def test_of_two_comparisons_the_one_that_was_chosen_last_is_shown(site: Site, watched: Watched) -> None:
    page = watched.page
    first, last = (site.outputs[name].rpartition("/")[2] for name in ("log", "small"))
    watched.visit(site.address("csv", "?view=compare"))
    choice = page.locator("#compare-other")
    choice.select_option(site.outputs["odd"].rpartition("/")[2])
    page.locator("#panel-compare .note", has_text="holdall diff").wait_for()
    page.route(f"**/compare?other={first}", lambda _: None)  # it is never answered
    choice.select_option(first)
    page.get_by_text("comparing …").wait_for()
    assert page.locator("#panel-compare .note").evaluate("one => getComputedStyle(one).opacity") == "0.35"
    choice.select_option(last)
    page.locator("#panel-compare .note", has_text=f"holdall diff {last}").wait_for()
    page.get_by_text("comparing …").wait_for(state="hidden")
    assert choice.input_value() == last
    assert page.url.endswith(f"?view=compare&other={last}")
    said = {one.partition(",")[0] for one in watched.troubles}
    assert said <= {"console: htmx:afterRequest", "console: htmx:sendAbort"}, "the first one was given up"
