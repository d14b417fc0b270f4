"""Sessions as a person names them: by name, by id, by the name of their folder. None is made by looking for one."""

import difflib
from typing import NamedTuple

from holdall.bag.core import store_as_it_is
from holdall.config import Configuration
from holdall.text.escape import one_line
from holdall.values.errors import WrongUse
from holdall.values.handles import is_uuid

_LISTED = 5


class Known(NamedTuple):
    """A session that is there."""

    name: str
    id: str
    parent: str  # the id of the session whose agent started it

    @property
    def folder(self) -> str:
        """The name that it can be opened under whatever it is called."""
        return f"session-{self.id}"


def sessions_at(found: Configuration) -> list[Known]:
    """All of the store, newest first."""
    with store_as_it_is(found.home, found.settings) as store:
        return [Known(one.name, one.id, one.parent) for one in store.sessions()] if store is not None else []


def find_session(found: Configuration, wanted: str) -> Known | None:
    with store_as_it_is(found.home, found.settings) as store:
        info = store.find_session(f"session-{wanted}" if is_uuid(wanted) else wanted) if store is not None else None
        return Known(info.name, info.id, info.parent) if info is not None else None


def session_named(found: Configuration, wanted: str) -> Known:
    """Raises WrongUse, which names those that it could be."""
    known = find_session(found, wanted)
    if known is not None:
        return known
    names = [one.name for one in sessions_at(found)]
    near = difflib.get_close_matches(wanted[:200], names, n=1)
    listed = ", ".join(one_line(name, 60) for name in names[:_LISTED]) or "none"
    hint = f" Did you mean {one_line(near[0], 60)}?" if near else ""
    raise WrongUse(
        f'there is no session "{one_line(wanted, 100)}". The newest are: {listed}. (`holdall ls --sessions` lists all.)'
        f"{hint}"
    )
