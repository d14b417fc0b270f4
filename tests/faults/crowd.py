"""Programs that work on one store at the same time. Each says `ready`, waits for a line, and starts with the others.

`tests.faults.test_processes` starts them and judges; what they print is what they were given.
"""

import json
import os
import select
import sys
import time
from collections.abc import Callable, Iterator

from holdall.store.directory import disk, upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.values.outputs import Origin
from tests.faults.checker import contents

SESSION = "the one session"


def content(number: int, who: int) -> bytes:
    """Every fifth output is the same whoever keeps it; the last line tells that none was cut."""
    own = "everybody" if number % 5 == 0 else f"process {who}"
    return f"output {number} of {own}\n".encode() * (1 + 700 * (number % 7)) + b"the end\n"


def puts(home: str, who: str, count: str) -> None:
    """Keeps `count` outputs and tells each handle."""
    store = DirectoryStore(home)
    session = store.open_session(SESSION)
    for number in range(int(count)):
        data = content(number, int(who))
        facts = store.put(
            session, [data[:100], data[100:]], Origin(call_id=f"{who}-{number}", terminal=number % 6 == 0)
        )
        tell(facts.handle, number, facts.measure.sha256)


def opens(home: str, name: str, who: str) -> None:
    """Opens a session that all open at once, and keeps one output in it."""
    store = DirectoryStore(home)
    session = store.open_session(name)
    facts = store.put(session, [f"from {who}".encode()], Origin())
    tell(session.id, facts.handle)


def reads(home: str) -> None:
    """Lists and reads everything again and again, until told to stop, and tells what was not whole."""
    store = DirectoryStore(home)
    looks = outputs = 0
    while not told_to_stop():
        looks += 1
        session = store.find_session(SESSION)
        for facts in store.outputs(session) if session else ():
            outputs += 1
            data = contents(store, facts)
            if facts.state != "ready" or len(data) != facts.measure.bytes or not data.endswith(b"the end\n"):
                tell("half", facts.handle, facts.state, len(data))
    tell("looked", looks, outputs)


def sweeps(home: str) -> None:
    """Runs gc again and again, until told to stop, and tells what it removed."""
    store = DirectoryStore(home)
    sweeps = 0
    while not told_to_stop():
        sweeps += 1
        for name in upkeep.sweep(store).leftovers:
            tell("removed", name)
    tell("swept", sweeps)


def dawdles(home: str, who: str, count: str) -> None:
    """Keeps outputs whose last byte came two hours before they ended: to gc they look as old as a dead writer's."""
    store = DirectoryStore(home)
    session = store.open_session(SESSION)
    look_old = from_now_on()

    def pieces(data: bytes) -> Iterator[bytes]:
        yield data
        look_old()

    for number in range(int(count)):
        facts = store.put(session, pieces(content(number, int(who))), Origin())
        tell(facts.handle, number, facts.measure.sha256)


def pauses(home: str, terminal: str) -> None:
    """Keeps an output in two parts, and says when the first one is written; the second waits for a line."""
    store = DirectoryStore(home)
    session = store.open_session(SESSION)
    look_old = from_now_on()

    def pieces() -> Iterator[bytes]:
        yield b"the first part\n"
        look_old()
        tell("half")
        sys.stdin.readline()
        yield b"the end\n"
        look_old()

    tell("kept", store.put(session, pieces(), Origin(terminal=bool(terminal))).handle)


def from_now_on() -> Callable[[], None]:
    """A function that lets the file which is being written seem untouched for two hours."""
    create = disk.create
    held: list[int] = []

    def create_and_remember(name: str, *, inside: int) -> int:
        held.append(create(name, inside=inside))
        return held[-1]

    def look_old() -> None:
        long_ago = time.time() - 7200
        os.utime(held[-1], (long_ago, long_ago))

    disk.create = create_and_remember
    return look_old


def writes_live(home: str) -> None:
    """A running output: each line that comes in is written and acknowledged."""
    store = DirectoryStore(home)
    writer = store.begin(store.open_session(SESSION), Origin(tool="a command", terminal=True))
    tell("handle", writer.handle)
    for line in sys.stdin:
        writer.write(line.encode())
        tell("wrote", len(line.encode()))


def tell(*values: object) -> None:
    print(json.dumps(values), flush=True)


def told_to_stop() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


ROLES: dict[str, Callable[..., None]] = {
    role.__name__: role for role in (puts, opens, reads, sweeps, dawdles, pauses, writes_live)
}

if __name__ == "__main__":
    tell("ready")
    sys.stdin.readline()
    ROLES[sys.argv[1]](*sys.argv[2:])
