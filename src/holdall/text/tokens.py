"""How many tokens a text has: exactly where a tokenizer is installed, otherwise by an estimate that says so. Also which
tokenizer a session gets. No input makes counting quadratic.
"""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from math import ceil
from typing import Protocol

from stringzilla import count as found

from holdall.values.patterns import lazy_pattern

# A tokenizer is anything with a name and a `count`. Large texts are counted from samples spread evenly over them, so
# that no input costs more than a fixed amount of work; the result is then an estimate too.


_NEAR = 2_000  # chars before the end of a piece
PIECE = 256 * 1024  # a tokenizer never gets more at once: some are not linear on unbroken runs
EXACT_UP_TO = 1024 * 1024
ESTIMATE_UP_TO = 64 * 1024  # an estimate gains nothing from reading more than this before it samples
_ESTIMATE_ALL_UP_TO = 16 * 1024
_SMALL_WINDOWS, _SMALL_WINDOW = 24, 128  # many small ones know more than few large ones of twice the size
_WINDOW = 8 * 1024
_WINDOWS = 64
_BLOCK = 64 * 1024


class Tokenizer(Protocol):
    """Anything that counts tokens, under a name that notices can tell."""

    @property
    def name(self) -> str: ...

    def count(self, text: str) -> int:
        """Exact, in time linear in `text`, on any text."""
        ...


# Roughly what byte-pair vocabularies split at: words with the capital and the space before them, runs of capitals,
# three digits, four signs, one sign that is not ASCII, white space. Runs are counted by their beginnings in a copy of
# the text that has one letter for each class: a fifth of the time that a pattern takes.


def _classes(classes: bytes) -> bytes:
    """What each byte becomes: one of these, for small letter, capital, digit, blank, other white space, sign, other."""
    small, capital, digit, blank, white, sign, other = classes
    table = bytearray([sign]) * 0x80 + bytearray([other]) * 0x80
    table[0x61:0x7B], table[0x41:0x5B], table[0x30:0x3A] = [small] * 26, [capital] * 26, [digit] * 10
    table[0x09:0x0E], table[0x1C:0x20], table[0x20] = [white] * 5, [white] * 4, blank
    return bytes(table)


_CLASSES, _WORDS = _classes(b"aA0_-.x"), _classes(b"aa _-  ")
_SMALL, _CAPITALS, _DIGITS = _classes(b"a      "), _classes(b" A     "), _classes(b"  0    ")
_SIGNS, _WHITE = _classes(b"     . "), _classes(b"   __  ")
_LONGEST_WHITE = b"_" * 80
_LONG, _LONG_CAPITALS = b"a" * 8, b"A" * 4


class Estimate:
    """Tokens by the words, numbers and signs of the text: within 0.8 to 1.4 of o200k on the outputs it was fitted to.

    Languages with an alphabet other than the Latin come out up to four times too high, which is the safe side: an
    output that is thought too large is kept and can be read, one that is thought too small floods the context.
    """

    name = "estimate"

    def count(self, text: str) -> int:
        data = b"\x80" + text.encode("utf-8", "surrogatepass")  # so that every run has something before it
        small, capitals = data.translate(_SMALL), data.translate(_CAPITALS)
        classes, words = data.translate(_CLASSES), data.translate(_WORDS)
        # A capital alone belongs to the small letters after it, a blank alone to the word after it.
        count = found(small, b" a") + found(capitals, b" A") - found(classes, b"Aa") + found(classes, b"AAa")
        count -= found(words, b"_a") - found(words, b"__a") - found(words, b"-_a")
        count += found(data.translate(_DIGITS).replace(b"000", b"0 "), b" 0")
        count += found(data.translate(_SIGNS).replace(b"....", b". "), b" .")
        count += found(data.translate(_WHITE).replace(_LONGEST_WHITE, b"_ "), b" _")
        if not text.isascii():
            count += len(text) - len(text.encode("ascii", "ignore"))
        # A long word is more than one token: about one more every five small letters, or 2.5 capitals. Of eight letters
        # or more, all but six count: its places for eight in a row, and one for the word.
        longer = (found(small, _LONG, allowoverlap=True) + found(small, b" " + _LONG)) / 5
        longer += (found(capitals, _LONG_CAPITALS, allowoverlap=True) + found(capitals, b" " + _LONG_CAPITALS)) / 2.5
        return ceil(count + longer)


def rough_estimate(chars: int) -> int:
    """Fallback without a tokenizer: four characters per token."""
    return ceil(chars / 4)


def count_in_pieces(tokenizer: Tokenizer, text: str) -> int:
    """The sum over pieces of at most PIECE chars, cut where no token goes over."""
    return _count_in_pieces(tokenizer, text)[0]


def _count_in_pieces(tokenizer: Tokenizer, text: str) -> tuple[int, bool]:
    """Tokens, and whether these are all that there are: the tokenizer counted them, and no cut went through one."""
    total, counted = 0, True
    at = 0
    while at < len(text):
        end, is_whole = _end_of_piece(text, at)
        tokens, answered = _count(tokenizer, text[at:end])
        total, counted, at = total + tokens, counted and answered and is_whole, end
    return total, counted


# Vocabularies split a text first, and no token goes over where they do: a line that begins with a letter or digit
# begins anew (signs and white space join with what is before them, a slash too), and a word ends before such a sign.
_SPLIT = lazy_pattern(r"(?<=\n)(?=[A-Za-z0-9])|(?<=[A-Za-z])(?=[\"(),:;=<>|&\[\]{}])")


def _end_of_piece(text: str, at: int) -> tuple[int, bool]:
    """Where to cut next, and whether tokens end there."""
    if len(text) - at <= PIECE:
        return len(text), True
    end = at + PIECE
    for back in (_NEAR, PIECE // 2):
        places = [found.start() for found in _SPLIT.finditer(text, end - back, end)]
        if places and places[-1] > at:
            return places[-1], True
    newline = text.rfind("\n", at + PIECE // 2, end)
    return newline + 1 if newline >= 0 else end, False


def _count(tokenizer: Tokenizer, text: str) -> tuple[int, bool]:
    """If the tokenizer fails, the number is an estimate; the output is still kept."""
    try:
        return tokenizer.count(text), True
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # tokenizers written in Rust panic with what is no Exception
        return rough_estimate(len(text)), False


class TokenMeter:
    """Counts the tokens of a stream. Holds at most EXACT_UP_TO bytes at any time."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._exact = not isinstance(tokenizer, Estimate)
        self._hold = EXACT_UP_TO if self._exact else ESTIMATE_UP_TO
        self._keep = _WINDOWS if self._exact else _WINDOWS // 4
        self._whole: list[bytes] | None = []
        self._seen = 0
        self._stride = 1
        self._windows: list[bytes] = []

    def feed(self, chunk: bytes | memoryview) -> None:
        """Pieces of one block each: the sampling counts pieces, so equal ones make the strata equal."""
        index = self._seen // _BLOCK
        self._seen += len(chunk)
        if self._whole is not None:
            self._whole.append(bytes(chunk))
            if self._seen > self._hold:
                self._whole, kept = None, self._whole
                self._windows = [piece[:_WINDOW] for piece in kept]
        elif index % self._stride == 0:
            self._windows.append(bytes(chunk[:_WINDOW]))
        while len(self._windows) > self._keep:
            self._windows = self._windows[::2]
            self._stride *= 2

    def finish(self) -> tuple[int, bool]:
        """Tokens, and whether the number is exact."""
        if self._whole is not None:
            whole = b"".join(self._whole)
            if not self._exact and len(whole) > _ESTIMATE_ALL_UP_TO:
                return self._spread(whole), False
            text = whole.decode("utf-8", "replace")
            tokens, counted = _count_in_pieces(self._tokenizer, text)
            return tokens, counted and self._exact
        return ceil(sum(self._shares())), False

    def _spread(self, whole: bytes) -> int:
        """An estimate from small windows spread evenly over the text: it gains little from more than these."""
        stride = len(whole) / _SMALL_WINDOWS
        windows = [whole[int(stride * at) : int(stride * at) + _SMALL_WINDOW] for at in range(_SMALL_WINDOWS)]
        tokens, _ = _count(self._tokenizer, b"\n".join(windows).decode("utf-8", "ignore"))
        # The newline between two is a token of its own, and a border cuts a word or a number in two half the time.
        tokens -= 1.5 * _SMALL_WINDOWS - 1
        return ceil(tokens * len(whole) / sum(map(len, windows)))

    def _shares(self) -> Iterator[float]:
        """Tokens by window. Each stands for what is nearest to it, on both sides: the windows are at the start of their
        stretches, and would otherwise give a text that begins densely too many."""
        spacing = self._stride * _BLOCK
        last = len(self._windows) - 1
        for index, window in enumerate(self._windows):
            tokens, _ = _count(self._tokenizer, window.decode("utf-8", "ignore"))
            start = max(0, index * spacing - spacing // 2)
            end = index * spacing + spacing // 2 if index < last else self._seen
            yield tokens / max(1, len(window)) * (end - start)


# Which tokenizer a session gets: the one that its settings name, else the most exact that is there.


TOKENS_PACKAGE = "rs-bpe" if sys.version_info < (3, 14) else "bpe-openai"
"""What the extra `tokens` brings."""


@functools.cache
def tokenizer_named(name: str) -> Tokenizer:
    """`o200k` needs the extra `tokens` and says so; `auto` takes it if it is installed."""
    if name == "estimate" or (name == "auto" and importlib.util.find_spec(TOKENS_PACKAGE.replace("-", "_")) is None):
        return Estimate()
    tokenizer: Tokenizer = importlib.import_module("holdall.text.o200k").O200k()
    return tokenizer


def default_tokenizer() -> Tokenizer:
    return tokenizer_named("auto")
