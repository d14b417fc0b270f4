"""How outputs and sessions are named and written down, on disk and in a bundle.

The record of an output describes it completely, and proves itself:

    holdall record 2 <xxh3 of everything after this line, 16 hex digits>\n
    {the facts, as JSON on one line}\n
    <the block table, as stored by values.spans>

The number in the first line is the version of the format. A reader that meets a version it does not know says so and
touches nothing. A session is of one version for its whole life: in one that an older program made, everything is
written as that program would, so that both can work in it. A log has one JSON object a line; from version 2 on the last
key of each proves the line:

    {"at":1700000000.5,"event":"turn","proof":"<xxh3 of the line before the comma, 16 hex digits>"}\n
"""

import contextlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

from xxhash import xxh3_64_hexdigest

from holdall.policy.measure import checksum
from holdall.store.protocol import BadLine, Log, LogLines, SessionInfo
from holdall.text.escape import one_line
from holdall.values import retention as rules
from holdall.values.errors import REMOVED, BadSetting, OutputDamaged, StoreFault, UsageError
from holdall.values.events import Event
from holdall.values.handles import is_mark, is_uuid
from holdall.values.outputs import Facts
from holdall.values.patterns import lazy_pattern
from holdall.values.retention import Retention
from holdall.values.spans import BlockTable

PREFIX = "session-"  # a session can be asked for by this and its id, whatever it is called
LONGEST_NAME = 200
TERMINAL = "terminal"
ANSWERS = "answers"
TREE = "tree.json"
_ID_DIGITS = 32
LOGS: dict[Log, str] = {"events": "events.ndjson", "transcript": "transcript.ndjson", "masks": "masks.ndjson"}
SUFFIX = ".record"
VERSION = 2
VERSIONS = (1, 2)  # that are read, and written in sessions that are theirs
READS = " and ".join(map(str, VERSIONS))  # as messages say it
PROVEN_LOGS: tuple[Log, ...] = ("events", "transcript")
LONGEST_LINE = 64 << 20  # bytes; no event and no message comes near it
_MOST_VALUES, _MOST_COMMAS = 1_000_000, 4  # objects and lists in one piece of JSON, and commas for each; none of ours
# comes near that
_HEX = lazy_pattern(r"[0-9a-f]{16,64}")
_HANDLES_IN = lazy_pattern(rb'"handle"[ \t\r]*:[ \t\r]*"([^"\\]{1,100})"')
_BEGUN = b'"event":"begun"'
_ASKED_IN, _WORDS_IN = lazy_pattern(rb'"asked"[ \t\r]*:'), lazy_pattern(rb"\w+")
_MAGIC = b"holdall record "
_VERSION_IN = lazy_pattern(rb"holdall record ([0-9]{1,9}) ")
_PROOF = b',"proof":"%016x"}'
_PROOF_LENGTH = len(_PROOF % 0)
_EMPTY = b'{"proof":"%016x"}'
_ERASED = b'{"erased":true}'
_NOT_ENDED = "it was not written to its end"
_NO_PROOF = "it has no checksum"
_NO_MATCH = "it does not match its checksum"


_WRITTEN = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), default=str)


def text_of(facts: Facts) -> str:
    """The line of a record that has the facts."""
    return _WRITTEN.encode(facts.to_json())


def encode(facts: Facts, table: BlockTable, version: int = VERSION, text: str = "") -> bytes:
    """`text`: its facts, where these are written already."""
    body = (text or text_of(facts)).encode("ascii") + b"\n" + table.to_bytes()
    return _MAGIC + b"%d %016x\n" % (version, checksum(body)) + body


def decode(data: bytes, *, handle: str) -> tuple[Facts, BlockTable]:
    """Raises OutputDamaged if one bit is not as it was written."""
    first, _, body = data.partition(b"\n")
    words = first.removeprefix(_MAGIC).split(b" ")
    if not first.startswith(_MAGIC) or len(words) != 2:
        raise OutputDamaged(handle, "its record is not a record")
    if words[0] not in [b"%d" % version for version in VERSIONS]:
        theirs = words[0].decode("ascii", "replace")
        raise StoreFault(
            f"output {handle} was kept by another version of Holdall (record format {theirs}; this one reads "
            f"{READS}). Nothing was changed; use the version that wrote it."
        )
    if words[1] != b"%016x" % checksum(body):
        raise OutputDamaged(handle, "its record does not match its own checksum")
    line, _, rest = body.partition(b"\n")
    try:
        facts = Facts.from_json(loads(line))
        table = BlockTable.from_bytes(rest)
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise OutputDamaged(handle, f"its record cannot be read ({problem})") from problem
    if facts.handle != handle:
        raise OutputDamaged(handle, "its record is that of another output")
    return facts, table


def loads(data: bytes) -> Any:
    """As `json.loads`; raises ValueError for what would become a hundred times its bytes in memory."""
    if data.count(b"{") + data.count(b"[") > _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_VALUES:,} objects and lists")
    if data.count(b",") > _MOST_COMMAS * _MOST_VALUES:
        raise ValueError(f"it has more than {_MOST_COMMAS * _MOST_VALUES:,} values")
    return json.loads(data)


def version_in(record: bytes) -> int | None:
    """The version that a record says it has."""
    match = _VERSION_IN.match(record)
    return int(match[1]) if match else None


# Lines of logs.


def sealed(lines: bytes, version: int = VERSION) -> bytes:
    """Each whole line with its proof. What is after the last newline stays as it is: it proves nothing."""
    if version == 1:
        return lines
    *whole, rest = lines.split(b"\n")
    return b"".join([_sealed(line) for line in whole]) + rest


def _sealed(line: bytes) -> bytes:
    if line == b"{}":
        return _EMPTY % checksum(b"{") + b"\n"
    if line[:1] != b"{" or line[-1:] != b"}":
        raise UsageError("a line of a log must be a JSON object.")
    body = line[:-1]
    return b'%b,"proof":"%b"}\n' % (body, xxh3_64_hexdigest(body).encode())


def _opened(line: bytes) -> bytes | None:
    """The line as it was before it was sealed, without its end; None if it does not prove itself."""
    body = line[:-_PROOF_LENGTH]
    if body and line[-_PROOF_LENGTH:] == _PROOF % checksum(body):
        return body
    return b"{" if line == _EMPTY % checksum(b"{") else None


def is_without_end(rest: bytes, version: int) -> bool:
    """Whether what is after the last line is a line whose newline is another byte now. No writer leaves that behind."""
    return version > 1 and not rest.endswith(b"\n") and _opened(rest[:-1]) is not None


def unsealed(line: bytes) -> bytes:
    """One line as it was. Raises ValueError if it does not prove itself."""
    body = _opened(line.removesuffix(b"\n"))
    if body is None:
        raise ValueError(_NO_MATCH)
    return body + b"}"


def lines_in(data: bytes, at: int, version: int, before: Callable[[], int]) -> LogLines:
    """The whole lines of `data`, which is at byte `at` of a log. `before` counts the lines that are before it."""
    end = data.rfind(b"\n") + 1
    good: list[bytes] = []
    bad: list[BadLine] = []
    start = 0
    for number, line in enumerate(data[:end].split(b"\n")[:-1], 1):
        body = _opened(line) if version > 1 else line[:-1] if line.startswith(b"{") and line.endswith(b"}") else None
        if body is not None:
            good.append(body)
        elif line:
            bad.append(BadLine(number + before(), at + start, _what_is_wrong(line)))
        start += len(line) + 1
    return LogLines(b"}\n".join([*good, b""]), at + end, tuple(bad))


def _what_is_wrong(line: bytes) -> str:
    if not line.endswith(b"}"):
        return _NOT_ENDED
    return _NO_MATCH if line[-_PROOF_LENGTH:].startswith((b',"proof":"', b'{"proof":"')) else _NO_PROOF


def resealed(line: bytes, change: Callable[[bytes], bytes], version: int) -> bytes:
    """A line with something in it changed. One that did not prove itself does not do so afterwards either."""
    body = _opened(line.rstrip(b"\n")) if version > 1 else None
    return sealed(change(body + b"}") + b"\n") if body is not None else change(line)


def erased(data: bytes, handles: Collection[str], version: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a log that tell what was in one of these outputs: where each starts, and the line without that.

    Each new line is as long as the old one, so it can be written in its place. Of a line that names one of them and
    cannot be believed (half written, damaged) nothing stays.
    """
    named = {handle.encode("ascii") for handle in handles}
    start = 0
    for line in data.split(b"\n")[:-1]:
        asked = _ASKED_IN.search(line)
        beside = _WORDS_IN.findall(line, asked.end()) if asked else ()  # others that were asked together with it
        is_begun = _BEGUN in line  # with what a call was made whose output may be one of them
        if is_begun or not named.isdisjoint(_HANDLES_IN.findall(line)) or not named.isdisjoint(beside):
            flat = _object_in(line, version)
            if flat is None or _handle_in(flat) in handles or is_begun or not named.isdisjoint(beside):
                told = _dumped(Event.without_content(flat)) if flat is not None else _ERASED
                new = _as_long(told, line, version) or _as_long(_ERASED, line, version) or b" " * len(line)
                if new != line:
                    yield start, new + b"\n"
        start += len(line) + 1


def _object_in(line: bytes, version: int) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError, RecursionError):
        flat: object = loads(unsealed(line) if version > 1 else line)
        return cast("dict[str, Any]", flat) if isinstance(flat, dict) else None
    return None


def _as_long(told: bytes, line: bytes, version: int) -> bytes | None:
    """An object as a line of the length of another one; None if it does not fit."""
    room = len(line) - (_PROOF_LENGTH if version > 1 else 1)
    body = told[:-1].ljust(room)
    return sealed(body + b"}\n", version)[:-1] if len(body) == room else None


def _handle_in(flat: Mapping[str, Any]) -> str | None:
    """What it is about. Logs come from other machines too, so it may be anything."""
    return found if isinstance(found := flat.get("handle"), str) else None


def tree_without(data: bytes, handles: Collection[str]) -> bytes:
    """An operation tree without what it tells of what was in these outputs; an empty one where it cannot be read."""

    def visited(node: Any) -> Any:
        if not isinstance(node, dict):
            return node
        flat = cast("dict[str, Any]", node)
        if _handle_in(flat) in handles:
            return Event.without_content(flat)
        below = flat.get("children")
        return {**flat, "children": list(map(visited, cast("list[Any]", below)))} if isinstance(below, list) else flat

    try:
        return _dumped(visited(loads(data)))
    except (ValueError, RecursionError):
        return b"{}"


def foreign_event(line: bytes) -> bytes:
    """An event from elsewhere as we would have written it, because `erased` looks for its words; without how many
    quotes were verified, which only we can say. What is no JSON stays: no reader believes it. Raises ValueError for
    what readers might believe and this one cannot read.
    """
    try:
        flat: object = loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError):
        return line
    except RecursionError as problem:
        raise ValueError("it is nested too deep") from problem
    if not isinstance(flat, dict):
        return line
    event = cast("dict[str, Any]", flat)
    if not isinstance(event.get("handle"), str | None):
        raise ValueError("its handle is no text")
    event.pop("verified", None)
    return _dumped(event) + line[len(line.rstrip(b"\n")) :]


def tombstone(facts: Facts, now: float) -> Facts:
    """What is left of an output that its owner removed: that it was there, and when it went."""
    gone = _without_words(facts)
    return gone if facts.state == "expired" else replace(gone, ended=now, error=REMOVED)


def expired(facts: Facts, rule: str, now: float) -> Facts:
    """What is left of an output whose time is over, by which rule."""
    return replace(_without_words(facts), ended=now, error=rule)


def _without_words(facts: Facts) -> Facts:
    """No text of it nor of its call, nor a hash by which somebody could try what it was."""
    origin = replace(facts.origin, arguments=None, traceback="")
    measure = replace(facts.measure, sha256="", surrogates="", notes=())
    return replace(facts, state="expired", file="", origin=origin, measure=measure)


def unreadable(handle: str, session: str, fault: StoreFault, changed: float = 0.0) -> Facts:
    """An output in a list whose record cannot be read, now or ever: it is there, and that is all that is known."""
    return Facts(handle, "", session, changed, state="unreadable", error=str(fault))


def _dumped(flat: Any) -> bytes:
    return json.dumps(flat, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def whole_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, one line at a time."""
    held: list[bytes] = []
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start) + 1) > 0:
            yield b"".join((*held, chunk[start:end]))
            held.clear()
            start = end
        if start < len(chunk):
            held.append(chunk[start:])
    if held:
        yield b"".join(held)


def file_for(facts: Facts) -> str:
    """The name of the bytes of an output: a log where a terminal showed them, else by what they are."""
    if facts.origin.terminal:
        return f"{TERMINAL}/{facts.id}.log"
    return f"{facts.id}.{'json' if facts.measure.kind == 'json' else 'txt'}"


def note_name(content: str, key: str) -> str:
    if not _HEX.fullmatch(content) or not _HEX.fullmatch(key):
        raise UsageError("a note is named by two hashes.")
    return f"{content}-{key}"


def is_answer(key: str) -> bool:
    """Whether a note is what a model said of a content. One about an output is named by the shorter id of that."""
    return len(key) > _ID_DIGITS


def is_by_content(content: str) -> bool:
    """Whether a note is about all outputs of a content. One about a single output may be named by its id twice, or by
    its id and that of another one that it quotes: it goes with either."""
    return len(content) > _ID_DIGITS


def check_name(name: str) -> None:
    """The name of a session comes from outside, and is never part of a path."""
    if not isinstance(cast("object", name), str):
        raise UsageError(f"{one_line(repr(name), 40)} cannot be the name of a session: write text, as str(…) makes it.")
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise UsageError(
            f"{name[:40]!r} cannot be the name of a session: write 1 to {LONGEST_NAME} printable characters."
        )


# Sessions: JSON that proves itself.


def encode_session(info: SessionInfo) -> bytes:
    flat = {"format": info.format, "id": info.id, "name": info.name, "created": info.created,
            "retention": str(info.retention), "parent": info.parent}  # fmt: skip
    flat |= {"mark": info.mark} if info.mark else {}
    flat |= {"was": list(info.was)} if info.was else {}
    return json.dumps(flat | {"proof": _proof(flat)}, indent=1).encode()


def decode_session(data: bytes, id: str) -> SessionInfo:
    """Raises KeyError, TypeError or ValueError where it cannot be read, StoreFault where another version wrote it."""
    flat: dict[str, Any] = json.loads(data)
    if flat["format"] not in VERSIONS:
        raise StoreFault(
            f"{PREFIX}{id} was made by another version of Holdall (session format {flat['format']!r:.20}; "
            f"this one reads {READS}). Nothing was changed; use the version that made it."
        )
    is_intact = flat.pop("proof", None) == _proof(flat)
    return SessionInfo(
        id=id,
        name=str(flat["name"]),
        created=float(flat["created"]),
        # Damage could shorten a retention: what cannot be believed removes nothing.
        retention=_rule(flat["retention"]) if is_intact else Retention(days=None),
        parent=str(flat["parent"]),
        format=flat["format"],
        mark=mark if is_intact and is_mark(mark := str(flat.get("mark", ""))) else "",
        was=tuple(id for id in flat.get("was", ()) if is_intact and is_uuid(str(id))),
    )


def _proof(flat: dict[str, Any]) -> str:
    return f"{checksum(json.dumps(flat, sort_keys=True).encode()):016x}"


def _rule(value: object) -> Retention:
    """A rule that cannot be read removes nothing."""
    try:
        return rules.parse(value)
    except BadSetting:
        return Retention(days=None)
