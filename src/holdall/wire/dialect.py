"""A dialect: one exact set of limits, texts and tools that a model sees; and `View`, everything that a notice may tell
of one output, gathered before a word of it is written. Data and small pure functions, nothing else.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, Literal

from holdall.formats import Outline
from holdall.policy.decide import Limits
from holdall.text.escape import foreign, quoted, shell_quoted
from holdall.text.marks import Mark
from holdall.text.tokens import Estimate, Tokenizer
from holdall.text.utf8 import encode
from holdall.values.answers import Difference
from holdall.values.errors import HoldallError, UsageError
from holdall.values.extraction import Extraction
from holdall.values.outputs import Facts
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.settings import NOTICE_TOKENS, SNIPPET_BYTES, SNIPPET_LINES
from holdall.values.spans import Span
from holdall.wire.answers import Frame, Waited, our_wait, plain_refusal
from holdall.wire.extraction import Fits, own_answer
from holdall.wire.notes import without_mark
from holdall.wire.system_notice import StatusWords
from holdall.wire.tool import Ask, Tool, ToolSpec, tool_problem
from holdall.wire.verbs import VERBS

PREVIEW_BYTES = 4096  # how much of each end is enough to build a notice from


@record
class View:
    """`head` and `tail` are the first and last GLIMPSE bytes; `errors` are line numbers and lines."""

    facts: Facts
    head: bytes
    tail: bytes
    tag: str  # occurs in nothing that is shown
    outline: Outline | None = None
    errors: tuple[tuple[int, str], ...] = ()
    tokenizer: Tokenizer = field(default_factory=Estimate)
    most_tokens: int = NOTICE_TOKENS
    long_handle: bool = False
    extracts: bool = False  # whether a model can be asked about it
    near: tuple[int, int] | None = None  # first and last line of what is worth reading
    mark: str = ""  # that a real notice bears, where its dialect has a place for it
    prefix: str = ""  # the mark before a handle, where that is the place
    snippet_lines: int = SNIPPET_LINES  # of each end, in dialects that show both
    snippet_bytes: int = SNIPPET_BYTES
    more_errors: int = 0  # lines that look like errors and are not among them
    at_least: bool = False  # that number is of a part of the output
    error_spans: tuple[Span, ...] = ()  # where each of the errors is; an empty one where it is not shown as stored
    outline_spans: tuple[Span, ...] = ()  # the same of each line of the outline
    shell: str | None = None  # for somebody in a shell: the options that each command needs
    imitates: bool = False  # it is kept because it holds the mark, and not for its size
    difference: Difference | None = None  # to the last output of the same tool and arguments, where there is little

    @property
    def handle(self) -> str:
        """As the dialect writes it."""
        return self.facts.long_handle if self.long_handle else self.prefix + self.facts.handle


def without_foreign_mark(view: View, mark: Mark) -> View:
    """The same without a mark that came from outside in what stands beside the fence: names, reasons, calls to copy."""
    facts, outline = view.facts, view.outline
    origin, notes = facts.origin, facts.measure.notes
    said = (origin.tool, origin.server, facts.error, *notes)
    if any(map(mark.is_in, said)):
        tool, server, error, *rest = (without_mark(one, mark) for one in said)
        measure = replace(facts.measure, notes=tuple(rest))
        facts = replace(facts, origin=replace(origin, tool=tool, server=server), error=error, measure=measure)
        view = replace(view, facts=facts)
    if outline is None:
        return view
    leads = tuple(
        one for one in outline.leads if not any(map(mark.is_in, (one.member, *map(str, one.arguments.values()))))
    )
    return replace(view, outline=replace(outline, label=without_mark(outline.label, mark), leads=leads))


# A dialect of your own is one value of this class; docs/dialects.md has one in under 30 lines.


@record
class Cut:
    """A result that is to be shown in part, and all that its text may say about the rest."""

    result: object  # a text, blocks, or an object that holds blocks
    limits: Limits  # what may be shown
    over: Limits  # what it was judged by
    room: bool = False  # whether the room left in the turn was too small for it
    handle: str = ""  # where the whole is kept; empty if it is not
    why: str = ""  # why it is not
    tag: str = ""
    incomplete: bool = False  # `result` is only the beginning: it says so, however short it is
    total_bytes: int | None = None  # of all of it, if that is known
    in_part: bool = False  # under the handle is only a part of it
    # How many times too many tokens a text has, where these are bounded. `limits` have bytes that should fit.
    tokens_over: Callable[[str], float] | None = None


def text_problem(text: object, handle: str, most: int | None) -> str:
    """What is wrong with a text of a dialect; empty if it names the handle, and has at most so many bytes."""
    if not isinstance(text, str):
        return f"gave a {type(text).__name__}, not a text"
    if handle not in text:
        return "does not name the handle"
    size = len(encode(text)[0])
    return f"is too long: {size:,} bytes, at most {most:,}" if most is not None and size > most else ""


def as_a_call(verb: str, handle: str, arguments: Mapping[str, Any]) -> str:
    """`context_read(handle="k3f9", lines="51:100")`"""
    return call_text(f"context_{verb}", {"handle": handle, **arguments})


def own_call(tools: Sequence[Tool], verb: str, handle: str, arguments: Mapping[str, Any]) -> str:
    """The same with the tool of a dialect that has others; nothing where none of them takes these arguments."""
    given: dict[str, Any] = {"handle": handle, **arguments}
    for tool in tools:
        known: Mapping[str, Any] = tool.accepted.get("properties", {})
        needed = set(tool.accepted.get("required", ()))
        if tool.verb == verb and needed <= given.keys() <= known.keys():
            for name, value in arguments.items():  # numbers come as texts, too
                about: Any = known[name] if isinstance(known[name], Mapping) else {}
                if about.get("type") == "integer" and str(value).isdigit():
                    given[name] = int(value)
            return call_text(tool.name, given)
    return ""


def by_its_tools(_verb: str, _handle: str, _arguments: Mapping[str, Any]) -> str:
    """Stands for `own_call` with the tools of the dialect that it is given to."""
    raise NotImplementedError


def as_a_command(options: str, verb: str, handle: str, arguments: Mapping[str, Any]) -> str:
    """The same for somebody in a shell: `holdall read k3f9 --lines 51:100`"""
    words, places, flags = [shell_quoted(handle)], [shell_quoted(handle)], list[str]()
    for argument in VERBS[verb].arguments:
        value, flag = arguments.get(argument.name), argument.flags.partition(" ")[0]
        if value is not None and value is not False:
            written = [flag] * bool(flag) + ([] if value is True else [shell_quoted(str(value))])
            (flags if flag else places).extend(written)
            words += written
    if any(one.startswith(("-", "'-", '"-')) for one in places):  # else it would be taken for a flag
        return f"{' '.join(['holdall', verb, *flags])}{options} -- {' '.join(places)}"
    return f"holdall {verb} {' '.join(words)}{options}"


def call_text(name: str, arguments: Mapping[str, Any]) -> str:
    """A call as it can be copied."""
    return f"{name}({', '.join(f'{key}={_value(value)}' for key, value in arguments.items())})"


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return quoted(str(value))


def plain_running(view: View) -> str:
    """For a call that goes on in the background, in a dialect that has no words of its own for it."""
    return (
        f"{foreign(view.facts.origin.tool) or 'The tool'} is still running; what it writes is kept under {view.handle}."
    )


def no_call(_verb: str, _handle: str, _arguments: Mapping[str, Any]) -> str:
    """For dialects in which a model cannot continue by itself."""
    return ""


def _own_extraction(extraction: Extraction, frame: Frame, _tool: str, _fits: Fits) -> str:
    return own_answer(extraction, frame)


def _no_spans(_view: View) -> tuple[Span, ...]:
    return ()


@record
class Dialect:
    """`notice` words what is kept; a dialect with `shorten` shows a part instead. `stores` False keeps nothing.

    With `races` a slow call continues in the background; else only one that is started there. `running` words that, a
    tool with the verb `wait` waits for it and is offered from then on where `waits_later`. Without `counts_room` the
    limits alone decide. `marked_by` says where notices bear the mark of their session, `about_mark` tells the model.
    With `long_handles` notices name `session-<uuid>/<uuid>`; with `keeps_for_session` outputs go with their session.
    """

    name: str
    limits: Limits
    notice: Callable[[View], str]
    running: Callable[[View], str] = plain_running
    tools: tuple[Tool, ...] = ()
    instructions: str = ""
    shorten: Callable[[Cut], object] | None = None
    stores: bool = True
    long_handles: bool = False
    outlined: bool = False  # whether `notice` looks at the outline, which costs a pass over the output
    paragraphs: bool = False  # whether it shows errors with the lines around them
    waits_later: bool = False  # whether the tool that waits is offered only once something ran in the background
    wait: Callable[[Waited], str] = our_wait
    wait_shows_outputs: bool = True  # whether a wait brings what has ended, or only says that it has
    races: bool = False  # whether a slow call continues in the background
    counts_room: bool = True  # whether the room left in the turn decides too
    shows: Callable[[View], tuple[Span, ...]] = _no_spans  # the bytes that are in a notice as they are
    both: Callable[[View], tuple[str, tuple[Span, ...]]] | None = None  # `notice` and `shows`, where that is cheaper
    differs: Callable[[View], tuple[str, tuple[Span, ...]]] | None = None  # the same of a view with a difference
    extracted: Callable[[Extraction, Frame, str, Fits], str] = _own_extraction  # again with less where that is too long
    extracts_with_model: bool = True  # the tool that asks a model is offered only where there is one
    always_chunked: bool = False  # whether such a model reads all of an output, whatever it is
    chunk_share: float | None = None  # the part of the model's window that a chunk may take, if it is fixed
    chunk_overlap_percent: float = 10.0
    marked_by: Literal["", "text", "handle", "session"] = ""  # where its notices bear the mark of the session
    about_mark: str = ""  # what the instructions say of it; MARK stands for it there
    about_references: str = ""  # what they say of passing outputs on, where settings allow that
    status_words: StatusWords = field(default_factory=StatusWords)  # in the system notice
    all_kept_is_ready: bool = False  # whether the system notice lists all that is kept as ready to be retrieved
    keeps_for_session: bool = False  # whether outputs go with their session where no setting says otherwise
    without_background: "Dialect | None" = None  # what stands in for it where no call may go to the background
    plain: "Dialect | None" = None  # the same with names of tools that every provider accepts, where its own have dots
    prefix: str = ""  # what a model sees before the names of its tools: see `with_prefix`
    go_on: Callable[[str, str, dict[str, Any]], str] = by_its_tools  # what continues an answer: verb, handle, rest
    refuse: Callable[[HoldallError, Ask], str] = plain_refusal
    _listed: dict[tuple[bool, ...], tuple[ToolSpec, ...]] = field(
        default_factory=dict[tuple[bool, ...], tuple[ToolSpec, ...]], init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Raises UsageError for what could only fail when a model uses it."""
        if not self.name or not callable(self.notice):
            raise UsageError(f"a dialect needs a name and a function that words a notice, not {self.notice!r}.")
        names = [tool.name for tool in self.tools]
        for tool in self.tools:
            problem = "another tool has that name" if names.count(tool.name) > 1 else tool_problem(tool)
            if problem:
                raise UsageError(f"dialect {foreign(self.name)}, tool {foreign(tool.name)}: {problem}.")
        if self.go_on is by_its_tools or getattr(self.go_on, "func", None) is own_call:  # perhaps of other tools
            object.__setattr__(self, "go_on", partial(own_call, self.tools))

    def written(self, view: View) -> tuple[str, tuple[Span, ...]]:
        """The notice, and the bytes that are in it as they are."""
        if view.difference is not None and self.differs is not None and not view.imitates:
            return self.differs(view)
        return self.both(view) if self.both is not None else (self.notice(view), self.shows(view))

    def specs(self, *, waits: bool, asks: bool, compares: bool = True) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them, with or without those that wait, ask a model, and compare outputs."""
        known = self._listed.get((waits, asks, compares))
        if known is None:
            left_out = {verb for verb, on in (("wait", waits), ("extract", asks), ("diff", compares)) if not on}
            known = tuple(tool.spec for tool in self.tools if tool.verb not in left_out)
            self._listed[waits, asks, compares] = known
        return known

    def tool(self, name: str) -> Tool | None:
        """By its name, with dots or with underscores, with or without the prefix."""
        plain = name.removeprefix(self.prefix).replace(".", "_")
        return next((tool for tool in self.tools if plain == tool.plain_name), None)


_FENCED = lazy_pattern(r"(?s)<(\d{3,}|[0-9a-f]{6,})>\n.*?</\1>")


def with_prefix(dialect: Dialect, prefix: str) -> Dialect:
    """The same for a model that sees a prefix before the names of our tools: every text of ours names them so.

    Tools are still registered, and called, by their own names: who lists them to the model writes the prefix.
    """
    names = "|".join(sorted((re.escape(tool.plain_name) for tool in dialect.tools), key=len, reverse=True))
    if not prefix or not names:
        return dialect
    # What an argument is, as a pattern, may come from an output.
    name = re.compile(rf'="(?:[^"\\]|\\.)*+"|(?<![\w.])(?<!{re.escape(prefix)})(?:{names})\b')

    def own(text: str) -> str:
        return name.sub(lambda found: found[0] if found[0].startswith("=") else prefix + found[0], text)

    def renamed(text: str) -> str:
        """What comes from an output is in a fence, and stays as it is."""
        shown, at = list[str](), 0
        for fence in _FENCED.finditer(text):
            shown += [own(text[at : fence.start()]), fence[0]]
            at = fence.end()
        return "".join(shown) + own(text[at:])

    def renaming(function: Callable[..., Any]) -> Callable[..., Any]:
        def worded(*given: Any) -> Any:
            made: str | tuple[str, tuple[Span, ...]] = function(*given)
            return renamed(made) if isinstance(made, str) else (renamed(made[0]), made[1])

        return worded

    words, instead = dialect.status_words, dialect.without_background
    return replace(
        dialect,
        notice=renaming(dialect.notice), running=renaming(dialect.running), wait=renaming(dialect.wait),
        both=renaming(dialect.written),
        differs=renaming(dialect.differs) if dialect.differs is not None else None,
        extracted=renaming(dialect.extracted), refuse=renaming(dialect.refuse), go_on=renaming(dialect.go_on),
        instructions=own(dialect.instructions),
        status_words=StatusWords(own(words.retrieve), own(words.use_retrieve), own(words.wait), own(words.use_wait)),
        tools=tuple(replace(tool, description=own(tool.description)) for tool in dialect.tools),
        without_background=None if instead is None else with_prefix(instead, prefix), plain=None, prefix=prefix,
    )  # fmt: skip
