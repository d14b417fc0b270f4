"""Hosts for tests: network namespaces with two networks between them, one to the database and one to the bucket.

Each host has a cable to each network and can be cut off from either, as by pulling it: packets get lost, and nobody is
told. The namespaces have no names and live as long as the processes that hold them, which end with the test.
"""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Generator, Sequence
from typing import Literal

from tests.fleet.servers import missing

SECONDS = 100
Net = Literal["database", "bucket"]
NETS: tuple[Net, Net] = ("database", "bucket")
FIRST = {"database": "198.18", "bucket": "198.19"}  # addresses that are set aside for tests of networks (RFC 2544)


class NoNamespaces(Exception):
    """Why no network namespaces can be made here."""


class Host:
    """One namespace. `inside` is what to put before a command to run it there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.addresses: dict[Net, str] = {}
        self._cables: dict[Net, str] = {}  # the ends that are in the switch
        held = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
        self._holder = subprocess.Popen(held, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self._await_namespace()
        self.run("ip", "link", "set", "lo", "up")

    @property
    def inside(self) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]

    def run(self, *command: str) -> str:
        return _run(*self.inside, *command)

    def plug(self, switch: "Host", net: Net, address: str) -> None:
        """A cable from here to a network."""
        near, far = f"hx-{net[0]}", f"p{self._holder.pid}{net[0]}"
        pair = ["ip", "link", "add", far, "netns", str(switch._holder.pid), "type", "veth"]
        _run(*pair, "peer", "name", near, "netns", str(self._holder.pid))
        switch.run("ip", "link", "set", far, "master", net, "up")
        self.run("ip", "addr", "add", f"{address}/24", "dev", near)
        self.run("ip", "link", "set", near, "up")
        self.addresses[net], self._cables[net] = address, far
        self._switch = switch

    def cut(self, *nets: Net) -> None:
        """Pull the cables to these networks, else all."""
        for net in nets or NETS:
            self._switch.run("ip", "link", "set", self._cables[net], "down")

    def join(self, *nets: Net) -> None:
        for net in nets or NETS:
            self._switch.run("ip", "link", "set", self._cables[net], "up")

    def close(self) -> None:
        with self._holder:
            self._holder.kill()

    def _await_namespace(self) -> None:
        ours, deadline = os.readlink("/proc/self/ns/net"), time.monotonic() + SECONDS
        while os.readlink(f"/proc/{self._holder.pid}/ns/net") == ours:
            if self._holder.poll() is not None or time.monotonic() > deadline:
                raise NoNamespaces(
                    "network namespaces cannot be made here: unshare --net needs root with CAP_SYS_ADMIN and "
                    f"CAP_NET_ADMIN ({self._holder.communicate()[1].decode().strip()})"
                )
            time.sleep(0.005)


class Network:
    """Two networks, the hosts on them, and this process, which can reach all of them."""

    def __init__(self, switch: Host, hosts: Sequence[Host], number: int) -> None:
        self._number = number
        for net in NETS:
            switch.run("ip", "link", "add", net, "type", "bridge")
            switch.run("ip", "link", "set", net, "up")
            for place, host in enumerate(hosts, start=2):
                host.plug(switch, net, self._address(net, place))
            # The end that stays here is gone with the other one.
            here, there = f"hx{number}{net[0]}", "observer-" + net[0]
            pair = ["ip", "link", "add", here, "type", "veth", "peer", "name", there]
            _run(*pair, "netns", str(switch.inside[1].split("/")[2]))
            switch.run("ip", "link", "set", there, "master", net, "up")
            _run("ip", "addr", "add", f"{self._address(net, 1)}/24", "dev", here)
            _run("ip", "link", "set", here, "up")

    def _address(self, net: Net, place: int) -> str:
        return f"{FIRST[net]}.{self._number}.{place}"


@contextlib.contextmanager
def hosts(*names: str) -> Generator[dict[str, Host]]:
    """Hosts of these names on two networks. Raises NoNamespaces where they cannot be made."""
    if problem := missing():
        raise NoNamespaces(problem)
    with contextlib.ExitStack() as stack:
        made: list[Host] = []
        for name in ("switch", *names):
            host = Host(name)
            stack.callback(host.close)
            made.append(host)
        try:
            Network(made[0], made[1:], _free_number())
        except subprocess.CalledProcessError as problem:
            raise NoNamespaces(f"networks cannot be made here: {problem.stderr.strip()}") from problem
        yield {host.name: host for host in made[1:]}


def _free_number() -> int:
    """A third byte of addresses that nothing on this machine has yet."""
    found = json.loads(_run("ip", "-json", "addr"))
    taken = {address["local"] for link in found for address in link["addr_info"]}
    free = [
        n for n in range(256) if not any(one.startswith(f"{first}.{n}.") for first in FIRST.values() for one in taken)
    ]
    return free[os.getpid() % len(free)]


def _run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS).stdout
