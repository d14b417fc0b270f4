"""Why a path found nothing: how far it came, and what there is in that place instead.

A second, short pass from where the first one ended up. It names members, never values.
"""

import difflib
from collections.abc import Sequence

from holdall.text.json_cursor import OPEN_ARRAY, OPEN_OBJECT, Cursor, JsonFault, Read
from holdall.text.json_hits import Layout, SeveralValues
from holdall.text.json_names import shown_name
from holdall.text.json_path import Index, JsonPath, Name, Segment, Slice, Wildcard
from holdall.text.json_scan import Scan
from holdall.text.numbers import plural

_NAMES_SHOWN = 20
_NAMES_COMPARED = 2000
_NAME_SHOWN = 60  # characters
_CHILDREN = JsonPath("$.*", (Segment((Wildcard(),)),))
_SCALARS = dict(zip(b'"tfn', ("a string", "true", "false", "null"), strict=True))


def why_nothing(read: Read, size: int, path: JsonPath, scan: Scan, *, layout: Layout) -> str:
    """One sentence or two for the path that `scan` has followed without a hit."""
    reached = scan.furthest
    wanted = path.segments[reached.segments]
    if wanted.descendants:
        return f"Nothing below {reached.path} is {_selectors(wanted)}."
    whole_sequence = reached.segments == 0 and layout != "one"
    names, total = _children(read, size, reached.start, layout if whole_sequence else "one")
    if whole_sequence:
        return _about_records(wanted, total)
    sign = Cursor(read, size, start=reached.start).peek()
    if sign == OPEN_OBJECT:
        return f"{reached.path} has no member {_selectors(wanted)}; it has {_members(wanted, names, total)}"
    if sign == OPEN_ARRAY:
        hint = "" if _wants_elements(wanted) else f" Go on with [*] or an index: {reached.path}[0]"
        return f"{reached.path} is an array of {plural(total, 'element')}, without {_selectors(wanted)}.{hint}"
    return f"{reached.path} is {_SCALARS.get(sign, 'a number')}; nothing is below it."


def _about_records(wanted: Segment, total: int) -> str:
    if _wants_elements(wanted):
        return f"There are {plural(total, 'record')}, counted from 0; none is {_selectors(wanted)}."
    return (
        f"The output is a sequence of {plural(total, 'record')}, which a path sees as one array: "
        f"begin with $[*] for all of them, or $[0] for the first."
    )


def _children(read: Read, size: int, start: int, layout: Layout) -> tuple[list[str], int]:
    """The first names in the container at `start`, and how many children it has."""
    scan = Scan(read, size, _CHILDREN, layout=layout, start=start)
    names: list[str] = []
    try:
        for hit in scan.hits(0, _NAMES_COMPARED):
            if isinstance(hit.step, bytes):
                names.append(shown_name(hit.step))
    except (SeveralValues, JsonFault):
        pass  # what stands after it does not matter here, and what is broken in it has been told before
    return names, scan.total


def _members(wanted: Segment, names: Sequence[str], total: int) -> str:
    if not total:
        return "none."
    asked = [selector.name for selector in wanted.selectors if isinstance(selector, Name)]
    near = dict.fromkeys(close for name in asked for close in _near(name, names))
    first = [*near, *(name for name in names if name not in near)][:_NAMES_SHOWN]
    more = f", … ({total - len(first):,} more)" if total > len(first) else ""
    return f"{plural(total, 'member')}: {', '.join(map(_quoted, first))}{more}."


def _near(name: str, names: Sequence[str]) -> list[str]:
    same = [one for one in names if one.casefold() == name.casefold()]
    return same or difflib.get_close_matches(name[:200], names, n=3, cutoff=0.7)


def _quoted(name: str) -> str:
    return repr(name if len(name) <= _NAME_SHOWN else name[: _NAME_SHOWN - 1] + "…")


def _wants_elements(segment: Segment) -> bool:
    return any(isinstance(selector, Index | Slice | Wildcard) for selector in segment.selectors)


def _selectors(segment: Segment) -> str:
    """The selectors of a segment as they would be written."""
    texts: list[str] = []
    for selector in segment.selectors:
        match selector:
            case Name(name):
                texts.append(_quoted(name))
            case Index(index):
                texts.append(f"[{index}]")
            case Slice(start, stop, step):
                texts.append(f"[{start}:{'' if stop is None else stop}:{step}]")
            case Wildcard():
                texts.append("[*]")
    return " or ".join(texts)
