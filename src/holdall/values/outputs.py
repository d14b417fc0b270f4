"""What is known of an output: its facts, what became of it (`Taken`), and JSON that stays bytes because it is too
large to be read into objects. Frozen data; nothing here measures or decides.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from operator import attrgetter
from typing import Any, Literal, cast, get_args

from holdall.values.errors import REMOVED, TOOL_SAID_FAILED, HoldallError, UsageError
from holdall.values.handles import MEMBER, format_long
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.spans import Span

# JSON by its bytes: what is too large to be read into Python's objects, and a result that is passed on as it came.
#
# The store takes the bytes; code that shows it asks for the value.


@record(eq=False)
class LargeText:
    """A text by its bytes, which are valid UTF-8."""

    data: bytes

    def __str__(self) -> str:
        return self.data.decode()


@record(eq=False)
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


class RawResult(dict[str, Any]):
    """A result, and the bytes that it was read from: so that it can be passed on byte for byte.

    Numbers, escapes and names that occur twice are not what they were once they have been read and written.
    """

    def __init__(self, value: Mapping[str, Any], raw: bytes, beside: Mapping[str, Any] | None = None) -> None:
        super().__init__(value)
        self.raw = raw
        self.beside = beside or {}  # what else the result says, for its client

    def __setitem__(self, name: str, value: Any) -> None:
        self.raw = b""  # it is another one now
        super().__setitem__(name, value)


# What is known of an output: where it came from, what it measures, what became of it.
#
# These are the words of the record on disk. `to_json` and `from_json` are its only spelling.


Kind = str  # one of `formats.registry.FORMATS`; a record of a later version may have one that is not known here
State = Literal[
    "queued", "running", "ready", "failed", "cancelled", "timed out", "interrupted", "expired", "unreadable"
]
STATES: tuple[str, ...] = get_args(State)
RUNNING = ("running", "queued")
FAILED = ("failed", "timed out", "cancelled", "interrupted")  # those of a call that did not end well
UNTIMED = ("interrupted", "expired")  # when they ended is not known, only when that was noticed or they were removed
_KIND = lazy_pattern(r"[a-z][a-z0-9 _-]{0,39}")
_LATER = ("is_error", "traceback", "process", "process_mark", "surrogates", "masked", "read_as", "part_of")


@record
class Origin:
    """Who made an output. Every field comes from outside and is data, never a path."""

    tool: str = ""
    server: str = ""
    arguments: Any = None
    call_id: str = ""
    terminal: bool = False  # the output of a command: kept under terminal/ as a log
    is_error: bool = False  # the tool said that it failed, or raised
    process: int = 0  # that can be asked to end it, while it runs; it holds the file's lock for as long
    process_mark: str = ""  # which one that is: another machine or container has others with its number
    traceback: str = ""  # of what it raised: for people, never for a model
    masked: bool = False  # by the policy of its tool: what is packed in it is not opened, since that could not be
    read_as: str = ""  # the kind that its caller says it is, whatever it looks like
    part_of: str = ""  # a hash of the id of the call in whose result it was: the id itself leads to the text

    @classmethod
    def given(cls, tool: object, server: object, arguments: object, call_id: object) -> "Origin":
        """Of what a program says; None is nothing. Raises UsageError for what is no text."""
        said = {"tool": tool, "server": server, "call_id": call_id}
        for name, value in said.items():
            if not isinstance(value, str | None):
                raise UsageError(f"{name} must be text, not {type(value).__name__}.")
        return cls(**cast("dict[str, Any]", {name: value or "" for name, value in said.items()}), arguments=arguments)

    @property
    def prefix(self) -> str:
        """The server, where it is not said by the tool's name already."""
        return self.server if self.tool and self.server not in self.tool else ""


def why_interrupted(origin: Origin) -> str:
    """Of an output whose writer is gone. A command is a process of its own: nobody has ended it."""
    goes_on = "; its command may still run, or have done its work" if origin.terminal else ""
    return f"its writer ended before it did; what had been written is kept{goes_on}"


@record
class Measure:
    """What one pass over the bytes tells. `tokens` is an estimate unless `tokens_exact`."""

    bytes: int = 0
    chars: int = 0
    lines: int = 0
    longest_line: int = 0
    tokens: int = 0
    tokens_exact: bool = True
    tokenizer: str = ""
    sha256: str = ""
    kind: Kind = "text"
    utf8: bool = True
    notes: tuple[str, ...] = ()
    surrogates: str = ""  # lone ones that were replaced, and where, as `text.utf8.Surrogates` packs them


_NOTHING_YET = Measure()
_OF_ORIGIN: tuple[str, ...] = cast("Any", Origin).__slots__
_OF_MEASURE: tuple[str, ...] = cast("Any", Measure).__slots__
_ALL_OF_ORIGIN, _ALL_OF_MEASURE = attrgetter(*_OF_ORIGIN), attrgetter(*_OF_MEASURE)


@record
class Facts:
    """Everything about one kept output but its bytes."""

    handle: str
    id: str
    session: str
    created: float
    origin: Origin = field(default_factory=Origin)
    measure: Measure = _NOTHING_YET
    state: State = "ready"
    ended: float | None = None
    file: str = ""  # the name of its bytes inside the session's folder; identical outputs share one
    error: str = ""  # why it is not whole, in one line
    exit_code: int | None = None
    order: float = 0.0  # its place in lists where `created` would be wrong: the clock had gone back
    packed: Span | None = None  # of a member (`k3f9!a.log`): the bytes of the output that it was unpacked from

    @property
    def place(self) -> float:
        """Lists are in the order of these."""
        return self.order or self.created

    @property
    def long_handle(self) -> str:
        if not self.id:  # unreadable: its record would say
            return self.handle
        _, sign, member = self.handle.partition(MEMBER)
        return format_long(self.session, self.id) + sign + member

    @property
    def is_removed(self) -> bool:
        """Whether its owner removed it: a tombstone, as of an output that expired."""
        return self.state == "expired" and self.error == REMOVED

    @property
    def is_whole(self) -> bool:
        """Whether the tool's output is all there. A command that failed has still written all that it wrote, and an
        error that a tool gave as its result is that."""
        if self.state == "failed":
            return self.exit_code is not None or self.error == TOOL_SAID_FAILED
        return self.state == "ready"

    def to_json(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"handle": self.handle, "id": self.id, "session": self.session}
        flat |= zip(_OF_ORIGIN, _ALL_OF_ORIGIN(self.origin), strict=True)
        flat |= zip(_OF_MEASURE, _ALL_OF_MEASURE(self.measure), strict=True)
        flat["notes"] = list(self.measure.notes)
        for name in ("process_mark", "surrogates", "masked", "read_as", "part_of"):
            if not flat[name]:
                del flat[name]
        for name in ("state", "created", "ended", "file", "error", "exit_code"):
            flat[name] = getattr(self, name)
        return flat | {"order": self.order} if self.order else flat

    @staticmethod
    def from_json(flat: dict[str, Any]) -> "Facts":
        """Raises KeyError, TypeError, ValueError or OverflowError if `flat` is not what `to_json` wrote."""
        # `unreadable` is what we say of a record that cannot be read; none says it of itself.
        if not _KIND.fullmatch(flat["kind"]) or flat["state"] not in STATES or flat["state"] == "unreadable":
            raise ValueError("unknown kind or state")
        # Records from before there were such fields have none of them.
        flat = flat | {"notes": tuple(cast("list[str]", flat["notes"]))}
        origin = Origin(**{name: flat[name] for name in _OF_ORIGIN if name in flat or name not in _LATER})
        measure = Measure(**{name: flat[name] for name in _OF_MEASURE if name in flat or name not in _LATER})
        own = {
            n: flat[n] for n in ("handle", "id", "session", "created", "state", "ended", "file", "error", "exit_code")
        }
        return Facts(origin=origin, measure=measure, order=float(flat.get("order", 0.0)), **own)


# What became of a tool's output: one of four, each with the `content` that the model should get.


class _AsText:
    """`text`, for APIs that take a string and nothing else. The bag says what it is where `content` is no text."""

    __slots__ = ()
    content: Any
    as_text: str

    @property
    def text(self) -> str:
        """`content` as one string: a text is the same, a value is its JSON, blocks are joined by newlines.

        It says what of `content` it cannot hold: lone surrogates; bytes that are not UTF-8, and images, with the handle
        under which they are kept.
        """
        return self.content if isinstance(self.content, str) and not self.as_text else self.as_text


def _as_text() -> Any:
    return field(default="", repr=False, compare=False, kw_only=True)


@record
class Inline(_AsText):
    """It fits: `content` is the object that came, untouched (a stream is joined, an error is its message)."""

    __match_args__ = ("content",)

    content: Any
    is_error: bool = False
    traceback: str = ""
    as_text: str = _as_text()

    @property
    def handle(self) -> str:
        """Empty: nothing of it is kept."""
        return ""


@record
class Kept(_AsText):
    """It is stored whole: `content` has a notice in its place, or is the output itself where it was to be stored, or
    where only `text` has to do without it.
    """

    __match_args__ = ("artifact",)

    content: Any
    artifact: Facts
    others: tuple[Facts, ...] = ()  # images, blobs and structured content that are kept by themselves
    is_error: bool = False
    as_text: str = _as_text()

    @property
    def handle(self) -> str:
        return self.artifact.handle


@record
class Running(_AsText):
    """It continues in the background: what it has written so far can be read under the handle."""

    __match_args__ = ("handle",)

    content: Any
    handle: str
    is_error: bool = False
    as_text: str = _as_text()


@record
class Ended:
    """What a call returned before the clock, as it is: `race` gives this, and `take` decides what the model gets."""

    value: Any


@record
class Unkept(_AsText):
    """It does not fit and is not stored: `content` is a part of it that says so, and `fault` says why."""

    __match_args__ = ("fault",)

    content: Any
    fault: HoldallError
    is_error: bool = False
    traceback: str = ""
    as_text: str = _as_text()

    @property
    def handle(self) -> str:
        """Empty: nothing of it is kept."""
        return ""


Taken = Inline | Kept | Running | Unkept
