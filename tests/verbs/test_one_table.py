"""The notice and SQL describe the same table: found once, in `formats.columns`, and used by both."""

import csv
import io
import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from holdall.formats.columns import table_of
from holdall.formats.outline import WHOLE, take
from holdall.formats.registry import outline
from holdall.formats.table import column
from holdall.store.reader import FileReader
from holdall.values.answers import Table
from holdall.values.errors import BadQuery
from holdall.verbs.query import SqlWorker, query_sql
from tests.requirements import requirement
from tests.support import reader_of
from tests.text.test_kinds import DF, ISSUES, PODS, PS


@pytest.fixture(scope="module")
def worker() -> Iterator[SqlWorker]:
    with SqlWorker() as shared:
        yield shared


def outlined(reader: FileReader) -> list[str]:
    return list(outline(reader.read, reader.facts.measure).lines)


def same(reader: FileReader, worker: SqlWorker) -> list[tuple[str, str]]:
    """The columns that SQL has, which are those of the notice; so is the number of rows."""
    kind = reader.facts.measure.kind
    table = table_of(take(reader.read, reader.totals.bytes, reader.totals.lines), kind=kind)
    assert table is not None
    described = query_sql(reader, "describe t", worker=worker, max_bytes=None, max_rows=10_000)
    found = [(row[0], str(row[1]).replace("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ")) for row in described.rows]
    assert found == [(one.name, one.type) for one in table.columns]
    everything = query_sql(reader, "select * from t", worker=worker, max_bytes=None, max_rows=100_000)
    assert len(everything.rows) == table.rows
    assert [note for note in everything.notes if "checksums" not in note] == []
    counted = query_sql(reader, "select count(*) from t", worker=worker)
    assert counted.rows == ((table.rows,),)
    return found


def ask(worker: SqlWorker, data: bytes | str, sql: str, **options: Any) -> Table:
    return query_sql(reader_of(data.encode() if isinstance(data, str) else data), sql, worker=worker, **options)


@requirement("query:same-table")
@pytest.mark.parametrize("rows", [3_000, 60_000])
def test_a_quote_that_is_never_closed_takes_no_row_away_and_is_told(worker: SqlWorker, rows: int) -> None:
    at = rows // 2
    lines = [f"{n},y {n},{n}" for n in range(rows)]
    lines[at] = f'{at},"5 pipe "" x,{at}'
    reader = reader_of("\r\n".join(["id,what,z", *lines, ""]).encode())
    told = f"a quote opens in L{at + 2:,} and is never closed: read as part of its cell"
    assert outlined(reader)[:2] == [f"{rows:,} rows × 3 columns", told]
    found = query_sql(reader, "select count(*), sum(z) from t", worker=worker)
    assert (found.rows, found.notes) == (((rows, rows * (rows - 1) // 2),), (f"In the output, {told}.",))
    cell = query_sql(reader, f"select what from t where id = {at}", worker=worker)
    assert cell.rows == (('"5 pipe "" x',),)


@requirement("query:same-table")
def test_a_cell_that_was_cut_is_one_cell_and_is_told(worker: SqlWorker) -> None:
    rows = "".join(f'{n},"one\ntwo, {n}"\n' for n in range(50))
    told = "a quote opens in L102 and is never closed: all after it is one cell"
    reader = reader_of(f'id,what\n{rows}50,"one\nand then\nit was'.encode())
    assert outlined(reader)[:2] == ["51 rows × 2 columns", told]
    found = query_sql(reader, "select what from t where id = 50", worker=worker)
    assert (found.rows, found.notes) == ((("one\nand then\nit was",),), (f"In the output, {told}.",))


@pytest.mark.parametrize("last", ['a,5" pipe', 'a,"hello,"', 'a,"say ""no"""', 'a,""', 'a,"x"\nb,5"', 'a,"x\n""y"""'])
def test_quotes_that_are_no_open_ones_are_not_told(last: str) -> None:
    rows = "".join(f"{n},y {n}\n" for n in range(50))
    for text in (f"id,what\n{rows}{last}\n", f"id,what\n{last}\n{rows}", f'id,what\n1,5" x\n{rows}{last}\n'):
        assert not any("quote" in line for line in outlined(reader_of(text.encode())))


@requirement("query:same-table", "query:codes-are-text")
@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("code,day,iso\n00001,02/08/2026,2026-08-02\n00002,03/08/2026,2026-08-03\n",
         [("code", "VARCHAR"), ("day", "VARCHAR"), ("iso", "DATE")]),
        ("a;b\n1,5;2026-01-02T03:04:05Z\n2,5;2026-01-02T03:04:06+01:00\n", [("a", "VARCHAR"), ("b", "TIMESTAMPTZ")]),
        ("1|Ann|true\n2|Bob|false\n", [("column0", "BIGINT"), ("column1", "VARCHAR"), ("column2", "BOOLEAN")]),
        ("id\tID\tid\n1\t-2\t99999999999999999999\n", [("id", "BIGINT"), ("ID_1", "BIGINT"), ("id_2", "HUGEINT")]),
        ("first name,select,x y\n1.5,.5,1e3\n", [("first name", "DOUBLE"), ("select", "DOUBLE"), ("x y", "DOUBLE")]),
        ('"a\nb",c\n"x\r\ny",1\n,2\n', [("a b", "VARCHAR"), ("c", "BIGINT")]),
        ("a,b\r\n1,2\n3,4\r\n", [("a", "BIGINT"), ("b", "BIGINT")]),
        ("\ufeffa,b\n1,2\n\n3,4", [("a", "BIGINT"), ("b", "BIGINT")]),
        ("a,b\n1,2\n" * 1 + "1,2\n" * 30 + "3\n4,5,6\n", [("a", "BIGINT"), ("b", "BIGINT"), ("column2", "BIGINT")]),
        ('a,b\n1,"x"y\n2,5" pipe\n', [("a", "BIGINT"), ("b", "VARCHAR")]),
        ("a,b\n#1,2\n// x,3\n", [("a", "VARCHAR"), ("b", "BIGINT")]),
        ("Country,1990,1991,1992\nFrance,5,6,7\n", [("Country", "VARCHAR")] + [(f"199{n}", "BIGINT") for n in range(3)]),
        (ISSUES, [("id", "BIGINT"), ("title", "VARCHAR"), ("body", "VARCHAR")]),
        (DF, [("Filesystem", "VARCHAR"), ("1K-blocks", "BIGINT"), ("Used", "BIGINT"), ("Available", "BIGINT"),
              ("Use%", "VARCHAR"), ("Mounted on", "VARCHAR")]),
    ],
)  # fmt: skip
def test_columns_are_the_same_in_the_notice_and_in_sql(
    worker: SqlWorker, text: str, columns: list[tuple[str, str]]
) -> None:
    reader = reader_of(text.encode())
    assert same(reader, worker) == columns
    told = "\n".join(outlined(reader))
    names = [name for name, _ in columns]
    assert all(f"{name}: " in told or f"{column(name)}: " in told for name in names)
    table = query_sql(reader, f"select {', '.join(map(column, names))} from t", worker=worker)
    assert table.columns == tuple(names)


@requirement("query:same-table")
@pytest.mark.parametrize("seed", range(30 if "HOLDALL_TEST_FULL" in os.environ else 3))
def test_whatever_table_it_is_both_read_it_alike(worker: SqlWorker, seed: int) -> None:
    dice = random.Random(seed)
    cells = {
        "int": lambda: str(dice.randint(-9, 10 ** dice.randint(1, 20))),
        "float": lambda: dice.choice([f"{dice.random():.3f}", f"{dice.random():e}", "5.", ".5", "7"]),
        "code": lambda: f"{dice.randint(0, 999):05}",
        "day": lambda: f"2026-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}",
        "time": lambda: (
            f"2026-01-02{dice.choice('T ')}10:11:{dice.randint(0, 59):02}{dice.choice(['', '.5', '.123456'])}"
        ),
        "odd": lambda: str(dice.randint(0, 99)) if dice.random() < 0.95 else "NA",
        "words": lambda: dice.choice(["a\nb", "x", 'y "q" z', "a,b;c", "c\r\nd", "é", "it's", '5" pipe', "#c", " z "]),
    }
    for _ in range(4):
        kinds = [dice.choice(list(cells)) for _ in range(dice.randint(2, 5))]
        written = io.StringIO(newline="")
        rows = csv.writer(written, delimiter=dice.choice(",\t;|"), lineterminator=dice.choice(["\n", "\r\n"]))
        rows.writerow([dice.choice(["id", "Name", "first name", "a-b", "select", "größe", 'x"y']) for _ in kinds])
        for _ in range(dice.choice([3, 40])):
            row = [cells[kind]() if dice.random() < 0.95 else "" for kind in kinds]
            rows.writerow(row if dice.random() < 0.97 else row[: dice.randint(1, len(row))])
        reader = reader_of(written.getvalue().encode())
        if reader.facts.measure.kind in ("csv", "tsv"):  # too few rows of too many lengths are none
            same(reader, worker)


TEXTS = ("VARCHAR", "JSON", "varchar", "json")


@requirement("notice:nearly-numbers")
def test_a_column_that_is_nearly_always_a_number_says_so_and_counts_the_others(worker: SqlWorker) -> None:
    text = "id,ms\n" + "".join(f"{n},{'n/a' if n % 50 == 1 else n * 2}\n" for n in range(200))
    reader = reader_of(text.encode())
    assert 'ms: str, int but for 4 values: "n/a" ×4' in outlined(reader)
    assert same(reader, worker) == [("id", "BIGINT"), ("ms", "VARCHAR")]


_ORDERED = "Not all of ms is numbers, so its order is that of text: try_cast(ms as double) has that of numbers."


@pytest.mark.parametrize(
    ("sql", "notes"),
    [
        ("select max(ms) from t", (_ORDERED,)),
        ("select id from t order by ms desc limit 1", (_ORDERED,)),
        ("select ms, count(*) from t group by 1 order by 1", (_ORDERED,)),
        ("select count(*) from t where ms > '90'", (_ORDERED,)),
        ("select row_number() over (order by ms) from t", (_ORDERED,)),
        ("select max(try_cast(ms as double)), max(id) from t", ()),
        ("select ms, count(*) from t where ms = '9' group by 1 order by 2", ()),
    ],
)
def test_the_order_of_numbers_that_are_text_is_told(worker: SqlWorker, sql: str, notes: tuple[str, ...]) -> None:
    values = ["n/a" if n == 150 else n for n in range(200)]
    rows = [{"id": n, "ms": value} for n, value in enumerate(values)]
    table = "id,ms\n" + "".join(f"{n},{value}\n" for n, value in enumerate(values))
    for text in (table, json.dumps(rows), "".join(f"{json.dumps(row)}\n" for row in rows)):
        assert ask(worker, text, sql).notes == notes


def test_a_column_of_dates_with_another_value_far_down_is_said_to_be_one_of_dates(worker: SqlWorker) -> None:
    days = [f"2026-{n % 12 + 1:02}-{n % 28 + 1:02}" for n in range(100_000)]
    rows = "".join(f"{n},{'31.12.2026' if n == 80_000 else day},{'x' * 20}\n" for n, day in enumerate(days))
    reader = reader_of(f"id,day,z\n{rows}".encode())
    told = query_sql(reader, "describe t", worker=worker)
    assert [row[:2] for row in told.rows] == [("id", "BIGINT"), ("day", "DATE"), ("z", "VARCHAR")]
    assert told.notes == (
        "The types come from a sample; a column with another value elsewhere is text where SQL reads it.",
    )
    cast = r"Cast one side: try_cast\(column as date\), or as timestamp, or cast\(column as varchar\)"
    with pytest.raises(BadQuery, match=rf"required\. {cast}\. \(t is not what the data look like"):
        query_sql(reader, "select count(*) from t where day >= date '2026-06-01'", worker=worker)
    assert query_sql(reader, "select max(day) from t", worker=worker).notes == (
        "Not all of day is dates, so its order is that of text: try_cast(day as date) has that of dates.",
    )
    assert query_sql(reader, "describe t", worker=worker).notes == ()  # by now it is known


@requirement("query:same-table")
@pytest.mark.parametrize("sql", ["select typeof(n) from t limit 1", "select pg_typeof(n), n from t limit 1"])
@pytest.mark.parametrize("row", ["{0},{1},{2}\n", '{{"id": {0}, "n": {1}, "z": "{2}"}}\n'], ids=["csv", "ndjson"])
def test_the_type_of_a_column_is_that_of_all_its_values(worker: SqlWorker, sql: str, row: str) -> None:
    usual = [row.format(n, n % 150, "x" * 60) for n in range(130_000)]
    begin = "" if row.startswith("{{") else "id,n,z\n"
    odd = row.format(7, "other" if begin else '"other"', "x")
    for data, types in ((usual, ("BIGINT", "UBIGINT", "bigint", "ubigint")), ([*usual, odd, *usual[:9]], TEXTS)):
        reader = reader_of((begin + "".join(data)).encode())
        assert query_sql(reader, sql, worker=worker).rows[0][0] in types


def test_the_order_of_a_column_with_a_late_text_is_told_each_time(worker: SqlWorker) -> None:
    rows = "".join(f"{n},{n % 150},{'x' * 20}\n" for n in range(100_000))
    reader = reader_of(f"id,ms,z\n{rows}7,n/a,x\n".encode())
    for _ in range(2):
        assert _ORDERED in query_sql(reader, "select max(ms) from t", worker=worker).notes


@requirement("query:same-table", "query:no-value-changed")
def test_values_past_the_sample_are_never_rounded_or_shortened(worker: SqlWorker) -> None:
    rows = WHOLE // 6
    data = b"id,n,c\n" + b"1,22,3\n" * rows + b"007,12.6,3\n5,8,4\n" + b"1,2,3\n" * 30_000
    reader = reader_of(data)
    assert f"{rows + 30_003:,} lines × 3 columns; types of" in outlined(reader)[0]
    told = query_sql(reader, "select id, n, c from t where c = 4 or id = '007'", worker=worker)
    assert told.rows == (("007", "12.6", 3), ("5", "8", 4))
    assert "id is text: 1 value is not of its usual type, such as 007." in told.notes
    assert query_sql(reader, "select sum(c) from t", worker=worker).rows == ((3 * (rows + 30_001) + 4,),)


@requirement("query:same-table", "query:no-value-changed")
def test_every_type_is_checked_past_the_sample(worker: SqlWorker) -> None:
    usual = b"1,2.5,true,2026-01-02,2026-01-02T10:11:12,2026-01-02 10:11:12.5+01:00,99999999999999999999\n"
    odd = b"01,2,5,yes,2026-1-2,2026-01-02,2026-01-02,x\n".replace(b",2,5,", b",2.5.,")
    header = b"i,f,b,d,t,z,h\n"
    data = header + usual * (WHOLE // len(usual) + 10_000)
    sql = "select i, f, b, d::varchar, t::varchar, z::varchar, h from t order by i::varchar limit 1"
    reader = reader_of(data)
    expected = (1, 2.5, True, "2026-01-02", "2026-01-02 10:11:12", "2026-01-02 09:11:12.5+00", 99999999999999999999)
    assert query_sql(reader, sql, worker=worker).rows == (expected,)
    types = ["BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "HUGEINT"]
    assert [row[1] for row in query_sql(reader, "describe t", worker=worker).rows] == types
    table = query_sql(reader_of(data + odd + usual * 20_000), sql, worker=worker)
    assert table.rows == (("01", "2.5.", "yes", "2026-1-2", "2026-01-02", "2026-01-02", "x"),)
    assert "i is text: 1 value is not of its usual type, such as 01." in table.notes
    assert "So are 6 further columns: f, b, d, t, z, h." in table.notes


@requirement("query:sql-terminal-tables")
def test_tables_of_the_terminal_are_read_by_the_place_of_their_names(worker: SqlWorker) -> None:
    assert ask(worker, PODS, "select NAME, RESTARTS, AGE from t where STATUS = 'Running' order by 1").rows == (
        ("db-0", None, "31h"),
        ("web-7d9c-abc", "0", "5d"),
    )
    assert ask(worker, PS, 'select PID, VSZ, COMMAND from t order by "%CPU" desc limit 1').rows == (
        (31234, 9168000, "nginx: worker process"),
    )
    assert ask(worker, DF, 'select "Mounted on" from t where "1K-blocks" < 200').rows == (("/my disk",),)
    assert outlined(reader_of(PODS.encode()))[0] == "3 rows × 5 columns (aligned)"
    free = (
        "               total        used        free\n"
        "Mem:            23Gi       6.1Gi       6.8Gi\nSwap:             0B          0B          0B\n"
    )
    assert ask(worker, free, "select column0, total from t").rows == (("Mem:", "23Gi"), ("Swap:", "0B"))
    docker = (
        "CONTAINER ID   IMAGE       COMMAND       CREATED          STATUS          PORTS      NAMES\n"
        '4c01db0b339c   ubuntu:22   "bash"        17 seconds ago   Up 16 seconds              happy_x\n'
        'd7886598dbe2   redis       "docker-e…"   33 minutes ago   Up 33 minutes   6379/tcp   redis\n'
    )
    assert ask(worker, docker, 'select "CONTAINER ID", PORTS, NAMES, CREATED from t order by 3').rows == (
        ("4c01db0b339c", None, "happy_x", "17 seconds ago"),
        ("d7886598dbe2", "6379/tcp", "redis", "33 minutes ago"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n" + '"' * 70_000 + "\n1,2\n",
        "a,b\n" + '1,"' + "x\n" * 200_000,
        ",".join(f"c{n}" for n in range(3000)) + "\n" + ",".join("1" * 3000) + "\n",
        "a,a,A,,\n" + "1,2,3,4,5\n" * 9,
        "a,b\n" + "1,2\n" * 50 + ",".join("x" * 5000) + "\n",
        'x" or 1=1 --,t); drop view t; --\n1,2\n3,4\n',
        "a,b\n" + "1,\x00\n" * 5000,
        "NAME  AGE\n" + "x  1\n" * 5 + "y" * 300_000 + "\n",
    ],
    ids=["quotes", "an open quote", "columns", "names", "a long row", "statements", "zeros", "a long line"],
)
@pytest.mark.timeout(60)
def test_hostile_tables_lose_nothing_and_take_no_time(worker: SqlWorker, text: str) -> None:
    reader = reader_of(text.encode())
    outlined(reader)
    if reader.facts.measure.kind == "binary":
        return
    described = query_sql(reader, "describe t", worker=worker, max_bytes=None, max_rows=10_000)
    names = [str(row[0]) for row in described.rows]
    assert len({name.casefold() for name in names}) == len(names)
    found = query_sql(reader, "select * from t", worker=worker, max_bytes=None, max_rows=300_000)
    kept = sum(len(str(cell)) for row in found.rows for cell in row if cell is not None)
    assert kept >= 0.3 * len(text.replace(",", "").replace('"', "")) - 20_000


@requirement("query:kind")
@pytest.mark.parametrize(
    ("text", "kind", "sql", "found"),
    [
        ("a,b\n1,2\n", "lines", "select text from t where line_no = 2", [["1,2"]]),
        ("one line,x,y\n", "csv", "select * from t", [["one line", "x", "y"]]),
        ("2026-01-01 10:00:00;x\n2026-01-01 10:00:01;y\n", "csv", "select column1 from t", [["x"], ["y"]]),
        ("a b\tc\n", "tsv", "select count(*) from t", [[1]]),
        ('{"a": 1}\n', "ndjson", "select a from t", [[1]]),
        ('{"a": 1}\n{"a": 2}\n', "lines", "select count(text) from t", [[2]]),
        (PODS, "lines", "select count(text) from t", [[4]]),
        ("a,b,c\n1,2\n3,4\n", "csv", "select c, b from t", [[None, 2], [None, 4]]),
        ("", "csv", "select count(*) from t", [[0]]),
        ("nothing like it\n", "table", "select text from t", [["nothing like it"]]),
    ],
)
def test_a_kind_that_is_given_is_how_it_is_read(
    worker: SqlWorker, text: str, kind: str, sql: str, found: list[list[object]]
) -> None:
    assert [list(row) for row in ask(worker, text, sql, kind=kind).rows] == found


@requirement("query:kind")
def test_a_kind_that_there_is_not_is_refused(worker: SqlWorker) -> None:
    with pytest.raises(
        BadQuery, match="kind says how sql reads the output: csv, tsv, table, json, ndjson, lines; not 'x"
    ):
        ask(worker, "a,b\n1,2\n", "select 1", kind="x" * 1000)
