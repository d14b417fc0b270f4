"""SQL reaches its one output, to read it, and nothing else: no file, no network, no setting, no other process's data."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.bag import Care
from holdall.sql import child
from holdall.sql.child import landlock_version
from holdall.values.errors import BadQuery
from holdall.verbs.query import SqlWorker, query_sql
from tests.requirements import requirement
from tests.support import reader_of

DATA = b"a,b\n1,2\n3,4\n"


@pytest.fixture(scope="module")
def worker() -> Iterator[SqlWorker]:
    with SqlWorker() as shared:
        yield shared


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("elsewhere") / "secret.csv"
    path.write_text("password\nhunter2\n")
    return path


OUTSIDE = [
    "select * from read_csv('{secret}')",
    "select * from read_text('{secret}')",
    "select * from read_blob('{secret}')",
    "select * from '{secret}'",
    "select * from read_csv(['/dev/fd/3', '{secret}'])",
    "select * from glob('{folder}/*')",
    "select * from sniff_csv('{secret}')",
    "select * from read_text('/proc/self/environ')",
    "select * from read_text('/proc/self/fd/0')",
    "select * from read_text('/dev/stdin')",
    "select * from read_csv('https://localhost/x.csv')",
    "select * from read_parquet('s3://bucket/x.parquet')",
    "select * from request",  # a Python variable of the process that runs it
    "select * from known",
    "from query('select 1')",
    "from query_table('t')",
    "select current_setting('allowed_paths')",
    "select value from duckdb_settings()",
    "select * from duckdb_extensions()",
]

STATEMENTS = [
    "copy t to '{target}'",
    "copy (select 1) to '{target}' (format parquet)",
    "attach '{target}' as other",
    "attach ':memory:' as other",
    "install httpfs",
    "load httpfs",
    "load '{target}'",
    "set memory_limit='100GB'",
    "set enable_external_access=true",
    "reset lock_configuration",
    "pragma database_list",
    "call pragma_version()",
    "export database '{folder}/all'",
    "import database '{folder}/all'",
    "create table x as select 1",
    "create macro m() as 1",
    "insert into t values (1, 2)",
    "update t set a = 1",
    "delete from t",
    "drop view t",
    "explain analyze copy t to '{target}'",
    "prepare p as select 1",
    "begin",
    "select 1; copy t to '{target}'",
    "select 1; select 2",
]

HIDDEN_WRITES = [
    "with x as (copy t to '{path}' (use_tmp_file false)) select 1",
    "with x as (copy (select 1) to '{path}' (use_tmp_file false)) from x",
    "select * from (with x as (copy (select 1) to '{path}' (use_tmp_file false)) select 1)",
    "select * from t where exists (with x as (copy (select 1) to '{path}' (use_tmp_file false)) select 1)",
    "describe (with x as (copy (select 1) to '{path}' (use_tmp_file false)) select 1)",
    "from query('with x as (copy (select 1) to ''{path}'' (use_tmp_file false)) select 1')",
    "with x as (insert into t values (9, 9) returning *) select * from x",
    "with x as (delete from t) select 1",
]


@requirement("query:confined")
@pytest.mark.parametrize("sql", [*OUTSIDE, *STATEMENTS])
def test_nothing_but_the_table_is_within_reach(worker: SqlWorker, secret: Path, tmp_path: Path, sql: str) -> None:
    target = tmp_path / "target"
    filled = sql.format(secret=secret, folder=secret.parent, target=target)
    with pytest.raises(BadQuery) as refused:
        query_sql(reader_of(DATA), filled, worker=worker)
    assert "hunter2" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@requirement("query:changes-nothing")
@pytest.mark.parametrize("sql", HIDDEN_WRITES)
def test_no_sql_changes_the_output(worker: SqlWorker, tmp_path: Path, sql: str) -> None:
    stored = tmp_path / "stored.csv"
    stored.write_bytes(DATA)
    descriptor = os.open(stored, os.O_RDONLY)
    reader = reader_of(DATA)
    os.dup2(descriptor, reader.fileno())
    os.close(descriptor)
    for path in (stored, *(f"/dev/fd/{number}" for number in range(3, 9))):
        with pytest.raises(BadQuery):
            query_sql(reader, sql.format(path=path), worker=worker)
    assert stored.read_bytes() == DATA
    assert query_sql(reader, "select sum(b) from t", worker=worker).rows == ((6,),)


@requirement("query:changes-nothing", "query:confined")
@pytest.mark.skipif(landlock_version() < 6, reason="this kernel has no Landlock, or an older one: `doctor` says so")
def test_the_process_that_runs_a_query_cannot_write_read_or_connect_whatever_it_is_told(tmp_path: Path) -> None:
    kept, made, other = tmp_path / "kept", tmp_path / "made", tmp_path / "other"
    kept.write_bytes(DATA)
    other.write_text("hunter2")
    script = f"""
import os, signal, socket
from holdall.sql.child import guard, guard_query
ours, theirs = socket.socketpair()
listening = socket.create_server(("127.0.0.1", 0))
kept = os.open({str(kept)!r}, os.O_RDONLY)
guard()
guard_query(theirs.fileno(), [kept], 2**30)
def tried(act):
    try:
        act()
        return "done"
    except OSError:
        return "refused"
print(tried(lambda: open({str(made)!r}, "wb").write(b"x")), tried(lambda: open({str(kept)!r}, "r+b").write(b"x")))
print(tried(lambda: open({str(other)!r}).read()), tried(lambda: os.listdir({str(tmp_path)!r})))
print(tried(lambda: open("/proc/self/environ").read()), tried(lambda: os.execv("/bin/true", ["true"])))
print(tried(lambda: socket.create_connection(listening.getsockname())), tried(lambda: socket.create_server(("", 0))))
print(tried(lambda: os.kill(os.getppid(), 0)))
print(open(f"/dev/fd/{{kept}}", "rb").read(), flush=True)
os._exit(0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "refused refused\n" * 4 + f"refused\n{DATA!r}\n"
    assert kept.read_bytes() == DATA


@requirement("query:confined")
def test_an_error_shows_no_path_of_the_machine(worker: SqlWorker, secret: Path) -> None:
    reader = reader_of(DATA)
    for sql in (
        "select nope from t",
        "select * from read_csv('/etc/hosts')",
        "select b::date from t",
        "select error('x')",
    ):
        with pytest.raises(BadQuery) as refused:
            query_sql(reader, sql, worker=worker)
        assert "/dev/fd" not in str(refused.value)
        assert str(Path.home()) not in str(refused.value)


@requirement("query:confined")
def test_one_query_leaves_nothing_for_the_next(worker: SqlWorker) -> None:
    first, second = reader_of(b"secret,x\n1,2\n3,4\n"), reader_of(DATA)
    query_sql(first, "select * from t", worker=worker)
    table = query_sql(second, "select * from t", worker=worker)
    assert table.columns == ("a", "b")
    with pytest.raises(BadQuery, match="Columns of t: a BIGINT, b BIGINT"):
        query_sql(second, "select secret from t", worker=worker)


@requirement("query:confined")
def test_the_file_is_read_by_descriptor_whatever_happens_to_its_name(worker: SqlWorker, tmp_path: Path) -> None:
    stored = tmp_path / "stored.csv"
    stored.write_bytes(DATA)
    reader = reader_of(DATA)
    descriptor = os.open(stored, os.O_RDONLY)
    os.dup2(descriptor, reader.fileno())
    os.close(descriptor)
    stored.unlink()
    stored.write_bytes(b"a,b\n7,7\n7,7\n")
    assert query_sql(reader, "select sum(a) from t", worker=worker).rows == ((4,),)


@pytest.mark.in_full(one_in=3)
@requirement("cli:doctor")
@pytest.mark.parametrize(
    ("version", "said"),
    [(-1, "no Landlock"), (0, "no Landlock"), (3, "for the network DuckDB's own"), (7, "or the network")],
)
def test_doctor_tells_what_keeps_sql_from_files_and_the_network(
    version: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "landlock_version", lambda: version)
    assert said in Care.sql_confinement()
