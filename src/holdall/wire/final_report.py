"""The wrapper in which a model hands over its answer, and the reader of it.

The nonce is random for every call and occurs nowhere in what the model was given, so nothing in a document can pass
for the model's answer. Whatever stands before the wrapper, thinking above all, is not the answer.
"""

import re

_THINKING = re.compile(r"\s*<(think|thinking|thought|reasoning)>.*?</\1>", re.DOTALL | re.IGNORECASE)


def opening_tag(nonce: str) -> str:
    return f'<ai-agent-{nonce}-FINAL format="text">'


def closing_tag(nonce: str) -> str:
    return f"</ai-agent-{nonce}-FINAL>"


def report_in(text: str, nonce: str) -> str | None:
    """What stands in the last wrapper of `text`; None where there is none, or nothing in it.

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
