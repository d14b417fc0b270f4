"""ripgrep: where it is, what a pattern is written as for it, how it is run, and how what it prints is read.

It runs in a process of its own, over the output's descriptor; so a search can be stopped at any time, holds nobody else
up, and its memory is not ours. It is given no path, no configuration and nothing of the environment. Nothing here knows
a path of the store, and nothing that is found is shown from here: it is read again, checked. A pattern may be what a
person looks for in secrets: it is never in the process list.
"""

import hashlib
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from math import inf
from typing import BinaryIO, Literal, assert_never, cast

import stringzilla

from holdall.search.charset import ANY, Ranges, size
from holdall.search.pattern import Capture, Chars, Choice, Edge, Node, Pattern, Repeat, Sequence
from holdall.store.deadline import Deadline, of_seconds
from holdall.text.escape import one_line
from holdall.values.errors import BadPattern, OutOfTime, WorkerFault
from holdall.values.record import record
from holdall.values.spans import Span

# Where it is.

_KNOWN = (
    14  # the version whose answers the tests compare with those of a reference; others print some things differently
)


@cache
def ripgrep_path() -> str:
    """The ripgrep that was installed with us, else one on the PATH of the version that is known."""
    for path in _installed():
        if os.access(path, os.X_OK):
            return path
    found = shutil.which("rg")
    if found and _version(found) == _KNOWN:
        return found
    raise WorkerFault(
        f"grep needs ripgrep {_KNOWN}, and it is not there. Install it with: pip install 'ripgrep<{_KNOWN + 1}'"
    )


def _installed() -> Iterator[str]:
    """Beside Python; else, as after `pip install --user` or `--target`, where the package says."""
    yield os.path.join(os.path.dirname(sys.executable), "rg")
    from importlib import metadata  # noqa: PLC0415 - slow to import, and seldom needed

    with suppress(metadata.PackageNotFoundError):
        yield from (str(file.locate()) for file in metadata.files("ripgrep") or () if file.name == "rg")


def _version(path: str) -> int:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = re.match(rb"ripgrep (\d+)\.", said)
    return int(number[1]) if number else 0


# A tree, written in the narrowest syntax that there is: no flag, no class escape, no set operation.

_MAX_WRITTEN = 100_000  # bytes; more is slow to compile and no longer a search that somebody wrote

# Matches nothing, anywhere; but no literal can be drawn from it, so ripgrep takes no shortcut.
_NEVER = r"\z."

# A pattern is matched within a line, so ^ and $ are about lines. The \b of ripgrep knows Unicode.
_EDGES = {"line start": "^", "line end": "$", "word edge": r"(?-u:\b)", "no word edge": r"(?-u:\B)"}
# $ is found only before the \n: it takes the \r of a line that ends in \r\n along, and who shows a match cuts it off.
_EDGES_BEFORE_RETURN = {**_EDGES, "line end": r"\x0D?$"}


def written(pattern: Pattern) -> str:
    """Refused with BadPattern where it becomes too large."""
    text = _written(pattern.tree, _edges(pattern))
    if len(text.encode()) > _MAX_WRITTEN:
        raise BadPattern("the pattern becomes too large to run. Write fewer or smaller classes.")
    return text if _keeps_shortcuts(pattern.tree) else f"(?:{text}|{_NEVER})"


def _written_by_lines(pattern: Pattern) -> str:
    """The whole of each line that holds a match, the captures being those of the first match in it, or that match."""
    rest = r"(?-u:[^\n])"
    tree = pattern.tree if pattern.captures else Capture(pattern.tree)
    return f"(?:^{rest}*?(?:{_written(tree, _edges(pattern))}){rest}*$|{_NEVER})"


def _edges(pattern: Pattern) -> dict[str, str]:
    return _EDGES_BEFORE_RETURN if pattern.takes_return else _EDGES


def _written(node: Node, edges: dict[str, str]) -> str:
    match node:
        case Chars(ranges):
            return _class(ranges)
        case Edge(kind):
            return edges[kind]
        case Capture(item):
            return f"({_written(item, edges)})"
        case Repeat(item, low, high, lazy):
            inner = _written(item, edges)
            whole = inner if isinstance(item, Chars | Capture) else f"(?:{inner})"
            return whole + _count(low, high) + ("?" if lazy else "")
        case Sequence(items):
            return "".join(_written(item, edges) for item in items) or "(?:)"
        case Choice(options):
            return f"(?:{'|'.join(_written(option, edges) for option in options)})"
        case _:
            assert_never(node)


def _count(low: int, high: int | None) -> str:
    match low, high:
        case 0, None:
            return "*"
        case 1, None:
            return "+"
        case 0, 1:
            return "?"
        case _, None:
            return f"{{{low},}}"
        case _:
            return f"{{{low}}}" if low == high else f"{{{low},{high}}}"


def _class(ranges: Ranges) -> str:
    if size(ranges) == 1:
        return _character(ranges[0][0])
    return "[" + "".join(_character(low) + (f"-{_character(high)}" if low < high else "") for low, high in ranges) + "]"


def _character(code: int) -> str:
    """Itself where that is safe in a pattern and in a class; ASCII punctuation and controls as a number."""
    char = chr(code)
    return char if code > 0x9F or (char.isascii() and char.isalnum()) else f"\\x{code:02X}"


# Where ripgrep's own shortcuts can be trusted.
#
# ripgrep speeds a pattern up by looking for a literal inside of it first, and two of its ways are wrong for some
# patterns: 14.1.0 misses lines (ripgrep issue 2884: `(?i)e.x|ex` on `e-x`), and all up to 15.1 report a match too far
# to the right (rust-lang/regex issue 1354: `.bb|b` on `zabb`). So a pattern that one of them may touch is written with
# an alternative from which no literal can be drawn: slower, and right.

_RUN = 3  # a literal that is long enough to be looked for at once
_MANY = 33  # so many of them are not looked for at once any more
_MAX_LITERALS = 200


def _keeps_shortcuts(tree: Node) -> bool:
    parts = _flat(tree)
    if _beginnings(parts) < _MANY:
        return True  # it looks for these beginnings, and for nothing inside
    if isinstance(tree, Choice):
        return len(tree.options) <= _MAX_LITERALS and all(map(_is_literal, tree.options))
    return _reaches_back(parts)


def _reaches_back(parts: list[Node]) -> bool:
    """Whether the first match that is found by an inner literal is the leftmost one.

    From the literal ripgrep looks back for the farthest start, and finds a match N. It is wrong where another match M
    begins further left and has that literal in an earlier part than N. That cannot be
    - where all matches have the same number of characters: N would lie inside of M and be shorter;
    - where a class without end comes first and the rest has one length: N does not fit into M's rest, so it begins in
      M's class, and then it can begin where M does. If the class matches every character, any rest works.
    It misses a line only where one part of a sequence is a sequence with a literal of its own inside.
    """
    match parts:
        case [Repeat(Chars(ranges), _, None), *rest]:
            return ranges == ANY or all(map(_has_one_length, rest))
        case _:
            return all(map(_has_one_length, parts))


def _has_one_length(part: Node) -> bool:
    return isinstance(part, Chars) or (
        isinstance(part, Repeat) and part.low == part.high and isinstance(part.item, Chars)
    )


def _flat(node: Node) -> list[Node]:
    """The parts of a sequence, groups opened, edges left out."""
    match node:
        case Sequence(items):
            return [part for item in items for part in _flat(item)]
        case Capture(item):
            return _flat(item)
        case Edge():
            return []
        case _:
            return [node]


def _beginnings(items: list[Node], wanted: int = _RUN) -> int:
    """How many literals of three characters every match begins with one of; very many where that is not so."""
    if not wanted:
        return 1
    match items:
        case [Chars(ranges), *rest]:
            return size(ranges) * _beginnings(rest, wanted - 1) if size(ranges) < _MANY else _MANY
        case [Choice(options), *rest]:
            total = 0
            for option in options:
                total += _beginnings([*_flat(option), *rest], wanted)
                if total >= _MANY:  # enough is known; a product of alternatives is not walked through
                    break
            return total
        case [Repeat(item, low, high), *rest] if low == high:
            return _beginnings([*_flat(item) * min(low, _RUN), *rest], wanted)
        case _:
            return _MANY


def _is_literal(option: Node) -> bool:
    parts = option.items if isinstance(option, Sequence) else (option,)
    return bool(parts) and all(isinstance(part, Chars) and size(part.ranges) == 1 for part in parts)


# How it is called.

# places: `BYTE:MATCH` a line; a pattern that can be empty gives `BYTE:…` with the start of each line that matches.
# values: what each match captured, a line each, several captures with tabs between them; or the match itself.
# count: one number. any: one number too, and the search ends with the first line that holds a match.
Want = Literal["places", "values", "count", "any"]
Source = int | Iterable[bytes]  # the descriptor of a file that is searched whole, or pieces

_FED_AT_ONCE = 1 << 20

_ALWAYS = (
    "--no-config",
    "--no-ignore",  # one file is named and none is looked for; without this its start takes a quarter longer
    "--text",  # a NUL does not end the search
    "--encoding=none",  # neither does a byte order mark turn UTF-16 into text: offsets are those of the stored bytes
    "--mmap",
    "--threads=1",
    "--no-filename",
    "--no-line-number",  # lines are counted by our own table, without a pass over the file
    "--no-heading",
    "--color=never",
)


@record
class Command:
    """A program, what is on its standard input, and the pattern that it reads from a file without a name.

    A code that is neither 0 nor 1 means that its output is not to be believed; then standard error says why, with the
    word `regex` in it where the pattern is to blame.
    """

    arguments: tuple[str, ...]
    source: Source
    pattern: str | None = None


def command_for(pattern: Pattern, want: Want, source: Source, *, stats: bool = False) -> Command:
    """With `stats`, what it prints ends as `Stats` reads it."""
    by_lines = want == "values" and pattern.can_be_empty
    text = _written_by_lines(pattern) if by_lines else written(pattern)
    name = "/dev/fd/0" if isinstance(source, int) else "-"  # opened again, so that it can be mapped
    flags = (*_flags(pattern, want), *(["--stats"] if stats else []))
    return Command((ripgrep_path(), *_ALWAYS, *flags, "--", name), source, text)


def _flags(pattern: Pattern, want: Want) -> tuple[str, ...]:
    captured = "\t".join(f"${{{number + 1}}}" for number in range(pattern.captures))
    match want, pattern.can_be_empty:
        case "places", False:
            return ("--only-matching", "--byte-offset")
        case "places", True:
            return ("--byte-offset", "--max-columns=1")  # the offset of the line is enough
        case "values", False:
            return ("--only-matching", f"--replace={captured}") if captured else ("--only-matching",)
        case "values", True:
            return (f"--replace={captured or '${1}'}",)
        case "count", _:
            return ("--count",) if pattern.can_be_empty else ("--count-matches",)
        case _:
            return ("--count", "--max-count=1")


def first_bytes(descriptor: int, number: int) -> Iterator[bytes]:
    """So much of a file that may be longer and grow: handed on itself, it would be searched up to its end by then."""
    at = 0
    while at < number and (piece := os.pread(descriptor, min(_FED_AT_ONCE, number - at), at)):
        yield piece
        at += len(piece)


# How it is run: its output piece by piece, inside a time limit, and nothing of it left behind. However the reading ends
# (to the end, by an error, because the caller has enough), the process is gone and reaped, and every pipe is closed.

_PIPE = 1 << 20
_GATHER = 0.002  # seconds: ripgrep writes 8 KiB at a time, and waking up for each costs more than reading them
_COMPLAINT = 4096  # bytes of standard error that are kept
_MEMORY = 1 << 30  # mapped files aside: it holds the places of all matches of one line, and of a line from a pipe all


def output_of(command: Command, *, seconds: float = inf) -> Generator[bytes]:
    """Standard output as it comes. Close the generator (`contextlib.closing`) to stop the search."""
    deadline = of_seconds(seconds)
    process = _start(command)
    try:
        reading = _Reading(process, command.source)
        yield from reading.pieces(deadline)
        code = process.wait()  # both its outputs are closed
        if code not in (0, 1):  # 1: nothing found
            raise _fault(code, reading.complaint)
    except OutOfTime as late:
        raise WorkerFault(
            f"the search timed out after {late.seconds:g} seconds and gives no answer. "
            "Search for something narrower, or allow it more time."
        ) from None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream:
                with suppress(OSError):  # what was buffered for a dead process
                    stream.close()


def _start(command: Command) -> subprocess.Popen[bytes]:
    program, *arguments = command.arguments
    try:
        with _pattern_file(command.pattern) as file:
            read = (file.fileno(),) if file is not None else ()
            process = subprocess.Popen(
                [program, *(f"--file=/dev/fd/{one}" for one in read), *arguments],
                stdin=command.source if isinstance(command.source, int) else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                pipesize=_PIPE,
                env={},
                cwd=os.sep,  # it reads no path, and refuses to start in a folder that was removed
                pass_fds=read,
                process_group=0,  # an interrupt on the terminal is ours to handle, once
            )
            with suppress(AttributeError, ImportError, OSError):  # only Linux lets us say it from outside
                import resource  # noqa: PLC0415 - for every search, and for nothing else

                resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
            return process
    except OSError as error:
        raise WorkerFault(f"the search program could not be started: {error.strerror or error}.") from error


def _nameless_file() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("holdall"), "w+b")
    import tempfile  # noqa: PLC0415 - only where there is no file in memory

    return cast("BinaryIO", tempfile.TemporaryFile())


@contextmanager
def _pattern_file(pattern: str | None) -> Generator[BinaryIO | None]:
    """A file, not a pipe: it holds a pattern of any length before anyone reads it."""
    if pattern is None:
        yield None
        return
    with _nameless_file() as file:
        file.write(pattern.encode() + b"\n")
        file.seek(0)  # where /dev/fd is the same open file, it is read from here
        yield file


class _Reading:
    """Writes the feed, where there is one, and reads both outputs, whichever is ready."""

    def __init__(self, process: subprocess.Popen[bytes], source: Source) -> None:
        if process.stdout is None or process.stderr is None:
            raise LookupError("started with pipes")
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._feed = iter(()) if isinstance(source, int) else iter(source)
        self._pending = memoryview(b"")
        self.complaint = b""

    def pieces(self, deadline: Deadline) -> Iterator[bytes]:
        read = 0
        with selectors.PollSelector() as ready:
            ready.register(self._stdout, selectors.EVENT_READ)
            ready.register(self._stderr, selectors.EVENT_READ)
            if self._stdin:
                os.set_blocking(self._stdin.fileno(), False)
                ready.register(self._stdin, selectors.EVENT_WRITE)
            while ready.get_map():
                for key, _ in ready.select(deadline.wait_seconds()):
                    if key.fileobj is self._stdout:
                        if piece := os.read(key.fd, _PIPE):
                            read += len(piece)
                            yield piece
                            if read > _PIPE > 4 * len(piece):
                                time.sleep(_GATHER)
                        else:
                            ready.unregister(self._stdout)
                    elif key.fileobj is self._stderr:
                        self._hear(ready)
                    elif self._stdin and not self._fed(key.fd):
                        ready.unregister(self._stdin)
                        self._stdin.close()

    def _fed(self, descriptor: int) -> bool:
        try:
            if not self._pending:
                self._pending = memoryview(next(self._feed))
            self._pending = self._pending[os.write(descriptor, self._pending) :]
        except (StopIteration, BrokenPipeError):  # all is fed, or it has read enough
            return False
        return True

    def _hear(self, ready: selectors.BaseSelector) -> None:
        heard = os.read(self._stderr.fileno(), _COMPLAINT)
        if not heard:
            ready.unregister(self._stderr)
        self.complaint = (self.complaint + heard)[:_COMPLAINT]


def _fault(code: int, complaint: bytes) -> BadPattern | WorkerFault:
    said = one_line(" ".join(complaint.decode("utf-8", "replace").split())[-200:])
    if code == 2 and "regex" in said:
        return BadPattern(f"the pattern cannot be run ({said}). Write a smaller one.")
    if code < 0:
        return WorkerFault(
            f"the search program was killed by signal {-code}; perhaps it ran out of memory, which it needs where one "
            "line has very many matches. Search for something narrower."
        )
    return WorkerFault(f"the search program failed with code {code}: {said or 'it said nothing'}.")


# What it prints, read as a stream: where matches are, how often values occur, how many there are. A billion matches and
# a match of a gigabyte both come through here, so nothing is kept but what was asked for.

LONG_VALUE = 200  # bytes of a value that are kept; the rest goes into a digest, so that values stay distinct
MAX_VALUES = 100_000

_HEAD = 24  # bytes that are enough for an offset and its colon


_STATS = re.compile(rb"\n[0-9]+ matches\n([0-9]+) matched lines\n(?:[^\n]*\n){6}\Z")
_STATS_BYTES = 1024  # more than the statistics have


class Stats:
    """How many lines hold a match: read from the statistics at the end of what it prints."""

    def __init__(self) -> None:
        self.lines = 0

    def taken_from(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same without them."""
        held = b""
        for piece in pieces:
            if len(piece) < _STATS_BYTES:
                piece, held = held + piece, b""  # noqa: PLW2901 - the end may be in two of them
            if held:
                yield held
            held = piece[-_STATS_BYTES:]
            if len(piece) > _STATS_BYTES:
                yield piece[:-_STATS_BYTES]
        found = _STATS.search(held)
        if found:
            self.lines, held = int(found[1]), held[: found.start()]
        if held:
            yield held


class Places:
    """The matches from `start` on, in order, as long as `takes` takes them (without it, the first `most` are `found`);
    and how many there are in all. `spread` gets all of them."""

    def __init__(
        self,
        *,
        start: int,
        most: int = 0,
        takes: Callable[[Span], bool] | None = None,
        spread: "Spread | None" = None,
    ) -> None:
        self.found: list[Span] = []
        self.total = 0
        self._spread = spread
        self._start = start
        self._most = most
        self._takes = takes or self._listed
        self._is_full = not most and takes is None
        self._head = b""  # the beginning of a record that is not finished, and its length so far
        self._length = 0

    def feed(self, piece: bytes) -> None:
        at = 0
        if self._length:
            newline = piece.find(b"\n")
            at = len(piece) if newline < 0 else newline
            self._head = (self._head + piece[: min(at, _HEAD)])[:_HEAD]
            self._length += at
            if newline < 0:
                return
            self.total += 1
            self._keep(self._head, self._length)
            if self._spread is not None:
                self._spread.add(_offset(self._head)[0])
            at += 1
        end = piece.rfind(b"\n", at) + 1 or at
        if end > at:
            self._records(piece, at, end)
        self._head, self._length = piece[end : end + _HEAD], len(piece) - end

    def _records(self, piece: bytes, at: int, end: int) -> None:
        self.total += stringzilla.count(piece, b"\n", at, end)
        if self._spread is not None:
            self._spread.add_records(piece, at, end)
        last = piece.rfind(b"\n", at, end - 1) + 1 or at
        if self._is_full or _offset(piece[last : last + _HEAD])[0] < self._start:
            return  # matches come in order, so none of these is to be shown
        while at < end and not self._is_full:
            newline = piece.find(b"\n", at)
            self._keep(piece[at : at + _HEAD], newline - at)
            at = newline + 1

    def _keep(self, head: bytes, length: int) -> None:
        byte, digits = _offset(head)
        if byte >= self._start and not self._is_full:
            self._is_full = not self._takes(Span(byte, byte + length - digits - 1))

    def _listed(self, place: Span) -> bool:
        self.found.append(place)
        return len(self.found) < self._most


class Spread:
    """In which of so many equal parts of an output a match begins. Millions of matches cost a few looks per part."""

    def __init__(self, parts: int, size: int) -> None:
        self.found: list[int] = []  # numbers of parts, from 0 on
        self._parts = parts
        self._size = size

    def add(self, byte: int) -> None:
        """Matches come in order."""
        part = self._part(byte)
        if not self.found or self.found[-1] < part:
            self.found.append(part)

    def add_records(self, piece: bytes, at: int, end: int) -> None:
        while at < end:
            self.add(_offset(piece[at : at + _HEAD])[0])
            at = self._later(piece, at, end)

    def _later(self, piece: bytes, low: int, high: int) -> int:
        """Where the first record is whose match begins in a later part than that of the record at `low`."""
        part = self.found[-1]
        while True:
            middle = (low + high) // 2
            begin = piece.rfind(b"\n", low, middle) + 1 or piece.find(b"\n", middle, high) + 1
            if not low < begin < high:
                return high
            if self._part(_offset(piece[begin : begin + _HEAD])[0]) > part:
                high = begin
            else:
                low = begin

    def _part(self, byte: int) -> int:
        return min(self._parts - 1, byte * self._parts // self._size)


class LastPlaces(Places):
    """The last `most` matches that begin before byte `end`, and how many there are in all."""

    def __init__(self, *, end: float, most: int) -> None:
        super().__init__(start=0)
        self.last: deque[Span] = deque(maxlen=most)
        self.before = 0  # how many begin before `end`; where that is more than `most`, it may be still more
        self._end = end

    def _records(self, piece: bytes, at: int, end: int) -> None:
        self.total += stringzilla.count(piece, b"\n", at, end)
        if _offset(piece[at : at + _HEAD])[0] >= self._end:
            return
        found: list[Span] = []
        while end > at and len(found) <= (self.last.maxlen or 0):  # one more tells that there are more
            begin = piece.rfind(b"\n", at, end - 1) + 1 or at
            byte, digits = _offset(piece[begin : begin + _HEAD])
            if byte < self._end:
                found.append(Span(byte, byte + end - 1 - begin - digits - 1))
            end = begin
        self.before += len(found)
        self.last.extend(reversed(found))

    def _keep(self, head: bytes, length: int) -> None:
        byte, digits = _offset(head)
        if byte < self._end:
            self.before += 1
            self.last.append(Span(byte, byte + length - digits - 1))


def _offset(head: bytes) -> tuple[int, int]:
    digits = head.index(b":")
    return int(head[:digits]), digits


class Tally:
    """How often each value occurs. Past `MAX_VALUES` different ones no new value is taken in, and `full` says so."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()
        self.total = 0
        self.full = False

    def add(self, values: list[bytes]) -> None:
        self.total += len(values)
        if len(self.counts) + len(values) <= MAX_VALUES:
            self.counts.update(values)
            return
        for value in values:
            if value in self.counts or len(self.counts) < MAX_VALUES:
                self.counts[value] += 1
            else:
                self.full = True

    def most_frequent(self) -> list[tuple[bytes, int]]:
        """Those that occur equally often in the order in which they first came."""
        return sorted(self.counts.items(), key=lambda pair: -pair[1])


def values_in(pieces: Iterable[bytes], *, without_return: bool) -> Iterator[list[bytes]]:
    """One value a line. Those over `LONG_VALUE` come as that much and a digest of the whole: longer than any other."""
    open_value = _Value()
    for piece in pieces:
        first, *rest = piece.split(b"\n")
        open_value.add(first)
        if not rest:
            continue
        *whole, last = rest
        if max(map(len, whole), default=0) > LONG_VALUE:
            whole = [_Value(value).key() for value in whole]
        batch = [open_value.key(), *whole]
        yield [value.removesuffix(b"\r") for value in batch] if without_return else batch
        open_value = _Value(last)


class _Value:
    """A value that comes in pieces."""

    def __init__(self, part: bytes = b"") -> None:
        self._kept = b""
        self._digest = hashlib.blake2b(digest_size=16)
        self._length = 0
        self.add(part)

    def add(self, part: bytes) -> None:
        self._length += len(part)
        self._digest.update(part)
        self._kept += part[: LONG_VALUE - len(self._kept)]

    def key(self) -> bytes:
        return self._kept if self._length <= LONG_VALUE else self._kept + self._digest.digest()


def number_in(pieces: Iterable[bytes]) -> int:
    """A count; nothing at all means none."""
    return int(b"".join(pieces) or 0)
