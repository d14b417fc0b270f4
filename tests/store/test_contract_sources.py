"""Every form in which a tool may return something is kept whole, by a rule that is written down."""

import array
import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import hashlib
import io
import json
import os
import pathlib
import threading
import types
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.store.protocol import OutputStore, SessionInfo
from holdall.store.sources import CHUNK, Source
from holdall.values.errors import UsageError
from tests.requirements import requirement
from tests.store.support import keep, kept_bytes, one_store, read_back
from tests.text.strategies import messy_bytes

EARLIEST = datetime.datetime.min  # noqa: DTZ901  # a tool that knows no zones


class Colour(enum.Enum):
    RED = "rot"
    BOTH = ("rot", "grün")


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: int
    tags: set[str]


class Model:
    def model_dump(self, *, mode: str) -> dict[str, str]:
        return {"mode": mode}


class Mute:
    def __str__(self) -> str:
        raise RuntimeError("detached")

    __repr__ = __str__


class Named:
    def __str__(self) -> str:
        return "a thing"


# ── Text and bytes ──────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:source-text")
@pytest.mark.parametrize(
    "text", ["plain", "é 漢 😀\r\n", "\ufeffmark", "a\x00b", "x" * (CHUNK + 1), "漢" * (CHUNK // 2)]
)
def test_text_is_kept_as_its_utf_8_bytes(store: OutputStore, session: SessionInfo, text: str) -> None:
    assert kept_bytes(store, session, text) == text.encode("utf-8")


@requirement("store:source-text")
def test_a_str_that_lies_about_its_length_is_kept_as_long_as_it_is(store: OutputStore, session: SessionInfo) -> None:
    # STORE-028
    class Liar(str):
        __slots__ = ()

        def __len__(self) -> int:
            return 3

        def __str__(self) -> str:
            return "lie"

        def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
            return b"lie"

    assert kept_bytes(store, session, Liar("x" * 100_000)) == b"x" * 100_000
    assert kept_bytes(store, session, iter([Liar("y" * 5000), "z"])) == b"y" * 5000 + b"z"


@requirement("store:source-bytes", "measure:bytes-as-they-came")
@one_store
@given(messy_bytes)
def test_bytes_are_kept_as_they_are(store: OutputStore, session: SessionInfo, data: bytes) -> None:
    for form in (data, bytearray(data), memoryview(data)):
        assert kept_bytes(store, session, form) == data


@requirement("store:source-bytes")
def test_a_view_of_any_shape_is_kept_as_its_bytes(store: OutputStore, session: SessionInfo) -> None:
    numbers = array.array("I", range(1000))
    assert kept_bytes(store, session, memoryview(numbers)) == numbers.tobytes()
    assert kept_bytes(store, session, memoryview(b"abcdef")[::2]) == b"ace"
    assert kept_bytes(store, session, memoryview(b"abcdef").cast("B", (2, 3))) == b"abcdef"
    assert kept_bytes(store, session, memoryview(b"")) == b""
    assert kept_bytes(store, session, memoryview(bytearray(3 * CHUNK + 1))) == bytes(3 * CHUNK + 1)


@requirement("measure:lone-surrogates")
def test_lone_surrogates_are_replaced_and_counted(store: OutputStore, session: SessionInfo) -> None:
    for value in ("a\ud800b\udfff", iter(["a\ud800", b"b", "\udfff"])):
        facts = keep(store, session, value)
        assert read_back(store, facts) == "a\ufffdb\ufffd".encode()
        assert facts.measure.notes == ("2 lone surrogates were replaced by U+FFFD",)
    assert keep(store, session, {"k": "\ud800"}).measure.notes == ("1 lone surrogate was replaced by U+FFFD",)
    assert keep(store, session, "whole").measure.notes == ()


# ── JSON and other values ───────────────────────────────────────────────────────────────────────────────────

json_values = st.recursive(
    st.booleans() | st.integers(min_value=-(10**30), max_value=10**30) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
).filter(lambda value: not isinstance(value, str))


@requirement("store:source-json-value")
@one_store
@given(json_values)
def test_a_json_value_is_kept_as_json_that_parses_to_the_same_value(
    store: OutputStore, session: SessionInfo, value: Any
) -> None:
    assert json.loads(kept_bytes(store, session, value)) == value


@requirement("store:source-json-value")
def test_json_is_written_with_its_own_letters_and_in_its_own_order(store: OutputStore, session: SessionInfo) -> None:
    value = {"b": "é漢", "a": [1, 2.5, None, True]}
    assert kept_bytes(store, session, value) == '{"b": "é漢", "a": [1, 2.5, null, true]}'.encode()
    # STORE-042: a block of a type that nobody knows.
    assert kept_bytes(store, session, {"type": "hologram", "payload": [1, 2, 3]}) == (
        b'{"type": "hologram", "payload": [1, 2, 3]}'
    )


@requirement("store:source-json-value", "read:deep-json")
@pytest.mark.parametrize("make_store", ["directory"], indirect=True)  # it is written in the same way for each
def test_a_list_of_100_000_levels_is_kept_to_its_last_bracket(store: OutputStore, session: SessionInfo) -> None:
    value: list[Any] = []
    for _ in range(99_999):
        value = [value]
    assert kept_bytes(store, session, value) == b"[" * 100_000 + b"]" * 100_000
    assert kept_bytes(store, session, {"deep": value, "then": {(1,): Colour.RED}}) == (
        b'{"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b', "then": {"(1,)": "rot"}}'
    )


class Endless(Sequence[object]):
    """Like a text: each of its items is one again."""

    def __init__(self, sign: str) -> None:
        self._sign = sign

    def __len__(self) -> int:
        return 1

    def __getitem__(self, at: Any) -> Any:
        if at:
            raise IndexError
        return Endless(self._sign)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Endless)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __str__(self) -> str:
        return self._sign


@pytest.mark.in_full(one_in=3)
@requirement("store:source-other-values")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({2, 1}, "[1, 2]"),
        (frozenset({"b", "a"}), '["a", "b"]'),
        ((1, "x"), '[1, "x"]'),
        (range(3), "[0, 1, 2]"),
        ({"raw": b"\xff", "more": [bytearray(b"\xfe"), memoryview(b"abc")[::2]]}, '{"raw": "/w==", "more": ["/g==", "YWM="]}'),
        (decimal.Decimal("NaN"), '"NaN"'),
        ([decimal.Decimal("1.10")], '["1.10"]'),
        (fractions.Fraction(1, 3), '"1/3"'),
        (EARLIEST, '"0001-01-01 00:00:00"'),
        (datetime.date(2026, 11, 15), '"2026-11-15"'),
        (datetime.timedelta(minutes=90), '"1:30:00"'),
        (pathlib.PurePosixPath("/x"), '"/x"'),
        (uuid.UUID(int=0), '"00000000-0000-0000-0000-000000000000"'),
        (Colour.RED, '"rot"'),
        ([Colour.BOTH, Level.HIGH], '[["rot", "grün"], 3]'),
        (Point(1, {"a"}), '{"x": 1, "tags": ["a"]}'),
        (types.MappingProxyType({"a": 1}), '{"a": 1}'),
        (Model(), '{"mode": "json"}'),
        (Named(), '"a thing"'),
        ({1: "a", None: "b", (1, 2): "c", uuid.UUID(int=1): {3}},
         '{"1": "a", "null": "b", "(1, 2)": "c", "00000000-0000-0000-0000-000000000001": [3]}'),
        (True, "true"),
        (0, "0"),
        (3.5, "3.5"),
        (1j, '"1j"'),
        (collections.UserString("text"), '"text"'),
        ([list[int]], '["list[int]"]'),
        (Endless("x"), '"x"'),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_that_json_does_not_know_is_kept_by_a_rule(
    store: OutputStore, session: SessionInfo, value: object, text: str
) -> None:
    # STORE-026
    assert kept_bytes(store, session, value).decode() == text


@requirement("store:source-other-values")
def test_an_object_that_cannot_say_what_it_is_is_kept_by_its_type(store: OutputStore, session: SessionInfo) -> None:
    assert kept_bytes(store, session, [Mute()]).startswith(b'["<')
    assert b"Mute object at" in kept_bytes(store, session, Mute())


@requirement("store:source-other-values")
@pytest.mark.parametrize("odd", ["ring", "number"])
def test_a_part_of_a_stream_that_json_cannot_hold_is_told_and_ends_nothing(odd: str) -> None:
    ring: dict[str, Any] = {}
    ring["again"] = ring
    source = Source(iter([{"i": 0}, ring if odd == "ring" else {"n": 10**5000}, {"i": 2}]))
    first, told, last = b"".join(source).decode().split("\n")
    assert (first, last) == ('{"i": 0}', '{"i": 2}')
    assert json.loads(told).startswith(
        "{'again': {...}}" if odd == "ring" else "a dict cannot be kept as JSON: Exceeds"
    )
    assert source.notes == ("1 part of the output kept only as str(): an item (dict)",)


@pytest.mark.parametrize("keys", [["a"], [("a",)]], ids=["text", "other keys"])
@pytest.mark.timeout(10)
def test_a_value_that_holds_itself_is_refused_with_its_type(keys: list[Any]) -> None:
    loop: dict[Any, Any] = {}
    loop[keys[0]] = [loop]
    with pytest.raises(UsageError) as refused:
        Source(loop)
    assert str(refused.value) == snapshot("a dict cannot be kept as JSON: Circular reference detected.")


@requirement("store:source-other-values")
def test_the_same_part_twice_is_no_loop(store: OutputStore, session: SessionInfo) -> None:
    part = {("k",): [1]}
    assert kept_bytes(store, session, [part, part, [part]]) == (
        b"[{\"('k',)\": [1]}, {\"('k',)\": [1]}, [{\"('k',)\": [1]}]]"
    )


@requirement("store:source-none")
def test_none_is_an_empty_output_that_says_so(store: OutputStore, session: SessionInfo) -> None:
    # STORE-012
    facts = keep(store, session, None)
    assert read_back(store, facts) == b""
    assert facts.measure.notes == ("the tool returned nothing (None)",)
    assert facts.state == "ready"


@requirement("store:source-empty")
@pytest.mark.parametrize("value", ["", b"", bytearray(), iter(()), iter([""]), iter([b"", ""]), io.BytesIO()])
def test_an_empty_output_is_zero_bytes_under_a_handle_that_resolves(
    store: OutputStore, session: SessionInfo, value: object
) -> None:
    # STORE-011
    facts = keep(store, session, value)
    assert store.resolve(session, facts.handle) == facts
    assert read_back(store, facts) == b""
    assert (facts.measure.lines, facts.measure.kind, facts.measure.notes) == (0, "text", ())


# ── Iterators, files and pipes ──────────────────────────────────────────────────────────────────────────────


@requirement("store:source-text-iterator")
@one_store
@given(st.lists(st.text(max_size=20), max_size=20))
def test_an_iterator_of_text_is_kept_in_order_joined(
    store: OutputStore, session: SessionInfo, parts: list[str]
) -> None:
    assert kept_bytes(store, session, iter(parts)) == "".join(parts).encode()


@requirement("store:source-bytes-iterator")
@one_store
@given(st.lists(messy_bytes, max_size=20))
def test_an_iterator_of_bytes_is_kept_in_order_joined(
    store: OutputStore, session: SessionInfo, parts: list[bytes]
) -> None:
    assert kept_bytes(store, session, iter(parts)) == b"".join(parts)
    assert kept_bytes(store, session, (memoryview(part) for part in parts)) == b"".join(parts)


def test_an_iterator_may_mix_text_bytes_and_values(store: OutputStore, session: SessionInfo) -> None:
    parts = ["é", b"\xff", bytearray(b"x"), memoryview(b"abc")[::2], {"a": 1}, 7]
    assert kept_bytes(store, session, iter(parts)) == "é".encode() + b'\xffxac\n{"a": 1}\n7'


@pytest.mark.in_full(one_in=3)
@requirement("store:source-bytes-iterator")
def test_many_small_parts_and_few_large_ones_are_kept_alike(store: OutputStore, session: SessionInfo) -> None:
    data = os.urandom(2 * CHUNK + 12_345)
    small = (data[start : start + 7] for start in range(0, len(data), 7))
    assert kept_bytes(store, session, small) == kept_bytes(store, session, iter([data])) == data


@requirement("store:source-open-file")
def test_an_open_file_is_kept_from_where_it_stands_to_its_end(
    store: OutputStore, session: SessionInfo, tmp_path: Path
) -> None:
    path = tmp_path / "output"
    data = b"first\nsecond \xc3\xa9\n" + os.urandom(CHUNK + 5)
    path.write_bytes(data)
    with path.open("rb") as file:
        assert file.readline() == b"first\n"
        assert kept_bytes(store, session, file) == data[6:]
    with path.open("rb", buffering=0) as file:
        assert kept_bytes(store, session, file) == data
    path.write_text("é漢" * 1_000_000, encoding="utf-16")
    with path.open(encoding="utf-16") as file:
        assert kept_bytes(store, session, file) == ("é漢" * 1_000_000).encode()
    assert kept_bytes(store, session, io.StringIO("in\r\nmemory")) == b"in\r\nmemory"


@requirement("store:source-pipe")
def test_a_pipe_is_kept_until_its_writer_closes_it(store: OutputStore, session: SessionInfo) -> None:
    reading, writing = os.pipe()
    data = os.urandom(3 * CHUNK + 1)

    def write() -> None:
        with os.fdopen(writing, "wb") as pipe:
            for start in range(0, len(data), 10_000):
                pipe.write(data[start : start + 10_000])

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(reading, "rb") as pipe:
        assert kept_bytes(store, session, pipe) == data
    writer.join()


@requirement("store:source-pipe", "store:source-fails-midway")
def test_a_pipe_that_has_nothing_yet_is_not_taken_for_one_that_has_ended(
    store: OutputStore, session: SessionInfo
) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"so far")
    with os.fdopen(reading, "rb", buffering=0) as pipe:
        facts = keep(store, session, pipe)
    os.close(writing)
    assert read_back(store, facts) == b"so far"
    assert (facts.state, facts.error) == (
        "failed",
        "UsageError: read() of a FileIO gave nothing yet; a file to be kept must be a blocking one.",
    )


@requirement("store:source-other-values")
@pytest.mark.timeout(10)
def test_a_read_that_gives_neither_text_nor_bytes_is_refused_with_its_type(
    store: OutputStore, session: SessionInfo
) -> None:
    class Numbers:
        def read(self, size: int) -> int:
            return size

    facts = keep(store, session, Numbers())
    assert (facts.state, facts.measure.bytes) == ("failed", 0)
    assert facts.error.startswith("UsageError: read() of a ")
    assert facts.error.endswith("Numbers gave an int, not text or bytes.")


# ── Sources that end early ──────────────────────────────────────────────────────────────────────────────────


def broken(problem: BaseException, before: int = 5) -> Iterator[bytes]:
    for _ in range(before):
        yield b"x" * 1000
    raise problem


@requirement("store:source-fails-midway")
@pytest.mark.parametrize("before", [0, 5, 3000])
def test_what_a_source_gave_before_it_raised_is_kept_and_said_to_be_incomplete(
    store: OutputStore, session: SessionInfo, before: int
) -> None:
    # STORE-029
    facts = keep(store, session, broken(ValueError("mid\nand a second line"), before))
    assert read_back(store, facts) == b"x" * 1000 * before
    assert (facts.state, facts.error, facts.is_whole) == ("failed", "ValueError: mid", False)
    assert store.resolve(session, facts.handle) == facts


@requirement("store:source-fails-midway")
def test_an_error_without_words_is_told_by_its_type(store: OutputStore, session: SessionInfo) -> None:
    assert keep(store, session, broken(OSError())).error == "OSError"
    assert keep(store, session, broken(ValueError("y" * 9000))).error == "ValueError: " + "y" * 500


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit("stop")], ids=type)
def test_what_an_interrupted_source_gave_is_kept_as_cancelled(
    store: OutputStore, session: SessionInfo, problem: BaseException
) -> None:
    facts = keep(store, session, broken(problem))
    assert read_back(store, facts) == b"x" * 5000
    assert facts.state == "cancelled"
    assert facts.error.startswith(type(problem).__name__)


# ── The collection of bad inputs, area "store" ──────────────────────────────────────────────────────────────


@requirement("measure:bytes-as-they-came", "measure:sha256")
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"A\xc0\xafB", id="STORE-003"),
        pytest.param(b"x" * 65535 + b"\xe2\x82", id="STORE-005"),
        pytest.param(b"\xef\xbb\xbfhi", id="STORE-006 UTF-8"),
        pytest.param("hi".encode("utf-16"), id="STORE-006 UTF-16"),
        pytest.param("hi".encode("utf-32"), id="STORE-006 UTF-32"),
        pytest.param(b"a\0b\0" * 10000, id="STORE-007"),
        pytest.param(b"a\r\nb\rc\n", id="line ends"),
        pytest.param(b"x" * 16383, id="STORE-013 one under"),
        pytest.param(b"x" * 16384, id="STORE-013 at"),
        pytest.param(b"x" * 16385, id="STORE-013 one over"),
        pytest.param(b"x" * (10 * CHUNK + 1), id="one long line"),
    ],
)
def test_bytes_come_back_as_they_came(store: OutputStore, session: SessionInfo, data: bytes) -> None:
    facts = keep(store, session, data)
    assert read_back(store, store.resolve(session, facts.handle)) == data
    assert facts.measure.sha256 == hashlib.sha256(data).hexdigest()
    assert facts.measure.bytes == len(data)
    assert facts.measure.chars == len(data.decode("utf-8", "replace"))


@requirement("measure:json-not-rewritten")
@pytest.mark.parametrize(
    ("text", "notes"),
    [
        pytest.param('{"a":NaN,"b":-Infinity}', ("not strict JSON: it has NaN",), id="STORE-018"),
        pytest.param('{"a":1,"a":2}', (), id="STORE-019"),
        pytest.param("[1e400,-0.0,0.30000000000000004]", (), id="STORE-021"),
        pytest.param('{ "n" : ' + "9" * 6000 + " }\n", (), id="many digits"),
    ],
)
def test_json_text_is_never_rewritten(
    store: OutputStore, session: SessionInfo, text: str, notes: tuple[str, ...]
) -> None:
    facts = keep(store, session, text)
    assert read_back(store, facts) == text.encode()
    assert (facts.measure.kind, facts.measure.notes) == ("json", notes)


@requirement("measure:newline-ends-line")
def test_separators_that_only_splitlines_knows_end_no_line(store: OutputStore, session: SessionInfo) -> None:
    # STORE-010
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    facts = keep(store, session, text)
    assert read_back(store, facts).decode() == text
    assert facts.measure.lines == 1


@requirement("store:source-other-values", "store:source-bytes")
def test_everything_of_store_026_is_kept(store: OutputStore, session: SessionInfo) -> None:
    assert kept_bytes(store, session, b"\xff") == b"\xff"
    assert kept_bytes(store, session, bytearray(b"\xfe")) == b"\xfe"
    assert kept_bytes(store, session, memoryview(b"\xfd")) == b"\xfd"
    mixed = [{1, 2}, b"\xff", bytearray(b"\xfe"), memoryview(b"\xfd"), decimal.Decimal("NaN"), EARLIEST]
    encoded = [base64.b64encode(raw).decode() for raw in (b"\xff", b"\xfe", b"\xfd")]
    assert json.loads(kept_bytes(store, session, mixed)) == [[1, 2], *encoded, "NaN", "0001-01-01 00:00:00"]
