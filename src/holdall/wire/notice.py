"""What a model sees in place of an output that does not fit: what it is, its handle, a glimpse, how to go on.

Lines of the output stand inside a fence with a tag that nobody could have foreseen: they are data. The notice stands
beside the data, never inside it. This module reads nothing: the two ends of the output are handed in.
"""

from holdall.text.excerpt import beginning
from holdall.text.numbers import grouped, plural, roughly
from holdall.values.facts import Facts

GLIMPSE = 4096  # how much of each end is enough to build a notice from
_HEAD_LINES, _TAIL_LINES = 3, 2
_LINE_BYTES = 160


def notice(facts: Facts, *, head: bytes, tail: bytes, tag: str) -> str:
    """`head` and `tail` are the first and last GLIMPSE bytes; `tag` is random and not in the output."""
    fence = f"{facts.handle}:{tag}"
    glimpse = _binary(head) if facts.measure.kind == "binary" else _lines(facts, head, tail)
    return "\n".join(
        [
            f"{facts.origin.tool or 'The tool'} returned {_what(facts)}. {_why(facts)}",
            f"handle: {facts.handle}",
            "",
            f"<{fence}>",
            *glimpse,
            f"</{fence}>",
            f"Next: {' · '.join(_calls(facts))}",
        ]
    )


def summary(facts: Facts) -> str:
    """One line for a person: the handle and what it holds."""
    return f"{facts.handle}  {_what(facts)}"


def _what(facts: Facts) -> str:
    measure = facts.measure
    tokens = grouped(measure.tokens) if measure.tokens_exact else "~" + roughly(measure.tokens)
    return (
        f"{plural(measure.bytes, 'byte')} · {plural(measure.lines, 'line')} · "
        f"{tokens} {'token' if tokens == '1' else 'tokens'} ({measure.kind})"
    )


def _why(facts: Facts) -> str:
    if facts.is_whole:
        failed = f"It failed ({facts.error}). " if facts.error else ""
        return f"{failed}Too large to show; all of it is kept."
    reason = f": {facts.error}" if facts.error else ""
    return f"It is not whole ({facts.state}{reason}); what there was is kept."


def _lines(facts: Facts, head: bytes, tail: bytes) -> list[str]:
    total = facts.measure.lines
    first = _split(head)[:_HEAD_LINES]
    last = _split(tail)[-_TAIL_LINES:] if total > _HEAD_LINES else []
    last = last[-(total - len(first)) :] if total > len(first) else []
    width = len(str(total))
    numbered = [(1 + index, line) for index, line in enumerate(first)]
    numbered += [(total - len(last) + 1 + index, line) for index, line in enumerate(last)]
    shown: list[str] = []
    for number, line in numbered:
        cut = beginning(line.removesuffix(b"\r"), _LINE_BYTES)
        omitted = facts.measure.bytes - cut.end if total == 1 else cut.omitted
        # A line that is longer than the glimpse has no length that is known here.
        more = "" if not omitted else " …" if total > 1 and len(line) >= GLIMPSE else f" … +{omitted:,} bytes"
        shown.append(f"{number:<{width}}  {cut.text}{more}")
    return shown


def _split(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines and lines[-1] == b"" else lines


def _binary(head: bytes) -> list[str]:
    return [f"{at:08x}  {head[at : at + 16].hex(' ')}" for at in range(0, min(64, len(head)), 16)]


def _calls(facts: Facts) -> list[str]:
    handle = facts.handle
    if facts.measure.kind == "binary" or facts.measure.lines <= 1:
        calls = [f'context_read(handle="{handle}", bytes="0:4000")']
    else:
        calls = [f'context_read(handle="{handle}", lines="1:100")']
    calls.append(f'context_grep(handle="{handle}", pattern="…")')
    if facts.measure.kind in ("json", "ndjson"):
        calls.append(f'context_query(handle="{handle}", path="$.…")')
    if facts.measure.kind in ("csv", "ndjson", "log"):
        calls.append(f'context_query(handle="{handle}", sql="select count(*) from t")')  # noqa: S608 - a text to read
    return calls
