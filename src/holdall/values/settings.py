"""Every setting, once: its name, unit, default, range, what it is for, and the names it had elsewhere.

Frozen and checked on the way in. Where a value comes from (a file, the environment, a flag) belongs to `config`; what
it means is up to its reader.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, Literal, cast, get_args, get_origin

from holdall.values.errors import BadSetting
from holdall.values.record import record

KIB = 1024
MIB = 1024 * KIB

# Every dialect: its name, and where in `wire.dialects` it is. It is imported when it is used.
DIALECTS = {
    "holdall": "own:HOLDALL",
    "extract": "extract_dialect:EXTRACT",
    "refs": "refs:REFS",
    "async": "async_dialect:ASYNC",
    "clamp": "cutting:CLAMP",
    "legacy": "cutting:LEGACY",
}

# How the documents call the limits, for all tools and for one.
_ALSO_BYTES = ("toolResponseMaxBytes", "maxInlineBytes")
_ALSO_CHARS = ("maxInlineChars",)
_ALSO_TOKENS = ("asyncTokenThreshold",)
NOTICE_TOKENS = 250  # the default budget of a notice
SNIPPET_LINES, SNIPPET_BYTES = 40, 2048  # of each end in the dialect refs

# An agent's file, which may be part of a checkout, may tighten what the user has set and loosen none of it. Which way
# is stricter stands with each setting; `policy.setting_values.is_looser` compares. The others are free.
LESS = "less"  # less is stricter than what the user has set; no limit is the loosest
CEILING = "ceiling"  # the same, and the default counts as set: time, memory, cost
USER_ONLY = "user only"  # no file may set it
NO_YES, YES_NO = (False, None, True), (True, False)  # strictest first; what is not listed comes last


def _setting(
    default: Any,
    about: str,
    *,
    least: float | None = None,
    most: float | None = None,
    also: tuple[str, ...] = (),
    choices: Iterable[str] = (),
    stricter: Any = None,
) -> Any:
    """A number has a range. What else a value may be follows from the annotation, or from `choices`.

    `stricter` says what an agent's file may make of it.
    """
    told = {"about": about, "least": least, "most": most, "also": also, "choices": choices, "stricter": stricter}
    if default is dict:
        return field(default_factory=dict[str, Any], hash=False, metadata=told)
    return field(default=default, metadata=told)


def _limit(about: str, *also: str) -> Any:
    return _setting(None, about, least=1, most=2**40, also=also)


@record(kw_only=True)
class ToolPolicy:
    """What is different for one tool; None means as for all others."""

    max_inline_bytes: int | None = _limit("as the setting of that name", *_ALSO_BYTES)
    max_inline_chars: int | None = _limit("as the setting of that name", *_ALSO_CHARS)
    max_inline_lines: int | None = _limit("as the setting of that name")
    max_inline_tokens: int | None = _limit("as the setting of that name", *_ALSO_TOKENS)
    store: Literal["oversized", "always", "never"] = _setting(
        "oversized",
        "what is stored of its outputs: those that do not fit, all of them, or none (secrets)",
        stricter=("never", "oversized", "always"),
    )
    redact: bool = _setting(
        False, "mask what looks like a secret in what it gives, before it is shown or stored (the extra `redact`)",
        stricter=YES_NO,
    )  # fmt: skip
    never_async: bool = _setting(
        False, "its calls never go to the background (approvals, writes in order)", stricter=YES_NO
    )
    by_reference: bool | None = _setting(None, "whether its arguments may name kept outputs", stricter=NO_YES)

    def __post_init__(self) -> None:
        for one in fields(self):
            check(one, getattr(self, one.name), key=one.name)


@record(kw_only=True)
class Settings:
    """Every setting with its default and its rule. docs/settings.md says where values come from."""

    dialect: str = _setting(
        "holdall", "whose limits, texts and tools the model gets", choices=DIALECTS, stricter=("legacy",)
    )
    max_inline_bytes: int | None = _limit(
        "an output over this many bytes is kept, not shown; the dialect's own by default", *_ALSO_BYTES
    )
    max_inline_chars: int | None = _limit("the same in characters", *_ALSO_CHARS)
    max_inline_lines: int | None = _limit("the same in lines")
    max_inline_tokens: int | None = _limit("the same in tokens", *_ALSO_TOKENS)
    tokenizer: Literal["auto", "o200k", "estimate"] = _setting(
        "auto", "how tokens are counted: exactly with o200k (an extra), by an estimate, or as exactly as can be"
    )
    answer_max_bytes: int = _setting(16 * KIB, "the most that one answer of a verb holds", least=256, most=2**30)
    answer_max_tokens: int = _setting(4000, "the same in tokens", least=64, most=2**30)
    notice_max_tokens: int = _setting(
        NOTICE_TOKENS, "the most that a notice in place of an output takes, in tokens", least=150, most=100_000
    )
    unpack_max_bytes: int = _setting(
        256 * MIB, "the most that one member of a packed output is unpacked to", least=1, most=2**40, stricter=CEILING
    )
    difference_notices: bool = _setting(
        True,
        "the dialect `holdall` shows an output nearly like the last of the same tool and arguments as what differs",
    )
    snippet_lines: int = _setting(
        SNIPPET_LINES, "the most lines of each end of an output that the dialect `refs` shows", least=0, most=100_000
    )
    snippet_bytes: int = _setting(SNIPPET_BYTES, "the same in bytes", least=0, most=MIB)
    max_inline_blob_bytes: int = _setting(
        MIB, "an image, sound or other blob over this many bytes is kept, not shown", least=1, most=2**40
    )
    tools_listed: Literal["when-needed", "always"] = _setting(
        "when-needed", "when the tools for kept outputs are offered: once something is kept, or always"
    )
    plain_tool_names: bool = _setting(
        False, "the dialect `refs` names its tools with _ in place of dots, as agents and the gateway always do"
    )
    by_reference: bool = _setting(
        False, "whether an argument holdall:HANDLE of any tool is replaced by the kept output", stricter=NO_YES
    )
    reference_max_bytes: int = _setting(
        MIB, "the most that one such argument may bring in", least=1, most=2**40, stricter=CEILING
    )
    tools: Mapping[str, ToolPolicy] = _setting(dict, "a table for each tool that is treated differently")
    retention: str | None = _setting(
        None,
        "how long outputs are kept: a number of days, 'session' or 'keep'; 30 days by default, in the dialects extract "
        "and async for the session",
        also=("asyncToolTTL",),
        stricter=LESS,
    )
    store_dir: str = _setting(
        "", "the data folder; a folder of the user's own by default", also=("storeDir",), stricter=USER_ONLY
    )
    objects: str = _setting(
        "", "where the bytes go when the data is in PostgreSQL: s3://bucket/prefix, gs://…, az://…, file:///…",
        stricter=USER_ONLY,
    )  # fmt: skip
    principal: str = _setting(
        "", "whose sessions are seen in PostgreSQL; the database's user by default", stricter=USER_ONLY
    )
    cache_dir: str = _setting(
        "", "the folder for copies of objects; in the user's own cache by default", stricter=USER_ONLY
    )
    cache_bytes: int = _setting(
        4 * 1024 * MIB, "the most that copies of objects take on this host", least=64 * MIB, most=2**50,
        stricter=USER_ONLY,
    )  # fmt: skip
    quota_bytes: int | None = _setting(
        None, "refuse to keep more than this in the whole store", least=0, most=2**60, stricter=LESS
    )
    session_quota_bytes: int | None = _setting(
        None, "refuse to keep more than this in one session", least=0, most=2**60, stricter=LESS
    )
    grep_seconds: float = _setting(
        60.0, "the longest that one search or read may take", least=0.1, most=86_400, stricter=CEILING
    )
    query_seconds: float = _setting(
        60.0, "the longest that one query may take", least=0.1, most=86_400, stricter=CEILING
    )
    query_memory_bytes: int = _setting(
        1024 * MIB, "the memory that one query may use; its process takes up to 256 MiB more", least=64 * MIB,
        most=2**50, stricter=CEILING,
    )  # fmt: skip
    query_max_rows: int = _setting(1000, "the rows that one query answers at a time", least=1, most=1_000_000)
    http_max_body_bytes: int = _setting(
        4 * MIB, "the most that one request to a gateway over HTTP may send", least=1024, most=2**30, stricter=CEILING
    )
    server_max_bytes: int = _setting(
        256 * MIB,
        "the most that one message of an MCP server may have, unpacked",
        least=64 * KIB,
        most=2**40,
        stricter=CEILING,
    )
    async_enabled: bool = _setting(True, "whether a slow call may go on in the background", also=("async",))
    slow_after_seconds: float = _setting(
        5.0, "a call that takes longer goes on in the background", least=0, most=86_400, also=("asyncTimeoutSecs",)
    )
    tool_timeout_seconds: float = _setting(
        600.0, "the longest that a call may take, in the background too", least=0.001, most=31_536_000,
        also=("toolTimeout",), stricter=CEILING
    )  # fmt: skip
    max_background_calls: int = _setting(
        8, "calls that run at once; the others wait in a queue", least=1, most=10**6, stricter=CEILING
    )
    wait_max_seconds: float = _setting(
        60.0, "the longest that one wait for calls may take", least=0, most=86_400, stricter=CEILING
    )
    grace_seconds: float = _setting(
        5.0,
        "how long calls may go on when their session ends, before they are cancelled",
        least=0,
        most=86_400,
        stricter=CEILING,
    )

    model: str = _setting("", "the model of an agent (provider:name, openai:NAME@URL, gguf:PATH, scripted:FILE)")
    key_urls: str = _setting(
        "", "URLs, with spaces between them, that keys and variables may be sent to where a file names these URLs",
        stricter=USER_ONLY,
    )  # fmt: skip
    max_turns: int = _setting(
        30,
        "the turns that an agent may take; in the last one it must report",
        least=1,
        most=10**6,
        also=("maxTurns",),
        stricter=CEILING,
    )
    max_calls_per_turn: int = _setting(
        32,
        "the tool calls of one turn of an agent; more are refused one by one",
        least=1,
        most=10_000,
        stricter=CEILING,
    )
    max_agents: int = _setting(16, "the agents that one run may start in all", least=0, most=10_000, stricter=CEILING)
    max_agent_depth: int = _setting(3, "how deep agents may start agents", least=0, most=100, stricter=CEILING)
    window: int | None = _setting(
        None, "the context window of the agent's model in tokens, where it is not known", least=1000, most=10**9,
        also=("contextWindow",),
    )  # fmt: skip
    max_output: int | None = _setting(
        None, "the tokens of one reply of that model", least=16, most=10**8, also=("maxOutputTokens",)
    )
    extraction_model: str = _setting(
        "", "the model that answers questions about outputs (provider:name, gguf:PATH); the session's by default",
        also=("extractionModel",),
    )  # fmt: skip
    max_chunks: int = _setting(
        1, "an output that fits into so many chunks is read whole, by a model", least=1, most=10**6,
        also=("MAX_CHUNKS_FOR_FULL_MODE",),
    )  # fmt: skip
    chunk_overlap_percent: float | None = _setting(
        None, "how much of a chunk the next one repeats; 10 by default, in the dialect async 5", least=0, most=50,
        also=("overlapPercent",),
    )  # fmt: skip
    long_line_bytes: int = _setting(
        1000, "an output whose lines are longer than this on average is read whole, not searched", least=1, most=2**40,
        also=("avgLineBytesThreshold",),
    )  # fmt: skip
    extraction_calls: int = _setting(
        8, "calls of a model that one question makes at once", least=1, most=1000, stricter=CEILING
    )
    extraction_seconds: float | None = _setting(
        None, "the longest that one such call may take; 120 by default, 1800 for a model on this machine", least=0.01,
        most=86_400, stricter=LESS
    )  # fmt: skip
    extraction_max_calls: int = _setting(
        1000, "the calls that one question may make in all", least=1, most=10**6, stricter=CEILING
    )
    extraction_max_tokens: int = _setting(
        20_000_000, "the tokens that one question may take in all", least=1000, most=2**40, stricter=CEILING
    )
    extraction_max_cost: float = _setting(
        5.0,
        "what one question may cost, in US dollars, where the price is known",
        least=0,
        most=10**6,
        stricter=CEILING,
    )
    extraction_cache: Literal["session", "store", "off"] = _setting(
        "session",
        "where answers are looked up before a model is asked: in the session, in the whole store, nowhere",
        stricter=("off", "session", "store"),
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            check(one, getattr(self, one.name), key=one.name)
        # A copy: the caller cannot change them after the check.
        object.__setattr__(self, "tools", dict(self.tools))


def by_name(of: "type[Settings | ToolPolicy]" = Settings) -> Mapping[str, "Field[Any]"]:
    """Every accepted spelling, our own and the documents', to its field."""
    names: dict[str, Field[Any]] = {}
    for one in fields(of):
        names[one.name] = one
        for other in one.metadata["also"]:
            names[other] = one
    return names


@functools.cache
def kind_of(one: "Field[Any]") -> Any:
    """What its values are: str, int, float, bool or Mapping; of a setting with choices, these."""
    if one.metadata["choices"] or get_origin(one.type) is Literal:
        return one.metadata["choices"] or get_args(one.type)
    return get_origin(one.type) if get_origin(one.type) is Mapping else next(iter(get_args(one.type)), one.type)


def rule_of(one: "Field[Any]") -> str:
    """What a value must be, in words."""
    kind = kind_of(one)
    if kind in (int, float):
        noun = "a whole number" if kind is int else "a number"
        rule = f"{noun} from {one.metadata['least']:,} to {one.metadata['most']:,}"
    elif kind is Mapping:
        rule = "a table with a table for each tool"
    elif kind in (bool, str):
        rule = "true or false" if kind is bool else "text"
    else:
        rule = "one of " + ", ".join(kind)
    return f"it must be {rule}{', or left out' if one.default is None else ''}"


def check(one: "Field[Any]", value: object, *, key: str, where: str = "") -> None:
    """Refuse a value of the wrong type or size, by name and with the rule. True is not a number, NaN is none either."""
    if value is None and one.default is None:
        return
    kind = kind_of(one)
    if kind in (int, float):
        number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
        # NaN and the infinities are in no range.
        allowed = number and one.metadata["least"] <= cast("float", value) <= one.metadata["most"]
    elif kind is Mapping:
        allowed = _is_tables(value)
    elif kind in (bool, str):
        allowed = isinstance(value, kind)
    else:
        allowed = isinstance(value, str) and value in kind
    if not allowed:
        raise BadSetting(key, value, rule_of(one), where=where)


def _is_tables(value: object) -> bool:
    tables = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {0: 0}
    return all(isinstance(tool, str) and isinstance(policy, ToolPolicy) for tool, policy in tables.items())


def default_of(one: "Field[Any]") -> Any:
    return {} if one.default is MISSING else one.default
