"""Every setting, once: its name, unit, default, range, what it is for, and the names it had elsewhere.

Frozen and checked on the way in. Where a value comes from (a file, the environment, a flag) belongs to `config`; what
it means is up to its reader.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, field, fields
from typing import TYPE_CHECKING, Any, Literal, cast, get_args, get_origin

from holdall.values import retention
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
FIXED = "fixed"  # what the user has set is neither stricter nor looser than anything else
USER_ONLY = "user only"  # no file may set it
NO_YES, YES_NO = (False, None, True), (True, False)  # strictest first; what is not listed comes last


def _setting(
    default: Any,
    *,
    least: float | None = None,
    most: float | None = None,
    also: tuple[str, ...] = (),
    choices: Iterable[str] = (),
    stricter: Any = None,
    read: Callable[..., object] | None = None,
    rule: str = "text",
) -> Any:
    """What it is for is the text below it, for editors and the reference page alike. A number has a range; what else a
    value may be follows from the annotation, or from `choices`.

    `stricter` says what an agent's file may make of it. `read` refuses what a text must not be, `rule` says what it is.
    """
    told = {
        "least": least, "most": most, "also": also, "choices": choices, "stricter": stricter, "read": read,
        "rule": rule,
    }  # fmt: skip
    if default is dict:
        return field(default_factory=dict[str, Any], hash=False, metadata=told)
    return field(default=default, metadata=told)


def _limit(*also: str) -> Any:
    return _setting(None, least=1, most=2**40, also=also)


def _checked_names(cls: Any, *_: object, **given: object) -> Any:
    """As `__new__`: a name that is none is refused with the nearest, also where no file is read."""
    known: Mapping[str, object] = cls.__dataclass_fields__
    for name in given:
        if name not in known:
            import difflib  # noqa: PLC0415 - only for a name that is wrong

            near = difflib.get_close_matches(name, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"help({cls.__name__}) lists all of them."
            if cls is Settings and name in ToolPolicy.__dataclass_fields__:
                meant = f"did you mean tools={{NAME: ToolPolicy({name}=…)}}?"
            raise TypeError(f"{cls.__name__} has no setting {name!r}; {meant}")
    return object.__new__(cls)


@record(kw_only=True)
class ToolPolicy:
    """What is different for one tool; None means as for all others."""

    if not TYPE_CHECKING:
        __new__ = _checked_names

    max_inline_bytes: int | None = _limit(*_ALSO_BYTES)
    """As the setting of that name, for this tool."""
    max_inline_chars: int | None = _limit(*_ALSO_CHARS)
    """As the setting of that name, for this tool."""
    max_inline_lines: int | None = _limit()
    """As the setting of that name, for this tool."""
    max_inline_tokens: int | None = _limit(*_ALSO_TOKENS)
    """As the setting of that name, for this tool."""
    store: Literal["oversized", "always", "never"] = _setting("oversized", stricter=("never", "oversized", "always"))
    """What is stored of its outputs: those that do not fit, all of them, or none (secrets)."""
    redact: bool = _setting(False, stricter=YES_NO)
    """Mask what looks like a secret in what it gives, before it is shown or stored (the extra `redact`)."""
    never_async: bool = _setting(False, stricter=YES_NO)
    """Its calls never go to the background (approvals, writes in order)."""
    by_reference: bool | None = _setting(None, stricter=NO_YES)
    """Whether its arguments may name kept outputs."""

    def __post_init__(self) -> None:
        for one in fields(self):
            check(one, getattr(self, one.name), key=one.name)


@record(kw_only=True)
class Settings:
    """Every setting with its default and its rule. docs/settings.md says where values come from."""

    if not TYPE_CHECKING:
        __new__ = _checked_names

    dialect: str = _setting("holdall", choices=DIALECTS, stricter=FIXED)
    """Whose limits, texts and tools the model gets."""
    max_inline_bytes: int | None = _limit(*_ALSO_BYTES)
    """An output over this many bytes is kept, not shown; the dialect's own by default."""
    max_inline_chars: int | None = _limit(*_ALSO_CHARS)
    """An output over this many characters is kept, not shown; the dialect's own by default."""
    max_inline_lines: int | None = _limit()
    """An output over this many lines is kept, not shown; the dialect's own by default."""
    max_inline_tokens: int | None = _limit(*_ALSO_TOKENS)
    """An output over this many tokens is kept, not shown; the dialect's own by default."""
    tokenizer: Literal["auto", "o200k", "estimate"] = _setting("auto")
    """How tokens are counted: exactly with o200k (an extra), by an estimate, or as exactly as can be."""
    answer_max_bytes: int = _setting(16 * KIB, least=256, most=2**30)
    """The most bytes that one answer of a verb holds."""
    answer_max_tokens: int = _setting(4000, least=64, most=2**30)
    """The most tokens that one answer of a verb holds."""
    notice_max_tokens: int = _setting(NOTICE_TOKENS, least=150, most=100_000)
    """The most that a notice in place of an output takes, in tokens."""
    unpack_max_bytes: int = _setting(256 * MIB, least=1, most=2**40, stricter=CEILING)
    """The most that one member of a packed output is unpacked to."""
    difference_notices: bool = _setting(True)
    """The dialect `holdall` shows an output nearly like the last of the same tool and arguments as what differs."""
    snippet_lines: int = _setting(SNIPPET_LINES, least=0, most=100_000)
    """The most lines of each end of an output that the dialect `refs` shows."""
    snippet_bytes: int = _setting(SNIPPET_BYTES, least=0, most=MIB)
    """The most bytes of each end of an output that the dialect `refs` shows."""
    max_inline_blob_bytes: int = _setting(MIB, least=1, most=2**40)
    """An image, sound or other blob over this many bytes is kept, not shown."""
    tools_listed: Literal["when-needed", "always"] = _setting("when-needed")
    """When the tools for kept outputs are offered: once something is kept, or always."""
    plain_tool_names: bool = _setting(False)
    """The dialect `refs` names its tools with _ in place of dots, as agents and the gateway always do."""
    by_reference: bool = _setting(False, stricter=NO_YES)
    """Whether an argument holdall:HANDLE of any tool is replaced by the kept output."""
    reference_max_bytes: int = _setting(MIB, least=1, most=2**40, stricter=CEILING)
    """The most bytes that one argument holdall:HANDLE may bring in."""
    tools: Mapping[str, ToolPolicy] = _setting(dict)
    """A table for each tool that is treated differently."""
    retention: str | None = _setting(
        None, also=("asyncToolTTL",), stricter=LESS, read=retention.parse, rule=f"text: {retention.RULE}"
    )
    """How long outputs are kept: a number of days, 'session' or 'keep'; 30 days by default, in the dialects extract and
    async for the session.
    """
    store_dir: str = _setting("", also=("storeDir",), stricter=USER_ONLY)
    """The data folder; a folder of the user's own by default."""
    objects: str = _setting("", stricter=USER_ONLY)
    """Where the bytes go when the data is in PostgreSQL: s3://bucket/prefix, gs://…, az://…, file:///…."""
    principal: str = _setting("", stricter=USER_ONLY)
    """Whose sessions are seen in PostgreSQL; the database's user by default."""
    cache_dir: str = _setting("", stricter=USER_ONLY)
    """The folder for copies of objects; in the user's own cache by default."""
    cache_bytes: int = _setting(4 * 1024 * MIB, least=64 * MIB, most=2**50, stricter=USER_ONLY)
    """The most that copies of objects take on this host."""
    quota_bytes: int | None = _setting(None, least=0, most=2**60, stricter=LESS)
    """Refuse to keep more than this in the whole store."""
    session_quota_bytes: int | None = _setting(None, least=0, most=2**60, stricter=LESS)
    """Refuse to keep more than this in one session."""
    grep_seconds: float = _setting(60.0, least=0.1, most=86_400, stricter=CEILING)
    """The longest that one search or read may take."""
    query_seconds: float = _setting(60.0, least=0.1, most=86_400, stricter=CEILING)
    """The longest that one query may take."""
    query_memory_bytes: int = _setting(1024 * MIB, least=64 * MIB, most=2**50, stricter=CEILING)
    """The memory that one query may use; its process takes up to 256 MiB more."""
    query_max_rows: int = _setting(1000, least=1, most=1_000_000)
    """The rows that one query answers at a time."""
    http_max_body_bytes: int = _setting(4 * MIB, least=1024, most=2**30, stricter=CEILING)
    """The most that one request to a gateway over HTTP may send."""
    server_max_bytes: int = _setting(256 * MIB, least=64 * KIB, most=2**40, stricter=CEILING)
    """The most that a result of an MCP server may have, unpacked; all else of it at most 4 MiB."""
    async_enabled: bool = _setting(True, also=("async",))
    """Whether a slow call may go on in the background."""
    slow_after_seconds: float = _setting(5.0, least=0, most=86_400, also=("asyncTimeoutSecs",))
    """A call that takes longer goes on in the background."""
    tool_timeout_seconds: float = _setting(600.0, least=0.001, most=31_536_000, also=("toolTimeout",), stricter=CEILING)
    """The longest that a call may take, in the background too; not that of `holdall exec`."""
    max_background_calls: int = _setting(8, least=1, most=10**6, stricter=CEILING)
    """Calls that run at once; the others wait in a queue. Commands of `holdall exec` do not count."""
    wait_max_seconds: float = _setting(60.0, least=0, most=86_400, stricter=CEILING)
    """The longest that one wait for calls may take."""
    grace_seconds: float = _setting(5.0, least=0, most=86_400, stricter=CEILING)
    """How long calls may go on when their session ends, before they are cancelled."""
    model: str = _setting("")
    """The model of an agent (provider:name, openai:NAME@URL, gguf:PATH, scripted:FILE)."""
    key_urls: str = _setting("", stricter=USER_ONLY)
    """URLs, with spaces between them, that keys and variables may be sent to where a file names these URLs."""
    max_turns: int = _setting(30, least=1, most=10**6, also=("maxTurns",), stricter=CEILING)
    """The turns that an agent may take; in the last one it must report."""
    max_calls_per_turn: int = _setting(32, least=1, most=10_000, stricter=CEILING)
    """The tool calls of one turn of an agent; more are refused one by one."""
    max_agents: int = _setting(16, least=0, most=10_000, stricter=CEILING)
    """The agents that one run may start in all."""
    max_agent_depth: int = _setting(3, least=0, most=100, stricter=CEILING)
    """How deep agents may start agents."""
    window: int | None = _setting(None, least=1000, most=10**9, also=("contextWindow",))
    """The context window of the agent's model in tokens, where it is not known."""
    max_output: int | None = _setting(None, least=16, most=10**8, also=("maxOutputTokens",))
    """The tokens of one reply of the agent's model, where they are not known."""
    extraction_model: str = _setting("", also=("extractionModel",))
    """The model that answers questions about outputs (provider:name, gguf:PATH); the session's by default."""
    max_chunks: int = _setting(1, least=1, most=10**6, also=("MAX_CHUNKS_FOR_FULL_MODE",))
    """An output that fits into so many chunks is read whole, by a model."""
    chunk_overlap_percent: float | None = _setting(None, least=0, most=50, also=("overlapPercent",))
    """How much of a chunk the next one repeats; 10 by default, in the dialect async 5."""
    long_line_bytes: int = _setting(1000, least=1, most=2**40, also=("avgLineBytesThreshold",))
    """An output whose lines are longer than this on average is read whole, not searched."""
    extraction_calls: int = _setting(8, least=1, most=1000, stricter=CEILING)
    """Calls of a model that one question makes at once."""
    extraction_seconds: float | None = _setting(None, least=0.01, most=86_400, stricter=LESS)
    """The longest that one call of a model for a question may take; 120 by default, 1800 for a model on this machine.
    """
    extraction_max_calls: int = _setting(1000, least=1, most=10**6, stricter=CEILING)
    """The calls that one question may make in all."""
    extraction_max_tokens: int = _setting(20_000_000, least=1000, most=2**40, stricter=CEILING)
    """The tokens that one question may take in all."""
    extraction_max_cost: float = _setting(5.0, least=0, most=10**6, stricter=CEILING)
    """What one question may cost, in US dollars, where the price is known."""
    extraction_cache: Literal["session", "store", "off"] = _setting("session", stricter=("off", "session", "store"))
    """Where answers are looked up before a model is asked: in the session, in the whole store, nowhere."""

    def __post_init__(self) -> None:
        for one in fields(self):
            check(one, getattr(self, one.name), key=one.name)
        # A copy: the caller cannot change them after the check.
        object.__setattr__(self, "tools", dict(self.tools))


def texts_of_fields(of: type) -> dict[str, str]:
    """The text below each field of a class. Python does not keep it, so it is read from the source, as editors do."""
    import ast  # noqa: PLC0415 - only for who asks for help
    import inspect  # noqa: PLC0415
    import itertools  # noqa: PLC0415

    [declared] = ast.parse(inspect.cleandoc(inspect.getsource(of))).body
    found: dict[str, str] = {}
    for one, below in itertools.pairwise(cast("ast.ClassDef", declared).body):
        match one, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                found[name] = " ".join(text.split())
            case _:
                pass
    return found


class _Help:
    """The docstring of a class, with that of each of its fields, for `help()`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __get__(self, _instance: object, of: type) -> str:
        try:
            about = texts_of_fields(of)
        except OSError:  # the source is not here
            return self._text
        told = [
            f"    {one.name}: {about[one.name]} {rule_of(one).replace('it must', 'It must')}." for one in fields(of)
        ]
        return "\n".join([self._text, "", *told])


for _one in (Settings, ToolPolicy):
    setattr(_one, "__doc__", _Help(_one.__doc__ or ""))  # noqa: B010 - to a type checker it is a str


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
        rule = "a table with a table (in Python, a ToolPolicy) for each tool"
    elif kind in (bool, str):
        rule = "true or false" if kind is bool else one.metadata["rule"]
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
    if (read := one.metadata["read"]) is not None:
        read(value, key=key, where=where)


def _is_tables(value: object) -> bool:
    tables = cast("Mapping[object, object]", value) if isinstance(value, Mapping) else {0: 0}
    return all(isinstance(tool, str) and isinstance(policy, ToolPolicy) for tool, policy in tables.items())


def default_of(one: "Field[Any]") -> Any:
    return {} if one.default is MISSING else one.default
