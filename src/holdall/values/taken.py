"""What became of a tool's output: one of four, each with the `content` that the model should get."""

from dataclasses import dataclass
from typing import Any, ClassVar

from holdall.values.errors import HoldallError
from holdall.values.facts import Facts


@dataclass(frozen=True, slots=True, match_args=False)
class Inline:
    """It fits: `content` is the object that came, untouched (a stream is joined, an error is its message)."""

    content: Any
    is_error: bool = False
    traceback: str = ""
    __match_args__: ClassVar[tuple[str, ...]] = ("content",)


@dataclass(frozen=True, slots=True, match_args=False)
class Kept:
    """It is stored whole: `content` has a notice in its place, or is the output itself where it was to be stored."""

    content: Any
    artifact: Facts
    others: tuple[Facts, ...] = ()  # images, blobs and structured content that are kept by themselves
    is_error: bool = False
    __match_args__: ClassVar[tuple[str, ...]] = ("artifact",)

    @property
    def handle(self) -> str:
        return self.artifact.handle


@dataclass(frozen=True, slots=True, match_args=False)
class Running:
    """It goes on in the background: what it has written so far can be read under the handle."""

    content: Any
    handle: str
    is_error: bool = False
    __match_args__: ClassVar[tuple[str, ...]] = ("handle",)


@dataclass(frozen=True, slots=True, match_args=False)
class Unkept:
    """It does not fit and is not stored: `content` is a part of it that says so, and `fault` says why."""

    content: Any
    fault: HoldallError
    is_error: bool = False
    traceback: str = ""
    __match_args__: ClassVar[tuple[str, ...]] = ("fault",)


Taken = Inline | Kept | Running | Unkept
