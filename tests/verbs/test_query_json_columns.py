"""JSON columns in SQL: compared with text, unnested, joined; and what an error says to write instead."""

from collections.abc import Iterator
from typing import Any

import pytest

from holdall.values.answers import Table
from holdall.values.errors import BadQuery
from holdall.verbs.query import SqlWorker, query_sql
from tests.requirements import requirement
from tests.support import reader_of

MIXED = b"""[{"id": 1, "x": "ann", "tags": ["a", 1], "o": {"k": "v"}},
{"id": 2, "x": 5, "tags": "b", "o": {"k": "w"}},
{"id": 3, "x": {"y": "z"}, "tags": null, "o": {"k": null}}]"""


@pytest.fixture(scope="module")
def worker() -> Iterator[SqlWorker]:
    with SqlWorker() as shared:
        yield shared


def ask(worker: SqlWorker, sql: str, data: bytes = MIXED, **options: Any) -> Table:
    return query_sql(reader_of(data), sql, worker=worker, **options)


@pytest.mark.parametrize("data", [b'{"id":1,"p":"{}"}\n' * 5 + b'{"id":2,"p":"{oops"}\n', b"id,p\n1,{}\n2,{oops\n"])
def test_a_cell_that_is_no_json_is_a_fault_of_the_expression_and_not_of_the_table(
    worker: SqlWorker, data: bytes
) -> None:
    with pytest.raises(BadQuery, match=r"Malformed JSON at byte 1 of input.*json_valid\(column\)") as refused:
        ask(worker, "select json_extract(p, '$.k') from t", data)
    assert "cannot be read as a table" not in str(refused.value)


@requirement("query:json-as-text")
@pytest.mark.parametrize(
    ("sql", "ids"),
    [
        ("select id from t where x = 'ann'", [1]),
        ("select id from t where t.x in ('ann', '5')", [1, 2]),
        ("select id from t where x like 'a%'", [1]),
        ("select a.id from t a join t b on a.x = b.x where a.x <> 'ann' order by 1", [2, 3]),
        ("select id from t where x is distinct from 'ann' order by id", [2, 3]),
        ("select id from t where upper(x) = 'ANN'", [1]),
        ("select id from t where x->>'$.y' = 'z'", [3]),
        ("select id from t where x->>'$' = 'ann'", [1]),
        ("select id from t where o.k = 'v'", [1]),
        ("with u as (select id, unnest(tags) as tag from t) select id from u order by id", [1, 1, 2]),
        ("select id from t, unnest(tags) as u(tag) where tag->>'$' = 'b'", [2]),
    ],
)
def test_json_is_compared_with_text_and_unnested(worker: SqlWorker, sql: str, ids: list[int]) -> None:
    assert [row[0] for row in ask(worker, sql).rows] == ids


@requirement("query:json-as-text")
def test_members_of_an_object_are_compared_with_text(worker: SqlWorker) -> None:
    table = ask(worker, "select key from t where value = 'x'", b'{"o": {"a": "x", "b": 1, "c": [1]}}', at="$.o")
    assert table.rows == (("a",),)


@requirement("query:errors-say-what-to-write")
@pytest.mark.parametrize(
    ("sql", "hint"),
    [
        ("select unnest(x->'$.y') from t", "Of JSON, write unnest(cast(column as json[]))."),
        ("select id from t where x->'$.y' = 'z'", "write (column->>'$') = 'x', of a member (column->>'$.name') = 'x'."),
        ("select id from t where x = 5", "Write try_cast(column->>'$' as double)."),
        ("select id from t where id like '1%'", "LIKE takes text: cast(column as varchar)."),
        ("select sum(o.k) from t", "The column is text: write try_cast(column as double)."),
        ("select year(o.k) from t", "strptime(column, '%d/%m/%Y')"),
        ("select id from t where o.k > 5", "Cast one side: try_cast(column as double)"),
        ("select id from t where id = o.k", "Not every value is a number: try_cast(column as double) is null there"),
    ],
)
def test_an_error_says_what_to_write(worker: SqlWorker, sql: str, hint: str) -> None:
    with pytest.raises(BadQuery) as refused:
        ask(worker, sql)
    assert hint in str(refused.value)
    assert "Candidate functions" not in str(refused.value)


@requirement("query:also", "query:codes-are-text")
def test_json_and_csv_have_the_same_types_so_that_they_join(worker: SqlWorker) -> None:
    rows = [
        ("6f1b1f0e-0000-4000-8000-00000000000a", "00012", "02-08-2026", "2026-08-02", "10:11:12", 7),
        ("6f1b1f0e-0000-4000-8000-00000000000b", "00013", "03-08-2026", "2026-08-03", "10:11:13", 8),
    ]
    names = ("u", "code", "day", "iso", "clock", "n")
    csv = "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]).encode()
    lines = "\n".join(str(dict(zip(names, row, strict=True))).replace("'", '"') for row in rows).encode()
    sql = f"select count(*) from t join jjjj using ({', '.join(names)})"
    also = [reader_of(lines, handle="jjjj")]
    assert query_sql(reader_of(csv), sql, also=also, worker=worker).rows == ((2,),)
    types = [row[1] for row in ask(worker, "describe t", csv).rows]
    assert types == [row[1] for row in ask(worker, "describe t", lines).rows]
    assert types == ["VARCHAR", "VARCHAR", "VARCHAR", "DATE", "VARCHAR", "BIGINT"]


@requirement("query:also")
def test_a_number_and_a_text_of_the_same_name_are_joined_as_text(worker: SqlWorker) -> None:
    first = reader_of(b"zip,a\n94110,x\n10001,y\n")
    also = [reader_of(b"zip,b\n94110,1\nK1A 0B1,2\n01234,3\n", handle="zzzz")]
    table = query_sql(first, "select a, b from t join zzzz using (zip)", also=also, worker=worker)
    assert table.rows == (("x", 1),)
    assert "t: zip is text here, as it is in another table: so they can be compared." in table.notes
