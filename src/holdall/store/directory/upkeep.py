"""Maintenance of a store: expiry, left-over files, verification, totals.

Nothing here runs automatically; `due` says when the next run is due. A dry run reports the same and changes nothing.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from holdall.store import files
from holdall.store.directory import disk, publish
from holdall.store.directory.folder import SessionFolder, holds_bytes
from holdall.store.directory.placement import check_readable
from holdall.store.directory.sessions import NAMES
from holdall.store.protocol import Progress, SessionInfo, Sweep, Verdict
from holdall.store.records import ANSWERS, PREFIX
from holdall.store.totals import Logged, bad_lines, is_over, prove, would_free
from holdall.values.errors import HoldallError, OutputDamaged, StoreFault
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK

MARK = ".last-gc"
_EVERY_SECONDS = 86_400.0
_ASIDE = ".sqlite.damaged-"  # caches that were kept when they were damaged, with text of what was removed since
_ABANDONED_SECONDS = 3600.0  # a file without a record may still be on its way for this long


class MaintainedStore(Logged, Protocol):
    """What upkeep needs of a directory store."""

    @property
    def home(self) -> str: ...

    @property
    def root(self) -> int:
        """The open data folder."""
        ...

    @property
    def clock(self) -> Callable[[], float]: ...

    def sessions(self) -> Sequence[SessionInfo]: ...

    def unreadable_sessions(self) -> Mapping[str, StoreFault]: ...

    def survey(self, session: SessionInfo) -> tuple[SessionFolder, Sequence[Facts], dict[str, StoreFault]]: ...

    def expire(self, session: SessionInfo, outputs: Sequence[Facts], rule: str) -> int: ...


def due(store: MaintainedStore) -> bool:
    """Whether the last gc was a day ago or more."""
    try:
        # A mark of the future was made by a clock that went wrong; else it would count until then.
        return abs(store.clock() - files.stat(MARK, dir_fd=store.root).st_mtime) >= _EVERY_SECONDS
    except OSError:
        return True


def sweep(store: MaintainedStore, *, dry_run: bool = False) -> Sweep:
    """Carry out retention and remove what killed writers left behind."""
    with disk.explained("removing what is over", store.home):
        return _sweep(store, dry_run=dry_run)


def _sweep(store: MaintainedStore, *, dry_run: bool) -> Sweep:
    now = store.clock()
    sessions = store.sessions()  # first of all: this also makes sure that the data folder is still ours
    if not dry_run:
        _mark(store, now)
    expired: list[tuple[str, Facts]] = []
    leftovers: list[str] = []
    held: list[tuple[str, str]] = []
    freed = 0
    for session in sessions:
        folder, outputs, faults = store.survey(session)
        over = [facts for facts in outputs if is_over(session, facts, now)]
        try:
            check_readable(faults if over else ())
        except StoreFault as problem:
            held.append((session.name, str(problem)))
            over = []
        expired += [(session.name, facts) for facts in over]
        if over and not dry_run:
            freed += store.expire(session, over, f"kept for {session.retention.told}")
        if dry_run:
            freed += would_free(outputs, over)
        for name, size in [*_leftovers(store, session, folder, now), *_notes_left(folder, now)]:
            if dry_run or _remove(folder, name):
                leftovers.append(f"{session.name}/{name}")
                freed += size
    for name, size in _strays(store, now, dry_run=dry_run):
        leftovers.append(name)
        freed += size
    for name, size in publish.left_over(store.root, remove=not dry_run):
        leftovers.append(name)
        freed += size
    return Sweep(tuple(expired), tuple(leftovers), freed, dry_run, tuple(held))


def verify(
    store: MaintainedStore, sessions: Sequence[SessionInfo] | None = None, *, progress: Progress | None = None
) -> Iterator[Verdict]:
    """Read every stored byte again and compare every hash."""
    if sessions is None:
        for name, fault in store.unreadable_sessions().items():
            yield Verdict(name, "-", 0, str(fault))
    done = 0
    for session in store.sessions() if sessions is None else sessions:
        folder, outputs, faults = store.survey(session)
        for handle, fault in faults.items():
            yield Verdict(session.name, handle, 0, str(fault))
        for facts in outputs:
            if facts.state in ("expired", "running"):
                continue
            try:
                if not _prove(folder, facts, progress, done):
                    continue
            except (HoldallError, OSError) as problem:
                yield Verdict(session.name, facts.handle, facts.measure.bytes, str(problem))
            else:
                yield Verdict(session.name, facts.handle, facts.measure.bytes)
            done += facts.measure.bytes
        yield from bad_lines(store, session)


def _leftovers(
    store: MaintainedStore, session: SessionInfo, folder: SessionFolder, now: float
) -> Iterator[tuple[str, int]]:
    """Files of the session that nobody writes, that are not new, and that no record names."""
    found = {prefix + name: size for prefix, inside in folder.places() for name, size in _abandoned(inside, now)}
    # The records are read after the files: a writer that released a file meanwhile had written its record first.
    _, outputs, faults = store.survey(session)
    if not faults:  # an unreadable record may name any file: then nothing counts as left over
        named = {facts.file for facts in outputs}
        yield from ((name, size) for name, size in found.items() if name not in named)


def _notes_left(folder: SessionFolder, now: float) -> Iterator[tuple[str, int]]:
    """Notes about outputs that were not written to their end."""
    with contextlib.suppress(FileNotFoundError):
        inside = disk.open_folder(ANSWERS, inside=folder.descriptor)
        try:
            found = list(_abandoned(inside, now))
        finally:
            files.close(inside)
        yield from ((f"{ANSWERS}/{name}", size) for name, size in found)


def _abandoned(inside: int, now: float) -> Iterator[tuple[str, int]]:
    for name in disk.names_in(inside):
        if not name.startswith(disk.INCOMING) and not holds_bytes(name):
            continue
        with contextlib.suppress(OSError, HoldallError):
            descriptor = disk.open_file(name, inside=inside)
            try:
                about = files.fstat(descriptor)
                old = now - about.st_mtime >= _ABANDONED_SECONDS
                if old and not disk.is_held(descriptor):
                    yield name, about.st_size
            finally:
                files.close(descriptor)


def _strays(store: MaintainedStore, now: float, *, dry_run: bool) -> Iterator[tuple[str, int]]:
    """Files outside of sessions: damaged caches, and temporary ones beside the names of sessions and in folders that
    never became one."""
    sessions = {PREFIX + session.id for session in store.sessions()}
    for place in disk.names_in(store.root):
        if _ASIDE in place:
            with contextlib.suppress(OSError):
                yield place, files.stat(place, dir_fd=store.root).st_size
                if not dry_run:
                    files.unlink(place, dir_fd=store.root)
        if place in sessions or not place.startswith((NAMES, PREFIX)):
            continue
        with contextlib.suppress(OSError, HoldallError):
            inside = disk.open_folder(place, inside=store.root)
            try:
                old = now - files.fstat(inside).st_mtime >= _ABANDONED_SECONDS
                for name, size in _abandoned(inside, now):
                    if name.startswith(disk.INCOMING):
                        yield f"{place}/{name}", size
                        if not dry_run:
                            disk.remove_abandoned(name, inside=inside)
            finally:
                files.close(inside)
            if old and place != NAMES and not dry_run:
                files.rmdir(place, dir_fd=store.root)  # fails where anything is in it


def _remove(folder: SessionFolder, name: str) -> bool:
    sub, _, plain = name.rpartition("/")
    if sub != ANSWERS:
        return disk.remove_abandoned(plain, inside=folder.terminal() if sub else folder.descriptor)
    inside = disk.open_folder(ANSWERS, inside=folder.descriptor)
    try:
        return disk.remove_abandoned(plain, inside=inside)
    finally:
        files.close(inside)


def _prove(folder: SessionFolder, facts: Facts, progress: Progress | None, done: int) -> bool:
    """Raises where one byte is not as it came; False if it expired since it was listed.

    `done` bytes of other outputs were read before.
    """
    loaded = folder.load(facts.handle)
    if loaded is None:
        raise OutputDamaged(facts.handle, "its record was removed while it was read")
    facts, table = loaded
    if facts.state == "expired":
        return False
    descriptor = folder.open_bytes(facts)
    try:
        if facts.state == "running":
            # Its writer is gone, and on a full disk its record could not be ended: it has no hash to compare with yet.
            return True
        here = files.fstat(descriptor).st_size
        if here != facts.measure.bytes:
            what = "truncated" if here < facts.measure.bytes else "grown"
            raise OutputDamaged(facts.handle, f"its file has {here:,} bytes of {facts.measure.bytes:,} ({what})")
        prove(facts, table, lambda index: files.pread(descriptor, BLOCK, index * BLOCK), progress, done)
    finally:
        files.close(descriptor)
    return True


def _mark(store: MaintainedStore, now: float) -> None:
    with contextlib.suppress(OSError):
        flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = files.open(MARK, flags, dir_fd=store.root)
        try:
            files.fchmod(descriptor, 0o600)
            files.utime(descriptor, now)
        finally:
            files.close(descriptor)
