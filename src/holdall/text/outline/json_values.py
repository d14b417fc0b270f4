"""JSON as values, as far as it can be seen: all of it, or parts of it where it is large, cut off or broken."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from holdall.text.outline.json_begin import DEEPEST, Prefix, go_on, prefix
from holdall.text.outline.json_skim import can_be_skimmed, skim
from holdall.text.outline.json_text import cost, loads
from holdall.text.outline.sample import SCANNED, Sample

_AFFORDABLE = 22.0  # milliseconds for which all of a text is parsed …
_AFFORDABLE_SKIMMED = 12.0  # … and of one whose members can be counted without that; of a dearer one …
_SPENT = 7.0  # … so much of its beginning as takes so long, …
_HEAD = 64 * 1024  # … from where it is known which containers are open
_BEGINNING = 2 * 1024 * 1024  # and never more than this
_MAP = 12  # an open object with fewer members is a record, not a map
_WINDOW = 64 * 1024
_FROM_WINDOW = 24  # records taken out of one window
_FIRST_KEY = re.compile(r'\[(\s*\{\s*"[^"\\]{0,200}"\s*:)')


@dataclass(slots=True)
class Seen:
    """`counts` tells by their `id` how many members containers have that are not all there, and whether exactly."""

    value: Any
    note: str = ""
    whole: bool = True
    counts: dict[int, tuple[float, bool]] = field(default_factory=dict[int, tuple[float, bool]])
    several: bool = False  # `value` is a list of values that stand one after the other
    text_from: int | None = None  # where other text begins, after the value


def see(sample: Sample) -> Seen | None:
    """It is taken for one value. None where nothing can be made of it."""
    note = ""
    if not sample.tail[-100:].rstrip().endswith((b"]", b"}")):
        note = f"cut off: it ends at byte {sample.size:,} without the closing bracket"
        if sample.size > SCANNED:  # too large to look for where the first value ends
            note = "it does not end as JSON does: cut off, or other text follows"
    elif sample.whole and cost(sample.head) <= _affordable(sample.head):
        try:
            return Seen(loads(_text(sample.head)))
        except json.JSONDecodeError as fault:
            note = f"not valid JSON from byte {fault.pos:,} on"
            return _begun(sample, _text(sample.head)[: fault.pos], note)
        except RecursionError:
            pass
    elif sample.size <= SCANNED and sample.read is not None and can_be_skimmed(sample.head):
        skimmed = skim(sample.head if sample.whole else sample.read(0, sample.size))
        if skimmed:
            return Seen(skimmed[0], whole=False, counts={at: (number, True) for at, number in skimmed[1].items()})
    return _begun(sample, _text(sample.head), note)


def _affordable(head: bytes) -> float:
    return _AFFORDABLE_SKIMMED if can_be_skimmed(head, deep=True) else _AFFORDABLE


def _text(data: bytes) -> str:
    return data.decode("latin-1").removeprefix("\xef\xbb\xbf")


def _begun(sample: Sample, text: str, note: str) -> Seen | None:
    """What the beginning tells, with records from the rest."""
    begun = prefix(text[:_HEAD])
    if begun is None:
        return None
    seen = Seen(begun.value, note=note, whole=False)
    if begun.deep:
        seen.note = f"nested more than {DEEPEST} levels deep"
    elif begun.open_at and begun.end:
        if not sample.whole and sample.read is not None:
            text = _text(sample.read(0, _BEGINNING))
        go_on(begun, text[: int(len(text) * min(1.0, _SPENT / cost(text[:_BEGINNING].encode("latin-1"))))])
    _look_further(seen, begun, text, sample)
    return seen


def _look_further(seen: Seen, begun: Prefix, text: str, sample: Sample) -> None:
    """Records and members from the rest of the sample; estimates of how many there are."""
    spine = begun.spine()
    for depth, container in enumerate(spine):
        size = len(container)
        if isinstance(container, list) and size == 1:
            seen.counts[id(container)] = 1, False  # there may be more: what it holds is not at its end
        if size < (2 if isinstance(container, list) else _MAP):
            continue
        start = begun.open_at[depth]
        sizes = [(begun.end - start) / size]  # of one member, here and in each window
        if depth + 1 < len(spine):  # the last one is not whole
            _drop_last(container)
        lead = _FIRST_KEY.match(text, start) if isinstance(container, list) else None
        start_of_record = (lead[1] if lead[1].startswith("\n") else lead[1].lstrip()) if lead else ""
        # Where there are more of it than records it also begins something inside of them.
        if lead and text.count(start_of_record, start, begun.end) <= size + 1:
            sizes += _gather(cast("list[Any]", container), start_of_record, sample)
            _join_tail(spine[:depth], start_of_record, sample)
        seen.counts[id(container)] = max(size, (sample.size - start) * len(sizes) / sum(sizes)), False
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
