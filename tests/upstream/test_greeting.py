"""In which era a server is greeted, where nobody says."""

from typing import Any

import pytest

from holdall.mcp.client.handshake import Identity, greet
from holdall.mcp.client.routes import Declined

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


async def test_who_speaks_the_older_era_still_reaches_a_server_that_has_given_it_up() -> None:
    older = Identity("x", "1", {}, older=True)
    assert await greeted(older, discover=DISCOVERED) == ("2026-07-28", ["initialize", "server/discover"])
    with pytest.raises(Declined):
        await greeted(older)
