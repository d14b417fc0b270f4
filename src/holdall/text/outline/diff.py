"""Diffs: which files, with lines added and removed."""

import re

from holdall.text.numbers import plural
from holdall.text.outline.model import Outline, cut, fitted
from holdall.text.outline.sample import Sample

_FILE = re.compile(
    rb"^(?:diff --git [^\n]{1,1000}|Index: [^\n]{1,500}|--- [^\n]{1,500}\n\+\+\+ [^\n]{1,500})$", re.MULTILINE
)
_GIT = re.compile(rb"diff --git \"?a/(?P<old>.+?)\"? \"?b/(?P<new>.+?)\"?\s*$")
_NEW = re.compile(rb"^\+\+\+ (?:b/)?(?P<new>[^\t\n]+)", re.MULTILINE)
_STATE = re.compile(rb"^(?P<state>new file|deleted file|rename from|Binary files|GIT binary)", re.MULTILINE)
_STATES = {b"new file": "new", b"deleted file": "deleted", b"rename from": "renamed"}


def diff_outline(sample: Sample, budget: int) -> Outline | None:
    files: dict[str, list[int]] = {}
    notes: dict[str, str] = {}
    for _, data in sample.pieces:
        heads = [match.span() for match in _FILE.finditer(data)]
        # `Index:` and `diff --git` stand above a `---` of their own file, which is not another one.
        starts = [a for a, _ in heads if data[a : a + 4] != b"--- " or not _follows(data, a, heads)]
        for at, start in enumerate(starts):
            part = data[start : starts[at + 1] if at + 1 < len(starts) else len(data)]
            name = _name(part)
            plus, minus = part.count(b"\n+") - part.count(b"\n+++ "), part.count(b"\n-") - part.count(b"\n--- ")
            known = files.setdefault(name, [0, 0])
            known[0] += plus
            known[1] += minus
            state = _STATE.search(part, 0, 600)
            if state:
                notes[name] = _STATES.get(state["state"], "binary")
    if not files:
        return None
    about = "" if sample.whole else "~"
    scale = 1.0 if sample.whole else sample.size / sum(len(data) for _, data in sample.pieces)
    added, removed = (round(sum(each[side] for each in files.values()) * scale) for side in (0, 1))
    seen = plural(len(files), "file") if sample.whole else f"at least {plural(len(files), 'file')}"
    told = [f"{seen}, {about}+{added:,} −{removed:,}"]
    ranked = sorted(files.items(), key=lambda each: -sum(each[1]))
    told += [_line(name, counts, notes.get(name, "")) for name, counts in ranked]
    kept = list(fitted(told, budget - 40))
    if len(kept) < len(told):
        kept.append(f"… {plural(len(told) - len(kept), 'more file')}")
    return Outline("diff", tuple(kept), not sample.whole, ())


def _line(name: str, counts: list[int], note: str) -> str:
    return f"+{counts[0]:,} −{counts[1]:,}  {cut(name, 160)}" + (f" ({note})" if note else "")


def _follows(data: bytes, start: int, heads: list[tuple[int, int]]) -> bool:
    """Whether this `---` belongs to a header that stands shortly above it, with no hunk between."""
    above = data.rfind(b"diff --git ", max(0, start - 2000), start)
    above = max(above, data.rfind(b"Index: ", max(0, start - 2000), start))
    return above >= 0 and len(heads) > 1 and b"\n@@ " not in data[above:start]


def _name(part: bytes) -> str:
    first = part[: part.find(b"\n") if b"\n" in part else len(part)]
    git = _GIT.match(first)
    new = _NEW.search(part, 0, 3000)
    if git:
        name = git["new"]
    elif first.startswith(b"Index: "):
        name = first[7:]
    else:
        name = new["new"] if new and new["new"] != b"/dev/null" else first[4:].split(b"\t")[0].removeprefix(b"a/")
    return name.decode("utf-8", "replace").strip()
