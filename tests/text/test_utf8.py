"""UTF-8 over pieces: a position counted piece by piece is the position in the whole."""

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.text.utf8 import (
    CharCounter,
    Surrogates,
    char_offset_to_byte,
    decode,
    encode,
    pending_bytes,
    straddling_bytes,
    with_surrogates,
)
from tests.requirements import requirement
from tests.text.strategies import SEQUENCES, char_starts, cut_places, in_pieces, messy_bytes


def is_valid(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


@given(messy_bytes)
def test_the_slow_count_of_the_tests_is_that_of_python(data: bytes) -> None:
    assert len(char_starts(data)) == len(data.decode("utf-8", "replace"))


@given(messy_bytes, cut_places)
@example(b"\xf0\x9f\x98\x80", [1, 2, 3])
@example(b"\xe2\x82A", [1, 2])
def test_chars_counted_in_any_pieces_are_the_chars_of_the_whole(data: bytes, cuts: list[int]) -> None:
    counter = CharCounter()
    counted = sum(counter.feed(piece) for piece in in_pieces(data, cuts)) + counter.finish()
    assert counted == len(data.decode("utf-8", "replace"))
    assert counter.valid == is_valid(data)


@given(messy_bytes, cut_places)
def test_a_piece_counts_the_chars_that_end_in_it(data: bytes, cuts: list[int]) -> None:
    counter = CharCounter()
    ends = [*char_starts(data)[1:], len(data)] if data else []
    done = 0
    counted = 0
    for piece in in_pieces(data, cuts):
        counted += counter.feed(memoryview(piece))
        done += len(piece)
        finished = sum(end <= done for end in ends)
        # A sequence that broke off is known to have ended only when the next byte does not go on with it. Python
        # holds back two bytes, each a character, where they could be the start of an encoded surrogate.
        held = 2 if data[done - 2 : done][:1] == b"\xed" else 1
        assert finished - held <= counted <= finished
    assert counted + counter.finish() == len(ends)


def test_counting_can_go_on_after_the_end() -> None:
    counter = CharCounter()
    assert (counter.feed(b"\xe2\x82"), counter.finish(), counter.finish(), counter.feed(b"a")) == (0, 1, 0, 1)


@given(messy_bytes)
def test_pending_bytes_are_those_that_an_incremental_decoder_holds_back(data: bytes) -> None:
    _, used = codecs.utf_8_decode(data, "replace", False)
    assert pending_bytes(data) == pending_bytes(data[-3:]) == len(data) - used


@given(messy_bytes, messy_bytes)
@example(b"\xe2", b"A")
@example(b"a\xf0\x9f", b"\x98\x80")
def test_straddling_bytes_are_the_start_of_a_char_that_goes_on(before: bytes, after: bytes) -> None:
    starts = char_starts(before + after)
    border = max((start for start in starts if start <= len(before)), default=0)
    within = border < len(before) and bool(after) and len(before) not in starts
    assert straddling_bytes(before, after) == (len(before) - border if within else 0)


@given(messy_bytes, st.integers(min_value=0, max_value=80))
def test_the_byte_of_a_char_is_where_it_starts(data: bytes, char: int) -> None:
    starts = char_starts(data)
    assert char_offset_to_byte(data, char) == (starts[char] if char < len(starts) else len(data))


@pytest.mark.parametrize("sequence", SEQUENCES, ids=bytes.hex)
def test_decoding_says_whether_the_text_stands_for_exactly_these_bytes(sequence: bytes) -> None:
    text, exact = decode(b"<" + sequence + b">")
    assert exact == is_valid(sequence)
    assert exact == (text.encode("utf-8") == b"<" + sequence + b">")
    assert decode(memoryview(sequence)) == decode(sequence)


def test_an_overlong_slash_is_never_a_slash() -> None:
    # STORE-003
    assert decode(b"A\xc0\xafB") == ("A\ufffd\ufffdB", False)


@given(st.text(st.characters(categories=["L", "Cs", "Zs"])))
def test_encoding_replaces_lone_surrogates_and_counts_them(text: str) -> None:
    data, replaced = encode(text)
    assert replaced == sum("\ud800" <= char <= "\udfff" for char in text)
    back = data.decode("utf-8")
    assert len(back) == len(text)
    assert all(new == ("\ufffd" if "\ud800" <= old <= "\udfff" else old) for new, old in zip(back, text, strict=True))


@requirement("measure:surrogates-rebuilt")
@given(st.lists(st.text(st.characters(categories=["L", "Cs", "Zs"])) | st.text("\ufffda\ud800\udfff")))
def test_a_text_in_pieces_is_had_back_with_its_lone_surrogates(pieces: list[str]) -> None:
    lone = Surrogates()
    data = b"".join(lone.encode(piece) for piece in pieces)
    text = "".join(pieces)
    assert (data, lone.count) == encode(text)
    assert with_surrogates(data, lone.packed()) == text


@requirement("measure:surrogates-rebuilt")
@given(st.lists(st.text("x\ud800") | st.binary(max_size=4).filter(bytes.isascii)))
def test_bytes_between_the_pieces_are_counted(pieces: list[str | bytes]) -> None:
    lone = Surrogates()
    data = b"".join(lone.encode(one) if isinstance(one, str) else lone.passed(one) for one in pieces)
    whole = "".join(one if isinstance(one, str) else one.decode("ascii") for one in pieces)
    assert with_surrogates(data, lone.packed()) == whole


def test_many_lone_surrogates_take_little_and_places_that_do_not_fit_are_refused() -> None:
    lone = Surrogates()
    data = lone.encode("\udc80" * 100_000)
    packed = lone.packed()
    assert len(packed) < 5_000
    for other in (data[3:], b"x" * len(data), b""):
        with pytest.raises(ValueError, match="lone surrogate"):
            with_surrogates(other, packed)
