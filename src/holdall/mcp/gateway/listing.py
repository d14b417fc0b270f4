"""What the servers offer, as one client sees it: lists of tools, prompts and resources, under which names, whose each
of them is, and how a client is greeted.
"""

import asyncio
import hashlib
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import holdall
from holdall.mcp.client import codec
from holdall.mcp.client.connection import MAX_LIST, Connection
from holdall.mcp.client.handshake import Greeting
from holdall.mcp.gateway import messages
from holdall.mcp.gateway.client_side import ClientRequest
from holdall.mcp.gateway.messages import METHOD_NOT_FOUND, Refusal, entries, table
from holdall.mcp.gateway.relay import Relay
from holdall.text.escape import one_line
from holdall.text.marks import read_alike
from holdall.values.errors import UpstreamFault
from holdall.values.patterns import lazy_pattern
from holdall.wire.notes import widened, with_servers
from holdall.wire.tool import ToolSpec

# The names under which a client sees what several servers offer, and back. Pure.
#
# With one server names are its own. With several they begin with the server's name. A name of ours cannot be taken by
# anybody: a tool of the same name is shown with its server's name before it.


DEFAULT_PREFIX = "{server}__"
_LONGEST = 64  # the longest name that the model APIs take
_MOST_SIGNS = 4_000_000  # in the names of one server
_ODD = lazy_pattern(r"[^A-Za-z0-9_-]+")


class Names:
    """`prefix` has `{server}` in it where names of several servers are to be distinguished; empty means none."""

    def __init__(self, servers: Sequence[str], *, reserved: Collection[str] = (), prefix: str | None = None) -> None:
        self._servers = tuple(servers)
        self._reserved = frozenset(map(_as_models_see_it, reserved))
        template = prefix if prefix is not None else (DEFAULT_PREFIX if len(servers) > 1 else "")
        self._prefixes = _distinct(servers, template)
        self._forced = _distinct(servers, template or DEFAULT_PREFIX)
        self._taken: dict[str, tuple[str, str]] = {}
        self._of = {
            server: OrderedDict[str, None]() for server in servers
        }  # the names that it has taken, the oldest first
        self._signs = dict.fromkeys(servers, 0)

    def shown(self, server: str, name: str) -> str:
        """The name of this for the client. The same each time."""
        shown = self._fitting(self._prefixes[server], name)
        if self._is_ours(shown) or self._taken.get(shown, (server, name)) != (server, name):
            shown = self._fitting(self._forced[server], name)
        base, number = shown, 1
        while self._is_ours(shown) or self._taken.get(shown, (server, name)) != (server, name):
            number += 1
            shown = f"{base}_{number}"
        self._take(shown, server, name)
        return shown

    def __len__(self) -> int:
        return len(self._taken)

    def _take(self, shown: str, server: str, name: str) -> None:
        """A server that lists other names each time would fill the memory: it loses those that it listed first."""
        mine = self._of[server]
        if shown not in mine:
            self._signs[server] += len(shown) + len(name)
        mine[shown] = None
        mine.move_to_end(shown)
        self._taken[shown] = (server, name)
        while self._signs[server] > _MOST_SIGNS and len(mine) > 1:
            oldest, _ = mine.popitem(last=False)
            self._signs[server] -= len(oldest) + len(self._taken.pop(oldest)[1])

    def meant(self, shown: str) -> tuple[str, str] | None:
        """Server and name. A name that was never listed is read as it is built; None if that leads nowhere."""
        if (found := self._taken.get(shown)) is not None:
            return found
        for server in self._servers:
            prefix = self._prefixes[server]
            if prefix and shown.startswith(prefix):
                return server, shown[len(prefix) :]
        for server in self._servers:
            if shown.startswith(self._forced[server]) and self._is_ours(shown[len(self._forced[server]) :]):
                return server, shown[len(self._forced[server]) :]
        alone = len(self._servers) == 1 and not self._prefixes[self._servers[0]] and not self._is_ours(shown)
        return (self._servers[0], shown) if alone else None

    def _is_ours(self, name: str) -> bool:
        return any(_as_models_see_it(one) in self._reserved for one in (name, read_alike(name)))

    @staticmethod
    def _fitting(prefix: str, name: str) -> str:
        room = _LONGEST - len(name)
        return f"{prefix[-room:] if 0 < room < len(prefix) else prefix}{name}"


def _as_models_see_it(name: str) -> str:
    """Clients make of a name what the model APIs take: `context.read` and `Context_Read ` may become one of ours."""
    return _ODD.sub("_", name).strip("_-").replace("-", "_").casefold()


def _distinct(servers: Sequence[str], template: str) -> dict[str, str]:
    """The prefix of each. None is how another begins: what `a` calls `b__c` is not what `a__b` calls `c`."""
    found: dict[str, str] = {}
    plains = {server: _ODD.sub("_", server).strip("_") or "server" for server in servers}
    usual = [template.replace("{server}", plain) for plain in plains.values()]
    for server, plain in plains.items():
        prefix, number = template.replace("{server}", plain), 1
        while "{server}" in template and (
            prefix in found.values()
            or (number > 1 and prefix in usual)
            or any(one != prefix and one.startswith(prefix) for one in usual)
        ):
            number += 1
            prefix = template.replace("{server}", f"{plain}{number}")
        found[server] = prefix
    return found


# How a client is greeted: what its servers can do, together, and what comes with Holdall. Pure.


_OURS = {"name": "holdall", "title": "Holdall", "version": holdall.__version__}


def negotiated(wanted: object) -> str:
    return wanted if isinstance(wanted, str) and wanted in messages.HANDSHAKES else messages.LATEST_HANDSHAKE


def server_info(greetings: Sequence[Greeting]) -> Mapping[str, Any]:
    """With one server, its own: clients show it, and some know it by it."""
    return (greetings[0].server if len(greetings) == 1 else {}) or _OURS


def capabilities_of(greetings: Sequence[Greeting], *, changing: bool, offers: bool, keeps: bool) -> dict[str, Any]:
    """All that any of them can do. `offers`: we have tools, too, and with `keeps` resources: what is kept; `changing`:
    our tools come and go."""
    found = _merged(
        {name: value for name, value in greeting.capabilities.items() if isinstance(value, Mapping)}
        for greeting in greetings
    )  # what is no object no client could read
    several = len(greetings) != 1
    if several:  # a server that is started later may have any of these
        found = _merged((found, {"prompts": {"listChanged": True}, "resources": {"listChanged": True}}))
    if offers or several:
        found = _merged((found, {"tools": {"listChanged": True} if changing or several else {}}))
    return _merged((found, {"resources": {}})) if keeps or several else found


def instructions_of(greetings: Mapping[str, Greeting], ours: str, new_tag: Callable[[], str]) -> str:
    """What we say, then what the servers say, each under its name where there are several."""
    said = {name: greeting.instructions for name, greeting in greetings.items() if greeting.instructions}
    return with_servers(ours, said, named=len(greetings) > 1, new_tag=new_tag)


def initialize_result(
    revision: str, greetings: Mapping[str, Greeting], capabilities: Mapping[str, Any], instructions: str
) -> dict[str, Any]:
    known_greetings = list(greetings.values())
    one = known_greetings[0] if len(known_greetings) == 1 and not known_greetings[0].modern else None
    base = dict(one.raw) if one is not None else {}
    base |= {"protocolVersion": revision, "capabilities": dict(capabilities)}
    base |= {"serverInfo": dict(server_info(known_greetings))}
    return _with_instructions(base, instructions)


def discover_result(
    greetings: Mapping[str, Greeting], capabilities: Mapping[str, Any], instructions: str
) -> dict[str, Any]:
    known_greetings = list(greetings.values())
    base = dict(known_greetings[0].raw) if len(known_greetings) == 1 and known_greetings[0].modern else {}
    base |= {"supportedVersions": list(messages.MODERN), "capabilities": dict(capabilities)}
    base = _with_instructions(base, instructions)
    return messages.completed("server/discover", base, server_info(known_greetings))


def _with_instructions(base: dict[str, Any], instructions: str) -> dict[str, Any]:
    """In place of the server's own, which may be anything."""
    if instructions:
        return base | {"instructions": instructions}
    return {name: value for name, value in base.items() if name != "instructions"}


def _merged(tables: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in tables:
        for name, value in one.items():
            there = found.get(name)
            if isinstance(there, Mapping) and isinstance(value, Mapping):
                found[name] = _merged((cast("Mapping[str, Any]", there), cast("Mapping[str, Any]", value)))
            else:
                found[name] = value or there or value
    return found


# What the servers offer, as one client sees it: lists of tools, prompts and resources, and whose each of them is.
#
# With one server a list passes page by page as it is; with several all pages of all of them are one list, and a server
# that fails is left out and told about. A tool's output schema is widened.


_LOG = logging.getLogger("holdall.gateway")
LISTS = {
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}  # fmt: skip
_NEEDED = {
    "tools": ("name",), "prompts": ("name",), "resources": ("name", "uri"),
    "resourceTemplates": ("name", "uriTemplate"),
}  # fmt: skip
_LONGEST_TEXT = 10_000
_ANYTHING = {"type": "object"}
_PATIENCE = 10.0  # seconds for a server among several to list what it has
_MOST_KNOWN = 50_000  # tools whose words are remembered, of all servers
_MAX_PAGES = 1000  # of one server among several
_MAX_ENTRIES = 10_000  # of that, or of one page: all are looked at in the time of everybody
_AT_A_TIME = 200
_MOST_REMEMBERED = 8 * 1024 * 1024  # bytes of the tools of one server
_LONGEST_BEGINNING = 1000  # of a template
# Claude Code gives its model only the names of tools, and a schema once the model has searched for it. What a notice
# says to call next can be called at once.
_NEVER_DEFERRED = {"anthropic/alwaysLoad": True}


def as_listed(tool: ToolSpec) -> dict[str, Any]:
    """One of our own tools."""
    return {**tool.mcp(), "name": tool.plain_name, "_meta": _NEVER_DEFERRED}


class Catalogue:
    def __init__(self, relay: Relay, names: Names, prompts: Names) -> None:
        self._relay = relay
        self._names = names
        self._prompts = prompts
        self._tools: dict[str, _Tools] = {}  # by server
        self._known = OrderedDict[bytes, bytes]()  # the hash of what each tool said of itself at first
        self._uris: dict[str, set[str]] = {}  # of resources, by server
        self._beginnings: dict[str, dict[int, set[str]]] = {}  # of templates, by server and their length

    def tool(self, shown: str) -> Mapping[str, Any]:
        """As its server lists it; empty if it was not listed."""
        of_servers = (one.listed.get(shown) for one in self._tools.values())
        return next((found[0] for found in of_servers if found is not None), dict[str, Any]())

    def place_of(self, uri: str) -> str:
        """The first server of the configuration that has listed this resource, or a template that it fits; empty if
        none has. A server cannot take a resource from one that the user has put before it.
        """
        if self._relay.only is not None:
            return self._relay.only.name
        for one in self._relay.servers:
            beginnings = self._beginnings.get(one.name, {}).items()
            if uri in self._uris.get(one.name, ()) or any(uri[:size] in known for size, known in beginnings):
                return one.name
        return ""

    async def page(self, asked: ClientRequest) -> dict[str, Any]:
        """One page of a list."""
        key = LISTS[asked.method]
        if (only := self._relay.only) is not None:
            result = await self._of_one(only, asked)
            if "cursor" not in asked.params:
                self._forget(only, asked.method)
            listed = entries(result.get(key))
            if len(listed) > _MAX_ENTRIES:
                _tell_first(only, asked.method)
            return {**result, key: await self._shown_by_and_by(only, asked.method, listed[:_MAX_ENTRIES])}
        result: dict[str, Any] = {key: await self._of_all(asked)}
        return messages.completed(asked.method, result, {}) if self._relay.caller.modern else result

    # Inside

    async def _of_one(self, connection: Connection, asked: ClientRequest) -> dict[str, Any]:
        try:
            return await self._relay.forward(connection, asked)
        except Refusal as refusal:
            if refusal.code != METHOD_NOT_FOUND or asked.method == "prompts/list":  # we have all but prompts ourselves
                raise
            empty: dict[str, Any] = {LISTS[asked.method]: []}
            return messages.completed(asked.method, empty, {}) if self._relay.caller.modern else empty

    async def _of_all(self, asked: ClientRequest) -> list[Any]:
        tasks = {one: asyncio.ensure_future(self._pages(one, asked)) for one in self._relay.servers}
        try:
            await asyncio.wait(tasks.values(), timeout=_PATIENCE)
            found: list[Any] = []
            for connection, task in tasks.items():  # in the order of the configuration: a list that moves costs caches
                if task.done():
                    self._forget(connection, asked.method)
                    found += await self._shown_by_and_by(connection, asked.method, task.result())
                else:
                    _LOG.warning('MCP server "%s" does not answer %s; it is left out', connection.name, asked.method)
            return found
        finally:
            for task in tasks.values():
                task.cancel()

    async def _pages(self, connection: Connection, asked: ClientRequest) -> list[Any]:
        found: list[Any] = []
        weight = 0
        params = {name: value for name, value in asked.params.items() if name != "cursor"}
        try:
            for _ in range(_MAX_PAGES):
                page = await self._relay.forward(connection, asked, params)
                more = entries(page.get(LISTS[asked.method]))
                weight += codec.weight(more)
                found += more if weight <= MAX_LIST else []
                # A list without an end: no client has room for more.
                if weight > MAX_LIST or len(found) >= _MAX_ENTRIES:
                    found = found[:_MAX_ENTRIES]
                    _tell_first(connection, asked.method, len(found))
                    return found
                if not isinstance(cursor := page.get("nextCursor"), str) or cursor == params.get("cursor"):
                    break
                params["cursor"] = cursor
        except Refusal as refusal:
            if refusal.code != METHOD_NOT_FOUND:
                _LOG.warning('MCP server "%s" lists nothing: %s', connection.name, one_line(refusal.message, 200))
        except UpstreamFault as fault:
            _LOG.warning("%s", fault)
        return found

    async def _shown_by_and_by(self, connection: Connection, method: str, listed: list[Any]) -> list[Any]:
        """Others have their turn meanwhile."""
        found: list[Any] = []
        for at in range(0, len(listed), _AT_A_TIME):
            found += self._shown(connection, method, listed[at : at + _AT_A_TIME])
            await asyncio.sleep(0)
        return found

    def _shown(self, connection: Connection, method: str, listed: object) -> list[Any]:
        given = entries(listed)
        found = [entry for entry in given if _is_sound(entry, LISTS[method])]
        if len(found) < len(given):  # of one list: a client that cannot read one entry would take none of the others
            told = len(given) - len(found), method, one_line(connection.name, 60), codec.DEEPEST
            _LOG.warning(
                '%d entries of %s of MCP server "%s" are left out: without a name, or deeper than %d levels', *told
            )
        match LISTS[method]:
            case "tools":
                return [self._tool(connection, entry) for entry in found]
            case "prompts":
                return [_renamed(entry, self._prompts, connection.name) for entry in found]
            case key:
                if self._relay.only is None:  # else all are its own
                    self._remember_places(connection.name, key, found)
                return found

    def _remember_places(self, server: str, key: str, found: Iterable[object]) -> None:
        if key == "resources":
            self._uris.setdefault(server, set()).update(str(table(entry)["uri"]) for entry in found)
            return
        beginnings = self._beginnings.setdefault(server, {})
        for entry in found:
            begins = str(table(entry)["uriTemplate"]).partition("{")[0]
            if ":" in begins and len(begins) <= _LONGEST_BEGINNING:  # one without a scheme fits anything
                beginnings.setdefault(len(begins), set()).add(begins)

    def _forget(self, connection: Connection, method: str) -> None:
        """What it has listed before: a server that lists other names each time would fill the memory."""
        forgotten = {"tools": self._tools, "resources": self._uris, "resourceTemplates": self._beginnings}
        forgotten.get(LISTS[method], {}).pop(connection.name, None)

    def _tool(self, connection: Connection, entry: object) -> object:
        tool = table(entry)
        name = tool.get("name")
        if not isinstance(name, str):
            return entry
        if not isinstance(tool.get("inputSchema"), dict) or not isinstance(tool.get("outputSchema", {}), dict):
            tool = {key: value for key, value in tool.items() if key != "outputSchema"} | {"inputSchema": _ANYTHING}
        self._watch(connection.name, name, tool)
        shown = self._names.shown(connection.name, name)
        self._tools.setdefault(connection.name, _Tools()).add(shown, tool)
        if "outputSchema" not in tool and shown == name:
            return tool
        new = {**tool, "name": shown}
        return new | {"outputSchema": widened(tool["outputSchema"])} if "outputSchema" in tool else new

    def _watch(self, server: str, name: str, tool: Mapping[str, Any]) -> None:
        """A tool that says something else of itself than when its user agreed to it is worth a word."""
        words = json.dumps([tool.get("description"), tool.get("inputSchema")], sort_keys=True, default=str)
        said = hashlib.sha256(words.encode("utf-8", "replace")).digest()
        key = hashlib.sha256(json.dumps([server, name]).encode()).digest()
        while key not in self._known and len(self._known) >= _MOST_KNOWN:
            self._known.popitem(last=False)
        if self._known.setdefault(key, said) != said:
            self._known[key] = said
            told = one_line(name, 60), one_line(server, 60)
            _LOG.warning('tool "%s" of MCP server "%s" has changed its description or its arguments', *told)


class _Tools:
    """The tools that a server listed last, by the name that the client sees: of pages without an end the first go."""

    def __init__(self) -> None:
        self.listed = OrderedDict[str, tuple[Mapping[str, Any], int]]()
        self._size = 0

    def add(self, shown: str, tool: Mapping[str, Any]) -> None:
        size = codec.weight(tool)
        self._size += size - self.listed.pop(shown, (tool, 0))[1]
        self.listed[shown] = tool, size
        while self._size > _MOST_REMEMBERED and len(self.listed) > 1:
            self._size -= self.listed.popitem(last=False)[1][1]


def _tell_first(connection: Connection, method: str, number: int = _MAX_ENTRIES) -> None:
    told = connection.name, number, method
    _LOG.warning('MCP server "%s": only the first %d entries of %s are listed', *told)


def _is_sound(entry: object, key: str) -> bool:
    about = table(entry)
    texts = [about.get(name) for name in _NEEDED[key]]
    return all(isinstance(one, str) and 0 < len(one) <= _LONGEST_TEXT for one in texts) and not codec.is_deep(entry)


def _renamed(entry: object, names: Names, server: str) -> object:
    about = table(entry)
    name = about.get("name")
    if not isinstance(name, str) or (shown := names.shown(server, name)) == name:
        return entry
    return {**about, "name": shown}
