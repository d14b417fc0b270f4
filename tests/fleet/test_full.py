"""Servers that have no room, let nobody in, or want fewer requests: each call ends with an error that says how to mend
it, nothing that was acknowledged is lost, and all works again when they do.
"""
# pyright: reportPrivateUsage=false
# Faults are made where they happen: in the store's own connections.

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from holdall import Holdall, Settings
from holdall.store.fleet.store import FleetStore
from holdall.store.protocol import SessionInfo
from holdall.values.errors import StoreFault, StoreFull
from holdall.values.outputs import Facts, Kept, Origin, Unkept
from tests.fleet.fixtures import Place, Tally
from tests.fleet.harness import admin
from tests.fleet.proxy import Fault, Mode, proxied
from tests.fleet.servers import ROLE, Address, Postgres, _server_user
from tests.fleet.test_store import Fleet
from tests.requirements import requirement
from tests.store.support import keep, read_back

pytestmark = pytest.mark.fleet
ALWAYS = 10**9


@pytest.fixture
def fleet(fleet_place: Place, tmp_path: Path) -> Iterator[Fleet]:
    with contextlib.closing(Fleet(fleet_place, tmp_path)) as found:
        yield found


# ── The database ────────────────────────────────────────────────────────────────────────────────────────────


class Disk:
    """A small file system of its own, that can be made larger."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self._run("mount", "-t", "tmpfs", "-o", "size=16m,mode=777", "tmpfs", str(path))

    def grow(self) -> None:
        self._run("mount", "-o", "remount,size=64m", str(self.path))

    def close(self) -> None:
        self._run("umount", "--lazy", str(self.path))

    def _run(self, *command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no file system can be mounted here: {done.stderr}")


@contextlib.contextmanager
def on_a_small_disk(fleet_servers: Address) -> Generator[tuple[Place, Disk]]:
    """A store whose database is in a table space of 16 MB, on a server of its own: whoever needs a page in the server's
    memory writes what somebody else has in it, and would get the error of the full disk.
    """
    name = f"full{secrets.token_hex(4)}"
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        with contextlib.closing(Disk(Path(folder) / "disk")) as disk:
            for place in (disk.path / "space", Path(folder) / "server"):
                place.mkdir()
                shutil.chown(place, _server_user())
            server = Postgres(Path(folder) / "server", fleet_servers.database_host)
            address = fleet_servers._replace(
                database_port=server.port, password=server.password, admin_password=server.admin_password
            )
            try:
                server.start(address)
                address.make_role()
                address.sql(f"create tablespace {name} location '{disk.path / 'space'}'")
                address.sql(f"create database {name} owner {ROLE} tablespace {name}")
                with pytest.MonkeyPatch.context() as patch:
                    for variable, value in address.environment().items():
                        patch.setenv(variable, value)
                    yield Place(address.home(name), address.objects(name), address, name), disk
            finally:
                server.stop()


@requirement("fleet:refusals-told")
def test_a_database_whose_disk_is_full_loses_nothing_and_works_again_with_room(
    fleet_place: Place, fleet_servers: Address, tmp_path: Path, tally: Tally
) -> None:
    with on_a_small_disk(fleet_servers) as (place, disk), contextlib.closing(Fleet(place, tmp_path)) as fleet:
        store = fleet.host()
        session = store.open_session("s")
        growing = store.begin(session, Origin())
        growing.write(b"what was committed")
        growing.flush()
        kept: list[Facts] = []
        with pytest.raises(StoreFull, match=r"its disk is full: .*SQLSTATE 53100"):
            _keep_until_it_is_refused(store, session, kept)
        tally.add("full database")
        assert len(kept) > 10
        for host in (store, fleet.host()):
            assert [read_back(host, facts) for facts in kept] == [b"output %d" % at for at in range(len(kept))]
        with pytest.raises(StoreFull):
            _fill(store, session)
        disk.grow()
        after = keep(store, session, "there is room again")
        growing.write(b", and what came after")
        ended = growing.finish()
        assert read_back(fleet.host(), after) == b"there is room again"
        assert read_back(fleet.host(), ended) == b"what was committed, and what came after"
        known = {facts.handle for facts in kept} | {after.handle, ended.handle}
        assert known <= {facts.handle for facts in store.outputs(session) if facts.state == "ready"}
        assert [verdict.problem for verdict in store.verify() if verdict.problem] == []


def _keep_until_it_is_refused(store: FleetStore, session: SessionInfo, kept: list[Facts]) -> None:
    for number in range(10_000):
        kept.append(keep(store, session, f"output {number}"))
        store.append_events(session, b'{"x":"%s"}\n' % os.urandom(20_000).hex().encode())


def _fill(store: FleetStore, session: SessionInfo) -> None:
    for number in range(10_000):
        store.remember(session, "0" * 64, f"{number:064}", os.urandom(8_000))


REFUSING = {
    "CONNECTION LIMIT 0": r"it has no connection left .*CONNECTION LIMIT",
    "SET default_transaction_read_only = on": r"the database is read-only: .*default_transaction_read_only",
}


@pytest.mark.parametrize("refusal", list(REFUSING))
@pytest.mark.anyio
@requirement("fleet:refusals-told")
async def test_a_database_that_lets_nobody_in_or_is_read_only_says_so(
    refusal: str, fleet: Fleet, fleet_servers: Address, tmp_path: Path, tally: Tally
) -> None:
    place = fleet.place
    kept = keep(fleet.host(), fleet.host().open_session("s"), "kept before")
    settings = Settings(objects=place.objects, cache_dir=str(tmp_path / "cache"))
    async with Holdall.open(home=place.home, session="s", settings=settings) as bag:
        store = bag.core.store
        assert isinstance(store, FleetStore)
        with admin(fleet_servers, "postgres") as connection:
            connection.execute(f"ALTER DATABASE {place.database} {refusal}")  # pyright: ignore
        store.database._drop_free()
        taken = await bag.take("line of an output\n" * 20_000, tool="t")
        tally.add(f"database: {refusal}")
        assert isinstance(taken, Unkept)
        with pytest.raises(StoreFault, match=REFUSING[refusal]):
            store.append_events(bag.session, b"{}\n")
        if "read_only" in refusal:
            assert read_back(store, kept) == b"kept before"
        with admin(fleet_servers, "postgres") as connection:
            connection.execute(f"ALTER DATABASE {place.database} CONNECTION LIMIT -1")  # pyright: ignore
            connection.execute(f"ALTER DATABASE {place.database} RESET ALL")  # pyright: ignore
        store.database._drop_free()
        assert isinstance(await bag.take("line of an output\n" * 20_000, tool="t"), Kept)
        assert read_back(store, kept) == b"kept before"
    assert fleet.host().sweep().leftovers == ()


# ── The bucket ──────────────────────────────────────────────────────────────────────────────────────────────


TOLD: dict[Mode, tuple[type[StoreFault], str]] = {
    "507": (StoreFull, r"it is full: .*quota"),
    "quota": (StoreFull, r"it is full: .*quota"),
    "503": (StoreFault, r"it wants fewer requests \(status 503\), also when asked again"),
    "429": (StoreFault, r"it wants fewer requests \(status 429\), also when asked again"),
}


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize("mode", list(TOLD))
@requirement("fleet:refusals-told")
def test_a_bucket_that_is_full_or_wants_fewer_requests_says_so(
    mode: Mode, fleet: Fleet, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    host, _, port = fleet.place.servers.endpoint.removeprefix("http://").partition(":")
    with proxied((host, int(port)), "http") as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
        store = fleet.host()
        session = store.open_session("s")
        before = keep(store, session, "kept before")
        growing = store.begin(session, Origin())
        growing.write(b"first, ")
        growing.flush()
        proxy.arm(Fault(1, mode, ALWAYS))
        kind, told = TOLD[mode]
        with pytest.raises(kind, match=told):
            keep(store, session, "refused")
        with pytest.raises(kind, match=told):
            keep(store, session, os.urandom(9_000_000))  # in parts
        growing.write(b"then the rest")
        with pytest.raises(kind, match=told):
            growing.flush()
        tally.add(f"bucket: {mode}", times=len(proxy.fired))
        assert [facts.handle for facts in store.outputs(session)] == [before.handle, growing.handle]
        proxy.arm(None)
        assert read_back(fleet.host(), growing.finish()) == b"first, then the rest"
        assert read_back(fleet.host(), before) == b"kept before"
        # A few refusals in a row are no fault.
        if mode in ("503", "429"):
            proxy.arm(Fault(1, mode, 2))
            assert read_back(store, keep(store, session, "in the end")) == b"in the end"
            assert len(proxy.fired) == 2
            proxy.arm(None)
        store.sweep()
        assert fleet.intents() == 0
