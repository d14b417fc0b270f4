"""Messages of MCP as bytes, both ways. What is large in a message is taken out by its bytes before the rest is read as
JSON, so that it never becomes objects on its way to the store.
"""

import asyncio
import codecs
import functools
import io
import json
import logging
import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from decimal import Decimal
from itertools import islice
from typing import Any, cast

from holdall.mcp.client.protocol import INTERNAL_ERROR
from holdall.text.json.equal import is_one_text, readable
from holdall.text.json.find import Hit, Scan, SeveralValues
from holdall.text.json.path import JsonPath, parse_path
from holdall.text.json.reader import JsonFault
from holdall.values.outputs import LargeJson, LargeText, RawResult
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# What is large in a message, taken out of it by its bytes before the rest is read as JSON: texts, structured content.
#
# A text of 30 MB with one emoji in it takes 120 MB as a `str`, and the line that it came in as much again; as much JSON
# takes five times its size as objects. Taken out it is never more than its own bytes. What is odd in any way, half of a
# surrogate pair for instance, is left to `json`. A text that comes twice, as structured content repeats it, is held
# once.


LARGE = 1024 * 1024
"""Bytes of a string from which on it is taken out."""
MUCH_STRUCTURE = 32 * 1024
"""Bytes of structured content from which on it is: so much is stored rather than shown, and that as it came."""

DEEPEST = 100
"""Levels of what a server says of itself: its tools, prompts and resources. More can only be meant to harm."""

_PIECE = 256 * 1024  # of which a few copies are made on the way, at four bytes a character

# `json` reads a message in one go and lets nobody else run meanwhile. Of one that is longer than this, shorter strings
# are taken out, too; where most of it is shorter still, it stays the JSON that it is.
AT_ONCE, _SHORTER = 32 * 1024 * 1024, 16 * 1024
_MAX_STRINGS = 1000  # that are looked at for their size: behind them it is data, not an envelope
_PAIR = 12  # bytes of two escapes that are one character
_RUN = 64  # backslashes before a quote that are looked for first
_MARK = "holdall: large text "
_MARKS = lazy_pattern(_MARK + "[0-9]+")
_HIGH = (b"\\ud8", b"\\ud9", b"\\uda", b"\\udb")  # how the first half of a pair begins
_READ = json.JSONDecoder().raw_decode
_STRUCTURED = "structuredContent"
_NAME = f'"{_STRUCTURED}"'.encode()

# A server may answer with millions of tiny values. As objects they take fifty times their bytes, and whoever walks
# through them holds up everybody else, so such a result stays the JSON that it is.
MANY_VALUES = 250_000
TOO_MANY = f"more than {MANY_VALUES:,} values"
_INSIDE = lazy_pattern(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)  # of a string


class _Odd(ValueError):
    """Raised for messages that this module leaves to `json`."""


class _TooMany(ValueError):
    """Raised for messages of very many values that are no result. `number` is the id of a reply, or -1."""

    def __init__(self, number: int) -> None:
        super().__init__(TOO_MANY)
        self.number = number


class WholeResult(dict[str, Any]):
    """A result of very many values, as one text: the JSON of all of it. `isError` is what that says."""


def taken_out(line: bytearray, *, much: int = MUCH_STRUCTURE) -> object | None:
    """The message with what is large in it by its bytes; None if nothing is, and the line is as it was.

    Raises ValueError and RecursionError as `json` does, where what is around it is not a message.
    """
    found = _structure(line)
    if len(line) >= LARGE and has_many_values(line, *(found or (0, 0))):
        return _whole_result(line)
    # Beside a text that is stored, structured content of any size is stored, too.
    structure = without_structure(line, large=1 if len(line) >= LARGE else much, found=found)
    value = parse(line) if len(line) >= LARGE else None
    if value is None and len(line) > AT_ONCE:
        value = parse(line, large=_SHORTER, most=AT_ONCE)
        if value is None:
            if found is not None and structure is not None:
                line[found[0] : found[0] + len(b"null")] = structure.data
            return _whole_result(line)
    if structure is None:
        return value
    if value is None:
        text = line.decode("utf-8", "surrogateescape")
        line.clear()
        value = _DECODER.decode(text)
    result = cast("dict[str, Any]", value).get("result") if isinstance(value, dict) else None
    if not isinstance(result, dict):
        raise ValueError("a message with two results")
    cast("dict[str, Any]", result)[_STRUCTURED] = structure
    return cast("object", value)


@functools.cache
def _place(path: str) -> JsonPath:
    """Read when it is first needed: that takes longer than to import all of this."""
    return parse_path(path)


def _found(line: bytearray, path: str) -> tuple[int, int] | None:
    """Where the only value stands that the path names."""
    scan = Scan(lambda start, end: bytes(line[start:end]), len(line), _place(path))
    try:
        hits: list[Hit] = list(islice(scan.hits(), 2))  # a second one is enough, and there may be very many
    except (JsonFault, SeveralValues):
        return None
    return (hits[0].start, hits[0].end) if len(hits) == 1 else None


def _structure(line: bytearray) -> tuple[int, int] | None:
    return _found(line, f"$.result.{_STRUCTURED}") if _NAME in line else None


def without_structure(
    line: bytearray, *, large: int = MUCH_STRUCTURE, found: tuple[int, int] | None = None
) -> LargeJson | None:
    """The structured content of the result in this line, where it is large; null stands in its place then.

    `found` is where it stands, if that is known.
    """
    place = found or _structure(line)
    if place is None or place[1] - place[0] < large:
        return None
    start, end = place
    # An object around a text is left: a text that it repeats is then held once, and no text is stored as JSON.
    if line[start] not in b"{[" or is_one_text(line, start, end):
        return None
    data = bytes(memoryview(line)[start:end])
    line[start:end] = b"null"
    return LargeJson(_readable(data))


def _readable(data: bytes) -> bytes:
    out = io.BytesIO()
    out.writelines(readable(data))
    return out.getvalue()


def has_many_values(line: bytearray, start: int = 0, end: int = 0) -> bool:
    """Whether there are, not counting what is between these places."""
    return values_in(line, start, end) > MANY_VALUES


def values_in(line: bytearray, start: int = 0, end: int = 0) -> int:
    """How many, not counting what is between these places: no fewer than there are, and no further than to very many.

    Signs inside strings are no values; only where they are very many are the strings told apart. Piece by piece: no
    other thread runs while one is looked through.
    """
    spans = (0, start), (end, len(line))
    if (found := sum(_signs(line, *span) for span in spans)) <= MANY_VALUES:
        return found
    marks = strings = 0
    for first, last in spans:
        at = first
        while at < last and max(marks, strings) <= MANY_VALUES:
            quote = line.find(b'"', at, last)
            stop = quote if quote >= 0 else last
            marks += _signs(line, at, stop)
            strings += 1
            at = _closing(line, stop + 1, last) + 1
    return max(marks, strings)


def _signs(line: bytearray, start: int, end: int) -> int:
    """How many of those are there that values have between them; no further than to very many."""
    found = 0
    while start < end and found <= MANY_VALUES:
        piece = line[start : min(start + _PIECE, end)]
        found += sum(map(piece.count, (b",", b"[", b"{")))
        start += _PIECE
    return found


def _closing(line: bytearray, at: int, last: int) -> int:
    """Where the string ends that `at` is in."""
    while at < last:
        inside = _INSIDE.match(line, at, min(at + _PIECE, last))
        before, at = at, at if inside is None else inside.end()
        if line.startswith(b'"', at) or at == before:
            return at
    return last


def _whole_result(line: bytearray) -> dict[str, Any]:
    """Raises _TooMany for a message that is no reply with a result."""
    number, place, failed = (_found(line, path) for path in ("$.id", "$.result", "$.result.isError"))
    digits = bytes(line[slice(*number)]) if number is not None else b""
    if not digits.isdigit() or len(digits) > 15:
        raise _TooMany(-1)
    if place is None or line[place[0]] not in b"{":
        raise _TooMany(int(digits))
    data = bytes(memoryview(line)[slice(*place)])
    flag = {"isError": True} if failed is not None and bytes(line[slice(*failed)]) == b"true" else {}
    line.clear()
    check = codecs.getincrementaldecoder("utf-8")()
    for at in range(0, len(data), _PIECE):  # what is not UTF-8 is no JSON; as one text it may be four times as large
        check.decode(data[at : at + _PIECE], at + _PIECE >= len(data))
    result = WholeResult({"content": [{"type": "text", "text": LargeText(_readable(data))}], **flag})
    return {"jsonrpc": "2.0", "id": int(digits), "result": result}


def parse(line: bytearray, *, large: int = LARGE, piece: int = _PIECE, most: int = LARGE) -> object | None:
    """The message with a LargeText for each large text; None if there is none, or more than `most` beside them.

    The line is emptied where something was found. Raises ValueError, also RecursionError, as `json` does, where what is
    around the texts is not JSON.
    """
    found: list[LargeText] = []
    rest = bytearray()
    at = done = 0
    try:
        for _ in range(_MAX_STRINGS):
            start = line.find(b'"', at) + 1
            if not start:
                break
            end = _end(line, start, large)
            if end < 0:
                text, end = _unescaped(line, start, piece, found[0].data if found else b"")
                rest += line[done:start] + f"{_MARK}{len(found)}".encode()
                done = end
                found.append(found[0] if found and text is found[0].data else LargeText(text))
            at = end + 1
    except ValueError:
        return None
    # Most of it may be data, which costs more to walk through than it saves; or the text contains our mark.
    if not found or len(rest) + len(line) - done > most:
        return None
    rest += line[done:]
    if rest.count(_MARK.encode()) != len(found):
        return None
    texts = {f"{_MARK}{number}": text for number, text in enumerate(found)}
    value = json.loads(rest.decode("utf-8", "surrogateescape"))
    if len(line) > MOST_BESIDE and isinstance(value, dict):
        message = cast("dict[str, Any]", value)
        if not _are_usual(message.get("result"), texts):
            with suppress(_TooMany):
                return _whole_result(line)
        place = _found(line, "$.error.data") if "error" in message else None
        if place is not None and line[place[0]] in b"{[":
            message["error"]["data"] = LargeJson(_readable(bytes(memoryview(line)[slice(*place)])))
    line.clear()
    return _placed(value, texts)


def _are_usual(result: object, texts: Mapping[str, LargeText]) -> bool:
    """Whether these are texts, payloads and structured content: all else of a block is read and written as JSON, which
    takes many times its size.
    """
    table = _table(result)
    if "content" not in table and _STRUCTURED not in table:
        return True  # no call's
    known = set(_MARKS.findall(json.dumps(table.get(_STRUCTURED))))
    for block in _list(table.get("content")):
        for holder in (block, _table(block).get("resource")):
            text, *payloads = map(_table(holder).get, ("text", "data", "blob"))
            # What is not ASCII is no base64.
            known.update(one for one in payloads if isinstance(one, str) and one in texts and texts[one].data.isascii())
            known.update([text] if isinstance(text, str) else [])
    return known.issuperset(texts)


def _table(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def plain(value: Any) -> Any:
    """The same as JSON has it, without anything taken out; the same object where nothing was."""
    if isinstance(value, RawResult):
        return value
    if isinstance(value, LargeText):
        return str(value)
    if isinstance(value, LargeJson):
        return value.value()
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        new = {name: plain(one) for name, one in table.items()}
        return new if any(new[name] is not one for name, one in table.items()) else table
    if isinstance(value, list):
        items = cast("list[Any]", value)
        news = [plain(one) for one in items]
        return news if any(new is not one for new, one in zip(news, items, strict=True)) else items
    return value


def is_deep(value: object, *, levels: int = DEEPEST) -> bool:
    """Whether it is nested deeper than that: whoever walks through it may come to the end of their stack."""
    row = [value]
    for _ in range(levels):
        below: list[object] = []
        for one in row:
            if isinstance(one, dict):
                below += cast("dict[str, object]", one).values()
            elif isinstance(one, list):
                below += cast("list[object]", one)
        if not below:
            return False
        row = below
    return True


def weight(value: object) -> int:
    """About how many bytes it was as JSON: the characters of its texts, and a few for everything else."""
    row, total = [value], 0
    while row:
        below: list[object] = []
        for one in row:
            if isinstance(one, dict):
                fields = cast("dict[str, object]", one)
                below += fields
                below += fields.values()
            elif isinstance(one, list):
                below += cast("list[object]", one)
            total += len(one) if isinstance(one, str) else 4
        row = below
    return total


def plain_texts(result: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's result without large texts; structured content stays as it is."""
    if isinstance(result, RawResult):
        return result
    return {name: value if isinstance(value, LargeJson) else plain(value) for name, value in result.items()}


def only_text(result: Mapping[str, Any]) -> LargeText | None:
    """The large text that a tool's result is all about: one block, or structured content that wraps a text, or both of
    the same; no error, and nothing else.
    """
    content = result.get("content")
    if result.get("isError") or not isinstance(content, list):
        return None
    twin = result.get(_STRUCTURED)
    texts: list[object] = [_text_in(one) for one in cast("list[object]", content)]
    if isinstance(twin, dict):
        members = cast("dict[str, object]", twin)
        texts.append(next(iter(members.values())) if len(members) == 1 else None)
    elif twin is not None:
        return None
    first = texts[0] if texts else None
    blocks = len(cast("list[object]", content))
    return first if blocks <= 1 and isinstance(first, LargeText) and all(one == first for one in texts) else None


def _text_in(block: object) -> object:
    table = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    return table.get("text") if table.get("type") == "text" else None


# Inside


def _end(line: bytearray, start: int, large: int) -> int:
    """Where a string ends whose bytes begin at `start`; -1 where it is a large one."""
    at = start
    while (quote := line.find(b'"', at)) >= 0:
        if quote - start >= large:
            return -1
        if _escapes(line, start, quote):
            return quote
        at = quote + 1
    raise _Odd


def _unescaped(line: bytearray, start: int, piece: int, known: bytes) -> tuple[bytes, int]:
    """The text, which is `known` itself where it is the same, and where its closing quote stands."""
    out = io.BytesIO()  # which gives its bytes away without another copy
    same = 0  # bytes that are as in `known`, and not written
    at, end = start, -1
    while end < 0:
        stop = _border(line, at, min(at + piece, len(line)))
        text = '"' + line[at:stop].decode() + '"'
        value, used = _READ(text)
        data = value.encode()  # half of a surrogate pair is a UnicodeEncodeError, which is a ValueError
        if not out.tell() and known[same : same + len(data)] == data:
            same += len(data)
        else:
            if not out.tell():
                out.write(memoryview(known)[:same])
            out.write(data)
        if used < len(text):
            end = at + len(text[1 : used - 1].encode())
        elif stop == len(line):
            raise _Odd  # it never ends
        at = stop
    if not out.tell() and same == len(known):
        return known, end
    return out.getvalue() or known[:same], end


def _border(line: bytearray, at: int, stop: int) -> int:
    """The last place up to `stop` that is in the middle of no character and no escape."""
    if stop == len(line):
        return stop
    slash = line.rfind(b"\\", max(at, stop - _PAIR), stop)
    if slash >= 0 and _escapes(line, at, slash):
        stop = slash
        if stop - at > 6 and bytes(line[stop - 6 : stop - 2]).lower() in _HIGH and _escapes(line, at, stop - 6):
            stop -= 6
    while line[stop] & 0xC0 == 0x80:
        stop -= 1
    if stop <= at:
        raise _Odd
    return stop


def _escapes(line: bytearray, at: int, place: int) -> bool:
    """Whether what is at this place is no part of an escape that began before it."""
    run, look = 0, _RUN
    while run < place - at:
        before = line[max(at, place - look) : place]
        run = len(before) - len(before.rstrip(b"\\"))
        if run < len(before):
            break
        look *= 2
    return run % 2 == 0


def _placed(value: Any, texts: Mapping[str, LargeText]) -> Any:
    """Marks replaced by their texts, in place where that can be."""
    if isinstance(value, str):
        return texts.get(value, value)
    if isinstance(value, dict):
        table = cast("dict[str, Any]", value)
        for name, one in table.items():
            if isinstance(one, str | dict | list):
                table[name] = _placed(one, texts)
        if any(name in texts for name in table):  # a name of a megabyte is one anyway
            return {str(texts.get(name, name)): one for name, one in table.items()}
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        for at, one in enumerate(items):
            if isinstance(one, str | dict | list):
                items[at] = _placed(one, texts)
    return cast("Any", value)


# One line of a server's output as the messages that it holds, and one message as a line.
#
# `json` reads the half of an emoji that a server has cut through. Large texts in a reply are not even read by that. A
# reply that cannot be read becomes an error of that reply, so that its caller hears of it now and not at its deadline.


def _refused(constant: str) -> object:
    raise ValueError(f"{constant} is no JSON")


GARBLED: object = object()
"""The `data` of an error that this module made: no server can send it."""

_LOG = logging.getLogger("holdall.upstream")
MOST_BESIDE = 4 * 1024 * 1024
"""Bytes of a message that is no output. It is held, and written in the time of everybody: greetings, lists, prompts,
notifications. What tools and resources come to is not."""
_OUTPUTS = ("tools/call", "tasks/", "resources/read")
_ID_FIRST = lazy_pattern(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*([0-9]{1,15})\s*[,}]')
_ID_LAST = lazy_pattern(rb',\s*"id"\s*:\s*([0-9]{1,15})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_ASKS = lazy_pattern(rb'\s*\{(?:\s*"(?:jsonrpc|id)"\s*:\s*(?:"2\.0"|[0-9]{1,15})\s*,){0,2}\s*"method"')
_HEAD = lazy_pattern(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*([0-9]{1,15})\s*,\s*"(?:result|error)"')
_RESULT = lazy_pattern(rb'\s*\{\s*"jsonrpc"\s*:\s*"2\.0"\s*,\s*"id"\s*:\s*([0-9]{1,15})\s*,\s*"result"\s*:\s*')
_DECODER = json.JSONDecoder(parse_int=lambda digits: int(digits) if len(digits) <= _DIGITS else Decimal(digits))
_STRICT = json.JSONDecoder(parse_int=_DECODER.parse_int, parse_constant=_refused)
_LONGEST_ID = 1000
_DIGITS = 4000  # which Python reads as a number

Message = dict[str, Any]
"""A reply has an `id` and a `result` or an `error`, a request an `id` and a `method`, a notification a `method`."""


@record(frozen=False)
class Kept:
    """The ids of replies in which something is large, of requests to which a reply may be an output, and of calls."""

    large: set[str] = field(default_factory=set[str])
    outputs: set[int] = field(default_factory=set[int])
    calls: set[int] = field(default_factory=set[int])

    @contextmanager
    def expecting(self, number: int, method: str) -> Generator[None]:
        """While a request of ours is under way."""
        self.outputs.update([number] if method.startswith(_OUTPUTS) else [])
        self.calls.update([number] if method == "tools/call" else [])
        try:
            yield
        finally:
            self.outputs.discard(number)
            self.calls.discard(number)


def decode(line: bytearray, kept: Kept | None = None) -> list[Message]:
    """No message where it is noise. The line is emptied on the way: two copies of 30 MB are enough.

    The results that `kept` names as large, by their ids, may hold a LargeText where JSON has a text, and a LargeJson
    for their structured content. What is larger than it may be is an error of that reply, or is dropped.
    """
    head, size = bytes(line[:200]), len(line)
    if kept is not None and size > MOST_BESIDE and (refused := _too_large(line, head, kept)) is not None:
        return refused
    try:
        if kept is None:
            if size > MOST_BESIDE or (len(line) >= LARGE and has_many_values(line)):
                return []  # nobody asked for it
            value = _read(line)
        elif len(line) < MUCH_STRUCTURE:
            value = _read_reply(line, kept)
        else:
            value = _read_large(line, kept)
    except RecursionError:
        return _unreadable(head, "a reply that is nested too deeply to be read")
    except _TooMany as problem:
        why = f"a reply of {problem}, and no result"
        return [_garbled(problem.number, why)] if problem.number >= 0 else _unreadable(head, why)
    except ValueError:
        return _unreadable(head, "a reply that is not valid JSON")
    # A list is a batch, which one revision of the protocol knows.
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    found = [message for item in items if (message := _message(item)) is not None]
    if kept is not None and size > MOST_BESIDE:  # in a batch, or with two ids
        return [one for one in found if "id" in one and ("method" in one or one["id"] in kept.outputs)] or _dropped(
            size
        )
    return found


def _too_large(line: bytearray, head: bytes, kept: Kept) -> list[Message] | None:
    """What becomes of a message of this size, found before it is read; None where it may be so large.

    A request of the server's is refused by whoever counts those.
    """
    if head.lstrip()[:1] == b"[":
        return None
    match = _ID_FIRST.match(head) or _ID_LAST.search(line, max(0, len(line) - 200))
    place = None if match else _found(line, "$.id")
    digits = match[1] if match else bytes(line[slice(*place)]) if place else b""
    number = int(digits) if digits.isdigit() and len(digits) <= 15 else None
    if number is None:
        return _dropped(len(line))
    if number in kept.outputs or _ASKS.match(head):
        return None
    rule = f"only results of tools and resources may have more than {MOST_BESIDE:,}"
    return [_garbled(number, f"{len(line):,} bytes; {rule}")]


def _dropped(size: int) -> list[Message]:
    _LOG.warning("a message of %d bytes of a server is dropped: it is no result of a tool or resource", size)
    return [{"id": -1, "result": {}}]  # for nobody: it is no noise, either


async def decode_aside(line: bytearray, kept: Kept | None = None) -> list[Message]:
    """The same, where it is large in a thread: whoever else is served here is not to wait for it."""
    return decode(line, kept) if len(line) < LARGE else await asyncio.to_thread(decode, line, kept)


def reply_in(line: bytes | bytearray) -> tuple[int, RawResult] | None:
    """The id of the only reply in a line and its result, with the bytes of that; None if it is anything else."""
    match = _RESULT.match(line)
    if match is None or b"\n" in line or b"\r" in line:  # where it goes it has to be one line
        return None
    try:
        text = line[match.end() :].decode()
        value, end = _STRICT.raw_decode(text)  # with NaN in it the bytes are no JSON, and cannot be passed on
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or text[end:].strip() != "}":
        return None
    return int(match[1]), RawResult(cast("dict[str, Any]", value), text[:end].encode())


def encode(message: Message) -> bytes:
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"


def _read(line: bytearray) -> object:
    text = line.decode("utf-8", "surrogateescape")
    line.clear()
    return _DECODER.decode(text)


def _read_reply(line: bytearray, kept: Kept) -> object:
    found = reply_in(line.strip(b"\r\n"))
    if found is not None:
        line.clear()
        return {"jsonrpc": "2.0", "id": found[0], "result": found[1]}
    whole = bytes(line)
    try:
        return _read(line)
    except RecursionError:  # structured content may be as deep as it likes: it need not be read
        value = taken_out(bytearray(whole), much=1)
        if value is None:
            raise
        return _with_large(value, kept)


def _read_large(line: bytearray, kept: Kept) -> object:
    value = taken_out(line)
    if value is not None:
        return _with_large(value, kept)
    return _read_reply(line, kept) if len(line) < LARGE else _read(line)


def _with_large(value: object, kept: Kept) -> object:
    found = _table(value)
    if "result" not in found:
        found = _failed_call(found, kept)
    if not found:
        return plain(value)
    number = found.get("id")
    if type(number) is int:  # as all of ours are
        kept.large.add(str(number))
    return found


def _failed_call(table: dict[str, object], kept: Kept) -> dict[str, object]:
    """The error of a call whose data is large as the result that the call failed with, by its bytes; else nothing."""
    error, number = _table(table.get("error")), table.get("id")
    message, data = error.get("message"), error.get("data")
    known = type(number) is int and number in kept.calls and isinstance(message, str)
    if not known or not isinstance(data, LargeText | LargeJson):
        return {}
    said = f"(code {error.get('code')}) {message}\n".encode("utf-8", "replace")
    block = {"type": "text", "text": LargeText(said + data.data)}
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [block], "isError": True}}


def _unreadable(head: bytes, why: str) -> list[Message]:
    match = _HEAD.match(head)
    return [_garbled(int(match[1]), why)] if match else []


def _message(value: object) -> Message | None:
    if not isinstance(value, dict):
        return None
    table = cast("dict[str, Any]", value)
    number, method, params = table.get("id"), table.get("method"), table.get("params")
    known = isinstance(number, int | str) and not isinstance(number, bool)
    if isinstance(number, str) and len(number) > _LONGEST_ID:
        return None  # whatever it is: it would be held until it is answered
    if isinstance(method, str):
        given: Message = {"params": params} if isinstance(params, dict) else {}
        return {"id": number, "method": method, **given} if known else {"method": method, **given}
    return _reply(cast("int | str", number), table) if known else None


def _reply(number: int | str, table: dict[str, Any]) -> Message:
    if "error" in table:
        error = _error(table["error"])
        return {"id": number, "error": error} if error else _garbled(number, "an error that has no code and message")
    result = table.get("result")
    if isinstance(result, dict):
        return {"id": number, "result": result}
    if "result" in table and result is None:  # as some write a result without content
        return {"id": number, "result": {}}
    return _garbled(number, "a reply without a result")


def _error(value: object) -> dict[str, Any] | None:
    table = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    code, message = table.get("code"), table.get("message")
    if not isinstance(code, int | float | str) or not isinstance(message, str):
        return None
    try:
        return {"code": int(code), "message": message, "data": table.get("data")}
    except (ValueError, OverflowError):
        return None


def _garbled(number: int | str, what: str) -> Message:
    return {"id": number, "error": {"code": INTERNAL_ERROR, "message": what, "data": GARBLED}}
