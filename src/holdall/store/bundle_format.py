"""The form of a bundle.

    one zstd frame, with a checksum:
        holdall bundle 1\\n                    the version of this format
        {what is in it, as JSON on one line}\\n
        entry 0/k3f9.record 1234\\n            the place of its session, its name there, its length
        <1234 bytes>sha256 <64 hex digits>\\n
        … further entries …
        end 17\\n                              how many there were
    one skippable zstd frame:
        holdall bundle end <sha256 of everything before this frame>\\n

Any zstd program can unpack it. Of each session: files of bytes, each followed by the records of its outputs; records
of expired outputs; notes; the transcript, the log, the tree, the list of masks. Names have the grammar below and no
other: nothing in it can lead out of a session's folder.
"""

import json
import re
from collections.abc import Callable
from typing import Literal, NamedTuple

from holdall.store.events import NAME as EVENTS
from holdall.store.remembered import FOLDER as ANSWERS
from holdall.store.session_files import TRANSCRIPT, TREE
from holdall.values.bundles import Bundle
from holdall.values.errors import BundleRefused
from holdall.values.handles import LETTERS, LONGEST, SHORTEST, SIGNS

VERSION = 1
HEAD = b"holdall bundle %d\n"
MASKS = "masks.ndjson"
LINE = 400  # bytes that a line of ours has at most, the list of contents aside
MOST_CONTENTS = 32 * 1024 * 1024  # bytes of the list of contents
MOST_IN_MEMORY = 64 * 1024 * 1024  # bytes of one record, note or tree: these are read whole
_END = b"holdall bundle end "
_SKIPPABLE = b"\x5d\x2a\x4d\x18"
TRAILER = len(_SKIPPABLE) + 4 + len(_END) + 64 + 1

_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAMES: dict[str, str] = {
    "bytes": rf"(?:{_UUID}\.(?:txt|json)|terminal/{_UUID}\.log)",
    "record": rf"[{LETTERS}][{SIGNS}]{{{SHORTEST - 1},{LONGEST - 1}}}\.record",
    "note": rf"{ANSWERS}/[0-9a-f]{{16,64}}-[0-9a-f]{{16,64}}",
    "transcript": re.escape(TRANSCRIPT),
    "events": re.escape(EVENTS),
    "tree": re.escape(TREE),
    "masks": re.escape(MASKS),
}
_ENTRY = re.compile(
    r"entry (?P<session>0|[1-9][0-9]{0,5})/(?P<name>[!-~]{1,250}) (?P<length>0|[1-9][0-9]{0,17})\n", re.ASCII
)
_KINDS = {kind: re.compile(pattern, re.ASCII) for kind, pattern in _NAMES.items()}
ORDER = {"bytes": 0, "record": 0, "note": 1, "transcript": 2, "events": 3, "tree": 4, "masks": 5}
Kind = Literal["bytes", "record", "note", "transcript", "events", "tree", "masks"]


class Entry(NamedTuple):
    session: int
    kind: Kind
    name: str
    length: int

    def line(self) -> bytes:
        return f"entry {self.session}/{self.name} {self.length}\n".encode("ascii")


def kind_of(name: str) -> Kind | None:
    """What a name inside a session stands for; None for every other name."""
    kinds: tuple[Kind, ...] = ("bytes", "record", "note", "transcript", "events", "tree", "masks")
    return next((kind for kind in kinds if _KINDS[kind].fullmatch(name)), None)


def entry_in(line: bytes) -> Entry:
    try:
        match = _ENTRY.fullmatch(line.decode("ascii"))
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise BundleRefused(f"this bundle is damaged: {shown(line)} is not the line of an entry.")
    kind = kind_of(match["name"])
    if kind is None:
        raise BundleRefused(f"this bundle has a file of the name {shown(line[6:])}, which no session has.")
    return Entry(int(match["session"]), kind, match["name"], int(match["length"]))


def contents_line(bundle: Bundle) -> bytes:
    return json.dumps(bundle.to_json(), ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"


def contents_in(line: bytes, check_name: Callable[[str], None]) -> Bundle:
    try:
        found = Bundle.from_json(json.loads(line))
        for session in found.sessions:
            check_name(session.name)
    except (ValueError, RecursionError) as problem:
        why = "it cannot be read as JSON" if isinstance(problem, json.JSONDecodeError | RecursionError) else problem
        raise BundleRefused(f"the list of contents of this bundle is damaged: {why}.") from problem
    return found


def trailer(digest: str) -> bytes:
    text = _END + digest.encode("ascii") + b"\n"
    return _SKIPPABLE + len(text).to_bytes(4, "little") + text


def version_in(line: bytes) -> int | None:
    """None where this is no bundle at all."""
    match = re.fullmatch(rb"holdall bundle ([0-9]{1,9})\n", line)
    return int(match[1]) if match else None


def shown(line: bytes) -> str:
    """A piece of a bad bundle as a message may show it."""
    return ascii(line[:60].decode("ascii", "replace").rstrip("\n"))
