"""The viewer from its start to its end: every page, the files beside them, bound to this machine, over with a
signal.
"""

import asyncio
import contextlib
import logging
import secrets
import signal
import socket
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from typing import cast

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdall.mcp.gateway import http_connection
from holdall.text.escape import one_line
from holdall.values.errors import HoldallError, NothingFound, StoreFault, UnknownHandle, UsageError
from holdall.values.record import record
from holdall.values.settings import Settings
from holdall.web import calls, conversation, output_page, pages
from holdall.web.access import AccessRules, Guard, hosts_of, is_loopback, own_name
from holdall.web.state import ViewerState, render, state_of

# The viewer as an application: every page, the files beside them, what is shown where something is not there.


_LOG = logging.getLogger("holdall.web")


def create_app(
    home: str, token: str, host: str, port: int, *, settings: Settings | None = None, own: str = ""
) -> Starlette:
    """For one store, at one address; `token` lets in. `own` is another name of it, which no other server has."""
    hosts = hosts_of(host, port) | ({own} if own else set[str]())
    rules = AccessRules(hosts, token, f"holdall-view-{port}")
    viewer = ViewerState(home, settings or Settings())

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await viewer.close()

    app = Starlette(
        routes=[
            *pages.sessions_routes,
            *pages.timeline_routes,
            *calls.routes,
            *conversation.routes,
            *output_page.routes,
            Route("/static/{name:path}", _static, name="static"),
        ],
        middleware=[Middleware(Guard, rules=rules)],
        exception_handlers={HTTPException: _no_page, HoldallError: _trouble},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.viewer, app.state.rules = viewer, rules
    return app


async def _static(request: Request) -> Response:
    found = state_of(request).static(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return Response(found.body, media_type=found.type)


async def _no_page(request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    return render(request, "trouble.html", status=status, what="There is no such page.")


async def _trouble(request: Request, problem: Exception) -> Response:
    """What the store says is for people already. A request that is not carried out is no fault of ours."""
    if isinstance(problem, NothingFound | UnknownHandle):
        return render(request, "trouble.html", status=404, what=str(problem))
    is_fault = isinstance(problem, StoreFault)
    if is_fault:
        _LOG.warning("%s: %s", one_line(request.url.path), one_line(str(problem), 300))
    return render(request, "trouble.html", status=500 if is_fault else 400, what=str(problem))


# The viewer from its start to its end: bound to this machine, so many connections and no more, over with a signal.


MAX_CONNECTIONS = 100  # a browser opens six for each window


@record
class Ready:
    """Where it is: `address` lets in for as long as it runs, `once` the first who opens it."""

    address: str
    once: str


async def serve(
    home: str, host: str, port: int, ready: Callable[[Ready], None], *, settings: Settings | None = None
) -> None:
    """Until a signal. `ready` is told the addresses once they are served."""
    listening = bound(host, port)
    port = listening[0].getsockname()[1]
    token = secrets.token_urlsafe(32)
    own = own_name(port)
    app = create_app(home, token, host, port, settings=settings, own=own)
    await asyncio.to_thread(cast("ViewerState", app.state.viewer).prepare)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="on", ws="none", http=Connection, server_header=False,
        timeout_graceful_shutdown=1, timeout_keep_alive=30, proxy_headers=False,
    )  # fmt: skip
    server = _Server(config)
    stop = _shutdown_requested()
    serving = asyncio.ensure_future(server.serve(sockets=listening))
    stopped = asyncio.ensure_future(stop.wait())
    shown = f"http://{own}/" if own else f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
    ready(Ready(f"{shown}?token={token}", f"{shown}?token={cast('AccessRules', app.state.rules).ticket()}"))
    try:
        await asyncio.wait((serving, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        server.should_exit = True
        await asyncio.wait((serving,), timeout=5)


def bound(host: str, port: int) -> list[socket.socket]:
    """Listening at both loopback addresses, before the address is printed.

    Names under `localhost` lead to both: who had our port at the other one would get the token of a browser that tries
    that one first.
    """
    if not is_loopback(host):
        raise UsageError(
            f"the viewer listens on this machine only (127.0.0.1, ::1 or localhost), not on {host[:100]}. From another "
            "one, go through a tunnel: ssh -L 8765:127.0.0.1:8765 THIS-MACHINE, with holdall view --port 8765 here."
        )
    try:
        return http_connection.listen(("::1", "127.0.0.1") if host == "::1" else http_connection.LOOPBACK, port)
    except UsageError as problem:
        raise UsageError(f"{problem} Without --port a free one is taken.") from problem


class Connection(http_connection.Connection):
    most = MAX_CONNECTIONS


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are ours."""
        yield


def _shutdown_requested() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    return stop
