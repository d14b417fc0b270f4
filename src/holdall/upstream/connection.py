"""One server, kept: started with the first request, started again when it died, closed once.

A request is sent once. It is sent a second time only where the server is known not to have seen it. Who waits for a
start may give up without ending it for the others. Nothing here knows what a result is used for.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from holdall.upstream.greeting import Greeting
from holdall.upstream.keeper import Keeper, Means
from holdall.upstream.reply import Reply
from holdall.upstream.routes import Call, Callbacks, Progress
from holdall.upstream.sdk import types
from holdall.upstream.session import Session
from holdall.upstream.sharing import Ended, joined, shared
from holdall.upstream.spec import ServerSpec
from holdall.upstream.tools import Listing, listing
from holdall.values.errors import UpstreamFault, UpstreamOverdue, UpstreamRefused, WrongUse

_CALL, _LIST = "tools/call", "tools/list"
_MOST_LISTINGS = 3  # of a server whose tools never stand still
_PING, _DISCOVER = "ping", "server/discover"


class Connection:
    """`callbacks` get what belongs to no single call. `means` are for tests, and for whoever has other clocks."""

    def __init__(self, spec: ServerSpec, *, callbacks: Callbacks | None = None, means: Means | None = None) -> None:
        self.spec = spec
        self._means = means or Means()
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
        """`timeout` counts from when the request is sent, and anew from each progress; None is the server's own.

        `progress` gets the params of each such notification; `callbacks` get the others, and the requests, that the
        server sends for this call, where it can be told. `more` are further params of the request, `_meta` included.
        With `takes_large` a text of more than a megabyte may be a LargeText in the result, and its structured content
        a LargeJson, which are their bytes.
        Cancelling the awaiting task cancels the call at the server. Raises UpstreamFault, or UpstreamOverdue and
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
            if refusal.code != types.HEADER_MISMATCH:
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
            raise WrongUse("a deadline is a number of seconds, more than 0.")
        session = await self._keeper.living()
        call = session.call(method, seconds=seconds, **options)
        try:
            result = await session.request(call, params, self._headers(session, method, params))
        except UpstreamOverdue:
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
        for _ in range(_MOST_LISTINGS):
            self._stale = False
            found = await listing(self.name, fetch, modern=session.greeting.modern)
            if not self._stale:  # else they changed while they were listed
                self._listed = (session, found)
                break
        return found

    def _tools_changed(self) -> None:
        self._stale = True
        self._listed = None

    def _suspect(self, session: Session) -> None:
        """A server that let a deadline pass may be busy, or may hang; one that hangs is of no use to anybody."""
        if not session.busy and not session.over.is_set() and (self._checking is None or self._checking.done()):
            self._checking = asyncio.get_running_loop().create_task(self._check(session))

    async def _check(self, session: Session) -> None:
        heard = session.channel.heard
        method = _DISCOVER if session.greeting.modern else _PING
        try:
            await session.request(session.call(method, seconds=self._means.bounds.ping_seconds), None)
        except UpstreamOverdue:
            if session.channel.heard == heard:
                session.end("hung: it did not even answer a ping, and was ended")
        except UpstreamFault:
            pass  # an error is an answer too


def _is_forgotten(call: Call, fault: UpstreamFault) -> bool:
    """HTTP has one word, 404, for a session and for a method that it does not know."""
    of_the_method = isinstance(fault, UpstreamRefused) and fault.code == types.METHOD_NOT_FOUND
    return call.trouble is not None and call.trouble.gone and not of_the_method
