"""Writers with one deliberate mistake each. A suite that does not notice them proves nothing."""

import os
import types
from collections.abc import Callable, Sequence

from holdall.store import files, ingest
from holdall.store.directory import disk, folder, placement
from holdall.store.directory.folder import TERMINAL, SessionFolder
from holdall.store.directory.index import Catalogue
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.outputs import Facts
from holdall.values.spans import BlockTable


def record_before_data() -> None:
    """Publishes the record, and only then gives the bytes the name that it speaks of."""
    waiting: list[tuple[str, str, int, int]] = []
    publish = SessionFolder.publish

    def place(
        folder: SessionFolder, catalogue: Catalogue, facts: Facts, table: BlockTable, temporary: str, inside: int
    ) -> str:
        file = f"{TERMINAL}/{facts.id}.log" if facts.origin.terminal else f"{facts.id}.txt"
        target, name = folder.inside(file)
        waiting.append((temporary, name, inside, target))
        return file

    def publish_first(self: SessionFolder, facts: Facts, table: BlockTable) -> Facts:
        named = publish(self, facts, table)
        for temporary, name, inside, target in waiting:
            os.rename(temporary, name, src_dir_fd=inside, dst_dir_fd=target)
            os.fsync(target)
        waiting.clear()
        return named

    placement.place = place
    SessionFolder.publish = publish_first


def data_not_synced() -> None:
    """Leaves the bytes to the page cache."""
    _without_fsync(ingest)


def folder_not_synced() -> None:
    """Syncs the files, and never the folder that holds their names."""
    _without_fsync(folder)


def home_not_synced() -> None:
    """Syncs everything inside the data folder, and not the name of the data folder itself."""

    def sync_above(path: str) -> None:
        pass

    disk.sync_above = sync_above


def record_in_place() -> None:
    """Writes the record under its own name instead of a temporary one."""

    def write_new(name: str, data: bytes, *, inside: int, token: str, replace: bool) -> None:
        flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL)
        descriptor = os.open(name, flags, 0o600, dir_fd=inside)
        disk.write_all(descriptor, data)
        os.fsync(descriptor)
        os.close(descriptor)

    disk.write_new = write_new


def bytes_before_tombstone() -> None:
    """Removes the bytes of an expired output first, and then says so in its record."""
    expire = DirectoryStore.expire

    def expire_bytes_first(self: DirectoryStore, session: SessionInfo, outputs: Sequence[Facts], rule: str) -> int:
        for facts in outputs:
            os.unlink(os.path.join(self.home, f"session-{session.id}", facts.file))
        return expire(self, session, outputs, rule)

    DirectoryStore.expire = expire_bytes_first


def _without_fsync(module: types.ModuleType) -> None:
    """What `module` calls its files is the same but for one function that does nothing."""

    def fsync(descriptor: int) -> None:
        pass

    module.__dict__["files"] = types.SimpleNamespace(**{**vars(files), "fsync": fsync})


WRITERS: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "record before data": record_before_data,
    "data not synced": data_not_synced,
    "folder not synced": folder_not_synced,
    "home not synced": home_not_synced,
    "record in place": record_in_place,
    "bytes before tombstone": bytes_before_tombstone,
}
