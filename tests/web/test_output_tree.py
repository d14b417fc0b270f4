"""JSON as a tree: one level at a time, a page of it, whatever the size and the depth."""

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.values.spans import Span
from holdall.web.output_rows import (
    PAGE,
    Child,
    Level,
    Place,
    Reader,
    Step,
    Way,
    children_of,
    count_of,
    records_of,
    root_of,
    way_to,
)
from tests.support import reader_of

_SECONDS = 60.0
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=6), inner, max_size=5),
    max_leaves=30,
)


def _all_of(reader: Reader, at: int) -> list[Child]:
    found: list[Child] = []
    after: Place | None = None
    while True:
        level = children_of(reader, at, after=after, seconds=_SECONDS)
        assert not level.fault
        found += level.children
        after = level.next
        if after is None:
            return found


def _value(reader: Reader, child: Child) -> Any:
    """The value that a child stands for, by opening everything below it."""
    assert child.end is not None
    if child.kind == "object":
        return {one.name: _value(reader, one) for one in _all_of(reader, child.start)}
    if child.kind == "array":
        return [_value(reader, one) for one in _all_of(reader, child.start)]
    return json.loads(reader.read(child.start, child.end))


def test_each_of_two_members_with_one_name_is_in_the_tree() -> None:
    reader = reader_of(b'{"a": 1, "b": 2, "a": 3}')
    shown = [(one.name, one.runs) for one in children_of(reader, 0, seconds=_SECONDS).children]
    assert shown == [("a", ["1"]), ("b", ["2"]), ("a", ["3"])]


@given(_JSON, st.sampled_from([None, 1]), st.booleans())
def test_a_tree_that_is_opened_everywhere_is_the_document(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    reader = reader_of(text.encode("utf-8", "surrogatepass"))
    root = root_of(reader, seconds=_SECONDS)
    assert len(root.children) == 1
    assert _value(reader, root.children[0]) == value


def test_a_long_array_comes_in_pages() -> None:
    reader = reader_of(json.dumps(list(range(1000))).encode())
    first = children_of(reader, 0, seconds=_SECONDS)
    assert [child.index for child in first.children] == list(range(PAGE))
    assert first.next is not None
    assert [child.runs for child in children_of(reader, 0, after=first.next, seconds=_SECONDS).children[:2]] == [
        ["100"],
        ["101"],
    ]
    assert len(_all_of(reader, 0)) == 1000


def test_a_value_knows_its_bytes_its_kind_and_its_beginning() -> None:
    text = b' {"n\\u0061me": "' + b"x" * 500 + b'", "n": -1.5e3, "t": true, "o": {}, "a": [1]} '
    found = _all_of(reader_of(text), 1)
    assert [(child.name, child.kind) for child in found] == [
        ("name", "string"), ("n", "number"), ("t", "word"), ("o", "object"), ("a", "array"),
    ]  # fmt: skip
    assert text[found[1].start : found[1].end] == b"-1.5e3"
    assert found[0].runs == ['"' + "x" * 159]


def test_an_empty_container_has_no_children() -> None:
    assert children_of(reader_of(b"[ ]"), 0, seconds=_SECONDS) == Level()
    assert children_of(reader_of(b"{}"), 0, seconds=_SECONDS) == Level()


@pytest.mark.parametrize(
    ("text", "shown"),
    [(b'{"a": 1, "b" 2}', ["a"]), (b'{"a": 1 "b": 2}', ["a"]), (b'{"a": 1, "b": [1, 2', ["a", "b"]), (b'{"a": 1, 2}', ["a"])],
)  # fmt: skip
def test_broken_json_is_shown_as_far_as_it_goes_and_says_where_it_breaks(text: bytes, shown: list[str]) -> None:
    level = children_of(reader_of(text), 0, seconds=_SECONDS)
    assert [child.name for child in level.children] == shown
    assert level.fault.startswith("The JSON is broken: ")
    assert level.next is None


def test_what_is_no_container_has_no_children_and_says_so() -> None:
    assert (
        children_of(reader_of(b"12"), 0, seconds=_SECONDS).fault == "At byte 0 neither an object nor an array begins."
    )


def test_a_hundred_thousand_levels_are_opened_one_by_one() -> None:
    depth = 100_000
    reader = reader_of(b"[" * depth + b"]" * depth)
    level = root_of(reader, seconds=_SECONDS)
    for at in range(0, depth, 20_000):
        level = children_of(reader, at, seconds=_SECONDS)
        assert [(child.start, child.end) for child in level.children] == [(at + 1, 2 * depth - at - 1)]


def test_a_page_that_takes_too_long_is_given_as_far_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(b'{"small": 1, "large": [' + b'"0123456789",' * 400_000 + b'0], "last": 2}')
    clock = itertools.count(0.0, 0.1)  # each look at it costs so much
    monkeypatch.setattr("holdall.web.output_rows.time.monotonic", lambda: next(clock))
    level = children_of(reader, 0, seconds=0.5)
    assert level.out_of_time
    assert [(child.name, child.end is None) for child in level.children] == [("small", False), ("large", True)]
    assert [child.name for child in children_of(reader, 0, seconds=1e9).children] == ["small", "large", "last"]


def test_records_of_ndjson_are_reached_by_their_line() -> None:
    reader = reader_of(b"".join(b'{"n": %d}\n' % at for at in range(5000)))
    level = records_of(reader, 4990)
    assert [child.index for child in level.children] == list(range(4989, 5000))
    assert level.next is None
    assert _value(reader, level.children[0]) == {"n": 4989}
    assert records_of(reader, 1).next == Place(0, PAGE + 1)


@given(_JSON, st.sampled_from([None, 1]))
def test_the_way_to_any_byte_leads_through_the_values_that_hold_it(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent).encode()
    reader = reader_of(text)
    (whole,) = root_of(reader, seconds=_SECONDS).children

    def check(child: Child, above: list[int]) -> None:
        assert child.end is not None
        way = way_to(reader, child.start, seconds=_SECONDS)
        assert way.rest is None
        assert [step.start for step in way.steps] == [*above, child.start]
        for one in _all_of(reader, child.start) if child.kind in ("object", "array") else ():
            check(one, [*above, child.start])

    check(whole, [])


def test_the_way_to_a_name_ends_at_its_member() -> None:
    text = b'{"first": 1, "second": {"third": 2}}'
    way = way_to(reader_of(text), text.index(b"third"), seconds=_SECONDS)
    assert way.rest is None
    assert [step.start for step in way.steps] == [0, text.index(b'{"third'), text.index(b"2}")]
    assert way_to(reader_of(text), len(text) + 5, seconds=_SECONDS) == Way([])


def test_the_way_through_json_that_breaks_off_goes_as_far_as_it_is_json() -> None:
    text = b'{"a": [{"b": 1}, {"c": "unfini'
    way = way_to(reader_of(text), text.index(b"unfini"), seconds=_SECONDS)
    assert way.rest is None
    assert [step.start for step in way.steps] == [0, 6, text.index(b'{"c"'), text.index(b'"unfini')]


def test_a_way_that_takes_too_long_goes_on_where_it_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b'{"few": 1, "many": [' + b'{"n": "0123456789"}, ' * 100_000 + b"0]}"
    reader, byte = reader_of(text), text.rindex(b"0123")
    at_once = way_to(reader, byte, seconds=_SECONDS).steps
    assert len(at_once) == 4
    clock = itertools.count(0.0, 0.1)  # each look at it costs so much
    monkeypatch.setattr("holdall.web.output_rows.time.monotonic", lambda: next(clock))
    steps, begin, answers = list[Step](), None, 0
    while True:
        found = way_to(reader, byte, begin=begin, seconds=5.0)
        steps += found.steps
        if found.rest is None:
            break
        assert found.rest != begin, "it gets further each time"
        begin, answers = found.rest, answers + 1
    assert steps == at_once
    assert answers > 1


def test_a_way_over_a_value_that_takes_too_long_by_itself_gets_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(b"[" + b'"0123456789",' * 400_000 + b"0]")
    clock = itertools.count(0.0, 0.1)
    monkeypatch.setattr("holdall.web.output_rows.time.monotonic", lambda: next(clock))
    assert way_to(reader, 4_000_000, seconds=0.5) == Way([], (None, Place(0)))


def test_a_container_says_how_many_values_are_in_it() -> None:
    text = json.dumps({"none": [], "nothing": {}, "some": [1, [2, 3], "a,b"], "one": {"x": {"y": 1, "z": 2}}, "n": 1})
    found = {child.name: child.count for child in _all_of(reader_of(text.encode()), 0)}
    assert found == {"none": 0, "nothing": 0, "some": 3, "one": 1, "n": None}
    assert root_of(reader_of(text.encode()), seconds=_SECONDS).children[0].count == 5
    assert records_of(reader_of(b'{"n": 1}\n[1, 2]\n3\n'), 1).children[1].count == 2


def test_what_is_large_is_counted_when_it_is_asked_for_and_as_long_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    record = b'{"n": 1, "of": [1, 2]}, ' + b'{"text": "' + b"x" * 500 + b'"}, '
    reader = reader_of(b'{"small": [1, 2], "large": [' + record * 16_000 + b"1]} ")
    small, large = _all_of(reader, 0)
    assert (small.count, large.count) == (2, None)
    assert large.end is not None
    place = Span(large.start, large.end)
    assert count_of(reader, place, seconds=_SECONDS) == 32_001
    assert count_of(reader, Span(0, reader.totals.bytes), seconds=_SECONDS) == 2
    assert count_of(reader, Span(0, large.end), seconds=_SECONDS) is None, "it has no end"
    clock = itertools.count(0.0, 0.1)
    monkeypatch.setattr("holdall.web.output_rows.time.monotonic", lambda: next(clock))
    assert count_of(reader, place, seconds=0.5) is None


def test_more_values_than_a_page_has_come_in_pages() -> None:
    reader = reader_of(b" ".join(b"[%d]" % at for at in range(250)))
    first = root_of(reader, seconds=_SECONDS)
    assert first.next is not None
    second = root_of(reader, after=first.next, seconds=_SECONDS)
    assert [child.index for child in second.children] == list(range(PAGE, 2 * PAGE))


def test_several_values_one_after_the_other_are_all_there() -> None:
    level = root_of(reader_of(b'{"a": 1}\n[2]\n"three"'), seconds=_SECONDS)
    assert [child.kind for child in level.children] == ["object", "array", "string"]


def test_a_name_of_half_a_character_can_be_told() -> None:
    level = children_of(reader_of(b'{"\\ud800": 1}'), 0, seconds=_SECONDS)
    assert json.dumps(level.to_json())
