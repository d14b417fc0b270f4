"""Tokens: exact where that is cheap, sampled where it is not, never more work than the text is long."""

import random
import re
import tracemalloc
from math import ceil
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.text import tokens
from holdall.text.tokens import (
    ESTIMATE_UP_TO,
    EXACT_UP_TO,
    PIECE,
    Estimate,
    Tokenizer,
    TokenMeter,
    count_in_pieces,
    rough_estimate,
    tokenizer_named,
)
from tests.requirements import requirement

BLOCK = 64 * 1024


class Words:
    """A toy: one token for each word. It remembers what it was given."""

    name = "words"

    def __init__(self) -> None:
        self.given: list[str] = []

    def count(self, text: str) -> int:
        self.given.append(text)
        return len(text.split())


class Letters(Words):
    name = "letters"

    def count(self, text: str) -> int:
        self.given.append(text)
        return len(text)


class Panic(BaseException):
    """What a tokenizer written in Rust raises: no Exception."""


class Broken:
    name = "broken"

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem

    def count(self, text: str) -> int:
        raise self.problem


def metered(tokenizer: Tokenizer, data: bytes) -> tuple[int, bool]:
    meter = TokenMeter(tokenizer)
    for start in range(0, len(data), BLOCK):
        meter.feed(memoryview(data)[start : start + BLOCK])
    return meter.finish()


def uneven(size: int) -> bytes:
    """Dense at the start and sparse at the end, lines of every length, and never the same twice."""
    dice = random.Random(7)
    lines: list[str] = []
    written = 0
    while written < size:
        longest = 2 + 60 * written // size
        line = " ".join("w" * dice.randint(1, longest) for _ in range(dice.randint(1, 40))) + "\n"
        lines.append(line)
        written += len(line)
    return "".join(lines).encode("ascii")


# ── Pieces ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 5])
def test_a_tokenizer_gets_the_whole_text_in_pieces_of_bounded_size(size: int) -> None:
    tokenizer = Letters()
    text = "x" * size
    assert count_in_pieces(tokenizer, text) == size
    assert "".join(tokenizer.given) == text
    assert all(0 < len(piece) <= PIECE for piece in tokenizer.given)


def test_a_piece_ends_after_a_newline_where_there_is_one_near() -> None:
    tokenizer = Words()
    text = ("word " * 1000 + "\n") * 200
    assert count_in_pieces(tokenizer, text) == 200_000
    assert len(tokenizer.given) > 3
    assert all(piece.endswith("\n") for piece in tokenizer.given)


_PARTS = [
    "word",
    "Name",
    "12345",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\n\n",
    "/",
    ":",
    '":',
    "'s",
    "é",
    "中文",
    "{",
    "}",
    "//",
    "\t",
    "=",
    "-",
]


@given(st.lists(st.sampled_from(_PARTS), max_size=120))
def test_pieces_have_the_tokens_of_the_whole_wherever_that_is_said(parts: list[str]) -> None:
    tokenizer, text = tokenizer_named("o200k"), "".join(parts)
    with mock.patch.object(tokens, "PIECE", 40), mock.patch.object(tokens, "_NEAR", 10):
        meter = TokenMeter(tokenizer)
        meter.feed(text.encode())
        found, exact = meter.finish()
    if exact:
        assert found == tokenizer.count(text)


def test_a_newline_that_is_far_away_does_not_make_pieces_small() -> None:
    tokenizer = Letters()
    count_in_pieces(tokenizer, "a\n" + "x" * (2 * PIECE))
    assert [len(piece) for piece in tokenizer.given] == [PIECE, PIECE, 2]


# ── The meter ───────────────────────────────────────────────────────────────────────────────────────────────


@requirement("measure:session-tokenizer")
@pytest.mark.parametrize("size", [0, 10, BLOCK, BLOCK + 1, EXACT_UP_TO])
def test_up_to_a_megabyte_the_tokenizers_own_count_is_exact(size: int) -> None:
    data = uneven(EXACT_UP_TO)[:size]
    assert metered(Letters(), data) == (size, True)


@requirement("measure:token-estimate-marked")
def test_above_a_megabyte_the_count_is_an_estimate_and_says_so() -> None:
    tokens, exact = metered(Letters(), b"x" * (EXACT_UP_TO + 1))
    assert (tokens, exact) == (EXACT_UP_TO + 1, False)


@requirement("measure:token-estimate-marked")
@pytest.mark.parametrize("size", [0, 1, ESTIMATE_UP_TO, 3 * ESTIMATE_UP_TO])
def test_without_a_tokenizer_the_count_is_always_an_estimate(size: int) -> None:
    tokens, exact = metered(Estimate(), b"word " * (size // 5))
    assert not exact
    assert tokens == pytest.approx(size // 5 + bool(size // 5), rel=0.01)


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("megabytes", [2, 9, 21])
def test_a_sampled_count_is_within_2_percent_on_uneven_text(megabytes: int) -> None:
    data = uneven(megabytes * 1024 * 1024)
    tokens, exact = metered(Words(), data)
    assert not exact
    assert tokens == pytest.approx(len(data.split()), rel=0.02)


@requirement("measure:tokens-never-quadratic")
@pytest.mark.parametrize(
    "filling", [b" ", b"a", b"\n", b"\xff", "漢".encode()], ids=["blanks", "a", "lines", "bad", "han"]
)
@pytest.mark.parametrize("megabytes", [1, 2, 20])
def test_a_tokenizer_is_never_given_more_than_a_fixed_amount(filling: bytes, megabytes: int) -> None:
    tokenizer = Letters()
    data = filling * (megabytes * 1024 * 1024 // len(filling))
    metered(tokenizer, data)
    assert sum(map(len, tokenizer.given)) <= EXACT_UP_TO
    assert max(map(len, tokenizer.given)) <= PIECE
    assert len(tokenizer.given) <= 64 + EXACT_UP_TO // PIECE


@requirement("measure:tokens-never-quadratic")
@pytest.mark.parametrize("filling", [" ", "a", "A", "7", ".", "漢", "aB", "\u3000"])
@pytest.mark.timeout(10)
def test_a_megabyte_without_a_break_is_estimated_at_once(filling: str) -> None:
    assert count_in_pieces(Estimate(), filling * (1024 * 1024 // len(filling))) > 10_000


def test_a_meter_never_holds_much_more_than_a_megabyte() -> None:
    tracemalloc.start()
    try:
        meter = TokenMeter(Words())
        for number in range(1024):
            meter.feed(number.to_bytes(2, "big") * (BLOCK // 2))
        meter.finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < EXACT_UP_TO + 8 * BLOCK


# ── The last resort ─────────────────────────────────────────────────────────────────────────────────────────


@requirement("measure:token-last-resort")
@pytest.mark.parametrize("problem", [ValueError("no"), Panic("stack overflow"), MemoryError()], ids=type)
@pytest.mark.parametrize("text", ["", "abc", "abcd", "abcde", "漢字漢字漢", "x" * (PIECE + 2)])
def test_a_tokenizer_that_fails_leaves_a_token_for_every_four_characters(problem: BaseException, text: str) -> None:
    expected = ceil(len(text) / 4) + (len(text) > PIECE)  # each piece is rounded up
    tokens, exact = metered(Broken(problem), text.encode())
    assert tokens in (expected, rough_estimate(len(text)))
    assert exact == (text == "")
    assert count_in_pieces(Broken(problem), text) == tokens


@pytest.mark.parametrize("problem", [KeyboardInterrupt(), SystemExit(1)], ids=type)
def test_who_wants_to_stop_is_not_taken_for_a_broken_tokenizer(problem: BaseException) -> None:
    with pytest.raises(type(problem)):
        count_in_pieces(Broken(problem), "text")


# ── The estimate ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0), ("hello world", 2), ("Hello, world!", 4), ("x = 12345", 6), ("漢字", 2), (" " * 80, 1), (" " * 81, 2),
        ("internationalization", 4), ("HTTPSConnection", 5), ("a\n\n\nb", 3),
    ],
)  # fmt: skip
def test_the_estimate_counts_words_numbers_and_signs(text: str, tokens: int) -> None:
    assert Estimate().count(text) == tokens


_PIECES = re.compile(
    r"[a-z]+|[0-9]{1,3}|[^\sA-Za-z0-9\x80-\U0010ffff]{1,4}| ?(?:[A-Z]?[a-z]+|[A-Z]+)|[^\x00-\x7f]|[\s]{1,80}"
)


@given(st.text(st.sampled_from('abzXYZ019   \n\t\x1c\x1f.,{"\x00é中😀\ud800'), max_size=120))
def test_the_estimate_counts_what_a_pattern_would_find(text: str) -> None:
    small, capitals = re.findall(r"[a-z]{8,}", text), re.findall(r"[A-Z]{4,}", text)
    longer = sum(len(word) - 6 for word in small) / 5 + sum(len(word) - 2 for word in capitals) / 2.5
    assert Estimate().count(text) == ceil(len(_PIECES.findall(text)) + longer)


@given(st.text("aAbB09 .,\n漢é", max_size=40))
def test_the_estimate_of_a_beginning_is_never_more_than_that_of_the_whole(text: str) -> None:
    counts = [Estimate().count(text[:end]) for end in range(len(text) + 1)]
    assert counts == sorted(counts)


def test_dense_text_is_estimated_on_the_safe_side() -> None:
    # CLAMP-011: 30,000 characters of Han are at least as many tokens here as in any vocabulary in use.
    assert Estimate().count("漢" * 30_000) == 30_000
