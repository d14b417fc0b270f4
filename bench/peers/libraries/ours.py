"""Holdall: `take`, then `context_read` along its "Next:" lines, then `context_grep`."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from bench.peers.patient import Page, Peer
from holdall.bag import Holdall
from holdall.values.settings import Settings

_NEXT = re.compile(r'^Next: context_read\(handle="[^"]+", (\w+)="([^"]+)"\)$')


class Ours:
    def __init__(self, bag: Holdall) -> None:
        self._bag = bag
        self._handle = ""
        self.first: Any = {}  # from the start, as much as one answer holds

    async def take(self, output: object) -> str:
        taken = await self._bag.take(output, tool="fetch", call_id="call-1")
        notice = str(taken.content)
        handle = re.search(r"^handle: (\S+)$", notice, re.MULTILINE)
        self._handle = handle[1] if handle else ""
        return notice

    async def read(self, place: Any) -> Page:
        answer = await self._bag.call("context_read", {"handle": self._handle, **place})
        lines = answer.text.split("\n")
        foot = _NEXT.match(lines[-1])
        shown = ""
        if len(lines) > 2 and lines[1].startswith("<"):  # the fence around what is stored
            shown = "\n".join(lines[2 : lines.index(f"</{lines[1][1:]}")])
        return Page(answer.text, shown, {foot[1]: foot[2]} if foot else None)

    async def search(self, needle: str) -> str:
        return (await self._bag.call("context_grep", {"handle": self._handle, "pattern": needle})).text

    async def stored(self) -> bytes:
        pieces = [bytes(piece) async for piece in self._bag.fetch.stream(self._handle)]
        return b"".join(pieces)


async def session(way: str, folder: Path, body: Callable[[Peer], Awaitable[None]]) -> None:
    # As after a plain install; the extra `tokens` brings a vocabulary, which is then used wherever it is found.
    settings = Settings(tokenizer="o200k" if way == "exact tokens" else "estimate")
    async with Holdall.open(home=str(folder / "home"), session="bench", settings=settings) as bag:
        await body(Ours(bag))
