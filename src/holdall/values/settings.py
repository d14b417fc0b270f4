"""Every setting, once: its name, unit, default, range, what it is for, and the names it had elsewhere.

Frozen and checked on the way in. Where a value comes from (a file, the environment, a flag) is the business of
`config`; what it means is the business of whoever reads it.
"""

from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields
from typing import Any, Literal, cast, get_args

from holdall.values.errors import BadSetting
from holdall.values.record import record

KIB = 1024
MIB = 1024 * KIB

Dialect = Literal["holdall", "extract", "refs", "async", "clamp", "legacy"]
DIALECTS: tuple[str, ...] = get_args(Dialect)
TokenizerName = Literal["auto", "o200k", "estimate"]
Listed = Literal["when-needed", "always"]
Storing = Literal["oversized", "always", "never"]
Remembering = Literal["session", "store", "off"]
_CHOICES = {
    "dialect": DIALECTS,
    "tokenizer": get_args(TokenizerName),
    "tools_listed": get_args(Listed),
    "store": get_args(Storing),
    "extraction_cache": get_args(Remembering),
}
_SWITCHES = ("never_async", "by_reference", "async_enabled")

# How the documents call the limits, for all tools and for one.
_ALSO_BYTES = ("toolResponseMaxBytes", "maxInlineBytes")
_ALSO_CHARS = ("maxInlineChars",)
_ALSO_TOKENS = ("asyncTokenThreshold",)


def _setting(
    default: Any,
    about: str,
    *,
    least: float | None = None,
    most: float | None = None,
    also: tuple[str, ...] = (),
    whole: bool | None = None,
) -> Any:
    """`whole` says whether a number is a whole one, where the default does not."""
    whole = not isinstance(default, float) if whole is None else whole
    return field(default=default, metadata={"about": about, "least": least, "most": most, "also": also, "whole": whole})


def _limit(about: str, *also: str) -> Any:
    return _setting(None, about, least=1, most=2**40, also=also)


@record(kw_only=True)
class ToolPolicy:
    """What is different for one tool; None means as for all others."""

    max_inline_bytes: int | None = _limit("as the setting of that name", *_ALSO_BYTES)
    max_inline_chars: int | None = _limit("as the setting of that name", *_ALSO_CHARS)
    max_inline_lines: int | None = _limit("as the setting of that name")
    max_inline_tokens: int | None = _limit("as the setting of that name", *_ALSO_TOKENS)
    store: Storing = _setting(
        "oversized", "what is stored of its outputs: those that do not fit, all of them, or none (secrets)"
    )
    never_async: bool = _setting(False, "its calls never go to the background (approvals, writes in order)")
    by_reference: bool | None = _setting(None, "whether its arguments may name kept outputs")

    def __post_init__(self) -> None:
        for one in fields(self):
            check(one, getattr(self, one.name), key=one.name)


@record(kw_only=True)
class Settings:
    """Every setting with its default and its rule. docs/settings.md says where values come from."""

    dialect: Dialect = _setting("holdall", "whose limits, texts and tools the model gets")
    max_inline_bytes: int | None = _limit(
        "an output over this many bytes is kept, not shown; the dialect's own by default", *_ALSO_BYTES
    )
    max_inline_chars: int | None = _limit("the same in characters", *_ALSO_CHARS)
    max_inline_lines: int | None = _limit("the same in lines")
    max_inline_tokens: int | None = _limit("the same in tokens", *_ALSO_TOKENS)
    tokenizer: TokenizerName = _setting(
        "auto", "how tokens are counted: exactly with o200k (an extra), by an estimate, or as exactly as can be"
    )
    answer_max_bytes: int = _setting(16 * KIB, "the most that one answer of a verb holds", least=256, most=2**30)
    answer_max_tokens: int = _setting(4000, "the same in tokens", least=64, most=2**30)
    notice_max_tokens: int = _setting(
        500, "the most that a notice in place of an output takes, in tokens", least=150, most=100_000
    )
    max_inline_blob_bytes: int = _setting(
        MIB, "an image, sound or other blob over this many bytes is kept, not shown", least=1, most=2**40
    )
    tools_listed: Listed = _setting(
        "when-needed", "when the tools for kept outputs are offered: once something is kept, or always"
    )
    by_reference: bool = _setting(
        False, "whether an argument holdall:HANDLE of any tool is replaced by the kept output"
    )
    reference_max_bytes: int = _setting(MIB, "the most that one such argument may bring in", least=1, most=2**40)
    tools: Mapping[str, ToolPolicy] = field(
        default_factory=dict[str, ToolPolicy],
        hash=False,
        metadata={
            "about": "a table for each tool that is treated differently",
            "least": None,
            "most": None,
            "also": (),
            "whole": True,
        },
    )
    retention: str | None = _setting(
        None,
        "how long outputs are kept: a number of days, 'session' or 'keep'; 30 days by default, in the dialects extract "
        "and async for the session",
        also=("asyncToolTTL",),
    )
    store_dir: str = _setting("", "the data folder; a folder of the user's own by default", also=("storeDir",))
    quota_bytes: int | None = _setting(None, "refuse to keep more than this in the whole store", least=0, most=2**60)
    session_quota_bytes: int | None = _setting(
        None, "refuse to keep more than this in one session", least=0, most=2**60
    )
    grep_seconds: float = _setting(60.0, "the longest that one search may take", least=0.1, most=86_400)
    query_seconds: float = _setting(60.0, "the longest that one query may take", least=0.1, most=86_400)
    query_memory_bytes: int = _setting(1024 * MIB, "the memory that one query may use", least=64 * MIB, most=2**50)
    query_max_rows: int = _setting(1000, "the rows that one query answers at a time", least=1, most=1_000_000)
    async_enabled: bool = _setting(True, "whether a slow call may go on in the background", also=("async",))
    slow_after_seconds: float = _setting(
        5.0, "a call that takes longer goes on in the background", least=0, most=86_400, also=("asyncTimeoutSecs",)
    )
    tool_timeout_seconds: float = _setting(
        600.0, "the longest that a call may take, in the background too", least=0.001, most=31_536_000,
        also=("toolTimeout",),
    )  # fmt: skip
    max_background_calls: int = _setting(8, "calls that run at once; the others wait in a queue", least=1, most=10**6)
    wait_max_seconds: float = _setting(60.0, "the longest that one wait for calls may take", least=0, most=86_400)
    grace_seconds: float = _setting(
        5.0, "how long calls may go on when their session ends, before they are cancelled", least=0, most=86_400
    )

    model: str = _setting("", "the model of an agent (provider:name, openai:NAME@URL, gguf:PATH, scripted:FILE)")
    max_turns: int = _setting(
        30, "the turns that an agent may take; in the last one it must report", least=1, most=10**6, also=("maxTurns",)
    )
    max_calls_per_turn: int = _setting(
        32, "the tool calls of one turn of an agent; more are refused one by one", least=1, most=10_000
    )
    max_agents: int = _setting(16, "the agents that one run may start in all", least=0, most=10_000)
    max_agent_depth: int = _setting(3, "how deep agents may start agents", least=0, most=100)
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
        also=("overlapPercent",), whole=False,
    )  # fmt: skip
    long_line_bytes: int = _setting(
        1000, "an output whose lines are longer than this on average is read whole, not searched", least=1, most=2**40,
        also=("avgLineBytesThreshold",),
    )  # fmt: skip
    extraction_calls: int = _setting(8, "calls of a model that one question makes at once", least=1, most=1000)
    extraction_seconds: float | None = _setting(
        None, "the longest that one such call may take; 120 by default, 1800 for a model on this machine", least=0.01,
        most=86_400, whole=False,
    )  # fmt: skip
    extraction_max_calls: int = _setting(1000, "the calls that one question may make in all", least=1, most=10**6)
    extraction_max_tokens: int = _setting(
        20_000_000, "the tokens that one question may take in all", least=1000, most=2**40
    )
    extraction_max_cost: float = _setting(
        5.0, "what one question may cost, in US dollars, where the price is known", least=0, most=10**6
    )
    extraction_cache: Remembering = _setting(
        "session", "where answers are looked up before a model is asked: in the session, in the whole store, nowhere"
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            check(one, getattr(self, one.name), key=one.name)
        # A copy: whoever handed the tables in cannot change them past the check.
        object.__setattr__(self, "tools", dict(self.tools))


def by_name(of: "type[Settings | ToolPolicy]" = Settings) -> Mapping[str, "Field[Any]"]:
    """Every accepted spelling, our own and the documents', to its field."""
    names: dict[str, Field[Any]] = {}
    for one in fields(of):
        names[one.name] = one
        for other in one.metadata["also"]:
            names[other] = one
    return names


def rule_of(one: "Field[Any]") -> str:
    """What a value must be, in words."""
    least, most = one.metadata["least"], one.metadata["most"]
    nothing = ", or left out" if one.default is None else ""
    if one.name in _CHOICES:
        return "it must be one of " + ", ".join(_CHOICES[one.name])
    if one.name in _SWITCHES:
        return f"it must be true or false{nothing}"
    if one.name == "tools":
        return "it must be a table with a table for each tool"
    if least is None:
        return f"it must be text{nothing}"
    noun = "a whole number" if one.metadata["whole"] else "a number"
    return f"it must be {noun} from {least:,} to {most:,}{nothing}"


def check(one: "Field[Any]", value: object, *, key: str, where: str = "") -> None:
    """Refuse a value of the wrong type or size, by name and with the rule. True is not a number, NaN is none either."""
    if value is None and one.default is None:
        return
    least, most = one.metadata["least"], one.metadata["most"]
    if one.name in _SWITCHES:
        allowed = isinstance(value, bool)
    elif one.name == "tools":
        allowed = _is_tables(value)
    elif least is None:
        allowed = isinstance(value, str) and (one.name not in _CHOICES or value in _CHOICES[one.name])
    elif isinstance(value, bool) or not isinstance(value, int | float):
        allowed = False
    else:
        whole = isinstance(value, int) or not one.metadata["whole"]
        allowed = whole and least <= value <= most  # NaN and the infinities are in no range
    if not allowed:
        raise BadSetting(key, value, rule_of(one), where=where)


def _is_tables(value: object) -> bool:
    tables = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {0: 0}
    return all(isinstance(tool, str) and isinstance(policy, ToolPolicy) for tool, policy in tables.items())


def is_switch(one: "Field[Any]") -> bool:
    """Whether its values are true and false."""
    return one.name in _SWITCHES


def default_of(one: "Field[Any]") -> Any:
    return {} if one.default is MISSING else one.default
