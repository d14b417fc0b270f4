"""A gateway over HTTP from its start to its end: bound to one address, each principal with a session of its own."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from holdall.bag import Holdall
from holdall.gateway.front import House
from holdall.gateway.http_app import PATH, HttpApp
from holdall.gateway.http_guard import Guard, hosts_of, origins_of
from holdall.gateway.memory import give_back_what_is_large
from holdall.gateway.serving import asked_to_end, wind_up
from holdall.values.errors import MissingExtra, WrongUse

try:
    import uvicorn
except ModuleNotFoundError as problem:
    raise MissingExtra("uvicorn", "mcp", "serving MCP over HTTP") from problem

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:]+)\]|([^:\[\]]+)):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen, and who may come. `tokens` are by principal."""

    host: str
    port: int
    tokens: Mapping[str, str] = field(repr=False)
    hosts: Sequence[str] = ()  # allowed beside the address itself
    origins: Sequence[str] = ()


def address_of(text: str) -> tuple[str, int]:
    """`HOST:PORT`; an IPv6 address stands in brackets. Port 0 is any that is free."""
    found = _ADDRESS.fullmatch(text.strip())
    if found is None or int(found[3]) > 65_535:
        raise WrongUse("an address is HOST:PORT, as in 127.0.0.1:8765 or [::1]:8765.")
    return found[1] or found[2], int(found[3])


async def serve_http(
    house: House, address: Address, bag_of: Callable[[str], Holdall], ready: Callable[[str], None]
) -> None:
    """Until a signal. `ready` is told the URL once it is served."""
    give_back_what_is_large()
    listener = _bound(address)
    port: int = listener.getsockname()[1]
    bags = _Bags(bag_of)
    hosts = hosts_of(address.host, port, address.hosts)
    app = HttpApp(house, Guard(address.tokens, hosts, origins_of(hosts, address.origins)), bags.of)
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", ws="none", server_header=False,
        timeout_graceful_shutdown=1, timeout_keep_alive=65,
    )  # fmt: skip
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    stop = asyncio.ensure_future(asked_to_end().wait())
    shown = f"[{address.host}]" if ":" in address.host else address.host
    ready(f"http://{shown}:{port}{PATH}")
    try:
        await asyncio.wait((serving, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop.cancel()
        await asyncio.gather(*(wind_up(one.front, one.bag) for one in app.sessions))
        server.should_exit = True
        await asyncio.gather(*(one.close() for one in app.sessions), bags.close())
        await asyncio.wait((serving,), timeout=2)


def _bound(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        return socket.create_server((address.host, address.port), family=family, backlog=128)
    except OSError as problem:
        raise WrongUse(f"cannot listen on {address.host}:{address.port}: {problem.strerror}.") from problem


class _Bags:
    """One for each principal, opened when it first comes."""

    def __init__(self, open_one: Callable[[str], Holdall]) -> None:
        self._open = open_one
        self._bags: dict[str, asyncio.Task[Holdall]] = {}

    async def of(self, principal: str) -> Holdall:
        if principal not in self._bags:
            self._bags[principal] = asyncio.ensure_future(asyncio.to_thread(self._open, principal))
        task = self._bags[principal]
        try:
            return await asyncio.shield(task)
        except BaseException:
            if task.done() and (task.cancelled() or task.exception() is not None):
                self._bags.pop(principal, None)  # the next one may have more luck
            raise

    async def close(self) -> None:
        opened: list[Awaitable[None]] = [
            task.result().close() for task in self._bags.values() if task.done() and not task.exception()
        ]
        await asyncio.gather(*opened)


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Signals are ours: what is under way ends first."""
        yield
