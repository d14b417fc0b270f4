"""Prepared copies of an output for DuckDB, in files that have no name and vanish with their last descriptor.

Copied from checked blocks, piece by piece. What cannot be copied as it is, is replaced in a way that the table undoes
again; only bytes that are not UTF-8 are replaced for good, by U+FFFD, and whoever asked for the copy says so.
"""

import codecs
import errno
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from holdall.store.protocol import OutputReader
from holdall.values.errors import WorkerFault

PIECE = 1024 * 1024
_IN_MEMORY = 32 * 1024 * 1024  # larger copies go to the disk

_PAIR = 12  # bytes of two escapes
# Every escape, so that the second backslash of `\\ud83d` is not taken for the start of one.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_CONTROL = bytes(sign for sign in range(32) if sign != 10)
_NO_CONTROL = bytes.maketrans(_CONTROL, b" " * len(_CONTROL))  # in JSON a space is as good, but within texts

Check = Callable[[], None]  # raises where there is no time left


def pieces(reader: OutputReader, start: int, end: int, check: Check) -> Iterator[bytes]:
    """The bytes from `start` to `end`, each block checked."""
    for at in range(start, end, PIECE):
        check()
        yield reader.read(at, min(at + PIECE, end))


def scratch(parts: Iterable[bytes], expected: int) -> BinaryIO:
    """A nameless file that holds the parts, of about `expected` bytes."""
    file = _nameless(expected)
    try:
        for part in parts:
            file.write(part)
        file.flush()
    except OSError as refused:
        file.close()
        if refused.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise WorkerFault(
                f"there is no room for a temporary copy of {expected:,} bytes in {tempfile.gettempdir()}. "
                "Free some, or point TMPDIR elsewhere."
            ) from refused
        raise
    except BaseException:
        file.close()
        raise
    return file


def mended(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The same text with U+FFFD for what is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for part in parts:
        yield decoder.decode(part).encode()
    yield decoder.decode(b"", final=True).encode()


def json_mended(parts: Iterable[bytes], *, lines: bool) -> Iterator[bytes]:
    """The same JSON as strict readers take it: U+FFFD for each half of a surrogate pair, spaces for raw control signs.

    Nothing becomes longer or shorter. `lines`: newlines stay. Parts are cut behind a sign that is in no escape.
    """
    held = b""
    for part in parts:
        text = held + (part if lines else part.replace(b"\n", b" "))
        end = max(text.rfind(sign) for sign in (b'"', b",", b" ")) + 1
        if not end and b"\\" not in text[-_PAIR:]:
            end = len(text)
        held = text[end:]
        yield _json_mended(text[:end])
    yield _json_mended(held)


def _json_mended(text: bytes) -> bytes:
    text = text.translate(_NO_CONTROL)
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPE.sub(lambda found: b"\\ufffd" if found["half"] else found[0], text)


def marked_lines(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that DuckDB's CSV reader takes as they are: none empty, no sign in them that it would act on.

    Each gets an x in front and loses the \\r of its \\r\\n. A \\r elsewhere, and the signs that delimit columns and
    escapes here, are written with the escape \\x1e in front.
    """
    at_start, held = True, b""
    for part in parts:
        text = held + part
        held = b"\r" if text.endswith(b"\r") else b""  # the next part tells whether a newline follows
        text = text[: len(text) - len(held)]
        if not text:
            continue
        text = text.replace(b"\x1e", b"\x1ee").replace(b"\x1f", b"\x1eu")
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\x1er")
        yield b"x" * at_start + text[:-1].replace(b"\n", b"\nx") + text[-1:]
        at_start = text.endswith(b"\n")
    if held:
        yield b"x" * at_start + b"\x1er"


def are_plain_lines(parts: Iterable[bytes]) -> bool:
    """Whether DuckDB's CSV reader takes the lines as they are, so that no copy is needed."""
    last = b"\n"  # so that a newline at the very start counts as an empty line
    for part in parts:
        if last + part[:1] == b"\n\n" or any(sign in part for sign in (b"\r", b"\x1e", b"\x1f", b"\n\n")):
            return False
        if last == b"\n" and part.startswith(codecs.BOM_UTF8):
            return False  # it would be taken off
        last = part[-1:]
    return True


def _nameless(expected: int) -> BinaryIO:
    if expected <= _IN_MEMORY and hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("holdall"), "w+b")
    return tempfile.TemporaryFile(prefix="holdall-")
