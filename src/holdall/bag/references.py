"""References among the arguments of other tools, replaced at dispatch: the model passes a handle, the tool gets data.

Off unless the settings or the tool's policy turn it on. What is passed is in the ledger; whoever approves calls can see
handle, size and hash first.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdall.bag.core import Core
from holdall.bag.schemas import schema_complaint
from holdall.store.protocol import OutputReader
from holdall.text.utf8 import decode
from holdall.values.answers import Passage
from holdall.values.errors import BadReference
from holdall.values.spans import Span
from holdall.verbs.query import query_path
from holdall.verbs.read import locate, passage
from holdall.wire.reference import Named, references_in, replaced


@dataclass(frozen=True, slots=True)
class Passed:
    """What a reference brings in, for whoever approves the call: never the content itself."""

    where: str
    handle: str
    tool: str  # that made the output
    bytes: int
    span: Span
    sha256: str  # of the whole output
    value: Any = None


def is_on(core: Core, tool: str) -> bool:
    own = core.policy_of(tool).by_reference
    return core.settings.by_reference if own is None else own


async def preview(core: Core, arguments: object, tool: str) -> tuple[Passed, ...]:
    """What the references among `arguments` would bring in; nothing where the tool may have none."""
    if not is_on(core, tool):
        return ()
    return tuple([await _look(core, named) for named in references_in(arguments)])


async def resolve(core: Core, arguments: Any, tool: str, schema: Mapping[str, Any] | None) -> Any:
    """The arguments as the tool should get them. Raises BadReference, or whatever is wrong with a handle."""
    if not is_on(core, tool):
        return arguments
    found = {named.where: await _look(core, named) for named in references_in(arguments)}
    new = replaced(arguments, lambda _, where: found[where].value)
    if found and schema is not None and (problem := schema_complaint(schema, new)):
        raise BadReference(f"with what its references name, the arguments do not fit the schema of {tool}: {problem}")
    for one in found.values():
        core.journal.record(
            "passed", handle=one.handle, tool=tool, where=one.where, bytes=one.bytes, passed=[one.span.as_list()]
        )
    return new


async def _look(core: Core, named: Named) -> Passed:
    most = core.settings.reference_max_bytes

    def work(reader: OutputReader) -> Passed:
        facts = reader.facts
        value, span = _value(reader, named, most)
        return Passed(
            named.where, facts.handle, facts.origin.tool, span.end - span.start, span, facts.measure.sha256, value
        )

    return await core.on(named.handle, work)


def _value(reader: OutputReader, named: Named, most: int) -> tuple[Any, Span]:
    if named.pointer is not None:
        return _pointed(reader, named, named.pointer, most)
    found = _range(reader, named)
    if found.past_end:
        raise BadReference(f"the argument {named.where!r} names lines that are not there: {named.handle} has "
                           f"{reader.totals.lines:,}.")  # fmt: skip
    span = found.bytes
    _check_size(named, span.end - span.start, most)
    text, exact = decode(reader.read(span.start, span.end))
    if not exact:
        raise BadReference(f"the argument {named.where!r} names {named.handle}, which is not text.")
    return text, span


def _range(reader: OutputReader, named: Named) -> Passage:
    target = locate(reader, lines=named.lines, bytes=None if named.lines else ":")
    return passage(reader, target.span, b"", past_end=target.past_end)


def _pointed(reader: OutputReader, named: Named, pointer: str, most: int) -> tuple[Any, Span]:
    nodes = query_path(reader, path=pointer, limit=1, skip=0, max_bytes=None) if pointer else None
    if nodes is None:  # the whole document
        _check_size(named, reader.totals.bytes, most)
        return _parsed(named, decode(reader.read(0, reader.totals.bytes))[0]), Span(0, reader.totals.bytes)
    if not nodes.nodes:
        raise BadReference(f"the argument {named.where!r}: there is nothing at {pointer[:80]} in {named.handle}.")
    node = nodes.nodes[0]
    _check_size(named, node.bytes.end - node.bytes.start, most)
    return _parsed(named, decode(reader.read(node.bytes.start, node.bytes.end))[0]), node.bytes


def _parsed(named: Named, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadReference(f"the argument {named.where!r} names {named.handle}, which is not JSON there.") from problem


def _check_size(named: Named, size: int, most: int) -> None:
    if size > most:
        raise BadReference(
            f"the argument {named.where!r} names {size:,} bytes of {named.handle}; at most {most:,} may be passed by "
            f"reference (reference_max_bytes). Name lines or a JSON pointer inside of it."
        )
