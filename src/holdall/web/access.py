"""Who may look, and what a page may do: the exact host, our own origin, a token; and headers that forbid the rest.

Pages of other origins are refused: not by a name of its own that leads here (the host is compared exactly), not from
its own origin, not in a frame, and not without the token, which is new with each start. Nothing here changes anything,
so only GET and HEAD are answered. It never writes the token into a log.

A browser sends a cookie to every port of a host, so any server on this machine would get it. Pages are therefore below
a path that nobody else knows, and the cookie is for that path only. This works at any name and through any tunnel.
A service worker of a server that had our port before would see every request to that origin: so ours is new with each
start.

A tab outlives its viewer, and then any user of this machine may answer at that port. So every answer to who was let in
has a mark that pages know and never send: they believe no other. And only what was on a page when it came may run.
"""

import hmac
import logging
import secrets
import socket
import sys
import time
from collections.abc import MutableMapping, Sequence
from dataclasses import field
from html import escape
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holdall.mcp.gateway.http_refusals import Refusals
from holdall.text.escape import one_line
from holdall.values.record import record

_LOG = logging.getLogger("holdall.web")
_ONCE = (b"host", b"origin", b"authorization", b"sec-fetch-site", b"sec-fetch-mode", b"sec-fetch-dest")
POLICY = "; ".join((
    "default-src 'none'", "img-src 'self'", "connect-src 'self'", "form-action 'self'", "frame-ancestors 'none'",
    "base-uri 'none'",
))  # fmt: skip
MARK = b"holdall-viewer"  # a header
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Denied(Exception):
    """`status` is HTTP's."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


@record(frozen=False)
class AccessRules:
    """Who is let in. `hosts` are written as a browser sends them, with the port."""

    hosts: frozenset[str]
    token: str = field(repr=False)
    cookie: str  # its name
    path: str = field(default_factory=lambda: f"/{secrets.token_hex(16)}", repr=False)  # of pages and the cookie
    pass_: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)  # what is in the cookie
    mark: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)  # tells our answers from others
    tickets: set[str] = field(default_factory=set[str], repr=False)

    def ticket(self) -> str:
        """A token for one use: the arguments of a program that opens a browser can be read by every user here."""
        made = secrets.token_urlsafe(32)
        self.tickets.add(made)
        return made

    def takes(self, given: str) -> bool:
        """Whether it is the token, or an unused one-time ticket."""
        if given in self.tickets:
            self.tickets.discard(given)
            return True
        return self.is_token(given)

    @property
    def origins(self) -> frozenset[str]:
        return frozenset(f"http://{host}" for host in self.hosts)

    def check(self, method: str, headers: "dict[bytes, str]") -> None:
        """Whether the request comes from where it may come from. Raises Denied."""
        if headers.get(b"host", "").lower() not in self.hosts:
            raise Denied(421, "no viewer has this address now; open the one that `holdall view` has printed")
        if b"origin" in headers and headers[b"origin"].lower() not in self.origins:
            raise Denied(403, "requests from other origins are refused")
        if method not in ("GET", "HEAD"):
            raise Denied(405, "only GET and HEAD are allowed")
        if headers.get(b"sec-fetch-site", "none") not in ("same-origin", "none") and not _is_navigation(headers):
            raise Denied(403, "requests from other origins are refused")

    def knows(self, headers: "dict[bytes, str]", *, below: bool) -> bool:
        """Whether it brings the token as `Authorization: Bearer` or, if it is `below` our path, the cookie."""
        scheme, _, bearer = headers.get(b"authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(bearer.strip()):
            return True
        # Ours is never quoted. The cookies of others are not read: Python's own reader takes minutes for hostile ones.
        pairs = (one.strip().partition("=") for one in headers.get(b"cookie", "").split(";"))
        given = next((value for name, _, value in pairs if name == self.cookie), "")
        return below and _is_same(self.pass_, given)

    def is_token(self, given: str) -> bool:
        return _is_same(self.token, given)


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode("utf-8", "replace"))


class Guard:
    """Middleware: refused requests never reach the application."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules
        self._refusals = Refusals()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _Answer(send))
        else:
            await send({"type": "websocket.close", "code": 1008})
            _LOG.warning("refused: nothing here speaks anything but HTTP")

    async def _http(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        began = time.monotonic()
        if below := f"{scope['path']}/".startswith(f"{self._rules.path}/"):
            inner = str(scope["path"]).removeprefix(self._rules.path) or "/"
            scope = {**scope, "path": inner, "root_path": self._rules.path}  # no log has the path either
        try:
            headers = _single(scope["headers"])
            self._rules.check(scope["method"], headers)
            if (rest := self._redirect_without_token(scope)) is not None:
                await answer.let_in(self._rules, rest, headers)
            elif self._rules.knows(headers, below=below):
                self._refusals.forget(scope)
                nonce = answer.as_ours(self._rules.mark)
                await self._app({**scope, "mark": self._rules.mark, "nonce": nonce}, receive, answer)
            else:
                raise Denied(401, "open the address that `holdall view` has printed, with its token")
        except Denied as denied:
            _LOG.warning("refused %s %s: %s", *_log_line(scope), denied)
            await answer.refuse(denied, self._refusals.headers(scope))
        except Exception as problem:
            _LOG.error("%s %s failed: %s", *_log_line(scope), one_line(f"{type(problem).__name__}: {problem}", 300))
            if not answer.status:
                await answer.refuse(Denied(500, "this page could not be rendered; see standard error"))
        _LOG.info("%s %s %d in %.0f ms", *_log_line(scope), answer.status, (time.monotonic() - began) * 1000)

    def _redirect_without_token(self, scope: Scope) -> str | None:
        """Where to continue below our path without the token of the address; None if it has none. Raises Denied."""
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        tokens = [value for name, value in asked if name == "token"]
        if not tokens:
            return None
        if not all(map(self._rules.takes, tokens)):
            raise Denied(401, "this token is not known; open the address that `holdall view` has printed")
        rest = urlencode([(name, value) for name, value in asked if name != "token"])
        path = f"{self._rules.path}/{quote(str(scope['path'])).lstrip('/')}"
        return f"{path}?{rest}" if rest else path


class _Answer:
    """A `send` that adds our headers to every answer, and remembers how it went."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._headers = dict(HEADERS)
        self.status = 0

    def as_ours(self, mark: str) -> str:
        """With the mark; what has the nonce that this returns may run. For who is let in: a neighbour may ask too."""
        nonce = secrets.token_urlsafe(16)
        policy = f"{POLICY}; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
        self._headers |= {MARK: mark.encode(), b"content-security-policy": policy.encode()}
        return nonce

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message.get("headers", ())
            kept = [(name, value) for name, value in given if name.lower() not in self._headers]
            message["headers"] = [*kept, *self._headers.items()]
        await self._send(message)

    async def let_in(self, rules: AccessRules, to: str, headers: "dict[bytes, str]") -> None:
        """With the cookie."""
        cookie = f"{rules.cookie}={rules.pass_}; Path={rules.path}; HttpOnly; SameSite=Strict"
        given = ((b"set-cookie", cookie.encode()),)
        if headers.get(b"sec-fetch-site") == "cross-site":
            # A browser that came from elsewhere sends no such cookie along a redirect, but from a page of ours it does.
            page = f'<!doctype html><title>Holdall</title><meta http-equiv="refresh" content="0;url={escape(to)}">'
            await self._whole(200, page.encode(), given)
        else:
            await self._whole(303, b"", ((b"location", to.encode()), *given))

    async def refuse(self, denied: Denied, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        text = escape(f"{denied.status}: {denied}.")
        page = (
            f'<!doctype html><html lang="en"><title>Holdall</title><p>{text}</p><p><a href="">Try again</a></p></html>'
        )
        await self._whole(denied.status, page.encode(), headers)

    async def _whole(self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
        about = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        await self({"type": "http.response.start", "status": status, "headers": [*about, *headers]})
        await self({"type": "http.response.body", "body": body})


def hosts_of(host: str, port: int) -> frozenset[str]:
    """How a browser writes this address: also by name where it is this machine's own."""
    own = f"[{host}]" if ":" in host else host
    names = {own.lower(), "localhost"} if is_loopback(host) else {own.lower()}
    return frozenset({f"{name}:{port}" for name in names} | (names if port == 80 else set[str]()))


def own_name(port: int) -> str:
    """A host that no server had before, with its port; empty where a browser may not find this machine by it.

    Chromium and Firefox ask nobody about names under `localhost`. Safari asks the system.
    """
    name = f"{secrets.token_hex(8)}.localhost"
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError:
        return "" if sys.platform == "darwin" else f"{name}:{port}"
    return f"{name}:{port}" if all(is_loopback(str(one[4][0])) for one in found) else ""


def is_loopback(host: str) -> bool:
    return host.lower() in ("localhost", "127.0.0.1", "::1")


def _single(raw: Sequence[tuple[bytes, bytes]]) -> dict[bytes, str]:
    headers: dict[bytes, str] = {}
    for name, value in raw:
        key = name.lower()
        if key in headers and key in _ONCE:
            raise Denied(400, f"the header {key.decode('latin-1')} stands twice")
        text = value.decode("latin-1")
        headers[key] = f"{headers[key]}; {text}" if key == b"cookie" and key in headers else text
    return headers


def _is_navigation(headers: "dict[bytes, str]") -> bool:
    """A navigation (a link or a typed address), not a request of another page."""
    return headers.get(b"sec-fetch-mode") == "navigate" and headers.get(b"sec-fetch-dest") == "document"


def _log_line(scope: "MutableMapping[str, Any]") -> tuple[str, str]:
    """Method and path for a log, on one line; never what is after the question mark."""
    return one_line(str(scope["method"]), 20), one_line(str(scope["path"]), 200)
