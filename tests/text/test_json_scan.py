"""The scanner against a plain evaluator over json.loads: same values, same places, whatever the chunks.

And against itself, on text that is no JSON: the quick way and small pieces change nothing in what is found and said.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdall.text.json import find as find_module
from holdall.text.json.find import Finding, Hit, Layout, Reached, Scan, SeveralValues, find
from holdall.text.json.path import (
    Filter,
    Index,
    JsonPath,
    Name,
    Segment,
    Selector,
    Slice,
    Wildcard,
    normalized_path,
    parse_path,
)
from holdall.text.json.reader import JsonFault
from holdall.values.errors import BadQuery
from tests.requirements import requirement


def scan(data: bytes, path: str, *, layout: Layout = "one", chunk: int = 1 << 18) -> list[Hit]:
    return list(scanned(data, parse_path(path), layout=layout, chunk=chunk).hits())


def scanned(data: bytes, path: JsonPath, *, layout: Layout = "one", chunk: int = 1 << 18) -> Scan:
    return Scan(lambda start, end: data[start:end], len(data), path, layout=layout, chunk=chunk)


def texts(data: bytes, path: str) -> list[bytes]:
    return [data[hit.start : hit.end] for hit in scan(data, path)]


def found(data: bytes, path: str, *, lines: bool = False) -> Finding:
    return find(lambda start, end: data[start:end], len(data), parse_path(path), lines=lines)


# ── The plain evaluator ─────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Tree:
    """A value with its place. Objects are lists of pairs here, so that a name may occur twice."""

    order: int
    steps: list[bytes | int]
    value: Any
    children: "list[tuple[bytes | int, Tree]]"


class Pairs(list[tuple[str, Any]]):
    pass


def loaded(data: bytes) -> Any:
    return json.loads(data, object_pairs_hook=Pairs, parse_float=str, parse_int=str, parse_constant=str)


def tree_of(value: Any, steps: list[bytes | int], counter: Iterator[int]) -> Tree:
    tree = Tree(next(counter), steps, value, [])
    named: list[tuple[bytes | int, Any]] = []
    if isinstance(value, Pairs):
        named = [(name.encode("utf-8", "surrogatepass"), child) for name, child in value]
    elif isinstance(value, list):
        named = list(enumerate(cast("list[Any]", value)))
    tree.children = [(step, tree_of(child, [*steps, step], counter)) for step, child in named]
    return tree


def below(tree: Tree) -> Iterator[Tree]:
    yield tree
    for _, child in tree.children:
        yield from below(child)


def selects(selector: Selector, step: bytes | int) -> bool:
    match selector:
        case Name(name):
            return step == name.encode("utf-8", "surrogatepass")
        case Index(index):
            return step == index
        case Slice(start, stop, by):
            return isinstance(step, int) and by > 0 and step in range(start, 10**6 if stop is None else stop, by)
        case Wildcard():
            return True
        case Filter():
            raise AssertionError("not of this suite")


def evaluated(root: Tree, path: JsonPath) -> list[Tree]:
    nodes = [root]
    for segment in path.segments:
        parents = [tree for node in nodes for tree in (below(node) if segment.descendants else [node])]
        chosen = {
            child.order: child
            for parent in parents
            for step, child in parent.children
            if any(selects(selector, step) for selector in segment.selectors)
        }
        nodes = [chosen[order] for order in sorted(chosen)]
    return nodes


# ── Documents and paths ─────────────────────────────────────────────────────────────────────────────────────

NAMES = ["a", "b", "é", "", 'q"', "a\\", "😀", "long name"]
SPACE = st.sampled_from(["", "", "", " ", "\n", "\r\n\t "])
TEXT = st.text(alphabet='ab"\\/{}[],:\n\u00e9\U0001f600 ', max_size=12)
RAW = ["0", "-0", "1e400", "-1.5E-7", "123456789012345678901234567890", "true", "false", "null", "NaN", "-Infinity"]


@st.composite
def strings(draw: st.DrawFn, text: st.SearchStrategy[str] = TEXT) -> str:
    return json.dumps(draw(text), ensure_ascii=draw(st.booleans()))


@st.composite
def arrays(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    parts = [draw(SPACE) + value + draw(SPACE) for value in draw(st.lists(values, max_size=4))]
    return "[" + (",".join(parts) or draw(SPACE)) + "]"


@st.composite
def objects(draw: st.DrawFn, values: st.SearchStrategy[str]) -> str:
    names = strings(st.sampled_from(NAMES))
    parts = [
        draw(SPACE) + draw(names) + draw(SPACE) + ":" + draw(SPACE) + value + draw(SPACE)
        for value in draw(st.lists(values, max_size=4))
    ]
    return "{" + (",".join(parts) or draw(SPACE)) + "}"


documents = st.recursive(
    st.sampled_from(RAW) | strings(), lambda values: arrays(values) | objects(values), max_leaves=25
).map(lambda text: text.encode())

selectors: st.SearchStrategy[Selector] = st.one_of(
    st.sampled_from(NAMES).map(Name),
    st.integers(0, 4).map(Index),
    st.builds(Slice, st.integers(0, 3), st.none() | st.integers(0, 4), st.integers(0, 2)),
    st.just(Wildcard()),
)
paths = st.lists(
    st.builds(Segment, st.lists(selectors, min_size=1, max_size=2).map(tuple), st.booleans()), max_size=3
).map(lambda segments: JsonPath("$", tuple(segments)))


@requirement("query:jsonpath", "query:path-bounded-memory")
@given(document=documents, path=paths, chunk=st.integers(1, 40))
@example(document=b'{"a":"}","a":[{"b":1}]}', path=parse_path("$.a[*].b"), chunk=1)
@example(document=b'{"b":{"c":[]},"a":1}', path=parse_path("$..a"), chunk=3)
def test_the_scanner_finds_what_a_plain_evaluator_finds(document: bytes, path: JsonPath, chunk: int) -> None:
    expected = evaluated(tree_of(loaded(document), [], iter(range(10**6))), path)
    for size in (chunk, 1 << 18):
        run = scanned(document, path, chunk=size)
        hits = list(run.hits())
        assert [hit.path for hit in hits] == [normalized_path(tree.steps)[0] for tree in expected]
        assert [loaded(document[hit.start : hit.end]) for hit in hits] == [tree.value for tree in expected]
        assert run.total == len(expected)


@given(records=st.lists(documents.map(lambda one: one.replace(b"\n", b" ").replace(b"\r", b" ")), max_size=5), path=paths,
       chunk=st.integers(1, 40), end=st.sampled_from([b"", b"\n", b"\r\n\n"]))  # fmt: skip
def test_records_on_lines_count_as_the_elements_of_an_array(
    records: list[bytes], path: JsonPath, chunk: int, end: bytes
) -> None:
    document = b"\n".join(records) + end
    array = tree_of([loaded(record) for record in records], [], iter(range(10**6)))
    if not path.segments:
        return  # the whole of it, which is no JSON value
    hits = list(scanned(document, path, layout="lines", chunk=chunk).hits())
    expected = evaluated(array, path)
    assert [hit.path for hit in hits] == [normalized_path(tree.steps)[0] for tree in expected]
    assert [loaded(document[hit.start : hit.end]) for hit in hits] == [tree.value for tree in expected]


@settings(max_examples=settings().max_examples // 2)
@given(document=documents, path=paths, first=st.integers(0, 5), limit=st.integers(0, 5))
def test_a_window_shows_a_part_and_counts_all(document: bytes, path: JsonPath, first: int, limit: int) -> None:
    everything = list(scanned(document, path).hits())
    run = scanned(document, path)
    assert told(list(run.hits(first, limit))) == told(everything[first : first + limit])
    assert run.total == len(everything)


@given(document=documents, cut=st.integers(0, 200), path=paths)
def test_no_cut_of_a_document_escapes_as_anything_but_a_fault(document: bytes, cut: int, path: JsonPath) -> None:
    part = document[: cut % (len(document) + 1)]
    finding = find(lambda start, end: part[start:end], len(part), path, lines=False)
    assert all(0 <= hit.start < hit.end <= len(part) for hit in finding.hits)
    assert finding.fault is None or finding.fault.byte <= len(part)


# ── The quick way and the exact one ─────────────────────────────────────────────────────────────────────────

NEVER = 1 << 60


def told(hits: Iterable[Hit]) -> list[tuple[str, int, int]]:
    return [(hit.path, hit.start, hit.end) for hit in hits]


@dataclass
class Outcome:
    """All that a scan tells. How far a path came matters where it finds nothing."""

    hits: list[Hit] = field(compare=False)
    told: list[tuple[str, int, int]]
    total: int
    problem: str
    broken: int
    first_fault: str
    furthest: Reached | None


def outcome(
    data: bytes, path: JsonPath, *, layout: Layout, part: tuple[int, int | None], chunk: int = 1 << 18, least: int = 1
) -> Outcome:
    """`least`: so many bytes at hand are worth a try of the quick way."""
    run = scanned(data, path, layout=layout, chunk=chunk)
    hits: list[Hit] = []
    problem = ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(find_module, "_LEAST", least)
        try:
            for hit in run.hits(*part):
                hits.append(hit)  # one by one: what comes before a fault counts
        except (JsonFault, SeveralValues) as found:
            problem = f"{type(found).__name__}: {found}"
    furthest = None if run.total or problem or run.broken else run.furthest
    return Outcome(hits, told(hits), run.total, problem, run.broken, str(run.first_fault), furthest)


INSERTED = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\n",
    b"\xc3",
    b"\xff",
    b"\\u00e9",
    b"\\x",
    b"x",
    b"1",
    b"-",
    b"\0",
]


@st.composite
def texts_with_faults(draw: st.DrawFn) -> bytes:
    """Values with a byte more, a byte less, or an end that is missing; many of them, so that windows are filled."""
    separator = draw(st.sampled_from([b",", b" ", b"\n", b"", b"\r\n"]))
    data = separator.join(draw(st.lists(documents, min_size=1, max_size=5)) * draw(st.sampled_from([1, 1, 7, 60])))
    if draw(st.booleans()):
        data = b"[" + data + b"]" if draw(st.booleans()) else b'{"a":' + data.replace(b"]", b'],"b":') + b"}"
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["insert", "drop", "cut", "replace"]))
        new = draw(st.sampled_from(INSERTED)) if kind in ("insert", "replace") else b""
        data = data[:at] + new + (b"" if kind == "cut" and at else data[at + (kind != "insert") :])
    return data


parts = st.tuples(st.integers(0, 6), st.none() | st.integers(0, 6))


@requirement("query:jsonpath")
@settings(max_examples=settings().max_examples // 2)
@given(data=texts_with_faults(), path=paths, layout=st.sampled_from(["one", "lines", "several"]), part=parts,
       chunk=st.integers(1, 60) | st.integers(60, 3000))  # fmt: skip
@example(data=b'{"x":[\\"]"', path=parse_path("$.y"), layout="one", part=(0, None), chunk=3)
@example(data=b'{"sku": -xnfinity, "a":[1,2,3]}', path=parse_path("$..[2]"), layout="one", part=(0, None), chunk=5)
@example(data=b'{"x":[{]}}', path=parse_path("$.y"), layout="one", part=(0, None), chunk=7)
@example(data=b'{"x":{"a":1]}', path=parse_path("$.y"), layout="one", part=(0, None), chunk=1)
def test_neither_pieces_nor_the_quick_way_change_what_is_told(
    data: bytes, path: JsonPath, layout: Layout, part: tuple[int, int | None], chunk: int
) -> None:
    exact = outcome(data, path, layout=layout, part=part, least=NEVER)
    assert outcome(data, path, layout=layout, part=part) == exact
    assert outcome(data, path, layout=layout, part=part, chunk=chunk, least=NEVER) == exact
    assert outcome(data, path, layout=layout, part=part, chunk=chunk) == exact


@requirement("query:jsonpath")
@given(inner=st.lists(documents, min_size=1, max_size=4), times=st.integers(1, 60), path=paths, part=parts,
       least=st.sampled_from([1, 64]), chunk=st.integers(60, 3000))  # fmt: skip
def test_the_quick_way_counts_what_a_plain_evaluator_finds(
    inner: list[bytes], times: int, path: JsonPath, part: tuple[int, int | None], least: int, chunk: int
) -> None:
    document = b"[" + b",".join(inner * times) + b"]"
    expected = evaluated(tree_of(loaded(document), [], iter(range(10**6))), path)
    told = outcome(document, path, layout="one", part=part, chunk=chunk, least=least)
    first, limit = part
    shown = expected[first:] if limit is None else expected[first : first + limit]
    assert [hit.path for hit in told.hits] == [normalized_path(tree.steps)[0] for tree in shown]
    assert [loaded(document[hit.start : hit.end]) for hit in told.hits] == [tree.value for tree in shown]
    assert (told.total, told.problem) == (len(expected), "")


def test_most_of_an_ordinary_document_goes_the_quick_way(monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    exact = Scan._value  # pyright: ignore[reportPrivateUsage]

    def value(scan: Scan, states: int) -> Hit | None:
        walked.append(states)
        return exact(scan, states)

    monkeypatch.setattr(Scan, "_value", value)
    document = b'{"items":[' + b",".join(b'{"sku":%d,"tags":["a",{"b":null}]}' % n for n in range(20_000)) + b"]}"
    for path in ("$.items[*].sku", "$..sku", "$..missing", "$.items[*].tags[1].b", "$..*"):
        walked.clear()
        run = scanned(document, parse_path(path))
        assert len(list(run.hits(0, 10))) == (0 if "missing" in path else 10)
        assert len(walked) < 2000, path


def test_how_far_a_path_came_is_the_first_container_that_it_reached() -> None:
    document = b'{"items":[1,"two",' + b",".join([b'{"a":{"b":[]}}'] * 50) + b',{"a":{"b":[{"c":1}]}}]}'
    run = scanned(document, parse_path("$.items[*].a.b[*].c.d"))
    assert list(run.hits()) == []
    assert run.furthest.path == "$['items'][52]['a']['b'][0]['c']"
    run = scanned(document, parse_path("$.items[*].x"))
    assert list(run.hits()) == []
    assert (run.furthest.path, run.furthest.segments) == ("$['items'][2]", 2)


@requirement("query:path-bounded-memory")
def test_values_too_deep_for_the_quick_way_are_walked() -> None:
    deep = b"[" * 1100 + b'{"sku":7}' + b"]" * 1100
    document = b'{"x":[' + b",".join([deep] * 20) + b'],"sku":1}'
    run = scanned(document, parse_path("$..sku"))
    assert len(list(run.hits(0, 1))) == 1
    assert run.total == 21


def test_a_very_long_name_is_none_that_a_path_can_name() -> None:
    assert texts(b'{"' + b"n" * 100_000 + b'":5}', "$['…']") == []


# ── RFC 9535, section 1.5 ───────────────────────────────────────────────────────────────────────────────────

STORE = b"""{ "store": {
    "book": [
      { "category": "reference", "author": "Nigel Rees", "title": "Sayings of the Century", "price": 8.95 },
      { "category": "fiction", "author": "Evelyn Waugh", "title": "Sword of Honour", "price": 12.99 },
      { "category": "fiction", "author": "Herman Melville", "title": "Moby Dick", "isbn": "0-553-21311-3", "price": 8.99 },
      { "category": "fiction", "author": "J. R. R. Tolkien", "title": "The Lord of the Rings", "isbn": "0-395-19395-8", "price": 22.99 }
    ],
    "bicycle": { "color": "red", "price": 399 }
  } }"""


@requirement("query:jsonpath")
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.store.book[*].author", [b'"Nigel Rees"', b'"Evelyn Waugh"', b'"Herman Melville"', b'"J. R. R. Tolkien"']),
        ("$..author", [b'"Nigel Rees"', b'"Evelyn Waugh"', b'"Herman Melville"', b'"J. R. R. Tolkien"']),
        ("$.store..price", [b"8.95", b"12.99", b"8.99", b"22.99", b"399"]),
        ("$..book[2].author", [b'"Herman Melville"']),
        ("$..book[2].publisher", []),
        ("$..book[0,1].price", [b"8.95", b"12.99"]),
        ("$..book[:2].price", [b"8.95", b"12.99"]),
        ("$['store']['bicycle']['color']", [b'"red"']),
        ("/store/book/3/isbn", [b'"0-395-19395-8"']),
    ],
)
def test_the_examples_of_the_rfc_are_answered_byte_for_byte(path: str, expected: list[bytes]) -> None:
    assert texts(STORE, path) == expected


def test_everything_below_comes_before_what_is_in_it() -> None:
    assert [hit.path for hit in scan(b'{"o":{"j":1,"k":[5]}}', "$..*")] == [
        "$['o']", "$['o']['j']", "$['o']['k']", "$['o']['k'][0]",
    ]  # fmt: skip


# ── Values as they are stored ───────────────────────────────────────────────────────────────────────────────


@requirement("query:jsonpath")
@pytest.mark.parametrize("value", [b"1e400", b"NaN", b"-Infinity", b"-0", b"1" * 400, b'"\\u00e9\\ud800"', b'"\xff"'])
def test_a_value_is_given_byte_for_byte(value: bytes) -> None:
    assert texts(b'{"x": [' + value + b" ]}", "$.x[0]") == [value]


def test_a_name_that_occurs_twice_is_found_twice() -> None:
    assert texts(b'{"a":1,"b":0,"a":2}', "$.a") == [b"1", b"2"]


@pytest.mark.parametrize("written", [rb'"\u00e9"', '"é"'.encode()])
def test_a_name_is_found_however_it_is_escaped(written: bytes) -> None:
    assert texts(b"{" + written + b":1}", "$.é") == [b"1"]


@pytest.mark.parametrize("path", [r"$..needle", "$.needle", "$.x.needle"])
def test_a_name_that_is_written_with_escapes_is_not_stepped_over(path: str) -> None:
    inner = rb'{"y":"needle","n\u0065edle":[7]}'
    document = inner if path == "$.needle" else b'{"x":' + inner + b"}"
    assert texts(document, path) == [b"[7]"]


def test_a_byte_order_mark_is_not_part_of_the_value() -> None:
    assert texts(b'\xef\xbb\xbf{"a":1}', "$") == [b'{"a":1}']


# ── Size and depth ──────────────────────────────────────────────────────────────────────────────────────────


@requirement("query:path-bounded-memory")
@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_a_hundred_thousand_levels_are_followed_and_stepped_over(opening: bytes, closing: bytes) -> None:
    document = opening * 100_000 + b"7" + closing * 100_000
    everything = scanned(document, parse_path("$..*"))
    assert len(list(everything.hits(0, 3))) == 3
    assert everything.total == 100_000
    wrapped = b'{"skip":' + document + b',"x":1}'
    assert texts(wrapped, "$.x") == [b"1"]


def test_the_path_of_a_very_deep_value_is_shortened_and_it_is_told() -> None:
    document = b"[" * 5000 + b"7" + b"]" * 5000
    deepest = scan(document, "$..*")[-1]
    assert deepest.shortened
    assert len(deepest.path) < 400
    assert document[deepest.start : deepest.end] == b"7"


def test_a_path_does_not_go_deeper_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_module._DEEPEST == 1_000_000  # pyright: ignore[reportPrivateUsage] - to go there takes seconds
    monkeypatch.setattr(find_module, "_DEEPEST", 20_000)
    assert scan(b"[" * 20_000 + b"]" * 20_000, "$..a") == []
    with pytest.raises(BadQuery, match="nested deeper than 20,000 levels"):
        scan(b"[" * 20_001, "$..a")


@requirement("query:path-bounded-memory")
@pytest.mark.parametrize("path", ["$.x", "$..x", "$.*"])
def test_a_string_of_twenty_megabytes_is_stepped_over_in_chunks(path: str) -> None:
    long = b'"' + b'ab\\"\\\\{[' * 2_500_000 + b'"'
    document = b'{"long":' + long + b',"x":1}'
    largest = 0

    def read(start: int, end: int) -> bytes:
        nonlocal largest
        largest = max(largest, end - start)
        return document[start:end]

    hits = list(Scan(read, len(document), parse_path(path)).hits())
    assert document[hits[-1].start : hits[-1].end] == b"1"
    assert largest <= 1 << 18


def test_a_name_longer_than_a_chunk_is_stepped_over() -> None:
    document = b'{"' + b"n" * 1_000_000 + b'":5,"x":1}'
    assert texts(document, "$.x") == [b"1"]
    first = scan(document, "$.*")[0]
    assert first.path == "$['…']"


def test_a_number_longer_than_a_chunk_is_a_value() -> None:
    number = b"1" * 700_000
    assert texts(b"[" + number + b"]", "$[0]") == [number]


def test_a_scan_reads_no_further_than_the_last_element_that_can_matter() -> None:
    document = b"[1,2,3" + b" not JSON at all"
    assert texts(document, "$[1]") == [b"2"]


# ── Faults ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("document", "path", "byte", "expected", "ended"),
    [
        (b'{"a":1 "b":2}', "$.b", 7, "a comma or a closing bracket", False),
        (b'{"a":1,}', "$.b", 7, "a name in quotes", False),
        (b"[1,]", "$[*]", 3, "a value", False),
        (b"{1:2}", "$.a", 1, "a name in quotes", False),
        (b'{"a" 1}', "$.a", 5, "a colon", False),
        (b"[1,2", "$[*]", 4, "a comma or a closing bracket", True),
        (b'["abc', "$[*]", 5, "the end of a string", True),
        (b'{"x":{"y":[1', "$.z", 12, "a closing bracket", True),
        (b"[tru]", "$[*]", 1, "a value", False),
        (b"[1}", "$[*]", 2, "a comma or a closing bracket", False),
        (b"", "$", 0, "a value", True),
    ],
)
def test_a_fault_names_the_byte_and_what_was_expected(
    document: bytes, path: str, byte: int, expected: str, ended: bool
) -> None:
    for chunk in (1, 3, 1 << 18):
        with pytest.raises(JsonFault) as fault:
            list(scanned(document, parse_path(path), chunk=chunk).hits())
        assert (fault.value.byte, fault.value.expected, fault.value.ended) == (byte, expected, ended)


def test_a_wrong_bracket_in_what_is_stepped_over_is_seen() -> None:
    with pytest.raises(JsonFault, match="at byte 7, where the other closing bracket is expected"):
        scan(b'{"x":[{]}}', "$.y")


def test_what_was_found_before_a_fault_is_kept() -> None:
    finding = found(b'[{"a":1},{"a":2},{"a', "$[*].a")
    assert [hit.path for hit in finding.hits] == ["$[0]['a']", "$[1]['a']"]
    assert finding.fault is not None
    assert finding.fault.ended


def test_a_value_that_a_fault_leaves_open_is_not_counted() -> None:
    finding = found(b'{"a":{"b":1,', "$..*")
    assert [hit.path for hit in finding.hits] == ["$['a']['b']"]
    assert finding.total == 1


def test_a_broken_line_is_told_and_the_others_keep_their_numbers() -> None:
    document = b'{"a":1}\n{"a":[1,\nnot json\n\n{"a":4}\n{"a":5} x\n'
    finding = found(document, "$[*].a", lines=True)
    assert [(hit.path, document[hit.start : hit.end]) for hit in finding.hits] == [
        ("$[0]['a']", b"1"), ("$[3]['a']", b"4"), ("$[4]['a']", b"5"),
    ]  # fmt: skip
    assert finding.scan.broken == 3
    assert finding.scan.first_fault is not None
    assert finding.scan.first_fault.byte == 16


def test_several_values_are_searched_as_the_elements_of_an_array() -> None:
    finding = found(b'{"a":1}\n{"a":\n2}{"a":3}', "$[*].a")
    assert [hit.path for hit in finding.hits] == ["$[0]['a']", "$[1]['a']", "$[2]['a']"]
    assert finding.layout == "several"


# ── Blocks ──────────────────────────────────────────────────────────────────────────────────────────────────


@given(inner=st.lists(documents, min_size=1, max_size=6), times=st.integers(1, 400), chunk=st.integers(100, 5000))
def test_large_values_are_stepped_over_to_their_exact_end(inner: list[bytes], times: int, chunk: int) -> None:
    large = b"[" + b",".join(inner * times) + b"]"
    document = b'{"a":' + large + b',"b":[1,' + large + b'],"c":0}'

    def got(path: str) -> list[bytes]:
        return [document[hit.start : hit.end] for hit in scan(document, path, chunk=chunk)]

    assert got("$.c") == [b"0"]
    assert got("$.a") == [large]
    assert got("$.b[1]") == [large]
