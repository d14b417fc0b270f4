"""Holdall keeps every tool output of an LLM agent whole and hands the model a handle.

    from holdall import Holdall

    async with Holdall.open(session="s1") as bag:
        kept = await bag.keep(output, tool="fetch")
        await bag.grep(kept.handle, "ERROR")

What stands in `__all__` is the public surface; it is imported when it is first used, so that `import holdall` costs
nothing.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdall.bag import Holdall
    from holdall.policy.decide import Decision, Inline, Keep, decide
    from holdall.policy.limits import Limits
    from holdall.text.tokens import Tokenizer
    from holdall.values.answers import Found, Group, Match, Node, Nodes, Passage, Table
    from holdall.values.errors import (
        AmbiguousCallId,
        AnchorNotFound,
        BadPattern,
        BadQuery,
        BadRange,
        BadSetting,
        HoldallError,
        MissingExtra,
        NothingFound,
        OutputDamaged,
        OutputExpired,
        OutputMissing,
        QuotaReached,
        StoreFault,
        StoreFull,
        StoreGone,
        StoreUnsafe,
        UnknownHandle,
        WorkerFault,
        WrongUse,
    )
    from holdall.values.facts import Facts, Measure, Origin
    from holdall.values.settings import Settings
    from holdall.values.spans import Span, Totals

__version__ = "0.1.0"

_HOMES = {
    "holdall.bag": ("Holdall",),
    "holdall.policy.decide": ("Decision", "Inline", "Keep", "decide"),
    "holdall.policy.limits": ("Limits",),
    "holdall.text.tokens": ("Tokenizer",),
    "holdall.values.answers": ("Found", "Group", "Match", "Node", "Nodes", "Passage", "Table"),
    "holdall.values.errors": (
        "AmbiguousCallId", "AnchorNotFound", "BadPattern", "BadQuery", "BadRange", "BadSetting", "HoldallError",
        "MissingExtra", "NothingFound", "OutputDamaged", "OutputExpired", "OutputMissing", "QuotaReached", "StoreFault",
        "StoreFull", "StoreGone", "StoreUnsafe", "UnknownHandle", "WorkerFault", "WrongUse",
    ),
    "holdall.values.facts": ("Facts", "Measure", "Origin"),
    "holdall.values.settings": ("Settings",),
    "holdall.values.spans": ("Span", "Totals"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AmbiguousCallId",
    "AnchorNotFound",
    "BadPattern",
    "BadQuery",
    "BadRange",
    "BadSetting",
    "Decision",
    "Facts",
    "Found",
    "Group",
    "Holdall",
    "HoldallError",
    "Inline",
    "Keep",
    "Limits",
    "Match",
    "Measure",
    "MissingExtra",
    "Node",
    "Nodes",
    "NothingFound",
    "Origin",
    "OutputDamaged",
    "OutputExpired",
    "OutputMissing",
    "Passage",
    "QuotaReached",
    "Settings",
    "Span",
    "StoreFault",
    "StoreFull",
    "StoreGone",
    "StoreUnsafe",
    "Table",
    "Tokenizer",
    "Totals",
    "UnknownHandle",
    "WorkerFault",
    "WrongUse",
    "decide",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'holdall' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
