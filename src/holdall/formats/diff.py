"""Diffs: which files, with lines added and removed."""

import stringzilla

from holdall.formats.outline import Lead, Outline, Room, Sample, cut, fitted, thinned
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# By which sign the parts of files begin: the first of these that there is. A `---` below one of the others is its own.
_SIGNS = (b"diff --git ", b"Index: ", b"--- ")
_NEW = lazy_pattern(rb"\n\+\+\+ (?:b/)?(?P<new>[^\t\n]+)")
_STATE = lazy_pattern(rb"\n(?P<state>new file|deleted file|rename from|Binary files|GIT binary)")
_STATES = {b"new file": "new", b"deleted file": "deleted", b"rename from": "renamed"}
_ALL, _MOST = 8000, 2000  # up to so many parts all are looked at; of more so many
_NAMED_IN = 3000  # bytes in which the name of a file is looked for
_LISTS = {
    b"diff --git ": r"^diff --git a/(\S+)",
    b"Index: ": r"^Index: (\S+)",
    b"--- ": r"^\+\+\+ (\S+)",
}


@record(frozen=False)
class _File:
    added: int = 0
    removed: int = 0
    note: str = ""
    start: int = 0  # the largest part of it
    end: int = 0


def diff_outline(sample: Sample, room: Room) -> Outline | None:
    sign = next((sign for sign in _SIGNS if sample.head.startswith(sign) or sample.count(b"\n" + sign)), None)
    if sign is None:
        return None
    parts = sample.count(b"\n" + sign) + sample.head.startswith(sign)
    added, removed = (sample.count(b"\n" + side) - sample.count(b"\n" + side * 3 + b" ") for side in (b"+", b"-"))
    whole = sample.whole and parts <= _ALL
    seen = sample if whole or parts <= _MOST else thinned(sample, _MOST / parts)
    files = _files(seen, sign)
    if not files:
        return None
    number = plural(len(files), "file") if whole else f"at least {plural(len(files), 'file')}"
    told = [f"{number}, {'' if sample.whole else 'at least '}+{added:,} −{removed:,}"]
    ranked = sorted(files.items(), key=lambda each: -each[1].added - each[1].removed)
    told += [_line(name, file, seen) for name, file in ranked[:200]]
    kept = list(fitted(told, room.after(["… at least 12,345 more files"])))
    left = len(ranked) + 1 - len(kept)
    if left:
        kept.append(f"… {'' if whole else 'at least '}{plural(left, 'more file')}")
    ranges = tuple((file.start, file.end, f"diff of {cut(name, 80)}") for name, file in ranked[:2])
    leads = (Lead("grep", {"pattern": _LISTS[sign], "group": True}),)
    return Outline("diff", tuple(kept), not whole, (), ranges, leads, ends=False)


def _files(sample: Sample, sign: bytes) -> dict[str, _File]:
    files: dict[str, _File] = {}
    for start, data in sample.pieces:
        places = _places(data, sign)
        for at, end in zip(places, [*places[1:], len(data)], strict=False):
            part = data[at:end]
            name = _name(part)
            if sign == b"--- " and not _NEW.match(part, part.find(b"\n")):
                continue  # a removed line that begins with two dashes
            file = files.setdefault(name, _File())
            file.added += part.count(b"\n+") - part.count(b"\n+++ ")
            file.removed += part.count(b"\n-") - part.count(b"\n--- ")
            if end - at > file.end - file.start:
                file.start, file.end = start + at, start + end
            state = _STATE.search(part, 0, 600)
            if state:
                file.note = _STATES.get(state["state"], "binary")
    return files


def _places(data: bytes, sign: bytes) -> list[int]:
    found = [0] if data.startswith(sign) else []
    at = stringzilla.find(data, b"\n" + sign)
    while at >= 0:
        found.append(at + 1)
        at = stringzilla.find(data, b"\n" + sign, at + 1)
    return found


def _line(name: str, file: _File, sample: Sample) -> str:
    about = "" if sample.whole else "at least "
    note = f" ({file.note})" if file.note else ""
    return f"{about}+{file.added:,} −{file.removed:,}  {cut(name, 160)}{note} · {sample.place(file.start)}"


def _name(part: bytes) -> str:
    end = part.find(b"\n", 0, _NAMED_IN)
    first = part[: end if end >= 0 else _NAMED_IN].rstrip()
    new = _NEW.search(part, 0, _NAMED_IN)
    if first.startswith(b"diff --git "):
        name = _second(first[len(b"diff --git ") :])
    elif first.startswith(b"Index: "):
        name = first[len(b"Index: ") :]
    else:
        name = new["new"] if new and new["new"] != b"/dev/null" else first[4:].split(b"\t")[0].removeprefix(b"a/")
    return name.decode("utf-8", "replace").strip()


def _second(names: bytes) -> bytes:
    """`y` of `a/x b/y`. Where both are the same it is the second half, whatever spaces it has."""
    middle = len(names) // 2
    if names[middle : middle + 3] == b" b/" and names[2:middle] == names[middle + 3 :]:
        return names[middle + 3 :]
    return names.rpartition(b" b/")[2].rpartition(b' "b/')[2].removesuffix(b'"')
