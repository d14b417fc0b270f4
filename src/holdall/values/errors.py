"""Every error that Holdall raises, for three readers: the caller, the model, the operator.

    HoldallError
    ├── UsageError                the request cannot be carried out as it was written   (exit code 2)
    │   ├── UnknownHandle       nothing is kept under that handle in this session
    │   ├── AmbiguousCallId     several outputs share that call id
    │   ├── BadRange            a range that is not one
    │   ├── BadPattern          a pattern that no engine here can run in linear time
    │   ├── BadQuery            SQL or a path that does not fit the data
    │   ├── BadMember           a part of a packed output that is not there, or cannot be unpacked
    │   ├── BadSetting          a setting of the wrong name, type or size
    │   ├── SessionClosed       a bag was used after its end
    │   ├── PathGiven           a path is to be kept, and not the file or its name
    │   ├── SessionForked       a bag was used in a process that was forked while it was open
    │   ├── NotReady            the tool still runs, and what was asked needs all of its output
    │   ├── CallFailed          the call failed, timed out or was cancelled, and left no output to give
    │   ├── TooLargeForRaw      the whole of an output was asked for, and it does not fit
    │   ├── AnswerTooLong       the least that could be answered does not fit into an answer
    │   ├── EndlessValue        a value whose parts are in it many times: written out, it would have no end
    │   ├── QueryMissing        an extraction without a question
    │   ├── NoModel             an extraction, and no model is configured for it
    │   ├── SessionLocked         another agent runs in this session
    │   ├── NoSuchModel         a model's name that says nothing, or whose file is not there
    │   ├── TooCostly           a question would take more calls, tokens or money than it may
    │   ├── ModelCallsDisabled        a real model was to be called where that is switched off
    │   ├── BadReference        an argument that names a kept output which cannot be put in its place
    │   ├── BadCall             a model called a tool that does not exist, or wrote arguments that cannot be read
    │   ├── BadServer           the configuration of an MCP server that cannot be one
    │   ├── NotTrusted          a file names what would run or be sent, and the user has not agreed to it
    │   ├── OutputInUse         an output that is to be removed is still being written
    │   ├── SessionExists       a bundle would be restored under a name that is taken
    │   └── MissingExtra        an optional package is not installed
    ├── NothingFound            the request was carried out and there is nothing       (exit code 1)
    │   └── AnchorNotFound      the text to slice around does not occur
    └── StoreFault              the disk, or something upstream, refused               (exit code 3)
        ├── StoreUnsafe         a folder that others could write to, or a link
        ├── StoreGone           the folder of the store went away
        ├── StoreFull           no space left
        ├── QuotaReached        a limit that the user set
        ├── NeverStored         outputs of this tool, or of this dialect, are not to be stored
        ├── OutputExpired       retention or its owner removed the bytes; the record says when
        ├── OutputDamaged       the stored bytes are not the bytes that came
        ├── OutputMissing       the file of an output was removed by hand
        ├── BundleRefused       a bundle that is damaged, cut short, or not what it says
        ├── WorkerFault         a helper process died, or ran out of time or memory
        │   └── OutOfTime       a call took longer than it may
        │       └── LookedTooLong an output could not be looked through for secrets in time
        ├── ModelFault          a language model did not answer
        │   ├── ModelBusy       a rate limit, an outage, a time-out: worth another try
        │   ├── ModelDenied     the key, the account or the name of the model is refused: no other try helps
        │   └── ModelOverflow   the request is longer than the model can take
        │       └── TooLongForModel  and could not be made shorter
        └── UpstreamFault       an MCP server could not be reached, broke off, or gave what is not an answer
            ├── UpstreamTimeout it has not answered in time
            └── UpstreamRefused it answered with an error of the protocol

A message says what happened and what to do next. It never holds the content of an output.
"""

from collections.abc import Callable, Sequence
from typing import Any

MAKE_ROOM = "make room with `holdall rm` or `holdall gc --older-than 7d`"

# What came from outside, as a message of one line may show it.


def flat(text: str) -> str:
    """On one line, its backslashes told from those of an escape."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")


def short(value: object) -> str:
    """As Python writes it, 80 signs at most."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        text = "a number that is too long to show"
    return text if len(text) <= 80 else text[:77] + "..."


class HoldallError(Exception):
    """The root of the tree."""


# What `--json` prints as `error` is a contract: classes that were renamed keep the name of version 0.1 there.
_JSON_NAMES = {
    "ModelCallsDisabled": "RealCallsOff",  # alias
    "SessionLocked": "SessionHeld",  # alias
    "UpstreamTimeout": "UpstreamOverdue",  # alias
    "UsageError": "WrongUse",  # alias
}


def json_name(error: BaseException) -> str:
    """The name of an error in `--json`."""
    name = type(error).__name__
    return _JSON_NAMES.get(name, name)


class UsageError(HoldallError):
    """The request cannot be carried out as it was written."""


class NothingFound(HoldallError):
    """The request was carried out; there is nothing to show."""


class StoreFault(HoldallError):
    """The disk, or something upstream, refused."""


class UnknownHandle(UsageError):
    """Foreign handles, old handles and invalid ones all get this answer."""

    def __init__(self, handle: str, *, session: str, known: Sequence[str] = ()) -> None:
        self.handle = handle
        self.session = session
        self.known = tuple(known)
        self.shown = flat(handle[:100])
        shown = ", ".join(known[:8]) + (f" and {len(known) - 8} more" if len(known) > 8 else "")
        where = f' in session "{session}"' if session else ""
        super().__init__(
            f'no output is kept under "{flat(handle[:100])}"{where}. '
            f"Kept: {shown or 'nothing yet'}. (`holdall ls` lists them.)"
        )


class AmbiguousCallId(UsageError):
    """A call id that several outputs have."""

    def __init__(self, call_id: str, handles: Sequence[str]) -> None:
        self.call_id = call_id
        self.handles = tuple(handles)
        super().__init__(
            f'{len(handles)} outputs have the call id "{flat(call_id[:100])}". '
            f"Use one of their handles: {', '.join(handles[:8])}."
        )


class BadRange(UsageError):
    """A range that is not one; the message says what a range looks like."""


class BadPattern(UsageError):
    """A pattern that cannot run in linear time or means different things in different engines."""


class BadQuery(UsageError):
    """SQL, JSONPath or JSON Pointer that does not fit the data; the message names what does."""


class BadMember(UsageError):
    """A part of a packed output that is not there, or cannot be unpacked; the message says why."""


class BadSetting(UsageError):
    """A setting that is unknown, or a value that breaks its rule."""

    def __init__(self, key: str, value: object, rule: str, *, where: str = "") -> None:
        self.key = key
        self.value = value
        self.rule = rule
        place = f" in {where}" if where else ""
        super().__init__(f"setting {key!r}{place} is {short(value)}; {rule}")


class NotTrusted(UsageError):
    """Nothing of the file was run or sent; the message says what it names and how to agree. `reason` is short."""

    def __init__(self, message: str, reason: str = "") -> None:
        self.reason = reason or message
        super().__init__(message)


class MissingExtra(UsageError):
    """What was asked for needs an optional package."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package = package
        self.extra = extra
        super().__init__(f"{purpose} needs the package {package!r}. Install it with: pip install 'holdall[{extra}]'")


class NotReady(UsageError):
    """The output has not ended yet."""

    def __init__(self, handle: str) -> None:
        self.handle = handle
        super().__init__(f"output {handle} is still being written.")


class CallFailed(UsageError):
    """The call failed, timed out, was cancelled or interrupted, and there is no output that could be given instead."""

    def __init__(self, state: str, error: str, *, bytes: int = 0, tokens: int = 0, tool: str = "") -> None:
        self.state = state
        self.error = error
        self.bytes = bytes
        self.tokens = tokens
        self.tool = tool
        super().__init__(f"the call {state}: {error}")


class TooLargeForRaw(UsageError):
    """The whole was asked for, and does not fit."""

    def __init__(self, bytes: int, tokens: int) -> None:
        self.bytes = bytes
        self.tokens = tokens
        super().__init__(f"the whole output ({bytes:,} bytes, ~{tokens:,} tokens) does not fit; read a part of it.")


class AnswerTooLong(UsageError):
    """Even the shortest answer is over the limit of answers."""

    def __init__(self, tokens: int) -> None:
        super().__init__(
            f"the least that could be answered is longer than the {tokens:,} tokens that an answer may have. Ask for "
            "less: fewer columns, a shorter range, a count."
        )


class QueryMissing(UsageError):
    """An extraction without a question."""

    def __init__(self) -> None:
        super().__init__("an extraction needs a question.")


class NoModel(UsageError):
    """A question to a model, where none is configured."""

    def __init__(self, tool: str = "") -> None:
        self.tool = tool
        super().__init__("no model is configured for extraction.")
        # A note, for the traceback: the sentence also reaches models, which can do none of this.
        self.add_note("Name one: extract(…, model=…), Holdall.open(model=…), or Settings(extraction_model=…).")


class PathGiven(UsageError):
    """A path is to be kept: its name, or the file? It is not guessed."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{flat(path)} is a path. Pass the open file to keep its content, or str(path) for its name.")


class EndlessValue(UsageError):
    """A value that is small in memory and would have no end when it is written: its parts are in it many times."""

    def __init__(self, kind: str, values: int, written: int) -> None:
        much = f"{written:,}" if written < 10**18 else "more than 10**18"
        super().__init__(
            f"a value of type {flat(kind[:60])} repeats its parts: of {values:,} values in it JSON would have {much}. "
            "Return it without references to the same part, such as aliases of YAML."
        )


class SessionForked(UsageError):
    """A bag, or a pool of them, was used in a process that was forked while it was open."""

    def __init__(self) -> None:
        super().__init__(
            "this session was opened before a fork. Open it again in this process: Holdall.open(session=…)."
        )


class SessionClosed(UsageError):
    """A bag, or a pool of them, was used after its end."""

    def __init__(self, *, pool: bool = False) -> None:
        alone = "this session was closed. Open it again: Holdall.open(session=…) with the same name."
        super().__init__("these sessions were closed. Open them again: Sessions.open(…)." if pool else alone)


class SessionLocked(UsageError):
    """Another agent holds the transcript of the session."""

    def __init__(self, holder: str) -> None:
        self.holder = flat(holder)
        super().__init__(f"another agent runs in this session: {self.holder or 'holder unknown'}.")


class NoSuchModel(UsageError):
    """The message names what was given, and the forms that there are."""


class TooCostly(UsageError):
    """The message names the ceiling, what it would take, and how to raise it or to ask for less."""

    def __init__(self, message: str, *, tool: str = "") -> None:
        self.tool = tool
        super().__init__(message)


class ModelCallsDisabled(UsageError):
    """HOLDALL_REAL_MODELS=off, and a real model was asked."""

    def __init__(self, model: str) -> None:
        super().__init__(f"a call of {model} was refused: real models are switched off here (HOLDALL_REAL_MODELS=off).")


class BadReference(UsageError):
    """The message names the argument, and what a reference looks like."""


class BadServer(UsageError):
    """Names the place and the rule, and never the value: it may be a password."""

    def __init__(self, where: str, key: str, rule: str, *, near: str = "") -> None:
        self.key = key
        self.rule = rule
        hint = f" Did you mean {near!r}?" if near else ""
        super().__init__(f"{flat(where[:300])}: {flat(key[:200])} {rule}.{hint}")


class OutputInUse(UsageError):
    """An output that is still being written is not removed."""

    def __init__(self, handle: str) -> None:
        self.handle = handle
        super().__init__(
            f"output {handle} is still being written; nothing was removed. "
            f"End it first (`holdall stop {handle}`) or wait for it (`holdall wait {handle}`)."
        )


class SessionExists(UsageError):
    """The message names the session that is there, and the way out."""


class AnchorNotFound(NothingFound):
    """`slice` did not find its anchor in these bytes of an output."""

    def __init__(self, message: str = "", *, handle: str = "", scanned: int = 0) -> None:
        super().__init__(message or "Anchor not found in content")
        self.handle = handle
        self.scanned = scanned


class StoreUnsafe(StoreFault):
    """The folder is a link, belongs to somebody else, or can be written by others."""


class StoreGone(StoreFault):
    """The folder of the store was removed or replaced while it was in use."""


class StoreFull(StoreFault):
    """The disk is full; nothing of the refused output is visible."""


class QuotaReached(StoreFault):
    """A quota that the user set would be exceeded."""


class NeverStored(StoreFault):
    """The tool, or the dialect, wants nothing stored."""

    def __init__(self, tool: str, *, by_dialect: bool = False) -> None:
        self.tool = tool
        whose = "in this dialect nothing is" if by_dialect else f"outputs of {flat(tool[:60]) or 'this tool'} are not"
        super().__init__(f"{whose} to be stored")


TOOL_SAID_FAILED = "the tool said that it failed"  # of an output in the background: an error was its tool's result
REMOVED = "removed on request"  # the rule by which an output went that its owner removed


class OutputExpired(StoreFault):
    """The bytes are gone by the rule of retention, or because their owner removed them; or their time is over."""

    def __init__(self, handle: str, when: str, rule: str, *, removed: bool = True) -> None:
        self.handle = handle
        self.when = when
        self.rule = rule
        if rule == REMOVED:
            super().__init__(f"output {handle} was removed on request on {when}: its bytes are gone.")
            return
        how = f"expired: its bytes were removed on {when}" if removed else f"expired on {when}"
        super().__init__(f"output {handle} {how} ({rule}).")


class OutputDamaged(StoreFault):
    """Stored bytes are not as they were written. `behind`: the first byte after them, where that is known."""

    def __init__(self, handle: str, detail: str, behind: int | None = None) -> None:
        self.handle = handle
        self.detail = detail
        self.behind = behind
        others = "" if behind is None else ": those before and behind them can be read by ranges of bytes"
        super().__init__(
            f"output {handle} is damaged: {detail}. The damaged bytes are not shown{others}; "
            "`holdall verify` lists what is damaged."
        )


class OutputMissing(StoreFault):
    """Somebody removed the bytes by hand."""

    def __init__(self, handle: str) -> None:
        self.handle = handle
        super().__init__(f"the stored bytes of output {handle} are gone: its file was removed from the store by hand.")


class BundleRefused(StoreFault):
    """The message says why, and then what to do. Nothing of the bundle is in the store."""

    def __init__(self, why: str, then: str = "Nothing was restored: copy or export it again.") -> None:
        super().__init__(f"{why.rstrip('.')}. {then}")


class WorkerFault(StoreFault):
    """A helper process died, or ran out of time or memory; the message says which."""


class OutOfTime(WorkerFault):
    """A call took longer than it may, or was cancelled."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"the call was stopped after {seconds:g} s, its limit. Ask for a smaller part.")


class LookedTooLong(OutOfTime):
    """An output could not be looked through for secrets in the time that ten times as much would take."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.args = (f"looking through it for secrets took over {max(0.0, seconds):.0f} s",)


class ModelFault(StoreFault):
    """The message says what the provider said, in one line. `is_foreign`: no word of it need be ours."""

    is_foreign = False


class ModelBusy(ModelFault):
    """`retry_after` is in seconds, where the provider named it."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class ModelDenied(ModelFault):
    """Whatever is asked next will be refused, too."""


class ModelOverflow(ModelFault):
    """The request is longer than the model can take."""


_WORDS = 60  # characters of a server's own, in a sentence of ours


class UpstreamFault(StoreFault):
    """`said` is the end of what the server wrote beside its messages, on one line and without its secrets.

    A model reads the message: of those words it has a few, and they cannot end the quotes that they are in.
    """

    def __init__(self, server: str, what: str, *, advice: str = "", said: str = "") -> None:
        self.server = server
        self.what = what
        self.advice = advice
        self.said = said
        last = said if len(said) <= _WORDS else f"…{said[1 - _WORDS :]}"
        words = f' It last wrote: "{last.replace(chr(34), chr(39))}".' if said else ""
        super().__init__(f'MCP server "{flat(server[:100])}" {what}.{words}{" " + advice if advice else ""}')

    def mask(self, masks: Callable[[Any], Any] | None) -> "UpstreamFault":
        """The same, with the secrets masked in what the server wrote: whose call it wrote them for is not known."""
        if masks is not None and self.said:
            UpstreamFault.__init__(self, self.server, self.what, advice=self.advice, said=str(masks(self.said)))
        return self


class UpstreamTimeout(UpstreamFault):
    """The server was sent a cancellation; what it has done by then is unknown."""


class UpstreamRefused(UpstreamFault):
    """`code`, `reason` and `data` are as the server sent them; the message shows the beginning of the reason."""

    def __init__(self, server: str, what: str, *, code: int, reason: str, data: object = None) -> None:
        self.code = code
        self.reason = reason
        self.data = data
        super().__init__(server, what)


def _recovery(rounds: int) -> str:
    if not rounds:
        return "nothing in it can be made shorter"
    return f"{rounds} round{'' if rounds == 1 else 's'} of recovery did not make it fit"


class TooLongForModel(ModelOverflow):
    """Recovery did not make the conversation fit."""

    def __init__(self, rounds: int, said: str) -> None:
        super().__init__(
            f"the conversation is too long for the model, and {_recovery(rounds)}: {said}. "
            "Nothing is lost: use a model with a larger window, and resume the session."
        )


class BadCall(UsageError):
    """A model called a tool that does not exist, or wrote arguments that cannot be read: it gets this as the result."""


class ToolRaised(RuntimeError):
    """A tool raised what would end the program, or what no future can carry; it is the cause of this."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(f"the tool raised {type(error).__name__}: {error}".removesuffix(": "))
        self.__cause__ = error
