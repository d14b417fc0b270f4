"""query: what the process for SQL is asked, how its answers and errors read, and what is refused before it is asked; and
how values of a path are shared out over an answer."""

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.store.deadline import Deadline, within
from holdall.store.reader import FileReader
from holdall.values.answers import Nodes, Table
from holdall.values.errors import BadQuery, BadRange, MissingExtra, OutOfTime, WorkerFault
from holdall.values.settings import Settings
from holdall.values.spans import Span
from holdall.verbs import query as module
from holdall.verbs.query import query, query_path, query_sql
from holdall.verbs.read import UNBOUNDED, Bounds
from tests.support import reader_of

GOOD: dict[str, Any] = {
    "columns": ["a", "b"], "types": ["INTEGER", "VARCHAR"], "rows": [[1, "x"], [2, "y"]], "total": 2, "more": False,
    "notes": [], "cut_cells": False,
}  # fmt: skip


class _Worker:
    """Counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class Asked:
    """Instead of a request to the process: says what it was asked, and answers what it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answer: Any) -> None:
        self.answered: Any = {**GOOD, **answer}
        self.before: list[Any] = []  # parts that come before the answer
        self.notes: list[str] = []
        self.given: dict[str, Any] = {}
        self.worker = _Worker()
        monkeypatch.setattr(module, "SqlRequest", self._request)
        monkeypatch.setattr(module, "SqlWorker", lambda: self.worker)

    def _request(self, parts: Any, request: Any, worker: Any, deadline: Deadline, each: Any) -> "Asked":
        names = [(part.names, part.at, part.forced) for part in parts]
        self.given = {
            "parts": names,
            "seconds": deadline.seconds,
            "worker": worker,
            "each": each is not None,
            **request,
        }
        self._each = each
        return self

    def answer(self) -> Any:
        for part in self.before if self._each else ():
            self._each(part)
        if isinstance(self.answered, Exception):
            raise self.answered
        return self.answered, self.notes


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    return Asked(monkeypatch)


def named(handle: str, call_id: str = "") -> FileReader:
    reader = reader_of(b"a,b\n1,2\n", handle=handle)
    reader.facts = replace(reader.facts, origin=replace(reader.facts.origin, call_id=call_id))
    return reader


def test_what_is_asked_has_bounds_of_its_own(asked: Asked) -> None:
    query_sql(named("k3f9"), "select 1")
    assert asked.given == {
        "parts": [(["t", "k3f9"], None, None)], "seconds": 60.0, "worker": asked.worker, "each": False,
        "sql": "select 1", "max_rows": 1000, "max_bytes": 16384, "memory_bytes": 2**30,
    }  # fmt: skip
    assert asked.worker.closed == 1
    own: Any = _Worker()
    query_sql(named("k3f9"), "x", at="$.a", kind="lines", worker=own, max_rows=None, max_bytes=None, seconds=7.0)
    assert asked.given["parts"] == [(["t", "k3f9"], "$.a", "lines")]
    assert (asked.given["max_rows"], asked.given["max_bytes"], asked.given["seconds"]) == (None, None, 7.0)
    assert (own.closed, asked.given["worker"]) == (0, own)


def test_what_cannot_be_asked_is_refused(asked: Asked) -> None:
    query_sql(named("k3f9"), "x" * 100_000, max_rows=1, max_bytes=1)
    with pytest.raises(BadQuery, match="the SQL has 100,001 characters; at most 100,000 are run"):
        query_sql(named("k3f9"), "x" * 100_001)
    for wrong in ({"max_rows": 0}, {"max_bytes": 0}):
        with pytest.raises(BadRange, match="must be 1 or more"):
            query_sql(named("k3f9"), "x", **wrong)  # type: ignore[arg-type]


def test_further_outputs_have_their_handles_and_the_names_of_their_calls(asked: Asked) -> None:
    also = [
        named("h2", "People"),
        named("h3", "people"),
        named("h4", "not a\tname"),
        named("h5", "H2"),
        named("h2"),
        named("h6", "T"),
    ]
    found = query_sql(named("k3f9", "first"), "x", also=also)
    assert [names for names, _, _ in asked.given["parts"]] == [
        ["t", "k3f9"], ["h2", "People"], ["h3"], ["h4"], ["h5"], ["h6"],
    ]  # fmt: skip
    assert found.also == tuple((handle, 8) for handle in ("h2", "h3", "h4", "h5", "h6"))


@pytest.mark.parametrize(
    ("answer", "error", "told"),
    [
        ({"error": "memory"}, WorkerFault, "the query needs more than the 1.1 GB of memory that it may take"),
        ({"error": "missing", "message": "no pyarrow"}, MissingExtra, "pyarrow"),
        ({"error": "missing", "message": "no duckdb"}, WorkerFault, "SQL needs the package duckdb, .*: no duckdb$"),
        (
            {"error": "source", "message": "it is odd."},
            BadQuery,
            r"^the output cannot be read as a table: it is odd\. Try a path, grep or read\.$",
        ),
        (
            {"error": "source", "message": "it is odd", "has_lines": True},
            BadQuery,
            r"read, or its lines: select line_no, text from t\.$",
        ),
        ({"error": "source", "message": "odd", "late": True}, BadQuery, r"As lines all of it can be read \(kind: lines\)\.$"),
        ({"error": "sql", "message": "no such column.", "columns": ""}, BadQuery, r"^no such column\.$"),
        ({"error": "sql", "message": "no such column", "columns": "Columns: a, b"}, BadQuery, r"column\. Columns: a, b\.$"),
    ],
)  # fmt: skip
def test_an_error_of_the_process_says_what_to_do(
    asked: Asked, answer: dict[str, Any], error: type[Exception], told: str
) -> None:
    asked.answered = answer
    with pytest.raises(error, match=told):
        query_sql(named("k3f9"), "x")
    assert asked.worker.closed == 1


def test_a_query_that_is_stopped_says_what_it_gave_before(asked: Asked) -> None:
    asked.before = [GOOD, GOOD]
    got: list[Table] = []
    for fault, told in (
        (OutOfTime(7.0), "the query was stopped after 7 s, its limit"),
        (WorkerFault("it died."), "it died."),
        (BadQuery("it is odd."), "it is odd."),
    ):
        asked.answered = fault
        with pytest.raises((WorkerFault, BadQuery)) as caught:
            query_sql(named("k3f9"), "x", each=got.append)
        assert str(caught.value).startswith(told)
        assert str(caught.value).endswith(" What was given before that, 4 rows, is not the whole answer.")
        with pytest.raises((WorkerFault, BadQuery)) as caught:
            query_sql(named("k3f9"), "x")
        assert "What was given" not in str(caught.value)
    assert [(len(one.rows), one.total, one.next) for one in got] == [(2, 0, None)] * 6


def test_a_part_of_t_beside_other_outputs_says_how_those_are_reached(asked: Asked) -> None:
    asked.answered = BadQuery("at chooses a part of t, and there is none.")
    with pytest.raises(BadQuery, match="What also names is reached into with unnest"):
        query_sql(named("k3f9"), "x", also=[named("h2")])
    with pytest.raises(BadQuery, match=r"there is none\.$"):
        query_sql(named("k3f9"), "x")


def test_rows_come_with_how_many_there_are_and_where_to_go_on(asked: Asked) -> None:
    found = query_sql(named("k3f9"), "x")
    assert (found.rows, found.columns, found.types) == (((1, "x"), (2, "y")), ("a", "b"), ("INTEGER", "VARCHAR"))
    assert (found.total, found.next, found.notes, found.is_least, found.offset, found.limit) == (
        2,
        None,
        (),
        False,
        0,
        None,
    )
    asked.answered = {**GOOD, "more": True, "total": 9, "offset": 4, "limit": 5, "notes": ["one"]}
    asked.notes = ["two"]
    found = query_sql(named("k3f9"), "x")
    assert (found.total, found.next, found.notes, found.offset, found.limit) == (9, 6, ("one", "two"), 4, 5)
    asked.answered = {**GOOD, "more": True, "total": None, "offset": None, "cut_cells": True, "notes": ["one"]}
    found = query_sql(named("k3f9"), "x")
    assert (found.total, found.next, found.is_least) == (3, 2, True)
    assert found.notes[0] == "At least 3 rows: the rest could not be counted within the limits of the query."
    assert found.notes[1].startswith("The row is longer than an answer may be: cells that end in … are cut.")
    assert found.notes[2:] == ("one", "two")
    asked.answered = {**GOOD, "total": None, "by_chance": True}
    assert "because this SQL draws by chance" in query_sql(named("k3f9"), "x").notes[0]


def test_an_output_whose_call_failed_says_so_before_all_else(asked: Asked) -> None:
    reader = named("k3f9")
    reader.facts = replace(reader.facts, state="failed", error="it broke")
    asked.answered = {**GOOD, "notes": ["one"]}
    first, second = query_sql(reader, "x").notes
    assert first.startswith("The call of this output did not end well: ")
    assert second == "one"


# What a session allows


def opening() -> Callable[[str], contextlib.AbstractContextManager[FileReader]]:
    return lambda handle: contextlib.closing(named(handle))


def test_sql_within_a_session_has_its_settings_and_its_outputs(asked: Asked) -> None:
    settings = Settings(query_seconds=9.0, query_max_rows=50, query_memory_bytes=2**27)
    own: Any = _Worker()
    bounds = Bounds(5000, None, settings=settings, open=opening(), worker=lambda: own)
    query(named("k3f9"), sql="select 1", also=["h2", "h2", "h3"], bounds=bounds)
    assert [names for names, _, _ in asked.given["parts"]] == [["t", "k3f9"], ["h2"], ["h3"]]
    assert {name: asked.given[name] for name in ("sql", "seconds", "max_rows", "max_bytes", "memory_bytes", "worker")} == {
        "sql": "select 1", "seconds": 9.0, "max_rows": 50, "max_bytes": 5000, "memory_bytes": 2**27, "worker": own,
    }  # fmt: skip
    query(named("k3f9"), limit=7, also=None, bounds=UNBOUNDED)
    assert (asked.given["sql"], asked.given["max_rows"], asked.given["worker"]) == ("", 7, asked.worker)
    query(named("k3f9"), sql="x", bounds=replace(UNBOUNDED, whole=True))
    assert (asked.given["max_rows"], asked.given["max_bytes"]) == (sys.maxsize, None)
    query(named("k3f9"), sql="x", bounds=replace(UNBOUNDED, each=list[Any]().append))
    assert (asked.given["max_rows"], asked.given["each"]) == (None, True)


def test_what_does_not_fit_together_is_refused(asked: Asked) -> None:
    for wrong, told in (
        ({"path": "$", "sql": "x"}, "give sql or a path, not both"),
        ({"path": "$", "at": "$"}, "at chooses the table for sql"),
        ({"path": "$", "also": ["h2"]}, "also names further tables for sql"),
        ({"path": "$", "kind": "lines"}, "kind says how sql reads the output"),
        ({"sql": "x", "skip": 3}, "in SQL write OFFSET 3"),
        ({"sql": "x", "also": ["h2"]}, "also names outputs of a session, and this query has none"),
        ({"sql": "x", "also": [f"h{number}" for number in range(9)]}, "also names 9 outputs; a query reads at most 8"),
    ):
        options: dict[str, Any] = wrong
        with pytest.raises(BadQuery, match=told):
            query(reader_of(b"[1]"), bounds=UNBOUNDED, **options)
    query(named("k3f9"), sql="x", also=[f"h{number}" for number in range(8)], bounds=replace(UNBOUNDED, open=opening()))
    assert len(asked.given["parts"]) == 9


def test_a_path_within_a_session_has_its_bounds() -> None:
    reader = reader_of(json.dumps(list(range(2000))).encode())
    found = query(reader, path="$[*]", skip=3, limit=5, bounds=UNBOUNDED)
    assert isinstance(found, Nodes)
    assert ([node.text for node in found.nodes], found.next) == (["3", "4", "5", "6", "7"], 8)
    assert query(reader, path="$[*]", bounds=UNBOUNDED).next == 1000
    assert query(reader, path="$[*]", bounds=replace(UNBOUNDED, whole=True)).next is None


# Values of a path


VALUES = st.lists(st.text("aé漢\n", max_size=500), min_size=1, max_size=8)


@given(VALUES, st.integers(100, 3000), st.sampled_from([3, 1 << 20]))
def test_values_share_an_answer_and_those_that_fit_are_whole(values: list[str], most: int, window: int) -> None:
    data = json.dumps(values, indent=1, ensure_ascii=False).encode()
    reader, skip, shown = reader_of(data), 0, list[Any]()
    while True:
        answer = query_path(reader, "$[*]", skip=skip, max_bytes=most)
        shown += answer.nodes
        assert len(answer.nodes) == 1 or sum(len(node.text.encode()) + 48 for node in answer.nodes) <= most
        assert any("cut" in note for note in answer.notes) == any(node.cut for node in answer.nodes)
        if answer.next is None:
            break
        assert answer.next == len(shown)
        skip = answer.next
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_WINDOW", window)
        whole = query_path(reader, "$[*]", max_bytes=None).nodes
    assert [json.loads(node.text) for node in whole] == values
    for one, other in zip(whole, shown, strict=True):
        stored = data[one.bytes.start : one.bytes.end].decode()
        assert (one.text, one.cut, one.bytes, one.lines) == (stored, False, other.bytes, other.lines)
        line = data.count(b"\n", 0, one.bytes.start) + 1
        assert one.lines == Span(line, line + stored.count("\n"))
        assert stored.startswith(other.text)
        assert other.cut == (other.text != stored)


def test_short_values_are_whole_beside_long_ones_and_the_last_are_left_for_the_next_page() -> None:
    values = ["x" * 10, "y" * 5000, "z" * 10, "w" * 5000]
    reader = reader_of(json.dumps(values).encode())
    shown = query_path(reader, "$[*]", max_bytes=1000)
    assert [(len(node.text), node.cut) for node in shown.nodes] == [(12, False), (384, True), (12, False), (384, True)]
    assert [len(node.text) for node in query_path(reader, "$[*]", max_bytes=500).nodes] == [12, 320, 12]
    assert [len(node.text) for node in query_path(reader, "$[*]", max_bytes=300).nodes] == [12]
    assert [len(node.text) for node in query_path(reader, "$[1]", max_bytes=10).nodes] == [50]
    two = reader_of(json.dumps(["x" * 10, "z" * 10]).encode())
    cost = 48 + len("$[0]") + 12  # of each
    assert [len(query_path(two, "$[*]", max_bytes=most).nodes) for most in (2 * cost, 2 * cost - 1)] == [2, 1]


def test_a_path_that_is_too_long_to_show_is_told_also_where_values_are_passed_on() -> None:
    note = "Some paths are too long to show and have … inside; read those values by their bytes."
    reader = reader_of(b'{"x": ' + b"[" * 1000 + b'{"a": 1}' + b"]" * 1000 + b', "b": 2}')
    for path, notes in (("$..a", (note,)), ("$.b", ())):
        assert query_path(reader, path).notes == query_path(reader, path, each=list[Nodes]().append).notes == notes


def test_values_are_passed_on_so_many_at_once_and_the_rest_at_the_end() -> None:
    got: list[Nodes] = []
    done = query_path(reader_of(json.dumps(list(range(600))).encode()), "$[*]", each=got.append)
    assert [len(part.nodes) for part in got] == [256, 256, 88]
    assert (done.nodes, done.total, done.next) == ((), 600, None)


def test_a_path_that_is_stopped_says_what_it_gave_before(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def slow(_: Nodes) -> None:
        now[0] += 1000

    monkeypatch.setattr(module, "renew", lambda: None)
    with within(Deadline(60, clock=lambda: now[0])), pytest.raises(WorkerFault) as caught:
        query_path(reader_of(json.dumps(list(range(100_000))).encode()), "$[*]", each=slow)
    assert "the path was stopped after 60 s, its limit (query_seconds)" in str(caught.value)
    assert str(caught.value).endswith(" What was given before that, 256 values, is not the whole answer.")


def test_text_that_only_soon_begins_like_json_is_none() -> None:
    with pytest.raises(BadQuery, match="the output is text, not JSON; a path names values in JSON"):
        query_path(reader_of(b"x[1, 2]\nand more text\n"), "$[0]")
