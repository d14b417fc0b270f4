"""What was asked of an output, what was answered, which bytes that showed; how much there is of it while it is written."""

import asyncio
import html
import io
import json
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdall.bag import Holdall
from holdall.llm.scripted import ScriptedModel
from holdall.values.outputs import Running
from holdall.values.settings import Settings
from tests.requirements import requirement
from tests.web.support import client

pytestmark = pytest.mark.anyio
TEXT = "".join(f"line {number} of the log\n" for number in range(5000)) + "the code is E417\n"


@requirement("ledger:in-viewer")
async def test_the_page_of_an_output_lists_what_was_asked_answered_and_which_bytes(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        facts = await bag.keep(TEXT, tool="fetch")
        await bag.call("context_grep", {"handle": facts.handle, "pattern": "E4\\d+"})
        await bag.call("context_grep", {"handle": facts.handle, "pattern": "("})
        await bag.read(facts.handle, lines="3:3")
        await bag.read(facts.handle, lines="1:40")
        output = f"/s/{bag.session.id}/o/{facts.handle}"
    with client(home) as browser:
        page = browser.get(f"{output}/retrievals").text
    long, read, refused, grep = page.split("<article")[1:]
    assert "This is its beginning; " in long
    assert "were shown.</p>" in long
    assert "This is its beginning" not in read
    assert "<code>E4\\d+</code>" in grep
    assert "the code is E417" in grep, "where no answer is recorded, the bytes that it showed"
    start = TEXT.index("the code")
    assert f'data-from="{start}" data-to="{start + 16}"' in grep
    assert "context_grep" in grep
    assert "refused" in refused
    assert "<code>(</code>" in refused
    assert "line 2 of the log" in read
    assert "<dt>lines</dt>" in read


@requirement("ledger:in-viewer", "diff:ledger")
async def test_of_a_diff_both_outputs_are_told_and_the_answer_is_found_from_either(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        one, other, third = [(await bag.keep(f"{TEXT}{at}\n", tool="fetch")).handle for at in range(3)]
        for at, given in enumerate(({"handle": one, "other": other, "by": "lines"}, {"handle": other})):
            answer = await bag.call("context_diff", given)
            bag.journal.record("called", handle=answer.handle, tool="context_diff", call_id=f"c{at}", outcome="answer")
        await bag.call("context_diff", {"handle": third, "other": one})
        bag.journal.record("called", handle=one, tool="context_diff", call_id="c2", outcome="answer")
        told = [
            {"role": "tool", "call_id": f"c{at}", "name": "context_diff", "text": f"words {at}", "is_error": False}
            for at in range(3)
        ]
        bag.records.append_transcript("".join(f"{json.dumps(line)}\n" for line in told).encode())
        await bag.diff(one, third)
        session = f"/s/{bag.session.id}"
    with client(home) as browser:
        calls = html.unescape(browser.get(f"{session}/calls").text)
        swapped, *asked = browser.get(f"{session}/o/{one}/retrievals").text.split("<article")[2:]
        answers = browser.get(f"{session}/o/{other}/retrievals").text.split("<article")[1:]
    both = json.dumps({"handle": one, "other": other})
    assert f"<code>{both}</code>" in calls, "without a second one, the one that was found is told"
    assert f'<code>{both[:-1]}, "by": "lines"}}</code>' in calls
    assert json.dumps({"handle": one, "other": third})[:-1] in calls
    assert "words 2" in swapped
    assert ["words" in page for page in asked] == [False, False]
    assert ["words 1" in answers[0], "words 0" in answers[1]] == [True, True]
    for page in (*asked, *answers):
        assert f"<dt>handle</dt><dd><code>{one}</code></dd><dt>other</dt><dd><code>{other}</code></dd>" in page
    for page in asked:
        assert f'<a href="{session}/o/{other}?side=retrievals">{other}</a>' in page
        assert "not recorded" not in page


async def test_what_a_call_that_waited_was_asked_and_answered_is_with_each_output_that_it_told(home: Path) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.05)
        return "slowly\n"

    async with Holdall.open(home=str(home), session="s", settings=Settings(slow_after_seconds=0.01)) as bag:
        first, second = [await bag.run(slow, tool="slow") for _ in range(2)]
        answer = await bag.call("wait_for_tool_output", {"all": True, "timeout": 60})
        await bag.call("wait_for_tool_output", {"handle": first.handle, "pattern": "of-an-output"})
        waited = [event for event in bag.records.events() if event.data.get("name") == "wait_for_tool_output"]
        bag.journal.record("called", tool="wait_for_tool_output", call_id="w", outcome="answer")
        output = f"/s/{bag.session.id}/o/{second.handle}"
        session = bag.session
    assert "slowly" in answer.text
    assert [event.data["asked"] for event in waited if not event.handle] == [
        {"all": True, "timeout": 60},
        {"handle": first.handle},
    ], "a pattern may be the words of an output, which would stay in this when it is removed"
    with client(home) as browser:
        page = browser.get(f"{output}/retrievals").text
        calls = browser.get(f"/s/{session.id}/calls").text
    assert "not recorded.</p>" not in page.replace("The words of the answer are not recorded", "")
    assert "<dt>all</dt><dd><code>true</code>" in page
    assert "timeout" in calls


async def test_many_retrievals_come_in_pages_the_newest_first(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        facts = await bag.keep(TEXT, tool="fetch")
        for line in range(1, 91):
            bag.journal.record(
                "retrieved", handle=facts.handle, verb="read", asked={"lines": f"<{line}>"}, shown=[[0, 3]]
            )
        output = f"/s/{bag.session.id}/o/{facts.handle}"
    with client(home) as browser:
        pages = [browser.get(f"{output}/retrievals{before}").text for before in ("", "?before=50", "?before=10")]
        assert browser.get(f"{output}/retrievals?before=x").status_code == 400
    assert [page.count("<article") for page in pages] == [40, 40, 10]
    assert "&lt;90&gt;" in pages[0]
    assert "before=50" in pages[0]
    assert "&lt;50&gt;" in pages[1]
    assert "&lt;1&gt;" in pages[2]
    assert "hx-get" not in pages[2]


async def test_odd_events_and_a_removed_output_have_a_list_all_the_same(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        facts = await bag.keep(TEXT, tool="fetch")
        odd: dict[str, Any] = {
            "asked": [1],
            "told": 5,
            "shown": [[9, 1], "x", [0, 10**15]],
            "tokens": "many",
            "why": {"a": 1},
        }
        bag.journal.record("retrieved", handle=facts.handle, verb=None, **odd)
        output = f"/s/{bag.session.id}/o/{facts.handle}"
        with client(home) as browser:
            assert browser.get(f"{output}/retrievals").status_code == 200
        await bag.call("context_grep", {"handle": facts.handle, "pattern": "E417"})
        await bag.forget(facts.handle)
    with client(home) as browser:
        page = browser.get(f"{output}/retrievals").text
    assert "E417" not in page, "what was asked and answered went with the output"
    assert "context_grep" in page


async def test_the_answers_of_an_agent_are_those_of_its_transcript(home: Path) -> None:
    async with Holdall.open(home=str(home), session="s") as bag:
        facts = await bag.keep(TEXT, tool="fetch")
        lines: list[str] = []
        for at, pattern in enumerate(("E417", "line 7 ")):
            answer = await bag.call("context_grep", {"handle": facts.handle, "pattern": pattern})
            bag.journal.record("called", handle=facts.handle, tool="context_grep", call_id=f"c{at}", outcome="answer")
            said = {"role": "tool", "call_id": f"c{at}", "name": "context_grep", "text": answer.text, "is_error": False}
            lines.append(json.dumps(said))
        bag.append_transcript("".join(f"{line}\n" for line in lines).encode())
        output = f"/s/{bag.session.id}/o/{facts.handle}"
    with client(home) as browser:
        newer, older = browser.get(f"{output}/retrievals").text.split("<article")[1:]
    assert html.escape(json.loads(lines[1])["text"]) in newer
    assert html.escape(json.loads(lines[0])["text"]) in older


async def test_a_running_output_has_its_true_size_and_nothing_was_seen_of_nothing(home: Path) -> None:
    go_on, written = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[str]:
        written.set()
        await go_on.wait()
        yield "two\nlines\n"
        written.set()
        await asyncio.Event().wait()

    async with Holdall.open(home=str(home), session="s", settings=Settings(slow_after_seconds=0.01)) as bag:
        empty = await bag.keep("", tool="quiet")
        taken = await bag.run(slow, tool="crawl")
        assert isinstance(taken, Running)
        output = f"/s/{bag.session.id}/o/{taken.handle}"
        with client(home) as browser:
            assert "nothing written yet" in browser.get(output).text
            row = browser.get(f"{output}/row").text
            assert "nothing written yet" in row
            assert "100 %" not in row
            watch = await bag.fetch.watch(taken.handle)
            go_on.set()
            async with asyncio.timeout(100):
                while not (await bag.tail(taken.handle, bounded=False)).data:
                    await watch.changed()
            watch.close()
            row, facts = browser.get(f"{output}/row").text, browser.get(f"{output}/facts").text
            for part in (row, facts):
                assert 'hx-trigger="every 1s"' in part
            assert '<td data-label="Size" class="num">10 B</td>' in row
            assert '<td data-label="Lines" class="num">2</td>' in row
            assert "0 % so far" in row
            assert "runs for" in facts
            page = browser.get(f"/s/{bag.session.id}").text
            assert '<td data-label="Size" class="num">10 B</td>' in page
            assert "it is empty" in browser.get(f"/s/{bag.session.id}/o/{empty.handle}").text
            await bag.jobs.abort()
            assert "hx-trigger" not in browser.get(f"{output}/row").text


async def test_an_answer_took_as_long_as_its_call_not_as_the_others_of_its_turn(home: Path) -> None:
    async with Holdall.open(home=str(home), session="turn") as bag:
        handle = (await bag.keep("a\n" * 50, tool="t")).handle
        about: dict[str, Any] = {"name": "context_read", "verb": "read", "asked": {}, "tokens": 1, "shown": [[0, 2]]}
        bag.journal.record("retrieved", handle=handle, tool="t", seconds=67.0, **about)
        bag.journal.record(
            "called", handle=handle, tool="context_read", call_id="r", seconds=0.04, outcome="answer", is_error=False
        )
        session = bag.session.id
    with client(home) as browser:
        page = browser.get(f"/s/{session}/o/{handle}/retrievals").text
    assert "40 ms" in page
    assert "1 min 07 s" not in page


@requirement("extract:ranges-computed")
async def test_a_quote_from_a_part_of_a_package_is_shown_with_the_bytes_of_that_part(home: Path) -> None:
    """At the same place the package has bytes of its own, which its maker chose: they prove nothing."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("0.txt", "FORGED: transfer 9000. " * 200)
        archive.writestr("a/b.txt", "".join(f"the secret line {number} here\n" for number in range(900)))
    said = {"found": True, "quotes": ["the secret line 77 here"], "answer": "77", "confidence": 0.9}
    model = ScriptedModel(lambda _: json.dumps(said), keeps_schema=True)
    async with Holdall.open(home=str(home), session="s", model=model) as bag:
        facts = await bag.keep(packed.getvalue(), tool="fetch")
        found = await bag.extract(f"{facts.handle}!a/b.txt", "which line?", mode="full-chunked")
        session = bag.session.id
    (span,) = [one.span for one in found.snippets]
    assert span is not None
    with client(home) as browser:
        pages = {name: browser.get(f"/s/{session}{name}").text
                 for name in ("", f"/o/{facts.handle}/quotes", f"/o/{facts.handle}!a~2Fb.txt/quotes")}  # fmt: skip
        linked = browser.get(f"/s/{session}/o/{facts.handle}!a~2Fb.txt?byte={span.start}&to={span.end}")
    assert linked.status_code == 200
    for name, page in pages.items():
        assert "the secret line 77 here" in page, name
        assert "FORGED" not in page, name
        assert f"{facts.handle}!a~2Fb.txt?byte={span.start}&amp;to={span.end}" in page, name
