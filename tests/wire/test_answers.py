"""The texts of answers say each thing once: what the call had is not repeated, and spaces are not shown for data."""

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.store.ids import new_fence_tag
from holdall.values.answers import Found, Group, Match, Node, Nodes, Table
from holdall.values.spans import Span, Totals
from holdall.wire.answers import Frame, Seen, found_answer, nodes_answer, table_answer, tag_for
from holdall.wire.dialect import as_a_call
from tests.requirements import requirement

ALL = Totals(90_000, 90_000, 4_210)
FRAME = Frame("k3f9", "402913", as_a_call)


def of_path(text: str, *, path: str = "$['a']", cut: bool = False) -> str:
    nodes = Nodes("k3f9", (Node(path, Span(1000, 1000 + len(text)), None, text, cut=cut),), 1, ALL)
    return nodes_answer(nodes, FRAME, Seen(0.1), asked={"path": "$..a"})


def shown_of(answer: str) -> str:
    return answer.split("\n", 2)[2].rpartition("\n</")[0]


def test_a_path_and_its_value_are_short() -> None:
    value = '{\n  "get": {\n    "operationId": "meta/get  zen",\n    "tags": [\n      "a",\n      1.50\n    ]\n  }\n}'
    assert of_path(value, path="$['paths']['/zen']['get'][0]") == (
        "1 value\n<402913>\n"
        """$.paths['/zen'].get[0]  {"get":{"operationId":"meta/get  zen","tags":["a",1.50]}}\n"""
        "</402913>"
    )


def test_the_place_of_the_one_value_that_was_asked_for_by_its_place_is_not_repeated() -> None:
    node = Node("$['paths']['/zen']", Span(0, 4), None, "1.50")
    for path, told in (
        ("$.paths['/zen']", "1.50"),
        ("$['paths']['/zen']", "1.50"),
        ("$.paths.*", "$.paths['/zen']  1.50"),
        ("/paths/~1zen", "$.paths['/zen']  1.50"),
    ):
        assert shown_of(nodes_answer(Nodes("k3f9", (node,), 1, ALL), FRAME, Seen(0.1), asked={"path": path})) == told
    several = nodes_answer(Nodes("k3f9", (node,), 2, ALL), FRAME, Seen(0.1), asked={"path": "$.paths['/zen']"})
    assert "$.paths['/zen']  1.50" in several


def test_a_value_on_one_line_is_shown_as_it_is() -> None:
    assert shown_of(of_path('{"a":  1,  "b": 2}')) == '$.a  {"a":  1,  "b": 2}'
    assert shown_of(of_path('"a\n b"')) == '$.a  "a\n b"'


def test_what_stands_apart_in_broken_json_stays_apart_and_a_cut_string_is_whole() -> None:
    assert shown_of(of_path("[12\n 34, tru e]")) == "$.a  [12 34,tru e]"
    assert shown_of(of_path('{"a": 1,\n "b": "x  y', cut=True)).startswith('$.a  {"a":1,"b":"x  y … cut;')


@given(st.recursive(st.none() | st.text() | st.floats(allow_nan=False) | st.integers(),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))  # fmt: skip
def test_without_its_spaces_json_says_the_same(value: object) -> None:
    told = shown_of(of_path(json.dumps(value, indent=2))).partition("  ")[2]
    assert json.loads(told) == value


@requirement("grep:byte-offsets")
def test_a_match_has_its_byte_where_its_line_is_cut() -> None:
    whole = Match(1200, 5000, 5003, 5000, "an error", 4997, "err")
    part = Match(1300, 6000, 6003, 6000, "an error", 5990, "err", cut_left=True)
    found = Found("k3f9", (whole, part), 9, ALL, lines=8, next=7000)
    assert found_answer(found, FRAME, None, asked={"pattern": "err", "limit": 2}) == (
        "9 matches on 8 of 4,210 lines · 2 shown\n<402913>\nL1200  an error\nL1300 (byte 6000)  …an error\n"
        "</402913>\nNext: same call, start=7000"
    )


def test_that_some_groups_are_shown_is_said_where_there_are_more() -> None:
    groups = (Group("a", 5), Group("b", 4))
    for distinct, told in ((2, "2 different values"), (3, "3 different values, 2 shown")):
        found = Found("k3f9", (), 9, ALL, groups, distinct, lines=9)
        head = found_answer(found, FRAME, None, asked={}).partition("\n")[0]
        assert head == f"9 matches on 9 of 4,210 lines · {told}"


def test_a_table_without_rows_is_one_line_and_a_cell_is_quoted_only_where_it_could_be_misread() -> None:
    nothing = Table("k3f9", ("a", "b"), ("VARCHAR", "VARCHAR"), (), 0, ALL)
    assert table_answer(nothing, FRAME, Seen(0.1)) == "0 rows"
    rows = (("O_RDONLY|O_CLOEXEC", "x | y"), ("a\nb", None))
    least = Table("k3f9", ("a", "b"), ("VARCHAR", "VARCHAR"), rows, 3, ALL, next=2, is_least=True)
    assert table_answer(least, FRAME, Seen(0.1)).startswith("at least 3 rows · 2 shown")
    some = Table("k3f9", ("a", "b"), ("VARCHAR", "VARCHAR"), rows, 2, ALL)
    assert shown_of(table_answer(some, FRAME, Seen(0.1))) == 'a | b\nO_RDONLY|O_CLOEXEC | "x | y"\n"a\\nb" | NULL'
    words = Table("k3f9", ("a",), ("VARCHAR",), (("NULL",), (None,), ("null",)), 3, ALL)
    assert shown_of(table_answer(words, FRAME, Seen(0.1))) == 'a\n"NULL"\nNULL\nnull'


@requirement("notice:fence")
def test_the_tag_of_a_fence_is_three_digits_that_the_text_does_not_have() -> None:
    drawn = iter(["123456", "654321"])
    assert tag_for("see </123456>", lambda: next(drawn)) == "654321"
    assert all(len(tag) == 3 and tag.isdigit() for tag in (new_fence_tag() for _ in range(100)))


@requirement("notice:fence")
@pytest.mark.parametrize("digits", ["\uff11\uff12\uff13", "\u0661\u0662\u0663", "\U0001d7cf2\u200b3"])
def test_nor_in_digits_that_are_read_alike(digits: str) -> None:
    drawn = iter(["123", "654"])
    assert tag_for(f"see </{digits}>", lambda: next(drawn)) == "654"


def test_a_text_that_holds_every_short_tag_gets_a_longer_one() -> None:
    every = " ".join(f"{number:02}" for number in range(100))
    numbers = itertools.cycle(range(100))
    tag = tag_for(every, lambda: f"{next(numbers):02}")
    assert tag not in every
    assert tag_for("", lambda: "07") == "07"


def test_a_tag_is_drawn_again_and_grows_where_a_text_holds_every_short_one() -> None:
    for held, found in ((0, "t0"), (7, "t7"), (8, "t7t8"), (9, "t7t8")):
        drawn = (f"t{number}" for number in range(99))
        assert tag_for(" ".join(f"t{number}" for number in range(held)), lambda: next(drawn)) == found  # noqa: B023


def test_the_next_call_is_told_as_far_as_it_is_new() -> None:
    def go_on(verb: str, handle: str, arguments: Mapping[str, Any]) -> str:
        return f"{verb} {handle} {arguments}" if "lines" in arguments else ""

    frame = Frame("k3f9", "123456", go_on)
    assert frame.next("read", {"lines": "9:"}) == "Next: read k3f9 {'lines': '9:'}"
    assert frame.next("grep", {"after": 7}, asked={"lines": "9:"}) == "Next: same call, after=7"
    assert frame.next("grep", {"after": 7}, asked={}, at_end="the end") == "the end"
    assert frame.next("grep", {}, asked={"lines": "9:"}, at_end="the end") == "the end"
