"""What must not be stored, and what was removed or has expired, leaves no trace on disk: every byte is searched."""

import asyncio
import base64
import gzip
import json
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdall import Command, Holdall, Inline, NeverStored, ToolPolicy, Unkept
from holdall.bag.take import value_as_text
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.store.bundle import stream
from holdall.values.chat import Reply, ToolCall, ToolResult
from holdall.values.errors import BadQuery, ModelOverflow, OutputExpired
from holdall.values.events import Event, EventKind
from holdall.verbs.query import SqlRequest
from tests.agent.shapes import acting, agent, report, returned, tool
from tests.agent.test_loop import run
from tests.bag.shapes import opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio

SECRET = "zq9-planted-Secret-7731"
LARGE = "".join(f"line {number} of it: {SECRET}\n" for number in range(6000))
NEVER = {"vault": ToolPolicy(store="never")}


def spellings(secret: str) -> list[bytes]:
    """As it is, and what base64 makes of the middle of it, wherever it begins."""
    data = secret.encode()
    packed = [base64.b64encode(b"\0" * shift + data)[8:-8] for shift in range(3)]
    return [data, data.hex().encode(), data.decode().encode("utf-16-le"), *packed]


def unpacked(data: bytes) -> Iterator[bytes]:
    yield data
    for magic, unpack in ((b"\x1f\x8b", gzip.decompress), (b"x\x9c", zlib.decompress)):
        at = data.find(magic)
        with suppress(OSError, EOFError, zlib.error):
            yield unpack(data[at:]) if at >= 0 else b""
    if (at := data.find(stream.MAGIC)) >= 0:
        with suppress(stream.Broken):
            yield stream.decompressor().decompress(data[at:])


def traces(folder: Path, secret: str = SECRET) -> list[str]:
    """The files that hold it in some form."""
    wanted, found = spellings(secret), list[str]()
    for path in folder.rglob("*"):
        if path.is_file() and any(one in data for data in unpacked(path.read_bytes()) for one in wanted):
            found.append(str(path.relative_to(folder)))
    return found


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Temporary files are searched, too."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def test_a_trace_is_found_in_every_form(tmp_path: Path) -> None:
    compressor = stream.compressor()
    forms = {
        "plain": LARGE.encode(), "base64": base64.b64encode(b"xy" + LARGE.encode()), "gzip": gzip.compress(LARGE.encode()),
        "zstd": compressor.compress(LARGE.encode()) + compressor.flush(),
    }  # fmt: skip
    for name, data in forms.items():
        (tmp_path / name).write_bytes(data)
    assert sorted(traces(tmp_path)) == sorted(forms)


async def _parts() -> AsyncIterator[str]:
    for line in LARGE.splitlines(keepends=True):
        yield line


def _fails() -> str:
    raise ValueError(LARGE)


def _writes_and_fails(writer: Any) -> str:
    writer.write(LARGE)
    raise ValueError(SECRET)


async def _slow() -> str:
    await asyncio.sleep(0)
    return LARGE


BLOCKS = {
    "content": [
        {"type": "text", "text": LARGE},
        {"type": "image", "mimeType": "image/png", "data": base64.b64encode(LARGE.encode() * 9).decode()},
    ],
    "structuredContent": {"secret": LARGE},
}
TOOLS: dict[str, Callable[[], object]] = {
    "small": lambda: SECRET,
    "large": lambda: LARGE,
    "bytes": lambda: LARGE.encode() * 20,
    "blocks": lambda: BLOCKS,
    "stream": _parts,
    "error": _fails,
    "slow": _slow,
    "command": lambda: Command(["sh", "-c", f"for i in $(seq 1 9000); do echo {SECRET} $i; done; exit 3"]),
}


@requirement("way:policy-never-stored")
@pytest.mark.parametrize("form", TOOLS)
@pytest.mark.parametrize("dialect", ["holdall", "extract"])
async def test_an_output_that_is_never_stored_leaves_no_trace(form: str, dialect: str, here: Path) -> None:
    async with opened(here, dialect=dialect, tools=NEVER, slow_after_seconds=0.0) as bag:
        given = TOOLS[form]() if form == "command" else TOOLS[form]
        taken = await bag.run(given, tool="vault", call_id="c1")
        assert isinstance(taken, Inline | Unkept)
        assert SECRET in value_as_text(taken.content) or form == "bytes"
        if isinstance(taken, Unkept):
            assert "not to be stored" in value_as_text(taken.content)
        with pytest.raises(NeverStored):
            await bag.keep(LARGE, tool="vault")
        bag.records.save_tree()
    assert traces(here) == []


async def test_a_call_that_wrote_and_failed_or_was_cancelled_leaves_no_trace(here: Path) -> None:
    began = asyncio.Event()

    async def never_ends(writer: Any) -> None:
        writer.write(LARGE)
        began.set()
        await asyncio.Event().wait()

    async with opened(here, tools=NEVER, slow_after_seconds=0.0) as bag:
        taken = await bag.run(_writes_and_fails, tool="vault")
        assert isinstance(taken, Unkept)
        task = asyncio.create_task(bag.run(never_ends, tool="vault"))
        await began.wait()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert traces(here) == []


@requirement("way:policy-never-stored")
async def test_an_agent_writes_nothing_of_it_to_its_transcript_and_says_so(here: Path) -> None:
    calls: list[Any] = [
        ("vault", {}),
        ("batch", {"calls": [{"tool": "vault", "arguments": {}}, {"tool": "plain", "arguments": {}}]}),
    ]
    model = acting(calls, report("done"))
    one = agent(
        here, model, tool("vault", lambda: SECRET), tool("plain", lambda: "no secret"), settings={"tools": NEVER}
    )
    await run(one, "go")
    assert [SECRET in result.text for result in returned(model.requests[-1])] == [True, True]
    assert traces(here) == []
    again = acting(report("done"))
    await run(agent(here, again, settings={"tools": NEVER}), "go on", resume=True)
    alone, batch, _ = returned(again.requests[0])
    told = (
        f"[{len(SECRET)} characters of vault were here. They were not saved, because outputs of this tool are not to "
        "be stored. Call it again if you need them.]"
    )
    assert alone.text == told
    assert json.loads(batch.text) == [{"tool": "vault", "result": told}, {"tool": "plain", "result": "no secret"}]


@requirement("way:policy-never-stored")
@pytest.mark.parametrize("dialect", ["clamp", "holdall"])
async def test_recovery_notes_nothing_down_of_it_wherever_it_stands(dialect: str, here: Path) -> None:
    inner: dict[str, Any] = {"tool": "batch", "arguments": {"calls": [{"tool": "vault", "arguments": {}}]}}
    replies: list[Reply | ModelOverflow] = [
        Reply(calls=(ToolCall("c1", "batch", {"calls": [inner]}),)),
        ModelOverflow("prompt is too long: 99999 tokens > 20000 maximum"),
        Reply(calls=(ToolCall("r", "final_report", {"report": "done"}),)),
    ]

    requests: list[Request] = []

    def answer(request: Request) -> Reply:
        requests.append(request)
        reply = replies.pop(0)
        if isinstance(reply, ModelOverflow):
            raise reply
        return reply

    one = agent(here, ScriptedModel(answer, window=20_000), tool("vault", lambda: LARGE[:9_000]),
                settings={"tools": NEVER, "dialect": dialect})  # fmt: skip
    await run(one, "go")
    assert not replies
    assert traces(here) == []
    if dialect == "clamp":
        (told,) = [message.text for message in requests[-1].messages if isinstance(message, ToolResult)]
        assert "truncated" in told
        assert "handle: " not in told, "nobody has the rest"


async def test_recovery_and_compaction_keep_the_rest_of_the_conversation_only(here: Path) -> None:
    refusals = 0

    def answer(request: Request) -> Reply:
        nonlocal refusals
        if len(model.requests) <= 4:
            name = "vault" if len(model.requests) % 2 else "plain"
            return Reply(calls=(ToolCall(f"c{len(model.requests)}", name, {}),))
        if refusals < 2:
            refusals += 1
            raise ModelOverflow("prompt is too long: 99999 tokens > 64000 maximum")
        return Reply(calls=(ToolCall("r", "final_report", {"report": "done"}),))

    model = ScriptedModel(answer, window=64_000)
    tools = tool("vault", lambda: LARGE[:60_000]), tool("plain", lambda: "the plain text")
    limits = {"max_inline_bytes": 10**6, "max_inline_tokens": 10**6, "max_inline_lines": 10**6}
    await run(agent(here, model, *tools, settings={"tools": NEVER, **limits}), "go")
    assert traces(here) == []
    async with opened(here) as bag:
        kept = [facts for facts in await bag.fetch.outputs() if facts.origin.tool == "conversation"]
        assert len(kept) == 1
        text = (await bag.read(kept[0].handle, bounded=False)).text
    assert "the plain text" in text
    assert "They were not saved" in text
    [told] = [one.text for one in model.requests[-1].messages if "are no longer shown" in one.text]
    assert f"kept under the handle {kept[0].handle}, but for 1 output that may not be stored." in told


# What was removed, and what has expired


async def _with_quotes(bag: Holdall) -> str:
    """An output of which events, notes, arguments, the tree and a traceback tell something."""
    kept = await bag.keep(LARGE, tool="fetch", call_id="c1", arguments={"query": SECRET})
    other = await bag.keep("nothing special\n" * 4000, tool="fetch")
    await bag.call("context_query", {"handle": kept.handle, "sql": f'select "{SECRET}" from t'})
    journal = bag.journal
    journal.record("asked", handle=kept.handle, purpose="map", preview=SECRET, why=SECRET, op="1")
    journal.record("extracted", handle=kept.handle, question=SECRET, quotes=[{"words": SECRET}], why=SECRET, op="1")
    journal.record("asked", handle=other.handle, purpose="map", preview="of the other", op="2")
    journal.record("extracted", handle=other.handle, question="of the other", op="2")
    bag.records.save_tree()
    assert traces(Path(bag.store.home))
    return kept.handle


@requirement("store:gone-leaves-no-text")
@pytest.mark.parametrize("way", ["removed", "expired", "session"])
async def test_what_is_gone_leaves_no_text_in_events(way: str, here: Path) -> None:
    retention = {"session": "session", "expired": "1"}.get(way, "keep")
    now = 1_700_000_000.0
    async with opened(here, retention=retention, clock=lambda: now) as bag:
        handle = await _with_quotes(bag)
        if way == "removed":
            await bag.forget(handle)
        elif way == "expired":
            now += 2 * 86_400
            await bag.care.sweep()
    assert traces(here) == []
    async with opened(here, clock=lambda: now) as bag:
        events = bag.records.history()
        assert {"refused", "asked", "extracted"} <= {event.kind for event in events if event.handle == handle}
        texts = [event.data.get("question") for event in events if event.kind == "extracted"]
        assert texts == ([None, "of the other"] if way == "removed" else [None, None])
        assert bag.care.bad_lines() == []


@requirement("store:gone-leaves-no-text")
async def test_what_is_written_of_an_output_after_it_was_removed_leaves_no_text(here: Path) -> None:
    """A question was running while another process removed it."""

    async def reply(request: Request) -> Reply | str:
        if not removed:
            removed.append(await other.forget(kept.handle))
        return f"The word is {SECRET}, in {len(request.messages)} messages."

    removed: list[object] = []
    async with opened(here, retention="keep", model=ScriptedModel(reply)) as bag:
        kept = await bag.keep(LARGE, tool="fetch")
        async with Holdall.open(home=bag.store.home, session=bag.session.name) as other:
            with pytest.raises(OutputExpired):
                await bag.extract(kept.handle, "which word?", mode="full-chunked")
        assert removed
        bag.journal.flush()
        assert traces(here) == []


@requirement("store:gone-leaves-no-text")
@pytest.mark.parametrize("asks", ["context_grep", "context_query", "also"])
async def test_a_call_that_ends_after_its_output_was_removed_leaves_no_text(
    here: Path, monkeypatch: pytest.MonkeyPatch, asks: str
) -> None:
    async with opened(here, retention="keep") as bag:
        kept = await bag.keep("id,word\n" + f"1,{SECRET}\n" * 4000, tool="fetch")
        other = await bag.keep("id,n\n" + "1,2\n" * 4000, tool="fetch")
        record, removed = bag.journal.record, list[object]()

        def late(kind: EventKind, **data: Any) -> Event:
            """As where another process removes it while the answer is on its way."""
            if not removed and kind in ("retrieved", "refused"):
                removed.append(bag.store.remove(bag.session, [kept]))
            return record(kind, **data)

        monkeypatch.setattr(bag.journal, "record", late)
        given: dict[str, Any] = {"handle": kept.handle, "pattern": SECRET}
        if asks != "context_grep":
            given = {"handle": kept.handle, "sql": f"select count(*) from t where word = '{SECRET}'"}
        if asks == "also":
            sql = f"select count(*) from \"{kept.handle}\" where word = '{SECRET}'"
            given = {"handle": other.handle, "also": [kept.handle], "sql": sql}
        answer = await bag.call("context_grep" if asks == "context_grep" else "context_query", given)
        assert (answer.is_error, len(removed)) == (False, 1)
    assert traces(here) == []


@requirement("store:gone-leaves-no-text")
async def test_a_query_of_what_is_removed_meanwhile_does_not_blame_the_sql(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(here, retention="keep") as bag:
        kept = await bag.keep("id,word\n" + "1,2\n" * 4000, tool="fetch")

        def late(_: SqlRequest) -> Any:
            """As DuckDB, which opens a file again, and may open no other."""
            bag.store.remove(bag.session, [kept])
            raise BadQuery("the SQL may read t and nothing else.")

        monkeypatch.setattr(SqlRequest, "answer", late)
        said = await bag.call("context_query", {"handle": kept.handle, "sql": "select count(*) from t"})
        assert said.is_error
        assert f"{kept.handle} was removed on request" in said.text


@requirement("store:gone-leaves-no-text")
async def test_what_an_event_of_another_output_says_of_it_goes_with_it(here: Path) -> None:
    async with opened(here, retention="keep") as bag:
        kept = await bag.keep("id,word\n" + f"1,{SECRET}\n" * 4000, tool="fetch", call_id="c9")
        other = await bag.keep("id,n\n" + "1,2\n" * 4000, tool="fetch")
        sql = f'select cast(word as integer) from "{kept.handle}"'
        answer = await bag.call("context_query", {"handle": other.handle, "also": [kept.handle], "sql": sql})
        assert SECRET in answer.text
        long = f"/* {'x' * 3000} */ {sql}"
        answer = await bag.call("context_query", {"handle": other.handle, "also": ["c9"], "sql": long})
        assert SECRET in answer.text
        await bag.forget(kept.handle)
        assert traces(here) == []
