"""Stores to test. A new implementation is added to STORES, and the whole contract runs on it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest

from holdall.store.directory.store import DirectoryStore
from holdall.store.fleet.store import FleetStore
from holdall.store.memory import MemoryStore
from holdall.store.protocol import OutputStore, SessionInfo
from tests.fleet.fixtures import Place, fleet_servers, new_place
from tests.fleet.servers import Address
from tests.store.support import Clock, StoreMaker


def _directory(home: Path, **options: Any) -> OutputStore:
    return DirectoryStore(str(home), **options)


def _memory(home: Path, **options: Any) -> OutputStore:
    store = MemoryStore(beside=_IN_MEMORY.get(home), **options)
    _IN_MEMORY.setdefault(home, store)
    return store


def _fleet(home: Path, **options: Any) -> OutputStore:
    """One database for all tests of a run: those of other tests are those of another principal."""
    (place,) = _PLACES
    cache: dict[str, Any] = {"cache_dir": f"{home}-cache", "cache_bytes": 1 << 30}
    return FleetStore(place.home, objects=place.objects, principal=str(home), **(cache | options))


_PLACES: list[Place] = []
_IN_MEMORY: WeakValueDictionary[Path, MemoryStore] = WeakValueDictionary()  # the first store that a test opened
STORES: dict[str, StoreMaker] = {"directory": _directory, "memory": _memory, "fleet": _fleet}


__all__ = ["fleet_servers"]


@pytest.fixture(scope="session")
def fleet_database(fleet_servers: Address) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in fleet_servers.environment().items():
            patch.setenv(name, value)
        _PLACES.append(new_place(fleet_servers))
        yield
        _PLACES.clear()


@pytest.fixture(autouse=True)
def servers_of_the_fleet(request: pytest.FixtureRequest) -> None:
    """Real ones, started with the first test that needs them."""
    if "fleet" in getattr(getattr(request.node, "callspec", None), "params", {}).values():
        request.getfixturevalue("fleet_database")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture(params=[pytest.param(name, marks=[pytest.mark.fleet] * (name == "fleet")) for name in sorted(STORES)])
def make_store(request: pytest.FixtureRequest, home: Path, clock: Clock) -> Iterator[StoreMaker]:
    """Opens the same store as often as it is asked, with the options that are given."""
    opened: list[OutputStore] = []

    def make(**options: Any) -> OutputStore:
        opened.append(STORES[request.param](home, **({"clock": clock} | options)))
        return opened[-1]

    yield make
    for store in opened:
        store.close()


@pytest.fixture
def store(make_store: StoreMaker) -> OutputStore:
    return make_store()


@pytest.fixture
def session(store: OutputStore) -> SessionInfo:
    return store.open_session("s1")


@pytest.fixture
def folder_store(home: Path, clock: Clock) -> Iterator[DirectoryStore]:
    """The store on disk, for what only it promises."""
    store = DirectoryStore(str(home), clock=clock)
    yield store
    store.close()


@pytest.fixture
def folder_session(folder_store: DirectoryStore) -> SessionInfo:
    return folder_store.open_session("s1")
