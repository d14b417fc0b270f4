"""diff: what differs between two outputs, by lines, by JSON paths, by rows; counted, bounded, and true whatever they are."""

import contextlib
import itertools
import json
import os
import random
import tracemalloc
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.store import deadline
from holdall.store.deadline import Deadline, within
from holdall.store.reader import FileReader
from holdall.text.align import differences
from holdall.values.answers import Difference
from holdall.values.errors import BadQuery, OutOfTime, UsageError
from holdall.values.settings import Settings
from holdall.values.spans import Span
from holdall.verbs import diff as module
from holdall.verbs.diff import diff, near_difference
from holdall.verbs.read import UNBOUNDED, Bounds
from holdall.wire.answers import told_change, told_difference
from tests.requirements import requirement
from tests.support import reader_of

WHOLE = replace(UNBOUNDED, whole=True)
_numbers = itertools.count()


def opened(data: bytes) -> FileReader:
    reader = reader_of(data, handle=f"h{next(_numbers)}")
    reader.facts = replace(reader.facts, id=f"{next(_numbers):036}")
    return reader


def compared(one: bytes | str, other: bytes | str, **options: Any) -> Difference:
    bounds = options.pop("bounds", UNBOUNDED)
    one, other = (text.encode() if isinstance(text, str) else text for text in (one, other))
    return compare(opened(one), opened(other), bounds=bounds, **options)


def compare(one: FileReader, other: FileReader, *, bounds: Bounds, **options: Any) -> Difference:
    def at_once(handle: str) -> contextlib.AbstractContextManager[FileReader]:
        return contextlib.nullcontext(other)

    return diff(one, other="other", bounds=replace(bounds, open=at_once), **options)


def counts(found: Difference) -> tuple[int, int, int]:
    return found.changed, found.added, found.removed


LINES = [f"line {number} of a log" for number in range(4210)]


@requirement("diff:lines", "diff:counted-and-bounded")
def test_lines_that_were_changed_added_and_removed_have_their_places_in_both() -> None:
    other = list(LINES)
    other[10], other[200] = "something else", "more"
    del other[300]
    other.insert(4000, "new")
    found = compared("\n".join(LINES), "\n".join(other))
    assert (counts(found), found.total, found.of, found.complete) == ((2, 1, 1), 4, 4210, True)
    assert told_difference(found) == "2 of 4,210 lines changed, 1 added, 1 removed"
    assert [told_change(change) for change in found.changes] == snapshot(
        [
            """\
L11 byte 160 → L11 byte 160
- line 10 of a log
+ something else\
""",
            """\
L201 byte 3,490 → L201 byte 3,488
- line 200 of a log
+ more\
""",
            """\
L301 byte 5,290
- line 300 of a log\
""",
            """\
L4,001 byte 74,876
+ new\
""",
        ]
    )
    rest = compared("\n".join(LINES), "\n".join(other), skip=1, limit=2)
    assert (rest.changes[0].before, rest.next) == (found.changes[1].before, 3)


@requirement("diff:lines")
@given(st.lists(st.sampled_from(["a", "b", "", "c" * 500, "é\r"]), max_size=12), st.data())
def test_what_is_shown_is_what_is_stored_there_and_the_counts_are_those_of_a_right_way(
    lines: list[str], data: st.DataObject
) -> None:
    others = data.draw(st.permutations(lines)) + data.draw(st.lists(st.sampled_from(["a", "x"]), max_size=3))
    one, other = ("\n".join(side).encode() for side in (lines, others))
    found = compare(before := opened(one), after := opened(other), bounds=UNBOUNDED, by="lines")
    assert found.changed + found.removed - (found.changed + found.added) == before.totals.lines - after.totals.lines
    for change in found.changes:
        for side, reader in ((change.before, before), (change.after, after)):
            if side is not None and not side.cut:
                stored = reader.read(side.bytes.start, side.bytes.end).decode().removesuffix("\n").removesuffix("\r")
                assert side.text == stored
                assert side.lines
    assert found.same_bytes == (one == other)


@requirement("diff:same-bytes")
def test_the_same_bytes_the_same_lines_in_another_order_and_a_missing_last_newline() -> None:
    assert told_difference(compared("a\nb\n", "a\nb\n")) == "the same bytes"
    assert told_difference(compared("a\nb\nc\n", "c\na\nb\n")) == "1 line added, 1 removed, 1 of them moved"
    ends = compared("a\nb\n", "a\nb")
    assert (told_difference(ends), ends.notes) == (
        "no line changed, added or removed",
        ("the same lines; only the end of the last differs",),
    )


def test_lines_that_differ_in_their_ends_only_are_said_to() -> None:
    text = "".join(f"{line}\n" for line in LINES)
    dos = text.replace("\n", "\r\n")
    told = {
        "one": compared(text, text.replace("\n", "\r\n", 1)),
        "all": compared(text, dos),
        "back": compared(dos, text),
        "with another": compared(text, dos.replace("line 7 of", "line seven of") + "one more\r\n"),
        "both": compared(f"a\r\nb\nc\r\n{text}", f"a\nb\r\nd\r\n{text}"),
        "moved": compared("a\nb\nc\r\n", "c\r\na\nb\n"),
        "none": compared(dos, dos.replace("line 7 of", "line seven of")),
    }
    assert {name: (told_difference(found), found.notes) for name, found in told.items()} == snapshot(
        {
            "one": ("1 of 4,210 lines changed", ("1 line differs only in its end: LF → CRLF",)),
            "all": ("4,210 of 4,210 lines changed", ("4,210 lines differ only in their ends: LF → CRLF",)),
            "back": ("4,210 of 4,210 lines changed", ("4,210 lines differ only in their ends: CRLF → LF",)),
            "with another": (
                "4,210 of 4,210 lines changed, 1 added",
                ("4,209 lines differ only in their ends: LF → CRLF",),
            ),
            "both": ("3 of 4,213 lines changed", ("2 lines differ only in their ends (LF or CRLF)",)),
            "moved": ("1 line added, 1 removed, 1 of them moved", ()),
            "none": ("1 of 4,210 lines changed", ()),
        }
    )


ROWS = [{"id": number, "name": f"n{number}", "v": number % 7} for number in range(200)]


def changed_rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(json.dumps(ROWS))
    rows[5]["v"] = 99
    del rows[77]
    rows.append({"id": 999, "name": "x", "v": 1})
    return rows


@requirement("diff:json")
def test_json_is_compared_by_paths_however_it_is_written() -> None:
    one, other = {"meta": {"n": 1, "e": "é"}, "rows": ROWS}, {"rows": changed_rows(), "meta": {"e": "é", "n": 1}}
    found = compared(json.dumps(one), json.dumps(other, indent=2, ensure_ascii=False))
    assert (counts(found), found.unit, found.total) == ((1, 1, 1), "value", 3)
    assert [change.name for change in found.changes] == [
        "$.rows[?@.id==5].v",
        "$.rows[?@.id==77]",
        "$.rows[?@.id==999]",
    ]
    first = found.changes[0]
    assert first.before
    assert first.after
    assert (first.before.text, first.after.text) == ("5", "99")
    assert told_difference(found) == "1 value changed, 1 added, 1 removed"
    same = compared(json.dumps(one), json.dumps(one, indent=2))
    assert (same.total, same.same_bytes, same.notes) == (0, False, ("the same values, written in another way",))


@requirement("diff:json")
def test_elements_in_another_order_are_told_as_that() -> None:
    found = compared(json.dumps({"rows": ROWS}), json.dumps({"rows": ROWS[::-1]}))
    assert (found.total, found.notes) == (0, ("elements of $.rows in another order",))
    three = {"a": ROWS, "b": ROWS, "c": ROWS}
    found = compared(json.dumps(three), json.dumps({name: rows[::-1] for name, rows in three.items()}))
    assert found.notes == ("elements of $.a and 2 more arrays in another order",)


def test_elements_without_a_key_are_aligned_and_a_name_that_occurs_twice_is_compared_twice() -> None:
    found = compared('{"a": [1, 2, 3, 4], "b": 1, "b": 2}', '{"a": [1, 3, 4, 5], "b": 1, "b": 3}')
    assert [told_change(change) for change in found.changes] == [
        "- $.a[1] (L1 byte 10)  2",
        "+ $.a[3] (L1 byte 16)  5",
        "$['b (2)'] (L1 byte 33 → L1 byte 33)  2 → 3",
    ]
    assert compared('{"id": "1"}', '{"id": 1}').changed == 1
    assert [told_change(change) for change in compared("[1, 2, 3, 5]", "[1, 7, 8, 9, 5]").changes] == [
        "$[1] (L1 byte 4 → L1 byte 4)  2 → 7",
        "$[2] (L1 byte 7 → L1 byte 7)  3 → 8",
        "+ $[3] (L1 byte 10)  9",
    ]
    assert [told_change(change) for change in compared("[1, 7, 8, 9, 5]", "[1, 2, 3, 5]").changes] == [
        "$[1] (L1 byte 4 → L1 byte 4)  7 → 2",
        "$[2] (L1 byte 7 → L1 byte 7)  8 → 3",
        "- $[3] (L1 byte 10)  9",
    ]


@requirement("diff:json")
def test_strings_with_tabs_in_them_and_tables_with_other_separators_are_compared_too() -> None:
    raw = [json.dumps({"a": "x", "b": f"x{sign}"}).replace("x", "x\ty") for sign in "12"]
    assert [change.name for change in compared(*raw, by="json").changes] == ["$.b"]
    one, other = "".join(f"{at},{at},x\n" for at in range(9)), "".join(f"{at}\t{at % 8}\tx\n" for at in range(9))
    found = compared("id,v,w\n" + one, "id\tv\tw\n" + other)
    assert (found.unit, [change.name for change in found.changes]) == ("row", ["id=8"])


@given(
    st.recursive(
        st.integers(0, 3) | st.text(max_size=2),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
        max_leaves=12,
    ),
    st.data(),
)
def test_every_value_that_is_told_differs_and_without_one_both_are_the_same(value: Any, data: st.DataObject) -> None:
    other = data.draw(st.sampled_from([value, [value], {"a": value, "b": 1}, {"b": [value, 2]}, 0]))
    one, two = ({"x": value, "y": 1}, {"y": 1, "x": other})
    found = compared(json.dumps(one), json.dumps(two, indent=1), by="json")
    assert (found.total == 0) == (value == other and type(value) is type(other))
    for change in found.changes:
        sides = [json.loads(side.text) for side in (change.before, change.after) if side is not None and not side.cut]
        assert len(sides) < 2 or sides[0] != sides[1]


def written(rows: list[dict[str, Any]], kind: str) -> str:
    if kind == "ndjson":
        return "".join(json.dumps(row) + "\n" for row in rows)
    return "id,name,v\n" + "".join(f"{row['id']},{row['name']},{row['v']}\n" for row in rows)


@requirement("diff:rows")
@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_rows_are_told_by_their_key_whatever_their_order(kind: str) -> None:
    rows = changed_rows()
    random.Random(1).shuffle(rows)
    one, other = written(ROWS, kind).encode(), written(rows, kind).encode()
    found = compared(one, other)
    assert (counts(found), found.unit, found.of, found.notes) == ((1, 1, 1), "row", 200, ("rows in another order",))
    by_name = {change.name: change for change in found.changes}
    assert sorted(by_name) == ["id=5", "id=77", "id=999"]
    changed = by_name["id=5"]
    assert changed.before
    assert changed.after
    assert (changed.before.text, changed.after.text) == ("v: 5", "v: 99")
    for side, stored in ((changed.before, one), (changed.after, other)):
        assert b"n5" in stored[side.bytes.start : side.bytes.end]
        assert side.lines
        assert b"n5" in stored.split(b"\n")[side.lines.start - 1]


def test_a_key_may_be_named_and_one_that_is_not_there_is_refused_with_those_that_are() -> None:
    one, other = "a,k,v\n1,x,1\n1,y,2\n1,x,3\n", "a,k,v\n1,x,1\n1,y,5\n1,x,4\n"
    found = compared(one, other, key="k")
    assert [change.name for change in found.changes] == ["k=y", "k=x"]
    assert found.notes == ("1 key on more than one row: paired in their order",)
    with pytest.raises(BadQuery, match=r"there is no column 'q' on both sides\. Columns are: a, k, v"):
        compared(one, other, key="q")
    unkeyed = compared("a,k\n1,x\n1,x\n1,y\n", "a,k\n1,x\n1,x\n1,z\n")
    assert (unkeyed.unit, unkeyed.notes) == (
        "line",
        ("no column tells the rows apart on both sides: compared by lines (name a column as key to compare rows)",),
    )
    with pytest.raises(UsageError, match="by must be lines, rows or json"):
        compared(one, other, by="words")
    with pytest.raises(UsageError, match="by lines there are none"):
        compared(one, other, by="lines", key="k")


@requirement("diff:rows")
@pytest.mark.parametrize("header", ["id,a,a", "id,,a", "id,a,", "id,,", ",id,id"])
def test_rows_have_their_key_though_columns_share_a_name_or_have_none(header: str) -> None:
    """The names are those that SQL knows."""
    lines = [f"{at},{at},x\n" for at in range(9)]
    other = ["7,7,y\n", *lines[:7], lines[8]]
    found = compared("".join([header + "\n", *lines]), "".join([header + "\n", *other]), key="id")
    assert [change.name for change in found.changes] == ["id=7"]
    assert (counts(found), found.notes) == ((1, 0, 0), ("rows in another order",))
    named = compared("".join(["id,,v\n", *lines]), "".join(["id,column1,v\n", *lines]), key="id")
    assert (counts(named), named.notes) == ((0, 0, 0), ("columns with other names",))


@requirement("diff:rows")
def test_a_table_without_a_header_has_all_its_rows_and_the_columns_that_sql_knows() -> None:
    """As in a notice and in SQL, its first row is one of its rows."""
    lines = [f"{at},{at * 1.5},2026-01-{at:02}\n" for at in range(1, 20)]
    other = ["1,9.25,2026-01-01\n", *lines[2:], "20,1.5,2026-01-20\n"]
    found = compared("".join(lines), "".join(other))
    assert (found.unit, counts(found), found.of, found.notes) == ("row", (1, 1, 1), 19, ())
    assert [change.name for change in found.changes] == ["column0=1", "column0=20", "column0=2"]
    first = found.changes[0]
    assert first.before
    assert (first.before.text, first.before.lines) == ("column1: 1.5", Span(1, 1))
    wide = compared("".join(lines), "".join([*lines, "20,1.5,2026-01-20,x\n"]))
    assert wide.notes == ("L20 has more cells than the first row: compared by lines",)


@requirement("diff:rows")
def test_a_header_is_found_though_one_of_the_two_has_too_few_rows_to_tell_it_by() -> None:
    full = "Name,City\n" + "".join(f"n{at},c{at}\n" for at in range(9))
    found = compared("Name,City\nn1,Name\n", full, key="Name")
    assert (found.unit, found.of, counts(found)) == ("row", 1, (1, 8, 0))


def test_a_key_that_is_not_used_is_said_with_the_reason() -> None:
    rows = "".join(f"{at},{at}\n" for at in range(50))
    wide = compared(f"id,v\n{rows}", f"id,v\n{rows}50,50,\n", key="id")
    assert (wide.unit, wide.notes) == (
        "line", ("L52 has more cells than the header has names: compared by lines", "key was not used"),
    )  # fmt: skip
    assert compared("some\nlines\n", "some\nmore\n", key="id").notes == (
        "key was not used: these are not two tables or JSON values",
    )


def test_a_key_of_elements_may_be_any_member_and_one_that_none_has_is_said() -> None:
    wide = dict.fromkeys(("id", "_id", "uuid", "name", "path", "url", "email"), 1)
    one, other = (json.dumps([{**wide, "far": at, "v": at} for at in range(5)]) for _ in range(2))
    other = other.replace('"far": 3, "v": 3', '"far": 3, "v": 9')
    found = compared(one, other, key="far")
    assert ([change.name for change in found.changes], found.notes) == (["$[?@.far==3].v"], ())
    assert compared(one, other, key="nope").notes == ("no elements that differ have 'nope' on both sides",)


@requirement("diff:json")
def test_elements_that_share_the_id_of_another_are_told_with_what_pairs_them() -> None:
    elements = [{"id": at, "kind": "x", "v": at} for at in range(9)]
    elements[7]["id"] = 6
    one, other = json.dumps({"a": elements}), json.dumps({"a": [{"id": 99, "v": 0}, *elements]})
    why = "several elements of $.a have the same id: compared by place (with key=id by it)"
    assert compared(one, other).notes == (why,)
    assert compared(one, other, key="id").notes == ()
    alike = [json.dumps([{"name": "x", "v": at} for at in range(number)]) for number in (8, 9)]
    assert compared(*alike).notes == (), "a name that all share is no key"


@requirement("diff:large")
@pytest.mark.parametrize("kind", ["csv", "json"] + ["ndjson"] * ("HOLDALL_TEST_FULL" in os.environ))
def test_forty_thousand_rows_a_side_in_one_call(kind: str) -> None:
    rows = [{"id": number, "name": f"name {number}", "v": number % 7} for number in range(40_000)]
    other = [dict(row) for row in rows]
    other[123]["v"], other[39_999]["name"] = -1, "last"
    sides = [json.dumps(side) if kind == "json" else written(side, kind) for side in (rows, other)]
    patient = replace(UNBOUNDED, settings=Settings(grep_seconds=600.0))  # however busy the machine is
    found = compared(*sides, bounds=patient)
    assert (counts(found), found.complete) == ((2, 0, 0), True)
    assert [change.name for change in found.changes] == {
        "json": ["$[?@.id==123].v", "$[?@.id==39999].name"],
    }.get(kind, ["id=123", "id=39999"])


@requirement("diff:hostile")
@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        (b"x" * 40_000_000, b"x" * 39_999_999 + b"y", "at least 1 of 1 line changed"),
        (b"x" * 9_000_000 + b"z" * 9, b"x" * 9_000_000 + b"y" * 9, "1 of 1 line changed"),
        (b"a\n" * 2_000_000, b"a\n" * 1_999_000, "1,000 lines removed"),
        (b"[" * 100_000 + b"1" + b"]" * 100_000, b"[" * 100_000 + b"2" + b"]" * 100_000, "1 of 1 line changed"),
        (b'{"a":' * 900 + b"1" + b"}" * 900, b'{"a":' * 900 + b"2" + b"}" * 900, None),
        (b"\x00\xff\n" * 1000, b"\x00\xfe\n" * 1000, "1,000 of 1,000 lines changed"),
        (b"", b"a\n", "1 line added"),
    ],
    ids=["40 MB on one line", "one long line", "all equal", "deep", "900 levels", "binary", "empty"],
)  # fmt: skip
def test_hostile_outputs_end_with_a_true_answer(one: bytes, other: bytes, told: str | None) -> None:
    found = compared(one, other, bounds=Bounds())
    assert told_difference(found) == (told or told_difference(found))
    note = "a line there has over 32 MB: only where they begin to differ is shown"
    assert (note in found.notes) == (not found.complete)
    assert found.total
    assert sum(len(told_change(change)) for change in found.changes) < 20_000
    change = found.changes[0]
    if change.before and change.after:
        assert change.before.text != change.after.text


@requirement("diff:hostile")
def test_more_lines_than_are_held_at_once_are_compared_window_by_window(monkeypatch: pytest.MonkeyPatch) -> None:
    other = [*LINES[:10], "new", *LINES[10:1500], "newer", *LINES[1501:2900], *LINES[3100:], "end", LINES[1500]]
    at_once = compared("\n".join(LINES), "\n".join(other))
    monkeypatch.setattr(module, "MOST_ITEMS", 1000)
    found = compared("\n".join(LINES), "\n".join(other))
    assert (told_difference(found), found.complete, found.notes) == (told_difference(at_once), True, ())
    assert found.changes == at_once.changes
    assert told_difference(found) == "1 of 4,210 lines changed, 3 added, 200 removed, 1 of them moved"


@requirement("diff:large")
def test_what_only_one_side_goes_on_with_is_told_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1000)
    text, more = "".join(f"{at}\n" for at in range(999)), "".join(f"{at} is new\n" for at in range(9000))
    assert told_difference(compared(text, text + more)) == "9,000 lines added"
    assert told_difference(compared(more + text, text)) == "9,000 lines removed"
    assert told_difference(compared(text + more, text)) == "9,000 lines removed"
    changed = text.replace("7\n", "7.\n", 1)
    assert told_difference(compared(text, changed + more)) == "1 of 999 lines changed, 9,000 added"


@requirement("diff:hostile")
def test_the_time_is_over_between_two_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    now, real = [0.0], module.differences

    def slow(*given: Any) -> Any:
        now[0] += 20
        return real(*given)

    monkeypatch.setattr(module, "differences", slow)
    monkeypatch.setattr(module, "MOST_ITEMS", 1000)
    other = [*LINES[:10], "new", *LINES[10:], "end"]
    with within(Deadline(60, clock=lambda: now[0])):
        found = compared("\n".join(LINES), "\n".join(other))
    assert (told_difference(found), found.complete) == ("at least 1 line added", False)
    assert found.notes == (
        "compared up to lines 1,010 and 1,011: stopped after 36 s; it goes further with a higher grep_seconds",
    )


@requirement("diff:hostile")
def test_lines_that_all_differ_and_more_than_are_looked_at_give_at_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ITEMS", 1000)
    none = compared("".join(f"a{n}\n" for n in range(2000)), "".join(f"b{n}\n" for n in range(2000)))
    assert told_difference(none) == "at least 1 of 2,000 lines changed"


@requirement("diff:hostile")
@pytest.mark.parametrize(
    "text", ["[{}]", '{{"a": [{}]}}', '[{{"id": 1, "b": [[{}]]}}]'], ids=["elements", "below a member", "below a row"]
)
def test_more_values_than_are_looked_at_are_compared_by_lines(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (text.format(",".join(value * 300)) for value in "12")
    assert compared(one, other).unit == "value"
    monkeypatch.setattr(module, "_MOST_ROWS", 200)
    assert compared(one, other).unit == "line"
    monkeypatch.setattr(module, "_MOST_ROWS", 300)
    monkeypatch.setattr(module, "_MOST_COMMAS", 200)
    found = compared(one, other)
    assert (found.unit, found.notes) == ("line", ("too deep, too large or not what it looks like: compared by lines",))


CELLS = "".join(f"{number},1,2\n" for number in range(50))


@requirement("diff:rows")
@pytest.mark.parametrize(
    ("one", "other", "told"),
    [
        ("id,v,v\n" + CELLS, "id,v,v\n" + CELLS.replace(",1,2", ",6,2"), "50 of 50 rows changed"),
        ("id,a,b\n" + CELLS, "id,b,a\n" + CELLS, "50 of 50 rows changed"),
        ("id,a\n7,1\n8,1\n", "id,a\n7,1,EVIL\n8,1\n", "1 of 3 lines changed"),
        ('{"id":1,"a":1,"a":2,"a (2)":3}\n' * 2, '{"id":1,"a":1,"a":9,"a (2)":3}\n' * 2, "2 of 2 lines changed"),
        ('{"id":1}\n{"id":2}\n', '{"id":1}\n{"id":2} {"evil":1}\n', "1 of 2 lines changed"),
        ("id,a\n7,1\n8,1\n", 'id,a\n7,"1"\n8,1\n', "no row changed, added or removed"),
    ],
)
def test_what_has_changed_is_never_said_to_be_the_same(one: str, other: str, told: str) -> None:
    found = compared(one, other)
    if told_difference(found).startswith("no row"):
        assert found.notes == ("the same rows, written in another way",)
    else:
        assert told_difference(found) == told


@requirement("diff:json")
def test_a_member_that_occurs_again_is_told_from_one_with_such_a_name() -> None:
    found = compared('{"a":1,"a":2,"a (2)":3}', '{"a":1,"a":9,"a (2)":3}')
    assert (found.changed, found.changes[0].before and found.changes[0].before.text) == (1, "2")


@requirement("diff:hostile")
def test_a_long_name_is_not_held_once_for_each_value_below_it() -> None:
    one, other = (f'{{"{"k" * 50_000}": [{",".join(value * 2000)}]}}' for value in "12")
    tracemalloc.start()
    try:
        found = compared(one, other)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (found.changed, found.total) == (1, 1)
    assert peak < 5_000_000  # a hundred megabytes with a path for each


@requirement("diff:hostile")
def test_when_its_time_is_over_it_says_where_the_two_begin_to_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def slow(*given: Any) -> list[Any]:
        now[0] += 50
        return differences(*given)

    monkeypatch.setattr(module, "differences", slow)
    with within(Deadline(60, clock=lambda: now[0])):
        found = compared("a\nb\nc\n", "a\nx\nc\n")
    assert (told_difference(found), found.complete) == ("at least 1 of 3 lines changed", False)
    assert found.notes == ("the comparison was stopped after 36 s; it goes further with a higher grep_seconds",)
    assert found.changes[0].before
    assert found.changes[0].before.lines == Span(2, 2)


def test_changes_that_were_shown_before_the_time_was_over_are_told_and_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, real = [0.0], module._change  # pyright: ignore[reportPrivateUsage]

    def slow(*given: Any) -> Any:
        now[0] += 25
        deadline.check()
        return real(*given)

    monkeypatch.setattr(module, "_change", slow)
    with within(Deadline(60, clock=lambda: now[0])):
        found = compared("a\nb\nc\nd\ne", "1\nb\n2\nd\n3")
    assert (found.total, len(found.changes), found.next, found.complete) == (3, 2, 2, True)


def test_rows_are_looked_for_within_the_time_of_the_call_where_all_lines_are_blank_too() -> None:
    looks = itertools.count()
    with within(Deadline(1, clock=lambda: next(looks) / 1000)), pytest.raises(OutOfTime):
        compared("\n" * 20_000, "\n" * 20_001, by="rows")
    assert next(looks) < 2000


def test_opening_the_other_output_is_part_of_the_time_of_the_call() -> None:
    seen: list[float] = []

    @contextlib.contextmanager
    def opening(_: str) -> Generator[FileReader]:
        seen.append(deadline.of_seconds().seconds)
        yield opened(b"b\n")

    diff(opened(b"a\n"), other="other", bounds=Bounds(settings=Settings(grep_seconds=7.0), open=opening))
    assert seen == [7.0]


def without(data: bytes, spans: list[Span]) -> bytes:
    """What is left of it beside these."""
    borders = [0, *(border for span in spans for border in (span.start, span.end)), len(data)]
    assert borders == sorted(borders)
    return b"".join(data[start:end] for start, end in list(itertools.pairwise(borders))[::2])


@requirement("diff:lines")
@given(
    st.lists(st.sampled_from(["a", "b", "", "ab", "c" * 9]), max_size=12),
    st.lists(st.sampled_from(["a", "b", "", "ab", "c" * 9]), max_size=12),
    st.sampled_from([1, 2, 4, 1 << 20]),
)
@example(["x", "y", "a", "b"], ["a", "b", "a", "b"], 4)
def test_beside_the_changes_both_outputs_are_the_same(lines: list[str], others: list[str], piece: int) -> None:
    """However large the pieces are in which they are read."""
    one, other = ("".join(f"{line}\n" for line in side).encode() for side in (lines, others))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_PIECE", piece)
        found = compared(one, other, by="lines")
    left = without(one, [change.before.bytes for change in found.changes if change.before])
    assert left == without(other, [change.after.bytes for change in found.changes if change.after])
    assert found.removed + found.changed == len(lines) - left.count(b"\n")
    assert found.added + found.changed == len(others) - left.count(b"\n")
    assert (found.total, found.of, found.next) == (len(found.changes), len(lines) if one != other else None, None)


LONG = "x" * 250 + "{}" + "y" * 400


@pytest.mark.parametrize("by", ["lines", "json"])
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_of_what_is_long_both_sides_show_where_they_begin_to_differ(
    by: str, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PIECE", piece)
    one, other = (f'"{LONG.format(sign)}"' for sign in ("BEFORE", "AFTER"))
    (change,) = compared(one, other, by=by).changes
    for side, text in ((change.before, "BEFORE"), (change.after, "AFTER")):
        assert side
        assert side.cut
        assert side.text == f"…{'x' * 100}{(text + 'y' * 100)[:100]}…"
        assert side.bytes == Span(151, 351)
    short = compared("x" * 300 + "\n", "x" * 299 + "\n", by="lines").changes[0]
    assert [side and (side.text, side.cut) for side in (short.before, short.after)] == [
        ("x" * 300, False),
        ("x" * 299, False),
    ]
    over = compared("x" * 301 + "\n", "z" * 301 + "\n", by="lines").changes[0]
    assert over.before
    assert (over.before.text, over.before.bytes, over.before.cut) == ("x" * 100 + "…", Span(0, 100), True)


def test_of_many_lines_the_first_six_are_shown() -> None:
    lines = [f"new {at} {'x' * 90}" for at in range(7)]
    for number, cut in ((6, False), (7, True)):
        (change,) = compared("a\n", "a\n" + "".join(f"{line}\n" for line in lines[:number])).changes
        assert change.after
        assert (change.after.text, change.after.cut) == ("\n".join(lines[:6]), cut)
        assert change.after.bytes == Span(2, 2 + 97 * number)
        assert told_change(change).endswith("\n+ … 1 more line" if cut else lines[5])
        (change,) = compared("a\n", "a\n" + "\n".join(lines[:number]) + "\n", bounds=WHOLE).changes
        assert change.after
        assert (change.after.text, change.after.cut) == ("\n".join(lines[:number]), False)


def test_what_is_left_out_of_a_value_or_a_long_line_is_counted() -> None:
    one, other = (json.dumps({"a": [sign * 1000]}) for sign in "xy")
    for by in ("lines", "json"):
        (change,) = compared(one, other, by=by).changes
        assert change.after
        assert change.after.left == {"lines": 903, "json": 901}[by]
        assert told_change(change).endswith({"lines": "\n+ … 903 more bytes", "json": "… (901 more bytes)"}[by])
    (row,) = compared("id,a\n1,%s\n2,c\n" % ("x" * 400), "id,a\n1,%s\n2,c\n" % ("y" * 400), by="rows").changes
    assert told_change(row).endswith("y… (103 more bytes)")
    (added,) = compared("id,a\n1,b\n", "id,a\n1,b\n2,%s\n" % ("y" * 400), by="rows").changes
    assert told_change(added).endswith("y… (102 more bytes)")


def test_what_is_no_text_is_shown_as_its_bytes() -> None:
    (change,) = compared(b"\x00\xff\n", b"\x00\xfe" * 200 + b"\n").changes
    assert change.before
    assert change.after
    assert (change.before.text, change.before.exact) == ("00 ff", False)
    assert (change.after.text, change.after.exact) == (" ".join(["00 fe"] * 50) + "…", False)


def test_an_answer_holds_as_many_changes_as_are_asked_for_and_fit() -> None:
    one, other = "".join(f"{at}\n" for at in range(10)), "".join(f"{at if at % 2 else 'new'}\n" for at in range(10))
    cost = len("0") + len("new") + 48
    for room, number in ((cost - 1, 1), (2 * cost - 1, 1), (2 * cost, 2), (5 * cost, 5)):
        found = compared(one, other, bounds=Bounds(room))
        assert (len(found.changes), found.next) == (number, number if number < 5 else None)
        rest = compared(one, other, bounds=Bounds(room), skip=number)
        assert [*found.changes, *rest.changes][number : number + 1] == list(rest.changes[:1])
    assert [compared(one, other, limit=limit).next for limit in (1, 4, 5)] == [1, 4, None]
    named = ['{"one": [1, 2], "two": 3}', '{"one": [1, 4], "two": 5}']
    for room, number in ((2 * (2 + 5 + 48) + len("[1]"), 2), (2 * (2 + 5 + 48) + len("[1]") - 1, 1)):
        assert len(compared(*named, bounds=Bounds(room)).changes) == number
    many = ["".join(f"{sign}{at}\n\n" for at in range(250)) for sign in "ab"]
    assert (
        compared(*many, by="lines").next,
        compared(*many, by="lines", bounds=replace(UNBOUNDED, whole=True)).next,
    ) == (
        200,
        None,
    )


def test_what_calls_left_behind_is_said_of_the_one_that_did() -> None:
    def told(**facts: Any) -> tuple[str, ...]:
        one, other = opened(b"a\n"), opened(b"b\n")
        other.facts = replace(other.facts, **facts)
        return compare(one, other, bounds=UNBOUNDED).notes

    assert told() == ()
    assert told(state="running") == ("still running: compared what is there so far",)
    (failed,) = told(state="failed", error="it broke")
    assert failed.startswith("the call of the later one did not end well: ")


def test_two_outputs_are_compared_and_not_one_with_itself() -> None:
    one = opened(b"a\n")
    with pytest.raises(UsageError, match="these are the same output"):
        compare(one, one, bounds=UNBOUNDED)
    with pytest.raises(UsageError, match="name the other output"):
        diff(one, other="", bounds=replace(UNBOUNDED, open=contextlib.nullcontext))
    with pytest.raises(UsageError, match="name the other output"):
        diff(one, other="x", bounds=UNBOUNDED)


@requirement("diff:hostile")
def test_more_than_is_looked_at_closer_is_compared_by_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = "".join(f"{at},{at}\n" for at in range(300)), "".join(f"{at},{at % 250}\n" for at in range(300))
    one, other = "id,v\n" + one, "id,v\n" + other
    monkeypatch.setattr(module, "MOST_BYTES", len(one))
    assert (compared(one, other).unit, compared(one, other, by="lines").unit) == ("row", "line")
    monkeypatch.setattr(module, "MOST_BYTES", len(one) - 1)
    assert (compared(one, other).unit, compared(one, other).notes[0]) == ("line", "over 0 MB: compared by lines")
    monkeypatch.undo()
    lines = [json.dumps({"id": at, "v": [1, 2, 3]}) + "\n" for at in range(9)]
    changed = [*lines[:-1], '{"id":8,"v":[]}\n']
    monkeypatch.setattr(module, "_MOST_COMMAS", 27)
    assert compared("".join(lines), "".join(changed)).unit == "row"
    monkeypatch.setattr(module, "_MOST_COMMAS", 26)
    assert compared("".join(lines), "".join(changed)).unit == "line"


@requirement("diff:rows")
def test_a_cell_without_a_name_far_down_and_a_key_that_is_nothing_are_no_rows_to_compare() -> None:
    rows = [f"{at},{at}\n" for at in range(300)]
    evil = [*rows[:250], "250,250,evil\n", *rows[251:]]
    found = compared("id,v\n" + "".join(rows), "id,v\n" + "".join(evil))
    assert (found.unit, found.changed) == ("line", 1)
    one, other = ('{"id":null,"a":1}\n{"id":2,"a":' + f"{number}}}\n" for number in (2, 3))
    assert [change.name for change in compared(one, other).changes] == ["a=3", "a=2"]


@requirement("diff:lines")
def test_what_was_found_before_the_end_of_what_is_looked_at_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    other = [*LINES[:3], "another", *LINES[4:2500], *(f"{one}!" for one in LINES[2500:])]
    monkeypatch.setattr(module, "MOST_ITEMS", 1000)
    found = compared("\n".join(LINES), "\n".join(other))
    assert (counts(found), found.total, found.complete) == ((1, 0, 0), 1, False)
    assert found.notes == ("compared up to lines 2,501 and 2,501: the rest is too large",)


@requirement("diff:hostile")
def test_values_that_were_found_before_the_time_was_over_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now, real = [0.0], module._opened  # pyright: ignore[reportPrivateUsage]

    def slow(*given: Any) -> Any:
        now[0] += 10
        return real(*given)

    monkeypatch.setattr(module, "_opened", slow)
    for names, total in (("abcdef", 3), ("", 0)):
        one, other = (
            {"x": dict.fromkeys(names, value)} if names else {"x": {"y": {"z": {"a": {"b": value}}}}}
            for value in (1, 2)
        )
        now[0] = 0.0
        with within(Deadline(60, clock=lambda: now[0])):
            found = compared(json.dumps(one), json.dumps(other))
        assert (found.unit, found.complete) == ("value" if total else "line", False)
        assert 0 < found.changed < 6
        where = f" at $.x.{names[found.changed]}" if names else ""
        assert found.notes == (
            f"the comparison was stopped after 36 s{where}; it goes further with a higher grep_seconds",
        )


@requirement("diff:hostile")
def test_more_values_than_are_told_say_up_to_which_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ITEMS", 2)
    found = compared('{"a":1,"b":1,"c":1}', '{"a":2,"b":2,"c":2}')
    assert (counts(found), found.complete, found.notes) == ((2, 0, 0), False, ("the first 2 changes, up to $.b",))


@requirement("diff:json")
def test_elements_that_are_the_same_written_in_another_way_are_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    members, opened_at = module._members, list[int]()  # pyright: ignore[reportPrivateUsage]

    def counting(text: str, at: int) -> Any:
        opened_at.append(at)
        return members(text, at)

    monkeypatch.setattr(module, "_members", counting)
    rows = [{"id": number, "tags": ["é", {"deep": [number, None]}], "v": 1.5} for number in range(500)]
    other = [*rows[:9], {**rows[9], "v": "1.5"}, *rows[10:]]
    found = compared(json.dumps(rows), json.dumps(other, separators=(",", ":"), ensure_ascii=False))
    assert ([change.name for change in found.changes], found.notes) == (["$[?@.id==9].v"], ())
    assert len(opened_at) == 2  # the one that differs, on both sides


@requirement("diff:json")
@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ('{"a":[1,2]}', '{ "a": [1, 2] }', True),
        ('{"a":"\\u00e9"}', '{"a": "é"}', True),
        ('{"a":1}', '{"a": "1"}', False),
        ('{"a":1}', '{"a": 1.0}', False),
        ('{"a":null}', '{"a": "null"}', False),
        ('{"a":1,"a":2}', '{"a": 3, "a": 2}', False),
        ('{"a":{"b":1}}', '{"a": [["b", 1]]}', False),
    ],
)
def test_values_are_the_same_only_where_nothing_but_the_way_of_writing_differs(
    one: str, other: str, same: bool
) -> None:
    found = compared(f"[0, {one}]", f"[0, {other}]")
    assert (found.total == 0, found.notes) == (same, ("the same values, written in another way",) if same else ())


@requirement("diff:rows")
def test_columns_that_came_went_or_changed_places_are_told() -> None:
    rows = ["1,a,x", "2,b,y"]
    told = {
        other: compared("\n".join(["id,n,v", *rows]), "\n".join([other, *changed])).notes
        for other, changed in {
            "id,n": ["1,a", "2,b"],
            "id,n,v,w": ["1,a,x,0", "2,b,y,0"],
            "id,v,n": ["1,x,a", "2,y,b"],
            "id,v,w": ["1,x,0", "2,y,0"],
        }.items()
    }
    assert told == {
        "id,n": ("1 column removed: v",),
        "id,n,v,w": ("1 column added: w",),
        "id,v,n": ("columns in another order",),
        "id,v,w": ("1 column removed: n", "1 column added: w"),
    }


@requirement("diff:rows")
def test_a_row_over_several_lines_has_its_place_and_a_long_one_is_cut() -> None:
    one = 'id,text\n1,"two\nlines"\n2,b\n3,c\n'
    other = f'\ufeffid,text\n1,"two\nother lines"\n2,{"b" * 400}\n\n4,{"d" * 400}\n'
    found = {change.name: change for change in compared(one, other).changes}
    assert list(found) == ["id=1", "id=2", "id=4", "id=3"]
    first, second, added, removed = found.values()
    assert [side and (side.text, side.lines, side.cut) for side in (first.before, first.after)] == [
        ("text: two\nlines", Span(2, 3), False),
        ("text: two\nother lines", Span(2, 3), False),
    ]
    assert second.after
    assert (second.after.text, second.after.cut) == ("text: " + "b" * 294 + "…", True)
    assert added.after
    assert (added.before, added.after.text, added.after.cut) == (None, "4," + "d" * 298, True)
    assert removed.before
    assert (removed.before.text, removed.after, removed.before.bytes) == ("3,c", None, Span(26, 29))


@requirement("diff:json")
def test_json_deeper_than_is_opened_or_below_a_long_path_is_one_value() -> None:
    def nested(levels: int, value: str, name: str = "a") -> str:
        return f'{{"{name}":' * levels + value + "}" * levels

    assert compared(nested(100, "1"), nested(100, "2")).changes[0].name == "$" + ".a" * 100
    assert compared(nested(101, "1"), nested(101, "2")).changes[0].name == "$" + ".a" * 100
    wide = "k" * 499  # with its point five hundred characters
    assert compared(nested(3, "1", wide), nested(3, "2", wide)).changes[0].name == "$" + f".{wide}" * 2
    assert compared(nested(2, '"\\u0061"'), nested(2, '"a"')).total == 0


NUMBERS = [f"line {number}\n" for number in range(1000)]


def near(one: str, other: str) -> Difference | None:
    return near_difference(opened(one.encode()), opened(other.encode()))


@pytest.mark.parametrize(
    ("lines", "changed", "is_near"), [(1000, 50, True), (1000, 51, False), (100, 20, True), (100, 21, False)]
)
def test_two_are_nearly_the_same_where_twenty_lines_or_a_twentieth_differ(
    lines: int, changed: int, is_near: bool
) -> None:
    other = [line if at >= changed else f"LINE {at}\n" for at, line in enumerate(NUMBERS[:lines])]
    found = near("".join(NUMBERS[:lines]), "".join(other))
    assert (found and found.changed) == (changed if is_near else None)


def test_what_is_more_than_half_of_one_of_them_is_not_little() -> None:
    assert near("same\n" * 10, "same\n" * 10 + "x" * 49 + "\n")
    assert near("same\n" * 10, "same\n" * 10 + "x" * 50 + "\n") is None
    assert near("same\n" * 10 + "x" * 50 + "\n", "same\n" * 10) is None


def test_only_two_of_a_kind_that_are_not_too_large_are_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    table = "id,v\n" + "".join(f"{at},{at}\n" for at in range(300))
    assert near(table, "".join(NUMBERS)) is None
    found = near(table, table.replace("7,7\n", "7,8\n", 1))
    assert found
    assert (found.unit, found.changes[0].name) == ("row", "id=7")
    monkeypatch.setattr(module, "_CLOSE_BYTES", len(table))
    assert (near(table, table.replace("7,7\n", "7,8\n", 1)) or found).unit == "row"
    monkeypatch.setattr(module, "_CLOSE_BYTES", len(table) - 1)
    found = near(table, table.replace("7,7\n", "7,8\n", 1))
    assert found
    assert found.unit == "line"
    monkeypatch.setattr(module, "NEAR_BYTES", len(table))
    assert near(table, table.replace("7,7\n", "7,8\n", 1))
    monkeypatch.setattr(module, "NEAR_BYTES", len(table) - 1)
    assert near(table, table.replace("7,7\n", "7,8\n", 1)) is None
    same = near(table, table)
    assert same
    assert same.same_bytes
