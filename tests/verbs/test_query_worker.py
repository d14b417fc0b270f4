"""The process that runs SQL: its limits, and that it comes, stays and goes as it should."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

from holdall.sql import child, source
from holdall.sql import worker as sql_worker
from holdall.values.errors import WorkerFault
from holdall.verbs.query import SqlWorker, query_sql
from tests.requirements import requirement
from tests.support import reader_of

LOG = b"".join(b"line %d of the log\n" % number for number in range(20_000))
FOREVER = "select count(*) from t a, t b, t c where a.text < b.text and b.text < c.text"


@pytest.fixture
def worker() -> Iterator[SqlWorker]:
    with SqlWorker() as fresh:
        yield fresh


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def counted(worker: SqlWorker) -> int:
    return query_sql(reader_of(LOG), "select count(*) from t", worker=worker).rows[0][0]


def test_the_process_is_started_by_the_first_query_and_used_again(worker: SqlWorker) -> None:
    assert worker.pid is None
    assert counted(worker) == 20_000
    first = worker.pid
    assert counted(worker) == 20_000
    assert worker.pid == first


@requirement("query:time-limit")
def test_a_query_over_its_time_is_killed_and_the_next_one_runs(worker: SqlWorker) -> None:
    counted(worker)
    late = worker.pid
    assert late is not None
    with pytest.raises(WorkerFault, match=r"stopped after 1 s, its limit \(query_seconds\)\. Ask for less"):
        query_sql(reader_of(LOG), FOREVER, seconds=1, worker=worker)
    assert not is_alive(late)
    assert worker.pid is None
    assert counted(worker) == 20_000


@requirement("query:time-limit")
def test_preparing_the_table_counts_as_time_of_the_query(worker: SqlWorker) -> None:
    with pytest.raises(WorkerFault, match="stopped after 0 s"):
        query_sql(reader_of(LOG), "select 1", seconds=0, worker=worker)


@requirement("query:row-limit")
def test_rows_are_given_even_when_time_runs_out_while_the_rest_is_counted(worker: SqlWorker) -> None:
    sql = "select a.line_no from t a, t b, t c where length(a.text || b.text || c.text) > 3"
    counted(worker)  # started by now, so that the time is the query's alone
    table = query_sql(reader_of(LOG), sql, max_rows=5, seconds=4, worker=worker)
    assert len(table.rows) == 5
    assert table.next == 5
    assert table.notes[0] == "At least 6 rows: the rest could not be counted within the limits of the query."
    assert counted(worker) == 20_000


@requirement("query:memory-limit")
def test_a_query_over_its_memory_is_refused_with_the_limit_and_the_next_one_runs(worker: SqlWorker) -> None:
    with pytest.raises(
        WorkerFault, match=r"needs more than the 67\.1 MB of memory .* query_memory_bytes allows it more"
    ):
        query_sql(reader_of(LOG), "select list(a.text || b.text) from t a, t b", memory_bytes=2**26, worker=worker)
    assert counted(worker) == 20_000


HUNGRY = [
    "select list_reduce(list_transform(range(60000000), lambda x: x + 1), lambda a, b: a + b)",
    "select list(a.range || b.range) from range(3000) a, range(3000) b",
    "select repeat('x', 1000000000)",
    "select string_agg(range::varchar, ',') from range(50000000)",
]


@requirement("query:memory-limit")
def test_no_query_takes_more_than_its_limit_and_what_the_process_needs_itself() -> None:
    script = f"""
import resource
from holdall.values.errors import BadQuery, WorkerFault
from holdall.verbs.query import SqlWorker, query_sql
from tests.support import reader_of
with SqlWorker() as worker:
    for sql in {HUNGRY!r}:
        try:
            query_sql(reader_of(b"a"), sql, memory_bytes=2**27, worker=worker)
        except (BadQuery, WorkerFault) as refused:
            print(refused)
    print(query_sql(reader_of(b"a"), "select 1", memory_bytes=2**27, worker=worker).rows)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    *refusals, rows, most = done.stdout.splitlines()
    assert len(refusals) == len(HUNGRY)
    assert all("needs more than the 134.2 MB of memory" in one or "perhaps out of memory" in one for one in refusals)
    assert rows == "((1,),)"
    assert int(most) < 2**27 + 2**28


def test_a_process_that_is_killed_while_idle_is_replaced_without_a_word(worker: SqlWorker) -> None:
    counted(worker)
    first = worker.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert counted(worker) == 20_000
    assert worker.pid not in (None, first)


def test_a_process_that_dies_over_a_query_is_a_fault_and_the_next_query_gets_another(worker: SqlWorker) -> None:
    counted(worker)
    pid = worker.pid
    assert pid is not None
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(query_sql, reader_of(LOG), FOREVER, seconds=60, worker=worker)
        _wait_until_busy(pid)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(WorkerFault, match=r"died \(signal 9\).*the next query gets a new process"):
            answer.result()
    assert counted(worker) == 20_000


def test_closing_ends_the_process_also_in_the_middle_of_a_query() -> None:
    worker = SqlWorker()
    counted(worker)
    pid = worker.pid
    assert pid is not None
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(query_sql, reader_of(LOG), FOREVER, seconds=60, worker=worker)
        _wait_until_busy(pid)
        worker.close()
        with pytest.raises(WorkerFault):
            answer.result()
    assert not is_alive(pid)
    with pytest.raises(WorkerFault, match="the session has ended"):
        counted(worker)
    worker.close()


@pytest.mark.skipif(sys.platform != "linux", reason="there are forks on Linux only")
def test_the_database_that_each_query_copies_has_no_threads() -> None:
    before = len(os.listdir("/proc/self/task"))
    ready = child._ready_database(child.load_engine())  # pyright: ignore[reportPrivateUsage]
    assert ready is not None
    assert len(os.listdir("/proc/self/task")) == before
    ready.close()


def test_several_threads_take_turns(worker: SqlWorker) -> None:
    readers = [reader_of(b"n\n%d\n%d\n" % (number, number)) for number in range(12)]

    def summed(number: int) -> int:
        sql = "select sum(try_cast(text as int)) from t"
        return query_sql(readers[number], sql, worker=worker).rows[0][0]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(summed, range(12))) == [2 * number for number in range(12)]


def test_a_query_that_waits_too_long_for_its_turn_is_out_of_time(worker: SqlWorker) -> None:
    counted(worker)
    pid = worker.pid
    assert pid is not None
    with ThreadPoolExecutor(1) as pool:
        long = pool.submit(query_sql, reader_of(LOG), FOREVER, seconds=60, worker=worker)
        _wait_until_busy(pid)
        with pytest.raises(WorkerFault, match=r"other queries ran for 0\.2 s, all that this one had: it did not begin"):
            query_sql(reader_of(LOG), "select 1", seconds=0.2, worker=worker)
        assert is_alive(pid)
        worker.close()
        with pytest.raises(WorkerFault):
            long.result()


def test_a_query_without_a_worker_leaves_no_process_and_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    plain = subprocess.Popen

    class Watched(plain):  # pyright: ignore[reportMissingTypeArgument, reportUntypedBaseClass]
        def __init__(self, *args: object, **options: object) -> None:
            super().__init__(*args, **options)  # pyright: ignore[reportUnknownMemberType, reportArgumentType, reportCallIssue]
            started.append(self.pid)

    monkeypatch.setattr(sql_worker.subprocess, "Popen", Watched)
    reader = reader_of(b"a\r\n\r\nb")  # one that needs a copy
    gc.collect()  # what tests before this one left
    before = set(os.listdir("/proc/self/fd"))
    assert query_sql(reader, "select count(*) from t").rows == ((3,),)
    with pytest.raises(WorkerFault):
        query_sql(reader, "select count(*) from range(1e9::bigint) a, t", seconds=0.5, max_rows=1)
    gc.collect()
    assert set(os.listdir("/proc/self/fd")) <= before  # what tests before this one left may close in the meantime
    assert len(started) == 2
    assert not any(map(is_alive, started))


def test_a_copy_is_made_once_for_queries_in_a_row(worker: SqlWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(b"a\r\nb\r\n")
    made: list[int] = []
    real = source.scratch

    def counting(parts: Iterable[bytes]) -> BinaryIO:
        made.append(1)
        return real(parts)

    monkeypatch.setattr(source, "scratch", counting)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert query_sql(reader, "select count(*) from t", worker=worker).rows == ((2,),)
    assert len(made) == 1
    second = reader_of(b"c\r\n")
    assert query_sql(second, "select count(*) from t", worker=worker).rows == ((1,),)
    assert len(made) == 2
    second.close()
    worker.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_worker_that_is_forgotten_takes_its_process_along() -> None:
    worker = SqlWorker()
    counted(worker)
    pid = worker.pid
    assert pid is not None
    del worker
    gc.collect()
    assert not is_alive(pid)


def test_the_process_ends_when_its_parent_is_killed_in_the_middle_of_a_query() -> None:
    script = """
from holdall.verbs.query import SqlWorker, query_sql
from tests.support import reader_of
from tests.verbs.test_query_worker import FOREVER, LOG
worker = SqlWorker()
query_sql(reader_of(LOG), "select 1", worker=worker)
print(worker.pid, flush=True)
query_sql(reader_of(LOG), FOREVER, worker=worker)
"""
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", script], cwd=root, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        running = _wait_until_busy(pid)
        parent.kill()
    _wait_until(lambda: _is_gone(pid) and _is_gone(running))


def test_a_missing_duckdb_is_told_as_what_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("duckdb.py", "_duckdb.py"):
        (tmp_path / name).write_text("raise ImportError('no such thing here')\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(
        WorkerFault, match="SQL needs the package duckdb, which cannot be loaded here: no such thing here"
    ):
        query_sql(reader_of(LOG), "select 1")


def test_a_process_that_cannot_start_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_worker.sys, "executable", "/does/not/exist")
    with pytest.raises(WorkerFault, match="cannot be started: No such file or directory"):
        query_sql(reader_of(LOG), "select 1")


def _wait_until_busy(pid: int) -> int:
    """Until a query, which is a fork of this process, has used more processor time than it needs to be taken in."""
    busy: list[int] = []

    def look() -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the one before has just ended
            running = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            busy[:] = [one for one in map(int, running) if _ticks(one) > 10]
        return bool(busy)

    _wait_until(look)
    return busy[0]


def _wait_until(reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not reached():
        assert time.monotonic() < deadline
        os.sched_yield()


def _ticks(pid: int) -> int:
    return sum(map(int, _stat(pid)[11:13]))


def _is_gone(pid: int) -> bool:
    """Ended, though perhaps not yet collected by whoever inherited it."""
    try:
        return _stat(pid)[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def test_of_a_wide_table_few_rows_are_held_at_once(worker: SqlWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = list[int]()
    rows = (taken.append(number) or ["1"] * 5000 for number in range(1000))
    written = source._as_csv(rows, 5000)  # pyright: ignore[reportPrivateUsage]
    assert next(written).count(b"\n") == len(taken) == 10
    monkeypatch.setattr(source, "_LONGEST_ROW", 1000)
    odd_ends = b"a,b\r\n1,2\n" + b"3," * 2000 + b"\n" + b"5,6\n" * 20_000
    assert query_sql(reader_of(odd_ends), "select count(*) from t", worker=worker, kind="csv").rows[0][0]
