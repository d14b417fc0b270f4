"""References to kept outputs: S1's `ContextRef`, the record for models without function calls, and arguments that name
an output instead of holding it (`holdall:HANDLE`).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from holdall.text.escape import foreign
from holdall.text.numbers import plural
from holdall.values.errors import BadReference
from holdall.values.outputs import Facts
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# The machine-readable twin of a handle: S1's ContextRef, and the record for models without function calls.


_NOT_IN_NAMES = lazy_pattern(r"[^\w-]", re.ASCII)


def context_ref(facts: Facts, handle: str = "") -> dict[str, Any]:
    """`hint` has what a reader needs to know before it fetches anything; `handle` is as the dialect writes it."""
    hint: dict[str, Any] = {"tool": foreign(_own_name(facts))}
    if facts.origin.server:
        hint["server"] = foreign(facts.origin.server)
    hint["toolCallId"] = _call_id(facts)
    hint["size"] = {"bytes": facts.measure.bytes, "lines": facts.measure.lines, "tokens": facts.measure.tokens}
    return {"id": handle or facts.handle, "kind": "artifact", "hint": hint}


def _own_name(facts: Facts) -> str:
    """The tool as its server calls it: where several servers are told apart, the server's name is before it."""
    server = facts.origin.server
    return facts.origin.tool.removeprefix(f"{_NOT_IN_NAMES.sub('_', server)}__") if server else facts.origin.tool


def _call_id(facts: Facts) -> str:
    """The id of its call; of one that has none (a command, a function), that of the output. Verbs take both."""
    return foreign(facts.origin.call_id) or facts.id


def context_ref_json(facts: Facts) -> str:
    return json.dumps(context_ref(facts), ensure_ascii=False)


def function_call_record(name: str, arguments: object, response: str) -> str:
    """A finished call as text, for the history of a model that has no tool messages.

    What is between the tags is one JSON object; a `<` inside of it is written `\\u003c`, so that no response can end
    the record or begin another.
    """
    record = {"name": name, "arguments": arguments, "response": response}
    inside = json.dumps(record, ensure_ascii=False, default=str).replace("<", "\\u003c")
    return f"<function_call>{inside}</function_call>"


def summary(facts: Facts) -> str:
    """S1's summary: which tool, which call, how large, whether it is JSON."""
    origin, measure = facts.origin, facts.measure
    tool = foreign(origin.tool)
    if origin.server:
        tool = f"{foreign(origin.server)}/{foreign(_own_name(facts))}"
    size = f"{plural(measure.bytes, 'byte')}, {plural(measure.chars, 'char')}, {plural(measure.lines, 'line')}"
    call = f"Tool: {tool or 'unknown'} (toolCallId: {_call_id(facts)})"
    return f"{call}\nSize: {size}; JSON: {'yes' if measure.kind == 'json' else 'no'}"


# Arguments that name a kept output instead of holding it: `holdall:HANDLE`, `…#/json/pointer`, `…#L10-L20`.
#
# Only a whole string is a reference; `holdall::` at its start stands for a plain `holdall:`. This module reads nothing.


PREFIX = "holdall:"
_LINES = lazy_pattern(r"L(?P<first>[0-9]{1,15})(?:-L?(?P<last>[0-9]{1,15}))?", re.ASCII)
_FRAGMENT = lazy_pattern(r"(?<!!)#")  # `k3f9!#3` is the third member of k3f9
_FORMS = "holdall:HANDLE, holdall:HANDLE# (its JSON), holdall:HANDLE#/json/pointer or holdall:HANDLE#L10-L20"


@record
class Named:
    """One reference: where it stands among the arguments, and what it names."""

    where: str  # `files[0].text`
    handle: str
    pointer: str | None = None
    lines: tuple[int, int] | None = None

    @property
    def place(self) -> str:
        """For a sentence about it."""
        return _place(self.where)

    @property
    def shown(self) -> str:
        return foreign(self.handle)


def _place(where: str) -> str:
    return f"the argument '{foreign(where)}'"


def parse(text: str, where: str) -> Named:
    """What a string that starts with `holdall:` names. Raises BadReference."""
    handle, *after = _FRAGMENT.split(text.removeprefix(PREFIX), maxsplit=1)
    sign, fragment = bool(after), "".join(after)
    if not handle or len(text) > 2000 or any(char.isspace() for char in handle):
        raise BadReference(f"{_place(where)} is no reference. References are {_FORMS}; holdall:: escapes.")
    if not sign:
        return Named(where, handle)
    if not fragment or fragment.startswith("/"):
        return Named(where, handle, pointer=fragment)
    match = _LINES.fullmatch(fragment)
    if match is None:
        raise BadReference(f"{_place(where)} ends in #{foreign(fragment)}, which names nothing. Write {_FORMS}.")
    first = int(match["first"])
    last = int(match["last"] or first)
    if not 1 <= first <= last:
        why = "The first comes before the last." if first else "Lines count from 1."
        raise BadReference(f"{_place(where)} names lines {first} to {last}. {why}")
    return Named(where, handle, lines=(first, last))


def json_advice(named: Named, value: object) -> str:
    """How to pass what is JSON as that, where it did not fit as text."""
    is_whole = named.pointer is None and named.lines is None
    if not is_whole or not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return ""
    return f". {PREFIX}{named.shown} is passed as text, {PREFIX}{named.shown}# as the value of its JSON"


def is_reference(value: object) -> bool:
    return isinstance(value, str) and value.startswith(PREFIX) and not value.startswith(PREFIX + ":")


def references_in(arguments: object) -> list[Named]:
    """All of them, in their order."""
    found: list[Named] = []

    def note(text: str, where: str) -> object:
        found.append(parse(text, where))
        return text

    replaced(arguments, note)
    return found


def replaced(arguments: object, value_of: Callable[[str, str], object], where: str = "") -> Any:
    """The same arguments with every reference replaced and every escape undone; untouched parts are the same objects.

    `value_of` gets the string and its place.
    """
    if isinstance(arguments, str):
        if is_reference(arguments):
            return value_of(arguments, where or "it")
        return PREFIX + arguments[len(PREFIX) + 1 :] if arguments.startswith(PREFIX + ":") else arguments
    if isinstance(arguments, Mapping):
        mapping = cast("Mapping[str, object]", arguments)
        new = {
            name: replaced(value, value_of, f"{where}.{name}" if where else str(name))
            for name, value in mapping.items()
        }
        return mapping if all(new[name] is mapping[name] for name in mapping) else new
    if isinstance(arguments, list | tuple):
        sequence = cast("Sequence[object]", arguments)
        items = [replaced(value, value_of, f"{where}[{at}]") for at, value in enumerate(sequence)]
        return sequence if all(a is b for a, b in zip(items, sequence, strict=True)) else items
    return arguments
