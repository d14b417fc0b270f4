"""Sessions as a person names them: by name, by id, by the name of their folder. None is made by looking for one."""

import asyncio
import difflib
from typing import NamedTuple

from holdall.bag import Holdall
from holdall.text.escape import one_line
from holdall.values.errors import WrongUse

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


async def sessions_of(bag: Holdall) -> list[Known]:
    """All of the store, newest first."""
    return [Known(one.name, one.id, one.parent) for one in await asyncio.to_thread(bag.store.sessions)]


async def session_named(bag: Holdall, wanted: str) -> Known:
    """Raises WrongUse, which names those that it could be."""
    found = await sessions_of(bag)
    for one in found:
        if wanted in (one.name, one.id, one.folder):
            return one
    names = [one.name for one in found]
    near = difflib.get_close_matches(wanted[:200], names, n=1)
    listed = ", ".join(one_line(name, 60) for name in names[:_LISTED]) or "none"
    hint = f" Did you mean {one_line(near[0], 60)}?" if near else ""
    raise WrongUse(
        f'there is no session "{one_line(wanted, 100)}". The newest are: {listed}. (`holdall ls --sessions` lists all.)'
        f"{hint}"
    )
