"""Streamable HTTP towards clients, of both eras, as an ASGI application on one path.

An answer is plain JSON where nothing else has to be told before it, else a stream of events. Whoever is not known, or
comes by another name, learns nothing but that.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from holdall.bag import Holdall
from holdall.gateway import messages
from holdall.gateway.eras import MODERN
from holdall.gateway.front import House
from holdall.gateway.http_exchange import Exchange, Receive, Scope, Send
from holdall.gateway.http_guard import PREFLIGHT, Denied, Guard, cors
from holdall.gateway.http_params import mismatch
from holdall.gateway.http_session import HttpSession
from holdall.gateway.http_stream import Event, Stream, place_of
from holdall.gateway.messages import Message, Refusal, is_id, table
from holdall.upstream.sdk import ERROR_CODE_HTTP_STATUS, InboundLadderRejection, classify_inbound_request, versions

PATH = "/mcp"
_LARGEST_BODY = 64 * 1024 * 1024
_IDLE_SECONDS = 3600.0
_AT_ONCE = frozenset(("initialize", "ping"))  # answered before a connection could break
_PLAIN_FROM = 256 * 1024  # bytes: clients bound the size of an event, and not that of a body
_MOST_SESSIONS = 200

OpenBag = Callable[[str], Awaitable[Holdall]]
"""The bag of a principal: opened once for each."""


class HttpApp:
    def __init__(self, house: House, guard: Guard, bag_of: OpenBag) -> None:
        self._house = house
        self._guard = guard
        self._bag_of = bag_of
        self._sessions: dict[tuple[str, str], HttpSession] = {}
        self._shared: dict[str, HttpSession] = {}

    @property
    def sessions(self) -> list[HttpSession]:
        return [*self._sessions.values(), *self._shared.values()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(receive, send)
        try:
            if scope["type"] != "http":
                return
            headers = self._guard.checked(scope["headers"])
            exchange.extra = cors(headers)
            if scope["method"] == "OPTIONS" and "origin" in headers:
                exchange.extra += PREFLIGHT  # a browser asks this without the token
                await exchange.answer(204, None)
                return
            who = self._guard.principal(headers)
            if scope["path"] != PATH:
                raise Denied(404, f"there is nothing here; MCP is at {PATH}")
            match scope["method"]:
                case "POST":
                    await self._post(who, headers, exchange)
                case "GET":
                    await self._get(who, headers, exchange)
                case "DELETE":
                    await self._delete(who, headers, exchange)
                case _:
                    raise Denied(405, "only POST, GET and DELETE are answered")
        except asyncio.CancelledError:
            if not exchange.gone:  # else it was the client that left, and nobody has to be told
                raise
        except Denied as denied:
            await exchange.answer(denied.status, {"error": str(denied)})
        except Refusal as refusal:
            status = ERROR_CODE_HTTP_STATUS.get(refusal.code, 400)
            await exchange.answer(status, messages.error(None, refusal))
        finally:
            exchange.close()

    # The methods

    async def _post(self, who: str, headers: Mapping[str, str], exchange: Exchange) -> None:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Denied(415, "the body of a message is application/json")
        body = messages.decode(await exchange.body(_LARGEST_BODY))
        several: list[Any] = body if isinstance(body, list) else [body]
        if headers.get("mcp-protocol-version", "") in MODERN or "_meta" in table(table(several[0]).get("params")):
            if isinstance(body, list):
                raise Refusal(messages.INVALID_REQUEST, "A body is one message")
            if await self._modern(who, headers, body, exchange):
                return
        session, new = await self._session(who, headers, several)
        if new:
            exchange.extra.append((b"mcp-session-id", new.encode()))
        requests = [one for one in map(table, several) if is_id(one.get("id")) and "method" in one]
        if isinstance(body, list) and requests:
            await exchange.answer(200, await session.front.client.answers(body))
        elif requests:
            answer = await self._exchange(session, requests[0], headers, exchange)
            if new and (answer is None or answer.code is not None):  # a greeting that failed leaves no session
                self._sessions.pop((who, new), None)
                await session.close()
        else:
            for one in several:
                session.hear(table(one))
            await exchange.answer(202, None)

    async def _modern(self, who: str, headers: Mapping[str, str], body: Message, exchange: Exchange) -> bool:
        """Whether it was a message of the newer era, and is answered."""
        named = headers.get("mcp-protocol-version", "")
        meta = table(table(body.get("params")).get("_meta"))
        if named not in MODERN and not any(key.endswith("/protocolVersion") for key in meta):
            return False
        if "id" not in body or "method" not in body:
            await exchange.answer(202, None)  # this era has no such message from clients; it does no harm
            return True
        verdict = classify_inbound_request(body, headers=dict(headers))
        if isinstance(verdict, InboundLadderRejection):
            await self._refused(body, Refusal(verdict.code, verdict.message, verdict.data), exchange)
            return True
        if body["method"] == "initialize":  # there is no handshake here, and who is served already keeps its era
            await self._refused(body, Refusal(messages.METHOD_NOT_FOUND, "Method not found", "initialize"), exchange)
            return True
        if who not in self._shared:
            bag = await self._bag_of(who)
            self._shared.setdefault(who, HttpSession(self._house, bag, shared=True))
        session = self._shared[who]
        if (refusal := await mismatch(session.front, body, headers)) is not None:
            await self._refused(body, refusal, exchange)
            return True
        await self._exchange(session, body, headers, exchange)
        return True

    async def _refused(self, body: Message, refusal: Refusal, exchange: Exchange) -> None:
        number = body["id"] if is_id(body["id"]) else None
        await exchange.answer(ERROR_CODE_HTTP_STATUS.get(refusal.code, 400), messages.error(number, refusal))

    async def _get(self, who: str, headers: Mapping[str, str], exchange: Exchange) -> None:
        session = self._known(who, headers)
        last = headers.get("last-event-id")
        stream, position = (session.stand(), 0) if last is None else self._resumed(session, last)
        try:
            exchange.watch()
            await exchange.pump(stream, position, lasting=True, primed=session.primes, again=last is not None)
        finally:
            session.left(stream)

    def _resumed(self, session: HttpSession, last_event_id: str) -> tuple[Stream, int]:
        try:
            name, position = place_of(last_event_id)
        except ValueError:
            name, position = "", 0
        stream = session.resumed(name)
        if stream is None or not stream.reaches_back_to(position):
            raise Denied(400, "what came after this event is not kept any more")
        return stream, position

    async def _delete(self, who: str, headers: Mapping[str, str], exchange: Exchange) -> None:
        session = self._known(who, headers)
        del self._sessions[who, headers["mcp-session-id"]]
        await exchange.answer(200, {})
        await session.close()

    # Inside

    async def _session(self, who: str, headers: Mapping[str, str], several: list[Any]) -> tuple[HttpSession, str]:
        """The session, and its name where it is new."""
        if "mcp-session-id" in headers or not any(table(one).get("method") == "initialize" for one in several):
            named = headers.get("mcp-protocol-version")
            if named is not None and named not in versions.HANDSHAKE_PROTOCOL_VERSIONS:
                raise Denied(400, "this revision of MCP is not known here")
            return self._known(who, headers), ""
        await self._make_room()
        name = secrets.token_hex(16)
        session = self._sessions[who, name] = HttpSession(self._house, await self._bag_of(who))
        return session, name

    def _known(self, who: str, headers: Mapping[str, str]) -> HttpSession:
        if "mcp-session-id" not in headers:
            raise Denied(400, "the header Mcp-Session-Id is missing: begin with initialize")
        session = self._sessions.get((who, headers["mcp-session-id"]))
        if session is None:
            raise Denied(404, "there is no such session")
        return session

    async def _make_room(self) -> None:
        for key, session in list(self._sessions.items()):
            if session.idle_seconds > _IDLE_SECONDS:
                del self._sessions[key]
                await session.close()
        if len(self._sessions) >= _MOST_SESSIONS:
            raise Denied(503, f"there are {_MOST_SESSIONS} sessions already")

    async def _exchange(
        self, session: HttpSession, request: Message, headers: Mapping[str, str], exchange: Exchange
    ) -> Event | None:
        accepts = headers.get("accept", "")
        streams = "text/event-stream" in accepts or "*/*" in accepts
        own, stream = session.begin(request)
        answer: Event | None = None
        try:
            exchange.watch()
            if streams and not session.shared and request["method"] not in _AT_ONCE:
                # An answer that a client could lose with its connection is a stream, to which it can come back.
                more = {"lasting": True, "primed": session.primes}
                if "application/json" in accepts or "*/*" in accepts:
                    answer = await exchange.carry(stream, streams=True, modern=False, plain_from=_PLAIN_FROM, **more)
                else:
                    answer = await exchange.pump(stream, **more)
            else:
                answer = await exchange.carry(stream, streams=streams, modern=session.shared)
        finally:
            session.finish(own, cancel=session.shared and answer is None)
        return answer
