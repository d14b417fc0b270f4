"""What came back, held against what was stored: the bytes that were shown, and whether the needle was found.

A library's word is not taken for anything: each page counts only where it is in the stored text byte for byte.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers.data import ANSWER

ANSWER_MOST = 16 * 1024  # bytes; a longer answer costs more than most results that it was to save
_LEAST = 32  # bytes of a line of a notice that can be told from chance


@dataclass(frozen=True, slots=True)
class Judgement:
    stored: int  # bytes
    reached: int  # of them, by the notice and all reads
    strange: int  # given as stored text, and not in it
    notice: int
    answer: int
    answered: bool  # what belongs to the needle is in the answer, however long that is

    @property
    def share(self) -> float:
        return self.reached / self.stored if self.stored else 0.0

    @property
    def found(self) -> bool:
        return self.answered and self.answer <= ANSWER_MOST


def judge(out: Path) -> Judgement:
    """Of the files that one run left behind."""
    stored = (out / "stored").read_bytes()
    notice = (out / "notice").read_bytes()
    answer = (out / "answer").read_bytes()
    with open(out / "pages", encoding="utf-8") as pages:
        shown, strange = locate(stored, (json.loads(line)["shown"].encode() for line in pages))
    shown += seen_in_notice(stored, notice)
    return Judgement(
        stored=len(stored), reached=covered(stored, shown), strange=strange, notice=len(notice), answer=len(answer),
        answered=ANSWER.encode() in answer,
    )  # fmt: skip


def locate(stored: bytes, pages: Iterable[bytes]) -> tuple[list[tuple[int, int]], int]:
    """Where each page stands, the next one sought behind the one before; and how many bytes are nowhere."""
    spans: list[tuple[int, int]] = []
    strange = behind = 0
    for page in pages:
        start = stored.find(page, behind)
        start = stored.find(page) if start < 0 else start
        if start < 0:
            strange += len(page)
            continue
        behind = start + len(page)
        spans.append((start, behind))
    return spans, strange


def seen_in_notice(stored: bytes, notice: bytes) -> list[tuple[int, int]]:
    """A preview shows stored text too. Only whole lines of the notice count, so that a frame is not taken for data."""
    lines = [line for line in notice.split(b"\n") if len(line) >= _LEAST]
    return [(start, start + len(line)) for line in lines if (start := stored.find(line)) >= 0]


def covered(stored: bytes, spans: Sequence[tuple[int, int]]) -> int:
    """How many bytes the spans cover. A line's end between two of them is as good as shown."""
    total = end = 0
    for start, stop in sorted(spans):
        if start == end + 1 and stored[end : end + 1] == b"\n":
            start = end  # noqa: PLW2901 - the span with the line's end in front
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total + (1 if 0 < end == len(stored) - 1 and stored.endswith(b"\n") else 0)
