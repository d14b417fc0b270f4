"""A patient model: it reads on and on as the library says, and then searches. The same for every library.

This is run inside the environment of the library that is measured, so nothing of Holdall is imported here. What came
back is written to files; anyone who started this judges it, with no effect on the time and the memory measured here.
"""

import json
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Protocol, TextIO, TypeVar

from bench import machine

Given = TypeVar("Given")


@dataclass(frozen=True, slots=True)
class Page:
    """One answer of a library's own tool for reading."""

    text: str  # all that the model gets
    shown: str  # of it, what the library gives as stored text, without its line numbers and headings
    next: Any = None  # where to read on, as the answer says; None if it names no place


class Peer(Protocol):
    """A library in use, with the settings that it has when nobody changes them."""

    first: Any  # where reading starts

    async def take(self, output: object) -> str:
        """Hand over a tool's result, and return what the model gets in its place."""
        ...

    async def read(self, place: Any) -> Page:
        """Call the tool that the notice names."""
        ...

    async def search(self, needle: str) -> str:
        """Look for a literal text with the library's own tool."""
        ...

    async def stored(self) -> bytes:
        """What the library has kept, for anyone who judges. Not measured."""
        ...


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds and bytes of one run."""

    take: float
    reads: int
    read: float  # the median of them
    read_all: float
    search: float
    before: int  # resident just before the output was handed over, which is in memory then
    peak: int
    gave_up: bool  # there was more to read than the patience lasted for


async def drive(peer: Peer, output: object, needle: str, out: Path, *, most_reads: int) -> Figures:
    machine.forget_highest()
    before = machine.resident_bytes()
    notice, take = await _timed(peer.take(output))
    seconds: list[float] = []
    place: Any = peer.first
    with _pages(out) as pages:
        while place is not None and len(seconds) < most_reads:
            page, took = await _timed(peer.read(place))
            seconds.append(took)
            pages.write(json.dumps({"shown": page.shown, "bytes": len(page.text.encode())}) + "\n")
            place = None if page.next == place else page.next
    answer, search = await _timed(peer.search(needle))
    peak = machine.highest_resident_bytes()
    (out / "notice").write_text(notice, encoding="utf-8")
    (out / "answer").write_text(answer, encoding="utf-8")
    (out / "stored").write_bytes(await peer.stored())
    figures = Figures(
        take=take, reads=len(seconds), read=median(seconds), read_all=sum(seconds), search=search,
        before=before, peak=peak, gave_up=place is not None,
    )  # fmt: skip
    (out / "figures").write_text(json.dumps(asdict(figures)), encoding="utf-8")
    return figures


def _pages(out: Path) -> TextIO:
    return open(out / "pages", "w", encoding="utf-8")


async def _timed(call: Awaitable[Given]) -> tuple[Given, float]:
    started = time.perf_counter()
    given = await call
    return given, time.perf_counter() - started
