"""One process that runs the commands of all golden tests of a worker."""

from collections.abc import Iterator

import pytest

from tests.golden.commands import Commands, commands


@pytest.fixture(scope="session")
def holdall() -> Iterator[Commands]:
    with commands() as running:
        yield running
