"""The directory store for somebody who only looks: a viewer must not become part of what it shows.

Nothing is kept, begun, expired or written down through it, and no session is made: what is not there is an error. It
may fill the caches, as every look does, and an output whose writer died is found to be interrupted, as by every look.
"""

from typing import Any, NoReturn

from holdall.store.directory import DirectoryStore
from holdall.store.protocol import SessionInfo
from holdall.values.errors import NothingFound, WrongUse


class ReadOnlyStore(DirectoryStore):
    """What a bag does by itself, without being asked (its log, the end of its session), is quietly left out."""

    def open_session(self, name: str, **_options: Any) -> SessionInfo:
        found = self.find_session(name)
        if found is None:
            raise NothingFound("there is no such session.")
        return found

    def end_session(self, session: SessionInfo) -> None:
        """It goes on without us."""

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        """What a person looks at was not shown to the model."""

    def remember(self, session: SessionInfo, content: str, key: str, data: bytes) -> None:
        """Nothing is asked of a model here that would be worth remembering."""

    def put(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def begin(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def append_transcript(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def save_tree(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def lease(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()

    def expire_all(self, *_args: Any, **_options: Any) -> NoReturn:
        raise _refusal()


def _refusal() -> WrongUse:
    return WrongUse("this store was opened to look at it, and nothing is changed through it.")
