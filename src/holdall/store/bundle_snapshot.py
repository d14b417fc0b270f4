"""What of a session goes into a bundle, as it is at one moment, while others may go on writing in it.

Logs are looked at before outputs, and a parent before the agents that it started: whatever a log names was there
before, so everything that it names is in the bundle. Outputs never change; of a running one, what is there now. Nothing
is locked, and nothing is read here but small files.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from holdall.store import bundle_format as form
from holdall.store import disk
from holdall.store.bundle_format import MASKS
from holdall.store.directory import DirectoryStore
from holdall.store.events import NAME as EVENTS
from holdall.store.folder import SessionFolder
from holdall.store.protocol import SessionInfo
from holdall.store.remembered import FOLDER as ANSWERS
from holdall.store.session_files import TRANSCRIPT, TREE
from holdall.values.bundles import MOST_SESSIONS, Bundle, BundledSession
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts

UNFINISHED = ("running", "queued")
_BACK = 64 * 1024


@dataclass(slots=True)
class Stored:
    """One file of bytes, and the outputs that share it."""

    file: str
    length: int
    outputs: list[Facts] = field(default_factory=list[Facts])
    descriptor: int = -1  # of a running one: held, because its file goes where its end is found to be known already

    @property
    def is_unfinished(self) -> bool:
        return self.outputs[0].state in UNFINISHED


@dataclass(slots=True)
class SessionSnapshot:
    session: SessionInfo
    folder: SessionFolder
    parent: int
    logs: dict[str, int]  # by name: the length of their whole lines
    tree: bytes | None
    stored: list[Stored]
    expired: list[Facts]
    notes: list[tuple[str, int]]  # name and length

    def to_bundle(self) -> BundledSession:
        return BundledSession(
            id=self.session.id,
            name=self.session.name,
            created=self.session.created,
            parent=self.parent,
            outputs=sum(len(one.outputs) for one in self.stored),
            expired=len(self.expired),
            bytes=sum(one.length * len(one.outputs) for one in self.stored),
            stored_bytes=sum(one.length for one in self.stored),
            files=len(self.stored),
            transcript_bytes=self.logs.get(TRANSCRIPT, 0),
            events_bytes=self.logs.get(EVENTS, 0),
            tree_bytes=len(self.tree or b""),
            notes=len(self.notes),
            note_bytes=sum(length for _, length in self.notes),
        )


class Snapshot:
    """The session that is exported, and every session below it. Holds running outputs open until it is closed."""

    def __init__(self, store: DirectoryStore, session: SessionInfo) -> None:
        self.sessions: list[SessionSnapshot] = []
        self._held: list[int] = []
        try:
            self._take(store, session)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())

    def bundle(self, *, redacted: bool) -> Bundle:
        masked = redacted or any(MASKS in one.logs for one in self.sessions)
        return Bundle(tuple(one.to_bundle() for one in self.sessions), masked)

    def _take(self, store: DirectoryStore, session: SessionInfo) -> None:
        waiting = [(session, -1)]
        while waiting:
            one, parent = waiting.pop(0)
            place = len(self.sessions)
            if place >= MOST_SESSIONS:
                raise StoreFault(f"more than {MOST_SESSIONS:,} sessions are too many for one bundle.")
            self.sessions.append(self._one(store, one, parent))
            # Only now: whoever is named in the log that was just looked at is there.
            known = {taken.session.id for taken in self.sessions} | {other.id for other, _ in waiting}
            below = [child for child in store.sessions() if child.parent == one.id and child.id not in known]
            waiting += [(child, place) for child in sorted(below, key=lambda child: (child.created, child.id))]

    def _one(self, store: DirectoryStore, session: SessionInfo, parent: int) -> SessionSnapshot:
        logs, tree = _logs(store, session)
        folder, outputs, faults = store.survey(session)
        for fault in faults.values():  # what cannot be read cannot be exported, and is not left out in silence
            raise fault
        notes = list(_notes(folder))
        stored, expired = self._stored(folder, outputs)
        return SessionSnapshot(session, folder, parent, logs, tree, stored, expired, notes)

    def _stored(self, folder: SessionFolder, outputs: Sequence[Facts]) -> tuple[list[Stored], list[Facts]]:
        stored: dict[str, Stored] = {}
        expired: list[Facts] = []
        for facts in outputs:
            if facts.state == "expired":
                expired.append(facts)
            elif facts.state in UNFINISHED:
                descriptor = folder.open_bytes(facts)
                self._held.append(descriptor)
                stored[facts.file] = Stored(facts.file, os.fstat(descriptor).st_size, [facts], descriptor)
            else:
                stored.setdefault(facts.file, Stored(facts.file, facts.measure.bytes)).outputs.append(facts)
        return list(stored.values()), expired


def _logs(store: DirectoryStore, session: SessionInfo) -> tuple[dict[str, int], bytes | None]:
    tree = store.tree(session)
    folder, _, _ = store.survey(session)
    found: dict[str, int] = {}
    for name in (TRANSCRIPT, EVENTS, MASKS):
        with contextlib.suppress(FileNotFoundError):
            if length := whole_lines(name, inside=folder.descriptor):
                found[name] = length
    if tree is not None and len(tree) > form.MOST_IN_MEMORY:
        raise StoreFault(f"{TREE} has {len(tree):,} bytes, which is more than a bundle takes.")
    return found, tree


def whole_lines(name: str, *, inside: int) -> int:
    """Up to where a file that others append to has whole lines."""
    descriptor = disk.open_file(name, inside=inside)
    try:
        end = os.fstat(descriptor).st_size
        while end:
            start = max(0, end - _BACK)
            newline = os.pread(descriptor, end - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0
    finally:
        os.close(descriptor)


def _notes(folder: SessionFolder) -> Iterator[tuple[str, int]]:
    with contextlib.suppress(FileNotFoundError):
        inside = disk.open_folder(ANSWERS, inside=folder.descriptor)
        try:
            for name in sorted(disk.names_in(inside)):
                if form.kind_of(f"{ANSWERS}/{name}") == "note":
                    with contextlib.suppress(FileNotFoundError):
                        yield name, os.stat(name, dir_fd=inside, follow_symlinks=False).st_size
        finally:
            os.close(inside)
