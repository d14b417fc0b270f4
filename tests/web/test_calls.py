"""Every call of a session in one list, searched and filtered, and found across sessions."""

import asyncio
import contextlib
import html
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from holdall.agent.loop import run_agent
from holdall.bag import Holdall, run
from holdall.bag.overview import Overview
from holdall.bag.run import Writer
from holdall.cli.agents import drawn_tree
from holdall.values.events import Event
from holdall.values.outputs import FAILED, Running
from holdall.values.settings import Settings, ToolPolicy
from holdall.web.calls import PAGE, VERDICTS, rows_of
from tests.agent.shapes import acting, agent, report, tool
from tests.cli.program import Program
from tests.requirements import requirement
from tests.support import reader_of
from tests.web.support import client

pytestmark = pytest.mark.anyio
_PART = {"hx-request": "true"}


def _rows(page: str) -> list[str]:
    return re.findall(r"<tr>\s*<td data-label=\"Began\">.*?</tr>", page, re.DOTALL)


async def _some_calls(home: Path) -> str:
    async def look(id: str) -> str:
        return f"ticket {id}"

    async def fail(id: str) -> str:
        raise ValueError(f"no ticket {id}")

    async with Holdall.open(home=str(home), session="gateway") as bag:
        await bag.run(look, tool="get_ticket", arguments={"id": "PAY-417"}, call_id="c1", server="tickets")
        taken = await bag.take("x\n" * 40_000, tool="export", arguments={"all": True}, server="tickets")
        await bag.call("context_grep", {"handle": taken.artifact.handle, "pattern": "PAY"})  # pyright: ignore
        await bag.call("context_grep", {"handle": "none", "pattern": "x"})
        await bag.run(fail, tool="get_ticket", arguments={"id": "PAY-1"}, server="tickets")
        return bag.session.id


async def test_every_call_is_in_the_list_with_what_became_of_it(home: Path) -> None:
    session = await _some_calls(home)
    with client(home) as browser:
        page = browser.get(f"/s/{session}/calls").text
        assert "/calls" in browser.get(f"/s/{session}").text
    failed, refused, answered, kept, whole = _rows(page)
    assert "shown whole" in whole
    assert "tickets" in whole
    assert "{&#34;id&#34;: &#34;PAY-417&#34;}" in whole
    assert "14 chars" in whole
    assert re.search(r'data-label="Took" class="num">[\d.]+ m?s<', whole)
    assert ">kept<" in kept
    assert "80.0 kB" in kept
    assert "&#34;all&#34;: true" in kept
    assert ">answered<" in answered
    assert "context_grep" in answered
    assert "&#34;pattern&#34;: &#34;PAY&#34;" in answered
    assert ">refused<" in refused
    assert ">failed<" in failed


@requirement("gateway:left-behind")
async def test_a_call_that_its_caller_cancelled_before_it_was_slow_is_in_the_list_the_search_and_the_tree(
    home: Path,
) -> None:
    wrote = asyncio.Event()

    async def crawl(url: str, writer: Writer) -> None:
        writer.write(f"reads {url}\n")
        wrote.set()
        await asyncio.Event().wait()

    async with Holdall.open(home=str(home), session="gateway") as bag:
        arguments = {"url": "http://a.example"}
        call = asyncio.ensure_future(bag.run(crawl, tool="crawl", arguments=arguments, call_id="c1", server="web"))
        await wrote.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        (facts,) = await bag.outputs()
        session, tree = bag.session.id, bag.records.tree().to_json(with_outputs=True)
        counters = await bag.records.counters()
    with client(home) as browser:
        (row,) = _rows(browser.get(f"/s/{session}/calls?q=a.example&verdict=cancelled", headers=_PART).text)
        assert _rows(browser.get(f"/s/{session}/calls?verdict=failed", headers=_PART).text) == []
        assert _rows(browser.get(f"/s/{session}/calls?verdict=interrupted", headers=_PART).text) == []
        assert ">cancelled</option>" in browser.get(f"/s/{session}/calls").text
        found = browser.get("/calls?q=a.example").text
    assert f">crawl {facts.handle}</a>" in row
    assert ">kept</span>" in row
    assert ">cancelled</span>" in row
    assert "its caller cancelled it" in row
    assert '<span class="muted">web</span>' in row
    assert ">23 B<" in row
    assert f">crawl {facts.handle}</a>" in found
    assert ">kept, cancelled</span>" in found
    _, line = drawn_tree(tree)
    assert line.startswith("└─ tool crawl · ")
    assert line.endswith(f" · cancelled · kept {facts.handle} · 23 bytes")
    assert (counters.kept, counters.background, counters.tokens_kept_out) == (1, 0, 0)


@pytest.mark.parametrize("ended", [False, True])
def test_a_call_that_went_to_the_background_is_listed_by_its_start(ended: bool) -> None:
    events = [Event(1012.0, "running", "k3f9", "dump", "c1", 12.0)]
    events += [Event(1015.5, "ended", "k3f9", "dump", "c1", 15.5, "", {"state": "ready"})] if ended else []
    ((row,), _) = rows_of(events, {}, "", "", None)
    assert (row.at, row.seconds) == (1000.0, 15.5 if ended else 12.0)
    older = [Event(1012.0, "running", "k3f9", "dump", "c1"), *events[1:]]  # of before its seconds were noted
    ((row,), _) = rows_of(older, {}, "", "", None)
    assert row.at == (1000.0 if ended else 1012.0)


async def test_the_list_is_searched_and_filtered(home: Path) -> None:
    session = await _some_calls(home)

    def found(asked: str) -> int:
        answer = browser.get(f"/s/{session}/calls?{asked}", headers=_PART)
        assert answer.status_code == 200
        assert "<html" not in answer.text
        return len(_rows(answer.text))

    with client(home) as browser:
        assert [found(one) for one in ("", "q=pay-417", "q=TICKETS", "verdict=refused", "verdict=failed", "q=nowhere")] == [
            5, 1, 3, 1, 1, 0,
        ]  # fmt: skip
        assert (found("q=c1"), found("q=c")) == (1, 5), "a call id only as a whole: it is not shown"
        told = [browser.get(f"/s/{session}/calls{asked}").text for asked in ("", "?q=TICKETS", "?q=pay-417")]
        assert [re.findall(r'found-count">(\d+ calls?)<', page) for page in told] == [
            ["5 calls"],
            ["3 calls"],
            ["1 call"],
        ]
        assert browser.get(f"/s/{session}/calls?verdict=x").status_code == 400
        assert browser.get(f"/s/{session}/calls?before=-1").status_code == 400


async def test_one_search_finds_a_call_and_a_word_in_any_session(home: Path) -> None:
    session = await _some_calls(home)
    model = acting([("look", {"at": "order PAY-417"})], report("it was <PAY-417>"))

    async def look(at: str) -> str:
        return "fine"

    one = agent(home.parent, model, tool("look", look))
    async with one.open_bag("an agent", "", model) as bag:
        await run_agent(one, bag, "go")
        agents = bag.session.id
    with client(home) as browser:
        first = browser.get("/?q=pay-417").text
        assert 'hx-get="/calls?q=pay-417"' in first
        page = browser.get("/calls?q=pay-417").text
        assert f'href="/s/{session}/calls?q=pay-417"' in page
        link = re.search(rf'href="/s/{agents}/messages\?q=pay-417#(said-\w+)" data-row>calls</a> <q>final_report', page)
        assert link is not None
        assert f'data-said="{link[1]}"' in browser.get(f"/s/{agents}/messages?q=pay-417").text
        assert "it was &lt;<mark>PAY-417</mark>&gt;" in page
        assert "Nothing with “nowhere”" in browser.get("/calls?q=nowhere").text
        assert browser.get("/calls").status_code == 200


async def test_arguments_are_found_as_they_were_given_and_as_they_are_shown(home: Path) -> None:
    """Quotes and backslashes have others before them in JSON, and once more in JSON that is a string of the log."""
    pattern, state = r"ERROR .* code (\S+)", '"state": "refused"'
    asked = {"pattern": pattern, "group": True}
    said = {"role": "assistant", "text": "", "calls": [{"id": "c", "name": "context_grep", "arguments": asked}]}
    async with Holdall.open(home=str(home), session="gateway") as bag:
        await bag.take("short", tool="look", arguments=asked)
        kept = await bag.take("x\n" * 40_000, tool="export")
        handle = str(kept.artifact.handle)  # pyright: ignore
        await bag.call("context_grep", {"handle": handle, "pattern": state})
        (await bag.jobs.begin(tool="make", arguments={"command": [r"C:\tools\make", "-k"]})).finish("ready")
        gateway = bag.session.id
    async with Holdall.open(home=str(home), session="agent") as bag:
        bag.append_transcript(json.dumps(said, separators=(",", ":")).encode() + b"\n")
        agents = bag.session.id
    with client(home) as browser:

        def found(address: str, text: str) -> str:
            return html.unescape(browser.get(address, params={"q": text}, headers=_PART).text)

        for text in (r"CODE (\S+)", r"code (\\S+)", '"group": true'):
            everywhere = found("/calls", text)
            assert ">look<" in everywhere, text
            assert f'href="/s/{agents}/messages?' in everywhere, text
            assert ">look<" in found(f"/s/{gateway}/calls", text), text
            messages = found(f"/s/{agents}/messages", text)
            assert "1 message with" in messages, text
            assert "<mark>" in messages, text
        for text in (state, r"\"state\": \"refused\""):
            assert f">context_grep {handle}<" in found("/calls", text), text
            assert f">context_grep {handle}<" in found(f"/s/{gateway}/calls", text), text
        for text in (r"c:\tools", r"C:\\tools"):
            assert ">make " in found("/calls", text), text
        assert "Nothing with" in found("/calls", "ERRORcode"), "the spaces count"
        assert "Nothing with" in found("/calls", r"C:tools")


async def test_words_far_into_the_arguments_of_a_call_and_in_a_notice_are_found(home: Path) -> None:
    said: list[dict[str, Any]] = [
        {"role": "request", "notice": "one output is left: k3f9", "tools": []},
        {"role": "assistant", "text": "", "calls": [{"id": "c", "name": "write", "arguments": {"text": "x " * 900 + "far"}}]},
    ]  # fmt: skip
    async with Holdall.open(home=str(home), session="agent") as bag:
        bag.append_transcript(b"".join(json.dumps(line).encode() + b"\n" for line in said))
    with client(home) as browser:
        assert "<mark>far</mark>" in browser.get("/calls?q=far").text
        assert "one output is <mark>left</mark>: k3f9" in browser.get("/calls?q=left").text


async def test_what_was_asked_about_an_output_is_found_with_what_was_answered(home: Path) -> None:
    async with Holdall.open(home=str(home), session="asked") as bag:
        handle = (await bag.keep("one line\n", tool="fetch")).handle
        about: dict[str, Any] = {"question": "Who <attacks>?", "answer": "Somebody tries passwords."}
        bag.journal.record("extracted", handle=handle, tool="fetch", strategy="grep", reader="person", **about)
        session = bag.session.id
    with client(home) as browser:
        for words, role, shown in (
            ("who <att", "question", "<mark>Who &lt;att</mark>acks&gt;?"),
            ("Somebody", "answer", "<mark>Somebody</mark> tries passwords."),
        ):
            page = browser.get("/calls", params={"q": words}).text
            link = f'href="/s/{session}/o/{handle}?side=quotes" data-row>{role} about {handle}</a>'
            assert link in page
            assert shown in page


async def test_a_message_that_a_transcript_has_again_is_found_once(home: Path) -> None:
    """A run that goes on writes the conversation once more. What is said in another session is another message."""
    task = {"role": "user", "text": "count the walruses"}
    said: list[dict[str, Any]] = [task, {"role": "user", "text": "more walruses"}]
    for session in ("resumed", "other"):
        async with Holdall.open(home=str(home), session=session) as bag:
            for line in [*said, {"again": True}] * 6:
                bag.append_transcript(json.dumps(line).encode() + b"\n")
    with client(home) as browser:
        page = browser.get("/calls?q=walruses").text
    links = re.findall(r'href="([^"]+#said[^"]+)"', page)
    assert len(links) == len(set(links)) == 4
    assert "more of what was said" not in page


async def test_a_call_of_an_agent_is_found_once_and_what_else_a_session_has_is_said(home: Path) -> None:
    handle = ""
    async with Holdall.open(home=str(home), session="agent") as bag:
        for at in range(8):
            handle = (await bag.keep(f"{at}\n", tool="export")).handle
            bag.journal.record("kept", handle=handle, tool="export", call_id=f"c{at}", bytes=2, tokens=1)
            bag.journal.record("called", handle=handle, tool="export", call_id=f"c{at}", outcome="kept", is_error=False)
        session = bag.session.id
    with client(home) as browser:
        page = browser.get("/calls?q=export").text
        few = browser.get(f"/calls?q={handle}").text
    assert page.count(">kept<") == 3, "five lines of the log: two calls are in it twice"
    assert f'<a href="/s/{session}/calls?q=export" data-row>more calls' in page
    assert few.count(">kept<") == 1
    assert "more calls" not in few


async def test_the_search_finds_what_only_the_record_of_an_output_has(home: Path) -> None:
    """A command is in no log; of long arguments the log has the beginning."""
    long = {"a": "x" * 2000, "word": "needle"}
    async with Holdall.open(home=str(home), session="commands") as bag:
        (await bag.jobs.begin(tool="make", arguments={"command": ["build", "Walrus"]})).finish("ready")
        kept = await bag.take("x\n" * 40_000, tool="export", arguments=long)
        await bag.take("y\n" * 40_000, tool="export", arguments={"word": "walruses"})
        handle = str(kept.artifact.handle)  # pyright: ignore
        await bag.call("context_grep", {"handle": handle, "pattern": "Otter"})
    with client(home) as browser:
        page = browser.get("/calls?q=walrus").text
        far = browser.get("/calls?q=needle").text
        asked = browser.get("/calls?q=otter").text
    assert f'/o/{handle}?side=call" data-row>export' in far
    assert f'/o/{handle}?side=retrievals" data-row>context_grep' in asked, "where what was asked is"
    assert page.count('<li class="found">') == 2, "that in the log and the record is found once"
    assert "&#34;Walrus&#34;" in page
    assert f"export {handle}" in far


async def test_what_outputs_hold_is_searched_in_all_sessions_where_a_person_asks_for_it(home: Path) -> None:
    places: dict[str, str] = {}
    for session, text in (("one", "x\n"), ("two", "a <b>Needle</b>\n"), ("three", "the needle\nneedles\n")):
        async with Holdall.open(home=str(home), session=session) as bag:
            handle = (await bag.keep(text * 3, tool=f"fetch_{session}")).handle
            places[session] = f"/s/{bag.session.id}/o/{handle}"
    with client(home) as browser:
        offer, asked = browser.get("/?q=needle").text, browser.get("/?q=needle&inside=yes").text
        page = browser.get("/inside?q=NEEDLE").text
        assert browser.get("/inside?q=").status_code == 200
        assert browser.get("/inside?q=x&skip=-1").status_code == 400
        nothing, other = browser.get("/inside?q=nowhere").text, browser.get("/inside?q=Zo%C3%AB").text
    assert 'href="/?q=needle&amp;inside=yes"' in offer
    assert "/inside" not in offer
    assert 'hx-get="/inside?q=needle" hx-trigger="load"' in asked
    assert f'href="{places["two"]}?q=NEEDLE"' in page
    assert "a &lt;b&gt;<mark>Needle</mark>" in page
    assert "fetch_one" not in page
    assert page.index("fetch_three") < page.index("fetch_two"), "the newest session first"
    assert ">6 matches<" in page
    assert "All outputs that are kept were searched for “NEEDLE”" in page
    assert "<mark>" not in nothing
    assert "as escapes" not in nothing
    assert "JSON that is all ASCII has other characters as escapes" in other


async def test_a_search_in_all_outputs_names_what_is_damaged(home: Path) -> None:
    """What stands there in place of the right bytes is not what was searched for, and no proof that it was not there."""
    async with Holdall.open(home=str(home), session="one") as bag:
        kept = [(await bag.keep(text * 9_000, tool=f"t{at}")).handle for at, text in enumerate(("needle\n", "other\n"))]
        for handle in kept:
            facts = await bag.show(handle)
            file = home / f"session-{bag.session.id}" / facts.file
            data = bytearray(file.read_bytes())
            data[5] ^= 1
            file.write_bytes(data)
    with client(home) as browser:
        page = browser.get("/inside?q=needle").text
    assert ">9,000 matches<" not in page
    assert page.count("could not be searched: output") == 1, "a match is in what is damaged"
    assert page.count("Damaged, so that matches may be missing: bytes 0 to ") == 1
    assert ">0 matches<" in page
    assert "what was found, damaged or not to be searched, if anything, is above" in page


async def test_a_search_in_outputs_continues_where_it_stopped_and_says_what_it_could_not_search(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdall.web.calls._SECONDS_INSIDE", -1.0)
    for session in ("one", "two"):
        async with Holdall.open(home=str(home), session=session) as bag:
            kept = [(await bag.keep(f"needle {at} {session}\n", tool=f"t{at}-{session}")).handle for at in range(3)]
            if session == "one":
                await bag.forget(kept[1])
                facts = await bag.show(kept[2])
                (home / f"session-{bag.session.id}" / facts.file).write_bytes(b"needle")
    seen: list[str] = []
    said = ""
    with client(home) as browser:
        address = "/inside?q=needle"
        while address:
            page = browser.get(address).text
            said += page
            seen += re.findall(r"data-row>(\S+) ", page)
            following = re.search(r'hx-get="([^"]+)" hx-trigger="load"', page)
            address = following[1].replace("&amp;", "&") if following else ""
    assert seen == ["t0-two", "t1-two", "t2-two", "t0-one", "t2-one"]
    assert said.count("could not be searched: ") == 1


async def test_what_no_page_shows_does_not_use_up_a_search(home: Path) -> None:
    async with Holdall.open(home=str(home), session="probe") as bag:
        for number in range(20):
            bag.journal.record("asked", tool="log", purpose="map", answer=f"frobnik {number}")
        await bag.take("short", tool="restart_host", arguments={"host": "frobnik-2"})
    with client(home) as browser:
        page = browser.get("/calls?q=frobnik").text
    assert "restart_host" in page
    assert "Nothing with" not in page


async def test_a_search_stops_after_its_time_and_continues_where_it_was(home: Path) -> None:
    for number in range(5):
        async with Holdall.open(home=str(home), session=f"s{number}") as bag:
            await bag.take("short", tool="t", arguments={"word": "needle"})
    overview = Overview(str(home))
    names: list[str] = []
    start: int | None = 0
    while start is not None:
        found, start = overview.search("NEEDLE", start=start, seconds=-1.0)
        names += [one.session.name for one in found]
    overview.close()
    assert names == ["s4", "s3", "s2", "s1", "s0"]


async def test_what_must_not_be_stored_or_is_masked_has_no_arguments_in_the_log(home: Path) -> None:
    settings = Settings(tools={"vault": ToolPolicy(store="never"), "login": ToolPolicy(redact=True)})
    async with Holdall.open(home=str(home), session="s", settings=settings) as bag:
        await bag.take("short", tool="vault", arguments={"name": "the-secret-name"}, server="v")
        await bag.take("fine", tool="login", arguments={"password": "hunter2hunter2", "user": "ann"})
        await bag.take("fine", tool="plain", arguments={"huge": ["y" * 100_000] * 50})
        session = bag.session.id
    text = (home / f"session-{session}" / "events.ndjson").read_text()
    assert "the-secret-name" not in text
    assert "hunter2" not in text
    assert len(text) < 4000
    assert '"server":"v"' in text


def test_a_call_of_an_agent_is_one_row_and_a_page_holds_so_many() -> None:
    def events() -> Any:
        for at in range(1000):
            yield Event(at, "inline", tool="t", call_id=f"c{at}", data={"chars": 5})
            yield Event(at, "called", tool="t", call_id=f"c{at}", seconds=0.5, data={"outcome": "inline", "chars": 5})
        yield Event(1000, "running", handle="k3f9", tool="slow", call_id="s")
        yield Event(1001, "called", handle="k3f9", tool="slow", call_id="s", data={"outcome": "running"})
        yield Event(
            1009, "ended", handle="k3f9", tool="slow", call_id="s", seconds=9.0, data={"bytes": 7, "state": "ready"}
        )
        yield Event(1010, "retrieved", handle="k3f9", data={"name": "context_read", "verb": "read"})
        yield Event(1010, "called", handle="k3f9", tool="context_read", call_id="r", data={"outcome": "answer"})

    rows, older = rows_of(events(), {"c999": "the last"}, "", "", None)
    assert (len(rows), older) == (PAGE, 1002 - PAGE)
    assert [(row.tool, row.seconds, row.bytes, row.call_id) for row in rows[:2]] == [
        ("context_read", 0.0, 0, "r"), ("slow", 9.0, 7, "s"),
    ]  # fmt: skip
    assert (rows[2].arguments, rows[2].seconds) == ("the last", 0.5)
    again, _ = rows_of(events(), {}, "", "", older)
    assert again[0].call_id == f"c{1000 - PAGE + 1}"


async def test_a_command_that_writes_its_output_itself_is_in_the_list_while_it_runs_and_how_it_ended(
    home: Path,
) -> None:
    async with Holdall.open(home=str(home), session="commands") as bag:
        session, asked = bag.session.id, {"command": ["make", "world"]}
        writer = await bag.jobs.begin(tool="make", arguments=asked)
        writer.write(b"compiling\n")
        with client(home) as browser:
            (running,) = _rows(browser.get(f"/s/{session}/calls?q=world").text)
        writer.finish("failed", error="exit code 2", exit_code=2)
    assert ">running<" in running
    assert ">10 B<" in running
    assert "make" in running
    with client(home) as browser:
        (ended,) = _rows(browser.get(f"/s/{session}/calls?verdict=failed").text)
    assert "exit code 2" in ended
    assert ">running<" not in ended


async def test_a_call_in_the_background_says_whether_it_has_ended_and_how_it_failed_once(home: Path) -> None:
    async with Holdall.open(home=str(home), session="slow") as bag:
        writers = {name: await bag.jobs.begin(tool=name) for name in ("good", "stopped", "going")}
        writers["good"].finish()
        writers["stopped"].finish("cancelled", error="cancelled")
        with client(home) as browser:
            page = browser.get(f"/s/{bag.session.id}/calls").text
            filtered = browser.get(f"/s/{bag.session.id}/calls?verdict=in+the+background", headers=_PART).text
            kept = browser.get(f"/s/{bag.session.id}/calls?verdict=kept", headers=_PART).text
            running = browser.get(f"/s/{bag.session.id}/calls?verdict=running").text
        writers["going"].finish()
    marks = {
        name: re.findall(r'class="(pill[^"]*|muted)"[^>]*>([^<]*)<', row)
        for name in writers
        for row in _rows(page)
        if f">{name} " in row
    }
    assert marks == {
        "good": [("pill ", "kept, in the background")],
        "stopped": [("pill ", "in the background"), ("pill is-bad", "cancelled")],
        "going": [("pill is-running", "running")],
    }
    assert len(_rows(filtered)) == 3
    (row,) = _rows(kept)
    assert ">good " in row
    (row,) = _rows(running)
    assert ">going " in row
    assert " selected>running</option>" in running


async def test_what_runs_is_told_above_the_list_whatever_is_asked_for(home: Path) -> None:
    async with Holdall.open(home=str(home), session="slow") as bag:
        writer = await bag.jobs.begin(tool="build")
        await bag.take("short", tool="look")
        with client(home) as browser:
            page = browser.get(f"/s/{bag.session.id}/calls").text
            found = browser.get(f"/s/{bag.session.id}/calls?q=look", headers=_PART).text
        writer.finish()
        with client(home) as browser:
            ended = browser.get(f"/s/{bag.session.id}/calls").text
    for one in (page, found):
        told = re.search(
            r'calls-running">1 call running now: <a href="[^"]*/o/(\w+)">build \1</a> for [\d.]+ m?s</p>', one
        )
        assert told is not None
        assert "data-runs" in one
    assert not any(">build " in row for row in _rows(found))
    assert "running now" not in ended


@requirement("async:crash-interrupted", "runtime:operation-tree")
async def test_a_killed_command_that_was_waited_for_was_not_in_the_background_and_is_in_the_tree_too(
    home: Path,
) -> None:
    async with Holdall.open(home=str(home), session="killed") as bag:
        writer = await bag.jobs.begin(tool="make", process=os.getpid())
        writer.write(b"compiling\n")
        (line,) = list(drawn_tree(bag.records.tree().to_json(with_outputs=True)))[1:]
        assert line.endswith(f" · running {writer.handle}")
        writer.finish("interrupted", error="its process was killed")
        session = bag.session.id
    with client(home) as browser:
        (row,) = _rows(browser.get(f"/s/{session}/calls").text)
        assert "<dt>tool calls</dt><dd>1, 1 failed or cut short</dd>" in browser.get(f"/s/{session}").text
    assert ">kept</span>" in row
    assert ">interrupted</span>" in row
    told = (await asyncio.to_thread(Program(home), "show", "--tree", "killed")).text
    assert told.splitlines()[1:] == [
        f"└─ tool make · for an unknown time · interrupted · kept {writer.handle} · 10 bytes"
    ]


@requirement("async:crash-interrupted")
async def test_how_long_a_killed_command_took_is_said_to_be_unknown(home: Path) -> None:
    async with Holdall.open(home=str(home), session="killed") as bag:
        writer = await bag.jobs.begin(tool="make")
        writer.finish("interrupted", error="its process was killed")
        session = f"/s/{bag.session.id}"
    with client(home) as browser:
        pages = [browser.get(f"{session}{of}").text for of in ("", "/calls", f"/o/{writer.handle}")]
        assert '<span class="pill is-bad">1 call failed or cut short</span>' in browser.get("/sessions/rows").text
    assert ['class="num">unknown: killed</td>' in page for page in pages] == [True, True, False]
    assert "<dt>took</dt><dd>unknown: killed</dd>" in pages[2]


async def test_the_list_of_sessions_counts_failed_calls_as_their_page_does(home: Path) -> None:
    async def fail(word: str) -> str:
        raise ValueError(word)

    async with Holdall.open(home=str(home), session="failing") as bag:
        for number in range(3):
            await bag.run(fail, tool="ping", arguments={"word": "no"}, call_id=f"c{number}")
        await bag.run(fail, tool="large", arguments={"word": "x" * 200_000}, call_id="c3")
        await bag.call("context_read", {"handle": "zzzz"})
        await bag.take("well", tool="look", call_id="c4")
        session = bag.session.id
    with client(home) as browser:
        assert "<dt>tool calls</dt><dd>6, 5 failed or cut short</dd>" in browser.get(f"/s/{session}").text
        assert "5 calls failed or cut short" in browser.get("/sessions/rows").text


async def test_what_became_of_calls_is_explained_where_it_is_chosen_and_where_it_is_told(home: Path) -> None:
    session = await _some_calls(home)
    with client(home) as browser:
        page = browser.get(f"/s/{session}/calls").text
    assert all(f'<option title="{why}">{name}</option>' in page for name, why in VERDICTS.items())
    assert all(
        f'title="{VERDICTS[name]}">{name}</span>' in page for name in ("shown whole", "kept", "answered", "failed")
    )
    assert set(FAILED) <= set(VERDICTS), "each has a filter of its own"


@requirement("way:nothing-lost-silently")
async def test_a_call_whose_process_was_killed_while_it_was_waited_for_is_in_the_list(home: Path) -> None:
    script = (
        "import asyncio, sys\nfrom holdall import Holdall\n"
        "async def call(**asked):\n    await asyncio.Event().wait()\n"
        "async def main():\n"
        "    bag = Holdall.open(home=sys.argv[1], session='killed')\n"
        "    await bag.run(call, tool='crawl', arguments={'site': 'PAY-417'}, call_id='c1')\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(home))
    try:
        async with Holdall.open(home=str(home), session="killed") as bag:
            while not any(event.kind == "begun" for event in bag.records.events()):  # noqa: ASYNC110 - another process
                await asyncio.sleep(0.05)
            session = bag.session.id
            with client(home) as browser:
                (row,) = _rows(browser.get(f"/s/{session}/calls?q=PAY-417").text)
                assert ">running<" in row
                assert "<dt>tool calls</dt><dd>1</dd>" in browser.get(f"/s/{session}").text
                process.kill()
                await process.wait()
                # The list, the totals, the tree and the first page tell the same.
                assert "<dt>tool calls</dt><dd>1, 1 failed or cut short</dd>" in browser.get(f"/s/{session}").text
                assert "1 call failed or cut short" in browser.get("/sessions/rows").text
                assert bag.records.tree().to_json(with_outputs=True)["totals"]["failed"] == 1
                (row,) = _rows(browser.get(f"/s/{session}/calls?verdict=no+answer").text)
                assert ">running<" not in row
                assert ">no answer<" in row
                assert ">interrupted<" in row
                assert "its process ended before it answered" in row
                assert "PAY-417" in row
                # Nobody knows whose output it would have been: what is removed leaves no text behind.
                kept = await bag.keep("gone", tool="crawl")
                await bag.forget(kept.handle)
                (row,) = _rows(browser.get(f"/s/{session}/calls?q=crawl&verdict=no+answer").text)
                assert "PAY-417" not in row
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_call_that_was_answered_is_in_the_list_once_however_long_it_took(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_LOGGED_AFTER", 0.0)

    async def call() -> str:
        await asyncio.sleep(0.01)
        return "done"

    async def fail() -> str:
        await asyncio.sleep(0.01)
        raise ValueError("no such site")

    async def write(writer: Writer) -> None:
        writer.write("a line\n" * 20_000)
        await asyncio.Event().wait()

    async with Holdall.open(home=str(home), session="answered") as bag:
        await bag.run(call, tool="ping", call_id="c1")
        await bag.run(fail, tool="fetch", call_id="c2")
        waiting = asyncio.ensure_future(bag.run(write, tool="write", call_id="c3"))
        while [event.kind for event in bag.records.events()].count("begun") < 3:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
        with client(home) as browser:
            rows = _rows(browser.get(f"/s/{bag.session.id}/calls").text)
            assert [one in row for one, row in zip(("write", "fetch", "ping"), rows, strict=True)] == [True] * 3
        waiting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await waiting
        kinds = [event.kind for event in bag.records.events()]
        assert kinds.count("begun") == kinds.count("over") == 3


async def test_the_longest_and_the_largest_calls_are_found(home: Path) -> None:
    async with Holdall.open(home=str(home), session="many") as bag:
        for at in range(PAGE + 20):
            seconds, chars = (90.0, 5) if at == 7 else (0.5, 4000 if at == 9 else 5)
            bag.journal.record("inline", tool=f"t{at}", seconds=seconds, chars=chars)
        for tokens in (28, 181, 5000):
            bag.journal.record("retrieved", handle="k3f9", name=f"read_{tokens}", verb="read", tokens=tokens)
        session = bag.session.id
    with client(home) as browser:
        longest = browser.get(f"/s/{session}/calls?sort=longest").text
        largest = browser.get(f"/s/{session}/calls?sort=largest").text
        assert browser.get(f"/s/{session}/calls?sort=x").status_code == 400
    assert ">t7<" in _rows(longest)[0]
    found = [
        next(name for name in ("read_5000", "t9", "read_181", "read_28") if name in row) for row in _rows(largest)[:4]
    ]
    assert found == ["read_5000", "t9", "read_181", "read_28"], "those whose tokens are known only, too"
    assert "23 more calls" in longest, "what is not in the list is counted"


def test_calls_are_listed_in_the_order_in_which_they_began_and_an_agent_is_one_of_them() -> None:
    """A turn logs its calls when all of them have ended; an output of an agent has the name of the agent."""
    events = [
        Event(13.0, "inline", tool="slow", call_id="a", seconds=0.1, data={"chars": 5}),
        Event(13.0, "kept", handle="k3f9", tool="quick", call_id="b", seconds=2.9, data={"bytes": 9}),
        Event(13.1, "called", tool="slow", call_id="a", seconds=3.1, data={"outcome": "inline", "chars": 5}),
        Event(13.1, "called", handle="k3f9", tool="quick", call_id="b", seconds=0.1, data={"outcome": "kept"}),
        Event(14.0, "running", handle="m2p7", tool="helper", call_id="c"),
        Event(14.0, "called", handle="m2p7", tool="spawn_agent", call_id="c", data={"outcome": "running"}),
    ]
    rows, _ = rows_of(events, {}, "", "", None)
    assert [(row.tool, round(row.at, 1), row.seconds) for row in rows] == [
        ("helper", 14.0, 0.0), ("quick", 10.1, 0.1), ("slow", 10.0, 3.1),
    ]  # fmt: skip


def test_a_refusal_a_wait_and_an_agent_that_is_shown_whole_are_one_row_each() -> None:
    answer = {"outcome": "answer", "is_error": False}
    events = [
        Event(1, "retrieved", "k3f9", data={"name": "context_grep", "verb": "grep"}),
        Event(1, "refused", "k3f9", data={"name": "context_grep", "verb": "grep", "why": "not closed"}),
        Event(2, "called", tool="context_read", call_id="list", data=answer),
        Event(2, "called", tool="context_grep", call_id="a", data=answer | {"is_error": True}),
        Event(2, "called", "k3f9", "context_grep", "b", data=answer),
        Event(3, "retrieved", data={"verb": "wait", "name": "wait_for_tool_output"}),
        Event(4, "called", "slow", "wait_for_tool_output", "w", 1.0, data=answer),
        Event(5, "inline", tool="helper", call_id="c", seconds=0.1, data={"chars": 5}),
        Event(5, "called", tool="spawn_agent", call_id="c", seconds=2.0, data={"outcome": "inline"}),
    ]
    rows, _ = rows_of(events, {}, "", "", None)
    assert [(row.tool, row.call_id, row.verdict, row.failed, row.seconds) for row in rows[::-1]] == [
        ("context_grep", "b", "answered", False, 0.0), ("context_grep", "a", "refused", True, 0.0),
        ("context_read", "list", "answered", False, 0.0), ("wait_for_tool_output", "w", "answered", False, 1.0),
        ("helper", "c", "shown whole", False, 2.0),
    ]  # fmt: skip


async def test_a_wait_leads_to_the_output_that_it_waited_for_and_has_the_size_of_its_answer(home: Path) -> None:
    go_on = asyncio.Event()

    async def crawl() -> str:
        await go_on.wait()
        return "x\n" * 50_000

    settings = Settings(slow_after_seconds=0.01)
    async with Holdall.open(home=str(home), session="gateway", settings=settings) as bag:
        slow = await bag.run(crawl, tool="crawl", call_id="c1")
        assert isinstance(slow, Running)
        await bag.call("wait_for_tool_output", {"handle": slow.handle, "timeout": 0.01})
        go_on.set()
        await bag.call("wait_for_tool_output", {"handle": slow.handle})
        await bag.call("wait_for_tool_output", {})
        session = bag.session.id
    with client(home) as browser:
        rows = _rows(browser.get(f"/s/{session}/calls?q=wait_for_tool", headers=_PART).text)
    name = f'/s/{session}/o/{slow.handle}" data-row>wait_for_tool_output {slow.handle}</a>'
    assert [name in row for row in rows] == [False, True, True]
    size = re.compile(r'data-label="Size" class="num">\d+ tokens<')
    assert [bool(size.search(row)) for row in rows] == [False, True, False], "the first one came back with nothing"


def test_a_wait_of_an_agent_is_one_row_whatever_it_asked_for() -> None:
    wait = {"verb": "wait", "name": "wait_for_tool_output"}
    answer = {"outcome": "answer", "is_error": False, "chars": 50}
    events = [
        Event(1, "retrieved", data={**wait, "asked": {}}),
        Event(1, "retrieved", "k3f9", data={**wait, "tokens": 8}),
        Event(1, "retrieved", "yb4v", data={**wait, "tokens": 4}),
        Event(2, "called", "", "wait_for_tool_output", "all", 1.0, data=answer),
        Event(3, "retrieved", data={**wait, "asked": {"handle": "nowhere"}}),
        Event(4, "called", "nowhere", "wait_for_tool_output", "none", 1.0, data=answer),
        Event(5, "retrieved", data={**wait, "asked": {"handle": "yb4v"}}),
    ]
    kept = {handle: reader_of(b"x\n", handle=handle).facts for handle in ("k3f9", "yb4v")}
    rows, _ = rows_of(events, {}, "", "", None, kept=kept)
    assert [(row.call_id, row.handle, row.tokens, row.chars) for row in rows[::-1]] == [
        ("all", "k3f9", 12, 50), ("none", "", 0, 50), ("", "yb4v", 0, 0),
    ]  # fmt: skip


async def test_the_list_of_an_agent_opens_to_what_its_calls_returned(home: Path) -> None:
    async def page_owner(team: str) -> str:
        raise ConnectionError(f"pager of {team} refused")

    model = acting([("page_owner", {"team": "sre"})], report())
    one = agent(home.parent, model, tool("page_owner", page_owner))
    async with one.open_bag("an agent", "", model) as bag:
        await run_agent(one, bag, "go")
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}/calls?verdict=failed").text
        (opened,) = re.findall(r'hx-get="([^"]+/step[^"]+)"', page)
        assert "pager of sre refused" in browser.get(opened.replace("&amp;", "&")).text
    assert "is not stored" not in page, "the transcript has it"


async def test_a_log_of_nonsense_has_a_list_all_the_same(home: Path) -> None:
    async with Holdall.open(home=str(home), session="odd") as bag:
        values: list[Any] = [float("nan"), [], {}, "x", None, True, 1e300, {"a": "<b>"}]
        for value in values:
            odd: dict[str, Any] = dict.fromkeys(
                ("arguments", "asked", "chars", "bytes", "outcome", "why", "server", "name"), value
            )
            for kind in ("inline", "kept", "called", "retrieved", "refused", "ended", "running", "passed"):
                event = {"at": 1.0, "event": kind, "handle": "k3f9", "tool": "<i>", **odd}
                bag.core.store.append_events(bag.session, json.dumps(event).encode() + b"\n")
        session = bag.session.id
    with client(home) as browser:
        answer = browser.get(f"/s/{session}/calls")
        assert answer.status_code == 200
        assert "<i>" not in answer.text
        assert browser.get("/calls?q=k3f9").status_code == 200
        assert json.dumps("<b>") not in answer.text


async def test_what_a_program_keeps_is_kept_and_not_in_the_background(home: Path) -> None:
    async with Holdall.open(home=str(home), session="mine") as bag:
        await bag.keep("x\n" * 40_000, tool="export")
    with client(home) as browser:
        [row] = _rows(browser.get(f"/s/{bag.session.id}/calls").text)
        assert ">kept<" in row
        assert len(_rows(browser.get(f"/s/{bag.session.id}/calls?verdict=kept").text)) == 1


async def test_what_was_kept_at_once_was_not_in_the_background_when_it_is_gone(home: Path) -> None:
    async with Holdall.open(home=str(home), session="mine") as bag:
        await bag.forget((await bag.keep("x\n" * 40_000, tool="export")).handle)
    with client(home) as browser:
        [row] = _rows(browser.get(f"/s/{bag.session.id}/calls").text)
    assert ">kept<" in row
    assert "removed" in row


async def test_a_call_of_ours_that_names_no_output_has_its_arguments_or_says_why_not(home: Path) -> None:
    events = [
        Event(1.0, "retrieved", data={"verb": "wait", "name": "wait_for_tool_output"}),
        Event(1.0, "called", tool="wait_for_tool_output", call_id="w", seconds=0.5, data={"outcome": "answer"}),
    ]
    rows, _ = rows_of(events, {"w": '{"all": true}'}, "", "", None)
    assert [(row.arguments, row.seconds) for row in rows] == [('{"all": true}', 0.5)]
    refused = Event(2.0, "refused", data={"verb": "read", "name": "context_read", "asked": {"handle": "zzzz"}})
    rows, _ = rows_of([refused], {}, "", "", None)
    assert [(row.arguments, row.why) for row in rows] == [('{"handle": "zzzz"}', "it named no output that is kept")]
    late = Event(2.0, "refused", data={"verb": "read", "name": "context_read"})
    called = Event(2.0, "called", tool="context_read", call_id="r", data={"outcome": "answer", "is_error": True})
    rows, _ = rows_of([late, called], {"r": '{"handle": "zzzz"}'}, "", "", None)
    assert [(row.arguments, row.why) for row in rows] == [('{"handle": "zzzz"}', "it named no output that is kept")]
    async with Holdall.open(home=str(home), session="gateway") as bag:
        await bag.call("context_read", {"handle": "zzzz"})
    with client(home) as browser:
        [row] = _rows(browser.get(f"/s/{bag.session.id}/calls").text)
    assert "it named no output that is kept; which one, and what it asked, is not recorded" in row


async def test_a_list_that_has_not_changed_is_not_sent_again(home: Path) -> None:
    session = await _some_calls(home)
    with client(home) as browser:
        stamp = re.search(r'data-stamp="([^"]+)"', browser.get(f"/s/{session}/calls").text)
        assert stamp is not None
        assert browser.get(f"/s/{session}/calls?v={stamp[1]}", headers=_PART).status_code == 204
        async with Holdall.open(home=str(home), session="gateway") as bag:
            await bag.take("short", tool="later")
        newer = browser.get(f"/s/{session}/calls?v={stamp[1]}", headers=_PART)
    assert newer.status_code == 200
    assert "later" in _rows(newer.text)[0]
