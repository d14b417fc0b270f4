"""Other ways to find what a question needs, with so many tokens to show: grep, BM25, both ends. No model takes part.

Each gives the byte ranges that it shows. None knows the right answer or where it stands.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from bench.answers.clamps import both_ends, tokens_in
from bench.answers.judge import ranges
from holdall.policy.folds import Ranges
from holdall.values.spans import Span

Rival = Callable[[bytes, str, int], Ranges]

_PASSAGE = 300  # bytes of whole lines, about
_LONGEST = 600  # a longer line is several passages
_K1, _B = 1.2, 0.75
_PASSED = 20  # pieces that do not fit, until no more are tried
_WORD = re.compile(r"[A-Za-z0-9_]+|[^\W\dA-Za-z_]")  # words; of other scripts, letters
_KEY = re.compile(r'"([^"]+)"|《([^》]+)》|([\w.$:/-]{2,})')


def grep(data: bytes, question: str, tokens: int) -> Ranges:
    """The lines with the rarest name or word of the question that is there, and one line around each; then those of
    the next one, while there is room."""
    keys = [next(filter(None, match.groups())).strip(".:") for match in _KEY.finditer(question)]
    lines = list(_lines(data))
    found: dict[str, list[int]] = {}
    for key in dict.fromkeys(keys):
        wanted = key.encode()
        if key and (hits := [at for at, line in enumerate(lines) if data.find(wanted, line.start, line.end) >= 0]):
            found[key] = hits
    rarest = sorted(found, key=lambda key: (len(found[key]), -len(key)))
    places = (_with_neighbours(lines, at) for key in rarest for at in found[key])
    return _while_there_is_room(data, places, tokens)


def bm25(data: bytes, question: str, tokens: int) -> Ranges:
    """Passages of a few lines, by Okapi BM25 over the words of the question, the best first."""
    passages = list(_passages(data))
    counts = [Counter(_words(data[span.start : span.end].decode("utf-8", "replace"))) for span in passages]
    asked = set(_words(question))
    holding = Counter(word for count in counts for word in asked & count.keys())
    weight = {word: math.log(1 + (len(counts) - n + 0.5) / (n + 0.5)) for word, n in holding.items()}
    lengths = [sum(count.values()) for count in counts]
    usual = max(1.0, sum(lengths) / max(1, len(lengths)))

    def score(at: int) -> float:
        norm = _K1 * (1 - _B + _B * lengths[at] / usual)
        return sum(weight[word] * n * (_K1 + 1) / (n + norm) for word in weight if (n := counts[at][word]))

    scores = [score(at) for at in range(len(passages))]
    order = sorted(range(len(passages)), key=lambda at: -scores[at])
    return _while_there_is_room(data, (passages[at] for at in order if scores[at] > 0), tokens)


def ends(data: bytes, question: str, tokens: int) -> Ranges:  # noqa: ARG001 - it looks at no question
    """Half of the tokens from each end."""
    return ranges(both_ends(tokens)(data))


RIVALS: Mapping[str, Rival] = {"grep alone": grep, "BM25": bm25, "head + tail": ends}


def _while_there_is_room(data: bytes, places: Iterable[Span], tokens: int) -> Ranges:
    """In their order. What is too long for what is left is passed over, but not for ever."""
    shown = Ranges()
    left, passed = tokens, 0
    for place in places:
        if shown.covers(place):
            continue
        cost = tokens_in(data[place.start : place.end].decode("utf-8", "replace"))
        if cost <= left:
            left -= cost
            shown.add(place)
        elif (passed := passed + 1) == _PASSED:
            break
    return shown


def _lines(data: bytes) -> Iterator[Span]:
    start = 0
    while start < len(data):
        newline = data.find(b"\n", start)
        end = len(data) if newline < 0 else newline + 1
        yield Span(start, end)
        start = end


def _with_neighbours(lines: list[Span], at: int) -> Span:
    return Span(lines[max(0, at - 1)].start, lines[min(len(lines) - 1, at + 1)].end)


def _passages(data: bytes) -> Iterator[Span]:
    start = end = 0
    for line in _lines(data):
        for piece in range(line.start, line.end, _LONGEST):
            if end - start >= _PASSAGE:
                yield Span(start, end)
                start = end
            end = min(piece + _LONGEST, line.end)
    if end > start:
        yield Span(start, end)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
