"""How an answer looks: the model's words, then each quote with its place and whether it was proved.

Every line of a quote begins with `> `, and the line below a quote is ours. A line of an answer that begins so is shown
with `\\>`: what a model writes cannot pass for what was proved.
"""

import re
import sys
from collections.abc import Sequence
from typing import Any

from holdall.cli import show as screen
from holdall.policy.route import Forecast, Route
from holdall.text.escape import for_people, one_line
from holdall.text.numbers import grouped, plural
from holdall.values.extraction import Check, Extraction, Snippet, Spent
from holdall.values.spans import Span
from holdall.wire.extraction import coverage, not_searched

_LIKE_A_QUOTE = re.compile(r"^([^\S\n]*)>", re.MULTILINE)
_CHECKS: dict[Check, str] = {
    "exact": "verified",
    "loose": "verified but for white space and escapes",
    "near": "unverified: the model changed it, this is the most similar place",
    "none": "unverified: not in what the model read",
}


def money(cost: float | None) -> str:
    """`$0.0031`, `$12.40`: small sums keep their digits."""
    if cost is None:
        return "price unknown"
    if 0 < cost < 0.0001:
        return "<$0.0001"
    return f"${cost:.2f}" if cost >= 1 or cost == 0 else f"${cost:.4f}"


def planned(route: Route, chunks: int, forecast: Forecast) -> str:
    """`full-chunked, since its lines are long: 12 chunks, at most 13 calls, …`"""
    if route.strategy == "truncate":
        return "truncate, as asked: no model is needed"
    why = {
        "asked": "as asked",
        "fits": "since it fits",
        "long-lines": "since its lines are long",
        "many-lines": f"since it would be {plural(chunks, 'chunk')}",
        "dialect": "as the dialect has it",
        "fallback": "since nothing else was left",
    }[route.reason]
    parts = f"{plural(chunks, 'chunk')}, " if route.strategy == "full-chunked" else ""
    return f"{route.strategy}, {why}: {parts}{taking(forecast)}"


def taking(forecast: Forecast) -> str:
    cost = f"about {money(forecast.cost)}" if forecast.cost else money(forecast.cost)
    return f"at most {plural(forecast.calls, 'call')}, about {grouped(forecast.tokens)} tokens, {cost}"


def spent(total: Spent) -> str:
    """`13 calls (1 repeated) · 29,088 tokens · $0.0303 · 4.1 s · 2 calls from the cache`"""
    again = f" ({total.retries:,} repeated)" if total.retries else ""
    parts = [
        f"{plural(total.calls, 'call')}{again}",
        f"{grouped(total.usage.tokens)} tokens",
        money(total.usage.cost) if total.calls else "$0.00",
        f"{total.seconds:.1f} s",
    ]
    if total.cached_calls:
        parts.append(f"{plural(total.cached_calls, 'call')} from the cache")
    return " · ".join(parts)


def flat(found: Extraction, handle: str, question: str) -> dict[str, Any]:
    return {
        "handle": handle,
        "question": question,
        "found": found.found,
        **found.to_json(),
        "model": found.model,
        "cached": found.cached,
        "searched": [span.as_list() for span in found.searched],
        "spent": found.spent.to_json(),
    }


def answer(found: Extraction, lines: Sequence[Span | None]) -> None:
    """On standard output; `lines` are those of the quotes."""
    whole = found.answer.rstrip("\n")
    if found.strategy != "truncate":
        whole = _LIKE_A_QUOTE.sub(r"\1\\>", whole)
    if screen.is_terminal(sys.stdout):
        whole = for_people(whole)
    parts = [found.warning, whole, *(_quote(one, at) for one, at in zip(found.snippets, lines, strict=True))]
    text = "\n\n".join(part for part in parts if part) + "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _quote(snippet: Snippet, lines: Span | None) -> str:
    text = snippet.text.removesuffix("\n")
    text = for_people(text) if screen.is_terminal(sys.stdout) else text
    check = screen.paint(_CHECKS[snippet.check], "green" if snippet.verified else "red")
    where: list[str] = []
    if snippet.check != "none":
        where.append(f"bytes {snippet.span.start}:{snippet.span.end}")
    if lines is not None:
        first, last = grouped(lines.start), grouped(lines.end)
        where.append(f"line {first}" if first == last else f"lines {first}–{last}")
    told = ["> " + text.replace("\n", "\n> "), f"  {' · '.join([*where, check])}"]
    if snippet.check == "near":
        told.append(f"  the model wrote: {one_line(snippet.said, 500)}")
    return "\n".join(told)


def about(found: Extraction) -> None:
    """On standard error: what was searched, what is wrong with it, what it took."""
    for line in _warnings(found):
        screen.about(line)
    parts = [coverage(found)]
    if found.confidence is not None:
        parts.append(f"the model's confidence: {found.confidence:g}")
    parts += [one_line(part, 200) for part in (found.model, f"sha256 {found.source_hash[:12]}…") if part]
    screen.about(" · ".join(parts))
    if found.cached:
        screen.about(f"from the cache: it was asked before, with {plural(found.spent.cached_calls, 'call')}")
    elif found.model:
        screen.about(spent(found.spent))


def _warnings(found: Extraction) -> list[str]:
    told: list[str] = []
    if found.warning and found.reason != "fallback":  # that one is logged
        told.append(found.warning)
    if found.unchecked:
        told.append(f"{plural(found.unchecked, 'more quote')} of the model were not checked, and are left out.")
    if found.snippets and not any(one.verified for one in found.snippets):
        told.append("None of the quotes stands in the output as it is: do not rely on this answer.")
    if found.failed and found.found:
        told.append(not_searched(found.failed))
    return told
