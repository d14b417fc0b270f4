"""Deciding: at a limit it fits, over it it does not, and no work is done that a bound makes needless."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.policy.decide import LONGEST_TOKEN, Fits, Keep, Limits, Reason, decide
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement


def tokens_in(text: str) -> int:
    return len(re.findall(r"\s*\S{1,8}|\s+", text))


class Counting:
    """A toy tokenizer: words, in parts of eight letters. It counts how often it was asked."""

    name = "parts of words"

    def __init__(self) -> None:
        self.asked = 0

    def count(self, text: str) -> int:
        self.asked += 1
        return tokens_in(text)


class Unencodable(str):
    """A text that notices when somebody encodes it."""

    __slots__ = ()

    def encode(self, *_: Any, **__: Any) -> bytes:
        raise AssertionError("a bound would have settled it")


def decided(text: str, limits: Limits, tokens_left: int | None = None) -> Fits | Keep:
    return decide(text, limits=limits, tokenizer=Counting(), tokens_left=tokens_left)


def exceeded(text: str, limits: Limits, tokens_left: int | None) -> set[Reason]:
    """Every limit that `text` is over, counted the plain way."""
    measures: dict[Reason, tuple[int, int | None]] = {
        "bytes": (len(text.encode("utf-8", "surrogatepass")), limits.bytes),
        "chars": (len(text), limits.chars),
        "lines": (len(text.split("\n")) - (text == "" or text.endswith("\n")), limits.lines),
        "tokens": (tokens_in(text), limits.tokens),
        "room": (tokens_in(text), tokens_left),
    }
    return {reason for reason, (found, limit) in measures.items() if limit is not None and found > limit}


# ── Boundaries ──────────────────────────────────────────────────────────────────────────────────────────────


@requirement("way:decide-limit-fits", "way:decide-reason-value")
@pytest.mark.parametrize(
    ("limits", "sizes", "unit", "reason"),
    [
        pytest.param(
            Limits(bytes=16384), (16383, 16384, 16385), "x", "bytes", marks=requirement("way:decide-bytes"), id="bytes"
        ),
        pytest.param(
            Limits(bytes=30), (9, 10, 11), "漢", "bytes", marks=requirement("way:decide-bytes"), id="bytes of chars"
        ),
        pytest.param(
            Limits(bytes=12), (2, 3, 4), "😀", "bytes", marks=requirement("way:decide-bytes"), id="bytes of long chars"
        ),
        pytest.param(
            Limits(chars=4000), (3999, 4000, 4001), "é", "chars", marks=requirement("way:decide-chars"), id="chars"
        ),
        pytest.param(
            Limits(lines=2000), (1999, 2000, 2001), "x\n", "lines", marks=requirement("way:decide-lines"), id="lines"
        ),
        pytest.param(
            Limits(tokens=100),
            (99, 100, 101),
            "eightabc",
            "tokens",
            marks=requirement("way:decide-tokens"),
            id="tokens",
        ),
    ],
)
def test_at_a_limit_it_fits_and_one_more_does_not(
    limits: Limits, sizes: tuple[int, int, int], unit: str, reason: Reason
) -> None:
    # STORE-013: in bytes and chars and lines and tokens.
    under, at, over = (decided(unit * size, limits) for size in sizes)
    assert (under, at, over) == (Fits(), Fits(), Keep(reason))


@requirement("way:decide-lines")
@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("x\n" * 2000, True),
        ("x\n" * 1999 + "x", True),
        ("x\n" * 2000 + "x", False),
        ("x\n" * 2001, False),
        ("é\n" * 2000, True),
        ("é\n" * 2000 + "é", False),
        ("\n" * 2000, True),
        ("\n" * 2001, False),
        ("x\r\n" * 2000, True),
        ("x\r\u2028\x0b" * 3000, True),
    ],
)
def test_a_final_newline_does_not_start_another_line(text: str, fits: bool) -> None:
    # CLAMP-003
    expected = Fits() if fits else Keep("lines")
    assert decided(text, Limits(lines=2000)) == expected
    assert decided(text, DIALECTS["clamp"].limits) == expected


def test_what_is_over_the_room_of_the_turn_is_kept() -> None:
    assert decided("one two three", Limits(), tokens_left=3) == Fits()
    assert decided("one two three", Limits(), tokens_left=2) == Keep("room")
    assert decided("x" * (2 * LONGEST_TOKEN + 1), Limits(), tokens_left=2) == Keep("room")
    assert decided("x", Limits(), tokens_left=0) == Keep("room")
    assert decided("", Limits(), tokens_left=0) == Fits()


def test_a_lone_surrogate_counts_as_the_three_bytes_of_its_replacement() -> None:
    assert decided("\ud800", Limits(bytes=3)) == Fits()
    assert decided("\ud800", Limits(bytes=2)) == Keep("bytes")


# ── Always ──────────────────────────────────────────────────────────────────────────────────────────────────

small = st.none() | st.integers(min_value=0, max_value=30)
some_limits = st.builds(Limits, bytes=small, chars=small, lines=small, tokens=small)
texts = st.text(st.sampled_from("ab \n\r漢é😀\ud800"), max_size=40)


@requirement("way:decide-reason-value", "dialect:first-limit-decides")
@given(texts, some_limits, small)
def test_it_is_kept_when_and_only_when_a_limit_is_passed_and_the_reason_is_one_of_them(
    text: str, limits: Limits, tokens_left: int | None
) -> None:
    over = exceeded(text, limits, tokens_left)
    match decided(text, limits, tokens_left):
        case Fits():
            assert not over
        case Keep(reason):
            assert reason in over


@requirement("way:decide-monotone")
@given(texts, some_limits, small)
def test_when_a_beginning_is_kept_so_is_everything_longer(text: str, limits: Limits, tokens_left: int | None) -> None:
    kept = [isinstance(decided(text[:end], limits, tokens_left), Keep) for end in range(len(text) + 1)]
    assert kept == sorted(kept)


@requirement("way:decide-absent-limit")
@pytest.mark.parametrize("name", ["bytes", "chars", "lines", "tokens"])
def test_a_limit_that_is_not_there_never_decides(name: str) -> None:
    text = "word\n" * 5000
    assert decided(text, Limits()) == Fits()
    assert decided(text, replace(Limits(), **{name: 4999})) == Keep(_reason(name))
    others: dict[str, Any] = {"bytes": 4999, "chars": 4999, "lines": 4999, "tokens": 4999, name: None}
    assert decided(text, Limits(**others)) != Keep(_reason(name))


@requirement("dialect:first-limit-decides")
def test_one_limit_is_enough_whatever_the_others_say() -> None:
    roomy = Limits(bytes=10**6, chars=10**6, lines=10**6, tokens=10**6)
    text = "word\n" * 100
    assert decided(text, roomy) == Fits()
    assert decided(text, replace(roomy, bytes=499)) == Keep("bytes")
    assert decided(text, replace(roomy, chars=499)) == Keep("chars")
    assert decided(text, replace(roomy, lines=99)) == Keep("lines")
    assert decided(text, replace(roomy, tokens=99)) == Keep("tokens")


def _reason(name: str) -> Reason:
    reasons: dict[str, Reason] = {"bytes": "bytes", "chars": "chars", "lines": "lines", "tokens": "tokens"}
    return reasons[name]


# ── No work that a bound makes needless ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "limits", "tokens_left", "asked"),
    [
        pytest.param("word " * 20, Limits(tokens=100), None, 0, id="no more bytes than tokens are allowed"),
        pytest.param("x" * (LONGEST_TOKEN * 100 + 1), Limits(tokens=100), None, 0, id="more than any tokens can hold"),
        pytest.param("word " * 10_000, Limits(bytes=100, tokens=1000), None, 0, id="over in bytes already"),
        pytest.param("word\n" * 10_000, Limits(lines=100, tokens=1000), None, 0, id="over in lines already"),
        pytest.param("word " * 10_000, Limits(bytes=10**6), None, 0, id="nobody limits tokens"),
        pytest.param("漢" * 20, Limits(tokens=80), None, 0, id="four bytes a char are within the tokens"),
        pytest.param("word " * 20, Limits(), 100, 0, id="within the room"),
        pytest.param("word " * 30, Limits(tokens=100), 120, 1, id="only here it has to be counted"),
    ],
)
def test_a_tokenizer_is_asked_only_where_no_bound_settles_it(
    text: str, limits: Limits, tokens_left: int | None, asked: int
) -> None:
    tokenizer = Counting()
    decide(text, limits=limits, tokenizer=tokenizer, tokens_left=tokens_left)
    assert tokenizer.asked == asked


@pytest.mark.parametrize(
    ("text", "limits", "decision"),
    [
        pytest.param("x" * 1000, Limits(bytes=1000), Fits(), id="ASCII has as many bytes as chars"),
        pytest.param("x" * 1001, Limits(bytes=1000), Keep("bytes"), id="more chars than bytes are allowed"),
        pytest.param("漢" * 1001, Limits(bytes=1000), Keep("bytes"), id="more chars than bytes, not ASCII"),
        pytest.param("漢" * 250, Limits(bytes=1000), Fits(), id="four bytes a char are within it"),
        pytest.param("漢" * 20, Limits(bytes=1000, chars=10), Keep("chars"), id="over in chars already"),
    ],
)
def test_text_is_encoded_only_where_no_bound_settles_it(text: str, limits: Limits, decision: Fits | Keep) -> None:
    assert decided(Unencodable(text), limits) == decision


def test_a_tokenizer_that_fails_does_not_stop_the_decision() -> None:
    class Broken:
        name = "broken"

        def count(self, text: str) -> int:
            raise ValueError("no vocabulary")

    limits = Limits(tokens=100)
    assert decide("x" * 400, limits=limits, tokenizer=Broken()) == Fits()
    assert decide("x" * 401, limits=limits, tokenizer=Broken()) == Keep("tokens")
