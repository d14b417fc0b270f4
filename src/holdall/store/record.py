"""The record beside the bytes: it describes an output completely, and proves itself.

    holdall record 1 <xxh3 of everything after this line, 16 hex digits>\\n
    {the facts, as JSON on one line}\\n
    <the block table, as stored by values.blocks>

The number in the first line is the version of this format. A reader that meets a version it does not know says so
and touches nothing.
"""

import json

from holdall.policy.measure import checksum
from holdall.values.errors import OutputDamaged, StoreFault
from holdall.values.outputs import Facts
from holdall.values.spans import BlockTable

SUFFIX = ".record"
VERSION = 1
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
