"""How sessions that were put together elsewhere come into the store: all of them, or none.

    HOME/.import-<tag>/        where they are put together; locked by that process
    HOME/names/.importing      which of them are about to be given their place, and where they are

Once the second is durable they all come: by the process that wrote it or, if that was killed, by the next one that
opens the store. Before that nobody sees any of them, and what a killed process left is removed.
"""

import contextlib
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, cast

from holdall.store import files, records
from holdall.store.directory import disk
from holdall.store.directory.sessions import NAMES, Sessions
from holdall.store.files import write_all
from holdall.store.ids import new_tag
from holdall.store.ingest import WorkThread
from holdall.store.protocol import Log, SessionInfo
from holdall.store.records import PREFIX
from holdall.store.totals import taken
from holdall.values.errors import SessionExists, StoreFault
from holdall.values.handles import is_uuid
from holdall.values.outputs import Facts
from holdall.values.retention import Retention
from holdall.values.spans import BlockTable

STAGING = ".import-"
JOURNAL = ".importing"
_HELD = ".held"
_LARGE = 4 * 1024 * 1024


class StagedFolder:
    """The folder of one session, before it has its place. Nobody reads it yet, so nothing here has to be undone."""

    def __init__(self, folder: int, version: int) -> None:
        self._folders = {"": folder}
        self._version = version

    def write_bytes(self, file: str, chunks: Iterable[bytes], length: int) -> None:
        self._write(file, chunks, is_large=length > _LARGE)

    def write_record(self, facts: Facts, table: BlockTable) -> None:
        self._write(facts.handle + records.SUFFIX, [records.encode(facts, table, self._version)])

    def write_note(self, content: str, key: str, data: bytes) -> None:
        self._write(f"{records.ANSWERS}/{records.note_name(content, key)}", [data])

    def write_log(self, log: Log, chunks: Iterable[bytes]) -> None:
        self._write(records.LOGS[log], chunks)

    def write_tree(self, data: bytes) -> None:
        self._write(records.TREE, [data])

    def finish(self) -> None:
        for opened in self._folders.values():
            files.fsync(opened)

    def close(self) -> None:
        while self._folders:
            files.close(self._folders.popitem()[1])

    def _write(self, name: str, chunks: Iterable[bytes], *, is_large: bool = False) -> None:
        sub, _, plain = name.rpartition("/")
        descriptor = disk.create(plain, inside=self._inside(sub))
        writing = WorkThread(lambda data: write_all(descriptor, data)) if is_large else None
        try:
            for chunk in chunks:
                writing.give(chunk) if writing is not None else write_all(descriptor, chunk)
            if writing is not None:
                writing.finish()
            files.fsync(descriptor)
        finally:
            if writing is not None:
                writing.stop()
            files.close(descriptor)

    def _inside(self, sub: str) -> int:
        if sub not in ("", records.TERMINAL, records.ANSWERS):
            raise StoreFault(f"no session has a folder {sub[:80]!r}.")
        if sub not in self._folders:
            self._folders[sub] = disk.make_folder(sub, inside=self._folders[""])
        return self._folders[sub]


class StagingFolder:
    """Where sessions are put together: the open `folder` of this name in the open folder `root`."""

    def __init__(self, root: int, folder: int, name: str, sessions: Sessions) -> None:
        self.root = root
        self.folder = folder
        self.name = name
        self._sessions = sessions
        self._staged = Sessions(folder, lambda: 0.0)

    def session(self, info: SessionInfo) -> StagedFolder:
        return StagedFolder(self._staged.restore(info), info.format)

    def publish(self, sessions: Sequence[SessionInfo]) -> None:
        publish(self, self._sessions, sessions)


@contextlib.contextmanager
def staging(root: int, sessions: Sessions) -> Generator[StagingFolder]:
    """A folder of our own; what is still in it afterwards is removed."""
    name = STAGING + new_tag(16)
    with sessions.naming() as names:  # so that nobody takes a folder for abandoned that is just being made
        if not _is_there(JOURNAL, names):
            for _ in _abandoned(root, remove=True):
                pass
        folder = None
        try:
            folder = disk.make_folder(name, inside=root)
            held = disk.create(_HELD, inside=folder)
        except BaseException:
            if folder is not None:
                files.close(folder)
            with contextlib.suppress(OSError):
                files.rmdir(name, dir_fd=root)
            raise
    try:
        yield StagingFolder(root, folder, name, sessions)
    finally:
        _remove(root, folder, name)
        files.close(held)


def publish(staged: StagingFolder, sessions: Sessions, infos: Sequence[SessionInfo]) -> None:
    """Give the sessions in the staging folder their places and names. The first is the one above the others."""
    with sessions.naming() as names:
        _finish(staged.root, sessions, names)
        for info in infos:
            if sessions.find(info.name) is not None:
                raise SessionExists(taken(info.name))
            if _is_there(PREFIX + info.id, staged.root):
                raise StoreFault(f"{PREFIX}{info.id} came into the store meanwhile. Import the bundle again.")
        try:
            _write_journal(names, staged.name, infos)
            _carry_out(staged.root, staged.folder, sessions, infos)
            files.fsync(names)
        except OSError:
            _undo(staged, sessions, infos)
            with contextlib.suppress(FileNotFoundError):
                files.unlink(JOURNAL, dir_fd=names)
            raise
        with contextlib.suppress(OSError):  # done: another process that finds the journal has nothing left to do
            files.unlink(JOURNAL, dir_fd=names)


def recover_interrupted_imports(root: int, sessions: Sessions) -> None:
    """Finish imports that a killed process had started to publish. Called at every opening of a store, so it must be
    cheap.
    """
    try:
        files.stat(f"{NAMES}/{JOURNAL}", dir_fd=root)
    except OSError:
        return
    with contextlib.suppress(OSError, StoreFault), sessions.naming() as names:  # or by the next process that can
        _finish(root, sessions, names)


def _finish(root: int, sessions: Sessions, names: int) -> None:
    try:
        staged, infos = _read_journal(disk.read_file(JOURNAL, inside=names))
    except FileNotFoundError:
        return
    except (ValueError, KeyError, TypeError):  # none of ours, or damaged: then nobody can tell what was meant
        files.unlink(JOURNAL, dir_fd=names)
        return
    try:
        folder = disk.open_folder(staged, inside=root)
    except FileNotFoundError:  # they all have their places
        folder = None
    try:
        _carry_out(root, folder, sessions, infos)
    except BaseException:
        if folder is not None:
            files.close(folder)
        raise
    files.fsync(names)
    files.unlink(JOURNAL, dir_fd=names)
    if folder is not None:
        _remove(root, folder, staged)


def _carry_out(root: int, folder: int | None, sessions: Sessions, infos: Sequence[SessionInfo]) -> None:
    """Also where a part of it is done already. Those below come first: without the first one there is none."""
    for info in reversed(infos):
        name = PREFIX + info.id
        # A disk that lost its power may have it in both places: what is published stays.
        if folder is not None and _is_there(name, folder) and not _is_there(name, root):
            files.rename(name, name, src_dir_fd=folder, dst_dir_fd=root)
    files.fsync(root)
    for info in infos:
        if _is_there(PREFIX + info.id, root):
            sessions.claim(info)


def _undo(staged: StagingFolder, sessions: Sessions, infos: Sequence[SessionInfo]) -> None:
    for info in infos:
        with contextlib.suppress(OSError):
            sessions.forget(info.name)
        with contextlib.suppress(OSError):
            files.rename(PREFIX + info.id, PREFIX + info.id, src_dir_fd=staged.root, dst_dir_fd=staged.folder)
    with contextlib.suppress(OSError):
        files.fsync(staged.root)


def _write_journal(names: int, staged: str, infos: Sequence[SessionInfo]) -> None:
    told = {"staging": staged, "sessions": [{"id": one.id, "name": one.name} for one in infos]}
    disk.write_new(JOURNAL, json.dumps(told).encode("ascii"), inside=names, token=new_tag(), replace=True)
    files.fsync(names)


def _read_journal(data: bytes) -> tuple[str, list[SessionInfo]]:
    flat: dict[str, Any] = json.loads(data)
    staged, listed = flat["staging"], cast("list[dict[str, str]]", flat["sessions"])
    if not isinstance(staged, str) or not staged.startswith(STAGING) or "/" in staged:
        raise ValueError("not a name of ours")
    if not all(is_uuid(one["id"]) for one in listed):
        raise ValueError("not the id of a session")
    return staged, [SessionInfo(one["id"], one["name"], 0.0, Retention(days=None)) for one in listed]


def _is_there(name: str, inside: int) -> bool:
    try:
        files.stat(name, dir_fd=inside)
    except FileNotFoundError:
        return False
    return True


def left_over(root: int, *, remove: bool) -> list[tuple[str, int]]:
    """What killed imports left in the open data folder, and how many bytes; with `remove` it goes."""
    sessions = Sessions(root, lambda: 0.0)
    try:
        if not any(name.startswith(STAGING) for name in disk.names_in(root)):
            return []
        with sessions.naming() as names:
            return [] if _is_there(JOURNAL, names) else list(_abandoned(root, remove=remove))
    finally:
        sessions.close()


def _abandoned(root: int, *, remove: bool) -> Iterator[tuple[str, int]]:
    """A running import holds a lock on its folder. The caller holds the lock on names, so that no new one appears."""
    for name in disk.names_in(root):
        if not name.startswith(STAGING):
            continue
        with contextlib.suppress(OSError, StoreFault):
            folder = disk.open_folder(name, inside=root)
            try:
                size = -1 if _is_in_use(folder) else _size(folder)
            except BaseException:
                files.close(folder)
                raise
            if size >= 0 and remove:
                _remove(root, folder, name)
            else:
                files.close(folder)
            if size >= 0:
                yield name, size


def _size(folder: int) -> int:
    total = 0
    for name in disk.names_in(folder):
        with contextlib.suppress(OSError):
            try:
                inner = disk.open_folder(name, inside=folder)
            except StoreFault:  # no folder
                total += files.stat(name, dir_fd=folder).st_size
                continue
            try:
                total += _size(inner)
            finally:
                files.close(inner)
    return total


def _is_in_use(folder: int) -> bool:
    try:
        held = disk.open_file(_HELD, inside=folder)
    except FileNotFoundError:
        return False
    try:
        return disk.is_held(held)
    finally:
        files.close(held)


def _remove(root: int, folder: int, name: str) -> None:
    """A staging folder with all that is in it; `folder` is closed. What cannot be removed is left for the next one."""
    with contextlib.suppress(OSError):
        try:
            _empty(folder)
        finally:
            files.close(folder)
        files.rmdir(name, dir_fd=root)


def _empty(folder: int) -> None:
    """Remove what is in an open folder, the file that says who holds it last. Links are removed, never followed."""
    for name in sorted(disk.names_in(folder), key=lambda name: (name == _HELD, name)):
        with contextlib.suppress(OSError):
            try:
                inner = disk.open_folder(name, inside=folder)
            except (OSError, StoreFault):
                files.unlink(name, dir_fd=folder)
                continue
            try:
                _empty(inner)
            finally:
                files.close(inner)
            files.rmdir(name, dir_fd=folder)
