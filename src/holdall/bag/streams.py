"""A stream that a tool returned, read as far as could still fit: then it is either whole, or on its way to the store.

Nothing is read twice and nothing is dropped: the part read so far comes first.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterator, Sequence
from typing import Any, cast

from holdall.background import is_cancelled
from holdall.store.sources import (
    Borders,
    Objects,
    Source,
    check_repeats,
    holds_much,
    is_file,
    is_row,
    json_text,
    read_once,
)
from holdall.values.errors import EndlessValue, HoldallError, ToolRaised, UsageError
from holdall.values.record import record
from holdall.wire.notes import endless_note, unreadable
from holdall.wire.results import field, fields_of, is_known_block

_MORE = 64 * 1024  # beyond the limit, so that a stream that fits is never taken for one that does not


@record
class Whole:
    """All of it: a text, bytes, or a list of blocks."""

    value: object
    read_as: str = ""


@record
class Remainder:
    """Too long to be held: the parts that were read and then the stream itself; `head` is the text of those parts."""

    parts: object  # an iterator, synchronous or not
    head: str
    read_as: str = ""
    problem: Exception | None = None  # it was not too long, but broke: `head` is all that came
    is_text: bool = False  # and came as text


def read_as(parts: Sequence[object]) -> str:
    """The kind of an output that begins with these parts, where a line of it could be anything: numbers are values."""
    return "ndjson" if parts and all(isinstance(part, bool | int | float | None) for part in parts) else ""


def is_stream(output: object) -> bool:
    if isinstance(output, AsyncIterable | Iterator):
        return True
    return not isinstance(output, type) and is_file(output)


def asynchronous(output: object) -> AsyncIterable[object] | None:
    return cast("AsyncIterable[object]", output) if isinstance(output, AsyncIterable) else None


def parts_of(output: object) -> Iterator[object]:
    """What a synchronous stream gives: itself, or the pieces of a file."""
    return cast("Iterator[object]", output) if isinstance(output, Iterator) else _pieces(output)


def with_an_end(value: object) -> object:
    """The same; a note in the place of a value that nobody could write."""
    if isinstance(value, str | bytes | int | float | None) or is_row(value):
        return value
    value = read_once(value)
    try:
        for one in _with_fields(value):
            with contextlib.suppress(ValueError):  # it holds itself: what can be told of it is told
                check_repeats(one)
    except EndlessValue as problem:
        return endless_note(problem)
    return value


def is_large(value: object) -> bool:
    """Whether reading and writing it takes so long that the loop should go on meanwhile."""
    try:
        return type(value).__module__.partition(".")[0] in _FRAMES or any(map(holds_much, _with_fields(value)))
    except Exception:  # an object of the tool's own may do anything when it is looked at
        return False


_FRAMES = ("pandas", "polars", "pyarrow", "numpy")


def _with_fields(value: object) -> Iterator[object]:
    yield value
    if not isinstance(value, dict | list | tuple):
        yield from (field(value, name) for name in fields_of(value))


def steady(parts: Iterator[object]) -> Iterator[object]:
    """The same; a stream that ends the program has failed, and the program goes on."""
    try:
        for part in parts:
            yield with_an_end(part)
    except (SystemExit, asyncio.CancelledError) as problem:  # nobody can cancel a thread
        raise ToolRaised(problem) from problem
    finally:
        if isinstance(parts, Generator):
            with contextlib.suppress(Exception):
                cast("Generator[object]", parts).close()


async def steady_later(parts: AsyncIterable[object]) -> AsyncIterator[object]:
    given = aiter(parts)
    try:
        async for part in given:
            yield with_an_end(part)
    except SystemExit as problem:
        raise ToolRaised(problem) from problem
    except asyncio.CancelledError as problem:
        if is_cancelled():
            raise
        raise ToolRaised(problem) from problem
    finally:
        await closed(given)


async def closed(parts: object) -> None:
    """A generator that is not read to its end lets go of what it holds now, and not whenever it is collected. What else
    can be closed (a cursor, a response) is its owner's.
    """
    with contextlib.suppress(Exception):  # the tool's own; or it runs in this moment, and ends by itself
        if isinstance(parts, AsyncGenerator | _Chained):
            await cast("_Chained", parts).aclose()
        elif isinstance(parts, Generator):
            await asyncio.to_thread(cast("Generator[object]", parts).close)


def _pieces(file: Any) -> Iterator[object]:
    while part := cast("object", file.read(_MORE)):
        if not isinstance(part, str | bytes | bytearray | memoryview):  # a mock, for instance, has no end
            raise UsageError(f"read() of a {type(file).__name__} gave a {type(part).__name__}, not text or bytes.")
        yield cast("object", part)


class _Held:
    """The parts so far: how large they are, and whether they are all content blocks."""

    def __init__(self, most: int) -> None:
        self.parts: list[object] = []
        self._left = most + _MORE
        self._blocks = True

    def add(self, part: object) -> bool:
        """Whether it may go on to be held: blocks always are, since a list of them is what a model gets."""
        self.parts.append(part)
        self._blocks = self._blocks and is_known_block(part)
        self._left -= _size(part)
        return self._blocks or self._left >= 0

    def whole(self) -> Whole | Remainder:
        parts = self.parts
        if parts and self._blocks:
            return Whole(parts)
        if parts and all(isinstance(part, bytes | bytearray | memoryview) for part in parts):
            return Whole(b"".join(cast("list[bytes]", parts)))
        if all(isinstance(part, str) for part in parts):
            return Whole("".join(cast("list[str]", parts)))
        source = Source(iter(parts))
        value = text_or_bytes(b"".join(source))
        if source.notes:  # of what had to be changed: the store says it with the output
            return Remainder(iter(parts), _text(parts), read_as(parts))
        return Whole(value, read_as(parts))

    def broken(self, failing: object, problem: Exception) -> Remainder:
        is_text = all(isinstance(part, str) for part in self.parts)
        return Remainder(failing, _text(self.parts), problem=problem, is_text=is_text)


async def read_ahead(stream: AsyncIterator[object], most: int) -> Whole | Remainder:
    """All of it where it is at most about `most` bytes."""
    held = _Held(most)
    try:
        async for part in stream:
            if not held.add(part):
                return Remainder(_Chained(held.parts, stream), _text(held.parts), read_as(held.parts))
    except BaseException as problem:
        await closed(stream)  # it may be we who could not read a part of it
        if isinstance(problem, Exception):
            return held.broken(_failing(held.parts, problem), problem)
        raise
    return held.whole()


def read_ahead_sync(stream: Iterator[object], most: int) -> Whole | Remainder:
    held = _Held(most)
    try:
        for part in stream:
            if not held.add(part):
                return Remainder(_chained(held.parts, stream), _text(held.parts), read_as(held.parts))
    except Exception as problem:
        return held.broken(_failing_sync(held.parts, problem), problem)
    return held.whole()


async def discard(parts: object) -> tuple[int, Exception | None]:
    """Read a stream to its end and discard it. Returns the number of bytes, up to the error if it fails, and that."""
    total = 0
    later, borders = asynchronous(parts), Borders()
    try:
        if later is not None:
            async for part in later:
                total += len(b"".join(Source(iter((part,)), borders=borders)))
        else:
            for chunk in Source(parts_of(parts)):
                total += len(chunk)
    except Exception as problem:
        return total, problem
    finally:
        await closed(parts)
    return total, None


class _Chained:
    """These parts, then the stream. No generator: one that nobody has asked for a part ends without its `finally`."""

    def __init__(self, parts: list[object], stream: AsyncIterator[object]) -> None:
        self._parts, self._stream = iter(parts), stream

    def __aiter__(self) -> AsyncIterator[object]:
        return self

    async def __anext__(self) -> object:
        for part in self._parts:
            return part
        return await anext(self._stream)

    async def aclose(self) -> None:
        await closed(self._stream)


async def _failing(parts: list[object], problem: Exception) -> AsyncIterator[object]:
    """The parts before the error, then the error: the store keeps the parts, the facts name the error."""
    for part in parts:
        yield part
    raise problem


def _chained(parts: list[object], stream: Iterator[object]) -> Iterator[object]:
    with contextlib.closing(cast("Generator[object]", stream)):
        yield from parts
        yield from stream


def _failing_sync(parts: list[object], problem: Exception) -> Iterator[object]:
    yield from parts
    raise problem


def text_or_bytes(data: bytes) -> str | bytes:
    """A text where it is one; bytes that are none stay what they are."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data


def _text(parts: list[object]) -> str:
    return b"".join(Source(iter(parts))).decode("utf-8", "replace")


def _size(part: object) -> int:
    if isinstance(part, str | bytes | bytearray):
        return len(part)
    return part.nbytes if isinstance(part, memoryview) else value_size(part)


def value_size(value: object) -> int:
    """Bytes, about, of a value as it will be written."""
    try:
        return sum(map(len, json_text(value)))
    except Exception:  # told when it is written
        return 1024


def value_text(value: object) -> tuple[str, tuple[str, ...]]:
    """Any value as text, and what is to be said of that. Never raises, whatever the value does when it is looked at."""
    objects = Objects()
    try:
        return "".join(json_text(value, objects)), objects.notes
    except EndlessValue as problem:  # for Python, too
        return endless_note(problem), ()
    except Exception as problem:  # what JSON cannot say is told as Python tells it
        note = str(problem) if isinstance(problem, HoldallError) else f"{type(problem).__name__}: {problem}"
    try:
        return repr(value), (note,)
    except Exception as problem:
        return unreadable(value, problem), (note,)
