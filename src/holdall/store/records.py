"""How outputs and sessions are named and written down, on disk and in a bundle.

The record of an output describes it completely, and proves itself:

    holdall record 1 <xxh3 of everything after this line, 16 hex digits>\n
    {the facts, as JSON on one line}\n
    <the block table, as stored by values.blocks>

The number in the first line is the version of this format. A reader that meets a version it does not know says so and
touches nothing.
"""

import json

from holdall.policy.measure import checksum
from holdall.store.protocol import Log
from holdall.values.errors import OutputDamaged, StoreFault, WrongUse
from holdall.values.outputs import Facts
from holdall.values.patterns import lazy_pattern
from holdall.values.spans import BlockTable

PREFIX = "session-"  # a session can be asked for by this and its id, whatever it is called
LONGEST_NAME = 200
TERMINAL = "terminal"
ANSWERS = "answers"
TREE = "tree.json"
LOGS: dict[Log, str] = {"events": "events.ndjson", "transcript": "transcript.ndjson", "masks": "masks.ndjson"}
SUFFIX = ".record"
VERSION = 1
_HEX = lazy_pattern(r"[0-9a-f]{16,64}")
_MAGIC = b"holdall record "


def encode(facts: Facts, table: BlockTable) -> bytes:
    line = json.dumps(facts.to_json(), ensure_ascii=True, separators=(",", ":"), default=str).encode("ascii")
    body = line + b"\n" + table.to_bytes()
    return _MAGIC + b"%d %016x\n" % (VERSION, checksum(body)) + body


def decode(data: bytes, *, handle: str) -> tuple[Facts, BlockTable]:
    """Raises OutputDamaged where one bit is not as it was written."""
    first, _, body = data.partition(b"\n")
    words = first.removeprefix(_MAGIC).split(b" ")
    if not first.startswith(_MAGIC) or len(words) != 2:
        raise OutputDamaged(handle, "its record is not a record")
    if words[0] != b"%d" % VERSION:
        theirs = words[0].decode("ascii", "replace")
        raise StoreFault(
            f"output {handle} was kept by another version of Holdall (record format {theirs}; this one reads "
            f"{VERSION}). Nothing was changed; use the version that wrote it."
        )
    if words[1] != b"%016x" % checksum(body):
        raise OutputDamaged(handle, "its record does not match its own checksum")
    line, _, rest = body.partition(b"\n")
    try:
        facts = Facts.from_json(json.loads(line))
        table = BlockTable.from_bytes(rest)
    except (KeyError, TypeError, ValueError) as problem:
        raise OutputDamaged(handle, f"its record cannot be read ({problem})") from problem
    if facts.handle != handle:
        raise OutputDamaged(handle, "its record is that of another output")
    return facts, table


def file_for(facts: Facts) -> str:
    """The name of the bytes of an output: a log where a terminal showed them, else by what they are."""
    if facts.origin.terminal:
        return f"{TERMINAL}/{facts.id}.log"
    return f"{facts.id}.{'json' if facts.measure.kind == 'json' else 'txt'}"


def note_name(content: str, key: str) -> str:
    if not _HEX.fullmatch(content) or not _HEX.fullmatch(key):
        raise WrongUse("a note is named by two hashes.")
    return f"{content}-{key}"


def check_name(name: str) -> None:
    """The name of a session comes from outside, and is never part of a path."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise WrongUse(
            f"{name[:40]!r} cannot be the name of a session: write 1 to {LONGEST_NAME} printable characters."
        )
