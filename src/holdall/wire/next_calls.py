"""How to go on from a notice: calls with real values, ready to copy, the most useful first."""

from holdall.formats import Lead
from holdall.wire.dialect import as_a_call
from holdall.wire.view import View

MOST = 4
_SHORT, _LONG = 20, 120  # lines that are read at once, where nothing is known of them and at most
_AROUND = 5  # lines before an error
_BYTES = 4000
_LONG_LINE = 1000  # bytes; longer lines are read by bytes


def next_calls(view: View) -> list[str]:
    """At most four, and one that asks a model where there is one. What is worth reading comes second.

    Of an output of nothing there is nothing to ask.
    """
    if not view.facts.measure.bytes:
        return []
    leads = view.outline.leads if view.outline is not None else ()
    calls = [_lead(view, lead) for lead in leads[: MOST - 1]]
    calls.insert(1 if view.near or view.errors else MOST, _read(view))
    if len(calls) < MOST and view.facts.measure.kind in ("log", "text") and view.facts.measure.lines > _SHORT:
        calls.append(as_a_call("tail", view.handle, {"lines": _SHORT}))
    if view.extracts:
        calls.append(f'tool_output(handle="{view.handle}", extract="…")')
    return list(dict.fromkeys(calls))


def _lead(view: View, lead: Lead) -> str:
    return as_a_call(lead.verb, view.handle, dict(lead.arguments))


def _read(view: View) -> str:
    measure = view.facts.measure
    if measure.kind == "binary" or measure.bytes > _LONG_LINE * max(1, measure.lines):
        return as_a_call("read", view.handle, {"bytes": f"0:{min(_BYTES, measure.bytes)}"})
    if view.near is not None:
        first, last = view.near
    elif view.errors:
        first, last = view.errors[0][0] - _AROUND, view.errors[0][0] + _AROUND
    else:
        first, last = 1, _SHORT
    first = max(1, first)
    last = min(measure.lines, max(first, last), first + _LONG - 1)
    return as_a_call("read", view.handle, {"lines": f"{first}:{last}"})
