"""Scripted models that extract: each reads the prompt that it is given as a real one would."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import User

Find = Callable[[str], "Answer | None"]
_FENCED = re.compile(r"^(DOCUMENT CHUNK|CHUNK OUTPUTS)\n<([0-9a-f]+)>\n(.*?)\n</\2>", re.DOTALL)
_NONCE = re.compile(r"<ai-agent-([0-9a-f]{32})-FINAL")


@dataclass(frozen=True)
class Answer:
    text: str
    quotes: Sequence[str] = ()
    confidence: float | None = 0.9


def document_of(request: Request) -> str:
    """What stands between the fences."""
    asked = next(message.text for message in reversed(request.messages) if isinstance(message, User))
    fenced = _FENCED.search(asked)
    assert fenced is not None, asked[:200]
    return fenced[3]


def is_reduce(request: Request) -> bool:
    return request.messages[-1].text.startswith("CHUNK OUTPUTS")


def nonce_of(request: Request) -> str:
    found = _NONCE.findall("\n".join(message.text for message in request.messages))
    return found[-1] if found else ""


def said(request: Request, answer: Answer | None) -> str:
    """In the form that the request asks for."""
    if request.schema is not None:
        given = answer or Answer("nothing like that here")
        return json.dumps(
            {"found": answer is not None, "quotes": list(given.quotes) if answer else [], "answer": given.text,
             "confidence": given.confidence if given.confidence is not None else 0}
        )  # fmt: skip
    nonce = nonce_of(request)
    if answer is None:
        body = "NO RELEVANT DATA FOUND\nnothing like that here"
    else:
        quotes = "".join(f"\n> {quote}" for quote in answer.quotes)
        sure = "" if answer.confidence is None else f"\nConfidence: {answer.confidence}"
        body = f"{answer.text}{quotes}{sure}"
    return f'Thinking first.\n<ai-agent-{nonce}-FINAL format="text">\n{body}\n</ai-agent-{nonce}-FINAL>'


def finding(find: Find, *, summed: Answer | None = None, **options: Any) -> ScriptedModel:
    """A model that answers each chunk by `find`, and sums up with `summed`, or with all that it was told."""

    def answer(request: Request) -> str:
        if is_reduce(request):
            return said(request, summed or Answer(document_of(request)))
        return said(request, find(document_of(request)))

    given: dict[str, Any] = {"window": 8000} | options
    return ScriptedModel(answer, **given)


def quoting(pattern: str) -> Find:
    """Finds every match of `pattern`, and quotes it."""

    def find(text: str) -> Answer | None:
        quotes = [match[0] for match in re.finditer(pattern, text)]
        return Answer(f"found {len(quotes)}", quotes) if quotes else None

    return find
