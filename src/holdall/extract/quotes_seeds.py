"""Where in a large text a quote could stand, told by its words: so that only these places are looked at closely.

White space, escapes and typography do not change what is between them, so a quote that stands loosely in a text has all
its words there. A word that is nowhere settles it, and a rare one says where to look. Only where no word can tell is
the whole text the place.
"""

import re
from collections import defaultdict
from collections.abc import Sequence

Place = tuple[int, int]  # from, to

_SEEDS = 24
_COMMON = 64  # a word with more occurrences does not say where to look
_RARE = 4
_STRETCHED = 16  # how many times as long a quote may be in the text, for escapes and indentation
_MARGIN = 256
_LIKELY = 4  # places that are compared where a quote stands nowhere
_LONG = 1_000  # characters; of such a quote only two

_words = re.compile(r"[A-Za-z0-9]{3,12}|[^\x00-\x7f\s]{2,4}")
# What can stand inside a word of the text, or for a letter of it: then a word that is not there proves nothing.
_hidden = re.compile("\\\\u00[2-7]|&#|[\x1b\xad\u200b-\u200f\u2060-\u2064\ufeff]")
_escaped = re.compile("\\\\u|&|[\u0300-\u036f\x1b\xad\u200b-\u200f\u2060-\u2064\ufe0e\ufe0f\ufeff]")


def possible(form: str, text: str, reach: int) -> list[Place]:
    """Every place of `text` in which a quote with this loose form can stand, in order."""
    whole = [(0, len(text))]
    best: list[int] | None = None
    size = 0
    for word in sorted(_seeds(form), key=len, reverse=True):
        found = occurrences(word, text, _COMMON)
        if not found:
            return whole if (_hidden if word.isascii() else _escaped).search(text) else []
        if len(found) < _COMMON and (best is None or len(found) < len(best)):
            best, size = found, len(word)
        if best is not None and len(best) <= _RARE:
            break
    if best is None:
        return whole
    places = _joined([(max(0, at - reach), min(len(text), at + size + reach)) for at in best])
    return places if sum(end - start for start, end in places) * 2 < len(text) else whole


def likely(form: str, text: str, reach: int) -> list[Place]:
    """The few places of `text` that have the most words of a quote in common, a rare word counting for more."""
    width = max(128, 2 * len(form))
    votes: defaultdict[int, float] = defaultdict(float)
    for word in _seeds(form):
        found = occurrences(word, text, _COMMON)
        for bucket in {at // width for at in found}:
            votes[bucket] += 1 / len(found)
    scores = {bucket: weight + votes.get(bucket + 1, 0.0) for bucket, weight in votes.items()}
    best = sorted(scores, key=lambda bucket: (-scores[bucket], bucket))[: _LIKELY if len(form) < _LONG else 2]
    ends = [(bucket * width - reach // 8, (bucket + 2) * width + reach // 8) for bucket in sorted(best)]
    return _joined([(max(0, start), min(len(text), end)) for start, end in ends])


def reach_of(form: str) -> int:
    """How far from any of its words a quote can end."""
    return _STRETCHED * len(form) + _MARGIN


def occurrences(piece: str, text: str, most: int) -> list[int]:
    """Where `piece` stands in `text`, the first `most` times."""
    places: list[int] = []
    at = text.find(piece)
    while at >= 0 and len(places) < most:
        places.append(at)
        at = text.find(piece, at + 1)
    return places


def _seeds(form: str) -> Sequence[str]:
    words = list(dict.fromkeys(_words.findall(form)))
    return words[:: len(words) // _SEEDS + 1]


def _joined(places: list[Place]) -> list[Place]:
    joined: list[Place] = []
    for start, end in places:
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined
