"""What a program reads for itself: all of it, where a model gets an answer of bounded length."""

import asyncio
import base64
import inspect
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import assert_type

import pytest

from holdall import Holdall as AsyncHoldall
from holdall import Kept, MemoryStore, Nodes, SessionClosed, Table
from holdall.blocking import Holdall
from tests.requirements import requirement


@requirement("api:grep", "api:query")
def test_a_program_gets_all_of_it_where_it_sets_no_limit() -> None:
    rows = [{"n": n, "text": "x" * 20} for n in range(2_500)]
    with Holdall.open(store=MemoryStore()) as bag:
        kept = bag.keep("".join(json.dumps(row) + "\n" for row in rows), tool="list").handle
        other = bag.keep("".join(f'{{"n": {n}}}\n\n' for n in range(0, 5_000, 2)), tool="list").handle
        table = bag.query(kept, "select n from t order by n", bounded=False)
        assert_type(table, Table)
        assert table.next is None
        assert table.rows == tuple((n,) for n in range(2_500))
        nodes = bag.query(kept, path="$[*].n", bounded=False)
        assert_type(nodes, Nodes)
        assert [int(one.text) for one in nodes.nodes] == list(range(2_500))
        found = bag.grep(kept, "x{20}", bounded=False)
        assert (len(found.matches), found.total, found.next) == (2_500, 2_500, None)
        groups = bag.grep(kept, r'"n": (\d+)', group=True, bounded=False)
        assert len(groups.groups) == groups.distinct == 2_500
        assert len(bag.grep(kept, "x{20}", last=True, bounded=False).matches) == 2_500
        assert len(bag.grep(kept, "x{20}", limit=7, bounded=False).matches) == 7
        changes = bag.diff(kept, other, by="lines", bounded=False)
        assert (len(changes.changes), changes.next) == (changes.total, None)
        # Those for a model are as short as ever, and say so.
        table = bag.query(kept, "select n from t order by n")
        assert (len(table.rows), table.next, table.total) == (1_000, 1_000, 2_500)
        assert len(bag.grep(kept, "x{20}").matches) == 100


def test_a_notebook_shows_a_passage_once() -> None:
    with Holdall.open(store=MemoryStore()) as bag:
        assert repr(bag.read(bag.keep("a needle").handle)).count("needle") == 1


def test_help_says_what_is_awaited() -> None:
    plain = {"instructions", "open", "owns", "system_notice", "tools", "turn"}
    names = {name for name in vars(AsyncHoldall) if name[0] != "_" and callable(getattr(AsyncHoldall, name))}
    assert names - plain == {name for name in names if inspect.iscoroutinefunction(getattr(AsyncHoldall, name))}


class Picture:
    """As Pillow's image: a notebook asks it for a file."""

    def __init__(self, size: int) -> None:
        self.palette, self.file = None, b"\x89PNG\r\n\x1a\n" + bytes(size)

    def _repr_png_(self) -> bytes:
        return self.file


@requirement("api:take")
def test_an_image_of_a_library_is_its_file() -> None:
    small, large = Picture(10), Picture(200_000)
    with Holdall.open(store=MemoryStore()) as bag:
        shown = bag.take(small, tool="chart")
        assert shown.content is small
        assert "(PNG image)\nhandle: " in shown.text
        kept = bag.take(large, tool="chart")
        assert isinstance(kept, Kept)
        assert "(PNG image)\nhandle: " in kept.text
        assert (
            b"".join(bag.fetch.stream(kept.handle)) == b"".join(bag.fetch.stream(bag.keep(large).handle)) == large.file
        )
        inside = bag.read(bag.keep({"chart": small}).handle).text
        assert base64.b64decode(json.loads(inside)["chart"]) == small.file


@requirement("api:leaving-ends-session")
def test_a_session_that_is_over_says_so(tmp_path: Path) -> None:
    async def use(call: Callable[[AsyncHoldall], Awaitable[object]]) -> None:
        async with AsyncHoldall.open(home=str(tmp_path)) as bag:
            await bag.keep("text")
        with pytest.raises(SessionClosed):
            await call(bag)

    async def history(bag: AsyncHoldall) -> object:
        return bag.records.history()

    asyncio.run(use(lambda bag: bag.take("small")))
    asyncio.run(use(lambda bag: bag.outputs()))
    asyncio.run(use(lambda bag: bag.show("zzzz")))
    asyncio.run(use(lambda bag: bag.records.counters()))
    asyncio.run(use(lambda bag: bag.records.coverage("zzzz")))
    asyncio.run(use(history))


@requirement("watch:outputs-kept")
def test_counters_and_coverage_stay_as_they_were_when_they_were_asked_for() -> None:
    with Holdall.open(store=MemoryStore()) as bag:
        kept = bag.keep("line\n" * 20_000)
        before, ledger = bag.records.counters(), bag.records.coverage(kept.handle)
        bag.call("context_read", {"handle": kept.handle, "lines": "100:700"})
        bag.take("z\n" * 50_000)
        after, read = bag.records.counters(), bag.records.coverage(kept.handle)
        assert (after.kept - before.kept, dict(before.retrievals), dict(after.retrievals)) == (1, {}, {"read": 1})
        assert ledger.shown.bytes() == 0 < read.shown.bytes()
        before.merge(after)
        assert bag.records.counters() == after, "what a program adds up is its own"
