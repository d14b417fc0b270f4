"""Content that would like to be code: whatever comes from a tool, a name or an address is text on every page."""

import html
import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from starlette.routing import Route

from holdall.bag import Holdall
from holdall.web.server import create_app
from tests.requirements import requirement
from tests.web.stories import Told, investigation, plain
from tests.web.support import HOST, PORT, TOKEN, client

pytestmark = pytest.mark.anyio

SCRIPT = "'\"><script>1</script>"  # WEB-003
CLOSING = "</script><!--"  # WEB-004
HIDDEN = "a\u202etxt.exe\u200b\x1b[31m\ue000\U000e0041"
PAYLOADS = [
    pytest.param(SCRIPT, id="WEB-003"),
    pytest.param(CLOSING, id="WEB-004"),
    pytest.param("<img src=x onerror=alert(1)>", id="image"),
    pytest.param("{{ 7*7 }}{% raw %}", id="template"),
    pytest.param("javascript:alert(1)", id="address"),
    pytest.param("&lt;script&gt;", id="escaped-already"),
    pytest.param("</textarea></title></style><svg/onload=alert(1)>", id="closing-tags"),
    pytest.param("' autofocus onfocus=alert(1) x='", id="attribute"),
]


class _Parsed(HTMLParser):
    """The elements and attributes of a page, as a browser would see them, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.comments: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def _is_harmless(page: str) -> _Parsed:
    parsed = _Parsed(page)
    for tag, attributes in parsed.tags:
        assert tag not in ("img", "iframe", "object", "embed", "style", "base"), tag
        assert tag != "textarea" or attributes.get("name") == "sql", "the page of an output has this one itself"
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        for name in ("href", "src", "action", "hx-get", "xlink:href"):
            assert (attributes.get(name) or "/").startswith(("/", "#", "?")), (tag, attributes)
        if tag == "script":
            assert (attributes.get("src") or "").startswith("/static/")
    assert parsed.comments == []
    return parsed


async def _told(home: Path, payload: str) -> Told:
    """A session in which everything that comes from outside is the payload."""
    name = payload[:150]
    told = await investigation(home, name, tool=payload)
    async with Holdall.open(home=str(home), session=name) as bag:
        await bag.keep(payload, tool=payload, call_id=payload, server=payload, arguments={payload: payload})
        bag.journal.record("turn", number=payload, final=True, tokens=5, why=payload)
        bag.journal.record("asked", seconds=0.1, purpose=payload, model=payload, input_tokens=1, output_tokens=1, cost=0.1,
                           preview=payload, why=payload)  # fmt: skip
        bag.journal.record("called", tool=payload, handle=payload, call_id=payload, outcome=payload, chars=1)
        line = {"role": "tool", "call_id": payload, "name": payload, "text": payload, "is_error": True}
        bag.append_transcript(json.dumps(line).encode() + b"\n")
        bag.journal.record("spawned", tool=payload, session=payload)
        bag.journal.record("extracted", tool=payload, handle=payload, strategy=payload, question=payload, snippets=1,
                           quotes=[[0, 0, "none", payload], [1, 5, payload]])  # fmt: skip
        bag.journal.record(
            "reported", status=payload, synthetic=True, why=payload, chars=0, turns=1, seen={payload: 0.5}
        )
    return told


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("payload", PAYLOADS)
async def test_a_payload_is_text_wherever_it_stands(home: Path, payload: str) -> None:
    told = await _told(home, payload)
    with client(home) as browser:
        for path in ("/", "/sessions/rows", f"/s/{told.session}", f"/s/{told.session}/live"):
            answer = browser.get(path)
            assert answer.status_code == 200, path
            parsed = _is_harmless(answer.text)
            assert payload[:20] in parsed.text, f"it is shown as it is on {path}"
            assert all(payload not in value for value in answer.headers.values())
        rows = [one[1]["hx-get"] or "" for one in parsed.tags if "/step?" in (one[1].get("hx-get") or "")]
        assert len(rows) > 8
        for path in rows:
            _is_harmless(browser.get(path).text)


async def test_no_page_that_there_is_makes_code_of_what_a_tool_said(home: Path) -> None:
    """Every route of the viewer, also one that was added a moment ago, on an output that is a payload."""
    told = await plain(home, "hostile", [(SCRIPT, f"{SCRIPT}\n{CLOSING}\n" * 50)])
    routes = [route for route in create_app(str(home), TOKEN, HOST, PORT).routes if isinstance(route, Route)]
    with client(home) as browser:
        for route in routes:
            path = route.path.replace("{session}", told.session).replace("{handle}", told.handles[0])
            answer = browser.get(path.replace("{name:path}", "viewer.js"), params={"q": SCRIPT, "sql": SCRIPT})
            assert answer.status_code < 500, path
            if answer.headers["content-type"].startswith("text/html"):
                _is_harmless(answer.text)
                assert SCRIPT not in answer.text, path
            else:
                assert answer.headers["x-content-type-options"] == "nosniff", path
    assert len(routes) > 10


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize(
    "path", ["/", "/?q={}", "/inside?q={}", "/?page={}", "/s/{}", "/s/{}/live", "/s/{}/o/{}", "/static/{}", "/{}?x={}"]
)
async def test_what_stands_in_an_address_comes_back_as_text(home: Path, payload: str, path: str) -> None:
    with client(home) as browser:
        answer = browser.get(path.replace("{}", "".join(f"%{byte:02x}" for byte in payload.encode())))
    _is_harmless(answer.text)
    assert (
        payload not in answer.text
        or html.escape(payload) == payload
        or payload == "javascript:alert(1)"
        or "{{" in payload
    )
    assert all(payload not in value for value in answer.headers.values())


async def test_a_known_session_with_a_strange_handle_is_a_page_that_says_so(home: Path) -> None:
    told = await plain(home, "one", [("t", "x")])
    with client(home) as browser:
        answer = browser.get(f"/s/{told.session}/o/%22%3E%3Cscript%3E1%3C%2Fscript%3E")
    assert answer.status_code == 404
    _is_harmless(answer.text)


@requirement("measure:escape-page")
async def test_characters_that_hide_or_reorder_are_shown_as_escapes(home: Path) -> None:
    told = await plain(home, "visible", [(HIDDEN, "x")])
    with client(home) as browser:
        pages = [browser.get("/sessions/rows").text, browser.get(f"/s/{told.session}").text]
    for page in pages:
        assert not any(character in page for character in "\u202e\u200b\x1b\U000e0041")
        assert "a\\u202etxt.exe\\u200b\\x1b[31m" in page


async def test_web_013_a_tool_name_with_a_line_break_stands_on_one_line(home: Path) -> None:
    told = await plain(home, "lines", [("x\n2026-01-01 INFO admin login ok\x1b[31m", "x")])
    with client(home) as browser:
        assert "x\\n2026-01-01 INFO admin login ok\\x1b[31m" in browser.get(f"/s/{told.session}").text
