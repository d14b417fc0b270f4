"""Servers as the rest of Holdall sees them: several by name, each started with the first request, started again when it
died, closed once; their tools, and what they answer.
"""

import asyncio
import difflib
import importlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import field
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast

from holdall.mcp.client import codec
from holdall.mcp.client.dispatch import unbroken
from holdall.mcp.client.handshake import Greeting
from holdall.mcp.client.keeper import ConnectionOptions, Ended, Keeper, joined, shared
from holdall.mcp.client.protocol import HEADER_MISMATCH, METHOD_NOT_FOUND, PARAM_MARK
from holdall.mcp.client.routes import Call, Callbacks, Progress
from holdall.mcp.client.session import Session
from holdall.mcp.client.spec import ServerSpec
from holdall.text.escape import one_line
from holdall.values.errors import UpstreamFault, UpstreamRefused, UpstreamTimeout, UsageError
from holdall.values.record import record

if TYPE_CHECKING:
    from holdall.mcp.client.sdk import types


def _sdk() -> Any:
    """It takes over a second to import, needs the extra `mcp`, and is needed by few."""
    return importlib.import_module("holdall.mcp.client.sdk")


# What a server answered: the exact result to pass on, and the SDK's types to read it.


@record
class Reply:
    """`result` is the JSON that came: with unknown fields, in its order, not checked against any schema.

    Texts in it may hold lone surrogates, where a server cut through a character or sent bytes that are not UTF-8.
    """

    server: str
    method: str
    revision: str
    result: dict[str, Any]

    def typed(self) -> "types.CallToolResult | types.InputRequiredResult":
        """The result of `tools/call` as the SDK has it. Raises UpstreamFault if it is none."""
        types = _sdk().types
        wanted = self.result.get("resultType") == "input_required"
        kind = types.InputRequiredResult if wanted else types.CallToolResult
        try:
            return kind.model_validate(self.result, by_name=False)
        except ValueError as problem:
            raise UpstreamFault(
                self.server,
                "gave a result that is not of the form which MCP describes",
                advice="Report it to the author of that server.",
            ) from problem


# The tools that a server lists, page by page, as it describes them, and the headers that some of them ask for.
#
# Entries that are no tools are left out and logged. Descriptions are external data: nothing here interprets them.


_LOG = logging.getLogger("holdall.upstream")
_MAX_PAGES = 1000
MAX_LIST = 32 * 1024 * 1024  # bytes, about, of all pages of a list that has several

Fetch = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


@record
class Listing:
    """`tools` are the entries as they came, in their order."""

    tools: tuple[dict[str, Any], ...] = ()
    _headers: Mapping[str, Mapping[tuple[str, ...], str]] = field(default_factory=dict[str, Any])

    def headers(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, str]:
        """What a call of this tool repeats of its arguments in HTTP headers (from 2026-07-28 on)."""
        wanted = self._headers.get(tool)
        return _sdk().mcp_param_headers(wanted, arguments) if wanted else {}


async def listing(server: str, fetch: Fetch, *, modern: bool) -> Listing:
    """Raises UpstreamFault. A server that knows no `tools/list` has no tools."""
    found: list[dict[str, Any]] = []
    cursor, weight = None, 0
    for _ in range(_MAX_PAGES):
        try:
            page = await fetch({} if cursor is None else {"cursor": cursor})
        except UpstreamRefused as refusal:
            if refusal.code == METHOD_NOT_FOUND and not found:
                return Listing()
            raise
        entries = page.get("tools")
        more = _tools(server, cast("list[object]", entries) if isinstance(entries, list) else [], modern=modern)
        following = page.get("nextCursor")
        if not (is_last := not isinstance(following, str) or following == cursor) or cursor is not None:
            weight += codec.weight(more)
            if weight > MAX_LIST:
                _LOG.warning(
                    'MCP server "%s" lists more than %d MiB of tools; only the first %d are listed',
                    one_line(server, 60), MAX_LIST >> 20, len(found),
                )  # fmt: skip
                more, is_last = [], True
        found += more
        if is_last:
            return Listing(tuple(found), _header_maps(found) if modern else {})
        cursor = following
    raise UpstreamFault(
        server, f"lists tools without end: {_MAX_PAGES:,} pages", advice="Report it to the author of that server."
    )


def _tools(server: str, entries: list[object], *, modern: bool) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = []
    for entry in entries:
        tool = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            _LOG.warning('MCP server "%s" lists a tool without a name; it is left out', one_line(server, 60))
        elif codec.is_deep(tool):
            words = one_line(name, 60), one_line(server, 60), codec.DEEPEST
            _LOG.warning('tool "%s" of MCP server "%s" is left out: it is nested deeper than %d levels', *words)
        elif modern and (reason := _problem(tool)) is not None:
            # The protocol wants it so: such a tool could only be called in a way that its server refuses.
            words = one_line(name, 60), one_line(server, 60), one_line(reason, 120)
            _LOG.warning('tool "%s" of MCP server "%s" is left out: %s', *words)
        else:
            kept.append(tool)
    return kept


def _asks_for_headers(tool: dict[str, Any]) -> bool:
    """Few do, and only for those the SDK is imported."""
    return PARAM_MARK in json.dumps(tool.get("inputSchema"), default=str)


def _problem(tool: dict[str, Any]) -> str | None:
    return _sdk().find_invalid_x_mcp_header(tool.get("inputSchema")) if _asks_for_headers(tool) else None


def _header_maps(tools: list[dict[str, Any]]) -> dict[str, Mapping[tuple[str, ...], str]]:
    return {
        tool["name"]: found
        for tool in tools
        if _asks_for_headers(tool) and (found := _sdk().x_mcp_header_map(tool.get("inputSchema")))
    }


# A request is sent once. It is sent a second time only where the server is known not to have seen it. A caller that
# waits for a start may give up without ending it for the others. Nothing here knows what a result is used for.


_CALL, _LIST = "tools/call", "tools/list"
_MAX_LISTINGS = 3  # of a server whose tools never stand still
_PING, _DISCOVER = "ping", "server/discover"


class Connection:
    """`callbacks` get what belongs to no single call. `means` are for tests and other clocks."""

    def __init__(
        self, spec: ServerSpec, *, callbacks: Callbacks | None = None, means: ConnectionOptions | None = None
    ) -> None:
        self.spec = spec
        self._means = means or ConnectionOptions()
        self._keeper = Keeper(spec, callbacks or Callbacks(), self._means, self._tools_changed)
        self._listing: asyncio.Task[Listing] | None = None
        self._listed: tuple[Session, Listing] | None = None
        self._stale = False
        self._checking: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def greeting(self) -> Greeting | None:
        """What the server says of itself, while it lives."""
        session = self._keeper.session
        return session.greeting if session is not None else None

    @property
    def pid(self) -> int | None:
        """The process of a server over stdio, while it lives."""
        session = self._keeper.session
        return session.channel.pid if session is not None else None

    async def start(self) -> Greeting:
        """Need not be called: the first request does it. Raises UpstreamFault."""
        return (await self._keeper.living()).greeting

    async def tools(self, *, refresh: bool = False) -> tuple[dict[str, Any], ...]:
        """Every tool as the server describes it. Asked once, and again when the server says that they changed."""
        return (await self._tools(refresh=refresh)).tools

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline that progress puts off
        callbacks: Callbacks | None = None,
        more: Mapping[str, Any] | None = None,
        takes_large: bool = False,
    ) -> Reply:
        """`timeout` counts from when the request is sent, and again from each progress; None is the server's own.

        `progress` gets the params of each such notification; `callbacks` get the others, and the requests, that the
        server sends for this call, where it can be told. `more` are further params of the request, `_meta` included.
        With `takes_large` a text of more than a megabyte may be a LargeText in the result, and its structured content
        a LargeJson, which are their bytes.
        Cancelling the awaiting task cancels the call at the server. Raises UpstreamFault, or UpstreamTimeout and
        UpstreamRefused, which are kinds of it.
        """
        given = dict(arguments or {})
        params = {**(more or {}), "name": tool, "arguments": given}
        options: dict[str, Any] = {
            "name": tool, "progress": progress, "callbacks": callbacks, "takes_large": takes_large,
        }  # fmt: skip
        try:
            return await self._request(_CALL, params, timeout, options)
        except UpstreamRefused as refusal:
            if refusal.code != HEADER_MISMATCH:
                raise
        # It did not run: the server wants arguments repeated in headers, as a newer list of its tools says.
        await self._tools(refresh=True)
        return await self._request(_CALL, params, timeout, options)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - a deadline that progress puts off
        callbacks: Callbacks | None = None,
    ) -> Reply:
        """Any other request of the protocol, known or not, in the same way as `call`."""
        return await self._request(method, params, timeout, {"progress": progress, "callbacks": callbacks})

    def remember(self, method: str, params: Mapping[str, Any] | None) -> None:
        """A request with a lasting effect, for when the server is started: its log level."""
        self._keeper.standing.granted(method, params)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Tell the server something, where it lives; it is not started for that."""
        if (session := self._keeper.session) is not None:
            await session.tell(method, params)

    async def aclose(self) -> None:
        """Calls that are under way end in an error. The server's process is gone when this returns."""
        for task in (self._listing, self._checking):
            if task is not None:
                task.cancel()
        await self._keeper.close()

    # Inside

    async def _request(
        self, method: str, params: Mapping[str, Any] | None, limit: float | None, options: Mapping[str, Any]
    ) -> Reply:
        seconds = self.spec.call_seconds if limit is None else limit
        if not seconds > 0:
            raise UsageError("a deadline is a number of seconds, more than 0.")
        session = await self._keeper.living()
        call = session.call(method, seconds=seconds, **options)
        try:
            result = await session.request(call, params, self._headers(session, method, params))
        except UpstreamTimeout:
            self._suspect(session)
            raise
        except UpstreamFault as fault:
            if not _is_forgotten(call, fault):
                raise
            # An HTTP server that was restarted knows our session no longer, and has not looked at the request.
            session.end("has forgotten the session")
            session = await self._keeper.living()
            call = session.call(method, seconds=seconds, **options)
            result = await session.request(call, params, self._headers(session, method, params))
        self._keeper.standing.granted(method, params)
        return Reply(self.name, method, session.greeting.revision, result)

    def _headers(self, session: Session, method: str, params: Mapping[str, Any] | None) -> dict[str, str]:
        if method != _CALL or params is None or self._listed is None or self._listed[0] is not session:
            return {}
        return self._listed[1].headers(str(params.get("name")), params.get("arguments") or {})

    async def _tools(self, *, refresh: bool) -> Listing:
        session = await self._keeper.living()
        if not refresh and self._listed is not None and self._listed[0] is session:
            return self._listed[1]
        if self._listing is None or self._listing.done():
            self._listing = shared(self._list(session))
        try:
            return await joined(self._listing)
        except Ended:
            raise UpstreamFault(self.name, "was closed while its tools were listed") from None

    async def _list(self, session: Session) -> Listing:
        async def fetch(params: dict[str, Any]) -> dict[str, Any]:
            return (await self._request(_LIST, params, None, {})).result

        found = Listing()
        for _ in range(_MAX_LISTINGS):
            self._stale = False
            # Each page has its own deadline; so has the whole, or a thousand slow ones would take days.
            seconds = 2 * self.spec.call_seconds
            try:
                async with asyncio.timeout(seconds):
                    found = await listing(self.name, fetch, modern=session.greeting.modern)
            except TimeoutError:
                raise UpstreamFault(self.name, f"did not list its tools within {seconds:g} seconds") from None
            if not self._stale:  # else they changed while they were listed
                self._listed = (session, found)
                break
        return found

    def _tools_changed(self) -> None:
        self._stale = True
        self._listed = None

    def _suspect(self, session: Session) -> None:
        """A server that let a deadline pass may be busy, or may hang; a server that hangs is ended."""
        if not session.busy and not session.over.is_set() and (self._checking is None or self._checking.done()):
            self._checking = asyncio.get_running_loop().create_task(self._check(session))

    async def _check(self, session: Session) -> None:
        heard = session.channel.heard
        method = _DISCOVER if session.greeting.modern else _PING
        try:
            await session.request(session.call(method, seconds=self._means.bounds.ping_seconds), None)
        except UpstreamTimeout:
            if session.channel.heard == heard:
                session.end("hung: it did not answer a ping, and was ended")
        except UpstreamFault:
            pass  # an error is an answer too


def _is_forgotten(call: Call, fault: UpstreamFault) -> bool:
    """HTTP has one word, 404, for a session and for a method that it does not know."""
    of_the_method = isinstance(fault, UpstreamRefused) and fault.code == METHOD_NOT_FOUND
    return call.trouble is not None and call.trouble.gone and not of_the_method


# Several servers by name, opened and closed together. A failure of one does not affect the others.


Tools = tuple[dict[str, Any], ...]


class Servers:
    """`async with Servers(specs) as servers: await servers["files"].call("read", {...})`

    None is started before it is used. Leaving the block ends every process, also where the block was cancelled.
    """

    def __init__(
        self,
        specs: Iterable[ServerSpec],
        *,
        callbacks: Callbacks | Mapping[str, Callbacks] | None = None,
        means: ConnectionOptions | None = None,
        connect: Callable[[ServerSpec], Connection] | None = None,
    ) -> None:
        """`callbacks` are for all servers, or for each by its name. `connect` makes connections in another way."""
        self._connections: dict[str, Connection] = {}
        for spec in specs:
            if spec.name in self._connections:
                raise UsageError(f'two MCP servers are called "{spec.name}"; give one of them another name.')
            own = callbacks.get(spec.name) if isinstance(callbacks, Mapping) else callbacks
            made = Connection(spec, callbacks=own, means=means) if connect is None else connect(spec)
            self._connections[spec.name] = made

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._connections)

    def replace(self, connection: Connection) -> None:
        """This one from now on, for the server of its name. Whose it is, closes it."""
        self._connections[connection.name] = connection

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._connections.values()))

    def __len__(self) -> int:
        return len(self._connections)

    def __contains__(self, name: object) -> bool:
        return name in self._connections

    def __getitem__(self, name: str) -> Connection:
        try:
            return self._connections[name]
        except KeyError:
            near = difflib.get_close_matches(name, self._connections, n=1)
            hint = f' Did you mean "{near[0]}"?' if near else ""
            known = ", ".join(self._connections) or "none"
            raise UsageError(f'there is no MCP server "{name[:100]}". There are: {known}.{hint}') from None

    async def tools(self) -> dict[str, Tools | UpstreamFault]:
        """The tools of each server, or why it has none: one that does not start keeps no other from being used."""
        found = await asyncio.gather(*(_tools_of(one) for one in self))
        return dict(zip(self.names, found, strict=True))

    async def aclose(self) -> None:
        with unbroken():
            await asyncio.gather(*(one.aclose() for one in self))

    async def __aenter__(self) -> "Servers":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


async def _tools_of(connection: Connection) -> Tools | UpstreamFault:
    try:
        return await connection.tools()
    except UpstreamFault as fault:
        return fault
