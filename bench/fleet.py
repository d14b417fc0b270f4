"""The store of many hosts against what it is made of, on real servers of this machine, as ratios.

Each figure is compared with the same work done without Holdall, or with the folder store, in turn in the same run, so
that a busy machine changes both. The servers sync as users run them.

python -m bench.fleet writer HOME OBJECTS CACHE THREADS COUNT   one process of the crowd; prints its seconds as JSON
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import obstore
import psycopg
from obstore.store import from_url

from bench.data import RARE, log_lines
from bench.house import Figure, table
from holdall import Holdall, Settings
from holdall.store.directory.store import DirectoryStore
from holdall.store.fleet.store import FleetStore
from holdall.store.protocol import OutputStore
from holdall.values.errors import StoreFault
from holdall.values.outputs import Origin
from tests.fleet import servers
from tests.fleet.proxy import proxied
from tests.fleet.servers import Address

HELP = "the store of many hosts on a real PostgreSQL and S3 server, against the bare servers and the folder store"
SMALL = 100_000
LINES = 200
_ROOT = Path(__file__).parents[1]


def declare(one: argparse.ArgumentParser) -> None:
    one.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs")
    one.add_argument("--outputs", type=int, default=10_000, metavar="N", help="in the session that is listed (10,000)")
    one.add_argument("--json", action="store_true", help="the figures as JSON instead of a table")
    one.add_argument(
        "--bytes", type=int, default=10**9, metavar="N", help="the size of the output that is searched (1 GB)"
    )


def main(options: argparse.Namespace) -> int:
    try:
        servers.install()
        with _bench(options) as bench:
            figures: list[Figure] = []
            for part in bench.parts():
                found = part()
                figures += found
                print(*(f"{one.name}: {one.value:,.6g}" for one in found), sep="\n", file=sys.stderr, flush=True)
    except servers.ServersMissing as problem:
        print(f"bench: {problem}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps([{"name": one.name, "value": one.value, "aim": one.aim} for one in figures], indent=2))
    else:
        print(table(figures))
        print(*(f"\n{one.name}: {one.detail}" for one in figures if one.detail), sep="")
    return 0


def _lines() -> Iterator[str]:
    return (line for batch in log_lines() for line in batch.splitlines(keepends=True))


class Bench:
    def __init__(self, address: Address, folder: Path, options: argparse.Namespace) -> None:
        self._address, self._folder = address, folder
        self._home, self._bucket = address.make_database("bench"), address.objects("bench")
        self._quick: bool = options.quick
        self._size: int = 10**7 if self._quick else options.bytes
        self._outputs: int = 500 if self._quick else options.outputs
        self._rounds = 3 if self._quick else 25
        self._fresh = (folder / f"cache-{number}" for number in itertools.count())
        self.store = self._opened()

    def parts(self) -> list[Callable[[], list[Figure]]]:
        return [self._keep, self._lines, self._grep, self._crowd, self._listing, self._round_trips]

    def _opened(self, home: str = "") -> FleetStore:
        """As on a host that has nothing in its cache."""
        cache = str(next(self._fresh))
        return FleetStore(home or self._home, objects=self._bucket, cache_dir=cache, cache_bytes=8 << 30)

    def _keep(self) -> list[Figure]:
        session = self.store.open_session("keep")
        bare: Any = from_url(self._bucket, client_options={"allow_http": True})
        with psycopg.connect(self._home) as connection:
            connection.execute("CREATE TABLE bench (id text PRIMARY KEY, facts bytea)")
            connection.commit()

            text = "".join(itertools.islice(_lines(), SMALL // 50)).encode()[:SMALL]

            def fresh() -> bytes:
                """Text, as most tools return it; no two are the same."""
                return secrets.token_hex(16).encode() + b"\n" + text[33:]

            def by_hand() -> None:
                data = fresh()
                name = secrets.token_hex(16)
                obstore.put(bare, f"bare/{name}", data, mode="create")
                connection.execute("INSERT INTO bench VALUES (%s, %s)", (name, data[:2000]))
                connection.commit()

            def kept() -> None:
                self.store.put(session, [fresh()], Origin())

            ours, floor = _in_turn(kept, by_hand, rounds=self._rounds)
        return [_ratio("keep 100 KB, against one put and one commit", ours, floor, 1.5)]

    def _lines(self) -> list[Figure]:
        text = "".join(itertools.islice(_lines(), 100_000)).encode()
        with _folder_store(self._folder / "lines") as folder:
            here = folder.put(folder.open_session("s"), [text], Origin()).handle
            session = self.store.open_session("lines")
            there = self.store.put(session, [text], Origin())
            (object,) = self._rows(
                "SELECT object::text FROM holdall_outputs WHERE handle = %s AND session = %s", there.handle, session.id
            )
            # Both sides are cold: a connection that is used again waits for delayed acknowledgements.
            bare: Any = iter([from_url(self._bucket, client_options={"allow_http": True}) for _ in range(self._rounds)])
            length = len(text) // 100_000 * LINES
            starts = itertools.cycle(range(1, 90_000, 7_001))

            def by_hand() -> None:
                start = next(starts) * length // LINES
                obstore.get_range(next(bare), f"{object[:2]}/{object}", start=start, end=start + length)

            cold = [self._opened() for _ in range(self._rounds)]
            left = iter([_bag(store, session.name) for store in cold])

            def read_cold() -> None:
                _read(next(left), there.handle, next(starts))

            ours, floor = _in_turn(read_cold, by_hand, rounds=self._rounds)
            for store in cold:
                store.close()
            found = [_ratio("200 lines cold, against one range read", ours, floor, 1.5)]
            near, far = _bag(folder, "s"), _bag(self.store, "lines")
            warm, plain = _in_turn(
                lambda: _read(far, there.handle, 777), lambda: _read(near, here, 777), rounds=self._rounds
            )
            return [*found, _ratio("200 lines warm, against the folder store", warm, plain, 1.3)]

    def _grep(self) -> list[Figure]:
        def pieces() -> Generator[bytes]:
            done = 0
            for batch in log_lines():
                piece = "".join(batch).encode()
                yield piece
                done += len(piece)
                if done >= self._size:
                    return

        with _folder_store(self._folder / "grep") as folder:
            here = folder.put(folder.open_session("s"), pieces(), Origin()).handle
            there = self.store.put(self.store.open_session("grep"), pieces(), Origin())
            (object,) = self._rows(
                "SELECT object::text FROM holdall_outputs WHERE handle = %s AND bytes = %s",
                there.handle,
                there.measure.bytes,
            )
            bare: Any = from_url(self._bucket, client_options={"allow_http": True})
            copy = self._folder / "copy"
            near, far = _bag(folder, "s"), _bag(self.store, "grep")

            def by_hand() -> None:
                with copy.open("wb") as file:
                    for piece in obstore.get(bare, f"{object[:2]}/{object}").stream(8 << 20):
                        file.write(piece)
                _grep(near, here)

            warm, plain = _in_turn(
                lambda: _grep(far, there.handle), lambda: _grep(near, here), rounds=3 if self._quick else 7
            )

            stores = [self._opened() for _ in range(3)]
            left = iter([_bag(store, "grep") for store in stores])
            ours, floor = _in_turn(lambda: _grep(next(left), there.handle), by_hand, rounds=3)
            for store in stores:
                store.close()
        size = f"{self._size / 1e9:g} GB"
        return [
            _ratio(f"grep of {size} warm, against the folder store", warm, plain, 1.1),
            _ratio(f"grep of {size} cold, against fetching it and grep", ours, floor, 1.2),
        ]

    def _crowd(self) -> list[Figure]:
        count = 5 if self._quick else 40
        one = self._writers(1, 1, count)
        many = self._writers(4, 16, count)
        session = self.store.find_session("crowd")
        assert session is not None
        there = {facts.handle for facts in self.store.outputs(session) if facts.state == "ready"}
        lost = len(set(one.handles + many.handles) - there)
        seconds = sorted(many.seconds)
        return [
            Figure("one writer, outputs of 100 KB per second", round(one.rate, 1)),
            Figure("64 writers in 4 processes, outputs per second", round(many.rate, 1)),
            Figure("the same, p50 in ms", round(1000 * statistics.median(seconds))),
            Figure("the same, p99 in ms", round(1000 * seconds[int(len(seconds) * 0.99)])),
            Figure("the same, outputs that were refused", len(many.refused), 0, next(iter(many.refused), "")),
            Figure("the same, handles that were lost", lost, 0),
        ]

    def _writers(self, processes: int, threads: int, count: int) -> "_Crowd":
        command = [sys.executable, "-m", "bench.fleet", "writer", self._home, self._bucket]
        running = [
            subprocess.Popen(
                [*command, str(next(self._fresh)), str(threads), str(count)], cwd=_ROOT, stdout=subprocess.PIPE
            )
            for _ in range(processes)
        ]
        told = [json.loads(one.communicate()[0]) for one in running]
        return _Crowd(
            [handle for one in told for handle in one["handles"]],
            [seconds for one in told for seconds in one["seconds"]],
            max(one["ended"] for one in told) - min(one["began"] for one in told),
            [why for one in told for why in one["refused"]],
        )

    def _listing(self) -> list[Figure]:
        many = self._outputs
        session = self.store.open_session("many")

        def keep(_: int) -> None:
            self.store.put(session, [b"the same\n"], Origin())

        with ThreadPoolExecutor(4) as threads:
            list(threads.map(keep, range(many)))
        seconds = [_timed(lambda: self.store.outputs(session)) for _ in range(5)]
        return [Figure(f"list a session of {many:,} outputs, ms", round(1000 * min(seconds)), 50)]

    def _round_trips(self) -> list[Figure]:
        address = self._address
        with proxied((address.database_host, address.database_port), "postgres") as proxy:
            through = address._replace(database_host="127.0.0.1", database_port=proxy.port).home("bench")
            store = self._opened(through)
            first = len(proxy.rounds)
            store.open_session("lines")
            second = len(proxy.rounds) - first
            store.close()
        return [
            Figure("open a session, round trips", second, 10),
            Figure("open the store before it, round trips", first, detail="with the password and the schema"),
        ]

    def _rows(self, statement: str, *values: object) -> Any:
        with psycopg.connect(self._home) as connection:
            return connection.execute(statement.encode(), values).fetchone()


class _Crowd:
    def __init__(self, handles: list[str], seconds: list[float], wall: float, refused: list[str]) -> None:
        self.handles, self.seconds, self.refused = handles, seconds, refused
        self.rate = len(handles) / wall


@contextlib.contextmanager
def _bench(options: argparse.Namespace) -> Generator[Bench]:
    with servers.started(durable=True) as running, tempfile.TemporaryDirectory(prefix="holdall-bench-") as folder:
        os.environ.update(running.address.environment())
        bench = Bench(running.address, Path(folder), options)
        try:
            yield bench
        finally:
            bench.store.close()


@contextlib.contextmanager
def _folder_store(path: Path) -> Generator[OutputStore]:
    store = DirectoryStore(str(path))
    try:
        yield store
    finally:
        store.close()


_LOOP = asyncio.Runner()


def _bag(store: OutputStore, session: str) -> Holdall:
    return Holdall.open(session=session, store=store, settings=Settings())


def _read(bag: Holdall, handle: str, start: int) -> None:
    _LOOP.run(bag.read(handle, lines=f"{start}:{start + LINES - 1}", bounded=False))


def _grep(bag: Holdall, handle: str) -> None:
    _LOOP.run(bag.grep(handle, RARE, literal=True))


def _timed(work: Callable[[], object]) -> float:
    before = time.perf_counter()
    work()
    return time.perf_counter() - before


def _in_turn(ours: Callable[[], object], floor: Callable[[], object], *, rounds: int) -> tuple[float, float]:
    """The medians of both, each after one time that does not count."""
    pairs = [(_timed(ours), _timed(floor)) for _ in range(rounds)][1:]
    return statistics.median(one for one, _ in pairs), statistics.median(two for _, two in pairs)


def _ratio(name: str, ours: float, floor: float, aim: float) -> Figure:
    return Figure(name, round(ours / floor, 2), aim, f"{1000 * ours:.1f} ms against {1000 * floor:.1f} ms")


def _writer(home: str, objects: str, cache: str, threads: str, count: str) -> None:
    store = FleetStore(home, objects=objects, cache_dir=cache, cache_bytes=1 << 30)
    session = store.open_session("crowd")
    handles, seconds, refused = list[str](), list[float](), list[str]()

    def write() -> None:
        for _ in range(int(count)):
            data = os.urandom(SMALL)
            before = time.perf_counter()
            try:
                handles.append(store.put(session, [data], Origin()).handle)
            except StoreFault as fault:
                refused.append(str(fault))
                continue
            seconds.append(time.perf_counter() - before)

    crowd = [threading.Thread(target=write) for _ in range(int(threads))]
    began = time.time()
    for one in crowd:
        one.start()
    for one in crowd:
        one.join()
    print(
        json.dumps({"handles": handles, "seconds": seconds, "began": began, "ended": time.time(), "refused": refused})
    )
    store.close()


def _command(arguments: Sequence[str]) -> None:
    _, *rest = arguments
    _writer(*rest)


if __name__ == "__main__":
    _command(sys.argv[1:])
