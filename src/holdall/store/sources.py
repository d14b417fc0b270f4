"""What tools return, as a stream of bytes. The rule for each form:

    bytes, bytearray, memoryview   as they are
    str                            UTF-8; lone surrogates become U+FFFD, and the facts tell which and where
    None                           nothing: an empty output whose facts say that the tool returned nothing
    an open file or pipe           its bytes, or its text as UTF-8
    an iterator                    its parts in order, text and bytes mixed as they come; each other value is JSON on a
                                   line of its own
    any other value                JSON (ensure_ascii off, keys in their order); in it, sets are lists, Decimal, UUID,
                                   dates and paths are text, an Enum is its value, bytes are base64 text,
                                   dataclasses and rows of SQLite are objects, what pandas calls missing is null, an
                                   object of another class is what can be read of it (`to_dict` and the like, else its
                                   attributes, text and payload, else its `str`, and the notes tell that this is all)

An asynchronous iterator is pumped by the bag. Nothing here reads more than a megabyte ahead.
"""

import asyncio
import base64
import concurrent.futures
import contextlib
import dataclasses
import enum
import fcntl
import hashlib
import itertools
import json
import math
import sys
import threading
import types
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeVar, cast

from holdall.text.escape import AS_TOLD, UNREAD, foreign
from holdall.text.numbers import plural, with_article
from holdall.text.utf8 import REPLACED, Surrogates
from holdall.values.errors import EndlessValue, UsageError

# From an asynchronous iterator to the plain one that a store takes, across a thread.
#
# The store runs in a thread and asks for the next parts; the loop gives as many as make up for the way there and back.
# When the caller is cancelled, the parts end there and what came before is kept.


_T = TypeVar("_T")
_BYTES = (bytes, bytearray, memoryview)
_MOST_ARGUMENTS, _MOST_VALUES = 16 * 1024, 1000  # characters and values of the arguments in a record
_PARTS_AT_ONCE, _BYTES_AT_ONCE = 1000, 64 * 1024


class Cancelled(BaseException):
    """The caller that waited for the output gave up; not an error of the tool."""


class Pump:
    def __init__(self, parts: AsyncIterable[object], loop: asyncio.AbstractEventLoop) -> None:
        self._parts = parts
        self._loop = loop
        self._asked: concurrent.futures.Future[bool] | None = None
        self._stopped = False
        self._lock = threading.Lock()  # asking and stopping must not pass each other unseen

    def __iter__(self) -> Iterator[object]:
        iterator = aiter(self._parts)
        given: list[object] = []

        async def following() -> bool:
            """Whether there may be more."""
            size = 0
            while len(given) < _PARTS_AT_ONCE and size < _BYTES_AT_ONCE:
                try:
                    part = await anext(iterator)
                except StopAsyncIteration:
                    return False
                given.append(part)
                size += len(cast("str", part)) if isinstance(part, (str, *_BYTES)) else 0
            return True

        goes_on = True
        while goes_on:
            with self._lock:
                if self._stopped:
                    raise Cancelled
                asked = asyncio.run_coroutine_threadsafe(following(), self._loop)
                self._asked = asked
            try:
                goes_on = asked.result()
            except (concurrent.futures.CancelledError, asyncio.CancelledError) as problem:
                yield from given
                raise Cancelled from problem
            except BaseException:
                yield from given
                raise
            yield from given
            given.clear()

    def stop(self) -> None:
        """From the loop: the part that is waited for does not come any more."""
        with self._lock:
            self._stopped = True
            if self._asked is not None:
                self._asked.cancel()


CHUNK = 1024 * 1024
# Known without importing their modules: nobody has such a value who has not.
_AS_TEXT = {
    ("builtins", "complex"), ("datetime", "date"), ("datetime", "time"), ("datetime", "timedelta"),
    ("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID"), ("pathlib", "PurePath"),
    ("pathlib._local", "PurePath"),  # in Python 3.13
    ("ipaddress", "_IPAddressBase"), ("collections", "UserString"), ("types", "GenericAlias"),
}  # fmt: skip


class Source:
    """An iterator over the bytes of one output; afterwards `notes` tells what had to be changed to get them."""

    def __init__(
        self,
        value: object,
        lone: Surrogates | None = None,
        objects: "Objects | None" = None,
        borders: "Borders | None" = None,
    ) -> None:
        """`lone`, `objects` and `borders` are those of an output that comes in several sources."""
        self._lone = lone or Surrogates()
        self._objects = objects or Objects()
        self._borders = borders or Borders()
        self._nothing = value is None
        self._parts = self._open(value)

    def __iter__(self) -> Iterator[bytes]:
        return joined(self._parts)

    @property
    def notes(self) -> tuple[str, ...]:
        found: list[str] = []
        if self._nothing:
            found.append("the tool returned nothing (None)")
        return (*found, *surrogate_notes(self._lone), *self._objects.notes)

    def surrogates(self) -> str:
        """Which ones were replaced, and where, for the facts. Asked once, when all parts were taken."""
        return self._lone.packed()

    def _open(self, value: object) -> Iterator[bytes]:
        if value is None:
            return iter(())
        if isinstance(value, str):
            return self._text(str.__str__(value))
        if isinstance(value, _BYTES):
            view = memoryview(cast("bytes", value))
            return _slices(view.cast("B") if view.nbytes and view.c_contiguous else memoryview(view.tobytes()))
        if is_file(value):
            return self._file(value)
        if isinstance(value, Iterator):
            return self._iterated(cast("Iterator[object]", value))
        if (png := png_of(value)) is not None:
            return _slices(memoryview(png))
        return self._text("".join(json_text(value, self._objects)))

    def _text(self, text: str) -> Iterator[bytes]:
        for start in range(0, len(text), CHUNK):
            yield self._encoded(text[start : start + CHUNK])

    def _encoded(self, text: str) -> bytes:
        return self._lone.encode(text)

    def _file(self, file: Any) -> Iterator[bytes]:
        _widen(file)
        while part := cast("object", file.read(CHUNK)):
            if not isinstance(part, (str, *_BYTES)):
                given = f"{with_article(_type(file))} gave {with_article(_type(part))}"
                raise UsageError(f"read() of {given}, not text or bytes.")
            yield self._part(cast("object", part))
        if part is None:  # not the end: what is still to come must not count as not there
            whose = with_article(_type(file))
            raise UsageError(f"read() of {whose} gave nothing yet; a file to be kept must be a blocking one.")

    def _iterated(self, parts: Iterator[object]) -> Iterator[bytes]:
        for part in parts:
            yield self._lone.passed(self._borders.before(part))
            yield self._part(part)

    def _part(self, part: object) -> bytes:
        if isinstance(part, str):
            return self._encoded(str.__str__(part))
        if isinstance(part, _BYTES):
            return self._lone.passed(bytes(cast("bytes", part)))
        try:
            text = "".join(json_text(part, self._objects, "an item"))
        except UsageError as problem:  # one that JSON cannot hold takes nothing from the others
            text = json.dumps(self._objects.as_told(part, problem), ensure_ascii=False)
        return self._encoded(text)


class Borders:
    """What is between the parts of a stream: nothing between texts and bytes; a value begins and ends a line."""

    def __init__(self) -> None:
        self._is_open = False  # there is a line that has not ended
        self._after_value = False

    def before(self, part: object) -> bytes:
        is_value, begins, ends = False, False, False
        if isinstance(part, str):
            begins, ends = part.startswith(("\n", "\r\n")), part.endswith("\n")
        elif isinstance(part, _BYTES):
            data = bytes(cast("bytes", part))
            begins, ends = data.startswith((b"\n", b"\r\n")), data.endswith(b"\n")
        else:
            is_value = True
        if not is_value and not part:
            return b""
        is_needed = self._is_open and (is_value or self._after_value) and not begins
        self._is_open, self._after_value = not ends, is_value
        return b"\n" if is_needed else b""


def surrogate_notes(lone: Surrogates) -> tuple[str, ...]:
    were = "was" if lone.count == 1 else "were"
    return (f"{plural(lone.count, 'lone surrogate')} {were} {REPLACED}",) if lone.count else ()


class _Parts:
    """Parts of an output that JSON has no form for, with what became of them: the first of them, each with its type."""

    def __init__(self, fate: str) -> None:
        self._fate = fate
        self._types: dict[tuple[str, str], str] = {}  # by whose part it is and what it is called
        self._count = 0
        self._met: list[object] = []  # in the value that is being written: where they are in it is found later

    def meet(self, one: object) -> None:
        self._met.append(one)

    def forget_met(self) -> None:
        self._met.clear()

    def add(self, of: str, name: str, one: object) -> None:
        if (of, name) not in self._types:
            self._count += 1
            self._types[of, name] = _type(one)

    def find_places(self, value: object, root: str) -> None:
        if not self._met:
            return
        self._count += len(self._met)
        places = itertools.islice(_places({id(one) for one in self._met}, value), _NAMED)
        for place, one in list(places) or [("a value", self._met[0])]:
            self._types.setdefault((_OUTPUT, place or root), _type(one))
        self._met.clear()

    @property
    def notes(self) -> tuple[str, ...]:
        if not self._types:
            return ()
        holders = {of for of, _ in self._types}
        of = holders.pop() if len(holders) == 1 else _OUTPUT
        named = [f"{foreign(name, 25)} ({foreign(kind, 25)})" for (_, name), kind in self._types.items()][:_NAMED]
        more = f" and {self._count - len(named):,} more" if self._count > len(named) else ""
        return (f"{plural(self._count, 'part')} of {of}{self._fate}{', '.join(named)}{more}",)


def _widen(file: Any) -> None:
    """Enlarge a pipe from 64 KiB to a megabyte: fewer switches between its writer and us."""
    # Not a pipe, not on Linux, or not allowed: it works without.
    with contextlib.suppress(AttributeError, OSError, TypeError, ValueError):
        descriptor = file.fileno()
        if fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) < CHUNK:
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, CHUNK)


def joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of about CHUNK: many small parts cost as little as few large ones.

    Where `parts` raises, what came before is given out first.
    """
    waiting: list[bytes] = []
    size = 0
    source = iter(parts)
    while True:
        try:
            part = next(source, None)
        except BaseException:
            if waiting:
                yield b"".join(waiting)
            raise
        if part is None:
            break
        if part:
            waiting.append(part)
            size += len(part)
        if size >= CHUNK:
            yield waiting[0] if len(waiting) == 1 else b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


def _slices(view: memoryview) -> Iterator[bytes]:
    for start in range(0, len(view), CHUNK):
        yield bytes(view[start : start + CHUNK])


def json_text(value: object, objects: "Objects | None" = None, root: str = "all of it") -> Iterator[str]:
    """JSON in pieces; `root` is what the value is of the output.

    Deep nesting is no matter: where the library's encoder gives up, ours walks with a stack.
    """
    objects = objects or Objects()
    try:
        if is_row(value) and (text := _row_text(value)):
            yield text
            return
        check_repeats(value)
        encode = json.JSONEncoder(ensure_ascii=False, default=objects.plain).encode
        try:
            yield from [*_encoded(value if _is_json(value) else objects.plain(value), encode)]
        except (RecursionError, TypeError):
            # A TypeError is a mapping whose keys are not text: ours writes them as text.
            objects.start_again()
            yield from _walk(value, objects)
    except ValueError as problem:  # it holds itself, or a number that Python does not write
        raise UsageError(f"{with_article(_type(value))} cannot be kept as JSON: {problem}.") from problem
    objects.find_places(value, root)


_encode_row = json.JSONEncoder(ensure_ascii=False).encode
_PLAIN = frozenset((str, int, float, bool, type(None)))
_PLAIN_OR_NESTED = _PLAIN | {dict, list, tuple}
_WIDEST_ROW, _WIDEST_CELL = 1000, 20


def is_row(value: object, widest: int = _WIDEST_ROW) -> bool:
    """Whether it is small and of plain parts, as most of a stream are: to know what else it could be takes several
    times as long as to write it.
    """
    kind = type(value)
    if kind is not dict and kind is not list and kind is not tuple:
        return False
    nested = cast("_Nested", value)
    if len(nested) > widest:
        return False
    parts = nested.values() if isinstance(nested, dict) else nested
    if _PLAIN.issuperset(kinds := set(map(type, parts))):
        return True
    is_deeper = widest != _WIDEST_ROW or not _PLAIN_OR_NESTED.issuperset(kinds)
    return not is_deeper and all(type(part) in _PLAIN or is_row(part, _WIDEST_CELL) for part in parts)


def _row_text(row: object) -> str:
    try:
        return _encode_row(row)
    except TypeError:  # a mapping whose keys are not text
        return ""


def _encoded(value: object, encode: Callable[[object], str], depth: int = 0) -> Iterator[str]:
    """In pieces where it holds much: until the library's encoder is done, no other thread runs. What is large stands
    near the top: to look for it in the depth takes longer than to write it.
    """
    if depth > _DEEPEST_PIECE or not holds_much(value):
        yield encode(value)
    elif isinstance(value, dict):
        items = list(cast("dict[object, object]", value).items())
        yield from ("{", *_slices_encoded(items, dict, encode, depth), "}")
    else:
        yield from ("[", *_slices_encoded([*cast("Sequence[object]", value)], list, encode, depth), "]")


def _slices_encoded(
    parts: Sequence[Any], as_one: Callable[[Sequence[Any]], object], encode: Callable[[object], str], depth: int
) -> Iterator[str]:
    step = -(-len(parts) // 10)
    for at in range(0, len(parts), step):
        part = parts[at : at + step]
        yield ", " if at else ""
        if not holds_much(whole := as_one(part)):
            yield encode(whole)[1:-1]
        elif len(part) > 1:
            yield from _slices_encoded(part, as_one, encode, depth)
        elif isinstance(whole, dict):
            yield encode({part[0][0]: 0})[1:-2]
            yield from _encoded(part[0][1], encode, depth + 1)
        else:
            yield from _encoded(part[0], encode, depth + 1)


MUCH = 20_000  # values
CHANGED = "changed size during iteration"  # as Python says it of what is changed meanwhile
_DEEPEST_PIECE, _DEEPEST_LOOK = 8, 64


def holds_much(value: object, most: int = MUCH) -> bool:
    """Whether it holds so many values that writing it takes milliseconds. Looks no further than it must to know."""
    level, found = _nested((value,)), 0
    for _ in range(_DEEPEST_LOOK):
        if not level:
            return False
        found += sum(map(len, level))
        if found > most:
            return True
        chained = itertools.chain.from_iterable
        level = _nested([*chained([one.values() if isinstance(one, dict) else one for one in level])])
    return False


# A value may hold the same part in many places, as aliases of YAML do: a few hundred bytes of them come to more JSON
# than any machine holds, and nothing stops the library's encoder on its way.

_MOST_REPEATED = 1_000_000  # values that are written of one that repeats its parts …
_TIMES = 10  # … so many times over


def check_repeats(value: object, most: float = math.inf) -> bool:
    """Raises EndlessValue, or ValueError if a part holds itself. False where it holds more than `most` values, as soon
    as that is known.

    Level by level, without a loop of ours over the parts: that takes a part of the time that writing them does.
    """
    level = _nested_in(cast("_Nested", value)) if isinstance(value, _NESTED) else []
    seen, found = {id(cast("object", value))}, 0
    while level:
        found += sum(map(len, level))
        if found > most:
            return False
        # What is in one place only is held once, and cannot come again: that is true of nearly all.
        # Counted before they are chosen from: choosing holds each once more.
        counts = list(map(sys.getrefcount, level))
        held_often = list(itertools.compress(level, map(_HELD_ONCE.__lt__, counts)))
        known = len(seen)
        seen.update(map(id, held_often))
        if len(seen) < known + len(held_often):
            break
        kinds = set(map(type, level))
        tables = cast("list[dict[object, object]]", _of(level, {kind for kind in kinds if issubclass(kind, dict)}))
        lists = _of(level, {kind for kind in kinds if not issubclass(kind, dict)})
        chained = itertools.chain.from_iterable
        level = _nested([*chained(map(dict[object, object].values, tables)), *chained(lists)])
    else:
        return True
    held, written = _sizes(cast("_Nested", value))
    if written > max(_MOST_REPEATED, _TIMES * held):
        raise EndlessValue(type(cast("object", value)).__name__, held, written)
    return True


def read_once(value: object) -> object:
    """The same, with a list in place of each iterator inside of it: that can be read only once, and we look twice.

    In its place where that can be changed: whoever has the value as well would find the iterator empty.
    """
    return _listed(value, set()) if _holds_iterators(value) else value


def _holds_iterators(value: object) -> bool:
    """Level by level, as above."""
    level = [value]
    for _ in range(_DEEPEST_ITERATOR):
        kinds = set(map(type, level))
        if any(issubclass(kind, Iterator) for kind in kinds):
            return True
        chained = itertools.chain.from_iterable
        tables = cast("list[dict[object, object]]", _of(level, {kind for kind in kinds if issubclass(kind, dict)}))
        lists = cast("list[Sequence[object]]", _of(level, {kind for kind in kinds if issubclass(kind, list | tuple)}))
        data = _of(level, {kind for kind in kinds if _is_data(kind)})
        held: list[object] = [*chained(map(dict[object, object].values, tables)), *chained(lists)]
        held += chained(_fields(one).values() for one in data)
        held = _of(held, {kind for kind in set(map(type, held)) if not issubclass(kind, _SCALARS)})
        level = list(dict(zip(map(id, held), held, strict=True)).values())
        if not level:
            break
    return False


def _of(parts: Collection[_T], kinds: set[type]) -> list[_T]:
    """Those whose type is one of these few, without a loop of ours over the many."""
    return list(itertools.compress(parts, map(kinds.__contains__, map(type, parts)))) if kinds else []


def _listed(value: object, above: set[int]) -> object:
    if isinstance(value, _SCALARS) or id(value) in above or len(above) >= _DEEPEST_ITERATOR:
        return value
    above = above | {id(value)}
    if isinstance(value, Iterator):
        items: list[object] = []
        try:
            items.extend(_listed(one, above) for one in cast("Iterator[object]", value))
        except Exception as problem:  # the tool's own; what came before it is there
            items.append(f"{type(problem).__name__}: {problem}")
        return items
    if isinstance(value, tuple):
        old = cast("tuple[object, ...]", value)
        new = tuple(_listed(one, above) for one in old)
        if all(one is other for one, other in zip(new, old, strict=True)):
            return old
        make: Any = getattr(old, "_make", tuple)
        return make(new)
    if isinstance(value, dict | list):
        table: Any = cast("Any", value)
        places: Any = table.items() if hasattr(table, "items") else enumerate(table)
        for key, one in list(places):
            if (changed := _listed(one, above)) is not one:
                table[key] = changed
        return table
    for name, one in list(_fields(value).items()) if _is_data(type(value)) else ():
        if (changed := _listed(one, above)) is not one:
            with contextlib.suppress(Exception):  # it may refuse whatever it likes
                object.__setattr__(value, name, changed)
    return value


def _fields(value: object) -> dict[str, object]:
    return vars(value)


def _is_data(kind: type) -> bool:
    """Others may be a client or a cursor, whose parts are not ours to read."""
    is_data = dataclasses.is_dataclass(cast("object", kind)) or hasattr(kind, "model_fields")
    return is_data and "__slots__" not in vars(kind)


_DEEPEST_ITERATOR = 100
_SCALARS = (str, bytes, int, float, type(None))


def _sizes(value: "_Nested") -> tuple[int, int]:
    """How many values it holds, and how many JSON would have of it."""
    held, sizes = 0, dict[int, int | None]()  # None while it is open
    stack: list[tuple[_Nested, bool]] = [(value, False)]
    while stack:
        one, is_done = stack.pop()
        if is_done:
            sizes[id(one)] = len(one) + sum(sizes[id(part)] or 0 for part in _nested_in(one))
        elif id(one) not in sizes:
            held, sizes[id(one)] = held + len(one), None
            stack.append((one, True))
            for part in _nested_in(one):
                if sizes.get(id(part), 0) is None:
                    raise ValueError("Circular reference detected")
                stack.append((part, False))
    return held, sizes[id(value)] or 0


_NESTED = (dict, list, tuple)
_Nested = dict[object, object] | list[object] | tuple[object, ...]


def _nested_in(value: _Nested) -> list[_Nested]:
    return _nested(value.values() if isinstance(value, dict) else value)


def _nested(parts: Collection[object]) -> list[_Nested]:
    found = _of(parts, {kind for kind in set(map(type, parts)) if issubclass(kind, _NESTED)})
    return cast("list[_Nested]", list(filter(None, found)))


_PROBE: list[object] = [[0]]
_HELD_ONCE = max(
    map(sys.getrefcount, _nested_in(_PROBE))
)  # references to a part that is in one place, counted as above


class Objects:
    """One step from a Python value towards JSON; `notes` tells which objects nothing could be read of, and of which no
    more than they say of themselves.

    An object in an attribute of another is not looked into unless its class says that it is data: it may be a client, a
    session or a request that has the user's keys.
    """

    def __init__(self) -> None:
        self._unread, self._as_told = _Parts(UNREAD), _Parts(AS_TOLD)

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self._unread.notes, *self._as_told.notes)

    def plain(self, value: object) -> object:
        found = _data_of(value)
        found = self._read(value, ()) if found is _FOREIGN else found
        check_repeats(found)
        return found

    def as_told(self, value: object, problem: UsageError) -> str:
        """What Python says of a value that JSON cannot hold; where that says nothing either, what prevents it."""
        self.start_again()
        try:
            said = str(problem) if isinstance(problem, EndlessValue) else repr(value)
        except Exception:
            said = str(problem)
        self._as_told.add(_OUTPUT, "an item", value)
        return said

    def start_again(self) -> None:
        """With the same value."""
        self._unread.forget_met()
        self._as_told.forget_met()

    def find_places(self, value: object, root: str) -> None:
        """Name those parts of `value` that nothing could be read of by their paths, once it is written."""
        self._unread.find_places(value, root)
        self._as_told.find_places(value, root)

    def _read(self, value: Any, above: tuple[object, ...], name: str = "") -> object:
        """What can be read of an object whose class says nothing: its attributes and its text, or its items."""
        attributes = _attributes(value)
        text = _text_of(value, attributes)
        told = {name: self._member(one, name, (*above, value)) for name, one in attributes.items()} | text
        if _is_iterable(value) and not text and not any(map(_is_container, attributes.values())):
            items: list[object] = [*value]
            return {**told, "items": items} if told else items
        if not told:
            return self._said(value, name, above)
        if not text:
            self._leave_out(_private(value), value)
        return {"str": _str(value), **told} if type(value).__str__ is not object.__str__ and not text else told

    def _member(self, value: object, name: str, above: tuple[object, ...], depth: int = 0) -> object:
        if depth < _DEEPEST and isinstance(value, list | tuple):
            return [self._member(one, name, above, depth + 1) for one in cast("list[object]", value)]
        if depth < _DEEPEST and isinstance(value, dict):
            table = cast("dict[object, object]", value)
            return {key: self._member(one, name, above, depth + 1) for key, one in table.items()}
        if _is_container(value) or _is_json(value):
            return value
        if any(value is one for one in above):
            return _str(value)  # it is told already
        found = _data_of(value)
        if found is not _FOREIGN:
            return found
        if depth and len(above) < _DEEPEST:
            return self._read(value, above, name)
        return self._said(value, name, above)

    def _said(self, value: object, name: str, above: tuple[object, ...]) -> str:
        said = _str(value)
        parts = self._unread if said.startswith("<") else self._as_told  # as Python writes what it has no words for
        if above:
            parts.add(with_article(_type(above[-1])), name, value)
        else:
            parts.meet(value)
        return said

    def _leave_out(self, parts: Mapping[str, object], holder: object) -> None:
        for name, value in parts.items():
            self._unread.add(with_article(_type(holder)), name, value)


def _places(wanted: AbstractSet[int], value: object) -> Iterator[tuple[str, object]]:
    """Where these objects are in a value, in the order in which they were written: `rows[3].file`.

    Only as far as it is quickly found: what a class makes of itself is not made again.
    """
    stack: list[Iterator[tuple[str, object]]] = [iter([("", value)])]
    for _ in range(_MOST_LOOKED_AT):
        path, one = next(stack[-1], (None, None))
        if path is None:
            stack.pop()
            if not stack:
                return
        elif id(one) in wanted:
            yield path, one
        else:
            stack.append(_inside(path[:80], one))  # no more of it is shown, and it may be deep


def _inside(path: str, value: object) -> Iterator[tuple[str, object]]:
    """The members of a value, each with its path."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        for key, member in cast("Mapping[object, object]", value).items():
            yield f"{path}.{_key(key)}" if path else _key(key), member
    elif isinstance(value, list | tuple):
        for at, member in enumerate(cast("Sequence[object]", value)):
            yield f"{path}[{at}]", member


_FOREIGN = object()
_OUTPUT = "the output"
_NAMED = 3  # parts that a note names
_MOST_LOOKED_AT = 20_000  # values
_DEEPEST = 4  # objects in lists of objects
_DATA_METHODS = ("to_pylist", "to_dicts", "tolist", "_asdict", "to_dict")  # of pyarrow, polars, numpy, pandas
_TEXTS = ("text", "content", "body", "data")
_WORDS = 40  # characters


def shows_png(value: object) -> bool:
    """Whether it is an image of a library, as Pillow's, that a notebook would show."""
    return callable(getattr(type(value), "_repr_png_", None))


def png_of(value: object) -> bytes | None:
    """The image as a file; None for all else, and for one that PNG cannot hold."""
    if not shows_png(value):
        return None
    with contextlib.suppress(Exception):  # a method of that name may be anything
        shown = cast("Any", value)._repr_png_()
        return shown if isinstance(shown, bytes) else None
    return None


def _bytes_of(value: object) -> bytes | None:
    return bytes(cast("bytes", value)) if isinstance(value, _BYTES) else png_of(value)


def _items(value: Sequence[object]) -> object:
    """As a list; not of what is like a text, whose one item is such a text again, without an end."""
    items = list(value)
    return _str(value) if len(items) == 1 and type(items[0]) is type(value) and items[0] == value else items


def _data_of(value: object) -> object:
    """The value as data, where its class says what that is."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, AbstractSet):
        return sorted(cast("AbstractSet[object]", value), key=repr)
    if (data := _bytes_of(value)) is not None:
        return base64.b64encode(data).decode("ascii")
    if type(value).__name__ in _MISSING and _is_of_pandas(value):
        return None
    if any((one.__module__, one.__qualname__) in _AS_TEXT for one in type(value).__mro__):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return dict(cast("Mapping[object, object]", value))
    foreign: Any = value
    if (type(value).__module__, type(value).__name__) == ("sqlite3", "Row"):
        return dict(zip(_distinct(foreign.keys()), foreign, strict=True))
    if callable(getattr(type(value), "model_dump", None)):
        return _of_model(foreign)
    with contextlib.suppress(Exception):
        if callable(getattr(type(value), "reset_index", None)):  # of pandas
            return _rows(foreign)
    for name in _DATA_METHODS:
        with contextlib.suppress(Exception):  # a method of that name may be anything
            if callable(getattr(type(value), name, None)) and _is_json(found := getattr(foreign, name)()):
                return _present(cast("object", found)) if _is_of_pandas(value) else found
    return _items(cast("Sequence[object]", value)) if isinstance(value, Sequence) else _FOREIGN


def _of_model(model: Any) -> object:
    """What a model of pydantic says of itself. It says nothing where one field has no JSON: then all that it holds,
    without what it would leave out.
    """
    try:
        return model.model_dump(mode="json")
    except Exception:
        declared: Mapping[str, Any] = getattr(cast("object", type(model)), "model_fields", {})
        more: dict[str, object] = getattr(model, "__pydantic_extra__", None) or {}
        held: dict[str, object] = {**vars(model), **more}
        return {name: one for name, one in held.items() if not getattr(declared.get(name), "exclude", None)}


def _rows(frame: Any) -> object:
    """One object a row, so that it can be queried, with its label where that is more than its place. Of two columns of
    one name, the second is `NAME.1`: as objects they would be one. NaN is how pandas writes what is missing.
    """
    labels = frame.index
    counts = type(labels).__name__ == "RangeIndex" and labels.name is None and (labels.start, labels.step) == (0, 1)
    if not counts:
        frame = frame.reset_index(allow_duplicates=True)
    if not frame.columns.is_unique:
        frame = frame.set_axis(_distinct(frame.columns), axis=1)
    rows: list[dict[object, object]] = frame.to_dict(orient="records")
    return [{name: _unless_missing(one) for name, one in row.items()} for row in rows]


def _distinct(columns: Iterable[object]) -> list[object]:
    names: dict[object, None] = {}
    for name in columns:
        others = (f"{name}.{n}" for n in itertools.count(1))
        names[name if name not in names else next(one for one in others if one not in names)] = None
    return list(names)


_MISSING = ("NaTType", "NAType")


def _present(values: object) -> object:
    """Those of a column or an index."""
    return list(map(_unless_missing, cast("list[object]", values))) if isinstance(values, list) else values


def _unless_missing(value: object) -> object:
    return None if isinstance(value, float) and math.isnan(value) else value


def _is_of_pandas(value: object) -> bool:
    return any(one.__module__.partition(".")[0] == "pandas" for one in type(value).__mro__)


def _is_json(value: object) -> bool:
    return value is None or isinstance(value, str | bool | int | float | list | tuple | dict)


_OF_FILES = ("readline", "readinto", "readable", "seek")
_SIZES = frozenset(
    ("n", "size", "sz", "amt", "amount", "num", "count", "length", "len", "limit", "hint", "bytes", "nbytes", "n_bytes",
     "num_bytes", "max_bytes", "maxbytes", "chunk_size", "chunksize", "max_length", "maxlen", "bufsize", "buffer_size")
)  # fmt: skip


def is_file(value: object) -> bool:
    """Whether it can be read from, a part of some size at a time. Of what only has a `read` (that of a response has no
    size, that of an archive wants a name) the parameters tell. A value that makes up its attributes may fail in any way
    where it has none.
    """
    try:
        read: Any = getattr(value, "read", None)
        if not callable(read) or any(callable(getattr(value, name, None)) for name in _OF_FILES):
            return callable(read)
        from inspect import Parameter, signature  # noqa: PLC0415 - it takes long to import, and files seldom get here

        first = next(iter(signature(read).parameters.values()), None)
        if first is None or first.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD):
            return False
        has_default = first.default is not Parameter.empty or first.kind is Parameter.VAR_POSITIONAL
        return has_default or first.name.strip("_").lower() in _SIZES
    except Exception:
        return False


def _is_iterable(value: object) -> bool:
    return isinstance(value, Iterable)


def _is_container(value: object) -> bool:
    return isinstance(value, list | tuple | dict | AbstractSet | Mapping)


def _attributes(value: object) -> dict[str, object]:
    """What an object holds under public names. Classes, functions and modules hold code."""
    if callable(value) or isinstance(value, types.ModuleType):
        return {}
    return {name: one for name, one in _held(value).items() if not name.startswith("_") and not callable(one)}


def _private(value: object) -> dict[str, object]:
    """What it holds under other names and may be what it is about: all but numbers, a few words, and what is empty."""
    return {
        name: one
        for name, one in _held(value).items()
        if name.startswith("_") and not callable(one) and not isinstance(one, int | float | None)
        if not isinstance(one, str | bytes) or len(one) > _WORDS
        if not _is_container(one) or one
    }


def _held(value: object) -> dict[str, object]:
    slots = [cast("object", one.__dict__.get("__slots__", ())) for one in type(value).__mro__]
    names = [name for some in slots for name in ((some,) if isinstance(some, str) else cast("Iterable[str]", some))]
    found: dict[str, object] = {}
    for name in names:
        with contextlib.suppress(Exception):  # it is not set; or whatever a foreign object does then
            found[name] = getattr(value, name)
    with contextlib.suppress(Exception):  # it has no dictionary, or does not show it
        found |= vars(value)
    return found


def _text_of(value: object, attributes: Mapping[str, object]) -> dict[str, object]:
    """The text or payload that a property gives, where no attribute does, under its name."""
    for name in _TEXTS:
        with contextlib.suppress(Exception):  # it may not be read yet, for instance
            if isinstance(getattr(type(value), name, None), property):
                found = getattr(value, name)
                if found and isinstance(found, (str, *_BYTES)):
                    return {name: found}
        if attributes.get(name) and isinstance(attributes[name], (str, *_BYTES)):
            return {name: attributes[name]}
    return {}


def _str(value: object) -> str:
    try:
        return str(value)
    except Exception:
        return object.__repr__(value)  # an object that cannot say what it is


def storable(arguments: object) -> Any:
    """Arguments as a record holds them: plain JSON, or the text of what JSON cannot say. Nothing is refused here.

    Records are read often and all of a session at once, so of much there is only the beginning, as text.
    """
    if arguments is None:
        return None
    with contextlib.suppress(RecursionError, TypeError, ValueError, UsageError):
        check_repeats(arguments)
        written = json.dumps(arguments, default=Objects().plain)
        if len(written) <= _MOST_ARGUMENTS and not _is_much(plainly := json.loads(written, object_pairs_hook=_unique)):
            return plainly
    try:
        return _beginning("".join(json_text(arguments)))
    except (ValueError, UsageError) as problem:
        return f"(not kept: {problem})"


def _unique(members: list[tuple[str, object]]) -> dict[str, object]:
    """Raises ValueError where keys that differ in Python have come to one name: the text of it has them all."""
    if len(found := dict(members)) < len(members):
        raise ValueError("a name that comes twice")
    return found


def _beginning(text: str) -> str:
    if len(text) <= _MOST_ARGUMENTS:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:_MOST_ARGUMENTS]}… (the beginning of {len(text):,} characters, SHA-256 {digest})"


def _is_much(value: object) -> bool:
    """Many values, or too deep to be read back by any caller: how far JSON is read depends on the stack of who reads
    it."""
    level: list[object] = [value]
    values = 0
    for _ in range(100):
        level = [inner for one in level for inner in _members(one)]
        values += len(level)
        if not level or values > _MOST_VALUES:
            return bool(level)
    return True


def _members(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _type(value: object) -> str:
    return type(value).__name__


def _walk(value: object, objects: Objects) -> Iterator[str]:
    stack: list[tuple[int, Iterator[str | tuple[object]]]] = [(id(value), _steps(value, objects))]
    open_ones = {id(value)}
    while stack:
        own, steps = stack[-1]
        step = next(steps, None)
        if step is None:
            stack.pop()
            open_ones.discard(own)
        elif isinstance(step, str):
            yield step
        elif id(step[0]) in open_ones:
            raise ValueError("Circular reference detected")
        else:
            stack.append((id(step[0]), _steps(step[0], objects)))
            open_ones.add(id(step[0]))


def _key(key: object) -> str:
    """As the library's encoder writes it, where it does; else the text of what it is."""
    if isinstance(key, str):
        return key
    return json.dumps(key) if key is None or isinstance(key, bool | int | float) else str(key)


def _steps(value: object, objects: Objects) -> Iterator[str | tuple[object]]:
    """The pieces of one value: text to write, or a 1-tuple holding a value to descend into."""
    if value is None or isinstance(value, bool | int | float | str):
        yield json.dumps(value, ensure_ascii=False)
    elif isinstance(value, dict):
        before = "{"
        for key, member in cast("dict[object, object]", value).items():
            yield f"{before}{json.dumps(_key(key), ensure_ascii=False)}: "
            yield (member,)
            before = ", "
        yield "}" if before != "{" else "{}"
    elif isinstance(value, list | tuple):
        before = "["
        for member in cast("list[object]", value):
            yield before
            yield (member,)
            before = ", "
        yield "]" if before != "[" else "[]"
    else:
        yield (objects.plain(value),)
