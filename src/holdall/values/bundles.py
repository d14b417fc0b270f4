"""What a bundle of a session says of itself before its first output: its sessions, and how much of everything there is.

`to_json` and `from_json` are the spelling in the file. `from_json` believes nothing that it has not looked at.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, field, fields
from typing import Any, cast

from holdall.values.handles import is_uuid
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

MAX_SESSIONS = 10_000
MAX_ENTRIES = 2_000_000
MAX_WAS = 16  # earlier ids of a session: it was restored that often beside itself
MAX_RATIO = 200  # times its packed size that a bundle may unpack to, unless its user allows more
_MOST = 1 << 62  # of anything that is counted
_HEX = lazy_pattern(r"[0-9a-f]{64}")


@record
class BundledSession:
    """One session of a bundle. `parent` is the place of its parent among them; the first has none."""

    id: str
    name: str
    created: float
    parent: int = -1
    outputs: int = 0  # with bytes
    expired: int = 0  # of which only a tombstone is there
    bytes: int = 0  # of all outputs, identical ones each time
    stored_bytes: int = 0  # the same, identical ones once
    files: int = 0  # of bytes
    transcript_bytes: int = 0
    events_bytes: int = 0
    tree_bytes: int = 0
    notes: int = 0
    note_bytes: int = 0
    format: int = 1  # how its records and logs are written; a bundle of version 1 has no other
    was: tuple[str, ...] = ()  # its earlier ids; told only of a session that had one

    @property
    def told_bytes(self) -> int:
        """All of its bytes that are told beforehand; records and masks come on top, and are counted as they come."""
        return self.stored_bytes + self.transcript_bytes + self.events_bytes + self.tree_bytes + self.note_bytes

    @property
    def entries(self) -> int:
        """How many files of the session are in the bundle, at most."""
        return self.outputs + self.expired + self.files + self.notes + 4

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "was" or value}


@record
class Bundle:
    """Everything that is in a bundle, in numbers."""

    sessions: tuple[BundledSession, ...]
    redacted: bool = False

    @property
    def name(self) -> str:
        return self.sessions[0].name

    @property
    def version(self) -> int:
        """Of the format that it takes: the newest of its sessions, so that an older program reads what it can."""
        return max(one.format for one in self.sessions)

    @property
    def outputs(self) -> int:
        return sum(one.outputs for one in self.sessions)

    @property
    def expired(self) -> int:
        return sum(one.expired for one in self.sessions)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.sessions)

    @property
    def stored_bytes(self) -> int:
        return sum(one.stored_bytes for one in self.sessions)

    @property
    def entries(self) -> int:
        return sum(one.entries for one in self.sessions)

    def to_json(self) -> dict[str, Any]:
        left_out = () if self.version > 1 else ("format",)
        told = [{name: value for name, value in one.to_json().items() if name not in left_out} for one in self.sessions]
        return {"redacted": self.redacted, "sessions": told}

    @staticmethod
    def from_json(flat: object, version: int = 1) -> "Bundle":
        """Of a bundle of this version. Raises ValueError, which says what is wrong."""
        if not isinstance(flat, Mapping):
            raise ValueError("its list of contents is not an object")
        table = cast("Mapping[str, object]", flat)
        listed, redacted = table.get("sessions"), table.get("redacted")
        if set(table) != {"sessions", "redacted"} or not isinstance(redacted, bool):
            raise ValueError("its list of contents has other fields than it should")
        if not isinstance(listed, list) or not 1 <= len(cast("list[object]", listed)) <= MAX_SESSIONS:
            raise ValueError(f"it must hold 1 to {MAX_SESSIONS:,} sessions")
        sessions = tuple(_session(one, at, version) for at, one in enumerate(cast("list[object]", listed)))
        if len({one.id for one in sessions}) < len(sessions) or len({one.name for one in sessions}) < len(sessions):
            raise ValueError("two of its sessions have the same id or name")
        found = Bundle(sessions, redacted)
        if found.version != version or min(one.format for one in sessions) < 1:
            raise ValueError("the formats of its sessions are not those of its version")
        if found.entries > MAX_ENTRIES:
            raise ValueError(f"it says that it has {found.entries:,} files; {MAX_ENTRIES:,} is the most")
        return found


@record
class Mask:
    """Where something was masked, and what kind of secret it was taken for; never the secret.

    `start` and `end` are bytes of the file; in a record, of what it says as JSON. `handle` is empty if it was in no
    output and no record.
    """

    kind: str
    file: str
    handle: str = ""
    start: int = 0
    end: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@record
class Exported:
    """What was written. `masks` counts what was masked, by kind; `places` are the first of them; `packed` are the
    handles of outputs in which nothing could be.
    """

    bundle: Bundle
    written: int  # bytes of the file
    masks: Mapping[str, int] = field(default_factory=dict[str, int])
    places: Sequence[Mask] = ()
    packed: Sequence[str] = ()


@record
class Imported:
    """What was restored: the names that its sessions have here, in the order of the bundle."""

    bundle: Bundle
    names: tuple[str, ...]
    ids: tuple[str, ...]
    new_ids: bool = False  # the ids of the bundle were taken


def _session(flat: object, at: int, version: int) -> BundledSession:
    if not isinstance(flat, Mapping):
        raise ValueError("one of its sessions is not an object")
    table = cast("Mapping[str, Any]", flat)
    none: list[str] = []
    missing: dict[str, Any] = {"was": none, **({"format": 1} if version == 1 else {})}
    table = missing | dict(table)
    if set(table) != {one.name for one in fields(BundledSession)}:
        raise ValueError("one of its sessions has other fields than it should")
    id, name, created, parent = table["id"], table["name"], table["created"], table["parent"]
    if not isinstance(id, str) or not is_uuid(id):
        raise ValueError("the id of a session is not one")
    if not isinstance(name, str):
        raise ValueError("the name of a session is not a text")
    if isinstance(created, bool) or not isinstance(created, int | float) or not _is_time(created):
        raise ValueError("the time at which a session was made is not one")
    if not _is_count(parent, least=-1) or (parent != -1 if at == 0 else not 0 <= parent < at):
        raise ValueError("a session is listed before its parent, or without one")
    was = cast("list[Any]", table["was"])
    if type(was) is not list or len(was) > MAX_WAS or not all(isinstance(one, str) and is_uuid(one) for one in was):
        raise ValueError("the earlier ids of a session are not ids")
    counts = {one.name: table[one.name] for one in fields(BundledSession)[4:-1]}
    if not all(_is_count(number) for number in counts.values()):
        raise ValueError("a number of its list of contents is not a count")
    return BundledSession(id, name, float(created), parent, **counts, was=tuple(was))


def _is_count(value: object, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < _MOST


def _is_time(value: float) -> bool:
    return value < _MOST and math.isfinite(value) and value > -_MOST


def is_sha256(text: object) -> bool:
    return isinstance(text, str) and _HEX.fullmatch(text) is not None
