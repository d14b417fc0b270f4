"""What tools return as a stream of bytes, without a store around it: its pieces, its notes, what is read ahead and refused."""

import asyncio
import collections
import contextlib
import dataclasses
import fcntl
import hashlib
import io
import itertools
import json
import os
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from types import FrameType
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.bag.streams import steady
from holdall.store import sources
from holdall.store.sources import (
    Cancelled,
    Pump,
    Source,
    check_repeats,
    holds_much,
    is_file,
    joined,
    json_text,
    png_of,
    read_once,
    storable,
)
from holdall.text.utf8 import with_surrogates
from holdall.values.errors import EndlessValue, UsageError
from tests.support import in_effort


def kept(value: object) -> str:
    return b"".join(Source(value)).decode()


def notes(value: object) -> tuple[str, ...]:
    source = Source(value)
    assert list(source) or value is None
    return source.notes


# ── Pieces ──────────────────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.binary(max_size=12), max_size=12), st.booleans())
def test_small_parts_come_together_in_pieces_of_a_size_and_none_is_empty(parts: list[bytes], fails: bool) -> None:
    def given_out() -> Iterator[bytes]:
        yield from parts
        if fails:
            raise ValueError("in the end")

    pieces: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(ValueError):
        patch.setattr(sources, "CHUNK", 8)
        for piece in joined(given_out()):
            pieces.append(piece)
        assert not fails
    assert b"".join(pieces) == b"".join(parts)
    assert all(len(piece) >= 8 for piece in pieces[:-1])
    assert all(len(piece) < 8 + 12 for piece in pieces)
    assert all(pieces)


@given(st.text(max_size=40))
def test_text_and_bytes_come_in_pieces_no_longer_than_asked(text: str) -> None:
    data = text.encode(errors="replace")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "CHUNK", 8)
        whole, rest = divmod(len(data), 8)
        assert [len(piece) for piece in Source(data)] == [8] * whole + [rest] * bool(rest)
        assert kept(data.decode()) == data.decode()


def test_a_file_is_read_a_piece_at_a_time() -> None:
    asked: list[int] = []

    class Asked(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(size or 0)
            return super().read(size)

    assert kept(Asked(b"x" * 10)) == "x" * 10
    assert asked == [sources.CHUNK] * 2
    assert sources.CHUNK == 1024 * 1024


parts_of_streams = st.lists(
    st.sampled_from(["", "a", "\n", "b\n", "\nc", "\r\n", "\r\nd", "\r"]).flatmap(
        lambda text: st.sampled_from([text, text.encode()])
    )
    | st.sampled_from([0, None, False, {}, {"k": 1}, 7, [1]]),
    max_size=8,
)


@given(parts_of_streams)
def test_a_value_in_a_stream_begins_and_ends_a_line_and_all_else_is_as_it_came(parts: list[Any]) -> None:
    expected, before = b"", None
    for part in parts:
        is_value = not isinstance(part, str | bytes)
        data = json.dumps(part).encode() if is_value else part.encode() if isinstance(part, str) else part
        if not data:
            continue
        is_border = before is not None and (is_value or before)
        if is_border and not expected.endswith(b"\n") and not data.startswith((b"\n", b"\r\n")):
            expected += b"\n"
        expected += data
        before = is_value
    assert b"".join(Source(iter(parts))) == expected


@pytest.mark.parametrize("size", [64 * 1024, 1 << 20])
def test_a_pipe_is_read_to_its_end_whatever_it_holds_at_once(size: int) -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        source = iter(Source(pipe))
        with os.fdopen(writing, "wb") as end:
            writer = threading.Thread(target=end.write, args=(b"x" * size,))
            writer.start()
            pieces = [next(source)] if size > 64 * 1024 else []
            writer.join()
        assert b"".join([*pieces, *source]) == b"x" * size


# ── Asynchronous streams ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    running = asyncio.new_event_loop()
    thread = threading.Thread(target=running.run_forever)
    thread.start()
    yield running
    running.call_soon_threadsafe(running.stop)
    thread.join()
    running.close()


@pytest.mark.parametrize(
    ("part", "ahead"),
    [
        (7, 1000),
        ("x", 1000),
        ("", 1000),
        (b"x" * 65, 1000),
        (b"x" * 66, 993),
        ("x" * 32 * 1024, 2),
        (bytearray(64 * 1024 - 1), 2),
        (memoryview(bytes(64 * 1024)), 1),
        ("x" * 1_000_000, 1),
    ],
    ids=["values", "short", "empty", "65", "66", "half", "less", "whole", "long"],
)  # fmt: skip
def test_of_an_asynchronous_stream_little_is_read_ahead(
    loop: asyncio.AbstractEventLoop, part: object, ahead: int
) -> None:
    made = [0]

    async def parts() -> AsyncIterator[object]:
        while made[0] < 2500:
            made[0] += 1
            yield part

    pumped = iter(Pump(parts(), loop))
    assert next(pumped) is part
    assert made == [ahead]
    assert sum(one is part for one in pumped) == 2499


def test_values_in_an_asynchronous_stream_have_no_size(loop: asyncio.AbstractEventLoop) -> None:
    made: list[object] = []

    async def parts() -> AsyncIterator[object]:
        for part in (*[7] * 500, "x" * (64 * 1024 - 1), *[7] * 5, "x", 7):
            made.append(part)
            yield part

    next(iter(Pump(parts(), loop)))
    assert len(made) == 507


def test_what_an_asynchronous_stream_gave_before_it_failed_comes_first(loop: asyncio.AbstractEventLoop) -> None:
    async def parts() -> AsyncIterator[object]:
        yield 1
        yield 2
        raise ValueError("no more")

    pumped = iter(Pump(parts(), loop))
    assert [next(pumped), next(pumped)] == [1, 2]
    with pytest.raises(ValueError, match="no more"):
        next(pumped)


def test_a_pump_that_is_stopped_gives_what_it_has_and_asks_for_nothing_more(loop: asyncio.AbstractEventLoop) -> None:
    waits = threading.Event()

    async def parts() -> AsyncIterator[object]:
        yield 1
        waits.set()
        await asyncio.Event().wait()

    pump = Pump(parts(), loop)
    stopper = threading.Thread(target=lambda: waits.wait() and pump.stop())
    stopper.start()
    pumped = iter(pump)
    assert next(pumped) == 1
    with pytest.raises(Cancelled):
        next(pumped)
    stopper.join()
    asked = list[int]()

    async def others() -> AsyncIterator[object]:
        asked.append(1)
        yield 1

    late = Pump(others(), loop)
    late.stop()
    with pytest.raises(Cancelled):
        next(iter(late))
    assert not asked


# ── Values that repeat or hold themselves ───────────────────────────────────────────────────────────────────────


def repeated(times: int) -> list[Any]:
    found: list[Any] = ["x", "x"]
    for _ in range(times):
        found = [found, found]
    return found


AROUND: list[Callable[[Any], object]] = [
    lambda inner: inner,
    lambda inner: {"a": 1, "b": inner},
    lambda inner: [{"a": [1]}, inner],
    lambda inner: ({"a": {"b": (inner,)}}, [1]),
    lambda inner: [{"a": inner}, [2], 3],
]


@pytest.mark.parametrize("around", AROUND, ids=["itself", "dict", "mixed", "deep", "in-dict"])
def test_parts_that_are_repeated_without_end_are_found_wherever_they_are(around: Any) -> None:
    endless = repeated(19)  # a million times its innermost part
    with pytest.raises(EndlessValue):
        check_repeats(around(endless))
    for value in (around(endless), Page(around(endless)), [Page(around(endless))]):
        with pytest.raises(EndlessValue):
            kept(value)
    check_repeats(around(repeated(10)))
    loop: list[Any] = [1]
    loop.append({"again": loop})
    with pytest.raises(ValueError, match="Circular"):
        check_repeats(around(loop))
    assert storable(around(endless)).startswith("(not kept: ")


def wide(outer: int, middle: int, inner: int) -> list[Any]:
    return [[[1] * inner] * middle] * outer


def test_ten_times_as_many_values_as_are_held_may_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "_MOST_REPEATED", 0)
    check_repeats(wide(4, 4, 10))  # holds 18, writes 180
    with pytest.raises(EndlessValue) as refused:
        check_repeats(wide(4, 4, 11))
    assert str(refused.value).partition("repeats its parts")[2] == snapshot(
        ": of 19 values in it JSON would have 196. Return it without references to the same part, such as aliases of YAML."
    )
    monkeypatch.setattr(sources, "_MOST_REPEATED", 196)
    check_repeats(wide(4, 4, 11))


def test_up_to_a_million_values_may_be_written_however_few_are_held() -> None:
    value = wide(1000, 27, 36)
    check_repeats(value)
    with pytest.raises(EndlessValue, match="1,000,001"):
        check_repeats([*value, 0])


# ── What can be read only once ──────────────────────────────────────────────────────────────────────────────────


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Page:
    rows: Any
    name: str = "n"


@dataclasses.dataclass(frozen=True)
class Frozen:
    rows: Any


@dataclasses.dataclass(slots=True)
class Slotted:
    rows: Any


class Client:
    def __init__(self) -> None:
        self.rows = iter([1])


def test_iterators_inside_of_values_become_lists_in_their_places() -> None:
    value: dict[str, Any] = {
        "a": [iter([1]), {"b": iter([2])}],
        "c": Pair(iter([3]), 4),
        "d": Page(iter([5])),
        "e": (6,),
    }
    untouched, page = value["e"], value["d"]
    assert read_once(value) is value
    assert value == {"a": [[1], {"b": [2]}], "c": Pair([3], 4), "d": Page([5]), "e": (6,)}
    assert isinstance(value["c"], Pair)
    assert value["e"] is untouched
    assert value["d"] is page
    frozen = Frozen(iter([1]))
    assert read_once([frozen]) == [Frozen([1])]
    assert read_once((1, (2, iter("ab")))) == (1, (2, ["a", "b"]))


def test_a_value_without_iterators_stays_and_those_of_others_are_not_read() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    loop.append(iter([2]))
    assert read_once(loop) is loop
    assert loop[2] == [2]
    client, slotted = Client(), Slotted(iter([1]))
    read_once([client, slotted, iter([1])])
    assert next(client.rows) == 1
    assert next(slotted.rows) == 1
    for value in ({"a": [1]}, (1, [2]), "text", None, [Page([1])], Page):
        assert read_once(value) is value


def test_iterators_are_looked_for_100_levels_deep() -> None:
    def nested(levels: int) -> tuple[Any, list[Any]]:
        innermost = [iter([1])]
        value: Any = innermost
        for _ in range(levels):
            value = [value]
        return value, innermost

    value, innermost = nested(97)
    read_once(value)
    assert innermost == [[1]]
    for levels, is_read in ((97, True), (98, False)):
        value, innermost = nested(levels)
        read_once([iter([1]), value])
        assert (innermost == [[1]]) is is_read
    value, innermost = nested(100)
    read_once(value)
    assert innermost != [[1]]


# ── Arguments in a record ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "plain",
    [{}, {"a": [1, None, {"b": "é"}]}, [], 0, "x", {"list": list(range(998))}],
    ids=lambda value: str(value)[:20],
)
def test_arguments_of_a_usual_size_are_kept_as_they_are(plain: Any) -> None:
    assert storable(plain) == plain
    assert storable(None) is None


WRAPS: list[Callable[[Any], object]] = [lambda inner: [inner], lambda inner: {"a": inner}]


@pytest.mark.parametrize("make", WRAPS, ids=["list", "dict"])
def test_arguments_that_are_deep_or_many_are_kept_as_text(make: Any) -> None:
    value: Any = 1
    for levels in range(1, 130):
        value = make(value)
        assert storable(value) == (value if levels < 100 else json.dumps(value))
    many = make([0] * 1000)
    assert storable(many) == json.dumps(many)
    assert storable(make([0] * 999)) == make([0] * 999)
    assert storable(make([[]] * 999)) == make([[]] * 999)


def test_of_long_arguments_the_beginning_is_kept_with_a_digest_of_all() -> None:
    most = 16 * 1024
    assert storable("x" * (most - 2)) == "x" * (most - 2)
    long = "x" * (most - 1)
    text = json.dumps(long)
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert storable(long) == f"{text[:most]}… (the beginning of 16,385 characters, SHA-256 {digest})"
    wide = ["é"] * 2500  # escaped, it is longer than what is kept
    assert storable(wide) == json.dumps(wide, ensure_ascii=False)
    assert len(storable("é" * (most - 2))) == most
    lone = json.dumps("\ud800" * most, ensure_ascii=False)
    assert storable("\ud800" * most).endswith(f"{hashlib.sha256(lone.encode('utf-8', 'surrogatepass')).hexdigest()})")


@pytest.mark.parametrize("given", [{1: "a", "1": "b"}, {"rows": [{None: 1, "null": 2}]}, {True: 1, "true": {"x": 2}}])
def test_of_arguments_whose_keys_come_to_one_name_in_json_none_is_lost(given: Any) -> None:
    assert storable(given) == json.dumps(given)
    assert b"".join(Source(given)).decode() == json.dumps(given), "nor of an output"


def test_arguments_that_hold_themselves_are_told_why_they_are_not_kept() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    assert storable(loop) == "(not kept: a dict cannot be kept as JSON: Circular reference detected.)"


# ── Other values ────────────────────────────────────────────────────────────────────────────────────────────────


class Items(Sequence[object]):
    def __init__(self, *items: object) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, at: Any) -> Any:
        return self._items[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and self._items == other._items

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def test_a_sequence_is_the_list_of_its_items() -> None:
    assert kept(Items(1)) == "[1]"
    assert kept(Items(Items(1), 2)) == "[[1], 2]"
    assert kept(Items(Items(1))) == "[[1]]"
    assert kept(Items()) == "[]"


class Shown:
    def __init__(self, png: object) -> None:
        self.png = png

    def _repr_png_(self) -> object:
        if isinstance(self.png, Exception):
            raise self.png
        return self.png


def test_an_image_of_a_library_is_its_png_where_it_has_one() -> None:
    assert kept(Shown(b"png")) == "png"
    assert json.loads(kept([Shown(b"png")])) == ["cG5n"]
    for other in (None, "png", ValueError("too large")):
        assert png_of(Shown(other)) is None
        assert b"".join(Source(Shown(other)))
    assert png_of("text") is None


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [("", False), ("size", True), ("Size_", True), ("name", False), ("name='x'", True), ("*sizes", True),
     ("*, size=1", False), ("**size", False)],
)  # fmt: skip
def test_what_reads_a_part_of_some_size_is_a_file(parameters: str, expected: bool) -> None:
    class Reads:
        read = staticmethod(eval(f"lambda {parameters}: b''"))

    assert is_file(Reads()) is expected


def test_what_has_other_methods_of_a_file_is_one_only_if_it_reads() -> None:
    class Seeks:
        def seek(self, to: int) -> None: ...

    class Both(Seeks):
        def read(self, name: str) -> bytes:
            return b""

    class Refuses:
        @property
        def read(self) -> object:
            raise ValueError("closed")

    class Tells:
        read = "a sentence"

    assert [is_file(one) for one in (Seeks(), Both(), Refuses(), Tells(), 7, io.BytesIO(), "text")] == [
        False, True, False, False, False, True, False,
    ]  # fmt: skip


def test_a_read_that_gives_something_else_is_refused_with_both_types() -> None:
    class Odd:
        def read(self, size: int) -> object:
            return [size]

    with pytest.raises(UsageError, match=r"read\(\) of an Odd gave a list, not text or bytes"):
        kept(Odd())


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.dictionaries(st.integers(), inner),
        max_leaves=8,
    )
)
def test_what_has_odd_keys_somewhere_is_written_as_the_library_writes_the_rest(value: Any) -> None:
    written = kept([value, {(1,): None, 2.5: True}])
    assert written == f'[{json.dumps(value, ensure_ascii=False)}, {{"(1,)": null, "2.5": true}}]'


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner),
        max_leaves=40,
    ),
    st.integers(0, 9),
)
def test_a_large_value_is_written_in_pieces_as_the_library_writes_it_at_once(value: Any, much: int) -> None:
    def is_much(one: object) -> bool:
        return holds_much(one, much)

    def never(_: object) -> bool:
        return False

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "holds_much", is_much)
        patch.setattr(sources, "is_row", never)
        pieces = list(json_text(value))
    assert "".join(pieces) == json.dumps(value, ensure_ascii=False)
    assert (len(pieces) > 1) == holds_much(value, much)


@pytest.mark.parametrize(
    "row", [{"id": 1, "name": "é", "ok": True}, (1, None, 2.5), {"id": 1, "tags": ["a", "b"], "at": {"x": 1}}]
)
def test_a_row_of_a_stream_is_written_in_a_few_calls(row: Any) -> None:
    def calls_for(count: int) -> int:
        calls = 0

        def count_calls(_frame: FrameType, event: str, _argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        rows = Source(steady(itertools.repeat(row, count)))
        before = sys.getprofile()
        sys.setprofile(count_calls)
        try:
            written = b"".join(rows)
        finally:
            sys.setprofile(before)
        assert [*map(json.loads, written.splitlines())] == [json.loads(json.dumps(row))] * count
        return calls

    assert (calls_for(2000) - calls_for(1000)) / 1000 <= 40


@pytest.mark.parametrize("deep", ["wide below", "a comb"])
def test_what_is_large_far_below_takes_no_longer(deep: str) -> None:
    if deep == "wide below":
        one = "[" * 480 + "[" + "0," * 20_000 + "0]" + "]" * 480
        value = json.loads("[" + ",".join([one] * 25) + "]")
    else:
        value = [0]
        for _ in range(20_000):
            value = [0, 0, value]
    in_effort(200, lambda: list(json_text(value)))


def test_no_piece_of_a_large_value_is_long() -> None:
    value = {
        "rows": [{"id": at, "of": [at, None]} for at in range(20_000)],
        "names": dict.fromkeys(map(str, range(50_000))),
    }
    pieces = list(json_text(value))
    assert json.loads("".join(pieces)) == value
    assert max(map(len, pieces)) < 20 * sources.MUCH


# ── Objects ─────────────────────────────────────────────────────────────────────────────────────────────────────


class Holder:
    """Whatever it is given, under these names."""

    def __init__(self, **held: object) -> None:
        vars(self).update(held)


class Opaque:
    __slots__ = ()

    def __str__(self) -> str:
        return "<Opaque>"


class Sayer:
    def __str__(self) -> str:
        return "said"


class Speaking(Holder):
    def __str__(self) -> str:
        return "a few words"


class Rows(Holder):
    def __iter__(self) -> Iterator[int]:
        return iter([1, 2])


class Payload(Holder):
    @property
    def text(self) -> object:
        return self._of("_text")

    @property
    def content(self) -> object:
        return self._of("_content")

    def _of(self, name: str) -> object:
        if isinstance(found := vars(self).get(name), Exception):
            raise found
        return found


class OneSlot:
    __slots__ = "only"  # noqa: PLC0205 - a text counts as one name

    def __init__(self) -> None:
        self.only = 1


class Unset:
    __slots__ = ("here", "missing")

    def __init__(self) -> None:
        self.here = 1


OBJECTS: list[tuple[object, str]] = [
    (Holder(a=1, _b=2), '{"a": 1}'),
    (Speaking(a=1), '{"str": "a few words", "a": 1}'),
    (Speaking(a=1, text="t"), '{"a": 1, "text": "t"}'),
    (Rows(), "[1, 2]"),
    (Rows(a=1), '{"a": 1, "items": [1, 2]}'),
    (Rows(a=[3]), '{"a": [3]}'),
    (Rows(a={3}), '{"a": [3]}'),
    (Rows(text="t"), '{"text": "t"}'),
    (Payload(_text="t", _content="c"), '{"text": "t"}'),
    (Payload(_text="", _content=b"c"), '{"content": "Yw=="}'),
    (Payload(_text=7, _content="c"), '{"content": "c"}'),
    (Payload(_text=ValueError("not read yet"), _content="c", a=1), '{"a": 1, "content": "c"}'),
    (Holder(body="b", data="d"), '{"body": "b", "data": "d"}'),
    (OneSlot(), '{"only": 1}'),
    (Unset(), '{"here": 1}'),
    (Holder(a=Frozen(1)), '{"a": {"rows": 1}}'),
    (Holder(a=Holder(b=1), c=1), '{"a": "…", "c": 1}'),
    (Holder(a=[Holder(b=1)], c=(Holder(b=2),)), '{"a": [{"b": 1}], "c": [{"b": 2}]}'),
    (Holder(a={"k": Holder(b=1)}), '{"a": {"k": {"b": 1}}}'),
    (Holder(a=len, b=1), '{"b": 1}'),
    (Holder(a=[[[[1]]]]), '{"a": [[[[1]]]]}'),
    ([OneSlot, len, json], '["…", "…", "…"]'),
]


@pytest.mark.parametrize(
    ("value", "expected"), OBJECTS, ids=[f"{type(one).__name__}-{text[:20]}" for one, text in OBJECTS]
)
def test_of_an_object_all_that_is_public_is_written(value: object, expected: str) -> None:
    assert re.sub(r'"<[^"]*>"', '"…"', kept(value)) == expected


def test_objects_in_lists_of_objects_are_written_some_levels_deep() -> None:
    value, ring = Holder(name="innermost"), Holder(name="ring")
    for _ in range(8):
        value = Holder(inner=[value])
    assert kept(value).count('"inner": ') == 4
    assert notes(value) == ("1 part of a Holder could not be read: inner (Holder)",)
    vars(ring)["inner"] = [ring]
    assert kept(ring).count('"name": "ring"') == 1
    assert notes(ring) == ()
    lists: object = Holder(a=1)
    for _ in range(6):
        lists = [lists]
        assert '[{"a": 1}]' in kept(Holder(lists=lists))


class LookedAt(collections.UserDict[Any, Any]):
    """A table that is not looked at without end."""

    looks = 0

    def __iter__(self) -> Iterator[Any]:
        self.looks += 1
        assert self.looks < 1000
        return super().__iter__()


def test_an_object_that_holds_a_ring_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    table: dict[str, Any] = {}
    table["again"] = table
    odd = LookedAt({(1,): 0})
    odd["again"] = odd
    for value in (Holder(a=ring), Holder(a=table), [Holder(a=[table])], odd, [odd]):
        with pytest.raises(UsageError, match="Circular reference detected"):
            Source(value)


def test_what_is_private_is_named_unless_it_is_little() -> None:
    little: dict[str, Any] = {
        "_a": 1,
        "_b": 2.5,
        "_c": None,
        "_d": "x" * 40,
        "_e": [],
        "_f": {},
        "_g": len,
        "_h": b"x" * 40,
    }
    much: dict[str, Any] = {"_i": "x" * 41, "_j": [0], "_k": {"a": 1}, "_l": Sayer()}
    assert notes(Holder(a=1, **little)) == ()
    assert notes(Holder(a=1, **little, **much)) == (
        "4 parts of a Holder could not be read: _i (str), _j (list), _k (dict) and 1 more",
    )
    assert notes(Holder(text="t", **much)) == ()
    assert notes([Holder(a=1, _j=[0]), Holder(a=2, _j=[1])]) == ("1 part of a Holder could not be read: _j (list)",)


NOTES: list[tuple[object, tuple[str, ...]]] = [
    (None, ("the tool returned nothing (None)",)),
    ([Opaque(), {(1,): 2}], ("1 part of the output could not be read: [0] (Opaque)",)),
    ([Sayer(), {(1,): 2}], ("1 part of the output kept only as str(): [0] (Sayer)",)),
    (iter([Opaque(), 1, Opaque()]), ("2 parts of the output could not be read: an item (Opaque) and 1 more",)),
    ([0] * 9999 + [Opaque()], ("1 part of the output could not be read: [9999] (Opaque)",)),
    ([0] * 10_000 + [Opaque()], ("1 part of the output could not be read: a value (Opaque)",)),
    ([[*[0] * 9999, Opaque()]], ("1 part of the output could not be read: a value (Opaque)",)),
    (Holder(a=Sayer(), b=Opaque()), (
        "1 part of a Holder could not be read: b (Opaque)", "1 part of a Holder kept only as str(): a (Sayer)",
    )),
    ([Opaque()] * 3, ("3 parts of the output could not be read: [0] (Opaque), [1] (Opaque), [2] (Opaque)",)),
    (Frozen({"k": [1, Opaque()]}), ("1 part of the output could not be read: rows.k[1] (Opaque)",)),
    ({"k" * 26: type("T" * 26, (Opaque,), {})()}, (
        f"1 part of the output could not be read: {'k' * 24}… ({'T' * 24}…)",
    )),
    ([{"a": 1}, Frozen], ("1 part of the output could not be read: [1] (type)",)),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), NOTES)
def test_the_notes_name_what_could_not_be_read(value: object, expected: tuple[str, ...]) -> None:
    assert notes(value) == expected


@given(st.lists(st.text(st.sampled_from("aé\ud800\udfff"), max_size=4) | st.binary(max_size=3), max_size=5))
def test_lone_surrogates_are_told_with_their_places(parts: list[Any]) -> None:
    source = Source(iter(parts))
    data = b"".join(source)
    texts = (part if isinstance(part, str) else part.decode("utf-8", "replace") for part in parts)
    if all(isinstance(part, str) for part in parts):
        assert with_surrogates(data, source.surrogates()) == "".join(texts)
        count = sum(map("".join(map(str, parts)).count, "\ud800\udfff"))
        were = "surrogate was" if count == 1 else "surrogates were"
        assert source.notes == ((f"{count} lone {were} replaced by U+FFFD",) if count else ())


@pytest.mark.skipif(not hasattr(fcntl, "F_GETPIPE_SZ"), reason="pipes have one size here")
def test_a_pipe_is_widened_while_it_is_read() -> None:
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert kept(pipe) == ""
        assert fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ) == sources.CHUNK
