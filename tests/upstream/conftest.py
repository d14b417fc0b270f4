"""One HTTP server for the tests that only talk to it."""

from collections.abc import Iterator

import pytest

from holdall.mcp.client.spec import HttpServer
from tests.upstream.support import http_server


@pytest.fixture(scope="session")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    folder = tmp_path_factory.mktemp("web")
    with http_server(folder, "--journal", str(folder / "journal")) as (spec, _):
        yield HttpServer(spec.name, spec.url, source=str(folder / "journal"))  # where its journal is
