"""How a session is opened: its store, its dialect, its tokenizer, its journal, and now and then a sweep.

And how a store is opened by somebody who only looks at what there is.
"""

import contextlib
import os
from collections.abc import Callable, Generator

from holdall.bag.core import Parts
from holdall.bag.journal import Journal
from holdall.bag.watching import watchers
from holdall.policy.retention import retention_of
from holdall.store.directory import upkeep
from holdall.store.directory.disk import default_home
from holdall.store.directory.placement import Quota
from holdall.store.directory.sessions import PREFIX
from holdall.store.directory.store import DirectoryStore
from holdall.store.ids import new_uuid
from holdall.store.memory import MemoryStore
from holdall.store.protocol import OutputStore
from holdall.text.tokens import Tokenizer, tokenizer_named
from holdall.values.errors import StoreFault
from holdall.values.settings import Settings
from holdall.wire.dialect import Dialect
from holdall.wire.dialects import DIALECTS


def opened(
    *,
    session: str | None,
    home: str | None,
    settings: Settings,
    dialect: Dialect | None,
    store: OutputStore | None,
    tokenizer: Tokenizer | None,
    clock: Callable[[], float],
    parent: str,
) -> Parts:
    tokenizer = tokenizer or tokenizer_named(settings.tokenizer)
    retention = retention_of(settings)
    if store is None:
        store = DirectoryStore(
            home or settings.store_dir or default_home(),
            tokenizer=tokenizer,
            retention=retention,
            quota=Quota(settings.quota_bytes, settings.session_quota_bytes),
            clock=clock,
        )
        info = store.open_session(session or new_uuid(), parent=parent)
        if upkeep.due(store):
            with contextlib.suppress(StoreFault):  # a store that cannot be tidied can still be read
                upkeep.sweep(store)
    else:
        given = retention if settings.retention is not None else None
        info = store.open_session(session or new_uuid(), retention=given, parent=parent)
    journal = Journal(store, info, clock=clock)
    journal.watchers |= watchers()
    return Parts(store, info, settings, tokenizer, dialect or _dialect(settings), journal)


def _dialect(settings: Settings) -> Dialect:
    """S3's dialect is about what goes on in the background: where nothing may, it is as if it were switched off."""
    off = settings.dialect == "async" and not settings.async_enabled
    return DIALECTS["legacy" if off else settings.dialect]


@contextlib.contextmanager
def store_as_it_is(home: str, settings: Settings) -> Generator[DirectoryStore | None]:
    """The store in `home`, with no session opened and nothing tidied up; None where nothing was ever kept in it.

    So whoever only asks what there is makes neither a session nor a folder, and a dry run finds all that would go.
    """
    if not _has_sessions(home):
        yield None
        return
    store = DirectoryStore(home, tokenizer=tokenizer_named(settings.tokenizer))
    try:
        yield store
    finally:
        store.close()


def nothing_kept() -> OutputStore:
    """A store to look at in place of one in which nothing is kept yet; it leaves nothing on disk."""
    return MemoryStore()


def _has_sessions(home: str) -> bool:
    """What cannot be looked into is for the store to explain."""
    try:
        return any(name.startswith(PREFIX) for name in os.listdir(home))
    except FileNotFoundError:
        return False
    except OSError:
        return True
