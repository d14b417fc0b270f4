"""google-re2, as far as Holdall uses it.

Pattern and text need not be of one type, unlike in `re`: the text alone decides what a match holds.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Generic, TypeVar

_Text = TypeVar("_Text", str, bytes, bytearray, memoryview)

class error(Exception): ...

class Options:
    class Encoding(Enum):
        UTF8 = 1
        LATIN1 = 2

    max_mem: int
    encoding: Encoding
    log_errors: bool
    longest_match: bool
    def __init__(self) -> None: ...

class _Match(Generic[_Text]):
    def __getitem__(self, group: int | str | bytes) -> _Text | None: ...
    # A group that took no part is at (-1, -1).
    def start(self, group: int = 0) -> int: ...
    def end(self, group: int = 0) -> int: ...
    def span(self, group: int = 0) -> tuple[int, int]: ...

class _Regexp:
    @property
    def pattern(self) -> str | bytes: ...
    @property
    def groups(self) -> int: ...
    def finditer(self, text: _Text, pos: int | None = None, endpos: int | None = None) -> Iterator[_Match[_Text]]: ...

class Set:
    """Several patterns searched for at once. `Match` gives the numbers of those that occur, in any order."""

    @classmethod
    def SearchSet(cls, options: Options | None = None) -> Set: ...
    def Add(self, pattern: str | bytes) -> int: ...
    def Compile(self) -> None: ...
    def Match(self, text: str | bytes) -> list[int] | None: ...

def compile(pattern: str | bytes, options: Options | None = None) -> _Regexp: ...
