"""A record is read once by a call, whichever way it comes and whatever it asks for."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from holdall import Holdall
from holdall.store.directory.folder import SessionFolder
from tests.bag.shapes import LOG, opened
from tests.extract.shapes import finding

pytestmark = pytest.mark.anyio
ROWS = json.dumps([{"id": n, "name": f"name {n}"} for n in range(5000)])

CALLS: dict[str, Callable[[Holdall, str], Awaitable[Any]]] = {
    "read": lambda bag, handle: bag.read(handle),
    "tail": lambda bag, handle: bag.tail(handle),
    "slice": lambda bag, handle: bag.slice(handle, start=10, length=10),
    "grep": lambda bag, handle: bag.grep(handle, "name 7"),
    "path": lambda bag, handle: bag.query(handle, path="$[0].name"),
    "sql": lambda bag, handle: bag.query(handle, "select count(*) from t"),
    "show": lambda bag, handle: bag.show(handle),
    "fits": lambda bag, handle: bag.fits(handle),
    "notice": lambda bag, handle: bag.notice(handle),
    "shown": lambda bag, handle: bag.shown(handle),
    "context_read": lambda bag, handle: bag.call("context_read", {"handle": handle}),
    "context_tail": lambda bag, handle: bag.call("context_tail", {"handle": handle}),
    "context_grep": lambda bag, handle: bag.call("context_grep", {"handle": handle, "pattern": "name"}),
    "context_query": lambda bag, handle: bag.call("context_query", {"handle": handle, "path": "$[*].name"}),
}


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The handles whose records were read, once for each time."""
    found: list[str] = []
    load = SessionFolder.load
    monkeypatch.setattr("holdall.bag.journal._FLUSH_SECONDS", 600.0)  # then it looks whether outputs were removed

    def counted(self: SessionFolder, handle: str) -> Any:
        found.append(handle)
        return load(self, handle)

    monkeypatch.setattr(SessionFolder, "load", counted)
    return found


@pytest.mark.parametrize("name", CALLS)
async def test_a_call_reads_the_record_of_its_output_once(tmp_path: Path, loads: list[str], name: str) -> None:
    async with opened(tmp_path) as bag:
        handle = (await bag.keep(ROWS, tool="rows")).handle
    async with opened(tmp_path) as bag:
        loads.clear()
        answer = await CALLS[name](bag, handle)
        assert not getattr(answer, "is_error", False)
        assert loads == [handle]
        await CALLS[name](bag, handle)
        assert len(loads) <= 2


async def test_an_answer_that_is_too_long_at_first_is_not_looked_up_again(tmp_path: Path, loads: list[str]) -> None:
    async with opened(tmp_path) as bag:
        handle = (await bag.keep(LOG, tool="log")).handle
        loads.clear()
        answer = await bag.call("context_grep", {"handle": handle, "pattern": ".", "limit": 5000}, tokens_left=300)
        assert not answer.is_error
        assert loads == [handle]


async def test_a_question_reads_the_record_once_however_many_chunks_it_searches(
    tmp_path: Path, loads: list[str]
) -> None:
    async with opened(tmp_path) as bag:
        handle = (await bag.keep(LOG, tool="log")).handle
    async with opened(tmp_path, model=finding(lambda _: None), max_chunks=100) as bag:
        loads.clear()
        found = await bag.extract(handle, "What happened?", mode="full-chunked")
        assert found.chunks_total > 1
        assert loads == [handle]
