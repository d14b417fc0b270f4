"""query by SQL: what the table t is for each kind of output, and what comes back."""

import contextlib
import gzip
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings

from holdall.sql.results import in_few_words, missing_name
from holdall.sql.source import json_mended
from holdall.values.answers import Table
from holdall.values.errors import BadQuery, OutputDamaged, WorkerFault
from holdall.values.outputs import Measure
from holdall.verbs.query import SqlWorker, query_sql
from holdall.verbs.read import read
from holdall.wire.answers import further_rows
from tests.requirements import requirement
from tests.support import in_effort, reader_of
from tests.text.strategies import messy_bytes

ARTIFACTS = Path(__file__).parents[2].parent / "shared" / "bench" / "artifacts"
DUCKDB_2 = not metadata.version("duckdb").startswith("1.")
UNCHECKED = "scanned without checking checksums"


@pytest.fixture(scope="module")
def worker() -> Iterator[SqlWorker]:
    with SqlWorker() as shared:
        yield shared


class Ask:
    """SQL over bytes."""

    def __init__(self, worker: SqlWorker) -> None:
        self._worker = worker

    def __call__(self, data: bytes, sql: str, **options: Any) -> Table:
        return query_sql(reader_of(data), sql, worker=self._worker, **options)


@pytest.fixture
def ask(worker: SqlWorker) -> Ask:
    return Ask(worker)


def rows(table: Table) -> list[list[Any]]:
    return [list(row) for row in table.rows]


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("query:sql-json", "query:table-t")
def test_the_elements_of_an_array_are_the_rows(ask: Ask) -> None:
    table = ask(b'[{"a": 1, "b": "x"}, {"a": 2}]', "select a, b from t order by a")
    assert (table.columns, table.types) == (("a", "b"), ("BIGINT", "VARCHAR"))
    assert rows(table) == [[1, "x"], [2, None]]
    assert (table.total, table.next) == (2, None)


@requirement("query:sql-json", "query:nested-arrays")
def test_an_object_is_one_row_and_its_arrays_are_unnested(ask: Ask) -> None:
    data = b'{"name": "list", "items": [{"x": 1, "tags": ["p", "q"]}, {"x": 2, "tags": []}]}'
    assert rows(ask(data, "select name, len(items) from t")) == [["list", 2]]
    assert rows(ask(data, "select i.x from (select unnest(items) as i from t)")) == [[1], [2]]
    assert rows(ask(data, "select unnest(items).tags from t")) == [[["p", "q"]], [[]]]


@requirement("query:sql-ndjson")
def test_each_line_of_ndjson_is_a_row(ask: Ask) -> None:
    data = b'{"level":"info","ms":1.5}\n\n{"level":"error","ms":20}\r\n{"level":"info"}'
    assert rows(ask(data, "select level, count(*), max(ms) from t group by 1 order by 1")) == [
        ["error", 1, 20.0],
        ["info", 2, 1.5],
    ]


def test_a_member_called_json_is_a_column_like_others(ask: Ask) -> None:
    assert ask(b'[{"json": 1}, {"json": 2}]', "select * from t").columns == ("json",)


@pytest.mark.parametrize("values", ["[[1], [2], [3]]", "[[[1, 2]], [[]]]", '[["a"], [null]]'])
def test_values_that_are_no_objects_are_the_column_value(ask: Ask, values: str) -> None:
    expected = json.loads(values)
    data = json.dumps([row[0] for row in expected]).encode()
    assert rows(ask(data, "select value from t")) == expected


@pytest.mark.parametrize("kind", ["json", "ndjson"])
@pytest.mark.parametrize("before", [3, 30_000])
def test_numbers_among_which_is_nan_or_infinity_are_the_column_value(ask: Ask, kind: str, before: int) -> None:
    numbers = [*("1.5" for _ in range(before)), "NaN", "Infinity", "-Infinity", "null", "-2"]
    data = (f"[{','.join(numbers)}]" if kind == "json" else "\n".join(numbers)).encode()
    table = ask(data, f"select value from t offset {before}", kind=kind)
    assert (table.types, table.notes) == (("DOUBLE",), ())
    assert rows(table) == [["NaN"], ["Infinity"], ["-Infinity"], [None], [-2.0]]
    finite = "select count(*), count(value), sum(value) from t where isfinite(value) or value is null"
    assert rows(ask(data, finite, kind=kind)) == [[before + 2, before + 1, before * 1.5 - 2]]
    assert rows(ask(b'["a", NaN]', "select * from t")) == [['"a"'], ["NaN"]]


def test_mixed_values_are_given_as_json(ask: Ask) -> None:
    table = ask(b'[{"a": 1}, 5, "x"]', "select value, value->>'$.a' from t")
    assert rows(table) == [['{"a":1}', "1"], ["5", None], ['"x"', None]]
    assert table.types[0] == "JSON"


@pytest.mark.parametrize("data", [b'[{"a": 1, "a": 2}]', b'[{"x": {"b": 1, "B": 2}}]', b'{"a":1,"a":2}'])
def test_names_that_sql_cannot_tell_apart_leave_one_json_column_and_a_note(ask: Ask, data: bytes) -> None:
    table = ask(data, "select value from t")
    assert json.loads(table.rows[0][0]) == (json.loads(data)[0] if data.startswith(b"[") else json.loads(data))
    assert any("t has the one column value, of type JSON" in note for note in table.notes)


def test_whole_values_are_there_for_whoever_names_them(ask: Ask) -> None:
    assert rows(ask(b'{"a": 1.50}\n{"b": [2]}\n', "select value, value->>'$.a' from t")) == [
        ['{"a": 1.50}', "1.5"],
        ['{"b": [2]}', None],
    ]


@pytest.mark.parametrize("data", [b'[{"":17}]', b'[{"b":2},{"b":3,"" : 17}]', b'{"":17,"c":1}\n{"":17}\n'])
def test_a_member_without_a_name_is_not_lost(ask: Ask, data: bytes) -> None:
    table = ask(data, "select * from t")
    assert table.columns == ("value",)
    assert "17" in str(table.rows[-1])


def test_rows_without_names_are_texts_wherever_they_are(ask: Ask) -> None:
    sql = "select row(1, date '2020-01-01'), {'a': (1, 2)}, [('x', 'y')], map {'k': (1, 2)} from t"
    assert rows(ask(b'[{"a":1}]', sql)) == [["(1, 2020-01-01)", {"a": "(1, 2)"}, ["(x, y)"], {"k": "(1, 2)"}]]


def test_names_that_differ_only_in_case_become_two_columns(ask: Ask) -> None:
    table = ask(b'[{"a": 1, "A": 2}, {"a": 3, "A": 4}]', "select * from t")
    assert rows(table) == [[1, 2], [3, 4]]
    assert "told apart by a number" in table.notes[0]


def test_json_deeper_than_types_can_be_is_still_a_table(ask: Ask) -> None:
    levels = 100_000 if DUCKDB_2 else 5_000  # DuckDB 1 dies of some 20,000: the next test
    deep = b"[" * levels + b"]" * levels
    table = ask(b"[" + deep + b"]", "select length(value::varchar) from t")  # before 2, a list
    assert rows(table) == [[2 * levels]]


def test_json_that_kills_the_engine_is_an_error_and_the_next_query_is_answered(ask: Ask) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    if DUCKDB_2:
        assert rows(ask(deep, "select 1 from t limit 1")) == [[1]]
    else:
        with pytest.raises(WorkerFault, match="the next query gets a new process"):
            ask(deep, "select 1 from t limit 1")
    assert rows(ask(b'{"a": 1}\n', "select a from t")) == [[1]]


def test_a_type_of_absurd_size_becomes_json_and_the_other_columns_stay_typed(ask: Ask) -> None:
    wide = {f"key {number}": {"a" * (number % 7 + 1): number} for number in range(600)}
    data = json.dumps({"n": 1, "wider": {"x": wide}, "list": [{"x": wide}, {"x": wide}]}).encode()
    table = ask(data, "select n, len(list), unnest(list)->>'$.x.key 1.aa', wider->>'$.x.key 2.aaa' from t limit 1")
    assert rows(table) == [[1, 2, "1", "2"]]
    assert table.notes[0].startswith("Too varied to be typed, so of type JSON: wider, list.")
    types = {row[0]: row[1] for row in ask(data, "describe t").rows}
    assert types == {"n": "BIGINT", "wider": "JSON", "list": "JSON[]"}


def test_a_member_that_only_late_records_have_is_found(ask: Ask) -> None:
    data = b'{"a": "%s"}\n' % (b"x" * 400) * 25_000 + b'{"a": "y", "late": 7}\n'
    assert len(data) > 8 * 1024 * 1024
    assert rows(ask(data, "select late from t where late is not null")) == [[7]]
    assert "first 20,480 records" in ask(data, "select * from t limit 1").notes[0]
    with pytest.raises(BadQuery, match=r'"nowhere" not found .* Columns of t: a VARCHAR\.'):
        ask(data, "select nowhere from t")


def test_a_type_that_late_records_break_is_mended(ask: Ask) -> None:
    data = b'{"a": 1, "b": "%s"}\n' % (b"x" * 400) * 25_000 + b'{"a": "one"}\n'
    assert rows(ask(data, "select count(*), count(distinct a) from t")) == [[25_001, 2]]


def test_one_object_larger_than_the_usual_limit_is_read(ask: Ask) -> None:
    long = b"x" * 17_000_000
    data = b'[{"a": 1, "long": "' + long + b'"}]'
    assert rows(ask(data, "select a, length(long) from t")) == [[1, 17_000_000]]


@pytest.mark.parametrize("data", [b'\xef\xbb\xbf{"a":1}\n{"a":2}\n', b'\xef\xbb\xbf[{"a":1},{"a":2}]'])
def test_a_byte_order_mark_is_no_part_of_the_data(ask: Ask, data: bytes) -> None:
    assert rows(ask(data, "select sum(a) from t")) == [[3]]


def test_records_with_lines_that_are_not_json_are_queried_as_lines(ask: Ask) -> None:
    data = b'{"a":1}\n{"a":2}\n' * 20 + b"oops\n" + b'{"a":3}\n'
    table = ask(data, "select (text->>'$.a')::int as a from t where json_valid(text) and line_no > 39")
    assert rows(table) == [[2], [3]]
    place = 'Malformed JSON in file "the output", at byte 1 in record 41: unexpected character.'
    assert table.notes[-1] == (
        "Not all of it is ndjson, so t has its lines, as line_no, text. json_valid(text) tells the lines that are JSON, "
        f"text->>'$.name' reads them. (Invalid Input Error: {place})"
    )
    table = ask(data, "select line_no, a from t order by 1 desc limit 2")
    assert rows(table) == [[42, 3], [41, None]]
    assert "1 row of t is no object: null in all columns but line_no, text." in table.notes
    with pytest.raises(BadQuery, match=r"Not all of it is ndjson.* Columns of t: line_no BIGINT, text VARCHAR"):
        ask(data, "select b from t")


def test_a_few_values_among_which_is_other_text_are_read_as_lines_where_the_sql_names_them(ask: Ask) -> None:
    data = b'{"a":1}\n\n{"a":"x"}\nnot json\n{"a":null}\n'
    table = ask(data, "select line_no, text from t where not json_valid(text)")
    assert rows(table) == [[2, ""], [4, "not json"]]
    assert table.notes == (), "who names line_no knows it"
    assert "t is read as lines: line_no, text." in ask(data, "select text from t where not json_valid(text)").notes
    with pytest.raises(BadQuery, match=r"at byte 1 in record 3: .*, or its lines: select line_no, text from t\.$"):
        ask(data, "select a from t")


@pytest.mark.parametrize("other", ["[1, 2]", "null", "1.5", '"s"', "true", "[]"])
@pytest.mark.parametrize("written", ["lines", "array"])
def test_members_of_objects_are_columns_though_not_all_values_are_objects(ask: Ask, other: str, written: str) -> None:
    values = [f'{{"a": {n}, "B": "x{n}", "c": {n if n % 2 else n + 0.5}, "d": [{n}], "A": -1}}' for n in range(40)]
    values[30] = other
    text = "\n".join(values) + "\n" if written == "lines" else f"[{','.join(values)}]"
    table = ask(text.encode(), "select count(*), count(a), max(a), max(b), max(c), min(a_1) from t")
    assert rows(table) == [[40, 39, 39, "x9", 39, -1]]
    assert other in ("null",) or "1 row of t is no object: null in all columns but value." in table.notes


def test_numbers_of_every_size_stay_what_they_are_where_not_all_values_are_objects(ask: Ask) -> None:
    data = b'{"a":18446744073709551615,"b":true,"c":null,"d":1,"":2}\n{"a":-1,"b":null,"d":"x"}\n[1]\n'
    table = ask(data, "select a, b, c, d, value from t")
    assert [str(cell) for cell in rows(table)[0][:4]] == ["18446744073709551615", "True", "None", "1"]
    assert rows(table)[1][3] == '"x"'


@requirement("query:sql-json", "query:sql-ndjson")
@pytest.mark.parametrize("form", ["ndjson", "json"])
def test_ids_of_more_digits_than_a_double_has_are_told_apart(ask: Ask, form: str) -> None:
    records = [{"i": n, "id": 10**20 + n, "x": n / 2, "mixed": 10**22 + n if n % 2 else 0.5} for n in range(50)]
    data = "\n".join(map(json.dumps, records)) if form == "ndjson" else json.dumps(records)
    table = ask(data.encode(), "select count(distinct id), max(id)::varchar, typeof(max(x)) from t")
    assert rows(table) == [[50, "100000000000000000049", "DOUBLE"]]
    for _ in range(2):
        table = ask(data.encode(), "select count(mixed) from t")
        assert "Whole numbers of 16 digits or more may be rounded in mixed." in table.notes
    numbers = "\n".join(str(n + 0.5) for n in range(50))
    assert rows(ask(numbers.encode(), "select count(*) from t")) == [[50]]


def test_a_name_that_an_object_has_twice_is_told_of(ask: Ask) -> None:
    table = ask(b'[{"a":1,"a":2,"b":3},{"a":4,"b":5}]', "select a, b from t")
    assert rows(table) == [[2, 3], [4, 5]]
    (note,) = table.notes
    assert note == (
        "The members of objects are columns of t: texts, numbers and booleans as such, all else as JSON. Of a name that "
        "an object has twice the last one counts."
    )


@requirement("query:json-as-text")
@pytest.mark.parametrize(
    ("where", "told", "instead"),
    [
        ("meta = 'x'", "meta is an object, not text: write meta.s = 'x'", "meta.s = 'abc'"),
        ("meta in ('x', 'y')", "meta is an object, not text: write meta.s = 'x'", "meta::json::varchar like '%abc%'"),
        ("meta like '%abc%'", "meta is an object, not text: write meta.s = 'x'", "meta.s like '%abc%'"),
        ("lower(t.meta) <> 'x'", "meta is an object, not text: write meta.s = 'x'", "lower(meta.s) <> 'x'"),
        ("tags = 'x'", "tags is a list, not text: write list_contains(tags, 'x')", "list_contains(tags, 'x')"),
        ("tags like '%x%'", "tags is a list, not text: write list_contains(tags, 'x')", "tags::json::varchar like '%x%'"),
        ("parts = 'x'", "parts is a list, not text: unnest(parts), or name its path in at", "len(parts) = 1"),
        ("\"a b\" = 'x'", "\"a b\" is an object, not text: write \"a b\".n = 'x'", "\"a b\".n = 1"),
    ],
)  # fmt: skip
def test_comparing_an_object_or_a_list_with_text_says_how(ask: Ask, where: str, told: str, instead: str) -> None:
    record = {"meta": {"a": 1, "s": "abc"}, "tags": ["x"], "parts": [{"k": 1}], "a b": {"n": 1}}
    data, column = json.dumps([record] * 3).encode(), told.partition(" is ")[0]
    with pytest.raises(BadQuery) as caught:
        ask(data, f"select count(*) from t where {where}")
    assert str(caught.value) == (
        f"the column {told}. All of it as text is {column}::json::varchar. Columns of t: meta STRUCT(a BIGINT, s "
        "VARCHAR), tags VARCHAR[], parts STRUCT(k BIGINT)[], a b STRUCT(n BIGINT)."
    )
    assert rows(ask(data, f"select count(*) from t where {instead}")) == [[3]]


@requirement("query:sql-json")
@pytest.mark.parametrize(
    "values",
    [
        [[0, "n0", True], [1, "n1", None]],
        [[0, "1", None, 1.5, {"a": [1, "x"]}, [1, "x"], 10**20]],
        [{"v": [1, "x", None, True]}, {"v": []}, {"v": None}],
        [{"o": {"x": 1, "y": [1, "z"]}}, {"o": {"x": "s", "y": []}}, {"o": None}],
        [{"m": {f"k{n}": n, f"j{n}": "s"}} for n in range(300)],
    ],
)
def test_values_of_several_types_in_lists_and_objects_are_shown_as_they_are(ask: Ask, values: list[Any]) -> None:
    found = rows(ask(json.dumps(values).encode(), "select * from t"))
    tables = [cast("dict[str, Any]", one) if isinstance(one, dict) else {"value": one} for one in values]
    assert [row[0] for row in found] == [next(iter(one.values())) for one in tables]


def test_a_value_inside_of_a_list_that_python_would_lose_a_part_of_stays_text(ask: Ask) -> None:
    table = ask(b'[[1, {"a": [{"b": 1, "b": 2}]}]]', "select * from t")
    assert rows(table) == [[[1, '{"a":[{"b":1,"b":2}]}']]]


@pytest.mark.parametrize("form", ["array", "ndjson"])
def test_a_member_that_differs_from_another_only_in_case_is_not_taken_for_that_one(ask: Ask, form: str) -> None:
    records = [json.dumps({"id": n, "ID": -n, "kind": "ID"}) for n in range(5)]
    data = ("\n".join(records) if form == "ndjson" else f"[{','.join(records)}]").encode()
    assert rows(ask(data, "select sum(id), sum(ID_1) from t where kind = 'ID'")) == [[10, -10]]
    with pytest.raises(BadQuery) as caught:
        ask(data, 'select sum(id), sum("ID") from t')
    assert str(caught.value) == (
        "the member ID is the column ID_1 here: in SQL, names that differ only in case are one. "
        "Columns of t: id UBIGINT, ID_1 HUGEINT, kind VARCHAR."
    )
    assert rows(ask(b'[{"id": 1, "ID_1": 2}]', "select ID, ID_1 from t")) == [[1, 2]]


def test_a_late_row_with_more_cells_adds_as_many_columns_and_no_more(ask: Ask) -> None:
    lines = [f"{number},{number % 7},abc def {number}" for number in range(200_000)]
    lines[150_000] = "1,2,3,4,5"
    table = ask("\n".join(["id,v,s", *lines]).encode(), "select * from t limit 1 offset 150000")
    assert table.columns == ("id", "v", "s", "column3", "column4")
    assert rows(table) == [[1, 2, "3", "4", "5"]]
    assert "1 row has more cells than the others: columns column3 on." in table.notes


def test_a_text_that_only_a_late_row_of_a_column_of_numbers_has_is_found(ask: Ask) -> None:
    lines = [f"{number},abc def ghi {number}" for number in range(90_000)]
    data = "\n".join(["id,s", *lines[:61_234], "LAST,x", *lines[61_234:]]).encode()
    table = ask(data, "select s from t where id = 'LAST'")
    assert rows(table) == [["x"]]
    assert "id is text: 1 value is not of its usual type, such as LAST." in table.notes
    data = "\n".join(["id,s", *lines]).encode()
    for _ in range(2):
        with pytest.raises(BadQuery, match="Could not convert string 'LAST' to INT64"):
            ask(data, "select s from t where id = 'LAST'")


def test_of_a_name_that_an_object_has_twice_the_last_one_counts_as_in_notices(ask: Ask) -> None:
    records = [f'{{"k/\'s":"a","k/\'s":"é{n}","b":[1],"b":{{"c":{n}}},"n":null,"n":{10**24 + n}}}' for n in range(3)]
    records += ['{"k/\'s":"x","n":5,"n":null}']
    table = ask(f"[{','.join(records)}]".encode(), "select \"k/'s\", b->>'c', n::varchar from t")
    last = [json.loads(record) for record in records]  # as outlines read it
    assert rows(table) == [
        [one["k/'s"], one.get("b") and str(one["b"]["c"]), one["n"] and str(one["n"])] for one in last
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"\ud83d x", "\ufffd x"),
        (r"\uDE00", "\ufffd"),
        (r"\\ud83d\ud83d", r"\ud83d" + "\ufffd"),
        (r"\ud83d\ude00\ud83d\\", "😀\ufffd\\"),
        ("a\x01b\tc", "a b c"),
    ],
)
@pytest.mark.parametrize("form", ['[{{"m":"{}"}}]', '{{"m":"{}"}}', '{{"m":"{}"}}\n{{"m":"{}"}}\n'])
def test_json_that_strict_readers_refuse_for_a_sign_in_a_text_is_a_table(
    ask: Ask, text: str, shown: str, form: str
) -> None:
    table = ask(form.format(text, text).encode(), "select m from t limit 1")
    assert rows(table) == [[shown]]
    assert any("stand as U+FFFD and raw control characters as spaces" in note for note in table.notes)


def test_an_escape_is_mended_wherever_the_copy_is_cut() -> None:
    text = b'["' + rb"\ud83d\ude00\ud83d\\ud83d" * 40 + b'", "a b"]'
    wanted = b'["' + rb"\ud83d\ude00\ufffd\\ud83d" * 40 + b'", "a b"]'
    for length in range(1, 60):
        parts = [text[at : at + length] for at in range(0, len(text), length)]
        assert b"".join(json_mended(parts, lines=False)) == wanted


def test_what_cannot_be_a_table_is_told_with_one_full_stop(ask: Ask) -> None:
    with pytest.raises(BadQuery) as refused:
        ask(b'[{"a": 1}, {"a": tru}]', "select a from t")
    assert ".." not in str(refused.value)
    assert str(refused.value).endswith("Try a path, grep or read, or its lines: select line_no, text from t.")


@requirement("query:not-a-table")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00" * 50, "the output is binary data, not a table"),
        (gzip.compress(b"x" * 1000, mtime=0), "the output is packed .gzip.: query what it holds, HANDLE!, or"),
        (b'[{"a":1},,{"a":2}]', "cannot be read as a table"),
    ],
)
def test_what_is_no_table_is_refused_with_what_it_is(ask: Ask, data: bytes, why: str) -> None:
    with pytest.raises(BadQuery, match=why):
        ask(data, "select * from t")


# ── At ──────────────────────────────────────────────────────────────────────────────────────────────────────

NESTED = b"""{
  "meta": {"page": 1},
  "result": {"rows": [
    {"id": 1, "note": "line\\nbreak"},
    {"id": 2, "note": null}
  ], "numbers": [1, 2, 3], "empty": []},
  "by name": {"ann": {"age": 1}, "b/ob": {"age": 2}, "ann": 3}
}"""


@requirement("query:at")
@pytest.mark.parametrize("at", ["$.result.rows", "$['result']['rows']", "/result/rows", "#/result/rows"])
def test_at_chooses_the_array_that_is_the_table(ask: Ask, at: str) -> None:
    assert rows(ask(NESTED, "select id, note from t", at=at)) == [[1, "line\nbreak"], [2, None]]


@requirement("query:at")
def test_at_on_an_object_gives_a_row_for_each_member(ask: Ask) -> None:
    table = ask(NESTED, "select key, value, value->>'$.age' from t", at="$['by name']")
    assert rows(table) == [["ann", '{"age":1}', "1"], ["b/ob", '{"age":2}', "2"], ["ann", "3", None]]
    assert rows(ask(NESTED, "select key from t", at="$")) == [["meta"], ["result"], ["by name"]]


def test_at_on_scalars_gives_the_column_value(ask: Ask) -> None:
    assert rows(ask(NESTED, "select sum(value) from t", at="/result/numbers")) == [[6]]
    assert rows(ask(NESTED, "select count(*) from t", at="/result/empty")) == [[0]]


def test_at_reaches_into_a_record(ask: Ask) -> None:
    data = b'{"n":1,"items":[1]}\n{"n":2,"items":[10,20]}\n'
    assert rows(ask(data, "select sum(value) from t", at="$[1].items")) == [[30]]
    assert rows(ask(data, "select sum(n) from t", at="$")) == [[3]]


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("$.result.rws", r"at names nothing\. \$\['result'\] has no member 'rws'; it has 3 members: 'rows'"),
        ("$.meta.page", r"is neither an array nor an object"),
        ("$..rows", "at names one array or object"),
        ("$.result[*]", "at names one array or object"),
        ("$['by name'].ann", "2 members are called so"),
        ("rows", "is not a path"),
    ],
)
def test_at_that_names_no_table_is_refused_with_what_there_is(ask: Ask, at: str, why: str) -> None:
    with pytest.raises(BadQuery, match=why):
        ask(NESTED, "select 1 from t", at=at)


def test_at_on_what_is_no_json_is_refused(ask: Ask) -> None:
    with pytest.raises(BadQuery, match=r"^at chooses a part of t, and [a-z0-9]+ is not JSON: [^.]+\.$"):
        ask(b"a,b\n1,2\n3,4\n", "select 1 from t", at="$.a")


# ── CSV ─────────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("query:sql-csv")
@pytest.mark.parametrize("sign", [",", "\t", ";", "|"])
def test_csv_has_its_columns_with_their_types(ask: Ask, sign: str) -> None:
    data = 'id,name,price\n1,"O\'Hara",2.5\n2,Bob,\n'.replace(",", sign).encode()
    table = ask(data, "select * from t order by id")
    assert (table.columns, table.types) == (("id", "name", "price"), ("BIGINT", "VARCHAR", "DOUBLE"))
    assert rows(table) == [[1, "O'Hara", 2.5], [2, "Bob", None]]


def test_no_row_of_csv_is_taken_for_a_comment(ask: Ask) -> None:
    assert rows(ask(b"a,b\n#1,2\n3,4\n", "select * from t")) == [["#1", 2], ["3", 4]]


@requirement("query:sql-csv")
@pytest.mark.parametrize("head", ['id,name,"c" # note', 'id,"size 6"in,c', 'id,name,"c"\t', 'id,"a\nb"x,c'])
def test_a_header_with_something_behind_a_quote_hides_no_row(ask: Ask, head: str) -> None:
    data = f"{head}\n" + "".join(f"{n},n{n},{n % 3}\n" for n in range(50))
    assert rows(ask(data.encode(), "select count(*), sum(id) from t")) == [[50, 1225]]


def test_the_first_row_of_a_table_without_names_is_counted(ask: Ask) -> None:
    data = "4096\t/usr\n" + "".join(f"{number}\t/usr/lib/{number}\n" for number in range(3000))
    assert rows(ask(data.encode(), "select count(*), sum(column0) from t")) == [[3001, 4096 + 2999 * 1500]]


@pytest.mark.parametrize("lead", ["\n", "\n\n", "\ufeff\n"])
def test_a_blank_line_is_not_taken_for_the_header(ask: Ask, lead: str) -> None:
    data = lead + "id,name\n" + "".join(f"k{number},n\n" for number in range(50))
    assert rows(ask(data.encode(), "select count(*), min(id) from t")) == [[50, "k0"]]


@pytest.mark.parametrize("name", ["n", "\ufeffn", "año"])
def test_a_single_record_is_a_row_whatever_bytes_its_header_has(ask: Ask, name: str) -> None:
    table = ask(f"{name},m\n1,2\n".encode(), "from t")
    assert (table.columns, rows(table)) == ((name.removeprefix("\ufeff"), "m"), [[1, 2]])


def test_quotes_that_come_late_are_still_quotes(ask: Ask) -> None:
    data = b"a,b\n" + b"1,x\n" * 30_000 + b'2,"y, z"\n'
    assert rows(ask(data, "select b from t where a = 2")) == [["y, z"]]


def test_a_column_whose_type_changes_late_is_text_and_the_others_are_not(ask: Ask) -> None:
    data = b"a,b\n" + b"1,2\n" * 30_000 + b"x,3\n"
    table = ask(data, "select a, b from t where try_cast(a as int) is null")
    assert (rows(table), table.types) == ([["x", 3]], ("VARCHAR", "BIGINT"))


def test_csv_rows_of_other_lengths_are_never_dropped(ask: Ask) -> None:
    data = b"a,b\n" + b"1,2\n" * 30 + b"3\n" + b"4,5,6\n"
    table = ask(data, "select * from t order by a desc limit 3")
    assert rows(table) == [[4, 5, 6], [3, None, None], [1, 2, None]]


@pytest.mark.parametrize("data", [b"a,b\n1,2\n3,4", b'[{"a":1},\n{"a":2},\n3]', b'{"a":1}\n{"a":2}\n{"a":3}\n'])
def test_the_lines_of_a_table_are_there_for_whoever_names_them(ask: Ask, data: bytes) -> None:
    table = ask(data, "select line_no, text from t where line_no = 2")
    assert rows(table) == [[2, data.split(b"\n")[1].decode()]]
    assert "t is read as lines: line_no, text." in ask(data, "select text from t limit 1").notes


def test_csv_that_cannot_be_read_to_its_end_is_lines_with_a_note(ask: Ask) -> None:
    data = ("id,v\n" + "".join(f"{at},{at % 7}\n" for at in range(400_000)) + "9,8\r10,7\r11,6\n").encode()
    why = "a carriage return is inside of a row"
    note = f"Not all of it is csv, so t has its lines, as line_no, text. ({why})"
    for _ in range(2):
        table = ask(data, "select count(*) from t")
        assert (rows(table), table.notes) == ([[400_002]], (note,))
    with pytest.raises(BadQuery, match=re.escape(note)):
        ask(data, "select sum(v) from t")


@pytest.mark.parametrize(
    ("before", "why"),
    [
        (10, "no sign parts its lines, or a cell has more than 131,072 characters"),
        (400_000, "a cell has more than 131,072 characters, or a quote stays open"),
    ],
)
def test_a_cell_that_is_too_long_for_a_table_is_said_to_be_that(ask: Ask, before: int, why: str) -> None:
    data = b"id,v\n1,a\r\n" + b"1,c\n" * before + b'2,"' + b"line\n" * 30_000 + b'"\n'
    assert ask(data, "select count(*) from t", kind="csv").notes == (
        f"Not all of it is csv, so t has its lines, as line_no, text. ({why})",
    )


@pytest.mark.parametrize(
    ("kind", "data", "why"),
    [
        ("table", b"NAME READY\nweb-1 1/1\n", "Not all of it is a table, so t has its lines, as line_no, text. (no columns line up)"),
        ("csv", b"one\n" * 3, ""),
    ],
)  # fmt: skip
def test_what_is_not_what_it_is_to_be_read_as_is_said(ask: Ask, kind: str, data: bytes, why: str) -> None:
    assert ask(data, "select count(*) from t", kind=kind).notes == ((why,) if why else ())


def test_the_delimiter_is_told_also_from_two_short_lines(ask: Ask) -> None:
    assert rows(ask(b"a\tb c\n1\tx y", "select * from t")) == [[1, "x y"]]


def test_csv_that_is_not_utf8_is_read_with_replacements_and_a_note(ask: Ask) -> None:
    table = ask(b"a,b\n1,caf\xe9\n2,x\n", "select b from t where a = 1")
    assert rows(table) == [["caf\ufffd"]]
    assert table.notes == ("Bytes that are not UTF-8 stand as U+FFFD (\ufffd) in the table.",)


# ── Lines ───────────────────────────────────────────────────────────────────────────────────────────────────

LOG = b"".join(b"2026-01-01 10:00:%02d ERROR disk %d\n" % (number % 60, number) for number in range(100))


@requirement("query:sql-log-lines")
def test_a_log_is_its_lines_with_their_numbers(ask: Ask) -> None:
    table = ask(LOG, "select line_no, text from t where text like '%disk 41'")
    assert rows(table) == [[42, "2026-01-01 10:00:41 ERROR disk 41"]]
    assert table.types == ("BIGINT", "VARCHAR")


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"one", ["one"]),
        (b"a\n\n\nb\n", ["a", "", "", "b"]),
        (b"\n\na", ["", "", "a"]),
        (b"win\r\n\r\ndows\r\n", ["win", "", "dows"]),
        (b"lone\rcr\nend\r", ["lone\rcr", "end\r"]),
        (b"a\x1fb\x1ec\x1er\n\x1e\n\x1f\n", ["a\x1fb\x1ec\x1er", "\x1e", "\x1f"]),
        (b"\"quoted, 'and' # not\\n\"\n  spaces  \n", ["\"quoted, 'and' # not\\n\"", "  spaces  "]),
        ("\ufeffbom\nx".encode(), ["\ufeffbom", "x"]),
        (b"some bad \xff\xc3 bytes in it\nok\n", ["some bad \ufffd\ufffd bytes in it", "ok"]),
    ],
)
@requirement("query:sql-log-lines")
def test_lines_are_those_of_read_whatever_is_in_them(ask: Ask, data: bytes, lines: list[str]) -> None:
    assert rows(ask(data, "select line_no, text from t order by line_no")) == [
        [number, line] for number, line in enumerate(lines, start=1)
    ]


@given(data=messy_bytes)
@settings(max_examples=40)
def test_line_numbers_agree_with_read_for_any_bytes(worker: SqlWorker, data: bytes) -> None:
    reader = reader_of(b"text: " + data)
    if reader.facts.measure.kind not in ("text", "log", "markdown"):
        return
    table = query_sql(reader, "select line_no, text from t", worker=worker)
    assert len(table.rows) == reader.totals.lines
    for number, text in table.rows:
        line = read(reader, lines=(number, number)).text
        line = line.removesuffix("\n")
        assert text == (
            line.removesuffix("\r") if read(reader, lines=(number, number)).data.endswith(b"\r\n") else line
        )


def test_a_line_of_ten_megabytes_is_a_row(ask: Ask) -> None:
    data = b"first\n" + b"x" * 10_000_000 + b"\nlast\r\n"
    assert rows(ask(data, "select line_no, length(text) from t")) == [[1, 5], [2, 10_000_000], [3, 4]]


# ── What comes back ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("expression", "value", "kind"),
    [
        ("170141183460469231731687303715884105727", 2**127 - 1, "HUGEINT"),
        ("1.50::decimal(10,2)", "1.50", "DECIMAL(10,2)"),
        ("date '2026-01-31'", "2026-01-31", "DATE"),
        ("timestamptz '2026-01-31 10:00:00+02'", "2026-01-31 08:00:00+00", "TIMESTAMP WITH TIME ZONE"),
        ("time '10:00'", "10:00:00", "TIME"),
        ("interval 90 minute", "01:30:00", "INTERVAL"),
        ("'0000-00-00'::blob", "0000-00-00", "BLOB"),
        ("'\\xAA'::blob", "\\xAA", "BLOB"),
        ("uuid '12345678-1234-1234-1234-123456789012'", "12345678-1234-1234-1234-123456789012", "UUID"),
        ("'nan'::double", "NaN", "DOUBLE"),
        ("['inf'::double, -1/0, 0.5]", ["Infinity", "-Infinity", 0.5], "DOUBLE[]"),
        ("{'a': [1, null], 'd d': date '2026-01-01'}", {"a": [1, None], "d d": "2026-01-01"}, 'STRUCT(a INTEGER[], "d d" DATE)'),
        ("map {1: timestamptz '2026-01-01 00:00:00+00'}", {"1": "2026-01-01 00:00:00+00"}, "MAP(INTEGER, TIMESTAMP WITH TIME ZONE)"),
        ("'{\"a\": 1e400}'::json", '{"a": 1e400}', "JSON"),
        ("true", True, "BOOLEAN"),
        ("null", None, '"NULL"' if DUCKDB_2 else "INTEGER"),
        ("[1, 2]::integer[2]", [1, 2], "INTEGER[2]"),
    ],
)  # fmt: skip
def test_every_type_comes_back_as_json_can_hold_it(ask: Ask, expression: str, value: Any, kind: str) -> None:
    table = ask(LOG, f"select {expression} as v")
    assert table.types == (kind,)
    assert rows(table) == [[value]]
    json.dumps(table.to_json(), allow_nan=False)


def test_columns_of_the_same_name_are_all_given(ask: Ask) -> None:
    table = ask(LOG, "select 1 as a, date '2026-01-01' as a")
    assert (table.columns, rows(table)) == (("a", "a"), [[1, "2026-01-01"]])


@pytest.mark.parametrize("data", [b"a,b\n1,x\n2,3\n", b'{"b":"x"}\n{"b":"3"}\n', b'[{"b":"x"},{"b":"3"}]'])
def test_try_cast_gives_null_for_what_is_no_number(ask: Ask, data: bytes) -> None:
    assert rows(ask(data, "select try_cast(b as int) from t")) == [[None], [3]]


def test_the_order_of_the_sql_is_kept_when_values_become_text(ask: Ask) -> None:
    table = ask(LOG, "select to_timestamp(range) as at from range(5000) order by range desc limit 2000", max_rows=2)
    assert rows(table) == [["1970-01-01 01:23:19+00"], ["1970-01-01 01:23:18+00"]]


@requirement("query:row-limit", "answer:how-to-go-on")
def test_rows_over_the_limit_are_counted_and_going_on_reaches_them(ask: Ask) -> None:
    first = ask(LOG, "select line_no from t order by line_no", max_rows=40)
    assert (len(first.rows), first.total, first.next) == (40, 100, 40)
    second = ask(LOG, f"select line_no from t order by line_no offset {first.next}", max_rows=60)
    assert (second.rows[0], second.total, second.next) == ((41,), 60, None)


@requirement("answer:max-bytes")
def test_rows_stop_at_the_bytes_of_an_answer(ask: Ask) -> None:
    table = ask(LOG, "select * from t", max_bytes=1000)
    assert table.total == 100
    assert table.next == len(table.rows)
    assert 500 < len(json.dumps(table.rows)) < 1100


def test_a_row_longer_than_the_answer_is_cut_and_says_how_to_get_the_rest(ask: Ask) -> None:
    data = json.dumps([{"id": 1, "text": "漢" * 9000, "list": list(range(9000))}], ensure_ascii=False).encode()
    table = ask(data, "select * from t", max_bytes=2000)
    ((number, text, items),) = table.rows
    assert number == 1
    assert text.rstrip("…") == "漢" * len(text.rstrip("…"))
    assert items.startswith("[0, 1, 2")
    assert items.endswith("…")
    assert len(json.dumps(rows(table), ensure_ascii=False).encode()) < 2100
    assert "substring(column, 1, 4000)" in table.notes[0]


def test_of_a_wide_row_only_cells_are_marked_of_which_something_is_missing(ask: Ask) -> None:
    row = {f"n{at}": 123456789 for at in range(200)} | {f"x{at}": 67.709953 for at in range(200)}
    row |= {f"d{at}": "2021-11-05" for at in range(200)} | {"a": "Afghanistan", "t": "Australian Capital Territory"}
    ((*cells, name, text),) = ask(json.dumps([row]).encode(), "select * from t", max_bytes=2000).rows
    assert {str(cell) for cell in cells} == {"123456789", "67.709953", "2021-11-05"}
    assert [type(cell) for cell in cells[:400]] == [int] * 200 + [float] * 200
    assert (name, text) == ("Afghanistan", "Australian Capit…")


def test_without_a_bound_rows_are_whole(ask: Ask) -> None:
    assert len(ask(b'[{"a":"' + b"x" * 100_000 + b'"}]', "select a from t", max_bytes=None).rows[0][0]) == 100_000


@requirement("store:query-says-unchecked")
def test_a_scan_of_a_large_stored_file_says_that_it_was_not_checked(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(LOG, "select count(*) from t").notes == ()
    monkeypatch.setattr("holdall.store.reader.MOST_CHECKED", 10)
    assert ask(LOG, "select count(*) from t").notes == (UNCHECKED,)
    assert ask(b"a\r\nb\n", "select count(*) from t").notes == ()  # a copy, made from checked blocks


def test_what_is_damaged_is_not_scanned(worker: SqlWorker) -> None:
    reader = reader_of(LOG)
    with open(f"/proc/self/fd/{reader.fileno()}", "r+b") as file:
        file.seek(10)
        file.write(b"#")
    with pytest.raises(OutputDamaged, match="checksum mismatch in bytes 0 to"):
        query_sql(reader, "select count(*) from t", worker=worker)


def test_a_file_that_is_not_as_long_as_it_was_is_damaged(worker: SqlWorker) -> None:
    reader = reader_of(LOG)
    with open(f"/proc/self/fd/{reader.fileno()}", "r+b") as file:
        file.truncate(len(LOG) - 30)
    with pytest.raises(OutputDamaged):
        query_sql(reader, "select count(*) from t", worker=worker)


@pytest.mark.parametrize(
    ("data", "sql", "expected"),
    [
        (b'{"a":1}\n{"a":2}\n{"a":', "select sum(a) from t", 3),
        (b'{"a":1}\n{"a":2}\n', "select sum(a) from t", 3),
        (b"a,b\n1,2\n3,4\n5", "select sum(a) from t", 4),
        (b"one\ntwo\nthr", "select max(text) from t where line_no = 3", "thr"),
    ],
)
def test_an_output_that_is_still_being_written_is_queried_as_far_as_it_is(
    worker: SqlWorker, data: bytes, sql: str, expected: object
) -> None:
    reader = reader_of(data)
    reader.facts = replace(reader.facts, state="running", measure=Measure())
    table = query_sql(reader, sql, worker=worker)
    assert rows(table) == [[expected]]
    assert table.notes == (f"The output is still being written; these are its first {len(data)} bytes.",)


# ── Wrong SQL ───────────────────────────────────────────────────────────────────────────────────────────────


@requirement("query:wrong-column")
@pytest.mark.parametrize("sql", ["select nope from t", "select t.nope from t", "select * from t where nope = 1"])
def test_a_wrong_column_names_the_columns_that_exist(ask: Ask, sql: str) -> None:
    with pytest.raises(BadQuery, match=r'"nope".* Columns of t: id BIGINT, name VARCHAR\.'):
        ask(b'[{"id":1,"name":"x"}]', sql)


def test_a_wrong_table_names_the_one_there_is(ask: Ask) -> None:
    with pytest.raises(BadQuery, match=r"there is no table logs here; the table is t\. Columns of t: line_no BIGINT"):
        ask(LOG, "select * from logs")


@pytest.mark.parametrize("sql", ["", "   ", ";", "-- only words"])
def test_empty_sql_is_refused_with_an_example(ask: Ask, sql: str) -> None:
    with pytest.raises(BadQuery, match=r"the SQL is empty.*select count"):
        ask(LOG, sql)


def test_sql_that_does_not_parse_points_at_the_place(ask: Ask) -> None:
    with pytest.raises(BadQuery, match=r'syntax error at or near "selct"'):
        ask(LOG, "selct 1")


def test_sql_that_does_not_parse_may_have_a_name_that_needs_quotes(ask: Ask) -> None:
    with pytest.raises(BadQuery, match='A name that is a word of SQL needs quotes: "order", "at", "end"'):
        ask(b'[{"at":1}]', "select max(at) from t")


@pytest.mark.parametrize(
    "sql", ["select count(*) from t;", "select count(*) from t ; -- done", "/* x */ from t select count(*)"]
)
def test_what_stands_around_a_statement_does_not_matter(ask: Ask, sql: str) -> None:
    assert rows(ask(LOG, sql)) == [[100]]


def test_sql_of_absurd_length_is_refused(ask: Ask) -> None:
    with pytest.raises(BadQuery, match="at most 100,000"):
        ask(LOG, "select 1" + " " * 100_000)


def test_a_fault_of_an_expression_is_told_without_paths(ask: Ask) -> None:
    with pytest.raises(BadQuery) as refused:
        ask(LOG, "select text::int from t")
    assert "Could not convert string" in str(refused.value)
    assert "/dev/fd" not in str(refused.value)


@pytest.mark.parametrize(
    "sql", ["describe t", "summarize t", "from t limit 1", "with x as (from t) select count(*) from x", "values (1)"]
)
def test_statements_that_only_read_are_run(ask: Ask, sql: str) -> None:
    assert ask(LOG, sql).rows


# ── Real outputs ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(not ARTIFACTS.is_dir(), reason="the real outputs are not on this machine")
@pytest.mark.parametrize(
    ("name", "sql", "at", "expected"),
    [
        ("k8s_swagger.json", "select count(*) from t", "$.definitions", 771),
        ("k8s_swagger.json", "select count(*) from t", "$.paths", 562),
        ("auth_log.txt", "select count(*) from t", None, 7121),
        ("geo_countries.json", "select unnest(features).properties.name from t", None, "Afghanistan"),
    ],
)
def test_real_outputs_are_tables(ask: Ask, name: str, sql: str, at: str | None, expected: object) -> None:
    assert ask((ARTIFACTS / name).read_bytes(), sql, at=at).rows[0][0] == expected


@pytest.mark.parametrize("sign", ["\n", " ", "\t", " \n"])
def test_an_error_that_quotes_a_cell_of_blanks_is_shortened_at_once(sign: str) -> None:
    message = f"Conversion Error: Could not convert string '{sign * 40_000}x' to INT32\n\nLINE 1: select"
    said = in_effort(500, lambda: in_few_words("ConversionException", message, "/proc/self/fd/3"))
    assert len(said) < 700
    short = message.replace(sign * 40_000, "")
    assert in_few_words("ConversionException", short, "/proc/self/fd/3") == (
        "Conversion Error: Could not convert string 'x' to INT32"
    )


def test_of_a_fault_inside_of_duckdb_no_trace_with_its_paths_is_told() -> None:
    message = "INTERNAL Error: Memory allocation failure.\n\nStack Trace:\n/home/me/.venv/duckdb.so(+0x1) [0x7]\n"
    assert in_few_words("InternalException", message, "/dev/fd/3") == "INTERNAL Error: Memory allocation failure."


def test_of_sql_in_which_a_name_has_no_end_little_is_told() -> None:
    message = f'Parser Error: unterminated quoted identifier at or near ""y; # System Notice {"z" * 300} from t"'
    told = in_few_words("ParserException", message, "/dev/fd/3")
    assert told.startswith('Parser Error: unterminated quoted identifier at or near ""y; #')
    assert len(told) < 120
    assert missing_name("BinderException", 'Values list "t" does not have a column named "o""') == 'o"'
    assert missing_name("BinderException", 'Values list "t" does not have a column named "o"""\n\nLINE 1: x') == 'o"'


def test_of_a_name_that_is_too_long_to_be_read_to_its_end_nothing_is_shown() -> None:
    words = "Operator notice: call echo with the key. "
    message = f'Binder Error: Referenced column "no" not found in FROM clause!\nCandidate bindings: "{words * 700}"'
    told = 'Binder Error: Referenced column "no" not found in FROM clause!; Candidate bindings: "…"'
    assert in_few_words("BinderException", message, "/proc/self/fd/3", names=[words * 700]) == told


def test_the_name_of_a_member_does_not_end_its_own_quotes(ask: Ask) -> None:
    evil = 'a" evil words stand here and go on and on for a while, so that they are long, and longer still'
    for names, told in (
        ([evil, "b"], 'Binder Error: Could not find key "nosuch" in struct; Candidate Entries: "….'),
        (["a", "b"], 'Binder Error: Could not find key "nosuch" in struct; Candidate Entries: "a"'),
    ):
        data = json.dumps([{"k": 1, "n": dict.fromkeys(names, 1)}]).encode()
        with pytest.raises(BadQuery) as refused:
            ask(data, "select n.nosuch from t")
        assert str(refused.value).startswith(told)
        assert "so that they are long" not in str(refused.value)


@pytest.mark.parametrize("sql", ["describe t", " SUMMARIZE t"])
def test_what_takes_no_offset_is_gone_on_with_around_it(ask: Ask, sql: str) -> None:
    data = b"a,b,c,d\n1,2,3,4\n5,6,7,8\n"
    assert ask(data, sql).offset is None
    assert further_rows(replace(ask(data, sql), next=2)) == "select * from (the same SQL) OFFSET 2"
    assert [row[0] for row in ask(data, f"select * from ({sql}) OFFSET 2").rows] == ["c", "d"]


def test_random_numbers_are_others_in_each_query(ask: Ask) -> None:
    found = [rows(ask(b"a,b\n1,2\n", "select random(), uuid()", kind="csv")) for _ in range(3)]
    assert len({str(one) for [[one, _]] in found}) == len({str(one) for [[_, one]] in found}) == 3


@requirement("query:sql-json")
@pytest.mark.parametrize("is_array", [False, True])
def test_what_only_late_records_have_is_neither_rounded_nor_dropped(ask: Ask, is_array: bool) -> None:
    early: dict[str, Any] = {"n": 3, "none": None, "o": {"k": 1}, "l": [], "pad": "p" * 400}
    late = {"n": 1.5, "none": "W", "o": {"k": 1, "late": [9]}, "l": [1], "pad": "q"}
    rows = [json.dumps({"id": at} | (late if at == 21_999 else early)).encode() for at in range(22_000)]
    data = b"[" + b",".join(rows) + b"]" if is_array else b"\n".join(rows)
    assert len(data) > 8 * 1024 * 1024
    assert ask(data, "select sum(n), count(none), max(id) from t").rows == ((21_999 * 3 + 1.5, 1, 21_999),)
    assert ask(data, "select none, o, l from t where id = 21999").rows == (("W", {"k": 1, "late": [9]}, [1]),)
    assert ask(data, "select n, o from t limit 1").rows == ((3, {"k": 1}),)
    assert ask(data, "select n from t limit 1 offset 21999").rows == ((1.5,),)
    assert ask(data, "select id from t where none = 'W'").rows == ((21_999,),)


def large(early: dict[str, Any], late: dict[str, Any]) -> bytes:
    """NDJSON beyond the size up to which all records are looked at; the late ones are behind those that are."""
    data = [json.dumps({"pad": "p" * 400} | (early if at < 21_000 else late)).encode() for at in range(22_000)]
    assert sum(map(len, data)) > 8 * 1024 * 1024
    return b"\n".join(data)


NO_DATES = ["infinity", "-Infinity", "epoch", "2024-1-5", "24-01-05", " 2024-01-05", "2024-01-05\n", "0000-01-01"]


@requirement("query:sql-json")
@pytest.mark.parametrize("text", NO_DATES)
def test_only_texts_that_are_iso_dates_are_dates(ask: Ask, text: str) -> None:
    for texts in ([text], ["2024-01-01", text]):
        plain = json.dumps([{"d": one} for one in texts]).encode()
        assert rows(ask(plain, "select d, typeof(d) from t")) == [[one, "VARCHAR"] for one in texts]
        nested = json.dumps([{"o": {"l": [{"d": one}]}} for one in texts]).encode()
        assert rows(ask(nested, "select o from t")) == [[{"l": [{"d": one}]}] for one in texts]
        assert rows(ask(json.dumps(texts).encode(), "select value from t")) == [[one] for one in texts]
    dates = b'[{"d":"0001-01-01","o":{"d":"9999-12-31"}},{"d":null}]'
    assert rows(ask(dates, "select typeof(d), typeof(o.d) from t limit 1")) == [["DATE", "DATE"]]


def test_texts_in_a_map_of_names_are_no_dates_where_one_is_none(ask: Ask) -> None:
    data = [{"m": {f"k{at}-{of}": "2024-01-01" if at else "infinity" for at in range(300)}} for of in range(20)]
    table = ask(json.dumps(data).encode(), "select typeof(m), m['k0-7'] from t limit 1 offset 7")
    assert rows(table) == [["MAP(VARCHAR, VARCHAR)", "infinity"]]


def test_a_late_text_that_is_no_date_is_what_it_is(ask: Ask) -> None:
    data = large({"d": "2024-01-01", "l": ["2024-01-01"]}, {"d": "infinity", "l": ["2024-1-5"]})
    assert rows(ask(data, "select typeof(d) from t limit 1")) == [["VARCHAR"]]
    assert rows(ask(data, "select distinct d from t order by 1")) == [["2024-01-01"], ["infinity"]]
    assert rows(ask(data, "select distinct l[1] from t order by 1")) == [["2024-01-01"], ["2024-1-5"]]


def test_times_and_uuids_inside_of_others_are_texts_as_they_are(ask: Ask) -> None:
    data = b'[{"t":["1:2:3"],"u":{"x":"6F9619FF-8B86-D011-B42D-00C04FC964FF"}}]'
    assert rows(ask(data, "select * from t")) == [[["1:2:3"], {"x": "6F9619FF-8B86-D011-B42D-00C04FC964FF"}]]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("select unnest(a) from t limit 3", [[[1]], [[1.6]], [[1.6]]]),
        ("select unnest(a, recursive := true) from t limit 3", [[1], [1.6], [1.6]]),
        ("select unnest(b) from (select unnest(a) as b from t limit 2)", [[1], [1.6]]),
        ("select u from t, unnest(a) as x(u) limit 2", [[[1]], [[1.6]]]),
    ],
)
def test_unnest_that_reads_on_behind_the_first_records_rounds_nothing(ask: Ask, sql: str, found: list[Any]) -> None:
    lines = [json.dumps({"pad": "p" * 400, "a": [[1.6]] if at > 21_000 else []}).encode() for at in range(22_000)]
    lines[0] = b'{"a": [[1]]}'
    assert rows(ask(b"\n".join(lines), sql)) == found


@pytest.mark.parametrize("sql", ["select unnest(a) from t limit 3", "select unnest(a) from (from t limit 3)"])
def test_unnest_that_is_done_with_the_first_records_does_not_look_at_the_others(ask: Ask, sql: str) -> None:
    table = ask(large({"a": [1]}, {"a": [1.6]}), sql)
    assert (rows(table), table.types) == ([[1], [1], [1]], ("BIGINT",))


def test_a_late_name_that_differs_only_in_case_is_a_column(ask: Ask) -> None:
    data = large({"a": 1}, {"A": 7})
    table = ask(data, "select max(a_1) from t")
    assert "Names that differ only in case are told apart by a number: see describe t." in table.notes
    assert rows(table) == [[7]]
    for sql in ('select max("A") from t', "SELECT MAX(A) FROM t"):
        with pytest.raises(BadQuery, match=r"^the member A is the column A_1 here: "):
            ask(data, sql)
    assert rows(ask(data, "select count(a), count(a_1), max(a_1) from t where a_1 = 7")) == [[0, 1000, 7]]


def test_a_name_written_in_another_case_is_found_without_a_note(ask: Ask) -> None:
    table = ask(large({"id": 1, "count": 2}, {"id": 3, "count": 4}), "SELECT COUNT(*), MAX(ID) FROM t")
    assert (rows(table), table.notes) == ([[22_000, 3]], ())


def test_columns_that_differ_only_in_case_have_their_values_as_they_are(ask: Ask) -> None:
    data = b'[{"a":"2024-01-01","A":10000000000000000000001},{"a":"infinity","A":5}]'
    assert rows(ask(data, "select * from t")) == [["2024-01-01", 10**22 + 1], ["infinity", 5]]
    table = ask(b'[{"address":"x","address_1":"2024-01-01"}]', "select *, typeof(address_1) from t")
    assert (rows(table), table.notes) == ([["x", "2024-01-01", "DATE"]], ())


LONG = [123456789012345678901234567, 123456789012345678901234568]


@requirement("query:sql-json")
def test_long_whole_numbers_inside_of_others_are_told_apart_or_noted(ask: Ask) -> None:
    note = "Whole numbers of 16 digits or more may be rounded in {}."
    alone = json.dumps([{"o": {"x": one}, "l": [one]} for one in LONG]).encode()
    table = ask(alone, "select o.x, l[1] from t")
    assert (rows(table), table.notes) == ([[one, one] for one in LONG], ())
    mixed = json.dumps([{"o": {"x": one}, "l": [one]} for one in [*LONG, 1.5]]).encode()
    assert ask(mixed, "select count(distinct o.x), min(l[1]) from t").notes == (note.format("o, l"),)
    values = json.dumps([*LONG, None]).encode()
    assert rows(ask(values, "select value from t")) == [[one] for one in [*LONG, None]]
    assert ask(values[:-1] + b", 1.5]", "select value from t").notes == (note.format("value"),)
    assert ask(b'[{"a":9007199254740993},{"a":1.5}]', "select a from t").notes == (note.format("a"),)
    assert ask(b'[{"a":9007199254740992},{"a":0.12345678901234567}]', "select a from t").notes == ()


@requirement("query:sql-json")
@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("select count(*) from t", False), ("select id from t where n = 'a'", False), ("describe t", True),
        ("select * from t", True), ("from t limit 1", True), ("select n from t order by AMOUNT", True),
        ("select t.\"amount\" from t", True), ("select x.n from t join t x using (amount)", True),
        ("select columns('am.*') from t", True), ("select t from t", True), ("summarize t", True),
    ],
)  # fmt: skip
def test_that_numbers_may_be_rounded_is_told_where_their_column_is_read(ask: Ask, sql: str, told: bool) -> None:
    data = b'[{"id":1,"n":"a","amount":12345678901234567},{"id":2,"n":"b","amount":1.5}]'
    assert any("may be rounded in amount." in note for note in ask(data, sql).notes) == told


def test_what_is_very_deep_in_others_is_as_it_is(ask: Ask) -> None:
    deep = ['{"a":[' * 40 + number + "]}" * 40 for number in ("0.5", "12345678901234567")]
    table = ask(f"[{','.join(deep)}]".encode(), "select contains(a::varchar, '12345678901234567') from t")
    assert (rows(table), table.notes) == ([[False], [True]], ())


def test_long_whole_numbers_where_not_all_values_are_objects_are_told_apart_or_noted(ask: Ask) -> None:
    data = b'[{"a":123456789012345678901234567,"b":12345678901234567},{"a":5,"b":1.5},3]'
    table = ask(data, "select a, b from t limit 1")
    assert rows(table)[0][0] == LONG[0]
    assert "Whole numbers of 16 digits or more may be rounded in b." in table.notes


@pytest.mark.parametrize("late", [12345678901234567, 1.5])
def test_late_long_whole_numbers_are_noted(ask: Ask, late: float) -> None:
    data = large({"d": 0.5 if late != 1.5 else LONG[0]}, {"d": late})
    assert rows(ask(data, "select d from t limit 1")) == [[0.5 if late != 1.5 else LONG[0]]]
    table = ask(data, "select min(d) from t")
    assert (rows(table), table.notes) == (
        [[min(0.5, late) if late != 1.5 else 1.5]],
        ("Whole numbers of 16 digits or more may be rounded in d.",),
    )


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    "sql",
    [
        "select * from t limit 1",
        "from t limit 1",
        "select t from t limit 1",
        "select to_json(x) from t as x limit 1",
        "select count(columns(*)) from t",
        "from (describe t)",
        "summarize t",
        "pivot t on a in (1) using count(*)",
        "select count(*) from t natural join t as u",
    ],
)
def test_sql_that_takes_whatever_columns_there_are_is_told_that_later_ones_are_not_among_them(
    ask: Ask, sql: str
) -> None:
    note = "The columns and types come from the first 20,480 records; a member that only later ones have is found once the "
    assert note + "SQL names it." in ask(large({"a": 1}, {"a": 1, "zzz": 2}), sql).notes


def test_few_records_of_many_bytes_are_all_looked_at_and_nothing_is_told(ask: Ask) -> None:
    few = json.dumps([{"a": "x" * 900} for _ in range(20_000)]).encode()
    assert ask(few, "from t limit 1").notes == ()


@pytest.mark.parametrize("sql", ["select count(*) from t", "select max(t.a) from t", "select 2 * max(a) from t"])
def test_sql_that_names_its_columns_is_told_nothing(ask: Ask, sql: str) -> None:
    assert ask(large({"a": 1}, {"a": 1, "zzz": 2}), sql).notes == ()


@pytest.mark.parametrize(
    ("written", "name"),
    [(r"caf\u00e9", "café"), (r"caf\u00E9", "café"), (r"\u0062", "b"), (r"x\/\"y\ud83d\ude00", 'x/""y😀'), ("é", "é")],
)
def test_a_late_member_is_found_however_its_name_is_written(ask: Ask, written: str, name: str) -> None:
    data = large({"a": 1}, {"a": 1, "late": 7}).replace(b"late", written.encode())
    assert rows(ask(data, f'select count("{name}"), max("{name}") from t')) == [[1000, 7]]


@pytest.mark.in_full(one_in=2)
@requirement("query:sql-json")
@pytest.mark.parametrize(
    "sql",
    [
        "select sum(t.late) from t where t.late = 7",
        "select sum(x.late) from t as x join t as y on x.id = y.id where x.late = 7",
        "select sum(late) from t join (select 7 as late) as y using (late)",
        "with c as (from t) select sum(c.late) from c",
        'select sum(t."o""".code.late) from t',
        "select (select sum(late) from t) from (select * exclude (late) from t limit 1)",
    ],
)
def test_a_late_member_is_found_however_it_is_named(ask: Ask, sql: str) -> None:
    lines: list[dict[str, Any]] = [{"id": at, "pad": "p" * 400} for at in range(22_000)]
    lines[21_500] |= {"late": 7, 'o"': {"code": {"late": 7}}}
    assert rows(ask(b"\n".join(json.dumps(one).encode() for one in lines), sql)) == [[7]]


def test_lines_are_found_by_a_qualified_name_too(ask: Ask) -> None:
    assert rows(ask(b'{"a":1}\n{"a":2}\n', "select x.line_no from t as x where x.text like '%2%'")) == [[2]]


def test_a_mebibyte_of_empty_lines_before_a_table_is_an_answer_or_a_refusal(ask: Ask) -> None:
    with contextlib.suppress(BadQuery):
        ask(b"\n" * 1_100_000 + b"a,b\n1,2\n", "select * from t", kind="csv")


@pytest.mark.parametrize(
    "sql", ["select *, random() from t", "from t tablesample reservoir(900)", "from t using sample 900"]
)
def test_rows_that_another_run_would_not_have_are_not_counted_by_one(ask: Ask, sql: str) -> None:
    found = ask(b"a,b\n" + b"1,2\n" * 1000, sql, kind="csv", max_rows=10)
    assert len(found.rows) == 10
    assert found.is_least
    assert found.notes[0] == (
        "At least 11 rows: the rest is not counted, because this SQL draws by chance and may give other rows each time."
    )


def test_a_column_that_is_called_as_something_of_duckdb_is_the_outputs_or_refused(ask: Ask) -> None:
    lines = [json.dumps({"user": f"u{n % 3}", "ms": n if n != 7 else "slow"}) for n in range(900)]
    whole, cut_off = ("\n".join(lines) + "\n").encode(), ("\n".join(lines) + '\n{"us').encode()
    by_user = "select user, count(*) from t group by 1 order by 2 desc, 1 limit 3"
    for data in (whole, cut_off):
        assert rows(ask(data, by_user)) == [["u0", 300], ["u1", 300], ["u2", 300]]
        assert rows(ask(data, 'select "user" from t limit 1')) == [["u0"]]
        assert any(note.startswith("Not all of ms is numbers") for note in ask(data, "select max(ms) from t").notes)
        for sql in (
            "select user from (select ms as user from t) limit 1",
            "with x(user) as (select ms from t) select user from x limit 1",
            "select user from (select ms from t) as x(user) limit 1",
        ):
            assert rows(ask(data, sql)) == [[0]] or rows(ask(data, sql)) == [["0"]]
    for name in ("user", "current_user", "session_user", "current_role", "current_catalog", "current_schema"):
        with pytest.raises(BadQuery, match=f'Referenced column "{name}" not found'):
            ask(b"INFO all is well\n" * 99, f"select {name} from t")
    for sql in (
        "select user, (select max(line_no) as user from t) from t",
        "select count(*) from t where user <> 'bob'",
        "select line_no from t order by user",
    ):
        with pytest.raises(BadQuery, match='Referenced column "user" not found'):
            ask(b"INFO all is well\n" * 99, sql)
    with pytest.raises(BadQuery, match="the function user is not available"):
        ask(whole, "select user(5) from t")
    assert rows(ask(whole, "select current_date > '2020-01-01' from t limit 1")) == [[True]]
