"""The names under which a client sees what several servers offer, and back. Pure.

With one server names are its own. With several they begin with the server's name. A name of ours cannot be taken by
anybody: a tool of the same name is shown with its server's name before it.
"""

import re
from collections.abc import Collection, Sequence

DEFAULT_PREFIX = "{server}__"
_LONGEST = 64  # the longest name that the model APIs take
_ODD = re.compile(r"[^A-Za-z0-9_-]+")


class Names:
    """`prefix` has `{server}` in it where names of several servers are to be told apart; empty means none."""

    def __init__(self, servers: Sequence[str], *, reserved: Collection[str] = (), prefix: str | None = None) -> None:
        self._servers = tuple(servers)
        self._reserved = frozenset(reserved)
        template = prefix if prefix is not None else (DEFAULT_PREFIX if len(servers) > 1 else "")
        self._prefixes = _distinct(servers, template)
        self._forced = _distinct(servers, template or DEFAULT_PREFIX)
        self._taken: dict[str, tuple[str, str]] = {}

    def shown(self, server: str, name: str) -> str:
        """The name of this for the client. The same each time."""
        shown = self._fitting(self._prefixes[server], name)
        if shown in self._reserved or self._taken.get(shown, (server, name)) != (server, name):
            shown = self._fitting(self._forced[server], name)
        base, number = shown, 1
        while shown in self._reserved or self._taken.get(shown, (server, name)) != (server, name):
            number += 1
            shown = f"{base}_{number}"
        self._taken[shown] = (server, name)
        return shown

    def meant(self, shown: str) -> tuple[str, str] | None:
        """Server and name. A name that was never listed is read as it is built; None where that leads nowhere."""
        if (found := self._taken.get(shown)) is not None:
            return found
        for server in self._servers:
            prefix = self._prefixes[server]
            if prefix and shown.startswith(prefix):
                return server, shown[len(prefix) :]
        for server in self._servers:
            if shown.startswith(self._forced[server]) and shown[len(self._forced[server]) :] in self._reserved:
                return server, shown[len(self._forced[server]) :]
        alone = len(self._servers) == 1 and not self._prefixes[self._servers[0]] and shown not in self._reserved
        return (self._servers[0], shown) if alone else None

    @staticmethod
    def _fitting(prefix: str, name: str) -> str:
        room = _LONGEST - len(name)
        return f"{prefix[-room:] if 0 < room < len(prefix) else prefix}{name}"


def _distinct(servers: Sequence[str], template: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for server in servers:
        plain = _ODD.sub("_", server).strip("_") or "server"
        prefix, number = template.replace("{server}", plain), 1
        while "{server}" in template and prefix in found.values():
            number += 1
            prefix = template.replace("{server}", f"{plain}{number}")
        found[server] = prefix
    return found
