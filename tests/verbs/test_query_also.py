"""query over several outputs: each is a table under its handle, with the limits of one."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall import Holdall
from holdall.store.directory.store import DirectoryStore
from holdall.values.answers import Table
from holdall.values.errors import BadQuery, OutputExpired, UnknownHandle
from holdall.verbs.query import SqlWorker, query_sql
from tests.cli.program import Program
from tests.requirements import requirement
from tests.support import reader_of

pytestmark = pytest.mark.anyio

PEOPLE = b"id,name\n1,Ann\n2,Bob\n3,Cem\n"
ORDERS = b'{"who": 1, "sum": 20.5}\n{"who": 3, "sum": 7}\n{"who": 1, "sum": 1}\n'
LOG = b"user 1 in\nuser 3 in\nuser 3 out\n"


@pytest.fixture(scope="module")
def worker() -> Iterator[SqlWorker]:
    with SqlWorker() as shared:
        yield shared


def ask(worker: SqlWorker, sql: str, first: bytes = PEOPLE, **others: bytes) -> Table:
    also = [reader_of(data, handle=handle) for handle, data in others.items()]
    return query_sql(reader_of(first, handle="pppp"), sql, also=also, worker=worker)


@requirement("query:also")
def test_outputs_of_three_kinds_are_joined_by_their_handles(worker: SqlWorker) -> None:
    sql = (
        "select name, sum(b.sum) as total, (select count(*) from cccc where text like '%user ' || t.id || ' %') as seen "
        "from t left join bbbb as b on b.who = t.id group by t.id, name order by t.id"
    )
    table = ask(worker, sql, bbbb=ORDERS, cccc=LOG)
    assert [list(row) for row in table.rows] == [["Ann", 21.5, 1], ["Bob", None, 0], ["Cem", 7.0, 2]]
    assert (table.handle, table.also) == ("pppp", (("bbbb", len(ORDERS)), ("cccc", len(LOG))))


@requirement("query:also")
@pytest.mark.parametrize("sql", ["select count(*) from pppp", "select count(*) from PPPP a join t using (id)"])
def test_the_first_output_is_known_by_its_handle_too(worker: SqlWorker, sql: str) -> None:
    assert ask(worker, sql).rows == ((3,),)


@requirement("query:also")
def test_a_late_member_of_a_further_output_is_found_by_its_alias(worker: SqlWorker) -> None:
    lines = [json.dumps({"who": at, "pad": "p" * 400} | ({"late": 9} if at == 21_500 else {})) for at in range(22_000)]
    later = "\n".join(lines).encode()
    assert ask(worker, "select sum(x.late) from t, bbbb as x where x.late > t.id", bbbb=later).rows == ((27,),)


@requirement("query:also")
def test_two_outputs_with_the_same_columns_stay_apart(worker: SqlWorker) -> None:
    later = PEOPLE.replace(b"Bob", b"Rob") + b"4,Dan\n"
    sql = (
        "select b.id, t.name, b.name from bbbb b left join t using (id) where t.name is distinct from b.name order by 1"
    )
    assert ask(worker, sql, bbbb=later).rows == ((2, "Bob", "Rob"), (4, None, "Dan"))
    with pytest.raises(
        BadQuery, match=r"Ambiguous reference .*Columns of t: id BIGINT, name VARCHAR\. Columns of bbbb: "
    ):
        ask(worker, "select name from t, bbbb", bbbb=later)


@requirement("query:also", "query:wrong-column")
def test_a_name_that_is_no_table_is_refused_with_those_that_are(worker: SqlWorker) -> None:
    with pytest.raises(BadQuery, match=r"there is no table zzzz here; the tables are t, pppp, bbbb\. Columns of t: id"):
        ask(worker, "select * from zzzz", bbbb=ORDERS)
    with pytest.raises(BadQuery, match=r"no table duckdb_settings here|not available in FROM"):
        ask(worker, "select * from duckdb_settings()", bbbb=ORDERS)
    with pytest.raises(BadQuery, match="there is no table cccc here"):
        ask(worker, "select * from (select 1) x, other.cccc", cccc=ORDERS)


@pytest.mark.parametrize("broken", [0, 1])
def test_each_output_is_read_in_its_own_way_where_the_usual_one_fails(worker: SqlWorker, broken: int) -> None:
    odd = b'{"a":1}\n{"a":2}\n' * 20 + b"oops\n"
    good = b'{"a":1}\n{"a":2}\n' * 20
    first, second = (odd, good) if broken == 0 else (good, odd)
    lines, records = ("t", "bbbb") if broken == 0 else ("bbbb", "t")
    table = ask(worker, f"select (select count(text) from {lines}), (select sum(a) from {records})", first, bbbb=second)
    assert table.rows == ((41, 60),)
    assert any("Not all of it is ndjson" in note for note in table.notes)


def test_json_that_must_be_mended_is_mended_in_the_further_output(worker: SqlWorker) -> None:
    mended = ask(worker, "select name, m from t, bbbb where id = 1", bbbb=b'[{"m":"\\ud83d x"}]')
    assert mended.rows == (("Ann", "\ufffd x"),)
    assert any("stand as U+FFFD" in note for note in mended.notes)


@pytest.mark.parametrize("sql", ["select * from read_text('/dev/fd/{}')", "copy bbbb to '/dev/fd/{}'"])
def test_no_descriptor_of_the_process_is_within_reach(worker: SqlWorker, sql: str) -> None:
    for number in range(13):
        with pytest.raises(BadQuery):
            ask(worker, sql.format(number), bbbb=ORDERS)


@requirement("query:also")
async def test_a_further_output_is_a_table_by_its_call_id_too_unless_that_is_taken(tmp_path: Path) -> None:
    async with Holdall.open(home=str(tmp_path)) as bag:
        first = await bag.keep(b"id,n\n1,2\n", call_id="orders")
        named = ("call-7", "3e2a.csv", 'a "b"; drop', "t!", "ä/ö")
        quoted = [(one, '"' + one.replace('"', '""') + '"') for one in named]
        for call_id, name in (("jhu", "jhu"), *quoted, ("t", ""), (first.handle, ""), ("a\nb", ""), ("x" * 300, "")):
            other = await bag.keep(f"id,m\n1,m{len(call_id)}\n".encode(), call_id=call_id)
            sql = f"select m from t join {name or other.handle} using (id)"
            assert (await bag.query(first.handle, sql, also=[other.handle])).rows == ((f"m{len(call_id)}",),)
            if not name:
                with pytest.raises(BadQuery):
                    await bag.query(first.handle, f'select m from "{call_id}"', also=[other.handle])


@requirement("query:also", "store:foreign-as-unknown")
async def test_the_ledger_counts_each_output_and_foreign_handles_are_refused(tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    async with Holdall.open(session="other", home=home) as other:
        foreign = (await other.keep("id,x\n1,2\n")).handle
    async with Holdall.open(session="s", home=home) as bag:
        people, orders = (await bag.keep(PEOPLE)).handle, (await bag.keep(ORDERS, call_id="call-2")).handle
        sql = f"select count(*) from t join {orders} o on o.who = t.id"
        answer = await bag.call("context_query", {"handle": people, "sql": sql, "also": [orders, orders, people]})
        assert not answer.is_error, answer.text
        seen = {handle: (await bag.records.coverage(handle)).to_json(1) for handle in (people, orders)}
        assert [one["scanned"] for one in seen.values()] == [[[0, len(PEOPLE)]], [[0, len(ORDERS)]]]
        assert [one["retrievals"] for one in seen.values()] == [1, 0]
        by_call = await bag.query(people, sql, also=["call-2"])
        assert isinstance(by_call, Table)
        assert by_call.rows == ((3,),)
        as_text = await bag.call("context_query", {"handle": people, "sql": sql, "also": orders})
        assert not as_text.is_error
        unknown = await bag.call("context_query", {"handle": people, "sql": sql, "also": ["zzzz"]})
        refused = await bag.call("context_query", {"handle": people, "sql": sql, "also": [foreign]})
        assert refused.is_error
        assert refused.text.replace(foreign, "zzzz") == unknown.text
        with pytest.raises(UnknownHandle):
            await bag.query(people, "select 1 from t", also=[foreign])


@requirement("query:also", "query:also-bounded")
async def test_a_thousand_handles_strange_names_and_expired_outputs_are_refused(tmp_path: Path) -> None:
    home = str(tmp_path / "h")
    async with Holdall.open(session="s", home=home) as bag:
        people, gone = (await bag.keep(PEOPLE)).handle, (await bag.keep(ORDERS)).handle
        many = [f"b{number:03}" for number in range(1000)]
        with pytest.raises(BadQuery, match="also names 1,000 outputs; a query reads at most 8 besides t"):
            await bag.query(people, "select 1 from t", also=many)
        with pytest.raises(BadQuery, match="a path names values of one output"):
            await bag.query(people, path="$", also=[gone])
        for name in ("", "t", "a b", '"', "../x", "information_schema.tables", "\x00", "🦀" * 500):
            answer = await bag.call("context_query", {"handle": people, "sql": "select 1 from t", "also": [name]})
            assert answer.is_error
            assert len(answer.text) < 1000
        for wrong in ([1], [[people]], {"a": 1}, [None]):
            assert (await bag.call("context_query", {"handle": people, "sql": "from t", "also": wrong})).is_error
        await bag.query(people, f"select 1 from t, {gone}", also=[gone])
        other = DirectoryStore(home)
        other.expire(bag.session, [await bag.show(gone)], "by hand")
        other.close()
        with pytest.raises(OutputExpired):
            await bag.query(people, f"select 1 from t, {gone}", also=[gone])


@requirement("query:also", "cli:query-also")
def test_the_command_takes_further_handles(tmp_path: Path) -> None:
    program = Program(tmp_path / "home")

    def kept(data: bytes) -> str:
        return program("put", "--json", stdin=data).json["handle"]

    people, orders = kept(PEOPLE), kept(ORDERS)
    sql = f"select name, o.sum from t join {orders} o on o.who = t.id order by 2"
    found = program("query", people, sql, "--also", orders, "--json").json
    assert found["rows"] == [["Ann", 1.0], ["Cem", 7.0], ["Ann", 20.5]]
    assert found["also"] == [orders]
