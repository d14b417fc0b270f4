"""A bag that leaves nothing on disk."""

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import pytest

from holdall import Holdall, MemoryStore, OutputExpired, OutputStore, Settings, Table, UnknownHandle
from holdall.store.memory_files import SMALL
from holdall.values.outputs import Facts, Inline, Kept
from holdall.values.retention import Retention
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


RECORDS = [{"id": number, "city": "Oslo" if number % 1000 == 7 else "Rome"} for number in range(60_000)]
TEXT = "".join(json.dumps(record) + "\n" for record in RECORDS)
PART = "".join(TEXT.splitlines(keepends=True)[:10_000])


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a store would be made, and temporary files, if there were any."""
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@requirement("api:open-store", "api:memory-store")
async def test_a_large_text_is_taken_searched_and_queried_with_nothing_on_disk(nowhere: Path) -> None:
    async with Holdall.open(session="s1", store=MemoryStore()) as bag:
        taken = await bag.take(TEXT, tool="fetch", call_id="c1")
        assert isinstance(taken, Kept)
        assert taken.artifact.measure.bytes == len(TEXT) > SMALL
        assert taken.handle in str(taken.content)
        await look_at(bag, taken.handle)
        # The same of one that is held without a descriptor.
        assert len(PART) < SMALL
        await look_at(bag, (await bag.keep(PART)).handle, of=PART)
        assert isinstance(await bag.take("small", tool="fetch"), Inline)
    assert files_in(nowhere) == []


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def look_at(bag: Holdall, handle: str, of: str = TEXT) -> None:
    """Every way in which a program is given the descriptor of an output: ripgrep, DuckDB, a mapped file."""
    hits = of.count("Oslo")
    assert b"".join([chunk async for chunk in bag.stream(handle)]) == of.encode()
    found = await bag.grep(handle, '"Oslo"')
    assert (found.engine, found.total, found.matches[0].line) == ("ripgrep", hits, 8)
    table = await bag.query(handle, "SELECT count(*) FROM t WHERE city = 'Oslo'")
    assert isinstance(table, Table)
    assert table.rows == ((hits,),)
    assert (await bag.slice(handle, anchor='"id": 7007', window=60)).text.count("Oslo") == 1
    assert (await bag.read(handle, lines=(8, 8))).text == '{"id": 7, "city": "Oslo"}\n'


@requirement("api:open-store", "api:memory-store")
async def test_one_store_serves_several_sessions_one_after_the_other_and_at_once() -> None:
    store: OutputStore = MemoryStore()
    async with Holdall.open(session="s1", store=store) as bag:
        kept = await bag.keep("first\n" * 1000)
    async with Holdall.open(session="s1", store=store) as again, Holdall.open(session="s2", store=store) as other:
        assert (await again.read(kept.handle, lines=(1, 1))).text == "first\n"
        with pytest.raises(UnknownHandle):
            await other.read(kept.handle)
        inner = await other.keep("second")
        await again.close()
        assert (await other.read(inner.handle)).text == "second"
        assert [(session.name, outputs) for session, outputs, *_ in await other.care.sessions()].count(("s1", 1)) == 1


@requirement("api:memory-store")
async def test_a_running_output_in_memory_is_read_while_it_grows() -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        writer = await bag.begin(tool="make", terminal=True)
        writer.write(b"one\ntwo\n")
        assert (await bag.grep(writer.handle, "two")).total == 1
        following = bag.follow(writer.handle, 1)
        assert await anext(following) == b"two\n"
        writer.write(b"three\n")
        assert (await bag.grep(writer.handle, "t(wo|hree)")).total == 2
        writer.finish(exit_code=0)
        assert b"".join([chunk async for chunk in following]) == b"three\n"
        assert (await bag.read(writer.handle)).text == "one\ntwo\nthree\n"


async def test_many_calls_at_once_keep_and_fetch_in_memory() -> None:
    async with Holdall.open(store=MemoryStore()) as bag:
        kept = await asyncio.gather(*(bag.keep(f"output {n}\n" * 2000, call_id=f"c{n}") for n in range(24)))
        assert len({facts.handle for facts in kept}) == 24
        read = await asyncio.gather(*(bag.read(f"c{n}", lines=(2000, 2000)) for n in range(24)))
        assert [passage.text for passage in read] == [f"output {n}\n" for n in range(24)]


async def test_outputs_in_memory_that_are_kept_for_their_session_go_when_it_ends() -> None:
    store = MemoryStore(retention=Retention(days=None, session=True))
    async with Holdall.open(session="s", store=store) as bag:
        handle = (await bag.keep("secret" * 1000)).handle
    async with Holdall.open(session="s", store=store) as bag:
        with pytest.raises(OutputExpired, match="kept for its session, which has ended"):
            await bag.read(handle)
        assert store.used_bytes(bag.session) == 0


# ── Care ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_store_in_memory_is_looked_after_like_one_on_disk() -> None:
    now = [1_800_000_000.0]
    store = MemoryStore(clock=lambda: now[0], retention=Retention(days=1))
    async with Holdall.open(session="s1", store=store) as bag:
        kept = await bag.keep("x" * 5000, tool="fetch")
        async with Holdall.open(session="s2", store=store) as other:
            await other.keep("y")
            assert [verdict.problem for verdict in await bag.care.verify()] == ["", ""]
            assert [verdict.handle for verdict in await bag.care.verify(only_this_session=True)] == [kept.handle]
        total = await bag.care.stats()
        assert (total.sessions, total.outputs, total.stored_bytes) == (2, 2, 5001)
        assert (await bag.care.stats(only_this_session=True)).by_tool == {"fetch": 1}
        assert (await bag.care.sweep()).expired == ()
        now[0] += 86_400
        dry = await bag.care.sweep(dry_run=True)
        assert (len(dry.expired), dry.freed_bytes) == (2, 5001)
        assert len((await bag.care.sweep()).expired) == 2
        with pytest.raises(OutputExpired, match=r"kept for 1 day\)"):
            await bag.read(kept.handle)


class Own:
    """A store that somebody else made."""

    def __init__(self) -> None:
        self._inner = MemoryStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_a_store_of_somebody_elses_making_is_used_and_looked_after_by_the_protocol() -> None:
    own: Any = Own()
    async with Holdall.open(store=own, settings=Settings()) as bag:
        kept: Facts = await bag.keep("theirs")
        assert (await bag.read(kept.handle)).text == "theirs"
        assert (await bag.care.stats()).outputs == 1
        assert (await bag.care.sweep()).expired == ()
        assert [one.handle for one in await bag.care.verify()] == [kept.handle]


PROGRAM = """
    import asyncio, sys
    from holdall import Holdall, MemoryStore, Settings

    async def main() -> None:
        store = MemoryStore() if sys.argv[1] == "memory" else None
        async with Holdall.open(session="s", store=store, settings=Settings(retention="session")) as bag:
            for size in (200_000, 3_000_000):
                taken = await bag.take("some words\\n" * (size // 11), tool="fetch", call_id=str(size))
                assert (await bag.read(taken.handle, lines="3:5")).data == b"some words\\n" * 3
                assert (await bag.grep(taken.handle, "words")).total == size // 11
            writer = await bag.begin(tool="crawl")
            writer.write(b"so far")
            writer.finish()
        if store is not None:
            assert {facts.state for facts in store.outputs(bag.session)} == {"expired"}

    asyncio.run(main())
"""
_CHANGES = (
    "openat,open,creat,openat2,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,link,linkat,symlink,symlinkat"
)
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TMPFILE|creat\(|mkdir|mknod|rename|link")


@requirement("api:memory-store")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_session_in_memory_opens_no_file_for_writing_and_makes_no_name(tmp_path: Path) -> None:
    def traced(kind: str) -> list[str]:
        trace = tmp_path / f"{kind}.trace"
        command = ["strace", "-f", "-qq", "-o", str(trace), "-e", f"trace={_CHANGES}"]
        env = os.environ | {"HOLDALL_HOME": str(tmp_path / "home"), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run(
            [*command, sys.executable, "-c", textwrap.dedent(PROGRAM), kind],
            env=env, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        if "ptrace" in ran.stderr:
            pytest.skip("strace may not trace here")
        assert ran.returncode == 0, ran.stderr
        lines = trace.read_text("utf-8", "replace").splitlines()
        return [line for line in lines if _WRITES.search(line) and '"/dev/null"' not in line and "readlink" not in line]

    assert any("session-" in line for line in traced("folder")), "what is on disk is seen"
    assert traced("memory") == []


class Words:
    name = "words"

    def count(self, text: str) -> int:
        return len(text.split())


@requirement("measure:session-tokenizer")
async def test_tokens_are_counted_by_the_tokenizer_of_the_session_whatever_store_it_got() -> None:
    store = MemoryStore()
    async with Holdall.open(store=store, tokenizer=Words()) as bag:
        kept = await bag.keep("one two three", tool="t")
        writer = await bag.begin(tool="t")
        writer.write(b"four five")
        live = writer.finish()
    async with Holdall.open(store=store, settings=Settings(tokenizer="estimate")) as bag:
        other = await bag.keep("one two three", tool="t")
    assert [(one.measure.tokenizer, one.measure.tokens) for one in (kept, live)] == [("words", 3), ("words", 2)]
    assert other.measure.tokenizer == store.tokenizer.name
