"""Logs and other text: stack traces where there are any, the shapes of lines where they repeat, else its paragraphs;
and errors that are outside of the sample.
"""

import re
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import stringzilla

from holdall.formats.heads import MONTHS, Head, Tally, day_number, head_of, requests, tally
from holdall.formats.leads import text_leads, word_lead
from holdall.formats.lines import complaint, error_lines, is_in, merged, parts, sample_named, summary
from holdall.formats.outline import (
    MAX_ERRORS,
    Lead,
    Lines,
    Outline,
    Room,
    Sample,
    all_of,
    cut,
    cut_bytes,
    figure,
    fitted,
    share,
    split,
    spread,
    thinned,
)
from holdall.formats.shapes import Shapes, mine
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# Errors that are outside of the sample: all of an output that is not too large is searched for a few words.
#
# To find nothing costs a tenth of a millisecond for each megabyte. A word that stands everywhere is not looked for.


_WORDS = (
    b"ERROR",
    b"FATAL",
    b"CRITICAL",
    b"PANIC",
    b"panic: ",
    b"Traceback (most",
    b"Exception",
    b"FAILED",
    b"error: ",
    b"fatal: ",
)
_OFTEN = 40  # a word that the sample has more often says nothing about what is rare
_TRIES = 20  # places of one word that are looked at
_MOST = 20  # errors in all
_LINE = 2000  # bytes in which the end of a line is looked for
_BEFORE = 240  # bytes in which its start is


def far_errors(sample: Sample) -> list[tuple[int, str]]:
    """Lines that say so at the place where errors do, with the byte at which each starts, in their order."""
    # Of a small output all was read: its words are searched for once, and counted on the way.
    words = [word for word in _WORDS if sample.whole or sample.count(word) <= _OFTEN]
    seen = {word: list[tuple[int, bytes]]() for word in words}
    for start, data in all_of(sample, overlap=_LINE):
        for word, places in seen.items():
            lines = islice(_lines_with(data, word), _OFTEN + 1 - len(places))
            places.extend((start + at, line) for at, line in lines)
    found: dict[int, str] = {}
    for places in seen.values():
        if sample.whole and len(places) > _OFTEN:
            continue
        for at, line in places[:_TRIES]:
            if len(found) < _MOST and complaint(line[:400].decode("utf-8", "replace")) > 1:
                found.setdefault(at, cut_bytes(line))
    return sorted(found.items())[:MAX_ERRORS]


def _lines_with(data: bytes, word: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that have the word, each once; of a very long one what is around it."""
    at = stringzilla.find(data, word)
    while at >= 0:
        begin = data.rfind(b"\n", max(0, at - _BEFORE), at) + 1 or max(0, at - _BEFORE // 3)
        end = data.find(b"\n", at, at + _LINE)
        end = min(len(data), at + _LINE) if end < 0 else end
        yield begin, data[begin:end]
        at = stringzilla.find(data, word, end) if end < len(data) else -1


# Stack traces of Python, Java, JavaScript, Go and Rust: which exception, how often, and the innermost frames.


_MAX_TRACES = 400  # traces of each language that are looked at, over all that was read
_LONGEST = 400_000  # bytes of one: Python tells a thousand frames
_LOOKED_THROUGH = 4_000_000  # bytes of all that have no end
_TRACE_LINE = 4000  # bytes in which the ends of a line are looked for
_PYTHON, _GROUP = b"Traceback (most recent call last):", b"+ Exception Group "
_BEGINS = lazy_pattern(re.escape(_PYTHON) + rb"(?:\x1b\[[\d;]{0,20}m)?\r?\n[^\n]{0,400}?\bFile .{0,20}\"")
_FILE = lazy_pattern(rb'File "(?P<file>[^"\n]{1,300})", line (?P<line>\d+)(?:, in (?P<name>[^\n]{1,100}))?')
_AT = lazy_pattern(rb"[ \t]{1,16}at (?P<frame>[^\n]{1,300})")
_BLOCK = lazy_pattern(rb"(?:(?:[ \t]{1,16}(?:at |\.\.\. \d|Caused by: )|Caused by: )[^\n]{0,2000}(?:\n|\Z)){1,2000}")
_GO_FRAME = lazy_pattern(rb"\n\t(?P<frame>\S+\.go:\d+)")
_THROWN = lazy_pattern(rb"\b[\w.$]{0,200}(?:Exception|Error|Throwable|Failure)\b[^\n]{0,300}")


@record(frozen=False)
class Trace:
    language: str
    message: str
    frames: list[str]  # innermost first
    start: int
    end: int
    times: int = 1
    more: bool = False  # not all that was read was looked at for it


def traces(sample: Sample) -> list[Trace]:
    """Distinct traces in the order of the text, each with how often it was seen."""
    known: dict[tuple[str, str], Trace] = {}
    most = max(4, _MAX_TRACES // max(1, len(sample.pieces)))
    more = not sample.whole
    for start, data in sample.pieces:
        for find in (_python, _at_lines, _go, _rust):
            found = list(islice(find(data), most))
            more |= len(found) == most
            for trace in found:
                key = trace.message, trace.frames[0] if trace.frames else ""
                if key in known:
                    known[key].times += 1
                else:
                    trace.start += start
                    trace.end += start
                    known[key] = trace
    for trace in known.values():
        trace.more = more
    return sorted(known.values(), key=lambda trace: trace.start)


def told(trace: Trace, sample: Sample) -> str:
    times = f" × {figure(trace.times, not trace.more)}" if trace.times > 1 else ""
    frames = "".join(f" ← {cut(frame, 70)}" for frame in trace.frames[:2])
    return f"{sample.place(trace.start)} {cut(trace.message, 160)}{times}{frames}"


def _python(data: bytes) -> Iterator[Trace]:
    at, left = stringzilla.find(data, _PYTHON), _LOOKED_THROUGH
    while at >= 0:
        if not _BEGINS.match(data, at):  # sources and lists of them have the words, too
            at = stringzilla.find(data, _PYTHON, at + len(_PYTHON))
            continue
        start = _line_start(data, at)
        lead = data[start:at] if at - start < 64 else b""
        if lead.endswith(_GROUP):
            lead = lead.removesuffix(_GROUP) + b"| "
        frames, message, stop = deque[bytes](maxlen=3), b"", at + len(_PYTHON)
        for place, line in _lines(data, _line_end(data, at) + 1, min(_LONGEST, left)):
            rest = line.removeprefix(lead)
            found = _FILE.search(rest)
            if found:
                frames.append(b"%b:%b in %b" % (found[1].rsplit(b"/", 1)[-1], found[2], found[3] or b"?"))
            elif rest[:1] not in (b" ", b"\t") and rest.strip():
                message, stop = rest, place + len(line)
                break
        else:
            left -= _LONGEST
            frames.clear()  # the innermost may be further down
        text = _text(message) or "Traceback"
        yield Trace("python", text, [_text(frame) for frame in reversed(frames)], start, stop)
        at = stringzilla.find(data, _PYTHON, stop)


def _at_lines(data: bytes) -> Iterator[Trace]:
    at = 0
    places = {sign: stringzilla.find(data, sign) for sign in (b"\n\tat ", b"\n    at ")}
    for _ in range(_MAX_TRACES * 2):
        # What is not there is not looked for again.
        places = {
            sign: place if place >= at else stringzilla.find(data, sign, at)
            for sign, place in places.items()
            if place >= 0
        }
        found = min((place for place in places.values() if place >= 0), default=-1)
        if found < 0:
            return
        start = _line_start(data, found)
        thrown = _THROWN.search(data, max(start, found - 2000), found)
        block = _BLOCK.match(data, found + 1)
        end = block.end() if block else found + 1
        frames = [_text(each["frame"]) for each in islice(_AT.finditer(data, found + 1, min(end, found + 1200)), 3)]
        at = max(end - 1, found + 1)
        if thrown and frames:
            language = "java" if ".java" in frames[0] or ".kt" in frames[0] else "javascript"
            yield Trace(language, _text(thrown[0]), frames, start, end)


def _go(data: bytes) -> Iterator[Trace]:
    return _panics(data, b"panic: ", "go")


def _rust(data: bytes) -> Iterator[Trace]:
    return _panics(data, b"' panicked at ", "rust")


def _panics(data: bytes, sign: bytes, language: str) -> Iterator[Trace]:
    at = stringzilla.find(data, sign)
    for _ in range(_MAX_TRACES * 2):
        if at < 0:
            return
        start, end = _line_start(data, at), _line_end(data, at)
        if language == "rust" or (at == start and b"goroutine " in data[end : end + 4000]):
            below = list(_GO_FRAME.finditer(data, end, end + 4000))
            frames = [_text(match["frame"]) for match in below[:3]]
            yield Trace(
                language, _text(data[start:end]), frames, start, _line_end(data, below[-1].end()) if below else end
            )
        at = stringzilla.find(data, sign, end)


def _line_start(data: bytes, at: int) -> int:
    """Where the line of a byte starts, or what is shown of it."""
    low = max(0, at - _TRACE_LINE)
    return max(low, data.rfind(b"\n", low, at) + 1)


def _line_end(data: bytes, at: int) -> int:
    end = data.find(b"\n", at, at + _TRACE_LINE)
    return min(len(data), at + _TRACE_LINE) if end < 0 else end


def _lines(data: bytes, at: int, most: int) -> Iterator[tuple[int, bytes]]:
    """Whole lines, each with its place, in the next so many bytes."""
    stop = min(len(data), at + max(0, most))
    while at < stop:
        end = data.find(b"\n", at, stop)
        if end < 0 and stop < len(data):
            return
        end = stop if end < 0 else end
        yield at, data[at:end].rstrip(b"\r")
        at = end + 1


def _text(data: bytes) -> str:
    return cut(data[:400].decode("utf-8", "replace").strip(), 300)


_SECTION = lazy_pattern(
    r"(?:(?:chapter|section|part|appendix|article|annex)\s+[\dIVXLC]+\b.{0,80}|\d{1,2}(?:\.\d{1,2}){0,3}\.?\s+[A-Z].{2,80}"
    r"|[A-Z][A-Z0-9 ,:'&/-]{5,80})",
)
_THROWN_LINE = lazy_pattern(r"\w(Error|Exception)\b")
_BEGINNING = 1000  # bytes in which a word is looked for
_PROSE_LINE = 160
_LOOKED_AT = 4_000  # lines among which headings are looked for
_LOGS = ("log", "access log")
_STATUSES, _METHODS = 6, 3
_TOLD, _FEW = 4, 2  # stack traces that are told; so many surely are
_REQUESTS = 16_000  # up to so many are all read; of more, so many spread over them


def text_outline(sample: Sample, room: Room, *, kind: str) -> Outline:
    lines = split(sample)
    found = traces(sample)
    is_log = kind in _LOGS
    mined = mine(lines, head_of if is_log else _no_head)
    every = lines if lines.exact or not is_log else split(sample, every=True)
    counted = tally(every.texts, exact=every.exact) if is_log else None
    first = _summary(counted, every, kind) if counted else []
    label = "syslog" if counted and counted.programs and kind == "log" else kind
    if kind == "text" and sum((trace.end - trace.start) * trace.times for trace in found) * 2 > sample.size:
        label = f"{found[0].language} stack trace"
    thrown = [told(trace, sample) for trace in sorted(found, key=lambda trace: (trace.times, trace.start))[:_TOLD]]
    if len(found) > _FEW:  # first: perhaps there is no room for those that follow
        thrown.insert(0, f"at least {len(found):,} different stack traces")
    if is_log or _repeats(mined, lines):
        named = [named for named in sample_named(mined, lines) if not any(named in line for line in first)]
        known = [(trace.start, trace.end + 1) for trace in found]
        frequent, rare = parts(mined, lines, sample, room.after(first + named + thrown), known=known)
        first += named if frequent else []  # without shares there is nothing to name a sample for
        before = 4 if is_log else 0  # a log is told by what it is full of, then by what went wrong in it
        error_lines_shown = [*first, *frequent[:before], *thrown, *frequent[before:], *rare]
        leads = (*_first_leads(found, kind, first), *text_leads(mined, lines, counted, sample))
    else:
        prose = _prose(sample, lines, mined)
        error_lines_shown = thrown + prose
        words = [line.split(" ", 1)[-1] for line in prose[1:]] or [_plain_text(sample.head[:_BEGINNING])]
        leads = _first_leads(found, kind, first) or word_lead(words, sample)
    shown = fitted(error_lines_shown or ["only blank lines" if sample.size else "empty"], room)
    errors = _errors(found, mined, lines, [] if lines.exact else far_errors(sample))
    return Outline(label, shown, not mined.exact, errors, _ranges(found), leads)


def access_log_outline(sample: Sample, room: Room) -> Outline:
    return text_outline(sample, room, kind="access log")


# What `git log` writes: commits, their authors, and from when to when.


_COMMIT = lazy_pattern(
    rb"\ncommit (?P<id>[0-9a-f]{7,64})\b[^\n]{0,400}(?:\n(?!Author:)\w[^\n]{0,400}){0,6}"
    rb"\nAuthor: +(?P<author>[^\n<]{0,200}?) *(?:<[^\n]{0,200})?(?:\n(?!Date:|AuthorDate:)\w[^\n]{0,400}){0,6}"
    rb"\n(?P<dated>(?:Author)?Date): +(?P<date>[^\n]{1,60})(?:\n(?!commit )\w[^\n]{0,400}){0,4}"
    rb"(?:\n\r?\n {4}(?P<subject>[^\n]{0,300}))?"  # a commit may have no message
)
_BEGUN = lazy_pattern(rb"\ncommit [0-9a-f]{7}")
_HOURS, _ZONE = r"(?P<clock>\d\d:\d\d:\d\d)", r"(?:Z|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d))"
# As --date has them: default, iso and short, rfc. And what of each is its day; of others there is none.
_DATES = (
    (rf"\w{{3}} (?P<named>\w{{3}}) +(?P<day>\d{{1,2}}) {_HOURS} (?P<year>\d{{4}})(?: {_ZONE})?", r"\w+ \w+ \d+"),
    (rf"(?P<year>\d{{4}})-(?P<month>\d\d)-(?P<day>\d\d)(?:[ T]{_HOURS} ?{_ZONE}?)?", r"\d+-\d+-\d+"),
    (rf"\w{{3}}, (?P<day>\d{{1,2}}) (?P<named>\w{{3}}) (?P<year>\d{{4}}) {_HOURS} {_ZONE}", r"\w+, \d+ \w+ \d+"),
)
_READ_DATES = tuple(lazy_pattern(form, re.ASCII) for form, _ in _DATES)
_DRAWN = lazy_pattern(rb"^(?:[*|\\/_] ?)++", re.MULTILINE)
_ONE_LINE = lazy_pattern(
    rb"\n(?:[*|\\/_ .-]{0,60} )?(?:[0-9a-f]{7,14}|[0-9a-f]{40}|[0-9a-f]{64}) (?:\((?P<refs>[^()\n]{1,400})\) )?"
    rb"(?P<subject>\S[^\n]{0,300})"
)
_SIGNED = lazy_pattern(rb"\nAuthor: +([^\n<]{0,200})[^\n]{0,300}\n(?:Author)?Date: +([^\n]{1,60})")
_CLOCK = lazy_pattern(rb"\d\d:\d\d:\d\d")
_AUTHORS = 4
_SUBJECTS = 40
_ALL_STATUSES = lazy_pattern("(?:^|· )status [^…·]*(?:·|$)")  # in a summary: counted, and none left out
_HISTORY = 1024 * 1024  # bytes of a history of which every commit is read; of a longer one its lines are counted
_FIRST_COMMITS = 64 * 1024


def git_log_outline(sample: Sample, room: Room) -> Outline | None:
    """None if no commit can be read."""
    if not sample.head.lstrip()[:9].startswith((b"commit ", b"* commit ")):
        return _one_line_commits(sample, room)
    is_drawn = sample.head.lstrip().startswith(b"*")
    if is_drawn:  # without what is drawn at the left; lines stay where they are
        pieces = tuple((start, _DRAWN.sub(b"", data)) for start, data in sample.pieces)
        sample = replace(sample, pieces=pieces, line_at=None)
    if sample.whole and sample.size > _HISTORY and (counted := _counted(sample.head)):
        number, dates, authors = counted
        first = list(_commits(0, sample.head[:_FIRST_COMMITS]))
        shown = _subjects(first)
        told = _told_history(number, _days(dates), authors, exact=True)
        return _history(" · ".join(told), shown, number, sample, room, _history_leads(is_drawn, authors, first))
    looked = sample if sample.size <= _HISTORY else thinned(sample, _HISTORY / sample.size)
    found = [found for start, data in looked.pieces for found in _commits(start, data)]
    if not found:
        return None
    authors = Counter(match["author"] for _, match in found)
    begun = sum(len(_BEGUN.findall(data)) + _is_begun(start, data) for start, data in looked.pieces)
    exact = looked.whole and len(found) == begun  # else some are written in a way that is not known here
    told = _told_history(len(found), _days([match["date"] for _, match in found]), authors, exact=exact)
    shown = [(at, subject) for at, subject in _subjects(found) if at < len(looked.head)]
    leads = _history_leads(is_drawn, authors, found, exact=exact)
    return _history(" · ".join(told), shown, len(found), looked, room, leads, exact=exact)


def _is_begun(start: int, data: bytes) -> bool:
    """Whether the first line is that of a commit."""
    return not start and _BEGUN.match(b"\n" + data[:20]) is not None


def _subjects(found: list[tuple[int, re.Match[bytes]]]) -> list[tuple[int, bytes]]:
    """The first lines of messages; a commit may have none."""
    return [(_subject_at(at, match), match["subject"]) for at, match in found if match["subject"]][:_SUBJECTS]


def _told_history(number: int, days: tuple[str, str] | None, authors: Counter[bytes], *, exact: bool) -> list[str]:
    about = "" if exact else "at least "
    told = [f"{about}{plural(number, 'commit')}"]
    if days is not None:
        told.append(about + (days[0] if days[0] == days[1] else f"{days[0]} → {days[1]}"))
    named = ", ".join(f"{cut(_plain_text(name), 40)} {about}{times:,}" for name, times in authors.most_common(_AUTHORS))
    more = ", …" if len(authors) > _AUTHORS else ""
    return [*told, f"{about}{plural(len(authors), 'author')}: {named}{more}"]


def _counted(data: bytes) -> tuple[int, list[bytes], Counter[bytes]] | None:
    """How many commits, their dates and authors, by the lines that each has once; None where that is not so."""
    found = _SIGNED.findall(data)
    if not found or len(found) != data.count(b"\ncommit ") + data.startswith(b"commit "):
        return None
    authors = Counter[bytes]()
    for name, times in Counter(name for name, _ in found).items():
        authors[name.rstrip(b" ")] += times
    return len(found), [date.rstrip(b"\r ") for _, date in found], authors


def _days(dates: list[bytes]) -> tuple[str, str] | None:
    """The days of the first and the last of these; None if one of them cannot be read.

    Days are read, and of those that may be the first or the last the times: zones shift a date by less than a day.
    """
    days = _CLOCK.sub(b"12:00:00", b"\n".join(dates)).split(b"\n")
    noons = {day: _date(_plain_text(day).strip()) for day in set(days)}
    read = [noon[0][0] for noon in noons.values() if noon is not None]
    if not read or len(read) < len(noons):
        return None
    low, high = min(read) + 1440, max(read) - 1440
    near = {day for day, noon in noons.items() if noon is not None and (noon[0][0] <= low or noon[0][0] >= high)}
    ends: dict[bytes, tuple[bytes, bytes]] = {}
    for date, day in zip(dates, days, strict=True):
        if day in near:
            first, last = ends.get(day, (date, date))
            ends[day] = min(first, date), max(last, date)  # they differ in nothing but the time
    found = [_date(_plain_text(date).strip()) for pair in ends.values() for date in pair]
    known = sorted(filter(None, found))
    return (known[0][1], known[-1][1]) if len(known) == len(found) else None


def _history_leads(
    is_drawn: bool, authors: Counter[bytes], found: list[tuple[int, re.Match[bytes]]], *, exact: bool = True
) -> tuple[Lead, ...]:
    """How much each author did or, where all of them are told, what was done on each day."""
    all_told, pattern = exact and len(authors) <= _AUTHORS, "Author: ([^<]+)"
    for _, first in found[:1] if all_told else ():
        date = _plain_text(first["date"]).strip()
        for form, (_, day) in zip(_READ_DATES, _DATES, strict=True):
            pattern = f"{_plain_text(first['dated'])}: +({day})" if form.fullmatch(date) else pattern
    return (Lead("grep", {"pattern": f"^{'[| ]*' if is_drawn else ''}{pattern}", "group": True}),)


def _one_line_commits(sample: Sample, room: Room) -> Outline | None:
    """Commits as `git log --oneline` writes them, with or without a graph."""
    found = [found for start, data in sample.pieces for found in _lines_of(_ONE_LINE, start, data)]
    if not found:
        return None
    refs = sum(match["refs"] is not None for _, match in found)
    about = "" if sample.whole else "at least "
    told = f"{about}{plural(len(found), 'commit')}, one a line" + (f" · {about}{refs:,} with names" if refs else "")
    shown = [(at, match["subject"]) for at, match in found[:_SUBJECTS]]
    words = [_plain_text(subject) for _, subject in shown]
    return _history(told, shown, len(found), sample, room, word_lead(words, sample))


def _history(
    told: str,
    shown: list[tuple[int, bytes]],
    number: int,
    sample: Sample,
    room: Room,
    leads: tuple[Lead, ...],
    *,
    exact: bool = True,
) -> Outline:
    about = "" if exact and sample.whole else "at least "
    subjects = [f"{sample.place(at)} {cut_bytes(subject, 72)}" for at, subject in shown]
    kept = fitted([told, *subjects], room.after(["… at least 12,345 more commits"]))
    left = number - len(kept) + 1
    lines = (*kept, f"… {about}{plural(left, 'more commit')}") if left and len(kept) > 1 else kept
    return Outline("git log", lines, not sample.whole, (), leads=leads, ends=False)


def _commits(start: int, data: bytes) -> Iterator[tuple[int, re.Match[bytes]]]:
    return _lines_of(_COMMIT, start, data)


def _subject_at(at: int, match: re.Match[bytes]) -> int:
    """Where the subject of a commit is, which begins at this byte."""
    return at + match.start("subject") - match.start() - 1


def _lines_of(pattern: re.Pattern[bytes], start: int, data: bytes) -> Iterator[tuple[int, re.Match[bytes]]]:
    """Matches of a pattern that begins with the end of the line before, and the byte at which each starts."""
    if start:
        yield from ((start + match.start() + 1, match) for match in pattern.finditer(data))
    else:
        yield from ((match.start(), match) for match in pattern.finditer(b"\n" + data))


def _date(text: str) -> tuple[tuple[int, ...], str] | None:
    """A date of git as something that can be compared, and the day where it was written."""
    found = next((match for form in _READ_DATES if (match := form.fullmatch(text))), None)
    if found is None:
        return None
    parts = found.groupdict()
    month = MONTHS.index(named) + 1 if (named := parts.get("named")) in MONTHS else int(parts.get("month") or 0)
    if not 0 < month <= len(MONTHS):
        return None
    hour, minute, second = map(int, (parts["clock"] or "12:00:00").split(":"))
    ahead = (int(parts["hours"] or 0) * 60 + int(parts["minutes"] or 0)) * (-1 if parts["sign"] == "-" else 1)
    year, day = int(parts["year"]), int(parts["day"])
    days = day_number(year, month, day)
    return (days * 1440 + hour * 60 + minute - ahead, second), f"{year}-{month:02}-{day:02}"


def _summary(counted: Tally, lines: Lines, kind: str) -> list[str]:
    told = summary(counted)
    if kind != "access log":
        return told
    exact = lines.exact and len(lines.texts) <= _REQUESTS
    methods, statuses = requests(lines.texts if exact else spread(lines.texts, _REQUESTS))
    total = statuses.total()
    shown = [
        ", ".join(
            [
                *(f"{name} ×{number:,}" if exact else f"{name} {share(number, total)}" for name, number in most),
                *(["…"] if len(counts) > len(most) else []),
            ]
        )
        for counts, most in ((statuses, statuses.most_common(_STATUSES)), (methods, methods.most_common(_METHODS)))
    ]
    of = "" if exact else f"of {plural(total, 'sampled request')}: "
    return [" · ".join(filter(None, [*told, f"{of}status {shown[0]}", shown[1]]))] if total else told


def _first_leads(found: list[Trace], kind: str, first: list[str]) -> tuple[Lead, ...]:
    """How often each exception was thrown, or each status returned; where all of these are told, what was asked for."""
    if kind == "access log":
        all_told = any(map(_ALL_STATUSES.search, first))
        return (Lead("grep", {"pattern": r'"[A-Z]+ ([^ ?"]+)' if all_told else r'\] ".*?" (\d{3})\b', "group": True}),)
    thrown = next((name for name in map(_THROWN_LINE.search, (trace.message for trace in found)) if name), None)
    return (Lead("grep", {"pattern": rf"([\w.]+{thrown[1]})\b", "group": True}),) if thrown else ()


def _no_head(line: str) -> Head:
    return Head(body=line)


def _repeats(mined: Shapes, lines: Lines) -> bool:
    """Whether a few shapes make up a good part of the lines."""
    filled = sum(shape.lines for shape in mined.shapes)
    top = sum(shape.lines for shape in mined.shapes[:8] if shape.seen > 2)
    return top * 5 >= filled and top >= 6 and len(lines.texts) > 5


def _prose(sample: Sample, lines: Lines, mined: Shapes) -> list[str]:
    if not sample.size:
        return []
    if not lines.exact and not any(b"\n" in data for _, data in sample.pieces):
        return [f"no end of a line in what was read; {plural(sample.lines, 'line')}"]
    often = [shape for shape in mined.shapes[:5] if shape.seen > 2] if mined.exact else []
    repeated = [f"{shape.seen:,} × {cut(shape.text, _PROSE_LINE)}" for shape in often]
    return [_measures(sample, lines), *_sections(sample, lines), *repeated]


def _measures(sample: Sample, lines: Lines) -> str:
    if not lines.exact and sample.whole:
        lines = split(sample, every=True)
    filled = b"\0" + bytes(map(bool, map(bytes.strip, lines.texts)))  # a byte for each line: 1 where it has text
    blank = filled.count(b"\0", 1)
    starts = max(0, filled.count(b"\0\1") - max(0, len(lines.runs) - 1))  # where two windows meet it may not be one
    told = [
        f"{figure(number, lines.exact) if number else 'no'} {noun}{'' if number == 1 else 's'}"
        for number, noun in ((starts, "paragraph"), (blank, "blank line"))
        if number or lines.exact
    ]
    longest, least = sample.longest, ""
    if not longest:  # a member or a decoded text, which nobody has measured
        longest = max((len(line) for _, data in sample.pieces for line in data.split(b"\n")), default=0)
        least = "" if sample.whole else "at least "
    return ", ".join([*told, f"longest line {least}{plural(longest, 'byte')}"])


def _sections(sample: Sample, lines: Lines) -> list[str]:
    """Lines that stand as headings do."""
    texts = [b"", *(text.strip() for text in lines.texts[:_LOOKED_AT]), b""]
    places = [
        at
        for at, (before, text, after) in enumerate(zip(texts, texts[1:], texts[2:], strict=False))
        if 3 < len(text) < 120 and not before and _is_section(text, after)
    ]
    if not places:
        return []
    shown = [f"{sample.place(lines.start(at))} {cut_bytes(lines.texts[at], 100)}" for at in places[:12]]
    left = len(places) - len(shown)
    about = "" if lines.exact and len(lines.texts) <= _LOOKED_AT else "at least "
    return shown + ([f"… {about}{plural(left, 'more heading')}"] if left else [])


def _plain_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _is_section(text: bytes, after: bytes) -> bool:
    if len(after) > 3 and len(after) >= len(text) - 4 and not after.strip(b"=-~"):
        return True  # underlined
    return not after and _SECTION.fullmatch(_plain_text(text)) is not None


def _errors(found: list[Trace], mined: Shapes, lines: Lines, far: list[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    """What was thrown, what is outside of the sample, and the lines of the sample that look like errors."""
    thrown = [(trace.start, cut_bytes(trace.message.encode())) for trace in found[:2]]
    errors: dict[int, str] = {}
    known = merged([(trace.start, trace.end + 1) for trace in found])
    others = [each for each in error_lines(mined, lines) if not is_in(each[0], known)]
    for at, text in [*thrown, *far[:2], *others]:
        errors.setdefault(at, text)
    return tuple(errors.items())[:MAX_ERRORS]


def _ranges(found: list[Trace]) -> tuple[tuple[int, int, str], ...]:
    return tuple((trace.start, trace.end, f"trace of {cut(trace.message, 60)}") for trace in found[:3])
