"""What a model sees in place of an output that does not fit: what it is, its handle, its outline, how to continue.

Everything that comes from the output is inside a fence with a tag that nobody could have foreseen: it is data. Only the
calls that continue are outside and have short values of it, as arguments. The notice stands beside the data, never
inside it. This module reads nothing: what it shows is handed in. It is never longer than its token budget, whatever the
output: parts have ranks, and those that do not fit are left out. The first sentence and the handle stay.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, islice
from math import ceil

from holdall.formats import Lead
from holdall.formats.registry import format_of
from holdall.text.escape import for_people, foreign, one_line
from holdall.text.excerpt import beginning, ending
from holdall.text.numbers import grouped, plural, roughly
from holdall.text.tokens import Estimate, Tokenizer
from holdall.values.errors import TOOL_SAID_FAILED
from holdall.values.handles import MEMBER
from holdall.values.outputs import Facts
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.wire.answers import fenced, told_change, told_difference
from holdall.wire.dialect import PREVIEW_BYTES, View, as_a_call, as_a_command
from holdall.wire.notes import FAILED_WITH, all_is_kept, stopped_short

# How many tokens a short text has at most, where nothing is at hand that can count them.
#
# An estimate for a bill may be a little low; one for a limit must not be. So what is not plain language is taken for
# the worst that it can be: letters in disorder, signs one by one, rare characters by their bytes. Plain language comes
# out about a quarter too high. A tokenizer that counts is believed.


# What is not a word, nor the space before one, in pieces; words are matched only to be stepped over.
_OTHERS = lazy_pattern(
    r"[A-Za-z]+| (?=[A-Za-z])|([0-9]+| +|[\t\n]+|-{4,}|={4,}|_{4,}|\*{4,}|#{4,}"
    r"|=\"|\",|\"\)|\(\"|\":|\{\"|\"\}|\}\]|\},|\],|\[\{|[·…→–−×]"
    # Letters of Latin-1, Greek, Cyrillic, Hebrew and Arabic are one token each at most.
    r"|[\u00c0-\u00ff\u03b1-\u03c9\u0410-\u044f\u05d0-\u05ea\u0627-\u063a\u0641-\u064a]+"
    r"|[\x80-\u07ff]+|[\u0800-\uffff]+|[\U00010000-\U0010ffff]+|.)",
    re.DOTALL,
)
_LETTER = lazy_pattern(r"[\u00c0-\u00ff\u03b1-\u03c9\u0410-\u044f\u05d0-\u05ea\u0627-\u063a\u0641-\u064a]")
_SPARE = 1.06  # what pieces cost more beside each other than alone
_PART = lazy_pattern(r"[A-Z]?[a-z]+|[A-Z]+")
_SPEAKABLE = lazy_pattern(
    # Possessive: vowels without end would take without end.
    r"(?:[bcdfghjklmnpqrstvwxz]{0,3}+[aeiouy]{1,2}+)++[bcdfghjklmnpqrstvwxz]{0,4}+",
    re.IGNORECASE | re.ASCII,
)
_WORDS = """
a an and any are as at be by can do for from has have if in into is it its last line lines first more most no not of on
or rows row so text than that the there this to total up use user was with your bytes byte call code columns config
count created data date day error errors failed false file files get handle host http https id info int float str key
keys like message name names null number open page path pattern port query read request result select server session
sql start started state status string test tests time title token type url value values version warning true tokens
kept distinct often context grep group limit
"""
_COMMON = frozenset(_WORDS.split())
_REMEMBERED = 400  # characters
_SHORT, _LONG = 2, 16  # letters; so short words are nothing to go by, and so long ones are none
_FEW = 0.1  # where fewer of the words are common ones, it is not a language that is known here


def counter(tokenizer: Tokenizer) -> Callable[[str], int]:
    """What counts the tokens of a text, never too few, and never fails."""
    if isinstance(tokenizer, Estimate):
        return at_most

    def count(text: str) -> int:
        try:
            return tokenizer.count(text)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # tokenizers written in Rust panic with what is no Exception
            return at_most(text)

    return count


def overcount(tokenizer: Tokenizer) -> float:
    """By how much that is too high: for what is only an aim, and no limit."""
    return 1.2 if isinstance(tokenizer, Estimate) else 1.0


def at_most(text: str) -> int:
    return _remembered(text) if len(text) <= _REMEMBERED else _at_most(text)


@lru_cache(maxsize=512)
def _remembered(text: str) -> int:
    """A line of an outline is counted when the outline is chosen, and again when the notice is."""
    return _at_most(text)


def _at_most(text: str) -> int:
    parts, others = Counter(_PART.findall(text)), Counter(_OTHERS.findall(text))
    common = sum([times for part, times in parts.items() if len(part) > _SHORT and part.lower() in _COMMON])
    strange = common < _FEW * parts.total()
    known, seen = _known_word, _known_other  # what is long is not remembered
    found = sum(
        [
            times * (known(part, strange) if len(part) <= _LONG else _word(part, strange))
            for part, times in parts.items()
        ]
    )
    found += sum([times * (seen(piece) if len(piece) <= _LONG else _other(piece)) for piece, times in others.items()])
    return ceil(found * _SPARE)


def _other(piece: str) -> float:
    """What a piece that is not a word costs at most: of what is not named here, a token for each byte."""
    length, first = len(piece), piece[:1]
    if not piece:  # a word, or the space before one, which costs nothing
        return 0.0
    if first in "0123456789":
        return ceil(length / 3)
    if first == " ":
        return max(1.0, 0.05 * length)
    if first in "\t\n":
        return max(1.0, 0.7 * length)
    if first < "\x80":  # signs: two that often stand together are one token, of a rule many are
        return 3.0 + length / 16 if length > 2 else 1.0
    if first in "·…→–−×" or _LETTER.match(first):
        return float(length)
    return float(length * (2 if first < "\u0800" else 3 if first < "\U00010000" else 4))


def _word(part: str, strange: bool) -> float:
    if len(part) <= _SHORT or part.lower() in _COMMON:
        return 1.0 if part.islower() or len(part) == 1 else 1.4
    if part.isupper():
        return 1.0 if len(part) == _SHORT + 1 and not strange else len(part) / 1.6
    if not _SPEAKABLE.fullmatch(part):
        return max(1.0, len(part) / 1.4)
    if strange or len(part) > _LONG:
        return max(1.0, len(part) / 1.9)
    return 1.0 + max(0.0, (len(part) - 7) / 5)


_known_word, _known_other = lru_cache(maxsize=4096)(_word), lru_cache(maxsize=1024)(_other)


# The first and the last lines of an output as they are in a notice: each cut at a byte cap, with its number.
#
# What is cut says so. Lines without a letter or a digit tell nothing and are passed over, and so are tags that only
# close or declare something. Nothing here reads: the two ends are handed in.


LINE_BYTES = 80
_TELLS = lazy_pattern(rb"(?:\s|</[^>\n]{0,80}>|<[?!][^>\n]{0,300}>|[^0-9A-Za-z\x80-\xff<])*+[0-9A-Za-z\x80-\xff<]")
_HEX_ROW = 16
_ENDS_OF_LINES = dict.fromkeys(map(ord, "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")


@record
class End:
    """`text` as it is shown, `span` the bytes of the output that are in it, `line` the number; 0 for none."""

    text: str
    span: Span
    line: int = 0


def first_lines(view: View, most: int) -> list[End]:
    if format_of(view.facts.measure.kind).is_binary:
        # Of what is packed, the packed bytes tell nothing.
        return [] if format_of(view.facts.measure.kind).is_opened else _rows(view.head, most)
    whole = len(view.head) >= view.facts.measure.bytes
    found: list[End] = []
    at = 0
    for number, line in enumerate(_lines(view.head), start=1):
        start, at = at, at + len(line) + 1
        # The last one is cut where the glimpse ends.
        known = whole or at <= len(view.head)
        if _TELLS.match(line) and (known or not found):
            found.append(_beginning(view, number, start, line, known))
        if len(found) == most:
            break
    return found


def last_lines(view: View, most: int) -> list[End]:
    """Those that `first_lines` does not have already."""
    measure = view.facts.measure
    if format_of(measure.kind).is_binary or (measure.lines <= 1 and measure.bytes <= LINE_BYTES):
        return []
    start = measure.bytes - len(view.tail)
    lines = _lines(view.tail)
    number = measure.lines
    found: list[End] = []
    at = measure.bytes - view.tail.endswith(b"\n")
    for index in range(len(lines) - 1, -1, -1):
        line, at = lines[index], at - len(lines[index])
        if number > 1 and index == 0 and start and len(lines) > 1:
            break  # its beginning may be missing
        if _TELLS.match(line):
            begins_here = not start or index > 0
            found.append(_beginning(view, number, at, line, known=True) if begins_here else _ending(number, at, line))
        number, at = number - 1, at - 1
        if len(found) == most:
            break
    return found[::-1]


def _beginning(view: View, number: int, start: int, line: bytes, known: bool) -> End:
    kept = beginning(line.removesuffix(b"\r"), LINE_BYTES)
    line_end = next((len(end) for end in (b"\r\n", b"\n") if view.tail.endswith(end)), 0)
    left = (
        view.facts.measure.bytes - line_end - kept.end
        if view.facts.measure.lines <= 1
        else kept.omitted
        if known
        else PREVIEW_BYTES
    )
    more = "" if left <= 0 else f" … +{plural(left, 'byte')}" if known or view.facts.measure.lines <= 1 else " …"
    return End(f"L{number:,}  {_shown(kept.text)}{more}", Span(start, start + kept.end), number)


def _ending(number: int, at: int, line: bytes) -> End:
    """Of a line whose beginning is far away, its end."""
    kept = ending(line, LINE_BYTES)
    return End(f"L{number:,}  … {_shown(kept.text)}", Span(at + kept.start, at + len(line)), number)


def _shown(text: str) -> str:
    """A carriage return or a form feed inside of a line must not look like the end of it."""
    return text.translate(_ENDS_OF_LINES)


def _lines(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return lines[:-1] if lines and lines[-1] == b"" else lines


def _rows(head: bytes, most: int) -> list[End]:
    starts = range(0, min(most * _HEX_ROW, len(head)), _HEX_ROW)
    return [
        End(f"{at:08x}  {head[at : at + _HEX_ROW].hex(' ')}", Span(at, min(len(head), at + _HEX_ROW))) for at in starts
    ]


# How to continue from a notice: calls with real values, ready to copy, the most useful first.
#
# Each runs as it is, is answered in under 600 tokens, and tells what the notice does not: what is worth counting by or
# looking up in this output (the leads of its outline), what is around its first error, and then its ends.


MOST = 3
READ_TOKENS = 400  # of the lines that one call reads
_READ_LINES = 20
_READ_HEX = 128  # bytes of binary data
_VALUES, _MATCHES, _ROWS = 10, 3, 20  # that one call shows
_ARGUMENT = 240  # characters: SQL with a few names of the output in it
_PATTERN = 80
_WORD = lazy_pattern(r"""(?s)"[^"]*"?|'[^']*'?|[^\s"']+""")
_LONGEST_WORD = 60


def next_calls(view: View) -> list[str]:
    """At most three. What is worth reading comes second, and last asks a model where there is one.

    Of an output of nothing there is nothing to ask.
    """
    if not view.facts.measure.bytes:
        return []
    leads = view.outline.leads if view.outline is not None else ()
    short = (lead for lead in leads if all(_is_short(view, name, str(one)) for name, one in lead.arguments.items()))
    calls = [_call(view, lead.verb, _short_answer(lead), lead.member) for lead in islice(short, MOST)]
    if view.near is not None:
        calls.insert(1, _call(view, "read", {"lines": f"{view.near[0]}:{view.near[1]}"}))
    packed = leads and format_of(view.facts.measure.kind).is_opened  # its bytes tell nothing
    if len(calls) < MOST - 1 and not packed:
        calls.append(_read_beginning(view))
    has_ends = view.outline is None or view.outline.ends
    if (
        len(calls) < MOST
        and view.facts.measure.kind in (*_LOGS, "text")
        and has_ends
        and (lines := _lines_at_end(view))
    ):
        calls.append(_call(view, "tail", {"lines": lines}))
    if view.extracts:
        inside = {lead.member for lead in leads}
        handle = view.handle + (MEMBER if inside == {MEMBER} else "")  # of one packed text
        asks = f'tool_output(handle="{handle}", extract="…")'
        calls[MOST - 1 :] = [asks if view.shell is None else f"holdall extract {handle} '…'{view.shell}"]
    return list(dict.fromkeys(calls))[:MOST]


def _call(view: View, verb: str, arguments: Mapping[str, str | int | bool], member: str = "") -> str:
    if view.shell is None:
        if arguments.get("group"):  # the tool shows few values unless it is asked for more; a pipe in a shell gets all
            arguments = {name: value for name, value in arguments.items() if name != "limit"}
        return as_a_call(verb, view.handle + member, arguments)
    return as_a_command(view.shell, verb, view.handle + member, arguments)


def _is_short(view: View, name: str, value: str) -> bool:
    """Names of an output stand in it outside of the fence: none may be a sentence."""
    most = _ARGUMENT if name == "sql" else _PATTERN
    if view.shell is not None and (for_people(value) != value or not value.isprintable()):
        return False  # a shell takes no escapes for what cannot be seen
    return len(value) <= most and all(len(word[0]) <= _LONGEST_WORD + 2 for word in _WORD.finditer(value))


def _short_answer(lead: Lead) -> dict[str, str | int | bool]:
    """Its arguments, with a bound on what is shown."""
    arguments = dict(lead.arguments)
    if "sql" in arguments:
        sql = str(arguments["sql"])
        return {**arguments, "sql": sql if " limit " in sql else f"{sql} limit {_ROWS}"}
    if lead.verb == "read" or arguments.get("count") or "*" not in str(arguments.get("path", "*")):
        return arguments
    arguments.setdefault("limit", _VALUES if lead.verb == "query" or arguments.get("group") else _MATCHES)
    return arguments


def _read_beginning(view: View) -> str:
    measure, count = view.facts.measure, counter(view.tokenizer)
    if format_of(measure.kind).is_binary:
        return _call(view, "read", {"bytes": f"0:{min(_READ_HEX, measure.bytes)}"})
    whole = _lines(view.head)
    if len(view.head) < measure.bytes and not view.head.endswith(b"\n"):
        del whole[-1:]  # it goes on behind the glimpse, nobody knows how far
    lines = _fitting(whole, count)
    # A header alone is told already: then part of the long line below it is read, too.
    is_much = lines in (_READ_LINES, measure.lines) or count(_text_of(whole[:lines])) * 4 > READ_TOKENS
    if lines and is_much:
        return _call(view, "read", {"lines": f"1:{lines}"})
    size = len(view.head)
    while count(view.head[:size].decode("utf-8", "replace")) > READ_TOKENS:
        size = size * 2 // 3
    return _call(view, "read", {"bytes": f"0:{size}"})


def _text_of(lines: list[bytes]) -> str:
    return b"\n".join(lines).decode("utf-8", "replace")


def _lines_at_end(view: View) -> int:
    return _fitting(_lines(view.tail)[:0:-1], counter(view.tokenizer))


def _fitting(lines: list[bytes], count: Callable[[str], int]) -> int:
    """How many of the lines one short answer holds."""
    tokens = accumulate(count(line.decode("utf-8", "replace")) + 1 for line in lines[:_READ_LINES])
    return sum(each <= READ_TOKENS for each in tokens)


_TOOL_CHARS, _TOOL_TOKENS = 60, 24  # of a tool's name, which comes from outside
_SERVER_CHARS, _SERVER_TOKENS = 40, 12  # of its server's
_ERROR_CHARS, _ERROR_TOKENS = 60, 20
_MORE_OF_ERROR = 300  # characters, inside the fence
_ERROR_RANKS = (14, 30, 83)
_FIRST = 3  # lines of a text; of anything else one
_PLACE = lazy_pattern(r"\bL(\d{1,3}(?:,\d{3})*)\b")
_LOGS = ("log", "access log")
_PLAIN_NAME = lazy_pattern(r"\w[\w ./@…-]*")
_CALL_RANKS = (1, 60, 82)
_ENOUGH = 0.55  # of the tokens of a notice: a longer one says nothing extra
_FENCE = 6  # tokens that a fence and the ends of lines cost besides what is counted


@record
class _Part:
    """Something that may be shown: how soon it is chosen, where it then stands, and the bytes that are in it."""

    rank: int
    text: str
    place: int = 0
    end: End | None = None
    is_call: bool = False
    is_extra: bool = False  # said only where little is said: a strong model asks for it, a short notice has room for it


def notice(view: View) -> str:
    return _written(view, _chosen(view))


def shown_by_notice(view: View) -> tuple[Span, ...]:
    """The bytes that are in a notice as they are stored: of first and last lines, errors, what its outline quotes."""
    return _spans(view, _chosen(view))


def _spans(view: View, chosen: "list[_Part]") -> tuple[Span, ...]:
    if format_of(view.facts.measure.kind).is_binary:
        return ()
    spans = [part.end.span for part in chosen if part.end is not None]
    return tuple(span for span in spans if span.start < span.end)


def notice_and_shown(view: View, *, calls: bool = True) -> tuple[str, tuple[Span, ...]]:
    """Both, for the price of one. Without `calls` for a dialect whose tools are others."""
    chosen = _chosen(view, calls=calls)
    return _written(view, chosen), _spans(view, chosen)


def with_call(text: str, call: str) -> str:
    """A notice without calls, in a dialect that has this one."""
    return f"{text}\nNext: {call}" if call else text


def running_notice(view: View) -> str:
    """For a call that goes on in the background: its output so far can be read at once."""
    tool, handle, newline = _tool(view.facts, counter(view.tokenizer)), view.handle, "\n" if view.mark else ""
    if view.facts.state == "queued":
        says = "is queued: other calls run already. It starts by itself, and what it writes is kept."
    else:
        says = "is still running. What it writes is kept, and can be read while it runs."
    return (
        f"{tool} {says}\n"
        f"handle: {handle}\n"
        f"{view.mark}{newline}"
        f'Next: wait_for_tool_output(handle="{handle}") · context_tail(handle="{handle}")'
    )


def summary(facts: Facts) -> str:
    """One line for a person: the handle and what it holds."""
    return f"{facts.handle}  {_size_and_kind(facts, facts.measure.kind)}"


# What is shown


_DRAWN = "0b7d3f1c9g5h"  # letters and digits in turn, so that each is a token
_DRAWN_DIGITS = "402913587164"


def _parts(view: View) -> list[_Part]:
    """In the order in which they stand: the outline, the first and last lines, the errors, the calls."""
    outline = view.outline.lines if view.outline is not None else ()
    places = view.error_spans or (Span(0, 0),) * len(view.errors)
    errors = [End(text, span, number) for (number, text), span in zip(view.errors, places, strict=True)]
    spans = view.outline_spans or (Span(0, 0),) * len(outline)
    parts = [
        _Part(0 if at == 0 else 10 + at, line, end=End(line, span))
        for at, (line, span) in enumerate(zip(outline, spans, strict=True))
    ]
    if len(view.facts.error) > _ERROR_CHARS:  # more of it than a sentence may hold
        parts.insert(0, _Part(3, f"error: {one_line(view.facts.error, _MORE_OF_ERROR)}"))
    told = {int(number.replace(",", "")) for line in outline for number in _PLACE.findall(line)}
    first, last = _ends(view, told)
    newest = view.facts.measure.kind in _LOGS  # the last line of a log tells most, the first one of anything else
    # Of a text of which there is little to tell, the two ends tell what it is like.
    shaped = view.facts.measure.kind != "text" or len(outline) > 1
    parts += [
        _Part(100 + at if at else 81 if newest else 80, end.text, end=end, is_extra=shaped or at > 0)
        for at, end in enumerate(first)
    ]
    parts += [_Part(80 if newest else 81, end.text, end=end, is_extra=shaped) for end in last]
    told |= {end.line for end in first + last}
    said = "\n".join(outline)
    alone = view.outline is not None and not view.outline.ends  # such an outline tells the errors, too
    wrong = [end for end in errors if not alone and end.line not in told and end.text not in said]
    some_told = len(wrong) < len(errors)
    parts += [
        _Part(rank, f"L{end.line:,}  {end.text}", end=end, is_extra=some_told or rank != _ERROR_RANKS[0])
        for rank, end in zip(_ERROR_RANKS, wrong, strict=False)
    ]
    calls = [_Part(_CALL_RANKS[at], call, is_call=True, is_extra=at > 0) for at, call in enumerate(next_calls(view))]
    return [replace(part, place=place) for place, part in enumerate(parts + calls)]


def _ends(view: View, told: set[int]) -> tuple[list[End], list[End]]:
    """The first and the last lines, where they tell something that is not told already."""
    if view.outline is not None and not view.outline.ends:
        return [], []
    measure = view.facts.measure
    first = first_lines(view, _FIRST if measure.kind == "text" or view.outline is None else 1)
    said = "\n".join(view.outline.lines) if view.outline is not None else ""
    first = [end for end in first if (end.line not in told and not _is_in(end, said)) or not end.line]
    known = told | {end.line for end in first} if measure.lines > 1 else set[int]()
    return first, [end for end in last_lines(view, 1) if end.line not in known]


def _is_in(end: End, said: str) -> bool:
    """As words of it, not inside of one: the line `a` is not told by "paragraph"."""
    text = end.text.partition("  ")[2]
    return text in said and re.search(rf"(?<!\w){re.escape(text)}(?!\w)", said) is not None


def _steady(view: View) -> Callable[[str], int]:
    """Counts with stand-ins for handle, mark and tag, which cost as much as any: so what a notice says of an output
    does not depend on what was drawn for it.
    """
    count = counter(view.tokenizer)
    stand_ins = (
        (view.tag, _DRAWN_DIGITS if view.tag.isdigit() else _DRAWN),
        (view.mark, _DRAWN),
        (view.handle, _DRAWN),
    )
    drawn = [(one, of[: len(one)]) for one, of in stand_ins if one and len(one) <= len(of)]

    def steady(text: str) -> int:
        for one, stand_in in drawn:
            text = text.replace(one, stand_in)
        return count(text)

    return steady


def _whole(view: View) -> _Part | None:
    """All of an output that is kept because it holds the mark, and not for its size: in the fence it does no harm."""
    measure = view.facts.measure
    if not view.imitates or not measure.utf8 or measure.bytes > len(view.head):
        return None
    text = view.head.decode("utf-8", "replace").removesuffix("\n")
    return _Part(0, text, end=End(text, Span(0, measure.bytes)))


def _chosen(view: View, *, calls: bool = True) -> list[_Part]:
    """As many as fit, the most important first."""
    count = _steady(view)
    if (whole := _whole(view)) is not None and count(_written(view, [whole])) <= view.most_tokens:
        return [whole]
    room = view.most_tokens - count(_written(view, [])) - count(view.tag) * 2 - _FENCE
    spare = (1 - _ENOUGH * overcount(view.tokenizer)) * view.most_tokens
    chosen: list[_Part] = []
    for part in sorted(_parts(view), key=lambda part: part.rank):
        if part.is_call and not calls:
            continue
        cost = count(part.text) + 2
        if cost <= (room - spare if part.is_extra else room):
            chosen.append(part)
            room -= cost
    # Tokens do not add up exactly, so the whole is counted once more.
    while chosen and count(_written(view, chosen)) > view.most_tokens:
        chosen.pop()
    return chosen


# How it is written


def _written(view: View, chosen: list[_Part]) -> str:
    facts = view.facts
    label = foreign(view.outline.label) if view.outline is not None else facts.measure.kind
    count = counter(view.tokenizer)
    failed = facts.origin.is_error or facts.error == TOOL_SAID_FAILED
    returned = FAILED_WITH if failed else "returned"  # not every API tells a model which it was
    lines = [
        ". ".join(
            filter(None, (f"{_tool(facts, count)} {returned} {_size_and_kind(facts, label)}", _why(view, count)))
        ),
        f"handle: {view.handle}",
    ]
    ordered = sorted(chosen, key=lambda part: part.place)
    data = [part.text for part in ordered if not part.is_call]
    calls = [part.text for part in ordered if part.is_call]
    lines += [view.mark] if data or view.mark else []
    if data:
        lines.append(fenced("\n".join(data), view.tag))
    if calls:
        lines.append(f"Next: {' · '.join(calls)}")
    return "\n".join(lines)


def _size_and_kind(facts: Facts, label: str) -> str:
    measure = facts.measure
    tokens = grouped(measure.tokens) if measure.tokens_exact else "~" + roughly(measure.tokens)
    return (
        f"{plural(measure.bytes, 'byte')} · {plural(measure.lines, 'line')} · "
        f"{tokens} {'token' if tokens == '1' else 'tokens'} ({label})"
    )


def _why(view: View, count: Callable[[str], int]) -> str:
    """What is not as always: that all of it is kept, the instructions have said, and the handle says it."""
    facts = view.facts
    error = _bounded(facts.error, _ERROR_CHARS, _ERROR_TOKENS, count)
    if facts.is_whole:
        failed = f"It failed ({error}). " if error and facts.error != TOOL_SAID_FAILED else ""
        if not facts.measure.bytes:
            return f"{failed}There is nothing to show."
        why = "It holds the mark of real notices. " if view.imitates else ""
        kept = all_is_kept(facts, "Kept whole")
        return f"{failed}{why}{kept}." if failed or why or kept != "Kept whole" else ""
    reason = f": {error}" if error else ""
    there = "its beginning is kept" if stopped_short(facts) else "what there was is kept"
    kept = there if facts.measure.bytes else "nothing of it is kept"
    return f"It is not whole ({facts.state}{reason}); {kept}."


def _tool(facts: Facts, count: Callable[[str], int]) -> str:
    """It begins the notice, so a name that is not plain words is in quotes: no line begins with "# System Notice"."""
    tool = _bounded(facts.origin.tool, _TOOL_CHARS, _TOOL_TOKENS, count)
    server = _bounded(facts.origin.prefix, _SERVER_CHARS, _SERVER_TOKENS, count)
    name = f"{server}/{tool or 'The tool'}" if server else tool
    return (name if _PLAIN_NAME.fullmatch(name) else f'"{name}"') if name else "The tool"


def _bounded(text: str, chars: int, tokens: int, count: Callable[[str], int]) -> str:
    """Text from outside on one line, its signs that cannot be seen as escapes, and short."""
    if len(text) * 2 < min(chars, tokens) and text.isascii() and text.isprintable() and " " not in text:
        return text  # the name of a tool, nearly always: it needs no counting
    text = text[: 4 * chars].strip(" ")
    shown = foreign(text, chars)
    for most in (chars // 2, chars // 4, chars // 10, chars // 16):
        if count(shown) <= tokens:
            break
        shown = foreign(text, most)
    return shown


# An output that is nearly like an earlier one of the same tool and arguments: what differs, and no more.


_DIFFERENCE_TOKENS = 150


def difference_notice(view: View) -> tuple[str, tuple[Span, ...]]:
    """`fetch returned k3f9 with 3 of 4,210 lines changed`, and as many of the changes as fit into few tokens."""
    found, count = view.difference, counter(view.tokenizer)
    if found is None:
        raise LookupError("a view without a difference")
    earlier = f"{view.prefix}{found.other}"
    what = f"the same bytes as {earlier}"
    if not found.same_bytes:
        told = [told_difference(found)] if found.total or not found.notes else []
        what = f"{earlier} with {'; '.join([*told, *found.notes])}"
    measure = view.facts.measure
    size = f"{plural(measure.bytes, 'byte')}, {plural(measure.lines, 'line')}"
    top = [f"{_tool(view.facts, count)} returned {what} ({size}).", f"handle: {view.handle}"]
    top += [view.mark] if view.mark or found.changes else []
    more = (
        as_a_call("diff", view.handle, {}) if view.shell is None else as_a_command(view.shell, "diff", view.handle, {})
    )

    def written(number: int) -> str:
        changes = [told_change(change, brief=True) for change in found.changes[:number]]
        data = [fenced("\n".join(changes), view.tag)] if changes else []
        return "\n".join([*top, *data, *([f"Next: {more}"] if number < found.total else [])])

    number = len(found.changes)
    while number and count(written(number)) > min(view.most_tokens, _DIFFERENCE_TOKENS):
        number -= 1
    return written(number), replace(found, changes=found.changes[:number]).shown_of(found.handle)
