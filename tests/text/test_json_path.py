"""JSONPath and JSON Pointer as they are written: what is read, what is refused, and with which hint."""

import pytest

from holdall.text.json.path import (
    Index,
    Name,
    Segment,
    Selector,
    Slice,
    Wildcard,
    decoded_name,
    normalized_path,
    parse_path,
)
from holdall.values.errors import BadQuery
from tests.requirements import requirement


def segments(text: str) -> list[tuple[Selector, ...]]:
    return [segment.selectors for segment in parse_path(text).segments]


@requirement("query:jsonpath")
@pytest.mark.parametrize(
    ("text", "selectors"),
    [
        ("$", []),
        ("$.store.book", [(Name("store"),), (Name("book"),)]),
        ("$['store']['book']", [(Name("store"),), (Name("book"),)]),
        ('$["store"]', [(Name("store"),)]),
        ("$[0]", [(Index(0),)]),
        ("$[*]", [(Wildcard(),)]),
        ("$.*", [(Wildcard(),)]),
        ("$['a','b']", [(Name("a"), Name("b"))]),
        ("$[0, 2]", [(Index(0), Index(2))]),
        ("$[1:3]", [(Slice(1, 3, 1),)]),
        ("$[5:]", [(Slice(5, None, 1),)]),
        ("$[:2]", [(Slice(0, 2, 1),)]),
        ("$[1:5:2]", [(Slice(1, 5, 2),)]),
        ("$[::]", [(Slice(0, None, 1),)]),
        ("$[::0]", [(Slice(0, None, 0),)]),
        ("$ .a [ 'b' ] [ 1 : 2 ]", [(Name("a"),), (Name("b"),), (Slice(1, 2, 1),)]),
        ("$.é漢_9", [(Name("é漢_9"),)]),
        (r"$['it\'s \u00e9 \ud83d\ude00 \\ \/ \n']", [(Name("it's é 😀 \\ / \n"),)]),
        ('$["it\'s"]', [(Name("it's"),)]),
        ("$['']", [(Name(""),)]),
        ("$[9007199254740991]", [(Index(9007199254740991),)]),
    ],
)
def test_a_jsonpath_is_read_as_the_rfc_has_it(text: str, selectors: list[tuple[Selector, ...]]) -> None:
    assert segments(text) == selectors


@requirement("query:jsonpath")
@pytest.mark.parametrize(
    ("text", "selector"),
    [("$..name", Name("name")), ("$..*", Wildcard()), ("$..[0]", Index(0)), ("$..['a']", Name("a"))],
)
def test_two_dots_reach_everything_below(text: str, selector: Selector) -> None:
    assert parse_path(text).segments == (Segment((selector,), descendants=True),)


@requirement("query:json-pointer")
@pytest.mark.parametrize(
    ("text", "selectors"),
    [
        ("", []),
        ("/", [(Name(""),)]),
        ("/a/b", [(Name("a"),), (Name("b"),)]),
        ("/items/0", [(Name("items"),), (Name("0"), Index(0))]),
        ("/01", [(Name("01"),)]),
        ("/-", [(Name("-"),)]),
        ("/a~1b/c~0d/~01", [(Name("a/b"),), (Name("c~d"),), (Name("~1"),)]),
        ("#", []),
        ("#/a%20b/%C3%A9", [(Name("a b"),), (Name("é"),)]),
        ("#/%ff%zz/\udcff%41", [(Name("\ufffd%zz"),), (Name("\udcffA"),)]),
    ],
)
def test_a_json_pointer_is_read_as_its_rfc_has_it(text: str, selectors: list[tuple[Selector, ...]]) -> None:
    assert segments(text) == selectors


@requirement("query:jsonpath-refused")
@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("$[?@.price < 10]", "a filter cannot choose a table; use SQL"),
        ("$[?(@.price < 10)]", "a filter cannot choose a table; use SQL"),
        ("$[-1]", "a negative index counts from the end"),
        ("$[-3:]", "a negative index counts from the end"),
        ("$[::-1]", "a negative index counts from the end"),
        ("$.items.length()", r"functions such as length\(\) are not followed; use SQL"),
        ("$[(@.length-1)]", "scripts are not part of JSONPath; use SQL"),
        ("$.x-kubernetes", r"stands in brackets: \['x-kubernetes'\]"),
        ("items[0]", r"begins with \$"),
        (".items", r"begins with \$"),
        ("$items", r"a segment begins with \. or \["),
        ("$.", "a name or \\* is missing after the dot"),
        ("$...a", "a name or \\* is missing after the dot"),
        ("$[]", "expected a name in quotes, an index, a slice or \\*"),
        ("$[a]", "expected a name in quotes, an index, a slice or \\*"),
        ("$['a'", r"expected , or \]"),
        ("$['a", "no closing '"),
        (r"$['\x41']", r"\\x is not an escape"),
        ("$[01]", "no leading zeros"),
        ("$[9007199254740992]", "at most 2\\^53 - 1"),
        ("$[0 1]", r"expected , or \]"),
        ("/a~2", "a ~ that is not ~0"),
        ("#a", "after # it is empty or begins with /"),
    ],
)
def test_what_is_outside_of_the_subset_is_refused_with_what_to_write_instead(text: str, hint: str) -> None:
    with pytest.raises(BadQuery, match=hint):
        parse_path(text)


@pytest.mark.parametrize("text", ["$" + ".a" * 6000, "$" + "[0]" * 600])
def test_a_path_of_absurd_length_is_refused_with_the_limit(text: str) -> None:
    with pytest.raises(BadQuery, match="at most"):
        parse_path(text)


@pytest.mark.parametrize(
    ("text", "singular"),
    [("$.a[0]['b']", True), ("/a/0", True), ("$", True), ("$[*]", False), ("$..a", False), ("$['a','b']", False)],
)
def test_a_path_knows_whether_it_names_one_place(text: str, singular: bool) -> None:
    assert parse_path(text).is_singular is singular


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("a", "['a']"),
        ("'", r"['\'']"),
        ("\\", r"['\\']"),
        ("\n\x0b", r"['\n\u000b']"),
        ("é😀", "['é😀']"),
        ('"', "['\"']"),
    ],
)
def test_a_normalized_path_is_escaped_as_the_rfc_has_it(name: str, step: str) -> None:
    text, shortened = normalized_path([name.encode(), 3])
    assert (text, shortened) == (f"${step}[3]", False)
    assert segments(text) == [(Name(name),), (Index(3),)]


def test_a_very_long_name_is_shortened_in_the_path_and_it_is_told() -> None:
    text, shortened = normalized_path([b"x" * 100_000])
    assert shortened
    assert len(text) < 600
    assert "…" in text


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (rb"plain", "plain"),
        (rb"\u00e9\"\\\/", 'é"\\/'),
        (rb"\ud83d\ude00", "😀"),
        (rb"\ud800", "\ud800"),
        (rb"\q", r"\q"),
    ],
)
def test_a_name_in_a_document_is_compared_without_its_escapes(raw: bytes, name: str) -> None:
    assert decoded_name(raw) == name.encode("utf-8", "surrogatepass")
