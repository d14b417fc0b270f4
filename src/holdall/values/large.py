"""JSON by its bytes: what is too large to be read into Python's objects, and a result that is passed on as it came.

Where a result holds something large, whoever stores it takes the bytes; whoever has to show it asks for the value.
"""

import json
from collections.abc import Mapping
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


class AsCame(dict[str, Any]):
    """A result, and the bytes that it was read from: so that who passes it on unchanged passes on just these.

    Numbers, escapes and names that occur twice are not what they were once they have been read and written.
    """

    def __init__(self, value: Mapping[str, Any], raw: bytes) -> None:
        super().__init__(value)
        self.raw = raw

    def __setitem__(self, name: str, value: Any) -> None:
        self.raw = b""  # it is another one now
        super().__setitem__(name, value)
