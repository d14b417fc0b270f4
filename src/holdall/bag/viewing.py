"""A session opened by somebody who only looks at it: nothing that is done with such a bag leaves a trace in the store.

The bag is an ordinary one, so every verb works. What would change the session is refused by its store.
"""

from holdall.bag.holdall import Holdall
from holdall.store.directory.disk import default_home
from holdall.store.directory.store import ReadOnlyStore
from holdall.values.errors import NothingFound
from holdall.values.handles import is_uuid
from holdall.values.settings import Settings


def open_to_look(session: str, *, home: str | None = None, settings: Settings | None = None) -> Holdall:
    """The session with this id (a UUID). Raises NothingFound where there is none. Close it."""
    if not is_uuid(session):
        raise NothingFound("there is no such session.")
    settings = settings or Settings()
    store = ReadOnlyStore(home or settings.store_dir or default_home())
    try:
        return Holdall.open(session=f"session-{session}", settings=settings, store=store)
    except BaseException:
        store.close()
        raise
