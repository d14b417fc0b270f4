"""Holdall keeps every tool output of an LLM agent whole and hands the model a handle.

    from holdall import Holdall

    async with Holdall.open(session="s1") as bag:
        kept = await bag.keep(output, tool="fetch")
        await bag.grep(kept.handle, "ERROR")

The public surface is `__all__`. Each name is imported on first use, so `import holdall` costs nothing.
"""

import gc
import importlib

TYPE_CHECKING = False  # type checkers know the name; `typing` takes longer to import than this package
if TYPE_CHECKING:
    from typing import Any

    from holdall.bag import Command, Holdall
    from holdall.bag.sessions import Sessions
    from holdall.bag.turn import Pending, Turn
    from holdall.llm.protocol import Model, Request
    from holdall.llm.scripted import ScriptedModel
    from holdall.policy.decide import Decision, Fits, Keep, Limits, decide
    from holdall.policy.folds import Counters, Coverage
    from holdall.policy.route import Ceiling, Forecast
    from holdall.store.memory import MemoryStore
    from holdall.store.protocol import OutputStore, Quota, Removal
    from holdall.text.tokens import Tokenizer
    from holdall.values.answers import (
        Answer,
        Change,
        Difference,
        Found,
        Group,
        Match,
        Node,
        Nodes,
        Passage,
        Side,
        Table,
    )
    from holdall.values.chat import Assistant, Message, Reply, System, ToolCall, ToolResult, Usage, User
    from holdall.values.errors import (
        AmbiguousCallId,
        AnchorNotFound,
        AnswerTooLong,
        BadMember,
        BadPattern,
        BadQuery,
        BadRange,
        BadReference,
        BadSetting,
        CallFailed,
        HoldallError,
        MissingExtra,
        ModelBusy,
        ModelCallsDisabled,
        ModelDenied,
        ModelFault,
        ModelOverflow,
        NeverStored,
        NoModel,
        NoSuchModel,
        NothingFound,
        NotReady,
        OutOfTime,
        OutputDamaged,
        OutputExpired,
        OutputInUse,
        OutputMissing,
        PathGiven,
        QueryMissing,
        QuotaReached,
        SessionClosed,
        SessionForked,
        SessionLocked,
        StoreFault,
        StoreFull,
        StoreGone,
        StoreUnsafe,
        TooCostly,
        TooLargeForRaw,
        TooLongForModel,
        UnknownHandle,
        UpstreamFault,
        UpstreamRefused,
        UpstreamTimeout,
        UsageError,
        WorkerFault,
    )
    from holdall.values.events import Event
    from holdall.values.extraction import Extraction, FailedChunk, Snippet
    from holdall.values.outputs import Ended, Facts, Inline, Kept, Measure, Origin, Running, Taken, Unkept
    from holdall.values.retention import Retention
    from holdall.values.settings import Settings, ToolPolicy
    from holdall.values.spans import Span, Totals
    from holdall.wire.answers import Waited
    from holdall.wire.dialect import Cut, Dialect, View
    from holdall.wire.reference import context_ref, function_call_record
    from holdall.wire.tool import Ask, Tool, ToolSpec

__version__ = "0.1.0"

_HOMES = {
    "holdall.bag": ("Command", "Holdall"),
    "holdall.bag.sessions": ("Sessions",),
    "holdall.bag.turn": ("Pending", "Turn"),
    "holdall.llm.protocol": ("Model", "Request"),
    "holdall.llm.scripted": ("ScriptedModel",),
    "holdall.policy.route": ("Ceiling", "Forecast"),
    "holdall.policy.decide": ("Decision", "Fits", "Keep", "Limits", "decide"),
    "holdall.policy.folds": ("Counters", "Coverage"),
    "holdall.values.retention": ("Retention",),
    "holdall.store.memory": ("MemoryStore",),
    "holdall.store.protocol": ("OutputStore", "Quota", "Removal"),
    "holdall.text.tokens": ("Tokenizer",),
    "holdall.values.answers": (
        "Answer", "Change", "Difference", "Found", "Group", "Match", "Node", "Nodes", "Passage", "Side", "Table",
    ),
    "holdall.values.chat": ("Message", "Reply", "ToolResult", "Assistant", "System", "ToolCall", "Usage", "User"),
    "holdall.values.errors": (
        "NoSuchModel", "ModelCallsDisabled", "SessionClosed", "PathGiven", "SessionForked", "SessionLocked",
        "TooCostly",
        "AmbiguousCallId", "AnchorNotFound", "AnswerTooLong", "BadPattern", "BadQuery", "BadRange", "BadReference",
        "BadSetting", "CallFailed", "HoldallError", "MissingExtra", "NeverStored", "NoModel", "NotReady",
        "NothingFound", "OutputDamaged", "OutputExpired", "OutputMissing", "QueryMissing", "QuotaReached", "StoreFault",
        "StoreFull", "StoreGone", "StoreUnsafe", "TooLargeForRaw", "UnknownHandle", "WorkerFault", "UsageError",
        "ModelBusy", "ModelDenied", "ModelFault", "ModelOverflow", "TooLongForModel", "UpstreamFault",
        "UpstreamTimeout", "UpstreamRefused", "BadMember", "OutOfTime", "OutputInUse",
    ),
    "holdall.values.events": ("Event",),
    "holdall.values.extraction": ("Extraction", "FailedChunk", "Snippet"),
    "holdall.values.outputs": ("Ended", "Facts", "Inline", "Kept", "Measure", "Origin", "Running", "Taken", "Unkept"),
    "holdall.values.settings": ("Settings", "ToolPolicy"),
    "holdall.values.spans": ("Span", "Totals"),
    "holdall.wire.answers": ("Waited",),
    "holdall.wire.dialect": ("Cut", "Dialect", "View"),
    "holdall.wire.reference": ("context_ref", "function_call_record"),
    "holdall.wire.tool": ("Ask", "Tool", "ToolSpec"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
# Names of version 0.1 that have another one now; they are not in `__all__`.
_RENAMED = {
    "RealCallsOff": "ModelCallsDisabled",  # alias
    "Returned": "ToolResult",  # alias
    "Said": "Assistant",  # alias
    "SessionHeld": "SessionLocked",  # alias
    "UpstreamOverdue": "UpstreamTimeout",  # alias
    "WrongUse": "UsageError",  # alias
}

__all__ = [
    "AmbiguousCallId",
    "AnchorNotFound",
    "Answer",
    "AnswerTooLong",
    "Ask",
    "Assistant",
    "BadMember",
    "BadPattern",
    "BadQuery",
    "BadRange",
    "BadReference",
    "BadSetting",
    "CallFailed",
    "Ceiling",
    "Change",
    "Command",
    "Counters",
    "Coverage",
    "Cut",
    "Decision",
    "Dialect",
    "Difference",
    "Ended",
    "Event",
    "Extraction",
    "Facts",
    "FailedChunk",
    "Fits",
    "Forecast",
    "Found",
    "Group",
    "Holdall",
    "HoldallError",
    "Inline",
    "Keep",
    "Kept",
    "Limits",
    "Match",
    "Measure",
    "MemoryStore",
    "Message",
    "MissingExtra",
    "Model",
    "ModelBusy",
    "ModelCallsDisabled",
    "ModelDenied",
    "ModelFault",
    "ModelOverflow",
    "NeverStored",
    "NoModel",
    "NoSuchModel",
    "Node",
    "Nodes",
    "NotReady",
    "NothingFound",
    "Origin",
    "OutOfTime",
    "OutputDamaged",
    "OutputExpired",
    "OutputInUse",
    "OutputMissing",
    "OutputStore",
    "Passage",
    "PathGiven",
    "Pending",
    "QueryMissing",
    "Quota",
    "QuotaReached",
    "Removal",
    "Reply",
    "Request",
    "Retention",
    "Running",
    "ScriptedModel",
    "SessionClosed",
    "SessionForked",
    "SessionLocked",
    "Sessions",
    "Settings",
    "Side",
    "Snippet",
    "Span",
    "StoreFault",
    "StoreFull",
    "StoreGone",
    "StoreUnsafe",
    "System",
    "Table",
    "Taken",
    "Tokenizer",
    "TooCostly",
    "TooLargeForRaw",
    "TooLongForModel",
    "Tool",
    "ToolCall",
    "ToolPolicy",
    "ToolResult",
    "ToolSpec",
    "Totals",
    "Turn",
    "Unkept",
    "UnknownHandle",
    "UpstreamFault",
    "UpstreamRefused",
    "UpstreamTimeout",
    "Usage",
    "UsageError",
    "User",
    "View",
    "Waited",
    "WorkerFault",
    "context_ref",
    "decide",
    "function_call_record",
]


def __getattr__(name: str) -> "Any":
    current = _RENAMED.get(name, name)
    if current not in _HOME_OF:
        raise AttributeError(f"module 'holdall' has no attribute {name!r}")
    # Importing makes many objects and no rubbish: looking for it meanwhile took a tenth of the time.
    is_collecting = gc.isenabled()
    gc.disable()
    try:
        value = getattr(importlib.import_module(_HOME_OF[current]), current)
    finally:
        if is_collecting:
            gc.enable()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
