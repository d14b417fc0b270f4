"""Diffs: which files, with lines added and removed."""

import stringzilla

from holdall.formats.outline import Lead, Outline, Room, Sample, cut, fitted, thinned
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# By which sign the parts of files begin: the first of these that there is. A `---` below one of the others is its own.
_SIGNS = (b"diff --git ", b"Index: ", b"--- ")
_HEADER = lazy_pattern(rb"--- [^\n]{0,2000}\n\+\+\+ [^\n]{0,2000}(?:\n@@ |\n?\Z)")
_HUNK = lazy_pattern(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_ODD = lazy_pattern(rb"\n--(?:-| ?\r?\n)")  # the end of a mail, perhaps: then hunks end where they say
_NEW = lazy_pattern(rb"\n\+\+\+ (?:b/)?(?P<new>[^\t\n]+)")
_STATE = lazy_pattern(rb"\n(?P<state>new file|deleted file|rename from|Binary files|GIT binary)")
_STATES = {b"new file": "new", b"deleted file": "deleted", b"rename from": "renamed"}
_ALL, _MOST = 20_000, 2000  # up to so many parts all are looked at; of more so many
_NAMED_IN = 3000  # bytes in which the name of a file is looked for
_PREFIXES = lazy_pattern(rb"[a-z]/ [a-z]/")
_LISTS = {
    b"diff --git a/": r"^diff --git a/(\S+)",
    b"diff --git ": r"^diff --git (\S+)",
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
    whole = sample.whole and parts <= _ALL
    seen = sample if whole or parts <= _MOST else thinned(sample, _MOST / parts)
    files = _files(seen, sign)
    added, removed = (sum(getattr(file, side) for file in files.values()) for side in ("added", "removed"))
    if not files:
        return None
    number = plural(len(files), "file") if whole else f"at least {plural(len(files), 'file')}"
    told = [f"{number}, {'' if whole else 'at least '}+{added:,} −{removed:,}"]
    ranked = sorted(files.items(), key=lambda each: -each[1].added - each[1].removed)
    told += [_line(name, file, seen) for name, file in ranked[:200]]
    kept = list(fitted(told, room.after(["… at least 12,345 more files"])))
    left = len(ranked) + 1 - len(kept)
    if left:
        kept.append(f"… {'' if whole else 'at least '}{plural(left, 'more file')}")
    ranges = tuple((file.start, file.end, f"diff of {cut(name, 80)}") for name, file in ranked[:2])
    usual = b"diff --git a/" if sign == b"diff --git " and sample.count(b"diff --git a/") else sign
    # A list of the files tells nothing where all of them are told: then the largest change is what is worth reading.
    leads = (Lead("grep", {"pattern": _LISTS[usual], "group": True}),) if left else ()
    return Outline("diff", tuple(kept), not whole, (), ranges, leads, ends=False)


def _files(sample: Sample, sign: bytes) -> dict[str, _File]:
    files: dict[str, _File] = {}
    for start, data in sample.pieces:
        places = _places(data, sign)
        for at, end in zip(places, [*places[1:], len(data)], strict=False):
            part = data[at:end]
            name = _name(part)
            file = files.setdefault(name, _File())
            # What is cut by the end of a window may lack lines, and none of them are counted twice.
            added, removed = _changes(part)
            file.added += added
            file.removed += removed
            if end - at > file.end - file.start:
                file.start, file.end = start + at, start + end
            state = _STATE.search(part, 0, 600)
            if state:
                file.note = _STATES.get(state["state"], "binary")
    return files


def _changes(part: bytes) -> tuple[int, int]:
    """Lines added and removed in the hunks of one file, each as long as it says."""
    first = part.find(b"\n@@ -")
    body = part[first:] if first >= 0 else b""
    if not _ODD.search(body):
        return body.count(b"\n+"), body.count(b"\n-")
    added = removed = old = new = 0
    for line in body.split(b"\n"):
        if old > 0 or new > 0:
            kind = line[:1]
            added, removed = added + (kind == b"+"), removed + (kind == b"-")
            old, new = old - (kind not in (b"+", b"\\")), new - (kind not in (b"-", b"\\"))
        elif hunk := _HUNK.match(line):
            old, new = int(hunk[1] or 1), int(hunk[2] or 1)
    return added, removed


def _places(data: bytes, sign: bytes) -> list[int]:
    """Where the part of each file begins."""
    if sign == b"--- ":
        return _plain_places(data)
    found = [0] if data.startswith(sign) else []
    at = stringzilla.find(data, b"\n" + sign)
    while at >= 0:
        found.append(at + 1)
        at = stringzilla.find(data, b"\n" + sign, at + 1)
    return found


def _plain_places(data: bytes) -> list[int]:
    """Where only `---` begins a part, which a removed line may look like: so hunks are passed by their length."""
    found: list[int] = []
    at = old = new = 0
    for line in data.split(b"\n"):
        if old > 0 or new > 0:
            old, new = old - (line[:1] not in (b"+", b"\\")), new - (line[:1] not in (b"-", b"\\"))
        elif line.startswith(b"--- ") and _HEADER.match(data, at):
            found.append(at)
        elif hunk := _HUNK.match(line):
            old, new = int(hunk[1] or 1), int(hunk[2] or 1)
        at += len(line) + 1
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
    """`y` of `a/x b/y`. Where both are the same it is the second half, whatever spaces it has.

    Git may be told to write other letters, as in `i/x w/x`, or none.
    """
    middle = len(names) // 2
    if _PREFIXES.fullmatch(names[:2] + names[middle : middle + 3]) and names[2:middle] == names[middle + 3 :]:
        return names[middle + 3 :]
    if names[middle : middle + 1] == b" " and names[:middle] == names[middle + 1 :]:
        return names[:middle]
    if b" b/" not in names and b' "b/' not in names:
        return names.rpartition(b" ")[2]
    return names.rpartition(b" b/")[2].rpartition(b' "b/')[2].removesuffix(b'"')
