"""A document in chunks: every byte, equal sizes, an overlap that loses nothing, and cuts where a reader would cut."""

import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.extract.chunks import Chunk, Part, parts_of, plan_chunks
from holdall.text.borders import Read, border_before
from holdall.text.tokens import Estimate, Tokenizer, tokenizer_named
from holdall.text.utf8 import decode
from holdall.values.errors import UsageError
from holdall.values.outputs import Kind, Measure
from holdall.values.spans import Span
from tests.requirements import requirement
from tests.support import reader_of
from tests.text.strategies import SEQUENCES, char_starts

FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))
BENCH = Path(__file__).parents[2] / "../shared/bench/artifacts"


class Bytewise:
    """One token a byte: then sizes can be told exactly."""

    name = "bytes"

    def count(self, text: str) -> int:
        return len(text.encode())


def read_of(data: bytes) -> Read:
    return lambda start, end: data[max(0, start) : max(0, end)]


def planned(data: bytes, chunk_bytes: int, overlap: float = 10, kind: Kind = "text") -> list[Chunk]:
    """In chunks of at most so many bytes, as every byte is said to be a token."""
    measure = Measure(bytes=len(data), tokens=len(data), kind=kind)
    return list(plan_chunks(read_of(data), measure=measure, chunk_tokens=chunk_bytes, overlap_percent=overlap))


pieces = st.sampled_from(
    [*SEQUENCES, b"word", b"a longer line of words\n", b"x" * 40, b'{"k":1},', b"}\n", b"\r\n" * 3]
)
documents = st.lists(pieces, min_size=1, max_size=400).map(b"".join)
overlaps = st.sampled_from([0, 5, 10, 33.3, 50])
kinds = st.sampled_from(["text", "json", "html", "binary", "csv"])


def starts_of_chars(data: bytes) -> set[int]:
    return {*char_starts(data), len(data)}


# ── What holds for every document ───────────────────────────────────────────────────────────────────────────


@requirement("extract:rebalanced", "extract:overlap", "extract:overlap-async")
@given(documents, st.integers(min_value=96, max_value=2000), overlaps, kinds)
@example(b"\xf0\x9f\x98\x80" * 400, 97, 50, "text")
@example(b"\r\n" * 900, 96, 10, "text")
@example(b"a\r\n" * 900, 131, 5, "csv")
def test_chunks_cover_every_byte_in_order_with_the_overlap_that_was_asked_for(
    data: bytes, most: int, overlap: float, kind: Kind
) -> None:
    chunks = planned(data, most, overlap, kind)
    whole_chars = starts_of_chars(data)
    assert (chunks[0].span.start, chunks[-1].span.end) == (0, len(data))
    assert [(chunk.index, chunk.total) for chunk in chunks] == [(at, len(chunks)) for at in range(len(chunks))]
    assert {place for chunk in chunks for place in (chunk.span.start, chunk.span.end)} <= whole_chars
    assert max(chunk.span.end - chunk.span.start for chunk in chunks) <= most
    equal = len(data) / (1 + (len(chunks) - 1) * (1 - overlap / 100))
    near = max(3, equal * 0.05) + 2
    for left, right in itertools.pairwise(chunks):
        assert left.span.start < right.span.start <= left.span.end < right.span.end
        assert right.overlap == left.span.end - right.span.start
        assert int(equal * overlap / 100) <= right.overlap <= equal * overlap / 100 + near
    if len(chunks) > 1:
        for chunk in chunks:
            assert equal - near <= chunk.span.end - chunk.span.start <= equal + 2 * near


@requirement("extract:rebalanced")
def test_a_document_that_fits_is_one_chunk_and_one_byte_more_is_two_of_half_the_size() -> None:
    assert planned(b"x" * 1000, 1000) == [Chunk(0, 1, Span(0, 1000))]
    sizes = [chunk.span.end - chunk.span.start for chunk in planned(b"x" * 1001, 1000)]
    assert len(sizes) == 2
    assert max(sizes) - min(sizes) <= 2
    assert sizes[0] == pytest.approx(1001 / 1.9, abs=2)


def test_an_empty_document_has_no_chunks() -> None:
    assert planned(b"", 1000) == []


@requirement("extract:overlap")
@pytest.mark.parametrize("overlap", [5, 10])
def test_a_fact_on_a_boundary_stands_whole_in_one_chunk_for_every_shift(overlap: float) -> None:
    filler = b"the quick brown fox jumps over the lazy dog\n" * 200
    boundary = planned(filler, 2000, overlap)[2].span.end
    longest = min(chunk.overlap for chunk in planned(filler, 2000, overlap)[1:])
    needle = (b"NEEDLE-" * 40)[:longest]
    for shift in range(-len(needle) - 5, 6):
        at = boundary + shift
        data = filler[:at] + needle + filler[at + len(needle) :]
        chunks = planned(data, 2000, overlap)
        assert any(chunk.span.start <= at and at + len(needle) <= chunk.span.end for chunk in chunks), shift


@given(documents, st.integers(min_value=96, max_value=900), st.data())
def test_whatever_is_no_longer_than_the_overlap_stands_whole_in_one_chunk(
    data: bytes, most: int, draw: st.DataObject
) -> None:
    chunks = planned(data, most, 10)
    longest = min((chunk.overlap for chunk in chunks[1:]), default=len(data))
    start = draw.draw(st.integers(0, len(data) - 1))
    end = min(len(data), start + draw.draw(st.integers(1, longest)))
    assert any(chunk.span.start <= start and end <= chunk.span.end for chunk in chunks)


# ── Where it is cut ─────────────────────────────────────────────────────────────────────────────────────────


def ends(data: bytes, chunks: Sequence[Chunk], width: int) -> set[bytes]:
    return {data[chunk.span.end - width : chunk.span.end] for chunk in chunks[:-1]}


@requirement("extract:cut-at-borders")
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_lines_stay_whole(newline: bytes) -> None:
    data = newline.join(b"%d: something happened here" % number for number in range(2000)) + newline
    chunks = planned(data, 4000)
    assert ends(data, chunks, len(newline)) == {newline}
    assert all(data[: chunk.span.start].endswith(newline) for chunk in chunks[1:])


@requirement("extract:cut-at-borders")
def test_elements_of_json_on_one_line_stay_whole() -> None:
    records = [{"id": number, "name": f"a, b [{number}]", "tags": ["x", "y,z"]} for number in range(2000)]
    data = json.dumps(records, separators=(",", ":")).encode()
    chunks = planned(data, 4000, kind="json")
    assert ends(data, chunks, 2) == {b"},"}
    assert {data[chunk.span.start : chunk.span.start + 6] for chunk in chunks[1:]} == {b'{"id":'}


@pytest.mark.parametrize(
    ("data", "kind", "cut_after"),
    [
        (json.dumps(["word " * 3] * 900, separators=(",", ":")).encode(), "json", {b'",'}),
        (b"[" + b",".join(b"%d" % number for number in range(10000, 19999)) + b"]", "json", None),
        (b"<p>some text</p>" * 900, "html", {b"p>"}),
        (b"some words without a line" * 400, "text", None),
    ],
    ids=["strings", "numbers", "tags", "words"],
)
def test_other_long_lines_are_cut_between_strings_numbers_tags_and_words(
    data: bytes, kind: Kind, cut_after: set[bytes] | None
) -> None:
    chunks = planned(data, 2000, kind=kind)
    assert len(chunks) > 3
    if cut_after is not None:
        assert ends(data, chunks, 2) == cut_after
    else:
        assert ends(data, chunks, 1) <= {b",", b" "}


def test_a_line_border_that_is_not_near_is_not_worth_a_short_chunk() -> None:
    data = b"x" * 700 + b"\n" + b"x" * 1400
    assert 701 not in {chunk.span.end for chunk in planned(data, 1200)}
    assert border_before(read_of(data), 900, near=100) == 900
    assert border_before(read_of(data), 900, near=200) == 701


def test_a_carriage_return_is_not_parted_from_its_newline() -> None:
    data = b"x" * 99 + b"\r\n" + b"x" * 99
    assert border_before(read_of(data), 100, near=0) == 99
    assert border_before(read_of(data), 101, near=0) == 101


@pytest.mark.parametrize("at", range(1, 12))
def test_no_cut_is_inside_a_character(at: int) -> None:
    data = "a😀é漢z".encode()
    assert border_before(read_of(data), at, near=0) in starts_of_chars(data)


# ── What it costs ───────────────────────────────────────────────────────────────────────────────────────────


def test_a_plan_reads_nothing_and_a_chunk_of_a_gigabyte_a_few_kilobytes() -> None:
    asked: list[int] = []

    def read(start: int, end: int) -> bytes:
        asked.append(end - start)
        return (b"one line of a log, and the next\n" * ((end - start) // 32 + 2))[start % 32 :][: end - start]

    size = 1 << 30
    chunks = plan_chunks(
        read, measure=Measure(bytes=size, tokens=size // 4, kind="log"), chunk_tokens=100_000, overlap_percent=10
    )
    assert 2700 < len(chunks) < 3500
    assert asked == []
    middle = chunks[len(chunks) // 2]
    assert (middle.span.end % 32, middle.span.start % 32) == (0, 0)
    assert sum(asked) < 32 * 1024
    assert [chunk.span for chunk in chunks[10:12]] == [chunks[10].span, chunks[11].span]
    assert chunks[-1].span.end == size
    with pytest.raises(IndexError):
        chunks[len(chunks)]


# ── Tokens ──────────────────────────────────────────────────────────────────────────────────────────────────


def divided(data: bytes, tokenizer: Tokenizer, chunk_tokens: int, overlap: float = 10) -> list[Part]:
    chunk = Chunk(0, 1, Span(0, len(data)))
    return parts_of(
        read_of(data), chunk, tokenizer=tokenizer, chunk_tokens=chunk_tokens, overlap_percent=overlap, kind="text"
    )


@given(documents, st.integers(min_value=192, max_value=1500), overlaps, st.sampled_from([Bytewise(), Estimate()]))
def test_no_part_has_more_tokens_than_a_call_may_hold_and_no_byte_is_lost(
    data: bytes, most: int, overlap: float, tokenizer: Tokenizer
) -> None:
    parts = divided(data, tokenizer, most, overlap)
    assert (parts[0].span.start, parts[-1].span.end) == (0, len(data))
    for left, right in itertools.pairwise(parts):
        assert left.span.start < right.span.start <= left.span.end < right.span.end
    for part in parts:
        assert part.text == decode(data[part.span.start : part.span.end])[0]
        assert tokenizer.count(part.text) <= most


@pytest.mark.parametrize("size", [400, 30_000, 90_000])
def test_one_token_too_many_makes_two_parts_of_half_the_size(size: int) -> None:
    data = b"0123456789abcdef" * (size // 16)
    assert len(divided(data, Bytewise(), len(data))) == 1
    parts = divided(data, Bytewise(), len(data) - 1)
    assert [part.tokens for part in parts] == [pytest.approx(len(data) / 1.9, abs=4)] * 2


class Letters:
    """Every x is a token, and nothing else."""

    name = "x"

    def count(self, text: str) -> int:
        return text.count("x")


def test_a_long_text_whose_samples_come_near_the_limit_is_counted() -> None:
    sparse = b"x." * 30_000
    data = sparse[:1000] + b"x" * 200 + sparse[1200:]  # a hundred more, where no sample is taken
    parts = divided(data, Letters(), 30_050)
    assert len(parts) == 2
    (whole,) = divided(data, Letters(), 40_000)
    assert whole.tokens == 30_000  # by its samples: near enough where so many more would fit


def test_a_chunk_that_fits_is_one_part_with_its_text() -> None:
    read = read_of("a 漢字 b".encode())
    (part,) = parts_of(read, Chunk(1, 3, Span(2, 8)), tokenizer=Bytewise(), chunk_tokens=200, overlap_percent=10)
    assert part == Part(Span(2, 8), "漢字", 6)
    assert parts_of(read, Chunk(0, 1, Span(0, 0)), tokenizer=Bytewise(), chunk_tokens=9, overlap_percent=0) == []


def test_only_the_dense_part_of_a_document_is_divided() -> None:
    data = b"plain words in a line of the log file\n" * 5000 + b"0x7f3a9b2c4d5e6f!" * 6000
    tokenizer = tokenizer_named("auto")
    reader = reader_of(data, tokenizer=tokenizer)
    measure = reader.facts.measure
    chunks = plan_chunks(reader.read, measure=measure, chunk_tokens=8000, overlap_percent=10)
    parts = [
        parts_of(reader.read, chunk, tokenizer=tokenizer, chunk_tokens=8000, overlap_percent=10) for chunk in chunks
    ]
    assert len(parts[0]) == 1
    assert len(parts[-1]) > 1
    assert max(tokenizer.count(part.text) for each in parts for part in each) <= 8000


@pytest.mark.skipif(not BENCH.is_dir(), reason="the real outputs of ../shared/bench are not here")
@pytest.mark.parametrize("name", ["gh_openapi.json", "tau_gpt4o_traj.json", "cn_pcas_min.txt"])
def test_real_outputs_are_sent_in_parts_that_fit(name: str) -> None:
    tokenizer, most = tokenizer_named("auto"), 30_000
    reader = reader_of((BENCH / name).read_bytes(), tokenizer=tokenizer)
    measure = reader.facts.measure
    chunks = plan_chunks(reader.read, measure=measure, chunk_tokens=most, overlap_percent=10)
    for chunk in chunks[:: 1 if FULL else 8]:
        parts = parts_of(
            reader.read, chunk, tokenizer=tokenizer, chunk_tokens=most, overlap_percent=10, kind=measure.kind
        )
        assert max(tokenizer.count(part.text) for part in parts) <= most
        assert (parts[0].span.start, parts[-1].span.end) == (chunk.span.start, chunk.span.end)


@pytest.mark.parametrize(("tokens", "overlap"), [(0, 10), (-5, 10), (100, -1), (100, 51)])
def test_sizes_that_make_no_sense_are_refused(tokens: int, overlap: float) -> None:
    with pytest.raises(UsageError):
        plan_chunks(read_of(b"x"), measure=Measure(bytes=1, tokens=1), chunk_tokens=tokens, overlap_percent=overlap)
