"""Several servers by name, opened and closed together. What happens to one of them happens to no other."""

import asyncio
import difflib
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any

from holdall.upstream.connection import Connection
from holdall.upstream.keeper import Means
from holdall.upstream.routes import Callbacks
from holdall.upstream.sdk import anyio
from holdall.upstream.spec import ServerSpec
from holdall.values.errors import UpstreamFault, WrongUse

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
        means: Means | None = None,
    ) -> None:
        """`callbacks` are for all servers, or for each by its name."""
        self._connections: dict[str, Connection] = {}
        for spec in specs:
            if spec.name in self._connections:
                raise WrongUse(f'two MCP servers are called "{spec.name}"; give one of them another name.')
            own = callbacks.get(spec.name) if isinstance(callbacks, Mapping) else callbacks
            self._connections[spec.name] = Connection(spec, callbacks=own, means=means)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._connections)

    def __iter__(self) -> Iterator[Connection]:
        return iter(self._connections.values())

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
            raise WrongUse(f'there is no MCP server "{name[:100]}". There are: {known}.{hint}') from None

    async def tools(self) -> dict[str, Tools | UpstreamFault]:
        """The tools of each server, or why it has none: one that does not start keeps no other from being used."""
        found = await asyncio.gather(*(_tools_of(one) for one in self))
        return dict(zip(self.names, found, strict=True))

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
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
