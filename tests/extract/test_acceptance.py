"""Whole questions about outputs that real tools made: what a model copies is proved, what it makes up is marked."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdall.values.extraction import Extraction
from tests.bag.shapes import opened
from tests.extract.shapes import Answer, finding
from tests.extract.test_verify_artifacts import BENCH, NAMES, inventions, pieces_of, skeleton
from tests.requirements import requirement

FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))
CASES = 360 if FULL else 24  # inventions for each output, in full in both forms: over 10,000 together; else over 300
CHUNKS = 60 if FULL else 6  # about, of an output
EACH = 6  # quotes of one chunk
ROUNDS = 40  # questions about an output that is too small for so many quotes at once
FORMS = [(name, held) for at, name in enumerate(NAMES) for held in (True, False) if FULL or held == bool(at % 2)]
IDS = [f"{name}-{'schema' if held else 'wrapper'}" for name, held in FORMS]

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.fuzz,
    pytest.mark.skipif(not NAMES, reason="the real outputs of ../shared/bench are not here"),
]


@dataclass
class Copyist:
    """Reads a chunk and quotes from it, word for word."""

    dice: random.Random
    quotes: list[str] = field(default_factory=list[str])

    def find(self, text: str) -> Answer:
        said = list(in_one_line(pieces_of(text, self.dice, EACH)))
        self.quotes += said
        return Answer("what it says", said)


@dataclass
class Inventor:
    """Reads a chunk and quotes what does not stand in it, with a true quote among the rest."""

    dice: random.Random
    left: int
    invented: set[str] = field(default_factory=set[str])

    def find(self, text: str) -> Answer:
        bare = skeleton(text)
        made = [one for one in in_one_line(inventions(text, self.dice, 2 * EACH)) if skeleton(one) not in bare]
        made = made[: min(EACH, self.left)]
        self.left -= len(made)
        self.invented |= set(made)
        return Answer("what it does not say", [*made, *in_one_line(pieces_of(text, self.dice, 1))], 1.0)


def in_one_line(pieces: Iterator[str]) -> Iterator[str]:
    """As a model writes a quote: on a line of its own, without white space around it."""
    for piece in pieces:
        line = max(piece.split("\n"), key=len).strip()
        if len(skeleton(line)) >= 8 and line[0] not in "“`>":  # marks that are those of a quote
            yield line


def window_for(data: bytes) -> int:
    return max(4_000, len(data) // 3 // CHUNKS + 3_000)


def prove_ranges(found: Extraction, data: bytes) -> None:
    assert found.source_bytes == len(data)
    for one in found.snippets:
        if one.check == "none":
            assert (one.span.start, one.span.end) == (0, 0)
        else:
            assert 0 <= one.span.start < one.span.end <= len(data)
            assert data[one.span.start : one.span.end].decode() == one.text


@pytest.mark.in_full(one_in=3)
@requirement("extract:ranges-computed", "extract:provenance-hash", "extract:provenance-coverage")
@pytest.mark.parametrize(("name", "held"), FORMS, ids=IDS)
async def test_all_that_a_model_copies_is_verified(tmp_path: Path, name: str, held: bool) -> None:
    data = (BENCH / name).read_bytes()
    copyist = Copyist(random.Random(name))
    model = finding(copyist.find, summed=Answer("all of it"), window=window_for(data), keeps_schema=held)
    async with opened(tmp_path, model=model) as bag:
        facts = await bag.keep(data)
        found = await bag.extract(facts.handle, "What does it say?", mode="full-chunked")
        assert (found.source_hash, found.failed, found.warning) == (facts.measure.sha256, (), "")
        assert len(copyist.quotes) >= found.chunks_total == found.chunks_searched
        assert {one.check for one in found.snippets} == {"exact"}
        prove_ranges(found, data)
        texts = [one.text for one in found.snippets]
        assert [quote for quote in copyist.quotes if not any(quote in text for text in texts)] == []
        for one in found.snippets[:: max(1, len(texts) // 5)]:
            span = one.span
            passage = await bag.read(facts.handle, bytes=f"{span.start}:{span.end}", bounded=False)
            assert passage.text == one.text


@pytest.mark.in_full(one_in=3)
@requirement("extract:invented-quote-marked")
@pytest.mark.parametrize(("name", "held"), FORMS, ids=IDS)
async def test_nothing_that_a_model_makes_up_is_left_unmarked(tmp_path: Path, name: str, held: bool) -> None:
    data = (BENCH / name).read_bytes()
    inventor = Inventor(random.Random(name), CASES)
    summed = Answer("as the chunks say", ["and in sum 41 of 42 zebras failed"])
    model = finding(inventor.find, summed=summed, window=window_for(data), keeps_schema=held)
    async with opened(tmp_path, model=model, answer_max_bytes=2**22, answer_max_tokens=2**20) as bag:
        facts = await bag.keep(data)
        for number in range(ROUNDS):
            if inventor.left:
                inventor.invented.clear()
                question = f"What does it not say? ({number})"
                asked = {"handle": facts.handle, "extract": question, "mode": "full-chunked"}
                found = await bag.extract(facts.handle, question, mode="full-chunked")
                prove_ranges(found, data)
                prove_marks(found, inventor.invented, (await bag.call("tool_output", asked)).text)
    assert inventor.left == 0


def prove_marks(found: Extraction, invented: set[str], told: str) -> None:
    """`told` is what the model that asked gets to read."""
    marked = {one.said or one.text for one in found.snippets if not one.verified}
    claimed = {line for one in found.snippets if one.verified for line in (one.said or one.text).split("\n")}
    assert invented - marked == set()
    assert invented & claimed == set()
    unverified = sum(not one.verified for one in found.snippets)
    assert told.count("unverified: ") == unverified >= len(invented)
    assert told.count(", verified") == len(found.snippets) - unverified
