"""What the servers offer, as one client sees it: lists of tools, prompts and resources, and whose each of them is.

With one server a list passes page by page as it is; with several all pages of all of them are one list, and a server
that fails is left out and told about. A tool's output schema is widened, and our own tools come after all others.
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from holdall.gateway import eras
from holdall.gateway.client import Asked
from holdall.gateway.messages import METHOD_NOT_FOUND, Refusal, entries, table
from holdall.gateway.names import Names
from holdall.gateway.relay import Relay
from holdall.text.escape import one_line
from holdall.upstream.connection import Connection
from holdall.values.errors import UpstreamFault
from holdall.wire.notes import widened

_LOG = logging.getLogger("holdall.gateway")
LISTS = {
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}  # fmt: skip
_PATIENCE = 10.0  # seconds for a server among several to list what it has
_MOST_PAGES = 1000


class Catalogue:
    def __init__(self, relay: Relay, names: Names, prompts: Names) -> None:
        self._relay = relay
        self._names = names
        self._prompts = prompts
        self._tools: dict[str, Mapping[str, Any]] = {}  # by the name that the client sees
        self._known: dict[tuple[str, str], str] = {}  # what each tool said of itself when it was first listed
        self._places: dict[str, str] = {}  # of resources by their URI

    def tool(self, shown: str) -> Mapping[str, Any]:
        """As its server lists it; empty where it was not listed."""
        return self._tools.get(shown, {})

    def place_of(self, uri: str) -> str:
        """The server that has listed this resource, or one whose template it fits best; empty where none has."""
        if uri in self._places:
            return self._places[uri]
        fitting = [known for known in self._places if "{" in known and uri.startswith(known.split("{")[0])]
        return self._places[max(fitting, key=lambda known: len(known.split("{")[0]))] if fitting else ""

    async def page(self, asked: Asked, ours: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """One page of a list. `ours` are added at its end."""
        key = LISTS[asked.method]
        if (only := self._relay.only) is not None:
            result = await self._of_one(only, asked)
            shown = self._shown(only, asked.method, result.get(key))
            last = not isinstance(result.get("nextCursor"), str)
            return {**result, key: [*shown, *(ours if last else ())]}
        found = await self._of_all(asked)
        result: dict[str, Any] = {key: [*found, *ours]}
        return eras.completed(asked.method, result, {}) if self._relay.caller.modern else result

    # Inside

    async def _of_one(self, connection: Connection, asked: Asked) -> dict[str, Any]:
        try:
            return await self._relay.forward(connection, asked)
        except Refusal as refusal:
            if refusal.code != METHOD_NOT_FOUND or asked.method == "prompts/list":  # we have all but prompts ourselves
                raise
            empty: dict[str, Any] = {LISTS[asked.method]: []}
            return eras.completed(asked.method, empty, {}) if self._relay.caller.modern else empty

    async def _of_all(self, asked: Asked) -> list[Any]:
        tasks = {one: asyncio.ensure_future(self._pages(one, asked)) for one in self._relay.servers}
        try:
            await asyncio.wait(tasks.values(), timeout=_PATIENCE)
            found: list[Any] = []
            for connection, task in tasks.items():  # in the order of the configuration: a list that moves costs caches
                if task.done():
                    found += self._shown(connection, asked.method, task.result())
                else:
                    _LOG.warning('MCP server "%s" does not answer %s; it is left out', connection.name, asked.method)
            return found
        finally:
            for task in tasks.values():
                task.cancel()

    async def _pages(self, connection: Connection, asked: Asked) -> list[Any]:
        found: list[Any] = []
        params = {name: value for name, value in asked.params.items() if name != "cursor"}
        try:
            for _ in range(_MOST_PAGES):
                page = await self._relay.forward(connection, asked, params)
                found += entries(page.get(LISTS[asked.method]))
                if not isinstance(cursor := page.get("nextCursor"), str) or cursor == params.get("cursor"):
                    break
                params["cursor"] = cursor
        except Refusal as refusal:
            if refusal.code != METHOD_NOT_FOUND:
                _LOG.warning('MCP server "%s" lists nothing: %s', connection.name, one_line(refusal.message, 200))
        except UpstreamFault as fault:
            _LOG.warning("%s", fault)
        return found

    def _shown(self, connection: Connection, method: str, listed: object) -> list[Any]:
        found = entries(listed)
        match LISTS[method]:
            case "tools":
                return [self._tool(connection, entry) for entry in found]
            case "prompts":
                return [_renamed(entry, self._prompts, connection.name) for entry in found]
            case key:
                field = "uri" if key == "resources" else "uriTemplate"
                for entry in found:
                    if isinstance(uri := table(entry).get(field), str):
                        self._places.setdefault(uri, connection.name)
                return found

    def _tool(self, connection: Connection, entry: object) -> object:
        tool = table(entry)
        name = tool.get("name")
        if not isinstance(name, str):
            return entry
        self._watch(connection.name, name, tool)
        shown = self._names.shown(connection.name, name)
        self._tools[shown] = tool
        if "outputSchema" not in tool and shown == name:
            return entry
        new = {**tool, "name": shown}
        return new | {"outputSchema": widened(tool["outputSchema"])} if "outputSchema" in tool else new

    def _watch(self, server: str, name: str, tool: Mapping[str, Any]) -> None:
        """A tool that says something else of itself than when its user agreed to it is worth a word."""
        said = json.dumps([tool.get("description"), tool.get("inputSchema")], sort_keys=True, default=str)
        if self._known.setdefault((server, name), said) != said:
            self._known[server, name] = said
            words = one_line(name, 60), one_line(server, 60)
            _LOG.warning('tool "%s" of MCP server "%s" has changed its description or its arguments', *words)


def _renamed(entry: object, names: Names, server: str) -> object:
    about = table(entry)
    name = about.get("name")
    if not isinstance(name, str) or (shown := names.shown(server, name)) == name:
        return entry
    return {**about, "name": shown}
