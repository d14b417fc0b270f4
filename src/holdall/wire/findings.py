"""What a model that extracts hands over: the wrapper around its answer, the reader of it, and the findings inside."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# The wrapper in which a model hands over its answer, and the reader of it.
#
# The nonce is random for every call and occurs nowhere in what the model was given, so nothing in a document can pass
# for the model's answer. Whatever is before the wrapper, thinking above all, is not the answer.


_THINKING = lazy_pattern(r"\s*<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)


def opening_tag(nonce: str) -> str:
    return f'<ai-agent-{nonce}-FINAL format="text">'


def closing_tag(nonce: str) -> str:
    return f"</ai-agent-{nonce}-FINAL>"


def report_in(text: str, nonce: str) -> str | None:
    """What is in the last wrapper of `text`; None if there is none, or nothing in it.

    The closing tag may be missing, or cut off: models stop early.
    """
    if not nonce:
        return None
    start = 0
    while (thinking := _THINKING.match(text, start)) is not None:
        start = thinking.end()
    opening = re.compile(rf"<ai-agent-{re.escape(nonce)}-FINAL(?:\s[^<>]*)?>")
    openings = list(opening.finditer(text, start))
    if not openings:
        return None
    body = text[openings[-1].end() :]
    end = re.search(rf"</ai-agent-{re.escape(nonce)}-FINAL\s*>", body)
    body = body[: end.start()] if end else _without_cut_tag(body, closing_tag(nonce))
    return body.strip() or None


def _without_cut_tag(body: str, tag: str) -> str:
    """A closing tag that was cut off at the end is no part of the answer."""
    for length in range(len(tag) - 1, 3, -1):
        if body.endswith(tag[:length]):
            return body[:-length]
    return body


# What a model says that it found: an answer, the words that it rests on, and how sure it is.
#
# Two forms. A model that can be held to a JSON schema answers with short verbatim anchors; any other writes text in the
# wrapper, with its quotes on lines of their own. Nothing here believes a quote: `extract` looks for each in the source.


NOTHING = "NO RELEVANT DATA FOUND"
_MAX_QUOTES = 200  # of one reply; a model that repeats itself has no end
# Of one line. Nothing is tried twice: a reply of blanks would hold up everything.
_SURE = lazy_pattern(r"\**+confidence\**+\s*+[:=]\s*+\**+\s*+(\d++(?:\.\d++)?)\s*+(%?)\**+", re.IGNORECASE)
# A reply to SCHEMA that was cut off: where its quotes begin, a whole one, and what it has of the answer.
_QUOTES_BEGIN = lazy_pattern(r'\s*\{\s*"quotes"\s*:\s*\[')
_WHOLE_QUOTE = lazy_pattern(r'\s*(?:,\s*)?"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_ANSWER_SO_FAR = lazy_pattern(r'\s*\]\s*,\s*"answer"\s*:\s*"((?:[^"\\]|\\.)*+)', re.DOTALL)
CUT_OFF = "[The model was cut off before it answered. These are the words that it had quoted by then.]"
# What a model puts into quotation marks or code marks in running text claims to be verbatim too. Not a word or two,
# which may be a name or meant otherwise.
_IN_MARKS = lazy_pattern(r"[“„]([^“”„\n]{12,400})[“”]|\"([^\"\n]{12,400})\"|«([^«»\n]{12,400})»|`([^`\n]{12,400})`")

# The order is that in which a model writes. One that has to say first whether it found something says no, and then
# gives the right answer; once it has copied the words, it knows.
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["quotes", "answer", "found", "confidence"],
    "properties": {
        "quotes": {
            "type": "array",
            "maxItems": 12,
            "items": {"type": "string", "minLength": 1, "maxLength": 200},
        },
        "answer": {"type": "string", "maxLength": 4000},
        "found": {"type": "boolean"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    },
}


@record
class Finding:
    """`answer` is the model's text without its quotes; where nothing was found, what it says there is instead."""

    found: bool
    answer: str
    quotes: tuple[str, ...] = ()
    confidence: float | None = None
    more_quotes: int = 0  # that were not taken over
    cut: bool = False  # the model came to its output limit before it had ended


def finding_in_text(text: str, nonce: str, *, limited: bool = False) -> Finding | None:
    """From a reply in the wrapper; None if there is no wrapper. `limited`: the model stopped at its output limit."""
    report = report_in(text, nonce)
    cut = limited and f"</ai-agent-{nonce}" not in text
    return None if report is None else finding_of(report, cut=cut)


def finding_of(report: str, *, cut: bool = False) -> Finding:
    """From the text inside a wrapper."""
    quotes: list[str] = []
    others: list[str] = []
    confidence: float | None = None
    is_after = False  # a quote, or the confidence, and blank lines
    for line in report.split("\n"):
        words = line.strip()
        if words.startswith(">"):
            quotes.append(words[1:])
        elif said := _SURE.fullmatch(words):
            confidence = _share(said[1], percent=bool(said[2]))
        elif words or not is_after:
            others.append(line)
            is_after = False
            continue
        if not is_after and others and others[-1].strip():
            others.append("")  # what stood before and after it stays apart, by one blank line
        is_after = True
    answer = "\n".join(others).strip()
    quotes += _marked(answer)
    found = not answer.upper().startswith(NOTHING)
    if not found:
        answer = answer[len(NOTHING) :].lstrip(" .:\n")
    unique = list(dict.fromkeys(_unwrapped(quote) for quote in quotes if quote.strip()))
    kept = tuple(unique[:_MAX_QUOTES]) if found else ()
    return Finding(found, answer, kept, confidence, len(unique) - len(kept) if found else 0, cut)


def finding_in_json(text: str) -> Finding | None:
    """From a reply that was held to SCHEMA; None if it is not one. Of one that was cut off, what it has quoted."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return _before_the_cut(text)
    if not isinstance(value, Mapping):
        return None
    table = cast("Mapping[str, object]", value)
    answer, found, given = table.get("answer"), table.get("found"), table.get("quotes", [])
    if not isinstance(answer, str) or not isinstance(given, list):
        return None
    marked = _marked(answer)
    listed = [quote for quote in cast("list[object]", given) if isinstance(quote, str) and quote.strip()]
    unique = list(dict.fromkeys([*listed, *marked]))
    sure = table.get("confidence")
    confidence = (
        float(sure) if isinstance(sure, int | float) and not isinstance(sure, bool) and 0 <= sure <= 1 else None
    )
    # A small model says that it found nothing and quotes it anyway: what it quotes is looked for.
    silent = not (answer.strip() or unique)
    means_no_data = (found is False and not listed) or answer.strip().upper().startswith(NOTHING) or silent
    if means_no_data:
        return Finding(False, answer.strip().removeprefix(NOTHING).strip(" .:\n"), (), confidence)
    return Finding(True, answer.strip(), tuple(unique[:_MAX_QUOTES]), confidence, max(0, len(unique) - _MAX_QUOTES))


def _before_the_cut(text: str) -> Finding | None:
    """Asked again, a model that goes on quoting continues quoting; and whole quotes can be looked for as they are."""
    begin = _QUOTES_BEGIN.match(text)
    quotes: list[str] = []
    at = begin.end() if begin else len(text)
    while len(quotes) < _MAX_QUOTES and (quote := _WHOLE_QUOTE.match(text, at)):
        quotes.append(_meant(quote[1]))
        at = quote.end()
    unique = [quote for quote in dict.fromkeys(quotes) if quote.strip()]
    said = _ANSWER_SO_FAR.match(text, at)
    answer = _meant(said[1]).strip() if said else ""
    return Finding(True, answer or CUT_OFF, tuple(unique), cut=True) if unique else None


def _meant(written: str) -> str:
    """The string that this is inside of in JSON; as it stands where it is none."""
    try:
        meant: str = json.loads(f'"{written}"', strict=False)
    except ValueError:
        return written
    return meant.encode("utf-8", "ignore").decode("utf-8")  # half a pair of surrogates is not a character


def _marked(text: str) -> list[str]:
    return [next(part for part in match.groups() if part).strip() for match in _IN_MARKS.finditer(text)]


def _unwrapped(quote: str) -> str:
    """Models like to put a quoted line into marks once more."""
    quote = quote.strip()
    if len(quote) > 2 and (quote[0], quote[-1]) in (("“", "”"), ("`", "`")):
        return quote[1:-1]
    return quote


def _share(digits: str, *, percent: bool) -> float | None:
    value = float(digits) / (100 if percent or float(digits) > 1 else 1)
    return value if 0 <= value <= 1 else None
