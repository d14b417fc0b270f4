"""What became of a tool's output: one of four, each with the `content` that the model should get."""

from dataclasses import dataclass
from typing import Any

from holdall.values.errors import HoldallError
from holdall.values.facts import Facts


@dataclass(frozen=True, slots=True)
class Inline:
    """It fits: `content` is the object that came, untouched (a stream is joined, an error is its message)."""

    __match_args__ = ("content",)

    content: Any
    is_error: bool = False
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """It is stored whole: `content` has a notice in its place, or is the output itself where it was to be stored."""

    __match_args__ = ("artifact",)

    content: Any
    artifact: Facts
    others: tuple[Facts, ...] = ()  # images, blobs and structured content that are kept by themselves
    is_error: bool = False

    @property
    def handle(self) -> str:
        return self.artifact.handle


@dataclass(frozen=True, slots=True)
class Running:
    """It goes on in the background: what it has written so far can be read under the handle."""

    __match_args__ = ("handle",)

    content: Any
    handle: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class Unkept:
    """It does not fit and is not stored: `content` is a part of it that says so, and `fault` says why."""

    __match_args__ = ("fault",)

    content: Any
    fault: HoldallError
    is_error: bool = False
    traceback: str = ""


Taken = Inline | Kept | Running | Unkept
