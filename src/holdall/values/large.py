"""What is too large to be read into Python's objects before it is known who needs it: a text, a JSON value, by bytes.

Where a result holds one of these, whoever stores it takes the bytes; whoever has to show it asks for the value.
"""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class LargeText:
    """A text by its bytes, which are valid UTF-8."""

    data: bytes

    def __str__(self) -> str:
        return self.data.decode()


@dataclass(frozen=True, slots=True, eq=False)
class LargeJson:
    """An object or an array of JSON by its bytes. Its strings and brackets are closed; no more is known of it."""

    data: bytes

    def value(self) -> Any:
        """What it says. Where it turns out to be no JSON, it is the text that came: nothing of it is lost."""
        text = self.data.decode("utf-8", "surrogateescape")
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
