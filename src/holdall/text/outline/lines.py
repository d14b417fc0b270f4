"""The whole lines of a sample, so many at most that they can be counted in time."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from holdall.text.outline.sample import Sample, thinned

_ALL = 32_000  # up to so many lines all are looked at, …
_SOME = 12_000  # … of more so many, …
_VARIED = 3_000  # … and where nearly every one has a shape of its own: more would tell no more
_PROBE = 64 * 1024


@dataclass(frozen=True)
class Lines:
    """Lines without their ends. `runs` are those of one piece each: its first line here, and where that starts."""

    texts: list[bytes]
    runs: list[tuple[int, int]]
    total: int  # lines of the whole output
    exact: bool

    @property
    def scale(self) -> float:
        """How many lines of the whole each of these stands for."""
        return 1.0 if self.exact or not self.texts else max(1.0, self.total / len(self.texts))

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(len, self.texts), initial=0))

    def start(self, index: int) -> int:
        """The byte at which a line starts."""
        first, at = self.runs[bisect_right(self.runs, (index, 1 << 62)) - 1]
        return at + self._ends[index] - self._ends[first] + index - first


def split(sample: Sample) -> Lines:
    """Of a window the first and the last line are left out, for they may be cut."""
    read = sum(len(data) for _, data in sample.pieces)
    expected = sample.lines * read / max(1, sample.size)
    if _varied(sample.head[:_PROBE]):
        most = _VARIED
    else:
        most = expected if sample.whole and expected <= _ALL else _SOME
    if expected > most:
        sample = thinned(sample, most / expected)
    texts: list[bytes] = []
    runs: list[tuple[int, int]] = []
    for start, data in sample.pieces:
        if not data:
            continue
        parts = data.split(b"\n")
        if start + len(data) < sample.size or not parts[-1]:
            parts.pop()
        at = start
        if start and parts:
            at += len(parts[0]) + 1
            del parts[0]
        if parts:
            runs.append((len(texts), at))
            texts += parts
    return Lines(texts, runs, sample.lines, sample.whole)


def _varied(start: bytes) -> bool:
    """Whether nearly all of these lines differ in more than their digits."""
    lines = start.translate(None, b"0123456789").split(b"\n")
    return len(lines) > 100 and len(set(lines)) * 10 > 9 * len(lines)
