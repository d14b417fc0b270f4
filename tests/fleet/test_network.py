"""What disturbs the fleet in tests does what it says: a proxy for single rounds, and hosts that can be cut off."""

import contextlib
import http.client
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.fleet.hosts import Host, NoNamespaces, hosts
from tests.fleet.proxy import MODES, Fault, Mode, Proxy, proxied
from tests.fleet.servers import Address, CommandFailed

pytestmark = pytest.mark.fleet

BODY = b"0123456789" * 10


class Shelf(BaseHTTPRequestHandler):
    """Remembers what is put, and says it again."""

    protocol_version = "HTTP/1.1"
    kept: list[bytes]

    def do_PUT(self) -> None:
        self.kept.append(self.rfile.read(int(self.headers["Content-Length"])))
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(BODY)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Its clients are cut off all the time."""


@pytest.fixture
def shelf() -> Iterator[tuple[Proxy, list[bytes]]]:
    kept: list[bytes] = []
    with Quiet(("127.0.0.1", 0), type("Ours", (Shelf,), {"kept": kept})) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            with proxied(("127.0.0.1", server.server_address[1]), "http") as proxy:
                yield proxy, kept
        finally:
            server.shutdown()
            thread.join()


def asked(proxy: Proxy, method: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)
    with contextlib.closing(connection):
        connection.request(method, "/bucket/name", body=BODY if method == "PUT" else None)
        with connection.getresponse() as answer:
            return answer.status, answer.read()


def test_what_is_not_disturbed_passes_and_is_counted(shelf: tuple[Proxy, list[bytes]]) -> None:
    proxy, kept = shelf
    assert [asked(proxy, method) for method in ("PUT", "GET")] == [(200, b""), (200, BODY)]
    assert kept == [BODY]
    assert proxy.rounds == ["PUT object", "GET object"]
    assert proxy.fired == []


REFUSED: dict[Mode, int] = {"503": 503, "429": 429, "507": 507, "quota": 403}


@pytest.mark.parametrize("mode", [mode for mode in MODES["http"] if mode not in (*REFUSED, "slow")])
def test_a_disturbed_request_is_cut_where_it_was_asked_for(mode: Mode, shelf: tuple[Proxy, list[bytes]]) -> None:
    proxy, kept = shelf
    killed: list[str] = []
    proxy.arm(Fault(2, mode), lambda: killed.append(mode))
    assert asked(proxy, "GET") == (200, BODY)
    with pytest.raises((OSError, http.client.HTTPException)):
        asked(proxy, "GET" if mode == "half answer" else "PUT")
    assert proxy.fired == [("GET object" if mode == "half answer" else "PUT object", mode)]
    assert kept == ([BODY] if mode in ("lost answer", "kill after") else []), "whether the server did it"
    assert bool(killed) == mode.startswith("kill")
    assert asked(proxy, "PUT") == (200, b"")


def test_a_refused_request_never_reaches_the_server_and_a_slow_one_does(shelf: tuple[Proxy, list[bytes]]) -> None:
    proxy, kept = shelf
    for mode, status in REFUSED.items():
        kept.clear()
        proxy.arm(Fault(1, mode, times=2))
        assert [asked(proxy, "PUT")[0] for _ in range(3)] == [status, status, 200]
        assert kept == [BODY]
    proxy.arm(Fault(1, "slow"))
    before = time.monotonic()
    assert asked(proxy, "PUT")[0] == 200
    assert time.monotonic() - before > 0.9


def test_nothing_passes_a_cut_until_it_is_joined(shelf: tuple[Proxy, list[bytes]]) -> None:
    proxy, kept = shelf
    proxy.cut()
    done: list[int] = []
    thread = threading.Thread(target=lambda: done.append(asked(proxy, "PUT")[0]))
    thread.start()
    thread.join(0.3)
    assert (thread.is_alive(), kept) == (True, [])
    proxy.join()
    thread.join(30)
    assert done == [200]


@pytest.mark.parametrize("mode", [mode for mode in MODES["postgres"] if mode != "slow"])
def test_a_disturbed_statement_is_done_or_not_as_it_was_asked_for(mode: Mode, fleet_servers: Address) -> None:
    with proxied((fleet_servers.database_host, fleet_servers.database_port), "postgres") as proxy:
        through = fleet_servers._replace(database_port=proxy.port)
        assert through.sql("select 1") == "1"
        rounds = list(proxy.rounds)
        assert rounds[-1] == "SELECT"
        role = f"made_{mode.replace(' ', '_')}"
        proxy.arm(Fault(len(rounds), mode))
        with pytest.raises(CommandFailed, match=r"closed the connection|reset|terminated"):
            through.sql(f"create role {role}")
        assert proxy.fired == [("CREATE", mode)]
        made = fleet_servers.sql(f"select count(*) from pg_roles where rolname = '{role}'")
        assert made == ("1" if mode in ("lost answer", "kill after") else "0")


@pytest.fixture(scope="module")
def three() -> Iterator[dict[str, Host]]:
    try:
        with hosts("a", "b", "servers") as made:
            yield made
    except NoNamespaces as why:
        pytest.skip(str(why))


def reaches(host: Host, address: str, *, seconds: float) -> bool:
    """Whether a program of the host gets an answer from a server at this address."""
    look = f"import socket, sys; socket.create_connection((sys.argv[1], 7000), {seconds}).recv(2)"
    done = subprocess.run(
        [*host.inside, sys.executable, "-SEc", look, address], capture_output=True, timeout=60, check=False
    )
    return done.returncode == 0


def test_hosts_reach_each_other_until_one_is_cut_off_from_one_network(three: dict[str, Host]) -> None:
    a, b, servers = three.values()
    serve = (
        "import socket; s = socket.create_server(('', 7000))\nprint(flush=True)\nwhile True: s.accept()[0].send(b'ok')"
    )
    command = ["setpriv", "--pdeathsig", "KILL", *servers.inside, sys.executable, "-SEc", serve]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            database, bucket = servers.addresses["database"], servers.addresses["bucket"]
            everything = [(host, address) for host in (a, b) for address in (database, bucket)]

            def look(*expected: bool) -> None:
                for one, hope in zip(everything, expected, strict=True):
                    until = time.monotonic() + (90 if hope else 0)  # the other side is found by and by
                    while (found := reaches(*one, seconds=30 if hope else 0.3)) != hope and time.monotonic() < until:
                        time.sleep(0.1)
                    assert found == hope, one

            look(True, True, True, True)
            a.cut("database")
            b.cut()
            look(False, True, False, False)
            a.join()
            b.join()
            look(True, True, True, True)
        finally:
            server.kill()
