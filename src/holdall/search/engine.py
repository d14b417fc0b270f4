"""The programs that search: ripgrep, and RE2 where there is none. Both give the same answers.

Each runs in a process of its own, over the output's descriptor, and prints the same lines; so a search can be
stopped at any time, holds nobody else up, and its memory is not ours. `results` reads the lines. Nothing here
knows a path of the store, and nothing that is found is shown from here: it is read again, checked.
"""

import hashlib
import os
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Literal

import stringzilla

from holdall.search.translate import Pattern
from holdall.values.errors import BadPattern, WorkerFault, WrongUse
from holdall.values.spans import Span

# What a search engine is asked to do, and the command that does it.


# places: `BYTE:MATCH` a line; a pattern that can be empty gives `BYTE:…` with the start of each line that matches.
# values: what each match captured, a line each, several captures with tabs between them; or the match itself.
# count: one number.
Want = Literal["places", "values", "count"]


@dataclass(frozen=True, slots=True)
class Task:
    pattern: Pattern
    want: Want
    descriptor: int
    size: int  # how much of the file is the output
    growing: bool  # the file may be longer than that, and grow further


@dataclass(frozen=True, slots=True)
class Command:
    """A program, the descriptor that it inherits, and what it is fed on its standard input.

    Any code but a good one means that its output is not to be believed; then standard error says why, with the word
    `regex` in it where the pattern is to blame.
    """

    arguments: tuple[str | bytes, ...]
    environment: dict[str, str]
    descriptor: int
    good_codes: tuple[int, ...]
    feed: Iterable[bytes] = ()


# A search program, run: its output piece by piece, inside a time limit, and nothing of it left behind.
#
# However the reading ends (to the end, by an error, because the caller has enough), the process is gone and reaped, and
# every pipe is closed.


_PIPE = 1 << 20
_GATHER = 0.002  # seconds: ripgrep writes 8 KiB at a time, and waking up for each costs more than reading them
_COMPLAINT = 4096  # bytes of standard error that are kept


def output_of(command: Command, *, seconds: float) -> Generator[bytes]:
    """Standard output as it comes. Close the generator (`contextlib.closing`) to stop the search."""
    started = time.monotonic()
    process = _start(command)
    try:
        reading = _Reading(process, iter(command.feed))
        yield from reading.pieces(started + seconds)
        code = process.wait(timeout=max(0.1, started + seconds - time.monotonic()))
        if code not in command.good_codes:
            raise _fault(code, reading.complaint)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise WorkerFault(
            f"the search was stopped after {seconds:g} seconds and gives no answer. "
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
    try:
        return subprocess.Popen(
            command.arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            pipesize=_PIPE,
            pass_fds=(command.descriptor,),
            env=command.environment,
            process_group=0,  # an interrupt on the terminal is ours to handle, once
        )
    except OSError as error:
        raise WorkerFault(f"the search program could not be started: {error.strerror or error}.") from error


class _Reading:
    """Writes the feed and reads both outputs, whichever is ready."""

    def __init__(self, process: subprocess.Popen[bytes], feed: Iterator[bytes]) -> None:
        if process.stdin is None or process.stdout is None or process.stderr is None:
            raise LookupError("started with three pipes")
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._feed = feed
        self._pending = memoryview(b"")
        self.complaint = b""

    def pieces(self, deadline: float) -> Iterator[bytes]:
        os.set_blocking(self._stdin.fileno(), False)
        read = 0
        with selectors.DefaultSelector() as ready:
            ready.register(self._stdin, selectors.EVENT_WRITE)
            ready.register(self._stdout, selectors.EVENT_READ)
            ready.register(self._stderr, selectors.EVENT_READ)
            while ready.get_map():
                left = deadline - time.monotonic()
                for key, _ in ready.select(max(0.0, left)):
                    if key.fileobj is self._stdin:
                        self._write(ready)
                    elif key.fileobj is self._stderr:
                        self._hear(ready)
                    elif piece := os.read(key.fd, _PIPE):
                        read += len(piece)
                        yield piece
                        if read > _PIPE > 4 * len(piece):
                            time.sleep(_GATHER)
                    else:
                        ready.unregister(self._stdout)
                if left <= 0:
                    raise TimeoutError

    def _write(self, ready: selectors.BaseSelector) -> None:
        try:
            if not self._pending:
                self._pending = memoryview(next(self._feed))
            self._pending = self._pending[os.write(self._stdin.fileno(), self._pending) :]
        except (StopIteration, BrokenPipeError):  # all is fed, or nobody reads any more
            ready.unregister(self._stdin)
            self._stdin.close()

    def _hear(self, ready: selectors.BaseSelector) -> None:
        heard = os.read(self._stderr.fileno(), _COMPLAINT)
        if not heard:
            ready.unregister(self._stderr)
        self.complaint = (self.complaint + heard)[:_COMPLAINT]


def _fault(code: int, complaint: bytes) -> BadPattern | WorkerFault:
    said = " ".join(complaint.decode("utf-8", "replace").split())
    if code == 2 and "regex" in said:
        return BadPattern(f"the pattern cannot be run ({said[-200:]}). Write a smaller one.")
    if code < 0:
        return WorkerFault(f"the search program was killed by signal {-code}; perhaps it ran out of memory.")
    return WorkerFault(f"the search program failed with code {code}: {said[-300:] or 'it said nothing'}.")


# What a search program prints, read as a stream: where matches are, how often values occur, how many there are.
#
# A billion matches and a match of a gigabyte both come through here, so nothing is kept but what was asked for.


LONG_VALUE = 200  # bytes of a value that are kept; the rest goes into a digest, so that values stay distinct
MOST_VALUES = 100_000

_HEAD = 24  # bytes that are enough for an offset and its colon


class Places:
    """The first matches from `start` on, and how many there are in all."""

    def __init__(self, *, start: int, most: int) -> None:
        self.found: list[Span] = []
        self.total = 0
        self._start = start
        self._most = most
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
            at += 1
        end = piece.rfind(b"\n", at) + 1 or at
        if end > at:
            self._records(piece, at, end)
        self._head, self._length = piece[end : end + _HEAD], len(piece) - end

    def _records(self, piece: bytes, at: int, end: int) -> None:
        self.total += stringzilla.count(piece, b"\n", at, end)
        last = piece.rfind(b"\n", at, end - 1) + 1 or at
        if len(self.found) == self._most or _offset(piece[last : last + _HEAD])[0] < self._start:
            return  # matches come in order, so none of these is to be shown
        while at < end and len(self.found) < self._most:
            newline = piece.find(b"\n", at)
            self._keep(piece[at : at + _HEAD], newline - at)
            at = newline + 1

    def _keep(self, head: bytes, length: int) -> None:
        byte, digits = _offset(head)
        if byte >= self._start and len(self.found) < self._most:
            self.found.append(Span(byte, byte + length - digits - 1))


def _offset(head: bytes) -> tuple[int, int]:
    digits = head.index(b":")
    return int(head[:digits]), digits


class Tally:
    """How often each value occurs. Past `MOST_VALUES` different ones no new value is taken in, and `full` says so."""

    def __init__(self) -> None:
        self.counts: Counter[bytes] = Counter()
        self.total = 0
        self.full = False

    def add(self, values: list[bytes]) -> None:
        self.total += len(values)
        if len(self.counts) + len(values) <= MOST_VALUES:
            self.counts.update(values)
            return
        for value in values:
            if value in self.counts or len(self.counts) < MOST_VALUES:
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


# How ripgrep is called. It is given no path, no configuration and nothing of the environment.


_KNOWN = 14  # the one whose answers were compared with RE2's; others print some things differently
_FED_AT_ONCE = 1 << 20

_ALWAYS = (
    "--no-config",
    "--text",  # a NUL does not end the search
    "--encoding=none",  # neither does a byte order mark turn UTF-16 into text: offsets are those of the stored bytes
    "--mmap",
    "--threads=1",
    "--no-filename",
    "--no-line-number",  # lines are counted by our own table, without a pass over the file
    "--no-heading",
    "--color=never",
)


@cache
def ripgrep_path() -> str | None:
    """The ripgrep that was installed with us, else one on the PATH of the version that is known; else None."""
    beside = os.path.join(os.path.dirname(sys.executable), "rg")
    if os.access(beside, os.X_OK):
        return beside
    found = shutil.which("rg")
    return found if found and _version(found) == _KNOWN else None


def _version(path: str) -> int:
    try:
        said = subprocess.run([path, "--version"], capture_output=True, timeout=10, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = re.match(rb"ripgrep (\d+)\.", said)
    return int(number[1]) if number else 0


def ripgrep_command(task: Task) -> Command:
    path = ripgrep_path()
    if path is None:
        raise LookupError("choose() offers ripgrep only where there is one")
    # A growing file would be searched up to wherever it ends by then, so its part is fed through a pipe.
    name = "-" if task.growing else f"/dev/fd/{task.descriptor}"
    return Command(
        arguments=(path, *_ALWAYS, *_flags(task), "-e", _pattern(task).encode(), "--", name),
        environment={},
        descriptor=task.descriptor,
        good_codes=(0, 1),  # 1: nothing found
        feed=_part(task.descriptor, task.size) if task.growing else (),
    )


def _flags(task: Task) -> tuple[str, ...]:
    pattern = task.pattern
    captured = "\t".join(f"${{{number + 1}}}" for number in range(pattern.captures))
    match task.want, pattern.can_be_empty:
        case "places", False:
            return ("--only-matching", "--byte-offset")
        case "places", True:
            return ("--byte-offset", "--max-columns=1")  # the offset of the line is enough
        case "values", False:
            return ("--only-matching", f"--replace={captured}") if captured else ("--only-matching",)
        case "values", True:
            return (f"--replace={captured or '${1}'}",)
        case _:
            return ("--count",) if pattern.can_be_empty else ("--count-matches",)


def _pattern(task: Task) -> str:
    by_lines = task.want == "values" and task.pattern.can_be_empty
    return task.pattern.ripgrep_by_lines if by_lines else task.pattern.ripgrep


def _part(descriptor: int, size: int) -> Iterator[bytes]:
    at = 0
    while at < size and (piece := os.pread(descriptor, min(_FED_AT_ONCE, size - at), at)):
        yield piece
        at += len(piece)


# How RE2 is called: our own small program over google-re2, run by this same Python.


_PROGRAM = os.path.join(os.path.dirname(__file__), "re2_program.py")


def installed() -> bool:
    return find_spec("re2") is not None


def re2_command(task: Task) -> Command:
    pattern = task.pattern
    return Command(
        # -P and -S: the program finds what this process finds, and nothing else.
        arguments=(
            *(sys.executable, "-P", "-S", _PROGRAM, task.want, "lines" if pattern.can_be_empty else "matches"),
            *(str(number) for number in (pattern.captures, task.descriptor, task.size)),
        ),
        # Some Pythons do not start without what their environment says of them.
        environment={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        descriptor=task.descriptor,
        good_codes=(0,),  # 1 is how Python ends where nobody expected it to
        feed=(pattern.re2,),
    )


EngineName = Literal["ripgrep", "re2"]


def choose(wanted: Literal["auto", "ripgrep", "re2"]) -> EngineName:
    """The engine to run, or an error that says what to install."""
    if wanted not in ("auto", "ripgrep", "re2"):
        raise WrongUse(f"there is no search engine {wanted!r:.40}; known are auto, ripgrep and re2.")
    if wanted != "re2" and ripgrep_path() is not None:
        return "ripgrep"
    if wanted != "ripgrep" and installed():
        return "re2"
    missing = {"ripgrep": "ripgrep", "re2": "google-re2"}.get(wanted, "ripgrep or google-re2")
    raise WorkerFault(f"grep needs {missing}, and it is not there. Install it with: pip install {missing.split()[0]}")


def command_for(engine: EngineName, task: Task) -> Command:
    return ripgrep_command(task) if engine == "ripgrep" else re2_command(task)
