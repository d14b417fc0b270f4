"""Where a server of ours listens for HTTP, and one connection to it: there are only so many, and none waits for ever.

uvicorn bounds the size of a request's head (16 KiB) and how long a connection is kept unused; not how long a head
takes, nor how many connections there are. Nothing here knows what is asked.
"""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Sequence
from math import inf
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

from holdall.values.errors import UsageError

LOOPBACK = ("127.0.0.1", "::1")  # `localhost` and names under it lead to both
_ATTEMPTS = 20  # to find a port that is free at all addresses
_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)  # the machine has no such address, so nobody else has it either
_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_ENDS, _BETWEEN = 1000, 24  # ends of lines in a body, and the bytes that there are at least for each beyond so many


def listen(addresses: Sequence[str], port: int) -> list[socket.socket]:
    """At the same port of all these addresses, or of those that this machine has; never without the first.

    Where a name leads to several, who had our port at another one would get the tokens of clients that try that first.
    """
    for _ in range(0 if port else _ATTEMPTS - 1):
        with contextlib.suppress(UsageError):
            return _listen(addresses, port)
    return _listen(addresses, port)


def _listen(addresses: Sequence[str], port: int) -> list[socket.socket]:
    found: list[socket.socket] = []
    with contextlib.ExitStack() as opened:
        for address in addresses:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            try:
                one = socket.create_server((address, port), family=family, backlog=128)
            except (OSError, OverflowError) as problem:
                if found and isinstance(problem, OSError) and problem.errno in _NOT_HERE:
                    continue
                at = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
                raise UsageError(f"cannot listen on {at}: {_why(problem)}.") from problem
            # asyncio does not do this for a socket that it is given; an answer in two parts would take 40 ms longer.
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            found.append(opened.enter_context(one))
            port = one.getsockname()[1]
        opened.pop_all()
    return found


def _why(problem: OSError | OverflowError) -> str:
    if isinstance(problem, OverflowError):
        return "a port is a number up to 65535"
    return str(problem.strerror) if isinstance(problem, socket.gaierror) else os.strerror(problem.errno or 0)


class Connection(H11Protocol):
    """Too many: the one that has been idle for longest makes room for a new one, else the one whose client has not
    taken its answer for longest.

    Connections that are opened and say nothing, or one byte at a time, or ask and never read, would otherwise keep
    everybody else out.
    """

    most = 512
    head_seconds = 10.0  # for the head of a request, and for the rest of a body that was answered before its end
    unread_seconds = 60.0  # until some of what waits for the client has been read

    opened = 0.0
    _received = _ends = 0  # bytes of the request that is coming, and ends of lines among them
    full_since = inf  # more waits to be read than is held
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.opened = self.loop.time()
        self._wait()
        # One that was turned away stays in the set until the loop has come round to it.
        there = [one for one in cast("set[Connection]", self.connections) if not one.transport.is_closing()]
        if len(there) > self.most:
            idle = (one for one in there if one.is_idle and one is not self)
            unread = (one for one in there if one.full_since < inf)
            last = min(unread, key=lambda one: one.full_since, default=self)
            min(idle, key=lambda one: one.opened, default=last).transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.full_since = self.loop.time()
        self._unread = self.loop.call_later(self.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._has_room()

    def _has_room(self) -> None:
        self.full_since = inf
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def data_received(self, data: bytes) -> None:
        if self._is_crumbs(data):
            self.transport.abort()
            return
        super().data_received(data)
        if not self.is_idle:
            self._stop_waiting()
        elif self._late is None:
            self._wait()

    def _is_crumbs(self, data: bytes) -> bool:
        """A body in chunks of a few bytes: each takes as long to read as a large one, in the time of everybody."""
        in_body = repr(self.conn.their_state) == "SEND_BODY"  # a name of h11, which is uvicorn's
        if in_body and not any(name == b"transfer-encoding" for name, _ in self.headers):
            return False
        if not in_body:
            self._received = self._ends = 0
            data = data.partition(b"\r\n\r\n")[2]  # behind the head
        self._received += len(data)
        self._ends += data.count(b"\r\n")
        return self._ends > _ENDS and self._ends * _BETWEEN > self._received

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.is_idle:  # the next request was there already
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._has_room()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """Nothing was asked, or all that was asked is answered."""
        cycle = cast("object | None", self.cycle)
        return cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._late = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        if cast("object | None", self.cycle) is None:
            self.transport.write(_TOO_SLOW)
        self.transport.close()
