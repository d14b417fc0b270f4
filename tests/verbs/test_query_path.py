"""query by path: values as they are stored, bounded answers, and hints where there is nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holdall.text.json import find
from holdall.values.answers import Nodes
from holdall.values.errors import BadQuery, BadRange, OutputDamaged
from holdall.values.spans import Span
from holdall.verbs.query import query_path
from tests.requirements import requirement
from tests.support import in_effort, reader_of

PEOPLE = b'{"people": [{"name": "Ann", "age": 1e400}, {"name": "Bob", "age": 7}], "count": 2}'
RECORDS = b'{"name":"Ann"}\n{"name":"Bob"}\n\n{"name":"Cid"}\n'


def texts(answer: Nodes) -> list[str]:
    return [node.text for node in answer.nodes]


@requirement("query:jsonpath")
def test_a_path_gives_values_with_their_places_byte_for_byte() -> None:
    answer = query_path(reader_of(PEOPLE), "$.people[*].age")
    assert texts(answer) == ["1e400", "7"]
    assert [node.path for node in answer.nodes] == ["$['people'][0]['age']", "$['people'][1]['age']"]
    assert [PEOPLE[node.bytes.start : node.bytes.end] for node in answer.nodes] == [b"1e400", b"7"]
    assert (answer.total, answer.next, answer.notes) == (2, None, ())


@requirement("query:json-pointer")
def test_a_pointer_gives_the_value_it_names() -> None:
    assert texts(query_path(reader_of(PEOPLE), "/people/1/name")) == ['"Bob"']
    assert texts(query_path(reader_of(PEOPLE), "#/count")) == ["2"]
    assert texts(query_path(reader_of(PEOPLE), "")) == [PEOPLE.decode()]


@requirement("query:jsonpath", "query:json-pointer")
@pytest.mark.parametrize("path", ["$[2].name", "/2/name"])
def test_records_on_lines_are_an_array(path: str) -> None:
    assert texts(query_path(reader_of(RECORDS), path)) == ['"Cid"']


def test_the_whole_of_a_sequence_of_records_is_one_value() -> None:
    answer = query_path(reader_of(RECORDS), "$")
    assert [node.bytes for node in answer.nodes] == [Span(0, len(RECORDS))]


def test_a_window_of_the_values_says_how_to_go_on_and_going_on_reaches_the_end() -> None:
    reader = reader_of(json.dumps(list(range(250))).encode())
    shown: list[str] = []
    skip: int | None = 0
    while skip is not None:
        answer = query_path(reader, "$[*]", limit=100, skip=skip)
        assert answer.total == 250
        shown += texts(answer)
        skip = answer.next
    assert shown == [str(number) for number in range(250)]


@requirement("answer:max-bytes")
def test_an_answer_stays_in_its_bounds_and_paging_reaches_every_value() -> None:
    values = ["x" * length for length in (10, 100_000, 20, 5000, *([300] * 200))]
    reader = reader_of(json.dumps(values).encode())
    seen = 0
    skip: int | None = 0
    while skip is not None:
        answer = query_path(reader, "$[*]", skip=skip, max_bytes=4096)
        assert sum(len(node.path) + len(node.text) for node in answer.nodes) <= 4096
        assert answer.nodes
        for node, value in zip(answer.nodes, values[skip:], strict=False):
            assert json.dumps(value).startswith(node.text)
            assert node.cut == (node.text != json.dumps(value))
        seen += len(answer.nodes)
        skip = answer.next
    assert seen == len(values)


def test_a_long_value_is_cut_at_a_character_and_its_bytes_lead_to_the_rest() -> None:
    data = json.dumps({"text": "漢" * 10_000}, ensure_ascii=False).encode()
    reader = reader_of(data)
    (node,) = query_path(reader, "$.text", max_bytes=1000).nodes
    assert node.cut
    assert set(node.text) == {'"', "漢"}
    assert len(node.text.encode()) <= 1000
    assert reader.read(node.bytes.start, node.bytes.end).decode() == '"' + "漢" * 10_000 + '"'


def test_without_a_bound_a_value_is_given_whole() -> None:
    (node,) = query_path(reader_of(json.dumps("y" * 100_000).encode().join([b"[", b"]"])), "$[0]", max_bytes=None).nodes
    assert len(node.text) == 100_002
    assert not node.cut


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("$.peeple", "$ has no member 'peeple'; it has 2 members: 'people', 'count'."),
        ("$.people[5]", "$['people'] is an array of 2 elements, without [5]."),
        ("$.people.name", "Go on with [*] or an index: $['people'][0]"),
        ("$.count.x", "$['count'] is a number; nothing is below it."),
        ("$..nope", "Nothing below $ is 'nope'."),
        ("/people/0/Name", "$['people'][0] has no member 'Name'; it has 2 members: 'name', 'age'."),
    ],
)
def test_where_nothing_is_found_it_is_said_how_far_the_path_came(path: str, hint: str) -> None:
    answer = query_path(reader_of(PEOPLE), path)
    assert (answer.nodes, answer.total) == ((), 0)
    assert hint in answer.notes[-1]


def test_space_before_the_document_does_not_mislead_the_hint() -> None:
    assert "$ has no member 'a'" in query_path(reader_of(b'  \n {"b": 1}'), "$.a").notes[-1]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("$.name", "The output is a sequence of 3 records, which a path sees as one array: begin with $[*]"),
        ("$[9]", "There are 3 records, counted from 0; none is [9]."),
        ("$[*].nope", "$[0] has no member 'nope'; it has 1 member: 'name'."),
    ],
)
def test_a_path_into_records_is_put_right(path: str, hint: str) -> None:
    assert hint in query_path(reader_of(RECORDS), path).notes[-1]


def test_of_many_members_the_nearest_and_the_first_are_named() -> None:
    data = json.dumps({f"/api/v{number}/pods": 0 for number in range(500)}).encode()
    note = query_path(reader_of(data), "$['/api/v499/pod']").notes[-1]
    assert "it has 500 members: '/api/v499/pods'" in note
    assert len(note) < 1000


@requirement("query:not-a-table")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the output is empty"),
        (b"a,b\n1,2\n3,4\n", "the output is csv, not JSON"),
        (b"\x00\x01\x02" * 100, "the output is binary, not JSON"),
        (b"just words\n", "the output is text, not JSON"),
        (b"[INFO] started\n", "the output is text, not JSON: not valid JSON at byte 7"),
        (
            b'{"items": [{"id": 1}, {"id": 2}, {"i',
            "the output is JSON that was cut off: it ends at byte 36, .* No value of the path stands before that",
        ),
    ],
)
def test_a_path_on_what_is_no_json_is_refused_with_what_it_is(data: bytes, why: str) -> None:
    with pytest.raises(BadQuery, match=why):
        query_path(reader_of(data), "$.a")


@pytest.mark.parametrize(
    "after",
    ["Done in 3 s\n", "3 files written\n", "[ok] done [x]", "[12:00:01] up", "{braces} and so on", '"a" is it', "} ]"],
)
def test_a_value_with_other_text_after_it_is_searched_without_that_text(after: str) -> None:
    for gap in ("\n", " ", "\r\n\n"):
        answer = query_path(reader_of(PEOPLE + gap.encode() + after.encode()), "$.people[*].name")
        assert texts(answer) == ['"Ann"', '"Bob"']
        place = len(PEOPLE + gap.encode())
        assert answer.notes == (f"Other text follows the JSON from byte {place:,} on; it was not searched.",)
    rows = b'[{"v": 1}, {"v": 2}]\n' + after.encode()
    assert texts(query_path(reader_of(rows), "$[*].v")) == ["1", "2"]
    assert texts(query_path(reader_of(rows), "$[1].v")) == ["2"]
    nothing = query_path(reader_of(rows), "$[*].w")
    assert (nothing.total, len(nothing.notes)) == (0, 2)


@pytest.mark.parametrize("after", ['{"v": 3}', "[3]", '{"v": 3', "[3, ", "5 6"])
def test_a_value_after_which_others_come_is_the_first_of_an_array(after: str) -> None:
    answer = query_path(reader_of(b'{"v": 1}\n' + after.encode()), "$[0].v")
    assert texts(answer) == ["1"]


def test_a_cut_off_document_gives_what_stands_before_the_cut_and_says_so() -> None:
    answer = query_path(reader_of(PEOPLE[:60]), "$..name")
    assert texts(answer) == ['"Ann"', '"Bob"']
    assert "The JSON is broken: it ends at byte 60" in answer.notes[0]
    with pytest.raises(BadQuery, match="it ends at byte 60"):
        query_path(reader_of(PEOPLE[:60]), "$.count")


def test_lines_that_are_not_json_are_told_and_the_others_are_searched() -> None:
    answer = query_path(reader_of(RECORDS * 10 + b"oops\n" + RECORDS), "$[*].name", limit=1000)
    assert answer.total == 33
    assert answer.notes == (
        "Lines that are not JSON: 1; of those only what stands before the fault is found. The first: not valid JSON at byte 460, where a value is expected.",
    )


def test_skipping_past_the_end_says_how_many_there_are() -> None:
    answer = query_path(reader_of(PEOPLE), "$.people[*]", skip=5)
    assert (answer.nodes, answer.next) == ((), None)
    assert answer.notes == ("There are 2 values; 5 are skipped.",)


@pytest.mark.parametrize(("limit", "skip"), [(0, 0), (-1, 0), (10, -1), (True, 0)])
def test_a_limit_or_skip_that_is_no_number_is_refused(limit: int, skip: int) -> None:
    with pytest.raises(BadRange):
        query_path(reader_of(PEOPLE), "$", limit=limit, skip=skip)


def test_bytes_that_are_not_utf8_do_not_stop_a_path() -> None:
    assert texts(query_path(reader_of(b'{"a":"caf\xff","b":1}'), "$.*")) == ['"caf\ufffd"', "1"]


def test_a_damaged_block_is_never_searched_as_good() -> None:
    reader = reader_of(PEOPLE)
    os.pwrite(os.open(f"/proc/self/fd/{reader.fileno()}", os.O_RDWR), b"X", 20)
    with pytest.raises(OutputDamaged):
        query_path(reader, "$.count")


@requirement("query:path-bounded-memory")
def test_memory_stays_flat_on_a_large_document(tmp_path: Path) -> None:
    script = """
import resource, sys
from holdall.text.json.path import parse_path
from holdall.text.json.find import Scan
unit = b'{"id": 1, "tags": ["a", "b"], "deep": {"er": [1, 2, {"x": null}]}},' * 1000
times = 1500
head, tail = b'{"skip": [', b'0], "name": "found"}'
size = len(head) + len(unit) * times + len(tail)
def read(start, end):
    out = bytearray()
    while start < end:
        if start < len(head): piece = head[start:end]
        elif start >= size - len(tail): piece = tail[start - size + len(tail):][: end - start]
        else:
            at = (start - len(head)) % len(unit)
            piece = unit[at:][: min(end, size - len(tail)) - start]
        out += piece
        start += len(piece)
    return bytes(out)
list(Scan(read, size, parse_path('$.skip[3]')).hits())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
hits = list(Scan(read, size, parse_path('$.name')).hits())
assert read(hits[0].start, hits[0].end) == b'"found"'
print(size, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    size, grown = map(int, done.stdout.split())
    assert size > 100_000_000
    assert grown * (1 if sys.platform == "darwin" else 1024) < 16 * 1024 * 1024


@pytest.mark.parametrize("path", ["$.items[*]", "$..*", "$.items[*].text", "$.items[1000,3,3]", "$['last','items'][*]"])
def test_values_that_are_passed_on_in_parts_are_those_of_one_answer(path: str) -> None:
    """With values that are nested, on several lines, in several blocks, and longer than what is read at once."""
    long = "é" * 700_000
    items = [{"id": at, "text": long if at == 700 else f"line {at}"} for at in range(1500)]
    reader = reader_of(json.dumps({"items": items, "last": [1, [2, 3]]}, indent=1, ensure_ascii=False).encode())
    passed = list[Nodes]()
    query_path(reader, path, each=passed.append)
    assert [node for part in passed for node in part.nodes] == [
        node
        for skip in range(0, 5_000, 1_000)
        for node in query_path(reader, path, skip=skip, limit=1_000, max_bytes=1 << 30).nodes
    ]


ROWS = b"".join(b'{"n": %d, "tags": ["a", {"n": %d}]}\n' % (n, n * 2) for n in range(900))


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b"[%s]" % b",".join(b"%d" % n for n in range(1000)), "$[*]"),
        (b"[%s]" % b",".join(ROWS.splitlines()), "$[*].tags[1].n"),
        (b"[%s]" % b",".join(ROWS.splitlines()), "$..n"),
        (b"[%s]" % b",".join(ROWS.splitlines()), "$..*"),  # values inside of one another
        (b"[%s]" % b",".join(ROWS.splitlines()), "$[?@.n>=300]"),
        (b"[%s]" % b",".join(ROWS.splitlines()), "$[?@.n>=300].tags[*]"),
        (ROWS, "$[*].n"),
        (ROWS, "$..*"),
        (ROWS[:-20] + b"\n" + ROWS, "$[*].tags"),  # with a line that is not JSON
        (ROWS[:-20] + b"\n" + ROWS, "$..*"),
        (b"[[%s, {" % ROWS.splitlines()[0], "$..n"),  # broken
        (b"[1, 2] [3, 4]", "$[*][*]"),
        (b'{"a": [1, 2]} and some text', "$.a[*]"),
        (b'{"a": [1, 2]}', "$.b"),
    ],
)
@pytest.mark.parametrize("skip", [0, 1, 700])
@requirement("query:path-bounded-memory")
def test_values_are_passed_on_whatever_the_text_is_and_the_path(
    data: bytes, path: str, skip: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = query_path(reader_of(data), path, limit=100_000, skip=skip, max_bytes=None)
    monkeypatch.setattr("holdall.text.json.find._WAITING", 50)
    parts: list[Nodes] = []
    last = query_path(reader_of(data), path, skip=skip, each=parts.append)
    assert [node for part in parts for node in part.nodes] == list(whole.nodes)
    assert (last.nodes, last.total, last.next) == ((), whole.total, None)
    assert last.notes == whole.notes


def test_passing_on_takes_two_passes_however_many_values_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = 0

    class Counted(find.Scan):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            nonlocal passes
            passes += 1
            super().__init__(*arguments, **options)

    monkeypatch.setattr(find, "Scan", Counted)
    given = 0

    def add(part: Nodes) -> None:
        nonlocal given
        given += len(part.nodes)

    query_path(reader_of(b"[%s]" % b",".join([b"1"] * 50_000)), "$[*]", each=add)
    assert (given, passes) == (50_000, 2)


@pytest.mark.in_full
def test_names_that_are_nearly_right_are_looked_for_with_little_effort() -> None:
    """To compare two names takes a power of their length, and nothing stops it."""
    random = Random(1)
    name = lambda: "".join(random.choices("aab", k=199))  # noqa: E731
    reader = reader_of(json.dumps({name(): at for at in range(2000)}).encode())
    path = f"$[{','.join(repr(name()) for _ in range(40))}]"
    found = in_effort(900, lambda: query_path(reader, path))
    assert "has no member" in found.notes[-1]
    long = "io.k8s.api.core.v1." * 5
    assert f"{long[:20]}" in query_path(reader_of(json.dumps({f"{long}Pod": 1}).encode()), f"$['{long}Pud']").notes[-1]


def test_a_path_with_many_indexes_costs_little_more_than_one_and_slices_are_few() -> None:
    reader = reader_of(f"[{','.join(['1'] * 100_000)}]".encode())
    many = f"$..[{','.join(map(str, range(1500)))}]"
    assert in_effort(300, lambda: query_path(reader, many)).total == 1500
    twice = query_path(reader, "$[3,3,1:5,4]")
    assert [node.path for node in twice.nodes] == ["$[1]", "$[2]", "$[3]", "$[4]"]
    assert query_path(reader, f"$[{','.join(['0:9'] * 16)}]").total == 9
    with pytest.raises(BadQuery, match="the path has 17 slices; at most 16 are followed"):
        query_path(reader, f"$[{','.join(['0:9'] * 17)}]")


# A long object or array, as a model is shown it.


def folded_text(value: object, path: str = "$", *, indent: int | None = None, **options: Any) -> str:
    """The text of the only value; what it leaves out is not in its parts, and these are its bytes."""
    data = json.dumps(value, indent=indent).encode()
    (node,) = query_path(reader_of(data), path, folds=True, **options).nodes
    pieces = [data[span.start : span.end].decode() for span in node.parts] or [
        data[slice(*node.bytes.as_list())].decode()
    ]
    assert node.cut == (len(pieces) > 1)
    assert node.text == "…".join(pieces)
    return node.text


@requirement("query:jsonpath")
def test_a_long_object_is_shown_to_a_model_by_its_names_and_short_values() -> None:
    schema = {"title": "User", "type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(200)}}
    long = {**schema, "required": [f"p{n}" for n in range(200)], "note": "n" * 400, "additional": {"a": [1, 2, 3]}}
    assert folded_text({"x": long}, "$.x") == (
        '{"title": "User", "type": "object", "properties": {…}, "required": […], "note": "'
        + "n" * 400
        + '", "additional": {"a": [1, 2, 3]}}'
    )
    assert folded_text({"x": {**long, "note": "n" * 700}}, "$.x") == (
        '{"title": "User", "type": "object", "properties": {…}, "required": […], "note": "…", '
        '"additional": {"a": [1, 2, 3]}}'
    )
    assert folded_text({"x": schema}, "$.x.properties.p7") == '{"type": "string"}'


@requirement("query:jsonpath")
def test_of_a_long_array_the_first_elements_are_shown() -> None:
    text = folded_text([{"id": n, "name": f"row {n}"} for n in range(500)])
    assert text.startswith('[{"id": 0, "name": "row 0"}, {"id": 1, "name": "row 1"}, ')
    assert text.endswith("}…]")
    assert 500 < len(text) < 620
    rows = [{"id": n, "text": "long " * 200} for n in range(9)]
    assert folded_text(rows) == "[" + "{…}, " * 8 + "{…}]"
    numbers = [n * 1000 for n in range(900)]
    assert folded_text(numbers) == json.dumps(numbers), "they have no inside"
    assert folded_text({"text": "word " * 900}, "$.text") == json.dumps("word " * 900)


@pytest.mark.parametrize(
    "value", [{"k" * 5000: 1}, {"a": {"k" * 3000: 1}, "b" * 3000: 2}, ["x" * 5000], [[[[["deep" * 900]]]]]]
)
def test_a_name_that_is_longer_than_what_is_shown_is_cut_as_any_text(value: object) -> None:
    data = json.dumps(value).encode()
    (node,) = query_path(reader_of(data), "$", folds=True).nodes
    shown = sum(span.end - span.start for span in node.parts) if node.parts else len(node.text.encode())
    assert shown <= 16384
    assert node.text.replace("…", "").encode() in data or node.parts


def test_what_looks_like_json_from_outside_only_is_cut_as_any_text() -> None:
    data = b'{"a": {"x": [1, 2' + b", 3" * 2000 + b'], oops: {"y": 1}}, "b": 2}'
    (node,) = query_path(reader_of(data), "$.a", folds=True, max_bytes=1000).nodes
    assert node.cut
    assert data[node.bytes.start :].startswith(node.text.partition("…")[0].encode())


def test_a_person_or_a_program_gets_the_beginning_as_before() -> None:
    data = json.dumps({"a": {f"p{n}": n for n in range(900)}}).encode()
    (node,) = query_path(reader_of(data), "$.a", max_bytes=400).nodes
    assert (node.parts, node.cut) == ((), True)
    assert data[node.bytes.start :].startswith(node.text.encode())
