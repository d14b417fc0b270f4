"""One pass over an output: everything that is known of its bytes but their sha256.

The caller computes the sha256 in another thread: it is the one costly number that can run on another core. Memory is
flat: one block, the samples for tokens, and 24 bytes a block.
"""

import warnings
from array import array
from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import stringzilla
import xxhash

from holdall.formats.kinds import SAMPLE, TAIL, json_complaint
from holdall.formats.registry import format_of, kind_of
from holdall.text.tokens import Tokenizer, TokenMeter
from holdall.text.utf8 import CharCounter
from holdall.values.outputs import Kind, Measure, Origin
from holdall.values.spans import BLOCK, BlockTable, Totals

checksum = xxhash.xxh3_64_intdigest

_STRICT_CHECK_UP_TO = 256 * 1024  # larger JSON is not parsed only to say that it is strict


_MANY_LINES = 1024  # in a block: fewer are looked at one by one
_FLAT = bytes(0x0A if byte == 0x0A else ord("x") for byte in range(256))  # every sign alike but the newline


_CLOSED = "packed ("


def is_packed(measure: Measure) -> bool:
    """Whether there may be more in it than its bytes tell, be it closed to us or not."""
    return format_of(measure.kind).is_opened or any(note.startswith(_CLOSED) for note in measure.notes)


def of_origin(measure: Measure, origin: Origin, notes: Sequence[str] = ()) -> Measure:
    """With these notes; text is of the kind that its caller says.

    What comes packed from a tool whose secrets are masked stays closed, here and elsewhere.
    """
    if origin.masked and format_of(measure.kind).is_opened:
        why = "its tool's secrets are masked, and in there they could not be"
        closed = f"{_CLOSED}{measure.kind}) and not opened: {why}"
        measure, notes = replace(measure, kind="binary"), (*notes, closed)
    elif origin.read_as and format_of(measure.kind).is_binary:
        notes = (*notes, f"it is {measure.kind}, not text, and is not read as {origin.read_as}")
    elif origin.read_as:
        measure = replace(measure, kind=origin.read_as)
    return replace(measure, notes=(*measure.notes, *notes)) if notes else measure


class Measurer:
    """Feed it bytes in pieces of any size, then `finish`. Until then `table` and the counts tell the part so far."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer_name = tokenizer.name
        self._tokens = TokenMeter(tokenizer)
        self._chars = CharCounter()
        self._part = bytearray()  # an unfinished block
        self._head = bytearray()
        self._tail = b""
        self._line_length = 0  # of the line that is being read
        self._dense = False  # many newlines in the last block
        self.longest_line = 0
        self.bytes = 0
        self.newlines = 0
        self.chars = 0
        self.table = BlockTable(array("Q"), array("Q"), array("Q"))

    def feed(self, chunk: bytes | memoryview) -> None:
        if len(self._head) < SAMPLE:
            self._head += chunk[: SAMPLE - len(self._head)]
        view = memoryview(chunk)
        # Of text that is plain ASCII each byte is a character: one fast look at the chunk saves decoding its blocks.
        plain = isinstance(chunk, bytes) and chunk.isascii()
        at = 0
        if self._part:
            at = min(BLOCK - len(self._part), len(view))
            self._part += view[:at]
            if len(self._part) < BLOCK:
                return
            self._block(bytes(self._part))
            self._part.clear()
        while len(view) - at >= BLOCK:
            self._block(bytes(view[at : at + BLOCK]), plain=plain)
            at += BLOCK
        self._part += view[at:]

    @property
    def taken(self) -> int:
        """All bytes fed so far, those of an unfinished block too."""
        return self.bytes + len(self._part)

    def so_far(self) -> tuple[Totals, BlockTable]:
        """The part fed so far as if it were the whole, without ending it."""
        table = BlockTable(self.table.newlines[:], self.table.chars[:], self.table.checksums[:])
        part = bytes(self._part)
        newlines = self.newlines + part.count(b"\n")
        counter = copy(self._chars)
        chars = self.chars + counter.feed(part) + counter.finish()
        if part:
            table.newlines.append(newlines)
            table.chars.append(chars)
            table.checksums.append(checksum(part))
        elif table.chars:
            table.chars[-1] = chars
        open_line = part[-1:] != b"\n" if part else self._line_length > 0
        return Totals(bytes=self.taken, chars=chars, lines=newlines + open_line), table

    def finish(self, sha256: str) -> tuple[Measure, BlockTable]:
        if self._part:
            self._block(bytes(self._part))
        self.chars += self._chars.finish()
        if self.table.chars:
            self.table.chars[-1] = self.chars
        open_line = self._line_length > 0
        self.longest_line = max(self.longest_line, self._line_length)
        tokens, exact = self._tokens.finish()
        head = bytes(self._head)
        whole = self.bytes <= len(head)
        kind, wrong = self._kind(head, whole)
        notes = wrong or self._notes(kind, head, whole)
        measure = Measure(
            bytes=self.bytes,
            chars=self.chars,
            lines=self.newlines + open_line,
            longest_line=self.longest_line,
            tokens=tokens,
            tokens_exact=exact,
            tokenizer=self._tokenizer_name,
            sha256=sha256,
            kind=kind,
            utf8=self._chars.valid,
            notes=notes,
        )
        return measure, self.table

    def _kind(self, head: bytes, whole: bool) -> tuple[Kind, tuple[str, ...]]:
        """A guess: if it fails, the measures are still kept. The tests make an error of the warning."""
        try:
            return kind_of(head, self._tail, whole=whole, valid=self._chars.valid), ()
        except Exception as problem:
            warnings.warn(f"Holdall could not tell the kind of an output: {problem!r}. Please report it.", stacklevel=2)
            return "text", (f"its kind could not be told ({type(problem).__name__})",)

    def _notes(self, kind: str, head: bytes, whole: bool) -> tuple[str, ...]:
        if kind == "json" and whole and len(head) <= _STRICT_CHECK_UP_TO:
            complaint = json_complaint(head.decode("utf-8", "replace"))
            return (complaint,) if complaint else ()
        return ()

    def _block(self, block: bytes, *, plain: bool = False) -> None:
        self.bytes += len(block)
        # stringzilla pays for each newline found, bytes.count for each byte: the last block tells which is less.
        newlines = block.count(b"\n") if self._dense else stringzilla.count(block, b"\n")
        self._dense = newlines > _MANY_LINES
        self.newlines += newlines
        self.chars += len(block) if plain and not self._chars.pending else self._chars.feed(block)
        self._tokens.feed(block)
        self._measure_lines(block, newlines)
        tail = (self._tail + block)[-TAIL:] if len(block) < TAIL else block[-TAIL:]
        # Blanks behind the end tell nothing of the kind.
        self._tail = (self._tail + block.rstrip())[-TAIL:] if tail.isspace() else tail
        self.table.newlines.append(self.newlines)
        self.table.chars.append(self.chars)
        self.table.checksums.append(checksum(block))

    def _measure_lines(self, block: bytes, newlines: int) -> None:
        if not newlines:
            self._line_length += len(block)
            return
        first, last = block.find(b"\n"), block.rfind(b"\n")
        self.longest_line = max(self.longest_line, self._line_length + first)
        self._line_length = len(block) - last - 1
        if newlines > _MANY_LINES and not _has_longer(block, first, last, self.longest_line):
            return
        if last - first > self.longest_line:
            # Hops pay where each passes many lines, which is where one line is much longer than most.
            longest = _longest_by_hops if self.longest_line * newlines > 8 * len(block) else _longest_by_lines
            self.longest_line = longest(block, first, last, self.longest_line)


def _has_longer(block: bytes, first: int, last: int, longest: int) -> bool:
    """Whether any line between two newlines is longer than `longest`: a search for one run of that many signs.

    Where lines are very short, looking at each of them would cost a hundred times what all the rest does.
    """
    return stringzilla.find(block.translate(_FLAT), b"x" * (longest + 1), first + 1, last) >= 0


def _longest_by_lines(block: bytes, first: int, last: int, longest: int) -> int:
    """The longest line between two newlines, given one that is known to be at least `longest`."""
    # Views of the lines, where `bytes.split` makes copies: the costliest number of all, for less than half the price.
    lines = stringzilla.split_iter(memoryview(block)[first + 1 : last], b"\n")
    inside = max(map(len, lines))
    return max(longest, inside)


def _longest_by_hops(block: bytes, first: int, last: int, longest: int) -> int:
    """The same. A line that ends within `longest` bytes cannot be the longest, nor can those that it hops over."""
    at = first + 1
    while at < last:
        newline = block.rfind(b"\n", at, at + longest + 1)
        if newline < 0:
            newline = block.find(b"\n", at + longest + 1)
            longest = newline - at
        at = newline + 1
    return longest
