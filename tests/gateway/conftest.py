"""One gateway for those tests of a module that only talk to it."""

from collections.abc import AsyncIterator

import pytest

from tests.gateway.support import Wire, gateway, plain, wire


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for a module, so that its tests can share a gateway."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(anyio_backend: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Wire]:
    async with wire(gateway(tmp_path_factory.mktemp("home"), server=plain())) as one:
        await one.greet()
        yield one


@pytest.fixture
def client(shared: Wire) -> Wire:
    """In front of the plain server. What it told other tests is forgotten."""
    shared.heard.clear()
    return shared
