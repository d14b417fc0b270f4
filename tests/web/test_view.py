"""`holdall view` as a process: its address, its end, what it says where it cannot begin, how many it serves."""

import contextlib
import errno
import http.client
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from holdall.values.errors import UsageError
from holdall.web.server import MAX_CONNECTIONS, bound
from tests.cli.program import PROGRAM, Program
from tests.requirements import requirement
from tests.web.support import Viewer, viewer


def _get(at: Viewer, path: str = "/", *, by: str = "127.0.0.1", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(by, at.port, timeout=30)
    try:
        told = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", path, headers={"Authorization": f"Bearer {at.token}", **told})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@requirement("cli:view")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_its_address_serves_and_ends_cleanly(home: Path, number: int) -> None:
    with viewer(home) as at:
        assert at.line().startswith(f"looking at {home}")
        assert _get(at)[0] == 200
        assert at.end(number) == 0
        assert at.said.empty(), "nothing else is said"
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", at.port))


def test_each_start_has_a_token_of_its_own_that_cannot_be_guessed(home: Path) -> None:
    with viewer(home) as one, viewer(home) as other:
        assert one.token != other.token
        assert len(one.token) >= 43
        assert _get(one, Authorization=f"Bearer {other.token}")[0] == 401


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", "", "127.0.0.1.evil.example"])
def test_no_address_but_loopback_is_listened_on(host: str) -> None:
    with pytest.raises(UsageError, match="listens on this machine only"):
        bound(host, 0)


def test_a_host_that_is_refused_is_a_line_and_not_a_traceback(home: Path) -> None:
    ran = Program(home)("view", "--no-open", "--host", "0.0.0.0")
    assert (ran.code, ran.out) == (2, b"")
    assert ran.err.startswith("holdall: the viewer listens on this machine only")


def test_a_port_that_is_taken_is_named(home: Path) -> None:
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        ran = Program(home)("view", "--no-open", "--port", str(port))
    assert ran.code == 2
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in ran.err
    assert "Traceback" not in ran.err


@pytest.fixture
def both() -> None:
    """Where a machine has only one loopback address, there is no other one to defend."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 on this machine")


@requirement("viewer:own-host")
@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
def test_no_neighbour_gets_our_port_at_the_other_loopback_address(host: str) -> None:
    """Names under localhost lead to both, and browsers try ::1 first: they would bring the token to a stranger."""
    listening = bound(host, 0)
    with contextlib.ExitStack() as held:
        for one in listening:
            held.enter_context(one)
        port = listening[0].getsockname()[1]
        for address, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
            with pytest.raises(OSError, match="already in use"):
                socket.create_server((address, port), family=family)


@pytest.mark.usefixtures("both")
def test_it_answers_at_both_addresses(home: Path) -> None:
    with viewer(home, "--host", "localhost") as at:
        assert _get(at, Host=f"localhost:{at.port}")[0] == 200
        assert _get(at, by="::1", Host=f"localhost:{at.port}")[0] == 200


@pytest.mark.usefixtures("both")
def test_a_port_that_is_taken_at_the_other_address_is_named() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UsageError, match=rf"^cannot listen on \[::1\]:{port}: Address already in use"):
            bound("127.0.0.1", port)
    for one in bound("127.0.0.1", port):  # nothing of the first attempt is left
        one.close()


def _failing(monkeypatch: pytest.MonkeyPatch, number: int, *, times: int) -> list[int]:
    """IPv6 fails so many times with this error. Returns the ports that were tried."""
    real, tried = socket.create_server, list[int]()

    def create(address: tuple[str, int], *, family: socket.AddressFamily, **options: Any) -> socket.socket:
        if family == socket.AF_INET6:
            tried.append(address[1])
            if len(tried) <= times:
                raise OSError(number, "simulated")
            return socket.socket()
        return real(address, family=family, **options)

    monkeypatch.setattr(socket, "create_server", create)
    return tried


def test_without_a_chosen_port_another_one_is_taken_that_is_free_at_both(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = _failing(monkeypatch, errno.EADDRINUSE, times=2)
    listening = bound("127.0.0.1", 0)
    for one in listening:
        one.close()
    assert len(listening) == 2
    assert len(set(tried)) == 3


def test_where_there_is_no_ipv6_one_address_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    _failing(monkeypatch, errno.EADDRNOTAVAIL, times=99)
    (only,) = bound("127.0.0.1", 0)
    only.close()
    with pytest.raises(UsageError, match=r"^cannot listen on \[::1\]"):
        bound("::1", 0)


@pytest.mark.parametrize("missing", ["starlette", "jinja2", "uvicorn"])
def test_a_missing_package_is_named_with_the_extra_that_brings_it(home: Path, missing: str, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(f"import sys\nsys.modules[{missing!r}] = None\n")
    ran = Program(home)("view", "--no-open", env={"PYTHONPATH": str(blocked)})
    assert ran.code == 2
    assert "pip install 'holdall[view]'" in ran.err
    assert missing in ran.err


def test_nothing_of_it_needs_mcp() -> None:
    code = "import sys; sys.modules['mcp'] = None; import holdall.web.server; print('fine')"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stdout == "fine\n", ran.stderr


@requirement("viewer:address-in-a-file")
def test_a_browser_is_opened_at_a_file_of_ours_with_a_ticket_for_one_use(home: Path, tmp_path: Path) -> None:
    """The arguments of a program can be read by every user of the machine: they hold neither token nor ticket."""
    pipe = tmp_path / "opened"
    os.mkfifo(pipe)
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf "%s" "$1" > "{pipe}"\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDALL_")}
    process = subprocess.Popen(
        [PROGRAM, "view", "--home", str(home)], stdout=subprocess.PIPE, text=True,
        env=environment | {"BROWSER": f"{browser} %s"}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        at = Viewer(process, process.stdout.readline().strip())
        told = pipe.read_text()
        assert "token" not in told
        page = Path(told.removeprefix("file://"))
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert stat.S_IMODE(page.parent.stat().st_mode) == 0o700
        opened = page.read_text().partition("url=")[2].partition('"')[0]
        assert opened.startswith(f"{at.origin}/?token=")
        assert at.token not in opened
        path = opened.removeprefix(at.origin)
        assert _get(at, path, Authorization="")[0] == 303
        assert _get(at, path, Authorization="")[0] == 401
        process.stdout.close()
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert not page.parent.exists()


@pytest.fixture
def many_descriptors() -> Generator[int]:
    """So many connections this process may open now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 10_500 if hard == resource.RLIM_INFINITY else min(10_500, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield wanted - 500
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.in_full
def test_web_012_idle_connections_do_not_keep_others_out(home: Path, many_descriptors: int) -> None:
    """Far more than there is room for; every other one has begun to speak and does not go on."""
    assert many_descriptors > MAX_CONNECTIONS * 3
    with viewer(home, fork=False) as at, contextlib.ExitStack() as held:
        for number in range(many_descriptors):
            with contextlib.suppress(ConnectionError, TimeoutError):  # it was turned away already
                one = held.enter_context(socket.create_connection(("127.0.0.1", at.port), timeout=30))
                if number % 2:
                    one.sendall(b"GET / HTTP/1.1\r\nHost: 127")
            if number % 1000 == 0:
                assert _get(at)[0] == 200
        assert _get(at)[0] == 200
        assert _descriptors(at) <= MAX_CONNECTIONS + 40


def _descriptors(at: Viewer) -> int:
    folder = f"/proc/{at.process.pid}/fd"
    return len(os.listdir(folder)) if os.path.isdir(folder) else 0


def test_web_012_a_web_socket_from_another_origin_is_refused(home: Path) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw=="}  # fmt: skip
    with viewer(home) as at:
        assert _get(at, "/", Origin="http://evil.example", **upgrade)[0] == 403
        assert _get(at, "/", Origin=at.origin, **upgrade)[0] == 200, "and from ours it is a page like any other"


def test_web_013_what_it_says_of_a_refusal_is_one_escaped_line(home: Path) -> None:
    with viewer(home) as at:
        at.line()
        _get(at, "/%0a2026-01-01%20INFO%20admin%20login%20ok%1b%5b31m", Authorization="Bearer no")
        assert at.line().startswith("holdall: refused GET /\\n2026-01-01 INFO admin login ok\\x1b[31m: ")
