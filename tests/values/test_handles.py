"""The grammar of handles: two forms are handles, everything else is nobody's, and no form can be a path."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.values.handles import (
    LETTERS,
    LONGEST,
    SHORTEST,
    SIGNS,
    Foreign,
    Long,
    Short,
    format_long,
    is_mark,
    is_short,
    is_uuid,
    parse,
)
from tests.requirements import requirement
from tests.values.bad_handles import HOSTILE

SESSION = "6a1e1c52-0d0f-4f6e-9a51-3f0b2f1f7c11"
OUTPUT = "0b8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22"

uuids = st.uuids(version=4).map(str)
shorts = st.builds(str.__add__, st.sampled_from(LETTERS), st.text(SIGNS, min_size=SHORTEST - 1, max_size=LONGEST - 1))


@given(shorts)
def test_a_short_handle_reads_back_as_itself(handle: str) -> None:
    assert is_short(handle)
    assert parse(handle, session=SESSION) == Short(handle)


def test_handles_and_marks_are_as_long_as_they_are_documented() -> None:
    """Written out: what is stored and what models have read holds for good."""
    for handle in ("k3f9", "k3f9k3f9k3f9"):
        assert parse(handle, session=SESSION) == Short(handle)
    for text in ("k3f", "k3f9k3f9k3f9k"):
        assert parse(text, session=SESSION) == Foreign(text)
        assert not is_short(text)
    assert parse("k3f9b-k3f9", session=SESSION) == Short("k3f9")
    assert not is_short("k3f9b-k3f9")
    for text in ("k3f9-k3f9", "k3f9bb-k3f9", "3k9fb-k3f9"):
        assert parse(text, session=SESSION) == Foreign(text)
    assert is_mark("k3f9b") is True
    for text in ("k3f9", "k3f9bb", "3kf9b", "k3f9b-", "k3f9a"):
        assert is_mark(text) is False


@given(uuids, uuids)
def test_a_long_handle_reads_back_as_its_two_parts(session: str, output: str) -> None:
    assert parse(format_long(session, output), session=SESSION) == Long(session, output)


@given(uuids)
def test_a_bare_uuid_is_an_output_of_the_session_that_is_asked(output: str) -> None:
    assert is_uuid(output)
    assert parse(output, session=SESSION) == Long(SESSION, output)


@requirement("store:handle-grammar")
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_not_of_a_handles_form_is_nobodys(text: str) -> None:
    assert parse(text, session=SESSION) == Foreign(text)


@requirement("store:handle-exact")
@pytest.mark.parametrize(
    "text",
    [
        "K3F9",
        "k3f9\u0301",
        "k3f9\n",
        " k3f9",
        "k3f9\x00",
        "k3f",
        "k" * (LONGEST + 1),
        "3k9f",
        "kof9",
        "ｋ3f9",
        format_long(SESSION, OUTPUT).upper(),
        format_long(SESSION, OUTPUT).replace("-", ""),
        format_long(SESSION, OUTPUT) + "\u0301",
        format_long(SESSION, OUTPUT) + "\n",
        format_long(SESSION, OUTPUT) + "/",
        format_long(SESSION, OUTPUT) + ".txt",
        format_long(SESSION, OUTPUT).replace("/", "//"),
        format_long(SESSION, "../" + OUTPUT),
        format_long("..", OUTPUT),
        OUTPUT.upper(),
        OUTPUT.replace("-", ""),
        OUTPUT + "\u0301",
        "{" + OUTPUT + "}",
    ],
)
def test_a_handle_matches_exactly_or_not_at_all(text: str) -> None:
    # HANDLE-023: case, dashes and added marks count.
    assert parse(text, session=SESSION) == Foreign(text)


@given(st.one_of(st.text(), st.text(SIGNS + "/.-_ \x00"), shorts, uuids))
def test_nothing_that_counts_as_a_handle_can_be_a_path(text: str) -> None:
    match parse(text, session=SESSION):
        case Short(handle):
            assert handle == text
            assert set(handle) <= set(SIGNS)
        case Long(session, output):
            assert set(session + output) <= set(string.hexdigits.lower() + "-")
        case Foreign(given_text):
            assert given_text == text
