"""What a model sees in place of an output that does not fit: what it is, its handle, its outline, how to go on.

Everything that comes from the output stands inside a fence with a tag that nobody could have foreseen: it is data. The
notice stands beside the data, never inside it. This module reads nothing: what it shows is handed in. It is at most
as long as its token budget, whatever the output: the outline's lines come most important first, and are cut from the
end.
"""

from dataclasses import dataclass

from holdall.text.excerpt import beginning
from holdall.text.numbers import grouped, plural, roughly
from holdall.text.outline import Outline
from holdall.text.tokens import Estimate
from holdall.values.facts import Facts
from holdall.values.spans import Span
from holdall.wire.view import GLIMPSE, View

_LINE_BYTES = 160
_ERRORS = 3
_HEAD_OF_OUTLINE, _RARE = 6, 3
# An estimate may be this far under the truth: then the budget is kept all the same.
_ESTIMATE_SHARE = 0.8


def notice(view: View) -> str:
    facts, outline, errors, counter = view.facts, view.outline, view.errors, view.tokenizer
    label = outline.label if outline is not None else facts.measure.kind
    before = [
        f"{facts.origin.tool or 'The tool'} returned {_what(facts, label)}. {_why(facts)}",
        f"handle: {view.handle}",
        "",
    ]
    fence = f"{view.handle}:{view.tag}"
    after = [f"</{fence}>", f"Next: {' · '.join(_calls(facts, errors))}"]
    room = view.most_tokens * (_ESTIMATE_SHARE if isinstance(counter, Estimate) else 1.0)
    room -= counter.count("\n".join([*before, f"<{fence}>", *after])) + 8
    taken: list[_Part] = []
    for part in sorted(_parts(facts, outline, errors, view.head, view.tail), key=lambda part: part.rank):
        cost = counter.count(part.text) + 1
        if cost <= room:
            taken.append(part)
            room -= cost
    shown = [part.text for part in sorted(taken, key=lambda part: part.place)]
    return "\n".join([*before, f"<{fence}>", *shown, *after])


def running_notice(view: View) -> str:
    """For a call that goes on in the background: its output so far can be read at once."""
    tool, handle = view.facts.origin.tool or "The tool", view.handle
    return (
        f"{tool} is still running. What it writes is kept, and can be read while it runs.\n"
        f"handle: {handle}\n"
        f'Next: wait_for_tool_output(handle="{handle}") · context_tail(handle="{handle}")'
    )


def shown_by_notice(view: View) -> tuple[Span, ...]:
    """The bytes of the first and the last line that stand in a notice as they are."""
    if view.facts.measure.kind == "binary":
        return ()
    total = view.facts.measure.bytes
    first = min(_LINE_BYTES, len(_split(view.head)[0]) if view.head else 0)
    spans = [Span(0, first)]
    if view.facts.measure.lines > 1:
        last = _split(view.tail)[-1]
        start = total - len(last) - view.tail.endswith(b"\n")
        spans.append(Span(max(0, start), max(0, start) + min(_LINE_BYTES, len(last))))
    return tuple(span for span in spans if span.start < span.end)


@dataclass(frozen=True, slots=True)
class _Part:
    """A line that may be shown: how soon it is chosen, and where it then stands."""

    rank: int
    place: int
    text: str


def summary(facts: Facts) -> str:
    """One line for a person: the handle and what it holds."""
    return f"{facts.handle}  {_what(facts, facts.measure.kind)}"


def _what(facts: Facts, label: str) -> str:
    measure = facts.measure
    tokens = grouped(measure.tokens) if measure.tokens_exact else "~" + roughly(measure.tokens)
    return (
        f"{plural(measure.bytes, 'byte')} · {plural(measure.lines, 'line')} · "
        f"{tokens} {'token' if tokens == '1' else 'tokens'} ({label})"
    )


def _why(facts: Facts) -> str:
    if facts.is_whole:
        failed = f"It failed ({facts.error}). " if facts.error else ""
        return f"{failed}Too large to show; all of it is kept."
    reason = f": {facts.error}" if facts.error else ""
    return f"It is not whole ({facts.state}{reason}); what there was is kept."


def _parts(
    facts: Facts, outline: Outline | None, errors: tuple[tuple[int, str], ...], head: bytes, tail: bytes
) -> list[_Part]:
    """The first line, the outline, the last line, the errors. What is rare is chosen before what is merely frequent."""
    ends = _binary(head) if facts.measure.kind == "binary" else _lines(facts, head, tail)
    lines = list(outline.lines) if outline is not None else []
    said = "\n".join(lines)
    wrong = [f"L{number:,}  {_cut(text.encode())}" for number, text in errors if f"L{number:,} " not in said]
    if facts.measure.kind == "binary":
        return [_Part(place, place, text) for place, text in enumerate([*lines, *ends])]
    texts = [*ends[:1], *lines, *ends[1:], *wrong[:_ERRORS]]
    first_rare = next((at for at, line in enumerate(lines) if _is_rare(line)), len(lines))
    ranks = [0, *(_rank(at, first_rare) for at in range(len(lines))), *(45 for _ in ends[1:]), *(35 for _ in wrong)]
    return [_Part(rank, place, text) for place, (rank, text) in enumerate(zip(ranks, texts, strict=False))]


def _rank(at: int, first_rare: int) -> int:
    """The head of the outline, then the first rare lines with the line that counts them, then the rest in order."""
    if at < _HEAD_OF_OUTLINE:
        return 10 + at
    if first_rare - 1 <= at < first_rare + _RARE:
        return 30 + at - first_rare
    return 50 + at


def _is_rare(line: str) -> bool:
    return line.startswith("L") and line[1:2].isdigit()


def _lines(facts: Facts, head: bytes, tail: bytes) -> list[str]:
    """The first line and the last, with their numbers."""
    total = facts.measure.lines
    first, last = _split(head)[:1], _split(tail)[-1:] if total > 1 else []
    width = len(str(total))
    shown: list[str] = []
    for number, line in [*((1, line) for line in first), *((total, line) for line in last)]:
        omitted = facts.measure.bytes - len(line[:_LINE_BYTES]) if total == 1 else len(line) - _LINE_BYTES
        # A line that is longer than the glimpse has no length that is known here.
        more = "" if omitted <= 0 else " …" if total > 1 and len(line) >= GLIMPSE else f" … +{omitted:,} bytes"
        shown.append(f"{number:<{width}}  {beginning(line.removesuffix(bytes([13])), _LINE_BYTES).text}{more}")
    return shown


def _cut(line: bytes) -> str:
    cut = beginning(line, _LINE_BYTES)
    return cut.text + (" …" if cut.omitted else "")


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines and lines[-1] == b"" else lines


def _binary(head: bytes) -> list[str]:
    return [f"{at:08x}  {head[at : at + 16].hex(' ')}" for at in range(0, min(32, len(head)), 16)]


def _calls(facts: Facts, errors: tuple[tuple[int, str], ...]) -> list[str]:
    """One example call per useful verb, ready to copy."""
    handle, lines = facts.handle, facts.measure.lines
    if facts.measure.kind == "binary" or lines <= 1:
        calls = [f'context_read(handle="{handle}", bytes="0:4000")']
    else:
        near = min(max(1, errors[0][0] - 5), max(1, lines - 20)) if errors else 1
        calls = [f'context_read(handle="{handle}", lines="{near}:{near + 20}")']
    calls.append(f'context_grep(handle="{handle}", pattern="…")')
    if facts.measure.kind in ("json", "ndjson"):
        calls.append(f'context_query(handle="{handle}", path="$.…")')
    if facts.measure.kind in ("csv", "ndjson", "log"):
        calls.append(f'context_query(handle="{handle}", sql="select count(*) from t")')  # noqa: S608 - a text to read
    return calls
