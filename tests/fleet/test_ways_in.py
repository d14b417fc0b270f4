"""Everything that people and agents use, on a store of many hosts: what one host keeps, another one finds."""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncGenerator, Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from starlette.testclient import TestClient

from holdall import Holdall, Kept, Settings, ToolPolicy
from holdall.bag.bundles import export_session, import_bundle
from holdall.web.server import create_app
from tests.cli.program import Program, Ran
from tests.extract.shapes import finding, quoting
from tests.fleet.fixtures import Place
from tests.fleet.proxy import proxied
from tests.gateway.support import HOLDALL, plain
from tests.gateway.test_keeping import handle_in
from tests.gateway.web import TOKEN, client_at, served
from tests.requirements import requirement
from tests.upstream.launch import unforked

pytestmark = [pytest.mark.fleet, pytest.mark.in_full(one_in=2)]
LINES = [f"2026-11-15 10:00:00 INFO request {at} took {at % 97} ms" for at in range(30_000)]
NEEDLE = "2026-11-15 10:00:07 ERROR E1234 disk /dev/sda3 is full"
LINES[20_000] = NEEDLE
LOG = "\n".join(LINES) + "\n"
SECRET = "correct-horse-7!"
VIEWER = ("127.0.0.1", 8765)


class Hosts:
    """Hosts of one fleet: each has copies of its own, and nothing else of its own."""

    def __init__(self, place: Place, folder: Path) -> None:
        self.place = place
        self._folder = folder

    def settings(self, host: str, **more: Any) -> Settings:
        return Settings(objects=self.place.objects, cache_dir=str(self._folder / host), **more)

    def opened(self, host: str, session: str = "s", *, model: Any = None, **more: Any) -> Any:
        return Holdall.open(home=self.place.home, session=session, settings=self.settings(host, **more), model=model)

    def environment(self, host: str) -> dict[str, str]:
        return {**self.place.environment(), "HOLDALL_CACHE_DIR": str(self._folder / host)}

    def run(self, host: str, *arguments: str, stdin: bytes = b"", code: int = 0) -> Ran:
        program = Program(self._folder / "no-folder")
        ran = program(*arguments, stdin=stdin, env={**os.environ, **self.environment(host), "HOLDALL_SESSION": "s"})
        assert ran.code == code, ran
        return ran

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.place.home, autocommit=True) as connection:
            return connection.execute(statement).fetchall()  # pyright: ignore

    def everything_stored(self) -> bytes:
        """Each row and each object."""
        from obstore.store import from_url

        found = bytearray()
        tables = self.sql("SELECT tablename FROM pg_tables WHERE tablename LIKE 'holdall%'")
        for (table,) in tables:
            found += repr(self.sql(f"SELECT * FROM {table}")).encode()
        bucket: Any = from_url(self.place.objects, client_options={"allow_http": True})
        for piece in bucket.list():
            for one in piece:
                found += bucket.get(one["path"]).bytes().to_bytes()
        return bytes(found)


@pytest.fixture
def hosts(fleet_place: Place, tmp_path: Path) -> Hosts:
    return Hosts(fleet_place, tmp_path)


# ── The command line ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.in_full
@requirement("fleet:upkeep")
def test_every_command_of_upkeep_works_on_what_another_host_kept(hosts: Hosts, tmp_path: Path) -> None:
    handle = hosts.run("a", "--json", "put", stdin=LOG.encode()).json["handle"]
    second = hosts.run("a", "--json", "put", stdin=LOG.upper().encode()).json["handle"]
    assert hosts.run("b", "cat", handle).out == LOG.encode()
    assert NEEDLE in hosts.run("b", "grep", handle, "E1234").text
    stats = hosts.run("b", "--json", "stats").json
    assert (stats["sessions"], stats["outputs"], stats["bytes"]) == (1, 2, 2 * len(LOG))
    assert "2 outputs" in hosts.run("b", "verify").err
    bundle = str(tmp_path / "s.zip")
    hosts.run("b", "export", "s", "-o", bundle)
    hosts.run("c", "import", bundle, "--as", "t")
    assert hosts.run("a", "-s", "t", "cat", second).out == LOG.upper().encode()
    assert hosts.run("b", "--json", "rm", handle).json["freed_bytes"] == len(LOG)
    assert "removed on request" in hosts.run("a", "cat", handle, code=3).err
    assert hosts.run("a", "-s", "t", "cat", handle).out == LOG.encode()
    assert hosts.run("c", "--json", "gc").json["leftovers"] == []
    assert hosts.run("c", "--json", "verify").json["checked"] == 3
    hosts.run("c", "rm", "--session", "t")
    assert "removed on request" in hosts.run("a", "-s", "t", "cat", second, code=3).err


@requirement("fleet:removal-told")
@pytest.mark.anyio
async def test_rm_forget_and_gc_say_that_bytes_are_still_there(
    fleet_place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "objects"
    folder.mkdir(mode=0o700)
    hosts = Hosts(fleet_place._replace(objects=folder.as_uri()), tmp_path)
    handles = [hosts.run("a", "--json", "put", stdin=f"secret {at}".encode()).json["handle"] for at in range(4)]
    in_the_way: list[Path] = []
    for handle in handles[:3]:
        ((object,),) = hosts.sql(f"SELECT object::text FROM holdall_outputs WHERE handle = '{handle}'")
        file = folder / object[:2] / object
        file.rename(folder / "aside")
        in_the_way.append(file / "a folder" / "of somebody")
        in_the_way[-1].mkdir(parents=True)
        (folder / "aside").rename(file / "00000000")
    told = "that no output names any more could not be removed: the objects in file://"
    ran = hosts.run("a", "rm", handles[0], code=3)
    assert f"1 object {told}" in ran.err
    assert "1 output removed: freed 0 B" in ran.err
    assert f"1 object {told}" in hosts.run("b", "gc", code=3).err
    async with hosts.opened("b") as bag:
        removed = await bag.forget(handles[1])
    assert caplog.messages == [removed.left]
    assert f"2 objects {told}" in removed.left
    ran = hosts.run("b", "gc", "--session", "s", "--older-than", "0s")
    assert f"1 object {told}" in ran.err
    assert "2 expired outputs, 0 left-over files: freed 8 B" in ran.err
    ran = hosts.run("b", "--json", "rm", "--session", "s", code=3)
    assert (f"3 objects {told}" in ran.json["left"], ran.json["freed_bytes"]) == (True, 0)
    for path in in_the_way:
        path.rmdir()
        path.parent.rmdir()
    gc = hosts.run("a", "--json", "gc").json
    assert (gc["left"], len(gc["leftovers"]), gc["freed_bytes"]) == ("", 3, 3 * len("secret 0"))
    assert [path for path in folder.rglob("*") if path.is_file() and path.name != "holdall-store"] == []


@requirement("fleet:upkeep")
def test_doctor_tries_the_store_and_leaves_nothing_that_is_listed(hosts: Hosts) -> None:
    hosts.run("a", "put", stdin=LOG.encode())
    for _ in range(2):
        said = hosts.run("b", "doctor").text
        assert "1 output in session 's', keeps and gives back" in said
    stats = hosts.run("b", "--json", "stats").json
    assert (stats["sessions"], stats["outputs"], stats["removed"]) == (1, 1, 0)


# ── The viewer ──────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.contextmanager
def looking(home: str, settings: Settings) -> Generator[TestClient]:
    app = create_app(home, "t" * 43, *VIEWER, settings=settings)
    headers = {"authorization": f"Bearer {'t' * 43}"}
    with TestClient(
        app, base_url="http://127.0.0.1:8765", headers=headers, raise_server_exceptions=False, follow_redirects=False
    ) as browser:
        yield browser


@pytest.mark.anyio
@requirement("fleet:viewer")
async def test_the_viewer_of_another_host_shows_sessions_and_outputs(hosts: Hosts) -> None:
    async with hosts.opened("a") as bag:
        taken = await bag.take(LOG, tool="fetch_log")
        assert isinstance(taken, Kept)
        rows = json.dumps([{"id": at, "name": f"n{at}"} for at in range(3000)])
        table = (await bag.keep(rows, tool="list")).handle
        await bag.grep(taken.handle, "E1234")
        session = bag.session.id

    def look() -> None:
        with looking(hosts.place.home, hosts.settings("b")) as browser:
            assert f'href="/s/{session}"' in browser.get("/sessions/rows").text
            assert "fetch_log" in browser.get(f"/s/{session}").text
            for path in ("", "/notice", "/seen", "/rows?from=20000&count=2", "/tree", "/place?line=5"):
                answer = browser.get(f"/s/{session}/o/{taken.handle}{path}")
                assert answer.status_code < 500, (path, answer.text)
            assert browser.get(f"/s/{session}/o/{taken.handle}/raw").text == LOG
            assert "E1234" in browser.get(f"/s/{session}/o/{taken.handle}/search?q=E1234").text
            assert "n999" in browser.get(f"/s/{session}/o/{table}/query?sql=select max(name) from t").text

    await asyncio.to_thread(look)


@pytest.mark.anyio
@requirement("fleet:viewer")
async def test_the_viewer_says_that_the_database_is_away_and_shows_pages_again_when_it_is_back(hosts: Hosts) -> None:
    async with hosts.opened("a") as bag:
        handle = (await bag.keep(LOG)).handle
        session = bag.session.id
    address = hosts.place.servers
    with proxied((address.database_host, address.database_port), "postgres") as proxy:
        home = address._replace(database_host="127.0.0.1", database_port=proxy.port).home(hosts.place.database)
        with looking(home, hosts.settings("b")) as browser:
            paths = ("/sessions/rows", f"/s/{session}", f"/s/{session}/o/{handle}")
            assert [browser.get(path).status_code for path in paths] == [200] * 3
            proxy.refuse()
            for path in paths:
                answer = browser.get(path)
                assert answer.status_code == 500, answer.text
                assert "the database postgresql://" in answer.text
            proxy.admit()
            assert [browser.get(path).status_code for path in paths] == [200] * 3


# ── The gateway ─────────────────────────────────────────────────────────────────────────────────────────────


@contextlib.asynccontextmanager
async def replica(hosts: Hosts, host: str) -> AsyncGenerator[tuple[str, asyncio.subprocess.Process]]:
    words = [
        HOLDALL,
        "--set",
        "slow_after_seconds=0.3",
        "gateway",
        "--http",
        "127.0.0.1:0",
        "-s",
        "team",
        "--",
        *plain(),
    ]
    async with served(unforked(words), HOLDALL_GATEWAY_TOKEN=TOKEN, **hosts.environment(host)) as (url, process, _):
        yield url, process


@pytest.mark.anyio
@requirement("fleet:gateway-replicas")
async def test_any_gateway_answers_for_any_handle_also_when_the_one_that_kept_it_is_killed(hosts: Hosts) -> None:
    async with (
        replica(hosts, "a") as (here, process),
        replica(hosts, "b") as (there, _),
        client_at(there, TOKEN, "legacy") as second,
    ):
        connection = client_at(here, TOKEN, "legacy")
        first = await connection.__aenter__()
        kept = handle_in(said(await first.call_tool("big", {"lines": 60_000})))
        running = handle_in(said(await first.call_tool("sleep", {"seconds": 600})))
        search = {"handle": kept, "pattern": "line"}
        assert "60,000 matches" in said(await second.call_tool("context_grep", search))
        os.kill(process.pid, signal.SIGKILL)
        await process.wait()
        with contextlib.suppress(Exception):  # its server is gone
            await connection.__aexit__(None, None, None)
        assert "60,000 matches" in said(await second.call_tool("context_grep", search))
        hosts.sql("UPDATE holdall_leases SET renewed = renewed - interval '1 hour' RETURNING 1")
        assert "interrupted" in said(await second.call_tool("wait_for_tool_output", {"handle": running, "timeout": 20}))


def said(result: Any) -> str:
    return str(result.content[0].text)


# ── An adapter ──────────────────────────────────────────────────────────────────────────────────────────────


@requirement("fleet:adapters")
def test_the_next_turn_of_a_conversation_finds_its_outputs_on_another_host(hosts: Hosts) -> None:
    """Pydantic AI, as behind a load balancer: each turn in a process of its own."""
    pytest.importorskip("pydantic_ai")
    from holdall.adapters.pydantic_ai import Holdall as Capability
    from tests.adapters.contract import NEEDLE as WANTED
    from tests.adapters.contract import big, finds_the_needle, small
    from tests.adapters.contract import handle_in as handle_of
    from tests.adapters.test_pydantic_ai import PydanticAI

    turns = PydanticAI(is_async=True)
    first = Capability(home=hosts.place.home, settings=hosts.settings("a"))
    ran = turns.run(first, finds_the_needle(big), [big])
    assert WANTED in ran.answer
    handle = handle_of(ran.requests[1].results["call-1"].text)
    first.close()
    second = Capability(home=hosts.place.home, settings=hosts.settings("b"))
    assert WANTED in turns.run(second, finds_the_needle(small, handle), [small]).answer
    second.close()


# ── Extraction, redaction, bundles ──────────────────────────────────────────────────────────────────────────


@pytest.mark.anyio
@requirement("fleet:extraction-remembered")
async def test_what_one_host_paid_a_model_for_is_remembered_on_all(hosts: Hosts) -> None:
    model, other = finding(quoting(NEEDLE + "\n")), finding(quoting(NEEDLE + "\n"))
    async with hosts.opened("a", model=model) as bag:
        handle = (await bag.keep(LOG)).handle
        first = await bag.extract(handle, "which disk?", mode="full-chunked")
        assert [one.text for one in first.snippets] == [NEEDLE]
    async with hosts.opened("b", model=other) as bag:
        again = await bag.extract(handle, "which disk?", mode="full-chunked")
    assert (again.cached, len(other.requests), again.snippets) == (True, 0, first.snippets)


@pytest.mark.anyio
@requirement("fleet:redacted")
async def test_no_secret_of_a_redacted_tool_is_in_the_database_the_bucket_or_a_copy(
    hosts: Hosts, tmp_path: Path
) -> None:
    policy = {"env": ToolPolicy(redact=True)}
    async with hosts.opened("a", tools=policy) as bag:
        for text in (f"DB_PASSWORD={SECRET}\n{LOG}", f"DB_PASSWORD={SECRET}\n" + "x" * 9_000_000):
            taken = await bag.take(text, tool="env")
            assert isinstance(taken, Kept)
            assert "DB_PASSWORD=****" in (await bag.read(taken.handle, lines="1:1")).text
    assert SECRET.encode() not in hosts.everything_stored()
    for path in (tmp_path / "a").rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()


@pytest.mark.anyio
@requirement("fleet:redacted")
async def test_a_redacted_bundle_of_a_fleet_has_no_secret_and_is_imported_elsewhere(
    hosts: Hosts, tmp_path: Path
) -> None:
    async with hosts.opened("a") as bag:
        handle = (await bag.keep(f"DB_PASSWORD={SECRET}\n{LOG}")).handle
    bundle = str(tmp_path / "s.zip")
    await export_session("s", bundle, home=hosts.place.home, settings=hosts.settings("b"), redact=True)
    await import_bundle(bundle, home=hosts.place.home, settings=hosts.settings("c"), name="clean")
    async with hosts.opened("d", "clean") as bag:
        read = (await bag.read(handle, bytes=":", bounded=False)).text
    assert SECRET not in read
    assert read.endswith(LOG)
