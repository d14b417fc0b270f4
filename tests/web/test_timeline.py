"""A session's page: the report and what it rests on, turn by turn what happened, every output and what was seen."""

import asyncio
import contextlib
import html
import os
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.agent.loop import run_agent
from holdall.bag import Holdall
from holdall.cli.agents import drawn_tree
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.policy.folds import Coverage
from holdall.store.owners import process_mark
from holdall.text.numbers import roughly
from holdall.text.tokens import Estimate
from holdall.values.chat import Reply, ToolCall
from holdall.values.errors import ModelFault
from holdall.values.events import Event
from holdall.values.outputs import Kept
from holdall.values.spans import Span, Totals
from holdall.web.figures import ContextChart, Turn, context_chart, coverage_bar, machine_time
from holdall.web.output_page import Seen, Took
from holdall.web.timeline import Proof, Quote, Reported, linked
from tests.agent.shapes import agent
from tests.cli.program import Program
from tests.requirements import requirement
from tests.web.stories import FALSE_QUOTE, LOG, NEEDLE, REAL_QUOTE, investigation, model_that_quotes, plain
from tests.web.support import client

pytestmark = pytest.mark.anyio


async def test_the_report_stands_first_and_leads_to_what_it_rests_on(home: Path) -> None:
    told = await investigation(home)
    (handle,) = told.handles
    with client(home) as browser:
        page = browser.get(f"/s/{told.session}").text
    assert page.index("Why do the requests fail?") < page.index("The disk is full") < page.index("Timeline")
    assert re.search(rf'<a href="/s/{told.session}/o/{handle}"[^>]*>{handle}</a>\.', page), "a handle in its text"
    start, end = _place_of_needle()
    assert f'<a href="/s/{told.session}/o/{handle}?byte={start}&amp;to={end}" title="a verified quote">' in page
    assert "<0.1 % seen" in page.replace("&lt;", "<")


async def test_an_extraction_shows_its_quotes_with_their_bytes_and_whether_they_are_there(home: Path) -> None:
    told = await investigation(home)
    with client(home) as browser:
        page = browser.get(f"/s/{told.session}").text
    start, end = _place_of_needle()
    verified = page.index(f"{NEEDLE.strip()}</q>")
    assert page.rindex('<span class="pill is-good">verified</span>', 0, verified) > 0
    assert f"bytes {start:,}–{end:,}" in page
    unproved = page.index(FALSE_QUOTE)
    assert page.rindex('<span class="pill is-bad">not verified</span>', 0, unproved) > verified
    assert "which disk?" in page
    assert "1 of 2 quotes verified" in page
    assert (
        'title="as counted here before it was sent; below is what the model\'s provider counted">900 tokens in it<'
        in page
    )


async def test_a_call_id_that_is_no_text_does_not_hide_its_session(home: Path) -> None:
    async with Holdall.open(home=str(home), session="odd") as bag:
        kept = await bag.keep("all failed\n" * 5000, tool="test")
        bag.journal.record("turn", number=1)
        bag.journal.record("called", handle=kept.handle, tool="test", call_id="lo\ud800g", outcome="kept", name="test")
        bag.journal.record("called", handle="q\udc80", tool="test", call_id="\udfff", outcome="inline", name="test")
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}")
        assert page.status_code == 200
        rows = re.findall(r'hx-get="([^"]*tool=lo[^"]*)"', page.text)
        assert rows
        assert browser.get(html.unescape(rows[0])).status_code == 200
        assert browser.get(f"/s/{session}/calls").status_code == 200


@requirement("bundle:no-verdicts")
async def test_what_an_event_claims_is_not_shown_as_verified(home: Path) -> None:
    """A bundle could have brought it: only bytes that were read now are a proof."""
    invented = "EVERYTHING PASSED"
    async with Holdall.open(home=str(home), session="forged") as bag:
        kept = await bag.keep("all failed\n" * 500, tool="test")
        for handle in (kept.handle, "zzzz"):
            bag.journal.record("extracted", handle=handle, tool="test", snippets=7, verified=7, strategy="grep",
                               quotes=[[90_000, 90_005, "exact", invented], [90_000, 90_005, "loose"], [0, 3, "exact"]])  # fmt: skip
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}").text
    assert invented not in page
    assert "7 of 7" not in page
    assert page.count("1 of 2 quotes verified") == 1
    assert page.count("0 of 2 quotes verified") == 1
    assert page.count("5 quotes not listed") == 2
    pills = re.findall(r'<span class="pill is-(?:good|bad)">([^<]+)</span>\s*<a [^>]*><q>([^<]+)</q>', page)
    assert sorted(set(pills)) == [("not verified", "no longer there"), ("verified", "all")]


async def test_every_operation_is_there_and_leads_somewhere(home: Path) -> None:
    told = await investigation(home)
    (handle,) = told.handles
    with client(home) as browser:
        page = browser.get(f"/s/{told.session}").text
        rows = page[page.index('<ol class="timeline">') : page.index("Sub-agents")]
        assert [rows.count(f"op is-{kind}") for kind in ("turn", "model", "tool", "extraction", "agent")] == [
            3,
            4,
            2,
            1,
            1,
        ]
        links = re.findall(r'href="([^"]+)"', rows)
        assert any(link.startswith(f"/s/{told.session}/o/{handle}?byte=") for link in links), (
            "a fetch leads to its bytes"
        )
        child = next(link for link in links if re.fullmatch(r"/s/[0-9a-f-]{36}", link))
        assert "helper-1" in browser.get(child).text
        answers = {link: browser.get(link.replace("&amp;", "&")).status_code for link in set(links)}
    assert set(answers.values()) == {200}, answers
    assert "path=/var/log/app.log" in rows
    assert "in the context" in rows


async def test_the_number_of_calls_is_that_of_their_rows_and_says_how_many_failed(home: Path) -> None:
    async with Holdall.open(home=str(home), session="one") as bag:
        bag.journal.record("turn", number=1, final=False, tokens=10, why="")
        for id, outcome in (("a", "inline"), ("b", "refused"), ("c", "inline")):
            bag.journal.record("called", tool="look", call_id=id, outcome=outcome, is_error=id != "a", chars=1)
        bag.journal.record("asked", seconds=0.1, purpose="turn", model="m", input_tokens=1, output_tokens=1, why="")
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}").text
    assert page.count("op is-tool") == 3
    assert "<dt>tool calls</dt><dd>3, 2 failed or cut short</dd>" in page


async def test_the_calls_of_a_turn_begin_when_the_model_has_asked_for_them(home: Path) -> None:
    """They are logged when all have ended: without care a quick one would be drawn at the end of the slow one."""
    now = 1000.0
    async with Holdall.open(home=str(home), session="s", clock=lambda: now) as bag:
        bag.journal.record("turn", number=1, final=False, tokens=10, why="")
        now = 1001.0
        bag.journal.record("asked", seconds=1.0, purpose="turn", model="m", input_tokens=1, output_tokens=1, why="")
        now = 1009.0
        bag.journal.record("called", tool="quick", call_id="q", seconds=0.5, outcome="inline", is_error=False, chars=1)
        bag.journal.record("called", tool="slow", call_id="s", seconds=8.0, outcome="inline", is_error=False, chars=1)
        bag.journal.flush()
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}").text
    bars = re.findall(r'lane-bar" x="([\d.]+)" y="0" width="([\d.]+)"', page)
    _, model, quick, slow = [(float(x), float(width)) for x, width in bars]
    assert quick[0] == slow[0] == pytest.approx(model[0] + model[1], abs=1)
    assert quick[1] < slow[1]


@requirement("ledger:in-viewer")
async def test_what_was_shown_scanned_and_searched_of_an_output_is_marked_on_its_bar(home: Path) -> None:
    told = await investigation(home)
    with client(home) as browser:
        page = browser.get(f"/s/{told.session}").text
    bar = page[page.index('class="coverage"') :].partition("</svg>")[0]
    shown = [float(x) for x in re.findall(r'is-shown" x="([\d.]+)"', bar)]
    start, _ = _place_of_needle()
    assert any(abs(x - start / len(LOG) * 1000) < 5 for x in shown), "the line that grep has shown"
    assert re.search(r'is-searched" x="0(\.0)?" y="0" width="1000(\.0)?"', bar)
    assert "shown to the model" in page


async def test_a_session_without_turns_is_a_list_of_its_outputs(home: Path) -> None:
    told = await plain(home, "plain", [("fetch", "a\n" * 10), ("", "b")])
    with client(home) as browser:
        page = browser.get(f"/s/{told.session}").text
    assert "Timeline" not in page
    assert "Report" not in page
    for handle in told.handles:
        assert f'href="/s/{told.session}/o/{handle}"' in page


@requirement("viewer:pages")
async def test_a_session_without_an_agent_has_its_calls_and_their_number_beside_what_a_person_asked(home: Path) -> None:
    async with Holdall.open(home=str(home), session="puts") as bag:
        for number in range(3):
            await bag.keep(f"{number}\n" * 40_000, tool="put")
        bag.journal.record("extracted", reader="person", question="why?")
        tree, session = bag.records.tree().to_json(with_outputs=True), bag.session.id
    assert " · 3 tool calls · " in next(drawn_tree(tree))
    with client(home) as browser:
        page = browser.get(f"/s/{session}").text
    assert "<dt>tool calls</dt><dd>3</dd>" in page
    assert 'id="calls-found"' in page
    assert "Timeline" in page


async def test_long_lists_come_in_pages(home: Path) -> None:
    told = await plain(home, "many", [("t", f"{number}") for number in range(203)])
    with client(home) as browser:
        first = browser.get(f"/s/{told.session}").text
        second = browser.get(f"/s/{told.session}?outputs=200").text
        wrong = [browser.get(f"/s/{told.session}?outputs={text}").status_code for text in ("-1", "x", "9" * 30)]
    assert first.count("<tr>") == 201
    assert second.count("<tr>") == 4
    assert "outputs=200" in first
    assert wrong == [400] * 3


@pytest.mark.parametrize("path", ["/s/nothing", "/s/00000000-0000-4000-8000-000000000000", "/s/%2e%2e", "/s/a/b/c"])
async def test_a_session_that_is_not_there_is_not_found_and_not_made(home: Path, path: str) -> None:
    with client(home) as browser:
        assert browser.get(path).status_code == 404
        assert browser.get(f"{path}/live").status_code == 404
        empty = browser.get("/").text
        assert "No session yet" in empty
        assert "holdall demo --keep</code>" in empty, "without it the demo keeps nothing"


async def test_costs_in_the_list_and_on_the_page_are_the_same_and_those_of_sub_agents_stand_apart(home: Path) -> None:
    told = await investigation(home)
    with client(home) as browser:
        listed = browser.get("/sessions/rows").text
        page = browser.get(f"/s/{told.session}").text
    own = re.search(r"<dt>cost</dt><dd>(.*?)</dd>", page)
    every = re.search(r"<dt>cost with sub-agents</dt><dd>(.*?)</dd>", page)
    assert own is not None
    assert every is not None
    assert f"<li>{own[1]}</li>" in listed
    assert own[1] != every[1]
    assert "Why do the requests fail?" in listed
    assert "scripted:test" in listed
    assert page.index('id="outputs-title"') < page.index('id="timeline-title"')


@requirement("cli:run-resume", "runtime:operation-tree")
async def test_each_task_of_a_continued_session_has_its_own_report_and_quotes_and_idle_time_is_not_counted(
    home: Path,
) -> None:
    now, quoting = 1000.0, model_that_quotes()

    async def run(task: str, said: str, seconds: float) -> None:
        """As `holdall run --resume` does it, a day after the run before."""
        nonlocal now

        def answer(_request: Request) -> Reply:
            nonlocal now
            now += seconds
            if not said:
                raise ModelFault("the provider is away")
            return Reply(calls=(ToolCall(f"c{now}", "final_report", {"report": said}),))

        model = ScriptedModel(answer, window=400_000)
        async with Holdall.open(home=str(home), session="s", model=quoting, clock=lambda: now) as bag:
            with contextlib.suppress(ModelFault):
                await run_agent(agent(home.parent, model), bag, task, resume=True)
        now += 86_400.0

    await run("Why is it red?", "It is the wine.", 2.0)
    await run("Why is it blue?", "", 1.0)
    with client(home) as browser:
        listed = browser.get("/sessions/rows").text
        (session,) = re.findall(r'id="session-([^"]+)"', listed)
        page = browser.get(f"/s/{session}").text
        assert "interrupted</span>" in page[: page.index("Why is it blue?")]
        assert page.index("Why is it blue?") < page.index("Why is it red?") < page.index("It is the wine.")
        assert "at least <span>3.0 s</span> in 2 runs" in page
    async with Holdall.open(home=str(home), session="s", model=quoting, clock=lambda: now) as bag:
        tree = bag.records.tree().to_json()
        assert next(drawn_tree(tree | {"interrupted": True})).endswith(
            " · at least 3.0 s in 2 runs · interrupted, no report"
        )
    await run("", "It is the sky.", 2.0)
    async with Holdall.open(home=str(home), session="s", model=quoting, clock=lambda: now) as bag:
        await bag.keep("a day later\n", tool="put")
    with client(home) as browser:
        listed, page = browser.get("/sessions/rows").text, browser.get(f"/s/{session}").text
    words = ["Why is it blue?", "It is the sky.", "Why is it red?", "It is the wine."]
    places = [page.index(word) for word in words]
    assert places == sorted(places), "the newest task first, each before its own report"
    assert page.count('<p class="task">') == 2, "who goes on with a task asks nothing new"
    for shown in (page, listed):
        assert "at least <span>5.0 s</span> in 3 runs" in shown
    assert "Task 2: Why is it blue?" in listed


async def test_a_quote_stands_with_the_task_that_it_was_found_for(home: Path) -> None:
    now = time.time()
    async with Holdall.open(home=str(home), session="s", clock=lambda: now) as bag:
        text = f"{LOG[:50_000]}{NEEDLE}"
        kept = await bag.keep(text, tool="fetch_log")
        for at, words in enumerate((REAL_QUOTE, LOG[:30])):
            now += 10.0
            bag.journal.record("turn", number=at + 1, tokens=10)
            now += 1.0
            start = text.index(words)
            quote = [start, start + len(words), "exact"]
            bag.journal.record("extracted", handle=kept.handle, tool="fetch_log", strategy="grep", quotes=[quote])
            bag.journal.record("reported", status="success", synthetic=False, why="", seen={})
        lines = [f'{{"role":"system","text":"{at}"}}\n{{"role":"user","text":"task {at}"}}\n' for at in (1, 2)]
        replied = '{"role":"request","notice":""}\n{"role":"assistant","text":"done","calls":[]}\n'
        bag.append_transcript(f'{lines[0]}{replied}{{"again":true}}\n{lines[1]}{replied}'.encode())
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}").text
    newer, older = page[page.index("task 2") : page.index("task 1")], page[page.index("task 1") : page.index("Outputs")]
    assert LOG[:30] in newer
    assert REAL_QUOTE not in newer
    assert REAL_QUOTE in older
    assert LOG[:30] not in older


def test_a_small_context_is_seen_beside_a_large_one() -> None:
    chart = ContextChart([Turn("1", 900, 900), Turn("2", 2900, 8_700_000)], 8_700_000, 100)
    assert chart.ticks == [100, 1000, 10_000, 100_000, 1_000_000]
    ground, top = chart.y(100), chart.y(8_700_000)
    assert ground - chart.y(2900) > (ground - top) / 5
    assert chart.y(0) == ground
    assert ContextChart([Turn("1", 0, 0), Turn("2", 0, 0)], 0, 1).y(0) == ground


# While it runs


async def test_a_running_session_asks_for_what_is_new_and_an_ended_one_asks_less_often(home: Path) -> None:
    async with Holdall.open(home=str(home), session="runs") as bag:
        with bag.lease("a test"), client(home) as browser:
            bag.journal.record("turn", number=1, final=False, tokens=10, why="")
            bag.journal.flush()
            page = browser.get(f"/s/{bag.session.id}").text
            polled = re.search(r'hx-get="([^"]+)" hx-trigger="every 1s"', page)
            assert polled is not None
            address = polled[1].replace("&amp;", "&")
            assert browser.get(address).status_code == 204, "nothing has changed"
            bag.journal.record("called", tool="new_tool", call_id="c", seconds=0.1, outcome="inline", chars=1)
            bag.journal.record("asked", seconds=0.1, purpose="turn", model="m", input_tokens=1, output_tokens=1, why="")
            answer = browser.get(address)
            assert answer.status_code == 200
            assert "new_tool" in answer.text
            assert "every 1s" in answer.text
            assert "<html" not in answer.text
            bag.journal.record("reported", status="success", synthetic=False, why="", chars=0, turns=1, seen={})
        with client(home) as browser:
            ended = browser.get(address)
    assert ended.status_code == 200
    assert 'hx-trigger="every 5s"' in ended.text, "it may be continued"
    assert "success" in ended.text


async def test_of_an_output_of_which_nothing_is_kept_yet_no_size_is_told(home: Path) -> None:
    async with Holdall.open(home=str(home), session="writes") as bag:
        writer = await bag.jobs.begin(tool="slow")
        with client(home) as browser:
            pages = [browser.get(f"/s/{bag.session.id}").text, browser.get("/sessions/rows").text]
            assert all("0 B and" not in page and ">what is being written<" in page for page in pages)
            await bag.keep("x" * 1000)
            pages = [browser.get(f"/s/{bag.session.id}").text, browser.get("/sessions/rows").text]
            assert all(">1.0 kB and what is being written<" in page for page in pages)
        writer.finish()


async def test_the_page_counts_what_running_agents_have_used_so_far_and_follows_them(home: Path) -> None:
    def asked(bag: Holdall, cost: float) -> None:
        bag.journal.record(
            "asked", purpose="turn", model="m", input_tokens=100, output_tokens=10, cost=cost, calls=0, why=""
        )
        bag.journal.flush()

    def told(page: str) -> list[str]:
        return re.findall(r"<dt>(?:cost|tokens) with sub-agents</dt><dd>(.*?)</dd>", page)

    async with contextlib.AsyncExitStack() as opened:
        bags: list[Holdall] = []
        for name in ("boss", "helper", "helper of the helper"):
            parent = bags[-1].session.id if bags else ""
            bag = await opened.enter_async_context(Holdall.open(home=str(home), session=name, parent=parent))
            opened.enter_context(bag.lease("a test"))
            bag.journal.record("turn", number=1, final=False, tokens=10, why="")
            if bags:
                bags[-1].journal.record("spawned", tool=name, session=bag.session.id, task_bytes=3)
            bags.append(bag)
            asked(bag, 1.0)
        with client(home) as browser:
            page = browser.get(f"/s/{bags[0].session.id}").text
            assert told(page) == ["$3.00", "330"]
            assert "220 tokens so far" in page
            address = ""
            for _ in range(2):  # the first finds out which agents run
                polled = re.search(r'hx-get="([^"]+)" hx-trigger="every 1s"', page)
                assert polled is not None
                address = polled[1].replace("&amp;", "&")
                page = browser.get(address).text or page
            assert browser.get(address).status_code == 204, "nothing has changed"
            asked(bags[-1], 2.0)
            assert told(browser.get(address).text) == ["$5.00", "440"]


# Whatever the log holds


async def test_a_log_of_nonsense_is_a_page_all_the_same(home: Path) -> None:
    async with Holdall.open(home=str(home), session="odd") as bag:
        session = bag.session.id
    nonsense = ["NaN", "Infinity", "-1e300", '"x"', "null", "[]", "{}", "true", "1e308"]
    lines: list[str] = ["not json", "[]", '{"event":"turn"}']
    for value in nonsense:
        data = ",".join(f'"{name}":{value}' for name in
                        ("tokens", "cost", "input_tokens", "turns", "seen", "status", "why", "quotes", "bytes", "number"))  # fmt: skip
        for kind in (
            "turn",
            "asked",
            "called",
            "kept",
            "ended",
            "retrieved",
            "extracted",
            "spawned",
            "joined",
            "reported",
        ):
            lines.append(f'{{"at":{value},"event":"{kind}","handle":"k3f9","seconds":{value},{data}}}')
            lines.append(f'{{"at":5,"event":"{kind}","handle":"k3f9","tool":"t",{data}}}')
    (home / f"session-{session}" / "events.ndjson").write_text("\n".join(lines) + "\n")
    (home / f"session-{session}" / "transcript.ndjson").write_text('{"role":"assistant","text":1,"calls":[{}]}\n[1]\n')
    with client(home) as browser:
        page = browser.get(f"/s/{session}")
        assert browser.get("/sessions/rows").status_code == 200
    assert page.status_code == 200
    svg = "".join(re.findall(r'(?:x|y|width|points)="([^"]*)"', page.text))
    assert "nan" not in svg
    assert "inf" not in svg


# The charts and the links, as functions


def test_the_context_without_holdall_is_what_was_kept_out_of_it_and_not_fetched_back() -> None:
    events = [
        Event(1.0, "turn", data={"number": 1, "tokens": 100}),
        Event(2.0, "kept", "a", data={"tokens": 5000, "content_tokens": 400, "replaced": True}),
        Event(2.0, "kept", "b", data={"tokens": 50, "content_tokens": 50, "replaced": False}),
        Event(3.0, "turn", data={"number": 2, "tokens": 500}),
        Event(4.0, "retrieved", "a", data={"tokens": 90}),
        Event(4.0, "ended", "c", data={"tokens": 1000}),
        Event(5.0, "turn", data={"number": 3, "tokens": 600}),
    ]
    chart = context_chart(events)
    assert chart is not None
    assert [(turn.tokens, turn.without) for turn in chart.turns] == [(100, 100), (500, 5100), (600, 6110)]
    assert context_chart(events[:3]) is None
    many = context_chart(Event(1.0, "turn", data={"tokens": 10 + n, "number": n}) for n in range(100_001))
    assert many is not None
    assert (len(many.turns), many.every, many.turns[0].number, many.turns[-1].number) == (400, 251, "0", "100000")
    assert len(many.line(without=False).split()) == 400


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 3000)), max_size=60), st.integers(1, 12_000)
)  # fmt: skip
def test_a_coverage_bar_stays_in_its_lane_and_marks_what_was_shown(spans: list[tuple[int, int]], total: int) -> None:
    coverage = Coverage()
    for start, length in spans:
        coverage.ranges["shown"].add(Span(start, start + length))
    bar = coverage_bar(coverage, total)
    assert len(bar.shown) <= 400
    end = 0.0
    for x, width in bar.shown:
        assert x >= end - 0.02
        assert width > 0
        end = x + width
        assert end <= 1000.02
    for start, length in spans:
        if length and start < total:
            middle = (start + min(start + length, total)) / 2 / total * 1000
            assert any(x - 2 <= middle <= x + width + 2 for x, width in bar.shown)


@given(st.text(max_size=200), st.lists(st.text(min_size=1, max_size=30), max_size=6))
def test_the_pieces_of_a_report_are_the_report(text: str, handles: list[str]) -> None:
    proofs = [Proof(Quote("h", 0, 5, "exact"), text[10:60], "/x"), Proof(Quote("h", 0, 5, "none"), text[:40], "/y")]
    pieces = linked(text, "s", handles, proofs)
    assert "".join(piece.text for piece in pieces) == text
    assert not any(piece.href == "/y" for piece in pieces), "what is not verified leads nowhere"


def test_a_part_of_a_quoted_line_leads_to_the_line() -> None:
    line = "2026-11-15 11:41:07 ERROR E1234 disk /dev/sda3 is full"
    pieces = linked(f"It says {REAL_QUOTE}!", "s", [], [Proof(Quote("h", 7, 60, "loose"), line, "/here")])
    assert [(piece.text, piece.href) for piece in pieces] == [("It says ", ""), (REAL_QUOTE, "/here"), ("!", "")]


def _place_of_needle() -> tuple[int, int]:
    """The bytes that the quote was proved to stand in: its whole line."""
    return 199_997, 200_000 + len(NEEDLE.rstrip())


async def test_an_output_took_as_long_as_its_call_and_one_that_was_removed_not_until_then(home: Path) -> None:
    async with Holdall.open(home=str(home), session="times") as bag:
        slow, lost = [await bag.jobs.begin(tool=tool) for tool in ("slow", "lost")]
        slow.finish("ready")
        lost.finish("ready")
        bag.journal.record("ended", handle=slow.handle, tool="slow", seconds=77.0, state="ready", bytes=0, tokens=0)
        await bag.forget(lost.handle)
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}").text
        assert "<dt>took</dt><dd>1 min 17 s</dd>" in browser.get(f"/s/{session}/o/{slow.handle}").text
        assert "<dt>took</dt>" not in browser.get(f"/s/{session}/o/{lost.handle}").text
    assert re.findall(r'data-label="Took" class="num">([^<]*)<', page) == ["", "1 min 17 s"]


async def test_both_tables_of_a_page_say_the_same_of_a_command(home: Path) -> None:
    async with Holdall.open(home=str(home), session="times") as bag:
        command = await bag.jobs.begin(tool="make")
        command.finish("cancelled")
        facts = await bag.show(command.handle)
        session = bag.session.id
    with client(home) as browser:
        outputs, calls = browser.get(f"/s/{session}").text, browser.get(f"/s/{session}/calls").text
    assert '<th scope="col">Kept</th>' in outputs, "later than the call began, if it went to the background"
    assert '<th scope="col">Began</th>' in calls
    pills = [re.findall(r'<span class="pill is-bad"[^>]*>(\w+)</span>', page) for page in (outputs, calls)]
    assert pills == [["cancelled"]] * 2
    facts = replace(facts, created=100.0, ended=100.5)
    assert Seen.of(facts, Totals(0, 0, 0), Coverage(), 200.0, Took(0.001)).seconds == 0.5, (
        "the log has it when it had ended"
    )
    assert Seen.of(facts, Totals(0, 0, 0), Coverage(), 200.0, Took(77.0)).seconds == 77.0


_KILLED = """import asyncio, sys
from holdall import Holdall
async def main():
    bag = Holdall.open(home=sys.argv[1], session="killed")
    bag.journal.record("turn", number=1, final=False, tokens=9, why="")
    writer = await bag.jobs.begin(tool="crawl", call_id="c")
    writer.write(b"so far")
    bag.journal.record("running", handle=writer.handle, tool="crawl", call_id="c")
    bag.journal.record("called", handle=writer.handle, tool="crawl", call_id="c", seconds=5.0, outcome="running")
    bag.journal.record("spawned", tool="helper", session=bag.session.id, task_bytes=20)
    bag.journal.flush()
    print(bag.session.id, flush=True)
    await asyncio.Event().wait()
asyncio.run(main())
"""


async def test_a_run_whose_process_was_killed_is_interrupted_and_so_is_all_that_it_had_begun(home: Path) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _KILLED, str(home), stdout=subprocess.PIPE)
    assert process.stdout is not None
    session = (await process.stdout.readline()).decode().strip()
    with client(home) as browser:
        before = browser.get(f"/s/{session}").text
    process.kill()
    await process.wait()
    with client(home) as browser:
        after = browser.get(f"/s/{session}").text
        listed = browser.get("/sessions/rows").text
        assert '<span class="pill is-bad">interrupted</span>' in listed
    for page in (listed, after):
        assert "at least " in page  # nothing tells when it was killed
    assert "at least" not in before
    assert before[before.index("<ol") :].count('<span class="pill is-running">running</span>') == 2
    assert '<span class="pill is-running">' not in after
    assert after[after.index("<ol") :].count('<span class="pill is-bad">interrupted</span>') == 2
    assert "6 B, ~2 tokens; went to the background" in after
    assert " · at least " in (await asyncio.to_thread(Program(home), "show", "--tree", "killed")).text.splitlines()[0]
    async with Holdall.open(home=str(home), session="killed") as bag:
        (turn,) = bag.records.tree().root.children
    assert [(one.data.get("state"), one.seconds) for one in turn.children if one.kind == "tool"] == [
        ("interrupted", 5.0)
    ]


@pytest.mark.parametrize("is_counted", [True, False])
async def test_tokens_that_were_counted_are_no_estimate_in_the_timeline_and_the_outputs(
    home: Path, is_counted: bool
) -> None:
    class Words:
        name = "words"

        def count(self, text: str) -> int:
            return len(text.split())

    async with Holdall.open(home=str(home), session="s", tokenizer=Words() if is_counted else Estimate()) as bag:
        bag.journal.record("turn", number=1)
        taken = await bag.take("one two\n" * 4000, tool="look", call_id="c")
        assert isinstance(taken, Kept)
        handle, tokens = taken.artifact.handle, taken.artifact.measure.tokens
        bag.journal.record("called", handle=handle, tool="look", call_id="c", outcome="kept")
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}").text
    about = "" if is_counted else "~"
    assert f'"Tokens" class="num">{about}{roughly(tokens)}<' in page
    assert f"32.0 kB, {about}{roughly(tokens)} tokens; " in page


@requirement("async:crash-interrupted")
@pytest.mark.parametrize("is_agent", [False, True])
async def test_a_call_that_was_killed_in_the_background_took_at_least_as_long_as_its_process_is_known_to_have_lived(
    home: Path, is_agent: bool
) -> None:
    now = [time.time() - 9000.0]  # the viewer has a clock of its own, for what has expired
    async with Holdall.open(home=str(home), session="s", clock=lambda: now[0]) as bag:
        if is_agent:
            bag.journal.record("turn", number=1, final=False, tokens=9, why="")
        writer = await bag.jobs.begin(tool="crawl", call_id="c")
        writer.write(b"so far")
        about: dict[str, Any] = {"handle": writer.handle, "tool": "crawl", "call_id": "c", "seconds": 5.0}
        bag.journal.record("running", **about)
        if is_agent:
            bag.journal.record("called", **about, outcome="running")
        now[0] += 60.0
        bag.journal.record("inline", tool="other", chars=3)
        bag.journal.flush()
        writer.close()
    now[0] += 8000.0
    async with Holdall.open(home=str(home), session="s", clock=lambda: now[0]) as bag:
        for _ in range(150):  # more than are held open in the list of calls
            bag.journal.record("inline", tool="much later", chars=3)
        session, tree = bag.session.id, bag.records.tree().to_json(with_outputs=True)
    (line,) = [one for one in drawn_tree(tree) if "crawl" in one]
    assert line.lstrip("└├│─ ").startswith("tool crawl · at least 65.0 s · in the background, interrupted ")
    told = ">at least 1 min 05 s<"
    with client(home) as browser:
        calls = browser.get(f"/s/{session}/calls?q=crawl").text
        page = browser.get(f"/s/{session}").text
        assert told in browser.get(f"/s/{session}/o/{writer.handle}").text
    assert calls.count(told) == 1
    assert ">interrupted<" in calls
    assert page.count(told) == 1 + is_agent, "in the outputs, and in the timeline where there is one"


@requirement("runtime:operation-tree")
@pytest.mark.parametrize("is_agent", [False, True])
async def test_what_still_runs_has_taken_the_time_until_now_in_the_tree_as_in_the_viewer(
    home: Path, is_agent: bool
) -> None:
    now = [time.time() - 9000.0]
    async with Holdall.open(home=str(home), session="s", clock=lambda: now[0]) as bag:
        if is_agent:
            bag.journal.record("turn", number=1, final=False, tokens=9, why="")
            mark: dict[str, Any] = {"process": os.getpid(), "process_mark": process_mark(os.getpid())}
            bag.journal.record("begun", tool="look", call_id="b", seconds=1.0, number=1, **mark)
        writer = await bag.jobs.begin(tool="crawl", call_id="c")
        writer.write(b"so far")
        about: dict[str, Any] = {"handle": writer.handle, "tool": "crawl", "call_id": "c", "seconds": 2.0}
        bag.journal.record("running", **about)
        if is_agent:
            bag.journal.record("called", **about, outcome="running")
        now[0] += 60.0
        with bag.lease("a test") if is_agent else contextlib.nullcontext():
            drawn = "\n".join(drawn_tree(bag.records.tree().to_json(with_outputs=True)))
        assert f"tool crawl · 62.0 s · running {writer.handle}" in drawn
        if is_agent:
            assert "tool look · 61.0 s · running" in drawn
            assert "─ turn 1 · 60.0 s" in drawn
            drawn = "\n".join(drawn_tree(bag.records.tree().to_json(with_outputs=True)))
            assert "─ turn 1 · 0.0 s" in drawn, "nobody leads it"
        else:
            assert drawn.splitlines()[0].endswith(" · 62.0 s")
        writer.close()


@requirement("runtime:operation-tree")
async def test_a_call_in_the_background_runs_since_it_began_wherever_that_is_told(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        bag.journal.record("turn", number=1, final=False, tokens=9, why="")
        writer = await bag.jobs.begin(tool="crawl", call_id="c")
        about: dict[str, Any] = {"handle": writer.handle, "tool": "crawl", "call_id": "c", "seconds": 100.5 * 3600}
        bag.journal.record("running", **about)
        bag.journal.record("called", **about, outcome="running")
        bag.journal.flush()
        session = f"/s/{bag.session.id}"
        with client(home) as browser:
            for part, times in {
                session: 2, f"{session}/calls": 1, f"{session}/o/{writer.handle}": 1,
                f"{session}/o/{writer.handle}/row": 1, f"{session}/o/{writer.handle}/facts": 1,
            }.items():  # fmt: skip
                assert browser.get(part).text.count(">100 h ") == times, part
        listed = await asyncio.to_thread(Program(home), "ls", "--session", "s")
        assert " running 4d " in listed.text
        writer.finish()
        ended = await asyncio.to_thread(Program(home), "wait", writer.handle, "--session", "s")
        assert ended.text.endswith(" · 4d\n")


@requirement("way:nothing-lost-silently", "cli:run-resume")
async def test_a_call_that_was_killed_while_it_was_waited_for_is_told_alike_everywhere_and_after_a_resume_too(
    home: Path,
) -> None:
    now = [time.time() - 9000.0]
    async with Holdall.open(home=str(home), session="s", clock=lambda: now[0]) as bag:
        bag.journal.record("turn", number=1, final=False, tokens=9, why="")
        begun: dict[str, Any] = {"number": 1, "process": 1, "process_mark": "gone", "arguments": {"url": "a.example"}}
        bag.journal.record("begun", tool="crawl", call_id="c", seconds=1.0, **begun)
        now[0] += 60.0
        bag.journal.record("inline", tool="other", chars=3)
    now[0] += 8000.0
    for is_resumed in (False, True):
        async with Holdall.open(home=str(home), session="s", clock=lambda: now[0]) as bag:
            if is_resumed:
                told: dict[str, Any] = {"outcome": "interrupted", "state": "interrupted", "is_error": True}
                bag.journal.record("called", tool="crawl", call_id="c", **told)
            session, tree = bag.session.id, bag.records.tree().to_json()
        (line,) = [one for one in drawn_tree(tree) if "crawl" in one]
        assert line.lstrip("└├│─ ") == "tool crawl · at least 61.0 s · interrupted · no answer"
        with client(home) as browser:
            (call,) = re.findall(
                r"<tr>(?:(?!</tr>).)*crawl.*?</tr>", browser.get(f"/s/{session}/calls").text, re.DOTALL
            )
            page = browser.get(f"/s/{session}").text
        (row,) = re.findall(r'<li id="op-0-0".*?</li>', page, re.DOTALL)
        for part in (call, row):
            assert ">at least 1 min 01 s<" in part
            assert ">interrupted<" in part
            assert "no answer" in part
        assert "a.example" in call
        assert f'datetime="{machine_time(now[0] - 8061.0)}"' in call
        assert "<dt>tool calls</dt><dd>1, 1 failed or cut short</dd>" in page


def test_of_a_forged_end_of_a_run_no_more_is_drawn_than_one_page_holds() -> None:
    found = Reported.of({"status": "ok", "seen": {f"h{number}": 1.0 for number in range(10_000)}})
    assert found is not None
    assert len(found.seen) == 500
