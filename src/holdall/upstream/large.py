"""What is large in a message, taken out of it by its bytes before the rest is read as JSON: texts, structured content.

A text of 30 MB with one emoji in it takes 120 MB as a `str`, and the line that it came in as much again; as much JSON
takes five times its size as objects. Taken out it is never more than its own bytes. What is odd in any way, half of a
surrogate pair for instance, is left to `json`. A text that comes twice, as structured content repeats it, is held once.
"""

import io
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from holdall.text.json.find import Hit, Scan, SeveralValues
from holdall.text.json.path import parse_path
from holdall.text.json.reader import JsonFault
from holdall.text.json.same import readable
from holdall.values.outputs import AsCame, LargeJson, LargeText

LARGE = 1024 * 1024
"""Bytes of a string from which on it is taken out."""
MUCH_STRUCTURE = 32 * 1024
"""Bytes of structured content from which on it is: so much is stored rather than shown, and that as it came."""

_PIECE = 256 * 1024  # of which a few copies are made on the way, at four bytes a character
_MOST_STRINGS = 1000  # that are looked at for their size: behind them it is data, not an envelope
_PAIR = 12  # bytes of two escapes that are one character
_RUN = 64  # backslashes before a quote, at most
_MARK = "holdall: large text "
_HIGH = (b"\\ud8", b"\\ud9", b"\\uda", b"\\udb")  # how the first half of a pair begins
_READ = json.JSONDecoder().raw_decode
_STRUCTURED = "structuredContent"
_PLACE = parse_path(f"$.result.{_STRUCTURED}")
_NAME = f'"{_STRUCTURED}"'.encode()
_ONE_TEXT = re.compile(rb'\{\s*"result"\s*:\s*"')  # as servers repeat a text: it is taken out as one


class _Odd(ValueError):
    """Not for this module."""


def taken_out(line: bytearray, *, much: int = MUCH_STRUCTURE) -> object | None:
    """The message with what is large in it by its bytes; None where nothing is, and the line is as it was.

    Raises ValueError and RecursionError as `json` does, where what is around it is no message.
    """
    structure = without_structure(line, large=much)
    value = parse(line) if len(line) >= LARGE else None
    if structure is None:
        return value
    if value is None:
        text = line.decode("utf-8", "surrogateescape")
        line.clear()
        value = json.loads(text)
    result = cast("dict[str, Any]", value).get("result") if isinstance(value, dict) else None
    if not isinstance(result, dict):
        raise ValueError("a message with two results")
    cast("dict[str, Any]", result)[_STRUCTURED] = structure
    return cast("object", value)


def without_structure(line: bytearray, *, large: int = MUCH_STRUCTURE) -> LargeJson | None:
    """The structured content of the result in this line, where it is large; null stands in its place then."""
    if _NAME not in line:
        return None
    scan = Scan(lambda at, size: bytes(line[at : at + size]), len(line), _PLACE)
    try:
        hits: list[Hit] = list(scan.hits())
    except (JsonFault, SeveralValues):
        return None
    if len(hits) != 1 or hits[0].end - hits[0].start < large:
        return None
    start, end = hits[0].start, hits[0].end
    if line[start] not in b"{[" or _ONE_TEXT.match(line, start, start + 100):
        return None
    data = bytes(memoryview(line)[start:end])
    line[start:end] = b"null"
    out = io.BytesIO()
    out.writelines(readable(data))
    return LargeJson(out.getvalue())


def parse(line: bytearray, *, large: int = LARGE, piece: int = _PIECE, most: int = LARGE) -> object | None:
    """The message with a LargeText for each large text; None where there is none, or more than `most` beside them.

    The line is emptied where something was found. Raises ValueError, also RecursionError, as `json` does, where what
    is around the texts is no JSON.
    """
    found: list[LargeText] = []
    rest = bytearray()
    at = done = 0
    try:
        for _ in range(_MOST_STRINGS):
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
    # Most of it may be data, which it would cost more to walk through than is won; or somebody writes as we do.
    if not found or len(rest) + len(line) - done > most:
        return None
    rest += line[done:]
    if rest.count(_MARK.encode()) != len(found):
        return None
    line.clear()
    texts = {f"{_MARK}{number}": text for number, text in enumerate(found)}
    return _placed(json.loads(rest.decode("utf-8", "surrogateescape")), texts)


def plain(value: Any) -> Any:
    """The same as JSON has it, without anything taken out; the same object where nothing was."""
    if isinstance(value, AsCame):
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


def plain_texts(result: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's result without large texts; structured content stays as it is."""
    if isinstance(result, AsCame):
        return result
    return {name: value if isinstance(value, LargeJson) else plain(value) for name, value in result.items()}


def only_text(result: Mapping[str, Any]) -> LargeText | None:
    """The large text that a tool's result is all about: one block, no error, and nothing structured but the same."""
    content = result.get("content")
    if result.get("isError") or not isinstance(content, list) or len(cast("list[object]", content)) != 1:
        return None
    block = cast("list[object]", content)[0]
    if not isinstance(block, dict):
        return None
    table = cast("dict[str, Any]", block)
    text = table.get("text")
    if table.get("type") != "text" or not isinstance(text, LargeText):
        return None
    twin = result.get("structuredContent")
    return text if twin is None or twin == {"result": text} else None


# Inside


def _end(line: bytearray, start: int, large: int) -> int:
    """Where a string ends whose bytes begin at `start`; -1 where it is a large one."""
    at = start
    while (quote := line.find(b'"', at)) >= 0:
        if quote - start >= large:
            return -1
        before = line[max(start, quote - _RUN) : quote]
        slashes = len(before) - len(before.rstrip(b"\\"))
        if slashes == _RUN:
            raise _Odd
        if slashes % 2 == 0:
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


def _escapes(line: bytearray, at: int, slash: int) -> bool:
    """Whether the backslash at this place begins an escape, and does not end one."""
    before = line[max(at, slash - _RUN) : slash]
    run = len(before) - len(before.rstrip(b"\\"))
    if run == _RUN:
        raise _Odd
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
        if any(name in texts for name in table):  # a name of a megabyte is one all the same
            return {str(texts.get(name, name)): one for name, one in table.items()}
    elif isinstance(value, list):
        items = cast("list[Any]", value)
        for at, one in enumerate(items):
            if isinstance(one, str | dict | list):
                items[at] = _placed(one, texts)
    return cast("Any", value)
