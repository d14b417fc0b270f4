"""In which era a server is greeted, where nobody says."""

import asyncio
from typing import Any

import pytest

from holdall.mcp.client import handshake
from holdall.mcp.client.handshake import Identity, greet
from holdall.mcp.client.routes import Declined
from tests.requirements import requirement

pytestmark = pytest.mark.anyio
HANDSHAKE: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
DISCOVERED: dict[str, Any] = {"supportedVersions": ["2026-07-28"], "capabilities": {}}


async def greeted(identity: Identity, **answers: Any) -> tuple[str, list[str]]:
    """The revision that came about, and what was sent for it."""
    sent: list[str] = []

    async def send(method: str, _params: dict[str, Any], _headers: dict[str, str]) -> dict[str, Any]:
        sent.append(method)
        if (answer := answers.get(method.rpartition("/")[2])) is None:
            raise Declined(-32601, "Method not found")
        return answer

    return (await greet(send, identity, "auto")).revision, sent


async def test_a_server_of_both_eras_is_greeted_in_the_era_of_who_asks() -> None:
    newer, older = Identity("x", "1", {}), Identity("x", "1", {}, older=True)
    both = {"initialize": HANDSHAKE, "discover": DISCOVERED}
    assert await greeted(newer, **both) == ("2026-07-28", ["server/discover"])
    assert await greeted(older, **both) == ("2025-11-25", ["initialize"])


class Late:
    """A server that is slow to start: it answers once both greetings have come, the handshake first."""

    def __init__(self, discovered: dict[str, Any] | None) -> None:
        self._discovered = discovered
        self._both = asyncio.Event()
        self.sent: list[str] = []

    async def send(self, method: str, _params: dict[str, Any], _headers: dict[str, str]) -> dict[str, Any]:
        self.sent.append(method)
        if method == "initialize":
            self._both.set()
            return HANDSHAKE
        await self._both.wait()
        for _ in range(10):  # the other answer is there before
            await asyncio.sleep(0)
        if self._discovered is None:
            await asyncio.Event().wait()  # for ever
        return self._discovered or {}


@requirement("gateway:slow-discovery")
async def test_a_server_that_is_slow_to_start_is_not_taken_for_an_old_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "_SILENT_SECONDS", 0.0)
    monkeypatch.setattr(handshake, "_LATE_SECONDS", 60.0, raising=False)
    server = Late(DISCOVERED)
    assert (await greet(server.send, Identity("x", "1", {}), "auto")).revision == "2026-07-28"
    assert server.sent == ["server/discover", "initialize"]


@requirement("gateway:slow-discovery")
async def test_an_old_server_that_is_silent_on_what_it_does_not_know_is_not_waited_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("_SILENT_SECONDS", "_LATE_SECONDS"):
        monkeypatch.setattr(handshake, name, 0.0)
    assert (await greet(Late(None).send, Identity("x", "1", {}), "auto")).revision == "2025-11-25"


async def test_who_speaks_the_older_era_still_reaches_a_server_that_has_given_it_up() -> None:
    older = Identity("x", "1", {}, older=True)
    assert await greeted(older, discover=DISCOVERED) == ("2026-07-28", ["initialize", "server/discover"])
    with pytest.raises(Declined):
        await greeted(older)
