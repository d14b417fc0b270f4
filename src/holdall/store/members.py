"""A part of a packed output, opened like an output: `k3f9!logs/app.log`, `k3f9!#3`, `k3f9!a.zip!b.txt`.

Its bytes are unpacked into a file without a name, which goes with its last descriptor, and measured on the way; nothing
of them goes into the session. `k3f9!` is what a compressed file holds, or the list of an archive's members as CSV.
"""

import contextlib
import csv
import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import BinaryIO

from holdall.formats.packed import (
    ARCHIVES,
    STREAMS,
    Listing,
    Member,
    bytes_of,
    checked,
    member_named,
    members_of,
    name_in_gzip,
    spelled,
    stream_of,
)
from holdall.policy.measure import Measurer
from holdall.store import deadline
from holdall.store.protocol import OutputReader
from holdall.store.reader import LIST_COLUMNS, FileReader
from holdall.text.escape import named, one_line
from holdall.text.numbers import plural
from holdall.text.tokens import Estimate
from holdall.values.errors import BadMember, NotReady, WorkerFault
from holdall.values.outputs import Facts
from holdall.values.spans import Span

MOST_DEEP = 3  # packed files that are opened inside of each other
_IN_MEMORY = 32_000_000  # larger ones go to the disk
Pages = Callable[[OutputReader, str], Iterator[bytes]]  # the text of a PDF: of the page that is named, or all of it
_LONGEST_NAME = 4096  # characters of a name in the list
_CUT_OFF = "the packed data end early; the rest is missing"  # at most 60 characters, as what follows: it is an error


def open_member(
    packed: OutputReader, wanted: str, *, most: int, pages: Pages | None = None, deep: int = 1
) -> FileReader:
    """What `wanted` names in a packed output, of at most `most` bytes. Close it. Raises BadMember.

    `pages` gives the text of a PDF; without it a PDF has no members.
    """
    facts = packed.facts
    if facts.state in ("running", "queued"):
        raise NotReady(facts.handle)
    if deep > MOST_DEEP:
        raise BadMember(f"at most {MOST_DEEP} packed files are opened inside of each other.")
    form = facts.measure.kind
    if facts.origin.masked:
        raise BadMember("it is not opened: secrets of its tool are masked, and in there they could not be.")
    if form in STREAMS:
        content = _content(packed, form, most)
        if content.facts.measure.kind != "tar":
            rest = _behind_content(packed, form, wanted)
            return content if rest is None else _further(content, rest, most, pages, deep)
        with contextlib.closing(content):
            return _in_archive(content, facts, "tar", wanted, most, pages, deep, compressed=True)
    if form in ARCHIVES:
        return _in_archive(packed, facts, form, wanted, most, pages, deep)
    if form == "pdf" and pages is not None:
        return _reader(facts, wanted, pages(packed, wanted), Span(0, packed.totals.bytes))
    raise BadMember(f"it is {form}, not a packed file: it has no members. Leave out the last ! and what follows.")


def _further(reader: FileReader, wanted: str, most: int, pages: Pages | None, deep: int) -> FileReader:
    with contextlib.closing(reader):
        found = open_member(reader, wanted, most=most, pages=pages, deep=deep + 1)
        # The ledger is about stored bytes: those of the outermost.
        found.facts = replace(found.facts, packed=reader.facts.packed)
        return found


def _content(packed: OutputReader, form: str, most: int) -> FileReader:
    """What a compressed file holds."""
    total = packed.totals.bytes
    stream = stream_of(form, packed.read, total, most)
    found = _reader(packed.facts, "", stream.pieces(), Span(0, total))
    if stream.is_cut:
        return _not_whole(found, _CUT_OFF)
    if stream.rest:
        return _told(found, f"the {plural(stream.rest, 'byte')} or more behind its end are not {form}")
    return found


def _behind_content(packed: OutputReader, form: str, wanted: str) -> str | None:
    """What is asked for inside of the content; None if that is the content itself, which may be named."""
    own = name_in_gzip(packed.read(0, 4096)) if form == "gzip" else ""
    for name in filter(None, (own, "#1")):
        if wanted == name or wanted.startswith(name + "!"):
            wanted = wanted[len(name) :]
    if wanted and not wanted.startswith("!"):
        raise BadMember(f"it is one {form} stream, without members: HANDLE! is what it holds.")
    return wanted[1:] if wanted else None


def _in_archive(
    archive: OutputReader,
    facts: Facts,
    form: str,
    wanted: str,
    most: int,
    pages: Pages | None,
    deep: int,
    *,
    compressed: bool = False,
) -> FileReader:
    """`compressed`: the archive as a whole, so that the stored bytes of a member are nowhere apart."""
    listing = members_of(form, archive.read, archive.totals.bytes)
    whole = Span(0, facts.measure.bytes)
    if not wanted:
        found = _reader(facts, "", _as_csv(listing), whole if compressed else Span(*listing.directory))
        return _not_whole(found, listing.problem) if listing.problem else found
    member, rest = member_named(listing, wanted)
    try:
        stream, (start, end) = bytes_of(form, archive.read, member, most)
        span = whole if compressed else Span(start, min(end, facts.measure.bytes))
        reader = _reader(facts, spelled(listing, member), checked(stream, member), span)
    except BadMember as problem:
        raise BadMember(f"the member {named(member.name)} (#{member.number}) cannot be opened: {problem}") from None
    if stream.is_cut:
        reader = _not_whole(reader, _CUT_OFF)
    return reader if rest is None else _further(reader, rest, most, pages, deep)


def _as_csv(listing: Listing) -> Iterator[bytes]:
    """A line for each member, whatever is in its name."""
    rows: list[str] = []
    writer = csv.writer(_Lines(rows), lineterminator="\n")
    writer.writerow(LIST_COLUMNS)
    for one in listing.members:
        writer.writerow((one.number, one.kind, one.size, _name(one)))
        if len(rows) >= 10_000:
            yield "".join(rows).encode("utf-8", "replace")
            rows.clear()
    yield "".join(rows).encode("utf-8", "replace")


def _name(member: Member) -> str:
    name = one_line(member.name, _LONGEST_NAME)
    return f"{name} -> {one_line(member.target, _LONGEST_NAME)}" if member.target else name


class _Lines:
    def __init__(self, rows: list[str]) -> None:
        self.write = rows.append


def _not_whole(reader: FileReader, why: str) -> FileReader:
    reader.facts = replace(reader.facts, state="interrupted", error=why)
    return reader


def _told(reader: FileReader, what: str) -> FileReader:
    reader.facts = replace(reader.facts, error=what)
    return reader


# ── Measured on the way into a file without a name ──────────────────────────────────────────────────────────────


def _reader(facts: Facts, name: str, pieces: Iterable[bytes], packed: Span) -> FileReader:
    measurer, digest = Measurer(Estimate()), hashlib.sha256()

    def measured() -> Iterator[bytes]:
        for piece in pieces:
            deadline.check()
            measurer.feed(piece)
            digest.update(piece)
            yield piece

    with contextlib.ExitStack() as opened:
        file = opened.enter_context(scratch(measured()))
        measure, table = measurer.finish(digest.hexdigest())
        descriptor = os.dup(file.fileno())
    return FileReader(
        descriptor,
        replace(
            facts, handle=f"{facts.handle}!{name}", measure=measure, file="", packed=packed, state="ready", error="",
            exit_code=None,
        ),
        table,
    )  # fmt: skip


def scratch(pieces: Iterable[bytes]) -> BinaryIO:
    """A file without a name that holds the pieces: in memory while they are few, else on the disk."""
    file, length, is_small = _in_memory(), 0, True
    try:
        for piece in pieces:
            length += len(piece)
            if is_small and length > _IN_MEMORY:
                small, file, is_small = file, _on_disk(), False
                with small:
                    small.seek(0)
                    shutil.copyfileobj(small, file)
            file.write(piece)
        file.flush()
    except BaseException as problem:
        with contextlib.suppress(OSError):  # it tries once more to write what had no room
            file.close()
        if isinstance(problem, OSError) and problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise WorkerFault(
                f"there is no room for a temporary copy of {length:,} bytes or more in {tempfile.gettempdir()}. "
                "Free some, or point TMPDIR elsewhere."
            ) from problem
        raise
    return file


def _in_memory() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("holdall"), "w+b")
    return _on_disk()


def _on_disk() -> BinaryIO:
    return tempfile.TemporaryFile(prefix="holdall-")
