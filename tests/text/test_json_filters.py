"""Filters of a JSONPath: which values pass, where they are, and what is refused."""

import json
import operator
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.text.json import filters
from holdall.text.json.filters import find_filtered, with_wildcard
from holdall.text.json.find import Finding, Hit, find
from holdall.text.json.path import parse_path
from holdall.values.errors import BadQuery
from tests.requirements import requirement


def found(data: bytes, path: str, *, lines: bool = False, **page: Any) -> Finding:
    return find_filtered(
        lambda start, end: data[start:end], len(data), parse_path(path, filters=True), lines=lines, **page
    )


def values(document: Any, path: str) -> list[Any]:
    data = json.dumps(document).encode()
    return [json.loads(data[hit.start : hit.end]) for hit in found(data, path).hits]


ITEMS = [
    {"n": 1, "s": "a", "t": True},
    {"n": 2.5, "s": "b c", "u": None},
    {"n": "2", "s": "it's", "sub": {"x": [10, 20]}},
    {"n": 1.0, "o": {"k": [1]}, "p": {"k": [1.0]}},
    7,
]


@requirement("query:path-filter")
@pytest.mark.parametrize(
    ("test", "which"),
    [
        ('@.s=="a"', [0]),
        ("@.s == 'it\\'s'", [2]),
        ("@.n==1", [0, 3]),
        ("@.n>=1 && @.n<2.5", [0, 3]),
        ("@.n>0 || @.s=='it\\'s'", [0, 1, 2, 3]),
        ("@.n=='2'", [2]),
        ("@.n!=1", [1, 2, 4]),
        ("@.t==true", [0]),
        ("@.t==1", []),
        ("@.u==null", [1]),
        ("@.u", [1]),
        ("!@.n", [4]),
        ("!(@.t || @.u)", [2, 3, 4]),
        ("@.sub.x[1]==20", [2]),
        ('@["sub"]["x"][0] < 11', [2]),
        ("@==7", [4]),
        ("@.o==@.p", [0, 1, 2, 3, 4]),
        ("@.o && @.o==@.p", [3]),
        ("@.gone==@.lost", [0, 1, 2, 3, 4]),
        ("@.s<'b'", [0]),
        ("@.s<5", []),
        ("@.n==-1e2", []),
    ],
)
def test_what_passes(test: str, which: list[int]) -> None:
    for path in (f"$.items[?{test}]", f"$.items[? ( {test} ) ]"):
        assert values({"items": ITEMS}, path) == [ITEMS[at] for at in which], path


@requirement("query:path-filter")
def test_what_is_behind_a_filter_members_of_objects_records_and_further_filters() -> None:
    document = {"jobs": {"a": {"ok": False, "log": [{"l": "E", "m": 1}, {"l": "I", "m": 2}]}, "b": {"ok": True}}}
    data = json.dumps(document).encode()
    (hit,) = found(data, '$.jobs[?@.ok==false].log[?@.l=="E"].m').hits
    assert (hit.path, data[hit.start : hit.end]) == ("$['jobs']['a']['log'][0]['m']", b"1")
    assert values(document, '$..[?@.l=="I"].m') == [2]
    records = b"".join(json.dumps({"id": number, "odd": number % 2 == 1}).encode() + b"\n" for number in range(10))
    odd = found(records, "$[?@.odd==true].id", lines=True, first=1, limit=2)
    assert ([records[hit.start : hit.end] for hit in odd.hits], odd.total, odd.looked_at) == ([b"3", b"5"], 5, 10)


@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.integers(0, 4) | st.text("xy", max_size=2) | st.none()), max_size=20),
    st.sampled_from("ab"),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.integers(0, 4) | st.text("xy", max_size=2),
    st.integers(0, 3),
    st.integers(1, 5),
)  # fmt: skip
def test_a_page_is_what_a_walk_over_all_finds(
    items: list[dict[str, Any]], name: str, sign: str, value: Any, first: int, limit: int
) -> None:
    compare = {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }

    def passes(item: dict[str, Any]) -> bool:
        if name not in item or type(item[name]) is not type(value):
            return sign == "!="
        return bool(compare[sign](item[name], value))

    data = json.dumps(items, indent=1).encode()
    page = found(data, f"$[?@.{name} {sign} {json.dumps(value)}]", first=first, limit=limit)
    wanted = [item for item in items if passes(item)]
    assert page.total == len(wanted)
    assert [json.loads(data[hit.start : hit.end]) for hit in page.hits] == wanted[first : first + limit]


def test_values_inside_of_each_other_with_long_names_take_no_more_than_they_are() -> None:
    levels = 200
    data = (b'{"k":1,"' + b"n" * 500 + b'":') * levels + b"1" + b"}" * levels
    tracemalloc.start()
    try:
        page = found(data, "$..[?@.k==1]", limit=10)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (page.total, len(page.hits)) == (levels - 1, 10)
    assert page.hits[-1].path == "$" + f"['{'n' * 500}']" * 10
    assert peak < 10 * len(data)


@pytest.mark.parametrize("path", ["$..x", "$..*"])
def test_the_clock_is_looked_at_all_the_way_down(path: str) -> None:
    levels, reads = 20_000, 0

    def read(start: int, end: int) -> bytes:  # at a read a call that takes too long is ended
        nonlocal reads
        reads += 1
        return data[start:end]

    data = b"[" * levels + b"]" * levels
    find(read, len(data), parse_path(path), lines=False, limit=1)
    assert reads > 2 * levels // 1000


def test_values_that_are_huge_or_deep_are_tried_by_what_the_filter_names() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    data = b'[{"a": 1, "b": ' + deep + b'}, {"b": "' + b"x" * 600_000 + b'", "a": 2}, {"a": ' + deep + b"}]"
    assert found(data, "$[?@.a==1]").total == found(data, "$[?@.a==2]").total == 1
    assert found(data, "$[?@.a]").total == 3
    assert found(data, '$[?@.b!="x"]').total == 3
    assert found(b'[{"a": ' + b"9" * 5000 + b"}]", "$[?@.a>1]").total == 1


@requirement("query:path-filter")
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("$[?@.a", "expected , or ] here"),
        ("$[?length(@.a)>1]", "expected @.name, a text in quotes"),
        ("$[?@.a==$.b]", "for more than that use SQL"),
        ("$[?@..a]", "a path names one value"),
        ("$[?@.a[*]==1]", "a path names one value"),
        ("$[?@.a==1, 0]", "a filter stands alone"),
        ("$[?5]", "expected a comparison here"),
        ("$[?(@.a==1]", "expected ) here"),
        ("$[?" + "(" * 50 + "@.a" + ")" * 50 + "]", "nests at most 20 deep"),
        ("$[?" + "||".join(["@.a"] * 17) + "]", "at most 16 comparisons"),
    ],
)
def test_what_is_not_simple_is_refused_with_what_to_write(path: str, why: str) -> None:
    with pytest.raises(BadQuery) as refused:
        parse_path(path, filters=True)
    assert why in str(refused.value)


def test_what_leads_to_a_filter_has_a_wildcard_in_its_place() -> None:
    assert len(with_wildcard(parse_path("$.a[?@.b].c", filters=True)).segments) == 2


NESTED = st.recursive(
    st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=30,
)


def _inside(value: Any) -> list[Any]:
    """All that is below, each before what is in it."""
    members: list[Any] = [*value.values()] if isinstance(value, dict) else [*value] if isinstance(value, list) else []  # pyright: ignore
    return [one for member in members for one in (member, *_inside(member))]


def _has_a(one: Any) -> bool:
    return isinstance(one, dict) and "a" in one


def _has_first(one: Any) -> bool:
    return isinstance(one, list) and bool(one)  # pyright: ignore


def _is_number(one: Any) -> bool:
    return isinstance(one, int)


def _is_one(one: Any) -> bool:
    return one == 1


CHECKS: dict[str, Callable[[Any], bool]] = {"@==1": _is_one, "@.a": _has_a, "@>=0": _is_number, "@[0]": _has_first}


@requirement("query:path-filter")
@given(NESTED, st.sampled_from([*CHECKS]), st.integers(0, 4), st.none() | st.integers(1, 4))
def test_values_inside_of_each_other_come_in_their_order(
    document: Any, test: str, first: int, limit: int | None
) -> None:
    data = json.dumps(document).encode()
    passing = [one for one in _inside(document) if CHECKS[test](one)]
    page = found(data, f"$..[?{test}]", first=first, limit=limit)
    wanted = passing[first:] if limit is None else passing[first : first + limit]
    assert [json.loads(data[hit.start : hit.end]) for hit in page.hits] == wanted
    assert page.total == len(passing)


@requirement("query:path-filter", "query:path-bounded-memory")
def test_of_many_that_wait_for_the_one_they_are_in_only_those_of_the_page_are_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(filters, "_HELD", 2000)
    data = json.dumps({"all": list(range(5000))}).encode()
    page = found(data, "$..[?@>=0]", first=3, limit=4)
    assert [hit.path for hit in page.hits] == [f"$['all'][{n}]" for n in range(3, 7)]
    assert page.total == 5000
    taken: list[str] = []

    def take(hit: Hit) -> None:
        taken.append(hit.path)

    given_to = found(data, "$..[?@>=0]", take=take)
    assert taken == [f"$['all'][{n}]" for n in range(len(taken))]
    assert 0 < given_to.given == len(taken) < given_to.total == 5000
    many = json.dumps({"all": [{"x": n} for n in range(5000)]}).encode()
    with pytest.raises(BadQuery, match="too many values inside of each other pass the filter"):
        found(data, "$..[?@>=0]", first=4000, limit=5)
    with pytest.raises(BadQuery, match="too many values inside of each other pass the filter"):
        found(many, "$..[?@.x].x")
