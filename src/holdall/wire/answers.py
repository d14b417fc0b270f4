"""What a model reads when it has fetched something, waited for something, or asked for what cannot be done: where it
is, the whole it is part of, how to continue.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

from holdall.text.escape import beside_it, foreign, hidden_in, on_one_line, one_line, state_and_reason
from holdall.text.excerpt import first_bytes
from holdall.text.marks import read_alike
from holdall.text.numbers import plural
from holdall.text.utf8 import REPLACEMENT, decode, stray_runs
from holdall.values import handles
from holdall.values.answers import UNCHECKED, Change, Difference, Found, Match, Nodes, Passage, Side, Table
from holdall.values.errors import (
    AmbiguousCallId,
    AnchorNotFound,
    AnswerTooLong,
    CallFailed,
    HoldallError,
    NotReady,
    OutputDamaged,
    OutputExpired,
    OutputMissing,
    QueryMissing,
    TooCostly,
    TooLargeForRaw,
    UnknownHandle,
)
from holdall.values.outputs import Facts
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.wire.system_notice import UNNAMED
from holdall.wire.tool import Ask

# What a model reads after a wait: which calls have ended and what they gave, which still run, and how to continue.


MOST_TOLD = 20  # calls, of those that have ended and of those that run
_MOST_S3_TOLD = 50  # the same in S3's words, which say less of each
_NOTHING_RUNS = "No async tools running."  # S3's words for a wait that has nothing to wait for


@record
class StillRunning:
    tool: str
    handle: str
    seconds: float
    queued: bool = False


@record
class Waited:
    """`ended` are the calls that have, since the last wait; `matched` the handle in whose output the pattern stands.

    The others are empty unless a model waits, by its tool: `outputs` are what it gets of those that have ended, by
    handle, all of it inside a fence, or a notice; `named` are handles as the dialect writes them. A program that waits
    has `fetch.shown(handle)` for that.
    """

    ended: Sequence[Facts] = ()
    running: Sequence[StillRunning] = ()
    matched: str = ""
    timed_out: bool = False
    outputs: Mapping[str, str] = field(default_factory=dict[str, str])
    named: Mapping[str, str] = field(default_factory=dict[str, str])

    def shown(self, handle: str) -> str:
        return self.named.get(handle, handle)


def s3_wait(waited: Waited) -> str:
    """S3's words."""
    if not waited.ended and not waited.running:
        return _NOTHING_RUNS
    lines: list[str] = []
    if waited.ended:
        told = [f"- {_s3_line(facts, waited)}" for facts in waited.ended[:_MOST_S3_TOLD]]
        lines += ["Completed tools:", *told, *_s3_not_told(len(waited.ended))]
    if waited.timed_out and waited.running:
        told = [_running(one, waited) for one in waited.running[:_MOST_S3_TOLD]]
        lines += ["Still running:", *told, *_s3_not_told(len(waited.running))]
    return "\n".join(lines)


def our_wait(waited: Waited) -> str:
    if waited.matched:
        handle = waited.shown(waited.matched)
        return f'The pattern is in what {handle} has written.\nNext: context_tail(handle="{handle}")'
    if not waited.ended and not waited.running:
        return _NOTHING_RUNS
    lines: list[str] = []
    if waited.ended:
        lines.append("Ended:")
        for facts in waited.ended[:MOST_TOLD]:
            lines.append(f"- {_line(facts, waited)}")
            lines += [waited.outputs[facts.handle]] if facts.handle in waited.outputs else []
        lines += _not_told(len(waited.ended))
    if waited.running:
        lines += ["Still running:", *(_running(one, waited) for one in waited.running[:MOST_TOLD])]
        lines += _not_told(len(waited.running))
    # Those that are shown say themselves how to continue.
    left = [facts.handle for facts in waited.ended if facts.handle not in waited.outputs and facts.measure.bytes]
    if first := next(iter((*left, *(one.handle for one in waited.running))), ""):
        handle = waited.shown(first)
        lines.append(f'Next: context_tail(handle="{handle}") · context_grep(handle="{handle}", pattern="…")')
    return "\n".join(lines)


def _s3_not_told(number: int) -> list[str]:
    """The model has the id of each from its notice: S3 has no tool that lists them."""
    return [f"- … and {number - _MOST_S3_TOLD:,} more"] if number > _MOST_S3_TOLD else []


def _not_told(number: int) -> list[str]:
    return [f"- … {number - MOST_TOLD:,} more: context_read() lists them"] if number > MOST_TOLD else []


def _s3_line(facts: Facts, waited: Waited) -> str:
    size = _size(facts.measure.bytes)
    return (
        f"{foreign(facts.origin.tool) or UNNAMED} (id: {waited.shown(facts.handle)}, size: {size}{_not_ready(facts)})"
    )


def _line(facts: Facts, waited: Waited) -> str:
    size = f"{plural(facts.measure.bytes, 'byte')}, {plural(facts.measure.lines, 'line')}"
    tool = foreign(facts.origin.tool) or "the tool"
    return f"{tool} (handle: {waited.shown(facts.handle)}, {size}{_not_ready(facts)})"


def _not_ready(facts: Facts) -> str:
    ready = "" if facts.state == "ready" else f", {state_and_reason(facts.state, facts.error)}"
    return "; ".join([ready, *beside_it(facts.measure.notes)])


def _running(one: StillRunning, waited: Waited) -> str:
    state = "queued" if one.queued else "running"
    return f"- {foreign(one.tool) or 'the tool'} (id: {waited.shown(one.handle)}, {state} {one.seconds:.1f}s)"


def _size(number: int) -> str:
    """`45KB`, as S3 writes it."""
    return f"{number // 1024}KB" if number >= 1024 else f"{number}B"


# What a model reads where its call could not be carried out: what is wrong, and what to do instead.


def shown_handle(given: str) -> str:
    """What was given for a handle: whole where it has the form of one."""
    return foreign(given) if isinstance(handles.parse(given, session=""), handles.Foreign) else given


def with_handles(error: HoldallError, shown: Callable[[str], str]) -> HoldallError:
    """The same error about the same outputs, with their handles as a dialect writes them."""
    match error:
        case UnknownHandle():
            return UnknownHandle(error.handle, session=error.session, known=[shown(one) for one in error.known])
        case AmbiguousCallId():
            return AmbiguousCallId(error.call_id, [shown(one) for one in error.handles])
        case NotReady() | OutputMissing():
            return type(error)(shown(error.handle))
        case OutputDamaged():
            return OutputDamaged(shown(error.handle), error.detail, error.behind)
        case OutputExpired():
            return OutputExpired(shown(error.handle), error.when, error.rule)
        case _:
            return error


_MAX_KNOWN = 8  # handles in a refusal


def plain_refusal(error: HoldallError, _ask: Ask) -> str:
    """Our own words, for any dialect: no tool and no argument is named, for it may not be there."""
    if isinstance(error, UnknownHandle):
        known = ", ".join(error.known[:_MAX_KNOWN]) or "nothing yet"
        more = f" and {len(error.known) - _MAX_KNOWN} more" if len(error.known) > _MAX_KNOWN else ""
        return f'No output is kept under "{shown_handle(error.handle)}". Kept: {known}{more}.'
    if isinstance(error, CallFailed):
        return f"There is no output: {state_and_reason(error.state, error.error)}."
    return _sentence(str(error))


def own_refusal(error: HoldallError, ask: Ask) -> str:
    """The same in our own dialect, whose tools are known."""
    if isinstance(error, UnknownHandle):
        lists = " context_read() lists them." if len(error.known) > _MAX_KNOWN else ""
        return f"{plain_refusal(error, ask)}{lists}"
    return _sentence(str(error), _FOR_OUR_TOOLS)


def read_grep_refusal(error: HoldallError) -> str:
    """For a model that searches one output: its Grep has `group`."""
    return _sentence(str(error), _WITH_GROUP)


def s3_refusal(error: HoldallError, _ask: Ask) -> str:
    """S3's words, to the letter, where it has some."""
    if isinstance(error, UnknownHandle):
        return f"Unknown tool ID: {shown_handle(error.handle)}"
    if isinstance(error, NotReady):
        return "Tool not ready. Use wait_for_tool_output."
    if isinstance(error, TooLargeForRaw):
        return f"Response too large ({error.bytes} bytes, ~{error.tokens} tokens). Use extract or slice mode."
    if isinstance(error, CallFailed):
        wrote = f" It wrote {error.bytes} bytes, ~{error.tokens} tokens. Use extract or slice mode."
        return f"Tool {state_and_reason(error.state, error.error)}.{wrote if error.bytes else ''}"
    if isinstance(error, QueryMissing):
        return "Query required for extract mode."
    if isinstance(error, AnchorNotFound):
        return "Anchor not found in content"
    if isinstance(error, OutputExpired):
        return "Tool output expired"
    return _sentence(str(error))


def why_not_raw(*, marked: bool) -> str:
    """Of an output that is small enough. `marked`: it holds a handle, or words that only our own texts should hold."""
    why = "it holds a handle, or the mark of real notices" if marked else "it is not text"
    return f"the output is not given raw: {why}. Use slice mode, which shows it as data."


def s0_refusal(error: HoldallError, ask: Ask) -> str:
    """S0's failure format, to the letter."""
    mode = foreign(str(ask.options.get("mode", "auto")))
    tool = foreign(ask.tool or getattr(error, "tool", "")) or "UNKNOWN"
    message = plain_refusal(error, ask)
    if isinstance(error, AnswerTooLong):  # there are no ranges or columns to ask for
        message = "There is no room left for an answer in this turn. Ask again in the next one, or report."
    if isinstance(error, TooCostly):  # one of the modes asks none
        message = f'{message} mode="truncate" asks no model: it shows the beginning and the end.'
    return f"TOOL_OUTPUT FAILED FOR {tool} WITH HANDLE {shown_handle(ask.handle)}, STRATEGY:{mode}:\n\n{message}"


def no_such_tool(name: str, known: Sequence[str]) -> str:
    return f"There is no tool '{foreign(name)}'. Tools are: {', '.join(known) or 'none'}."


def not_offered(name: str) -> str:
    return f"There is no tool '{foreign(name)}'. Call one that is offered, or answer without it."


def not_json(problem: Exception) -> str:
    return f"The arguments are not valid JSON: {one_line(str(problem))}."


NOT_AN_OBJECT = "The arguments must be a JSON object."
MOST_LEVELS = 100
TOO_DEEP = f"The arguments are nested more than {MOST_LEVELS} levels deep."


def json_arguments(text: str | bytes) -> tuple[str, Mapping[str, Any]]:
    """What is wrong with arguments as a model wrote them, and what they are. No text is no arguments."""
    try:
        given: object = json.loads(text or "{}")
    except (ValueError, RecursionError) as problem:
        return not_json(problem), {}
    return ("", cast("Mapping[str, Any]", given)) if isinstance(given, Mapping) else (NOT_AN_OBJECT, {})


_LEAST_REFUSAL = 360  # characters: the longest head of a failure, with two handles, and a sentence
_MAX_ERROR = 600  # characters, inside a fence
_LONGEST = 1200  # characters of a sentence that says what is wrong, and of a note about an answer


def fitting_refusal(why: str, fits: Callable[[str], bool]) -> str:
    """A refusal is an answer, within the bounds of one. A short one is given whole: cut, it would give no reason."""
    shown = why
    while len(shown) > _LEAST_REFUSAL and not fits(shown):
        shown = first_bytes(why, len(shown.encode("utf-8", "replace")) // 2).text + "…"
    return shown


# Advice in errors names commands and arguments in Python; a model has tools instead, or nothing for it.
_FOR_A_MODEL = (
    (" with group=True counts every pair", ""),
    (" with group=True", ""),
    (" Ask for less (grep or query narrow it down), or raise the ceiling.", " Ask for less."),
    ("; `holdall verify` lists what is damaged.", "."),
    (" (`holdall ls` lists them.)", ""),
)
_WITH_GROUP = ((" with group=True", " with group=true"),)
_FOR_OUR_TOOLS = (
    *_WITH_GROUP,
    (
        " Ask for less (grep or query narrow it down), or raise the ceiling.",
        " Ask for less: context_grep and context_query narrow it down.",
    ),
)


def _sentence(text: str, own: Sequence[tuple[str, str]] = ()) -> str:
    """What is wrong, on one line and short, whatever is in it: an error may quote a key, a cell, or a server."""
    text = one_line(text, _LONGEST)
    for commands, arguments in (*own, *_FOR_A_MODEL):
        text = text.replace(commands, arguments)
    return text[:1].upper() + text[1:]


# What a model reads when it has fetched something: where it stands, the whole it is part of, how to continue.
#
# Stored text is inside a fence whose tag occurs nowhere in it, so no content can close its own wrapper or look like
# Holdall's text. Nothing here cuts: everything passed in is shown; the verb kept to the bounds.


_HEX_ROW = 32
_MOST_ARGUMENTS = 60  # characters of them in a list
_LONGEST_CHARACTER = 4  # bytes
_MOST_STRAY = 0.25  # of the bytes of a range: with more that are not UTF-8, the signs for them leave nothing to read
_PLACES = 3  # of such bytes that an answer names
_PLAIN_STEP = lazy_pattern(r"\['([A-Za-z_][A-Za-z0-9_]*)'\]")
_SPACE_IN_JSON = lazy_pattern(r'("(?:[^"\\]|\\.)*+"?)|[ \t\r\n]++', re.DOTALL)
_SIGNS_OF_JSON = frozenset("{}[],:")

# (verb, handle, the arguments that continue) as a call that can be copied; empty if the dialect has none for it.
NextCall = Callable[[str, str, dict[str, Any]], str]


@record
class Seen:
    """How much of the output the model has been shown up to and including this answer."""

    share: float  # of all bytes, 0 to 1
    again: bool = False  # all of this was shown before
    is_written: bool = False  # there may be more of it

    def __str__(self) -> str:
        if self.share >= 1:
            told = "all of it so far seen" if self.is_written else "all of it seen"
        else:
            percent = self.share * 100
            told = f"{'<0.1' if 0 < percent < 0.1 else f'{min(percent, 99.9):.1f}'} % seen"
        return f"{told} · shown before" if self.again else told


@record
class Frame:
    """What is around the data of an answer."""

    handle: str  # as the dialect writes it
    tag: str
    go_on: NextCall

    def around(self, head: Sequence[str], body: str, foot: str) -> str:
        top = " · ".join(one_line(part, _LONGEST) for part in head if part)
        if not body:
            return "\n".join(part for part in (top, foot) if part)
        return f"{top}\n{self.fenced(body)}" + (f"\n{foot}" if foot else "")

    def fenced(self, body: str) -> str:
        return fenced(body, self.tag)

    def next(
        self, verb: str, arguments: dict[str, Any], *, asked: Mapping[str, Any] | None = None, at_end: str = ""
    ) -> str:
        """The call that continues: `arguments` beside those of the call that was made, which are not repeated."""
        call = self.go_on(verb, self.handle, {**(asked or {}), **arguments}) if arguments else ""
        if call and asked is not None:
            call = f"same call, {', '.join(f'{name}={value}' for name, value in arguments.items())}"
        return f"Next: {call}" if call else at_end


def fenced(body: str, tag: str) -> str:
    """What comes from an output or a model, and does not hold the tag. A line behind it says if it holds what a model
    reads and a person does not see.
    """
    end, hidden = "" if body.endswith("\n") else "\n", hidden_in(body)
    told = f"\n[{plural(hidden, 'hidden character')} between these tags: people do not see them]" if hidden else ""
    return f"<{tag}>\n{body}{end}</{tag}>{told}"


_TRIES = 8


def tag_for(text: str, new_tag: Callable[[], str]) -> str:
    """A tag that does not occur in `text`, in other digits neither: soon a longer one, for a text may hold every short
    one that there is.
    """
    text = text if text.isascii() else f"{text}\n{read_alike(text)}"
    tag, tries = new_tag(), 0
    while tag in text:
        tries += 1
        tag = new_tag() if tries < _TRIES else tag + new_tag()
    return tag


def passage_answer(
    passage: Passage, frame: Frame, seen: Seen | None, *, verb: str = "read", error: str = "", is_binary: bool = False
) -> str:
    """`error` is how the call failed; the tag of the frame does not occur in it. `is_binary` is of the whole output:
    a range of one that holds NULs is no text, also where it happens to be UTF-8. In a text a few bytes that are not
    UTF-8 leave the rest of a range as readable as it is.
    """
    total = passage.total
    if passage.past_end:
        ends = f"the output ends at line {total.lines}, byte {total.bytes}, char {total.chars}"
        return frame.around([f"nothing there: {ends}", *passage.notes, _seen(seen)], error_line(error), "")
    is_text, stray = not (is_binary and b"\0" in passage.data), ""
    if is_text and not passage.exact:
        whole = _whole_characters(passage, most_stray=0 if is_binary else _MOST_STRAY)
        passage, is_text = whole or passage, whole is not None
        stray = _stray(passage, "chars" if verb == "slice" else "bytes") if is_text else ""
    head = [_lines(passage.lines, total.lines), *_ranges(passage), stray, *passage.notes, _seen(seen)]
    body = passage.text
    if not is_text:
        head.insert(0, "not text: hexadecimal bytes after their offsets")
        body = hex_rows(passage.data, passage.bytes.start)
    following = dict(part.split("=", 1) for part in passage.next.split(" ")) if passage.next else _as_much(passage)
    if verb == "slice" and not passage.next and following:
        length = passage.chars.end - passage.chars.start
        following = {"start": passage.chars.end, "length": length} if length else {}
    at_end = "The output comes at the end of the call." if passage.of_messages and passage.state == "running" else ""
    return frame.around(head, body, frame.next(verb, following, at_end=at_end))


def not_started(found: Passage | Found) -> Passage | Found:
    """What was found in the output of a call that waits for a slot."""
    told = ("queued: other calls run already" if one.startswith("still running") else one for one in found.notes)
    return replace(found, notes=tuple(told))


def _whole_characters(passage: Passage, *, most_stray: float) -> Passage | None:
    """The characters that are whole in a range of bytes that begins or ends inside of one; None if it is no text: if
    more than this share of its bytes is not UTF-8.
    """
    before, after = passage.split
    end = max(0, len(passage.data) - after)
    data = passage.data[before:end]
    text, exact = decode(data)
    if not text or (not exact and sum(last - first for first, last in stray_runs(data)) > most_stray * len(data)):
        return None
    first = passage.chars.start + (before > 0)
    start = passage.bytes.start
    return replace(
        passage, data=data, text=text, bytes=Span(start + before, start + end),
        chars=Span(first, first + len(text) if exact else passage.chars.end), exact=exact, split=(0, 0),
    )  # fmt: skip


def _stray(passage: Passage, unit: str) -> str:
    """Where a text has the sign for bytes that are not UTF-8, as it is told of the same lines by the other verbs."""
    runs = stray_runs(passage.data)
    if not runs:
        return ""
    places = [Span(*run) for run in runs[:_PLACES]]
    if unit == "chars":
        places = [Span(*(len(decode(passage.data[:at])[0]) for at in (run.start, run.end))) for run in places]
    offset = passage.bytes.start if unit == "bytes" else passage.chars.start
    told = ", ".join(f"{offset + place.start}–{offset + place.end}" for place in places)
    more = f" and {plural(len(runs) - _PLACES, 'more place')}" if len(runs) > _PLACES else ""
    return f"{REPLACEMENT} for what is not UTF-8: {unit} {told}{more} (hexadecimal if read alone)"


def error_line(error: str) -> str:
    """For a fence: why a call failed, where that is more than a sentence of ours may hold."""
    line = one_line(error, _MAX_ERROR)
    return f"error: {line}" if line != foreign(error) else ""


def found_answer(found: Found, frame: Frame, seen: Seen | None, *, asked: dict[str, Any], start: object = None) -> str:
    """`start` is the byte from which it was asked for; matches before it count, and are not shown."""
    head, foot = [matches_and_lines(found)], ""
    if found.distinct:
        head.append(f"{plural(found.distinct, 'different value')}{_values_shown(found)}")
        body = "\n".join(f"{group.count:,} × {group.value}" for group in found.groups)
        if found.next is not None:
            foot = frame.next("grep", {"start": found.next}, asked=asked)
    else:
        body = _matches(found.matches)
        if found.matches and (start or found.next is not None):
            place = f", {'before' if found.last else 'from'} byte {start}" if start else ""
            head.append(f"{'the last ' if found.last else ''}{len(found.matches):,} shown{place}")
        if found.matches and found.next is not None:
            foot = frame.next("grep", {"start": found.next}, asked=asked)
    return frame.around([*head, *_helpful(found.notes), *_again(seen)], body, foot)


def _values_shown(found: Found) -> str:
    """How many of the different values; nothing if it is all of them, or if only their number was asked for."""
    if len(found.groups) == found.distinct or not (found.groups or found.skipped):
        return ""
    after = f" after the first {found.skipped:,}" if found.skipped else ""
    return f", {f'{len(found.groups):,}' if found.groups else 'none'} shown{after}"


def matches_and_lines(found: Found) -> str:
    """`12 matches on 9 of 5,000 lines`"""
    all_lines = plural(found.totals.lines, "line")
    if not found.total:
        return f"0 matches in {all_lines}"
    if found.unit == "lines":
        return f"{plural(found.total, 'matching line')} of {all_lines}"
    return f"{plural(found.total, 'match')} on {found.lines:,} of {all_lines}"


def _helpful(notes: Sequence[str]) -> list[str]:
    """Without what is of no use to a model."""
    return [note for note in notes if not note.endswith(UNCHECKED)]


def with_messages_note(found: Passage | Found) -> Passage | Found:
    """What was found in the messages of a call that has no output, said as that."""
    what = "no output yet: these are its messages so far"
    if found.state != "running":
        what = "it gave no output: these are its last messages"
    kept = tuple(note for note in found.notes if not note.startswith("still running"))
    return replace(found, notes=(what, *kept), of_messages=True)


def progress_message(params: Mapping[str, Any]) -> str:
    """What a server says of its progress, as a line among the messages of its call."""
    done, total, said = params.get("progress"), params.get("total"), params.get("message")
    share = f"progress {_number(done)}" + (f" of {_number(total)}" if total is not None else "")
    return f"{share}: {said}" if isinstance(said, str) and said else share


def log_message(params: Mapping[str, Any], *, of_call: bool = True) -> str:
    """The same for its log, where that is known to be of this call."""
    data, level, logger = params.get("data"), str(params.get("level", "log"))[:20], params.get("logger")
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False, default=str)
    whose = "" if of_call else "server log, "
    return f"{whose}{level} {str(logger)[:60]}: {text}" if logger else f"{whose}{level}: {text}"


def _number(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)[:20]


def earlier_messages(number: int) -> str:
    """In their place, where only the last messages are held."""
    return f"[{plural(number, 'earlier message')} left out]"


def _seen(seen: Seen | None) -> str:
    """Messages are no part of an output: nothing of it was seen."""
    return "" if seen is None else str(seen)


def _again(seen: Seen | None) -> list[str]:
    """Of a search of the whole output: how much of it was shown so far says nothing about what it found."""
    return ["shown before"] if seen is not None and seen.again else []


def table_answer(table: Table, frame: Frame, seen: Seen) -> str:
    head = [("at least " if table.is_least else "") + plural(table.total, "row")]
    foot = ""
    if table.next is not None:
        head.append(f"{len(table.rows):,} shown")
        foot = f"Next: {further_rows(table)}"
    columns = [" | ".join(table.columns)] if table.rows else []  # of no rows they are those that were asked for
    rows = [*columns, *(" | ".join(map(_cell, row)) for row in table.rows)]
    return frame.around([*head, *_helpful(table.notes), *_again(seen)], "\n".join(rows), foot)


def further_rows(table: Table) -> str:
    """The SQL that goes on behind the rows which are shown, and ends where the SQL that was asked ends."""
    if table.offset is None:
        return f"select * from (the same SQL) OFFSET {table.next}"  # noqa: S608 - a text to read
    limit = "" if table.limit is None else f"LIMIT {table.limit - len(table.rows)} "
    return f"the same SQL with {limit}OFFSET {table.next}"


def nodes_answer(nodes: Nodes, frame: Frame, seen: Seen, *, asked: dict[str, Any]) -> str:
    head = [plural(nodes.total, "value")]
    foot = ""
    if nodes.next is not None:
        head.append(f"{len(nodes.nodes):,} shown")
        foot = frame.next("query", {"skip": nodes.next}, asked=asked)
    shown: list[str] = []
    for node in nodes.nodes:
        cut = f" … cut; all of it is bytes {node.bytes.start}:{node.bytes.end}" if node.cut else ""
        place = _short_path(node.path)
        told = nodes.total == 1 and asked.get("path") in (place, node.path)  # the question says where it is
        shown.append(f"{_on_one_line(node.text)}{cut}" if told else f"{place}  {_on_one_line(node.text)}{cut}")
    return frame.around([*head, *_helpful(nodes.notes), *_again(seen)], "\n".join(shown), foot)


def _short_path(path: str) -> str:
    """`$.paths['/zen'].get` for `$['paths']['/zen']['get']`: a path too, as notices write them."""
    return _PLAIN_STEP.sub(r".\1", path)


def _on_one_line(value: str) -> str:
    """JSON without the line ends and spaces between its parts, which can be half of its tokens."""
    if "\n" not in value or value[0] not in "{[":
        return value
    return _SPACE_IN_JSON.sub(_between, value)


def _between(found: re.Match[str]) -> str:
    """Nothing for spaces beside a sign of JSON; what stands apart in broken JSON stays apart."""
    if found[1]:
        return found[1]
    text, before, after = found.string, found.start() - 1, found.end()
    return "" if {text[before], text[after : after + 1]} & _SIGNS_OF_JSON else " "


def difference_answer(found: Difference, frame: Frame, other: str, *, asked: dict[str, Any]) -> str:
    """`frame` has the handle of the call; `other` is that of the earlier output as the dialect writes it."""
    how = f"the same bytes as {other}" if found.same_bytes else f"{told_difference(found)} (from {other})"
    head, foot = [how, *found.notes], ""
    if found.next is not None:
        head.append(f"{len(found.changes):,} of {plural(found.total, 'change')} shown")
        foot = frame.next("diff", {"skip": found.next}, asked=asked)
    return frame.around(head, "\n".join(map(told_change, found.changes)), foot)


def told_difference(found: Difference) -> str:
    """`3 of 4,210 lines changed, 1 added`"""
    if found.same_bytes:
        return "the same bytes"
    of = f" of {found.of:,}" if found.of is not None else ""
    number = found.changed
    noun = found.unit if (found.of if found.of is not None else number) == 1 else f"{found.unit}s"
    parts = [f"{number:,}{of} {noun} changed"] if number else []
    for more, how in ((found.added, "added"), (found.removed, "removed")):
        if more:
            parts.append(f"{more:,} {how}" if parts else f"{plural(more, found.unit)} {how}")
    if found.moved:
        parts.append(f"{found.moved:,} of them moved")
    if not parts:
        return f"no {found.unit} changed, added or removed" + ("" if found.complete else " so far")
    return ", ".join(parts) if found.complete else f"at least {', '.join(parts)}"


def told_change(change: Change, *, brief: bool = False, whole: bool = False) -> str:
    """`brief`: with lines only, where they are no others on the other side. `whole`: all of each text."""
    before, after = change.before, change.after
    places = [_place(side, brief=brief) for side in (before, after) if side is not None]
    place = " → ".join(dict.fromkeys(places) if brief else places)
    if change.name:
        name = on_one_line(change.name) if whole else one_line(change.name, 200)
        if before is None or after is None:
            side, sign = (after, "+") if before is None else (before, "-")
            return f"{sign} {name} ({place})  {_side_text(side, whole)}"
        return f"{name} ({place})  {_side_text(before, whole)} → {_side_text(after, whole)}"
    lines = [place]
    for side, sign in ((before, "-"), (after, "+")):
        if side is not None:
            lines += [f"{sign} {line}" for line in side.text.split("\n")]
            left = side.lines.end - side.lines.start - side.text.count("\n") if side.lines and side.exact else 0
            more = plural(left, "more line") if left > 0 else _bytes_left(side)
            lines += [f"{sign} … {more}"] if side.cut and more else []
    return "\n".join(lines)


def _place(side: Side, *, brief: bool) -> str:
    if side.lines is None:
        return f"byte {side.bytes.start:,}"
    lines = f"L{side.lines.start:,}" + (f"–{side.lines.end:,}" if side.lines.end > side.lines.start else "")
    return lines if brief else f"{lines} byte {side.bytes.start:,}"


def _bytes_left(side: Side) -> str:
    return plural(side.left, "more byte") if side.left else ""


def _side_text(side: Side | None, whole: bool) -> str:
    if side is None:
        return ""
    text = on_one_line(side.text) if whole else one_line(side.text, 400)
    more = f"… ({_bytes_left(side)})" if side.cut and side.left else ""
    return f"{text.removesuffix('…')}{more}" if more else text


def listing(
    outputs: Sequence[tuple[Facts, float]], *, handle_of: Callable[[Facts], str], most: int = 100,
    part: Span | None = None, were: bool = False,
) -> str:  # fmt: skip
    """What is kept, newest first, each with the share of it that was shown; `part`: from which one to which; `were`:
    whether there were others.
    """
    if not outputs:
        return f"Nothing is kept in this session {'any more' if were else 'yet'}."
    first, end = (0, len(outputs)) if part is None else (part.start - 1, part.end)
    some = list(reversed(outputs))[first : min(end, first + most)]
    which = f", {first + 1:,} to {first + len(some):,}" if first else ""
    if not some:
        return f"{plural(len(outputs), 'output')} kept; the list has no more lines."
    lines = [f"{plural(len(outputs), 'output')} kept, newest first{which}:"]
    for facts, share in some:
        seen = f" · {Seen(share, is_written=facts.state == 'running')}" if facts.measure.bytes and share else ""
        lines.append(f"{line_of(facts, handle_of(facts))}{seen}")
    if (older := len(outputs) - first - len(some)) > 0:
        lines.append(f"… and {older:,} older ones.")
        lines.append(f"Next: same call, lines={first + len(some) + 1}:")
    return "\n".join(lines)


def line_of(facts: Facts, handle: str) -> str:
    """One output on one line."""
    if facts.state == "unreadable":
        return f"{handle}  unreadable · {foreign(facts.error, 200)}"
    measure = facts.measure
    state = "" if facts.state == "ready" else f" · {facts.state}"
    size = f"{plural(measure.bytes, 'byte')} · {plural(measure.lines, 'line')} ({measure.kind})"
    if facts.state in ("running", "queued"):  # it is measured at its end
        size = f"{plural(measure.bytes, 'byte')} so far" if measure.bytes else "not measured yet"
    server = f"{foreign(facts.origin.prefix, 40)}/" if facts.origin.prefix else ""
    tool = f'"{server}{foreign(facts.origin.tool)}"' if facts.origin.tool else "a tool"
    return f"{handle}  {tool}{_short_arguments(facts.origin.arguments)} · {size}{state}"


def _short_arguments(arguments: object) -> str:
    """By them a model that has lost its transcript tells outputs of one tool from each other. Of what is long, both
    ends: paths differ at the end.
    """
    if not arguments:
        return ""
    from holdall.text.secrets import arguments_text  # noqa: PLC0415 - few answers list outputs, and its rules are heavy

    text = arguments_text(arguments)
    if len(text) > _MOST_ARGUMENTS:
        half = _MOST_ARGUMENTS // 2
        return f" {foreign(text[: half - 1], half - 1)}…{foreign(text[-half:], half)}"
    return f" {foreign(text, _MOST_ARGUMENTS)}"


def hex_rows(data: bytes, offset: int) -> str:
    """The offset of each row, then its bytes, four by four: so they have a third fewer tokens than one by one."""
    rows = range(0, len(data), _HEX_ROW)
    return "\n".join(f"{offset + at:08x}  {data[at : at + _HEX_ROW].hex(' ', -4)}" for at in rows)


def _matches(matches: Sequence[Match]) -> str:
    """Where there is context, `--` stands between lines that do not follow each other, as grep writes it."""
    shown: list[str] = []
    end = 0  # of the line that is shown last
    in_context = any(match.context for match in matches)
    for match in matches:
        begin = match.context[0].start if match.before else match.text_byte
        if in_context and shown and (begin > end + 2 or match.cut_left):
            shown.append("--")
        shown.append(_match(match))
        end = match.context[-1].end if match.after else match.text_end
    return "\n".join(shown)


def _match(match: Match) -> str:
    left, right = "…" if match.cut_left else "", "…" if match.cut_right else ""
    around = [*(f"    {line}" for line in match.before)]
    # A line that is shown whole is found again by its number; of a longer one, the byte is needed.
    byte = f" (byte {match.byte})" if left or right else ""
    around.append(f"L{match.line}{byte}  {left}{match.text}{right}")
    around += [f"    {line}" for line in match.after]
    return "\n".join(around)


def _cell(value: object) -> str:
    if isinstance(value, str):
        is_odd = "\n" in value or " | " in value or value == "NULL"  # that stands for none
        return json.dumps(value, ensure_ascii=False) if is_odd else value
    return "NULL" if value is None else json.dumps(value, ensure_ascii=False, default=str)


def _lines(lines: Span | None, total: int) -> str:
    if lines is None:
        return f"no lines of {total}"
    if lines.start == lines.end:
        return f"line {lines.start} of {total}"
    return f"lines {lines.start}–{lines.end} of {total}"


def _as_much(passage: Passage) -> dict[str, Any]:
    """As much again, after a range that was shown whole: by lines where it was made of lines. Nothing at the end."""
    if passage.bytes.end >= passage.total.bytes or passage.state == "running":
        return {}
    if passage.lines is not None and passage.data.endswith(b"\n"):
        first, number = passage.lines.end + 1, passage.lines.end - passage.lines.start + 1
        return {"lines": f"{first}:{first + number - 1}"}
    # From where a character begins, whose rest would not be shown without it; never less than one character.
    start = passage.bytes.end - passage.split[1]
    size = max(_LONGEST_CHARACTER if passage.split[1] else 1, passage.bytes.end - passage.bytes.start)
    return {"bytes": f"{start}:{start + size}"}


def _ranges(passage: Passage) -> list[str]:
    """In bytes and in chars, in one where these are the same. Without commas: places are arguments of other calls."""
    total = passage.total
    of_bytes = f"{_range(passage.bytes)} of {total.bytes}"
    if passage.chars == passage.bytes and total.chars == total.bytes:
        return [f"bytes and chars {of_bytes}"]
    return [f"bytes {of_bytes}", f"chars {_range(passage.chars)} of {total.chars}"]


def _range(span: Span) -> str:
    return f"{span.start}–{span.end}"
