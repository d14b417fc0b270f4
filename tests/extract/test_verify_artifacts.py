"""Quotes from outputs that real tools made: what was copied is proved, what was made up never is."""

import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.extract.chunks import Chunk, plan_chunks
from holdall.extract.verify import Quote, verify
from holdall.store.protocol import OutputReader
from holdall.text.utf8 import decode
from tests.requirements import requirement
from tests.support import reader_of

FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))
BENCH = Path(__file__).parents[2] / "../shared/bench/artifacts"
NAMES = sorted(path.name for path in BENCH.glob("*.*"))
CASES = 720 if FULL else 48  # for each of the outputs: over 10,000 together

pytestmark = [
    pytest.mark.fuzz,
    pytest.mark.skipif(not NAMES, reason="the real outputs of ../shared/bench are not here"),
]


def chunks_of(reader: OutputReader, most: int) -> list[Chunk]:
    """At most so many, from all over the output."""
    chunks = plan_chunks(reader.read, measure=reader.facts.measure, chunk_tokens=20_000, overlap_percent=10)
    return chunks[:: max(1, len(chunks) // most)]


def pieces_of(text: str, dice: random.Random, number: int) -> Iterator[str]:
    """Lines, parts of lines, and stretches over several of them."""
    made = 0
    for _ in range(20 * number):
        start = dice.randrange(len(text))
        piece = text[start : start + dice.choice((12, 25, 60, 150, 400))]
        if dice.random() < 0.5:
            piece = piece.split("\n")[0]
        if made < number and len(re.sub(r"[\W_]", "", piece)) >= 8:
            made += 1
            yield piece


@requirement("extract:ranges-computed")
@pytest.mark.parametrize("name", NAMES)
def test_what_was_copied_is_proved_with_its_bytes(name: str) -> None:
    data = (BENCH / name).read_bytes()
    reader, dice = reader_of(data), random.Random(name)
    copied = 0
    for chunk in chunks_of(reader, 1000 if FULL else 12):
        text = decode(data[chunk.span.start : chunk.span.end])[0]
        for piece in pieces_of(text, dice, 6):
            (snippet,) = verify([Quote(piece, chunk.index, (chunk.span,))], reader.read, len(data)).snippets
            assert snippet.check == "exact"
            assert snippet.text == decode(data[snippet.span.start : snippet.span.end])[0]
            assert piece in snippet.text
            copied += 1
    assert copied >= 6


@pytest.mark.in_full(one_in=3)
@requirement("extract:invented-quote-marked")
@pytest.mark.parametrize("name", NAMES)
def test_what_was_made_up_is_never_taken_for_a_quote(name: str) -> None:
    data = (BENCH / name).read_bytes()
    reader, dice = reader_of(data), random.Random(name)
    chunks = chunks_of(reader, 40 if FULL else 6)
    shares = [CASES // len(chunks) + (number < CASES % len(chunks)) for number in range(len(chunks))]
    checks: list[str] = []
    for chunk, share in zip(chunks, shares, strict=True):
        text = decode(data[chunk.span.start : chunk.span.end])[0]
        bare = skeleton(text)
        made_up = [quote for quote in inventions(text, dice, 2 * share) if skeleton(quote) not in bare][:share]
        for quote in made_up:
            (snippet,) = verify([Quote(quote, chunk.index, (chunk.span,))], reader.read, len(data)).snippets
            assert not snippet.verified, quote
            assert (snippet.said or snippet.text) == quote
            checks.append(snippet.check)
    assert len(checks) == CASES
    assert {"near", "none"} == set(checks)


def skeleton(text: str) -> str:
    """Only the letters and digits: a text whose skeleton is not there is not there, however it is written."""
    return re.sub(r"[\W_]", "", text)


def inventions(text: str, dice: random.Random, number: int) -> Iterator[str]:
    """What a model says that has seen the text and does not copy it."""
    for piece in pieces_of(text, dice, number):
        match dice.randrange(6):
            case 0:  # another digit or letter
                places = [at for at, char in enumerate(piece) if char.isalnum()]
                at = dice.choice(places)
                yield piece[:at] + ("7" if piece[at] != "7" else "3") + piece[at + 1 :]
            case 1:  # a word more
                at = piece.find(" ") + 1
                yield f"{piece[:at]}certainly {piece[at:]}"
            case 2:  # a word less
                yield re.sub(r"\w+", "", piece, count=2) + " indeed"
            case 3:  # two places put together
                yield f"{piece[: len(piece) // 2]} not {piece[::-1]}"
            case 4:  # all of it made up
                yield " ".join("".join(dice.choices("abcdefghij", k=6)) for _ in range(8))
            case _:  # true, and then something more
                yield f"{piece} which is why 41 of 42 failed"
