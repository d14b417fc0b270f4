"""JSON as values, as far as it can be seen: all of it, or the part before it is cut off, broken or too large.

Bytes are read as Latin-1, where every byte is a character: decoding is free and brackets are where they were. Names
and texts are turned back into UTF-8 by `readable` when they are shown. Nothing here raises on broken JSON.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from holdall.text.outline.model import count
from holdall.text.outline.sample import Sample

_HEAD = 256 * 1024  # of a text that cannot be parsed whole
_DEEPEST = 120  # levels; the parser of Python stops at about 1,000, and no outline shows more
_TRIES = 4
_MAP = 12  # an open object with fewer members is a record, not a map
_WINDOW = 64 * 1024
_FROM_WINDOW = 40  # records taken out of one window

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_SEQUENCE = re.compile("[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_LONE = re.compile("[\ud800-\udfff]")
_FIRST_KEY = re.compile(r'\[(\s*\{\s*"[^"\\]{0,200}"\s*:)')


@dataclass(slots=True)
class Seen:
    """`counts` tells the size of containers that go on after what was read, by their `id`."""

    value: Any
    note: str = ""
    whole: bool = True
    counts: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(slots=True)
class _Prefix:
    value: Any
    open_at: list[int]  # where the containers start that are still open at the end
    end: int
    deep: bool


def see(sample: Sample) -> Seen | None:
    """None where nothing can be made of it."""
    text = sample.head.decode("latin-1").removeprefix("\xef\xbb\xbf")
    note = ""
    if sample.whole and not text[-100:].rstrip().endswith(("]", "}")):
        note = f"cut off: it ends at byte {sample.size:,} without the closing bracket"
    elif sample.whole:
        try:
            return Seen(loads(text))
        except json.JSONDecodeError as fault:
            note = f"not valid JSON from byte {fault.pos:,} on"
            text = text[: fault.pos]
        except RecursionError:
            pass
    prefix = _prefix(text[:_HEAD])
    if prefix is None:
        return None
    seen = Seen(prefix.value, note=note, whole=False)
    if prefix.deep:
        seen.note = f"nested more than {_DEEPEST} levels deep"
    _look_further(seen, prefix, text, sample)
    return seen


def readable(text: str) -> str:
    """The text that a Latin-1 reading of UTF-8 stands for. What was an escape in the JSON stays as it is."""
    if text.isascii():
        return text
    return _LONE.sub("\ufffd", _SEQUENCE.sub(lambda found: found[0].encode("latin-1").decode("utf-8", "replace"), text))


def loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a number with more digits than Python reads
        return json.loads(text, strict=False, parse_int=float)


def _prefix(text: str) -> _Prefix | None:
    """The value that `text` begins, every container that is open at its end closed there."""
    for _ in range(_TRIES):
        closers, open_at, end, deep = _last_safe_place(text)
        try:
            value = loads(text[:end] + "".join(reversed(closers)))
        except json.JSONDecodeError as fault:
            if fault.pos >= len(text) or fault.pos < 2:
                return None
            text = text[: fault.pos]
            continue
        except RecursionError:
            return None
        return _Prefix(value, open_at, end, deep)
    return None


def _last_safe_place(text: str) -> tuple[list[str], list[int], int, bool]:
    """Where `text` can be ended by closing brackets, with these and the places of those that they close."""
    closers: list[str] = []
    open_at: list[int] = []
    end = 0
    for match in _TOKEN.finditer(text):
        sign = text[match.start()]
        if sign == '"':
            continue
        if sign == ",":
            end = match.start()
        elif sign in "[{":
            if len(closers) >= _DEEPEST:
                return closers, open_at, end, True
            closers.append("]" if sign == "[" else "}")
            open_at.append(match.start())
            end = match.end()
        elif not closers or closers.pop() != sign:
            break
        else:
            open_at.pop()
            end = match.end()
            if not closers:
                break
    return closers, open_at, end, False


def _spine(value: Any, depth: int) -> Iterator[dict[str, Any] | list[Any]]:
    """The containers that are still open, outermost first."""
    for _ in range(depth):
        yield value
        children = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else cast("list[Any]", value)
        if not children:
            return
        value = children[-1]


def _look_further(seen: Seen, prefix: _Prefix, text: str, sample: Sample) -> None:
    """Records and members from the rest of the sample; estimates of how many there are."""
    spine = list(_spine(prefix.value, len(prefix.open_at)))
    for depth, container in enumerate(spine):
        size = len(container)
        if size < (3 if isinstance(container, list) else _MAP):
            continue
        start = prefix.open_at[depth]
        sizes = [(prefix.end - start) / size]  # of one member, here and in each window
        if depth + 1 < len(spine):  # the last one is not whole
            _drop_last(container)
        lead = _FIRST_KEY.match(text, start) if isinstance(container, list) else None
        if lead:
            start_of_record = lead[1] if lead[1].startswith("\n") else lead[1].lstrip()
            sizes += _gather(cast("list[Any]", container), start_of_record, sample)
            _join_tail(spine[:depth], start_of_record, sample)
        seen.counts[id(container)] = count(max(size, (sample.size - start) * len(sizes) / sum(sizes)), exact=False)
        return


def _drop_last(container: Any) -> None:
    if isinstance(container, dict):
        cast("dict[str, Any]", container).popitem()
    else:
        container.pop()


def _windows(sample: Sample) -> Iterator[str]:
    """What was read beside the beginning; of a text that was read whole, some of it."""
    if not sample.whole:
        yield from (data.decode("latin-1") for _, data in sample.pieces[1:])
        return
    for start in range(_HEAD, sample.size, max(_WINDOW, (sample.size - _HEAD) // 8)):
        yield sample.head[start : start + _WINDOW].decode("latin-1")


def _gather(records: list[Any], lead: str, sample: Sample) -> list[float]:
    """Records of the windows, found by how the first one begins; what one takes on average, for each window."""
    decoder = json.JSONDecoder(strict=False)
    sizes: list[float] = []
    for window in _windows(sample):
        starts = [window.find(lead)]
        while starts[-1] >= 0 and len(starts) <= _FROM_WINDOW:
            try:
                record, end = decoder.raw_decode(window, window.index("{", starts[-1]))
            except (ValueError, RecursionError):
                break
            records.append(record)
            starts.append(window.find(lead, end))
        known = [at for at in starts if at >= 0]
        if len(known) > 2:
            sizes.append((known[-1] - known[0]) / (len(known) - 1))
    return sizes


def _join_tail(spine: list[Any], lead: str, sample: Sample) -> None:
    """Members that stand after the records, up to the end of the text."""
    tail = sample.tail[-_WINDOW:].decode("latin-1")
    at = tail.rfind(lead)
    if at < 0 or not spine:
        return
    openers = "".join('{"":' if isinstance(container, dict) else "[" for container in spine)
    try:
        found = loads(openers + "[" + tail[at:])
    except (ValueError, RecursionError):
        return
    for container in spine:
        if isinstance(container, dict) and isinstance(found, dict):
            members = cast("dict[str, Any]", found)
            inner = members.pop("", None)
            cast("dict[str, Any]", container).update(members)
            found = inner
        elif isinstance(found, list) and found:
            found = cast("list[Any]", found)[0]
