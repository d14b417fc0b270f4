"""The same events as OpenTelemetry spans and counters. Needs the extra `telemetry`, of which only the API is used.

The application chooses where they go; without its own SDK they go nowhere and cost nothing. No result, argument or
traceback is ever in an attribute.
"""

import functools

from opentelemetry import metrics, trace

from holdall.values.events import Event

_NAMES = {
    "inline": "holdall.outputs.inline",
    "kept": "holdall.outputs.kept",
    "unkept": "holdall.outputs.unkept",
    "begun": "holdall.calls.begun",
    "over": "holdall.calls.over",
    "retrieved": "holdall.retrievals",
    "scanned": "holdall.outputs.scanned",
    "refused": "holdall.refusals",
    "passed": "holdall.references.passed",
    "running": "holdall.calls.background",
    "ended": "holdall.calls.ended",
    "asked": "holdall.models.calls",
    "extracted": "holdall.extractions",
    "turn": "holdall.turns",
    "called": "holdall.tools.calls",
    "spawned": "holdall.agents",
    "joined": "holdall.agents.ended",
    "reported": "holdall.reports",
    "recovered": "holdall.recoveries",
    "removed": "holdall.outputs.removed",
}
_NANOSECONDS = 1_000_000_000


def watch(event: Event) -> None:
    """A span as long as what happened took, and the counters that it moves."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        _span(event)
    _count(event)


def _span(event: Event) -> None:
    """Only where the application has chosen a place for spans: making them for nobody would cost every call."""
    if event.kind in ("begun", "over"):
        return  # of a call that has its span when it has ended
    end = int(event.at * _NANOSECONDS)
    tracer = trace.get_tracer("holdall")
    span = tracer.start_span(
        _span_name(event), start_time=end - int(event.seconds * _NANOSECONDS), attributes=_attributes(event)
    )
    if event.kind in ("unkept", "refused"):
        # Why a call was refused may quote it, and the output; why one was not kept is the store's word.
        why = str(event.data.get("why", ""))[:200] if event.kind == "unkept" else event.kind
        span.set_status(trace.Status(trace.StatusCode.ERROR, why))
    span.end(end_time=end)


def _span_name(event: Event) -> str:
    """GenAI's name for what a tool does; our own verbs are tools of that name."""
    if event.kind in ("retrieved", "refused"):
        return f"execute_tool {event.data.get('name') or event.data.get('verb', 'unknown')}"
    if event.kind == "asked":
        return f"chat {event.data.get('model', 'unknown')}"
    return f"holdall {event.kind}"


def _attributes(event: Event) -> dict[str, str | int | float | bool]:
    found: dict[str, str | int | float | bool] = {"holdall.event": event.kind}
    if event.tool:
        found["gen_ai.tool.name"] = event.tool[:200]
    if event.call_id:
        found["gen_ai.tool.call.id"] = event.call_id[:200]
    if event.handle:
        found["holdall.handle"] = event.handle
    for name in ("verb", "reason", "bytes", "tokens", "content_tokens", "is_error", "strategy", "calls", "cost"):
        value = event.data.get(name)
        if isinstance(value, str | int | float):
            found[f"holdall.{name}"] = value
    if event.kind == "asked":
        found |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": str(event.data.get("model", ""))[:200],
            "gen_ai.usage.input_tokens": int(event.data.get("input_tokens", 0)),
            "gen_ai.usage.output_tokens": int(event.data.get("output_tokens", 0)),
        }
    if event.kind in ("retrieved", "refused"):
        found |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": str(event.data.get("name", ""))[:200]}
    return found


def _count(event: Event) -> None:
    if event.data.get("part"):  # of a call that is counted once
        return
    labels = {name: str(event.data[name]) for name in ("verb", "strategy") if name in event.data}
    _counter(_NAMES[event.kind], "1").add(1, labels)
    if event.kind == "kept":
        _counter("holdall.bytes.kept", "By").add(int(event.data.get("bytes", 0)))
        if event.data.get("replaced"):
            out = int(event.data.get("tokens", 0)) - int(event.data.get("content_tokens", 0))
            _counter("holdall.tokens.kept_out", "{token}").add(max(0, out))


@functools.cache
def _counter(name: str, unit: str) -> metrics.Counter:
    """One instrument per name: before an SDK is set it is a proxy."""
    return metrics.get_meter("holdall").create_counter(name, unit=unit)
