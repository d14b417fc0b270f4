"""The machine-readable twin of a handle: S1's ContextRef, and the record for models without function calls."""

import json
from typing import Any

from holdall.text.numbers import plural
from holdall.values.outputs import Facts


def context_ref(facts: Facts) -> dict[str, Any]:
    """`hint` has what a reader needs to know before it fetches anything."""
    hint: dict[str, Any] = {"tool": facts.origin.tool}
    if facts.origin.server:
        hint["server"] = facts.origin.server
    hint["toolCallId"] = facts.origin.call_id
    hint["size"] = {"bytes": facts.measure.bytes, "lines": facts.measure.lines, "tokens": facts.measure.tokens}
    return {"id": facts.handle, "kind": "artifact", "hint": hint}


def context_ref_json(facts: Facts) -> str:
    return json.dumps(context_ref(facts), ensure_ascii=False)


def function_call_record(name: str, arguments: object, response: str) -> str:
    """A finished call as text, for the history of a model that has no tool messages.

    What stands between the tags is one JSON object; a `<` inside of it is written `\\u003c`, so that no response can
    end the record or begin another.
    """
    record = {"name": name, "arguments": arguments, "response": response}
    inside = json.dumps(record, ensure_ascii=False, default=str).replace("<", "\\u003c")
    return f"<function_call>{inside}</function_call>"


def summary(facts: Facts) -> str:
    """S1's summary: which tool, which call, how large, whether it is JSON."""
    origin, measure = facts.origin, facts.measure
    tool = f"{origin.server}/{origin.tool}" if origin.server else origin.tool
    call = f" (toolCallId: {origin.call_id})" if origin.call_id else ""
    size = f"{plural(measure.bytes, 'byte')}, {plural(measure.chars, 'char')}, {plural(measure.lines, 'line')}"
    return f"Tool: {tool or 'unknown'}{call}\nSize: {size}; JSON: {'yes' if measure.kind == 'json' else 'no'}"
