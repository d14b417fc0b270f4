"""A row of the timeline opens to what was sent and what came back, as the model had it."""

import html
import json
import re
import tracemalloc
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from holdall.agent.loop import run_agent
from holdall.bag import Holdall
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.policy.folds import Operation
from holdall.values.chat import Assistant, Reply, ToolCall
from holdall.values.errors import ModelFault
from holdall.web.conversation import LONGEST, MOST_COUNTED, Asked, exchange, mentioned
from holdall.web.timeline import turn_places
from tests.agent.shapes import acting, agent, report, returned, tool
from tests.requirements import requirement
from tests.web.stories import investigation
from tests.web.support import client

pytestmark = pytest.mark.anyio


def _opened(browser: TestClient, session: str, kind: str) -> list[str]:
    """What each row of a kind opens to."""
    page = browser.get(f"/s/{session}").text
    rows = re.findall(rf'<li id="[^"]*" class="op is-{kind} .*?</li>', page, re.DOTALL)
    found = [re.search(r'hx-get="([^"]+/step\?[^"]+)"', row) for row in rows]
    answers = [browser.get(html.unescape(one[1])) for one in found if one is not None]
    assert all(one.status_code == 200 for one in answers)
    return [one.text for one in answers]


def _texts(fragment: str) -> list[str]:
    return [
        html.unescape(one) for one in re.findall(r'<pre class="said" tabindex="0">(.*?)</pre>', fragment, re.DOTALL)
    ]


def _sent(request: Request, start: int = 0) -> list[str]:
    """The texts of a request as a page has them: of a reply, its words and then the arguments of its calls."""
    found: list[str] = []
    for message in request.messages[start:]:
        calls = message.calls if isinstance(message, Assistant) else ()
        found += [message.text] if message.text or not calls else []
        found += [json.dumps(call.arguments, indent=2) for call in calls]
    return found


@requirement("viewer:same-notice")
async def test_a_turn_opens_to_its_whole_request_and_a_model_call_to_what_is_new_and_the_reply(home: Path) -> None:
    async def fetch() -> str:
        return "one line of the log\n" * 4000

    model = acting([("fetch", {})], [("context_grep", {"handle": "$", "pattern": "one"})], report("all is well"))
    one = agent(home.parent, model, tool("fetch", fetch))
    async with one.open_bag("s1", "", model) as bag:
        await run_agent(one, bag, "look at the <b>log</b>")
        session = bag.session.id
    with client(home) as browser:
        turns, models = _opened(browser, session, "turn"), _opened(browser, session, "model")
        tools = _opened(browser, session, "tool")
    assert len(turns) == len(models) == len(model.requests) == 3
    known = 0
    for request, turn, call in zip(model.requests, turns, models, strict=True):
        assert _texts(turn) == _sent(request)
        new = _sent(request, known)
        assert _texts(call)[: len(new)] == new
        known = len(request.messages)  # the notice at its end is gone, the reply is in its place
    assert json.loads(_texts(models[2])[-1]) == {"report": "all is well"}
    notice, answer = [message.text for message in returned(model.requests[2])]
    assert [_texts(one)[-1] for one in tools] == [notice, answer]
    assert json.loads(_texts(tools[1])[0])["pattern"] == "one"
    assert "<code>context_grep</code>" in turns[1], "which tools were offered"
    assert "<code>context_grep</code>" not in turns[0]


@requirement("viewer:same-notice")
async def test_after_a_recovery_the_requests_are_those_that_were_sent(home: Path) -> None:
    async def wide() -> str:
        return "word " * 11_000

    def answer(request: Request) -> Reply:
        if sum(len(message.text) for message in request.messages) > 60_000:
            raise ModelFault("some:model: prompt too long")
        if not returned(request):
            return Reply(calls=(ToolCall("a", "wide", {}), ToolCall("b", "wide", {})))
        return Reply(calls=(ToolCall("r", "final_report", {"report": "done"}),))

    model = ScriptedModel(answer, window=100_000, max_output=1000)
    one = agent(
        home.parent, model, tool("wide", wide), settings={"max_inline_tokens": 20_000, "max_inline_bytes": 200_000}
    )
    async with one.open_bag("s1", "", model) as bag:
        await run_agent(one, bag, "go")
        session = bag.session.id
    with client(home) as browser:
        models, turns, tools = (_opened(browser, session, kind) for kind in ("model", "turn", "tool"))
    first, failed, last = models
    assert "Nothing: some:model: prompt too long" in failed
    assert "16,000 characters".replace("16,000", f"{55_000 - LONGEST:,} more") in failed
    assert "the conversation was written anew" in last
    assert "the conversation was written anew" not in first
    assert _texts(turns[-1]) == _sent(model.requests[-1])
    assert _texts(tools[0])[1] == ("word " * 11_000)[:LONGEST]
    assert "this took its place" in tools[0]
    assert _texts(tools[0])[2] == returned(model.requests[-1])[0].text


async def test_a_long_text_comes_in_pieces(home: Path) -> None:
    long = "".join(f"{number} & so on\n" for number in range(5000))
    model = acting(report("done"))
    one = agent(home.parent, model)
    async with one.open_bag("s1", "", model) as bag:
        await run_agent(one, bag, long)
        session = bag.session.id
    with client(home) as browser:
        (page,) = _opened(browser, session, "model")
        read = _texts(page)[1]
        while (more := re.search(r'hx-get="([^"]+/said\?[^"]+)"', page)) is not None:
            page = browser.get(html.unescape(more[1])).text
            (piece,) = _texts(page)
            assert len(piece) <= LONGEST
            read += piece
        wrong = [browser.get(f"/s/{session}/said?{asked}").status_code for asked in ("line=99", "line=x", "line=-1")]
    assert read == long
    assert wrong == [404, 400, 400]


async def test_an_agent_opens_to_its_task_and_its_report_and_a_question_to_what_it_read(home: Path) -> None:
    child = acting(report("twelve"))
    model = acting([("spawn_agent", {"agent": "helper", "task": "count the eggs"})], report("done"))
    helper = agent(home.parent, child, name="helper")
    one = agent(home.parent, model, agents={"helper": helper})
    async with one.open_bag("s1", "", model) as bag:
        await run_agent(one, bag, "go")
        session = bag.session.id
    told = await investigation(home)
    with client(home) as browser:
        (spawned,) = _opened(browser, session, "agent")
        (question,) = _opened(browser, told.session, "extraction")
    assert _texts(spawned)[0] == "count the eggs"
    assert json.loads(_texts(spawned)[-1]) == {"report": "twelve"}
    assert "which disk?" in question
    assert "1 of 2 quotes verified then" in question


async def test_a_question_that_no_model_answered_is_not_said_to_be_found(home: Path) -> None:
    """Whether none was asked, or what came back was no answer: the timeline has the calls of that."""
    model = ScriptedModel(lambda _: "no JSON", keeps_schema=True, window=400_000)
    async with Holdall.open(home=str(home), session="s1", model=model) as bag:
        kept = await bag.keep("x\n" * 40_000, tool="export")
        for mode in ("truncate", "auto"):
            assert (await bag.extract(kept.handle, "which disk?", mode=mode)).found is None
        session = bag.session.id
    assert model.requests
    with client(home) as browser:
        asked = _opened(browser, session, "extraction")
        page = browser.get(f"/s/{session}/o/{kept.handle}/quotes").text
    for question in asked:
        assert "No model has answered: what was given is both ends of the output." in question
        assert "Found" not in question
    assert page.count(" · no model has answered<") == len(asked) == 2


@requirement("viewer:same-notice")
async def test_what_was_not_recorded_is_said_not_to_be(home: Path) -> None:
    """An older store has no notices of requests; a transcript may have lost its end."""
    told = await investigation(home)
    with client(home) as browser:
        models, tools = _opened(browser, told.session, "model"), _opened(browser, told.session, "tool")
    assert all("Not recorded: the transcript of this session does not have it." in one for one in models[:2])
    assert any("What was sent and what came back is not recorded" in one for one in models), "a call of a question"
    assert "fetch_log returned" in tools[0], "the note beside the output has it"
    assert _texts(tools[1])[0].startswith("{")
    assert "Not recorded, 700 characters." in tools[1]


async def test_a_row_that_is_not_there_is_not_found(home: Path) -> None:
    told = await investigation(home)
    asked = [
        "turn=1.0",
        "model=nan",
        "tool=x&at=1",
        "agent=x",
        "agent=00000000-0000-4000-8000-000000000000",
        "extraction=1",
    ]
    with client(home) as browser:
        assert [browser.get(f"/s/{told.session}/step?{one}").status_code for one in asked] == [404] * 6
        assert browser.get(f"/s/{told.session}/step").status_code == 400
        assert browser.get(f"/s/{told.session}/step?turn=1&from=x").status_code == 400


async def test_a_transcript_of_nonsense_opens_all_the_same(home: Path) -> None:
    async with Holdall.open(home=str(home), session="odd") as bag:
        bag.journal.record("turn", number=1, tokens=1, why="")
        bag.journal.record("asked", purpose="turn", model="m", messages="x", calls=[], reply_bytes=None, why={})
        bag.journal.record("extracted", handle="k3f9", tool="t", patterns="no list", question=5, found=None, model=7)
        bag.journal.record("called", tool="t", call_id="c", outcome=["x"], chars="y")
        session = bag.session.id
    lines = ["no json", "[1]", '{"again":true}', '{"role":"request"}', '{"role":"request","notice":1,"tools":5}',
             '{"role":"assistant","text":1,"calls":[{}]}', '{"role":"assistant","text":"","calls":[]}']  # fmt: skip
    (home / f"session-{session}" / "transcript.ndjson").write_text("\n".join(lines) + "\n")
    with client(home) as browser:
        for kind in ("turn", "model", "extraction", "tool"):
            assert _opened(browser, session, kind)


def test_a_reply_that_a_killed_process_did_not_save_does_not_shift_the_others() -> None:
    def said(text: str, role: str = "assistant") -> bytes:
        return json.dumps({"role": role, "text": text, **({"calls": []} if role == "assistant" else {})}).encode()

    lines = [said("s", "system"), said("task", "user"), b'{"again":true}', said("s2", "system"), said("task", "user"),
             said("go on", "user"), said("the second")]  # fmt: skip
    asked = [Asked(1.0, 3, 0, 9, True), Asked(2.0, 4, 0, 10, True)]
    found = exchange(lines, asked, 1, None)
    assert found is not None
    assert found.reply is not None
    assert (found.reply.text, [one.text for one in found.sent], found.replaced) == (
        "the second",
        ["s2", "task", "go on"],
        True,
    )
    assert exchange(lines, asked, 0, None) is None


def _mentions(page: str) -> list[tuple[str, str, str]]:
    """Of each message that was found: who said it, the text around the words, its turn."""
    items = re.findall(r'<li class="op">\n<details.*?</li>', page, re.DOTALL)
    parts = [re.search(r'op-what">(.*?)</span> <q>(.*?)</q>.*?(?:>turn (\d+)<|$)', one, re.DOTALL) for one in items]
    return [(one[1], html.unescape(one[2]), one[3] or "") for one in parts if one is not None]


@requirement("viewer:search")
async def test_every_message_that_has_the_words_is_listed_with_its_turn_and_opens_to_all_of_it(home: Path) -> None:
    async def fetch(id: str) -> str:
        return f"before\n{id} is <b>paid</b>\nafter"

    model = acting([("fetch", {"id": "x"})], [("fetch", {"id": "PAY-417"})], report("pay-417 and Pay-417 are paid"))
    one = agent(home.parent, model, tool("fetch", fetch))
    async with one.open_bag("s1", "", model) as bag:
        await run_agent(one, bag, "what of PAY-417?")
        session = bag.session.id
    with client(home) as browser:
        timeline = browser.get(f"/s/{session}").text
        page = browser.get(f"/s/{session}/messages?q=pay-417").text
        (turn,) = set(re.findall(r'href="/s/[^"#]*#([^"]+)">turn 2<', page))
        whole = [browser.get(html.unescape(one)).text for one in re.findall(r'hx-get="([^"]+/message\?[^"]+)"', page)]
        called = browser.get(f"/s/{session}/messages?q=final_rep").text
        nothing = browser.get(f"/s/{session}/messages?q=nowhere").text
        empty = browser.get(f"/s/{session}/messages")
        wrong = [browser.get(f"/s/{session}/message?line={at}").status_code for at in ("999", "x")]
    assert f'href="/s/{session}/messages"' in timeline
    assert "4 messages with “pay-417”" in page
    assert [(who, number) for who, _, number in _mentions(page)] == [
        ("user", "1"), ("calls", "2"), ("fetch", "2"), ("calls", "3"),
    ]  # fmt: skip
    assert ("calls", "3") in [(who, number) for who, _, number in _mentions(called)], "by the name of its tool"
    assert _mentions(page)[2][1] == "before <mark>PAY-417</mark> is <b>paid</b> after"
    assert page.count(">2 times<") == 1
    assert re.search(rf'<li id="{turn}" class="op is-turn .*?op-name">2<', timeline, re.DOTALL)
    assert "before\n<mark>PAY-417</mark> is &lt;b&gt;paid&lt;/b&gt;\nafter</pre>" in whole[2]
    assert "<mark>pay-417</mark> and <mark>Pay-417</mark> are paid" in whole[3]
    assert "No message of this session has “nowhere”." in nothing
    assert (empty.status_code, wrong) == (200, [404, 400])


async def test_many_messages_come_in_pages_and_what_was_written_anew_is_found_once(home: Path) -> None:
    said = [{"role": "user", "text": f"needle {at}"} for at in range(100)]
    lines = [*said, {"again": True}, *said[90:], {"role": "user", "text": "needle " + "x" * LONGEST + " needle"}]
    async with Holdall.open(home=str(home), session="long") as bag:
        bag.append_transcript(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
        session = bag.session.id
    found: list[str] = []
    with client(home) as browser:
        page = browser.get(f"/s/{session}/messages?q=needle").text
        assert "101 messages with “needle”" in page
        while True:
            found += [text for _, text, _ in _mentions(page)]
            following = re.search(r'hx-get="([^"]+/messages\?[^"]+)"', page)
            if following is None:
                break
            page = browser.get(html.unescape(following[1])).text
            assert "<html" not in page
        last = browser.get(f"/s/{session}/message?line=111&q=needle").text
        rest = re.search(r'hx-get="([^"]+/said\?[^"]+)"', last)
        assert rest is not None
        assert "<mark>needle</mark></pre>" in browser.get(html.unescape(rest[1])).text
    assert found[:100] == [f"<mark>needle</mark> {at}" for at in range(100)]
    assert len(found) == 101


def test_of_a_message_that_is_full_of_the_words_none_but_the_first_is_held() -> None:
    line = json.dumps({"role": "user", "text": "e" * 2_000_000}).encode()
    tracemalloc.start()
    ([one], total, following) = mentioned([line], [], "E", 0)
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (one.count, total, following) == (MOST_COUNTED, 1, None)
    assert held < 5 * len(line), "the line, its text, and what json makes of them"


def test_the_place_of_a_turn_has_the_page_that_its_row_is_on() -> None:
    turns = [Operation("turn", str(at), float(at), children=[Operation("model", "m", float(at))]) for at in range(101)]
    places = turn_places(Operation("session", "s", 0.0, children=turns))
    assert (places[99.0], places[100.0]) == ("#op-99", "?from=200#op-100")
