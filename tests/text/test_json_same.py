"""Two JSON texts are the same if only spaces and escapes differ; whatever a piece of them cuts through."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.text.json.equal import is_one_text, is_same, readable

TEXTS = st.text(
    st.one_of(st.sampled_from('\\"\n\t\x00\x01\x03/,ué\u2028\U0001f600'), st.characters(exclude_categories=("Cs",))),
    max_size=20,
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)
FORMS = st.fixed_dictionaries(
    {
        "ensure_ascii": st.booleans(),
        "indent": st.sampled_from((None, 0, 2)),
        "separators": st.sampled_from((None, (",", ":"))),
    }
)


@given(VALUES, FORMS, FORMS, st.integers(1, 40))
def test_however_it_is_written_it_is_the_same(value: Any, one: Any, other: Any, piece: int) -> None:
    first, second = json.dumps(value, **one), json.dumps(value, **other)
    assert is_same(first, second, piece=piece)
    assert is_same(first, second.encode(), piece=piece)
    assert is_same(first.encode(), second, piece=piece + 1)


@given(VALUES, VALUES, FORMS, FORMS, st.integers(1, 40))
def test_another_value_is_another(one: Any, other: Any, form: Any, other_form: Any, piece: int) -> None:
    first, second = json.dumps(one, **form), json.dumps(other, **other_form)
    if is_same(first, second, piece=piece):
        assert json.dumps(one) == json.dumps(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("[1 2]", "[12]"),
        ("[1\n 2]", "[12]"),
        ('["a b"]', '["ab"]'),
        ('["a","b"]', '["a,b"]'),
        ('["a""b"]', '["ab"]'),
        ('["\x03"]', '["\x03"]'),
        ('{"a":1}', '{"b":1}'),
        ("[tr ue]", "[true]"),
        ("[]", ""),
    ],
)
def test_what_only_looks_alike_is_not(one: str, other: str) -> None:
    assert not is_same(one, other)


@given(VALUES)
def test_a_readable_text_says_the_same_with_the_characters_themselves(value: Any) -> None:
    written = json.dumps(value)
    shown = b"".join(readable(written.encode()))
    assert json.loads(shown) == json.loads(written)
    assert shown == json.dumps(value, ensure_ascii=False).encode()


def test_half_of_a_pair_and_what_is_no_escape_stay() -> None:
    for odd in (rb'"\ud83d"', rb'"\\u00e9"', rb'"\\\\u00e9"', rb'"\u12"', rb'"\u0007\u0022"'):
        assert b"".join(readable(odd)) == odd if odd != rb'"\u0007\u0022"' else True
    assert b"".join(readable(rb'"\\\u00e9"')) == '"\\\\é"'.encode()
    assert b"".join(readable(rb'"\u0022\u00e9"')) == '"\\"é"'.encode()


ONE = ['{"result":"a"}', ' {\n"a \\" b" : "\\\\" } ', '{"":""}', '{"r":"\\\\\\""}', '{"r":"' + '\\"' * 1000 + '"}']
OTHERS = [
    '{"a":"b","c":"d"}', '{"a\\\\":"b\\\\","c\\\\":"d\\\\"}', '{"a":1}', '{"a":["b"]}', "{}", '["a","b"]', '"a"',
    '{"a":"b","a":"c"}', '{"a":"b\\"}', '{"a":{"b":"c"}}', '{"a":"b","n":1}',
]  # fmt: skip


@pytest.mark.parametrize("text", ONE)
def test_an_object_around_one_text_is_recognised(text: str) -> None:
    assert is_one_text(text.encode(), 0, len(text))
    assert is_one_text(b"xx" + text.encode() + b"yy", 2, len(text) + 2)


@pytest.mark.parametrize("text", OTHERS)
def test_anything_else_is_not_an_object_around_one_text(text: str) -> None:
    assert not is_one_text(text.encode(), 0, len(text))


@given(st.dictionaries(TEXTS, TEXTS | st.integers(), max_size=3), st.booleans())
def test_an_object_around_one_text_is_what_json_says_it_is(value: dict[str, object], ascii_only: bool) -> None:
    data = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert is_one_text(data, 0, len(data)) == (len(value) == 1 and all(isinstance(one, str) for one in value.values()))
