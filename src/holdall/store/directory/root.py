"""The data folder while it is in use: held open, and still the one that its name leads to.

What is kept must be found again by name. So each use first asks whether the open folder and the named one are the same:
a folder that was removed is made again by the next output, one that was replaced is refused.
"""

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable

from holdall.store import files
from holdall.store.directory import disk
from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.index import NAME as INDEX
from holdall.store.directory.index import Catalogue, Index
from holdall.store.directory.publish import recover_interrupted_imports
from holdall.store.directory.sessions import Sessions
from holdall.store.protocol import SessionInfo
from holdall.store.records import PREFIX
from holdall.values.errors import StoreGone, StoreUnsafe

_MAX_OPEN = 16  # session folders; a store serves any number of sessions, and a process has few descriptors


class Root:
    """Opens session folders, and keeps those open that were used last. Safe to use from several threads.

    A folder that is put aside is closed when nobody uses it any more: each thread holds on to the one that it got last,
    and whatever outlives a call (a writer) to its own.
    """

    def __init__(self, home: str, clock: Callable[[], float]) -> None:
        self.home = home
        self._clock = clock
        self._folders: OrderedDict[str, SessionFolder] = OrderedDict()
        self._used = threading.local()
        self._lock = threading.RLock()
        self._open()

    def _open(self) -> None:
        self._descriptor = self._open_home()
        self.sessions = Sessions(self._descriptor, self._clock)
        recover_interrupted_imports(self._descriptor, self.sessions)
        self.catalogue: Catalogue = Catalogue(Index(self.cache(INDEX)))

    def _open_home(self) -> int:
        return disk.open_root(self.home)

    def cache(self, name: str) -> str:
        """What SQLite opens for the cache of that name."""
        return os.path.join(self.home, name)

    @property
    def descriptor(self) -> int:
        """The open data folder."""
        return self._descriptor

    def close(self) -> None:
        with self._lock:
            self._folders.clear()  # one that a writer still uses stays open until it has ended
            self._used = threading.local()
            self.catalogue.close()
            self.sessions.close()
            if self._descriptor >= 0:
                files.close(self._descriptor)
                self._descriptor = -1

    def close_folder(self, session: SessionInfo) -> None:
        with self._lock:
            self._folders.pop(session.id, None)
            if getattr(self._used, "folder", None) is not None and self._used.folder.session.id == session.id:
                del self._used.folder

    def check(self, *, make: bool = False) -> None:
        """The folder that is open must be the one that the name leads to."""
        with self._lock:
            try:
                named = os.stat(self.home, follow_symlinks=False)
            except FileNotFoundError:
                if not make:
                    message = f"the data folder {self.home} was removed. The next output creates it again."
                    raise StoreGone(message) from None
                self.close()
                self._open()
                return
            if self._descriptor < 0:
                return  # it was closed, and what still works has its own folder open
            opened = files.fstat(self._descriptor)
            if (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino):
                return
            if stat.S_ISLNK(named.st_mode):
                raise StoreUnsafe(
                    f"the data folder {self.home} was replaced by a link; nothing is read or written through it."
                )
            raise StoreGone(f"the data folder {self.home} was replaced by another one while in use. Open it again.")

    def folder(self, session: SessionInfo, *, make: bool = False) -> SessionFolder:
        """The session's folder, open. With `make`, one that was removed by hand is made again."""
        with self._lock:
            known = self._folders.get(session.id)
            if known is not None:
                if is_linked(known):
                    return self._in_use(known)
                del self._folders[session.id]
            try:
                descriptor = self.sessions.folder(session)
            except FileNotFoundError:
                if not make:
                    message = f'the folder of session "{session.name}" was removed from {self.home}.'
                    raise StoreGone(message) from None
                descriptor = self.sessions.restore(session)
            while len(self._folders) >= _MAX_OPEN:
                self._folders.popitem(last=False)
            self._folders[session.id] = SessionFolder(descriptor, session)
            return self._in_use(self._folders[session.id])

    def _in_use(self, folder: SessionFolder) -> SessionFolder:
        self._folders.move_to_end(folder.session.id)
        self._used.folder = folder
        return folder

    def folder_by_id(self, session_id: str) -> SessionFolder:
        with self._lock:
            known = self._folders.get(session_id)
            if known is not None and is_linked(known):
                return self._in_use(known)
            session = self.sessions.find(PREFIX + session_id)
        if session is None:
            raise StoreGone(f"the session {session_id} was removed from {self.home}.")
        return self.folder(session)

    def check_reachable(self, folder: SessionFolder) -> None:
        """Never return a handle that cannot be resolved: the folder may have been removed meanwhile."""
        self.check()
        if not is_linked(folder):
            raise StoreGone(f'the folder of session "{folder.session.name}" was removed while an output was kept.')


def is_linked(folder: SessionFolder) -> bool:
    """Whether the open folder still has a name."""
    return files.fstat(folder.descriptor).st_nlink > 0
