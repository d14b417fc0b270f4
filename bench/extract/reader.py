"""A model that takes a fixed time and quotes what it was given, and says how much of the work was its own.

It reads the prompt as any model would. Every request is forgotten at once, so that what is measured is Holdall's.
"""

import json
import re
import time

from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Reply, Usage

QUOTES = 5
_MAP = "DOCUMENT CHUNK\n"
_DIGIT = re.compile(r"\d")


class Reader:
    """`changed` of its five quotes of a chunk are not as they are there. `own` is the processor time it took."""

    def __init__(self, *, window: int, latency: float = 0.0, changed: int = 0) -> None:
        self.own = 0.0
        self.reduced = 0  # calls that summed up
        self.model = ScriptedModel(self._answer, window=window, max_output=2_000, keeps_schema=True, latency=latency)
        self._changed = changed

    def _answer(self, request: Request) -> Reply:
        started = time.thread_time()
        self.model.requests.clear()
        text = request.messages[-1].text
        quotes = _quotes(text, self._changed) if text.startswith(_MAP) else []
        self.reduced += not quotes
        said = json.dumps({"found": True, "quotes": quotes, "answer": "It is there.", "confidence": 0.9})
        reply = Reply(said, usage=Usage(len(text) // 2, len(said) // 4))
        self.own += time.thread_time() - started
        return reply


def _quotes(text: str, changed: int) -> list[str]:
    """Lines from all over the chunk; in those that are changed, every digit is another one."""
    quotes: list[str] = []
    for number in range(QUOTES):
        start = text.find("\n", len(text) * (number + 1) // (QUOTES + 2)) + 1
        line = text[start : text.find("\n", start)][:200]
        quotes.append(_DIGIT.sub(lambda digit: str(9 - int(digit[0])), line) if number < changed else line)
    return quotes
