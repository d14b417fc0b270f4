"""A read-only view of a store, for the viewer.

Nothing is kept, begun, expired or written down through it, and no session is made: what is not there is an error. What
a bag does without being asked (its log, its notes, the end of its session) is left out without a word. The store
behind it may fill its caches, as every look does, and finds outputs whose writer died interrupted, as every look does.
"""

from typing import Any, NoReturn, cast

from holdall.store.ids import new_mark
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.errors import NothingFound, UsageError


def read_only(store: OutputStore) -> OutputStore:
    """The same store, that nothing is changed through."""
    return cast("OutputStore", _ReadOnlyStore(store))


class _ReadOnlyStore:
    def __init__(self, store: OutputStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        """Everything that is not named below is a look, and goes to the store itself."""
        return getattr(self._store, name)

    def open_session(self, name: str, **_options: Any) -> SessionInfo:
        found = self._store.find_session(name)
        if found is None:
            raise NothingFound("there is no such session.")
        return found

    def mark(self, session: SessionInfo) -> str:
        return session.mark or new_mark()

    def sweep_due(self) -> bool:
        return False

    def _ignore(self, *_args: Any, **_options: Any) -> None:
        """No-op: read-only."""

    def _refuse(self, *_args: Any, **_options: Any) -> NoReturn:
        raise UsageError("this store is open read-only.")

    end_session = append_events = remember = _ignore
    put = begin = append_transcript = save_tree = lease = claim = expire = remove = remove_session = _refuse
    sweep = staging = _refuse
