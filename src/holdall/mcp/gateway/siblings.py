"""The gateways that one running client has started, a process each: how they know that they belong together, and whose
turn it is to list our tools.

They share a session of the store, which takes any number of writers. All else that they have in common are names in
that session, held by locks that the system lets go of when a process is gone. No message goes between them.
"""

import asyncio
import contextlib
import hashlib
import os
import subprocess
import threading
from collections.abc import Callable

from holdall.bag import Holdall
from holdall.values.errors import StoreFault, UsageError, short
from holdall.values.patterns import lazy_pattern

# Which client that is: the process that has started us. A program may hold several clients, as an editor does with its
# extensions; those are told apart by an id, which `holdall install` writes.


_ID = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_START_FIELD = 19  # of /proc/PID/stat, counted after the name of the program: ticks since the system was started
_PS_SECONDS = 5.0


def running_client(client: str = "") -> str:
    """The same name for all gateways of one running client, and for no other; empty if the system does not tell.

    The start time is in it: a process that is started later may get the same number.
    """
    if client and not _ID.fullmatch(client):
        raise UsageError(f"--client is {short(client)}; it takes up to 64 letters, digits, dots, dashes, underscores.")
    parent = os.getppid()
    started = _start_of(parent) if parent else ""  # 0: it is outside of our container
    if not started:
        return ""
    return f"{client or 'client'}-{parent}-{hashlib.sha256(started.encode()).hexdigest()[:12]}"


def _start_of(process: int) -> str:
    try:
        with open(f"/proc/{process}/stat", "rb") as stat, open("/proc/sys/kernel/random/boot_id", "rb") as boot:
            ticks = stat.read().rpartition(b")")[2].split()[_START_FIELD]
            return f"{ticks.decode()} {boot.read().decode().strip()}"
    except (OSError, IndexError):
        return _start_by_ps(process)


def _start_by_ps(process: int) -> str:
    """Where there is no /proc, as on macOS."""
    environment = {"PATH": os.environ.get("PATH") or os.defpath, "LC_ALL": "C", "TZ": "UTC0"}
    words = ["ps", "-o", "lstart=", "-p", str(process)]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(words, capture_output=True, timeout=_PS_SECONDS, check=True, env=environment)
        return done.stdout.decode("ascii", "replace").strip()
    return ""


# Whose turn it is: a client shows its model the tools of every server, and ours are the same in front of each.
#
# The claim is one of the running client in its session: two clients in a session that was named each have a list. A
# program may hold several conversations, each with servers of its own: where a server is started a second time, that
# one belongs to a second set of servers, which has a list, too.


_MEMBERS = "gateways"
_MOST_SETS = 100
Release = Callable[[], None]


class Siblings:
    """One gateway among those of its client. Where the store refuses a claim, it lists our tools: better twice than
    never.
    """

    def __init__(self, bag: Holdall, running_client: str, servers: str) -> None:
        """`servers` is what tells a gateway from those before other servers."""
        self.on_turn: Callable[[], None] = lambda: None  # called in the loop when the turn comes after a wait
        self._store, self._session = bag.store, bag.session
        self._turn: Release | None = None
        self._waits = self._has_left = self._is_alone = False
        self._member: Release | None = None
        with contextlib.suppress(StoreFault, OSError):
            self._member = self._store.claim(self._session, _MEMBERS, shared=True, wait=True)
        self._place, number = self._placed(f"{running_client} {servers}")
        self._turn_name = f"tools {running_client} {number}"

    @property
    def has_turn(self) -> bool:
        return self._turn is not None or self._is_alone

    def claim_turn(self) -> bool:
        """Take the turn if nobody has it; else it comes when it is free. Never waits."""
        if self.has_turn or self._waits or self._has_left:
            return self.has_turn
        try:
            self._turn = self._store.claim(self._session, self._turn_name)
        except (StoreFault, OSError):
            self._is_alone = True
        if not self.has_turn:
            self._waits = True
            loop = asyncio.get_running_loop()
            # A thread that ends with the process: the system wakes it when the claim is free.
            threading.Thread(target=self._wait, args=(loop,), name="holdall gateway turn", daemon=True).start()
        return self.has_turn

    def pass_on(self) -> None:
        """Let another one have the turn; the next claim asks for it again."""
        turn, self._turn, self._is_alone = self._turn, None, False
        if turn is not None:
            turn()

    def leave_turn(self) -> None:
        """For good. A client that still asks is told what it was told before."""
        had_turn = self.has_turn
        self._has_left = True
        self.pass_on()
        self._is_alone = had_turn
        if self._place is not None:
            self._place()
            self._place = None

    def leave(self) -> bool:
        """Whether we were the last in the session."""
        self.leave_turn()
        if self._member is not None:
            self._member()
            self._member = None
        with contextlib.suppress(StoreFault, OSError):
            last = self._store.claim(self._session, _MEMBERS)
            if last is not None:
                last()
            return last is not None
        return True

    def _placed(self, name: str) -> tuple[Release | None, int]:
        """The first set of servers that has no such gateway yet."""
        with contextlib.suppress(StoreFault, OSError):
            for number in range(_MOST_SETS):
                if (place := self._store.claim(self._session, f"{number} {name}")) is not None:
                    return place, number
        return None, 0

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        with contextlib.suppress(StoreFault, OSError):
            turn = self._store.claim(self._session, self._turn_name, wait=True)
            if turn is not None:
                try:
                    loop.call_soon_threadsafe(self._come, turn)
                except RuntimeError:  # the loop has ended
                    turn()

    def _come(self, turn: Release) -> None:
        self._waits = False
        if self._has_left:
            turn()
            return
        self._turn = turn
        self.on_turn()
