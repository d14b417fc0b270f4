"""RE2 as a program that prints what ripgrep would print. Run by `re2`, never imported by the library.

    re2_program.py (places|values|count) (matches|lines) CAPTURES DESCRIPTOR SIZE    < the pattern

It maps the file, so a line of any length is searched in place. It holds no more than one batch of output.
"""

import mmap
import os
import sys
from collections.abc import Iterable, Iterator
from typing import Protocol, cast

import re2

Text = mmap.mmap | bytes

_BATCH = 1 << 16
_MAX_MEMORY = 256 << 20  # for the states of a large pattern; RE2 goes on more slowly where it is not enough


class Match(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...
    def span(self, group: int) -> tuple[int, int]: ...


class Regexp(Protocol):
    """What is used of a compiled pattern; unlike the stubs it says that a mapped file can be searched."""

    def search(self, text: Text, pos: int) -> Match | None: ...
    def finditer(self, text: Text) -> Iterator[Match]: ...


def compiled(pattern: bytes, *, capturing: bool) -> Regexp:
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    options.never_capture = not capturing  # finding captures takes another pass over each match
    return cast(Regexp, re2.compile(pattern, options))


def search(pattern: bytes, text: Text, want: str, unit: str, captures: int) -> Iterator[bytes]:
    """The output, in pieces."""
    regexp = compiled(pattern, capturing=want == "values")
    found = lines(regexp, text) if unit == "lines" else ((match.start(), match) for match in regexp.finditer(text))
    if want == "count":
        total = sum(1 for _ in found)
        yield b"%d\n" % total
    elif want == "values":
        groups = range(1, captures + 1) if captures else (0,)
        for _, match in found:
            yield from record(b"", text, [match.span(group) for group in groups])
    elif unit == "lines":
        for start, _ in found:
            yield b"%d:\n" % start
    else:
        for start, match in found:
            yield from record(b"%d:" % start, text, [(start, match.end())])


def record(head: bytes, text: Text, spans: list[tuple[int, int]]) -> Iterable[bytes]:
    """One line of output. A group that took no part is at -1 to -1, and empty."""
    for start, end in spans:
        if end - start > _BATCH:
            return long_record(head, text, spans)
    return (head + b"\t".join([text[start:end] for start, end in spans]) + b"\n",)


def long_record(head: bytes, text: Text, spans: list[tuple[int, int]]) -> Iterator[bytes]:
    """A match may be as long as the file."""
    yield head
    for number, (start, end) in enumerate(spans):
        yield b"\t" if number else b""
        for at in range(start, end, _BATCH):
            yield text[at : min(end, at + _BATCH)]
    yield b"\n"


def lines(regexp: Regexp, text: Text) -> Iterator[tuple[int, Match]]:
    """The start of each line that holds a match, with its first match."""
    at, size = 0, len(text)
    while at < size and (match := regexp.search(text, at)):
        if match.start() == size and text[size - 1 : size] == b"\n":
            return  # after the last newline no line begins
        newline = text.rfind(b"\n", at, match.start())
        yield (at if newline < 0 else newline + 1), match
        newline = text.find(b"\n", match.end())
        at = size if newline < 0 else newline + 1


def write(output: Iterable[bytes]) -> None:
    batch: list[bytes] = []
    held = 0
    for piece in output:
        batch.append(piece)
        held += len(piece)
        if held >= _BATCH:
            _write_all(b"".join(batch))
            batch, held = [], 0
    _write_all(b"".join(batch))


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def main(want: str, unit: str, captures: str, descriptor: str, size: str) -> int:
    pattern = sys.stdin.buffer.read()
    try:
        with mmap.mmap(int(descriptor), int(size), access=mmap.ACCESS_READ) as text:
            write(search(pattern, text, want, unit, int(captures)))
    except re2.error as error:
        os.write(2, f"regex: {error!s:.400}".encode())
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
