"""What a model sees in place of an output that does not fit: what it is, its handle, its outline, how to go on.

Everything that comes from the output stands inside a fence with a tag that nobody could have foreseen: it is data.
Only the calls that go on stand outside and have short values of it, as arguments. The notice stands beside the data,
never inside it. This module reads nothing: what it shows is handed in. It is never longer than its token budget,
whatever the output: parts have ranks, and those that do not fit are left out. The first sentence and the handle stay.
"""

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from holdall.text.numbers import grouped, plural, roughly
from holdall.values.outputs import Facts
from holdall.values.spans import Span
from holdall.wire.ends import End, first_lines, last_lines
from holdall.wire.frugal import counter
from holdall.wire.next_calls import next_calls
from holdall.wire.notes import all_is_kept
from holdall.wire.view import View

_TOOL_CHARS, _TOOL_TOKENS = 80, 24  # of a tool's name, which comes from outside
_ERROR_CHARS, _ERROR_TOKENS = 160, 40
_ERRORS = 3
_FIRST, _LAST = 3, 2  # lines of the output
_SHORT_LINES = 80  # bytes
_PLACE = re.compile(r"\bL(\d{1,3}(?:,\d{3})*)\b")
_CALL_RANKS = (1, 2, 60, 90, 91)
_FENCE = 6  # tokens that a fence and the ends of lines cost besides what is counted


@dataclass(frozen=True, slots=True)
class _Part:
    """Something that may be shown: how soon it is chosen, where it then stands, and the bytes that are in it."""

    rank: int
    text: str
    place: int = 0
    end: End | None = None
    is_call: bool = False


def notice(view: View) -> str:
    return _written(view, _chosen(view))


def shown_by_notice(view: View) -> tuple[Span, ...]:
    """The bytes of the first and the last lines that stand in a notice as they are."""
    return _spans(view, _chosen(view))


def _spans(view: View, chosen: "list[_Part]") -> tuple[Span, ...]:
    if view.facts.measure.kind == "binary":
        return ()
    spans = [part.end.span for part in chosen if part.end is not None]
    return tuple(span for span in spans if span.start < span.end)


def notice_and_shown(view: View) -> tuple[str, tuple[Span, ...]]:
    """Both, for the price of one."""
    chosen = _chosen(view)
    return _written(view, chosen), _spans(view, chosen)


def running_notice(view: View) -> str:
    """For a call that goes on in the background: its output so far can be read at once."""
    tool, handle = _tool(view.facts, counter(view.tokenizer)), view.handle
    if view.facts.state == "queued":
        says = "is queued: other calls run already. It starts by itself, and what it writes is kept."
    else:
        says = "is still running. What it writes is kept, and can be read while it runs."
    return (
        f"{tool} {says}\n"
        f"handle: {handle}\n"
        f'Next: wait_for_tool_output(handle="{handle}") · context_tail(handle="{handle}")'
    )


def summary(facts: Facts) -> str:
    """One line for a person: the handle and what it holds."""
    return f"{facts.handle}  {_what(facts, facts.measure.kind)}"


# What is shown


def _parts(view: View) -> list[_Part]:
    """In the order in which they stand: the outline, the first and last lines, the errors, the calls."""
    outline = view.outline.lines if view.outline is not None else ()
    parts = [_Part(0 if at == 0 else 10 + at, line) for at, line in enumerate(outline)]
    told = {int(number.replace(",", "")) for line in outline for number in _PLACE.findall(line)}
    first, last = _ends(view, told)
    parts += [_Part(80 if at == 0 else 100 + at, end.text, end=end) for at, end in enumerate(first)]
    # Nearest to the end counts most.
    parts += [_Part(81 if at == len(last) - 1 else 110, end.text, end=end) for at, end in enumerate(last)]
    told |= {end.line for end in first + last}
    wrong = [(number, text) for number, text in view.errors if number not in told]
    parts += [_Part(82 + at, f"L{number:,}  {text}") for at, (number, text) in enumerate(wrong[:_ERRORS])]
    calls = [_Part(_CALL_RANKS[at], call, is_call=True) for at, call in enumerate(next_calls(view))]
    return [_Part(part.rank, part.text, place, part.end, part.is_call) for place, part in enumerate(parts + calls)]


def _ends(view: View, told: set[int]) -> tuple[list[End], list[End]]:
    """The first and the last lines. More than one of each where they tell more, and are not told already."""
    measure = view.facts.measure
    few = measure.kind == "json" and measure.bytes < _SHORT_LINES * measure.lines  # a member on each line
    first, last = first_lines(view, 1 if few else _FIRST), last_lines(view, 1 if few else _LAST)
    first = [end for at, end in enumerate(first) if at == 0 or end.line not in told or not end.line]
    known = {end.line for end in first} if measure.lines > 1 else set[int]()
    last = [
        end for at, end in enumerate(last) if end.line not in known and (at == len(last) - 1 or end.line not in told)
    ]
    return first, last


def _chosen(view: View) -> list[_Part]:
    """As many as fit, the most important first."""
    count = counter(view.tokenizer)
    room = view.most_tokens - count(_written(view, [])) - count(_fence(view)) * 2 - _FENCE
    chosen: list[_Part] = []
    for part in sorted(_parts(view), key=lambda part: part.rank):
        cost = count(part.text) + 2
        if cost <= room:
            chosen.append(part)
            room -= cost
    # Tokens do not add up exactly, so the whole is counted once more.
    while chosen and count(_written(view, chosen)) > view.most_tokens:
        chosen.pop()
    return chosen


# How it is written


def _written(view: View, chosen: list[_Part]) -> str:
    facts = view.facts
    label = view.outline.label if view.outline is not None else facts.measure.kind
    count = counter(view.tokenizer)
    lines = [f"{_tool(facts, count)} returned {_what(facts, label)}. {_why(facts, count)}", f"handle: {view.handle}"]
    ordered = sorted(chosen, key=lambda part: part.place)
    data = [part.text for part in ordered if not part.is_call]
    calls = [part.text for part in ordered if part.is_call]
    if data:
        lines += ["", f"<{_fence(view)}>", *data, f"</{_fence(view)}>"]
    if calls:
        lines.append(f"Next: {' · '.join(calls)}")
    return "\n".join(lines)


def _fence(view: View) -> str:
    return f"{view.handle}:{view.tag}"


def _what(facts: Facts, label: str) -> str:
    measure = facts.measure
    tokens = grouped(measure.tokens) if measure.tokens_exact else "~" + roughly(measure.tokens)
    return (
        f"{plural(measure.bytes, 'byte')} · {plural(measure.lines, 'line')} · "
        f"{tokens} {'token' if tokens == '1' else 'tokens'} ({label})"
    )


def _why(facts: Facts, count: Callable[[str], int]) -> str:
    error = _bounded(facts.error, _ERROR_CHARS, _ERROR_TOKENS, count)
    if facts.is_whole:
        failed = f"It failed ({error}). " if error else ""
        if not facts.measure.bytes:
            return f"{failed}There is nothing to show."
        return f"{failed}Too large to show; {all_is_kept(facts)}."
    reason = f": {error}" if error else ""
    return f"It is not whole ({facts.state}{reason}); what there was is kept."


def _tool(facts: Facts, count: Callable[[str], int]) -> str:
    return _bounded(facts.origin.tool, _TOOL_CHARS, _TOOL_TOKENS, count) or "The tool"


def _bounded(text: str, chars: int, tokens: int, count: Callable[[str], int]) -> str:
    """Text from outside on one line, without signs that cannot be seen, and short."""
    if len(text) * 2 < min(chars, tokens) and text.isascii() and text.isprintable() and " " not in text:
        return text  # the name of a tool, nearly always: it needs no counting
    visible = (" " if unicodedata.category(char)[0] in "CZ" else char for char in text[: 4 * chars])
    flat = " ".join("".join(visible).split())
    whole = len(text) <= 4 * chars
    for most in (chars, chars // 2, chars // 4, chars // 10):
        shown = flat if whole and len(flat) <= most else flat[:most].rstrip() + "…"
        if not flat or count(shown) <= tokens:
            return shown if flat else ""
    return flat[: chars // 16] + "…"
