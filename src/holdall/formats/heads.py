"""The heads of log lines: when each was written, by which program and at which level.

`tally` counts them over all lines that it is given. Lines whose first bytes differ only in which digits they have are
read once: so it costs little more than to split them. Nothing here is an estimate.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import lru_cache
from itertools import compress, groupby
from operator import itemgetter, not_

from holdall.formats.outline import spread
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH = "(?:" + "|".join(MONTHS) + ")"
_HALF = r"(?: ?[AaPp]\.?[Mm]\b\.?)?"  # of the day, where the hours count to 12
_CLOCK = rf"\d?\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?![:\d]){_HALF}"
_FORMS = {
    "iso": (
        r"\d{4}(?:-\d\d-\d\d|/\d\d/\d\d|\.\d\d\.\d\d)(?:T|, ?| {1,2})\d?\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?![:\d])"
        rf"{_HALF}(?: ?(?:Z|UTC|[+-]\d\d:?\d\d)\b)?"
    ),
    "named": rf"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?{_MONTH} [ \d]\d {_CLOCK}(?: (?:19|20)\d\d\b)?",
    "access": rf"\d{{1,2}}/{_MONTH}/\d{{4}}:\d\d:\d\d:\d\d(?: [+-]\d{{4}})?",
    "short": rf"\d?\d(?:/\d?\d/|\.\d?\d\.)\d\d(?:\d\d)?[ ,]{_CLOCK}",
}
# Only where a line begins: anywhere else `12:30:00` may be a duration, and `10.255` the beginning of an address.
_FIRST = {
    "clock": rf"{_CLOCK}(?![.\w])",
    "seconds": r"\d{1,8}\.\d{3,9}s?(?=\])|\d{1,8}\.\d{3,9}s(?![\w.])",
    "epoch": r"1\d{9}(?:\.\d{1,9})?(?![\w.])|1\d{12}(?![\w.])",
}


def _any_of(forms: dict[str, str]) -> str:
    return "(?:" + "|".join(f"(?P<{name}>{pattern})" for name, pattern in forms.items()) + ")"


_SERVICE = r"[\w.-]{1,60}[-_]\d{1,5} {0,30}\| "  # what docker compose writes before a line
_TIME = (
    rf"\s{{0,8}}(?:\d{{1,7}} {{1,4}})?(?:<\d{{1,3}}>(?:\d )?)?[\[(]? {{0,8}}{_any_of(_FORMS | _FIRST)}"
    r"[\])]?[ \t:,|-]{0,4}"
)
_ISO_LEAD = lazy_pattern(_FORMS["iso"], re.ASCII)
_LEAD = lazy_pattern(_TIME, re.ASCII)
_LEAD_OF_SERVICE = lazy_pattern(f"(?:{_SERVICE})?{_TIME}", re.ASCII)
_MAY_LEAD = lazy_pattern(  # whatever follows: a line that begins otherwise has no time there
    rf"[\w.-]+ {{0,30}}(?:\||\Z)|\s{{0,8}}(?:[\d\[(<]|Mon|Tue|Wed|Thu|Fri|Sat|Sun|{_MONTH})".encode(), re.ASCII
)
_INSIDE = lazy_pattern(rf"(?<![\w.:/-]){_any_of(_FORMS)}", re.ASCII)
_INSIDE_UP_TO = 120  # bytes of a line in which its time is looked for
_NAMES = r"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|FATAL|CRIT(?:ICAL)?|SEVERE|ALERT|EMERG|PANIC"
_LEVEL_WORDS = ("INFO", "WARN", "ERR", "DEBUG", "TRACE", "NOTICE", "FATAL", "CRIT", "SEVERE", "ALERT", "EMERG", "PANIC")
_LEVEL_UP_TO = 110
_FAR = 1000
_LEVEL = lazy_pattern(
    rf"(?<![^\s\[(<|=\":])(?:(?P<upper>{_NAMES})(?![^\s\])>|:,\"])"
    rf"|(?:(?<=[\[<])|(?<=level=)|(?<=level=\")|(?<=severity=)|(?<=severity=\")|(?<=^))(?i:(?P<any>{_NAMES}))(?![\w-]))",
    re.ASCII,
)
_BEGINS_WITH_LEVEL = lazy_pattern(  # in capitals, unless it is marked: `Error: …` is what was thrown
    rf"(?:[\[<(]?(?P<upper>{_NAMES})|(?:[\[<(]|(?:level|severity)=\"?)(?i:(?P<any>{_NAMES})))(?=[\s:\]>)|,\"]|\Z)".encode(),
    re.ASCII,
)
_REST_OF_LINE = lazy_pattern(rb"\s|Caused by: |Traceback \(most recent|[\w.$]{0,200}(?:Error|Exception)\b", re.ASCII)
_BEHIND_TIME = lazy_pattern(  # in small letters, many write it there with nothing around it
    rf"(?i:(?P<any>{_NAMES}))(?=[\s:\]|,]|\Z)", re.ASCII
)
_HOST = r"(?P<host>[\w.:-]{1,80}) "
_PROGRAM = lazy_pattern(
    rf"{_HOST}{{1,2}}(?:-- )?(?P<program>[A-Za-z/_][\w./@+ -]{{0,60}}?(?=\[\d)"
    r"|[A-Za-z/_][\w./@+-]{0,60}(?: ?\([^()\n]{1,40}\))?(?: \d[\w.]{0,20})?)"
    r"(?:\[\d{1,9}\])?(?: \([^()\n]{1,80}\))?: ",
    re.ASCII,
)
_PROGRAM_UP_TO = 160
_READ = 200  # bytes of a line that are read at all


@record
class Head:
    """`body` is what is left of a line behind its time, host and program."""

    program: str = ""
    body: str = ""


@record
class _Place:
    """Where a line has its time."""

    form: str
    start: int
    end: int
    leads: bool  # the line begins with it


def head_of(line: str) -> Head:
    lead = _lead(line)
    if not lead:
        return Head("", line)
    rest = line[lead.end() :]
    program = _program(rest)
    return Head(program["program"], rest[program.end() :]) if program else Head("", rest)


_OF_A_SERVICE = lazy_pattern(_SERVICE, re.ASCII)


def is_of_service(line: str) -> bool:
    """Whether it has the name of a container before it, as `docker compose` writes lines of several."""
    return _OF_A_SERVICE.match(line) is not None


def begins_with_time(line: str) -> bool:
    return _ISO_LEAD.match(line) is not None or _lead(line) is not None  # most times are of the first form


def _lead(line: str) -> re.Match[str] | None:
    # Few lines have the sign that a container's name ends with: to look for that name takes twice what the time does.
    return _LEAD_OF_SERVICE.match(line) if "|" in line else _LEAD.match(line)


def has_level(line: str) -> bool:
    return _level_in(line) is not None


def _program(rest: str) -> re.Match[str] | None:
    found = _PROGRAM.match(rest[:_PROGRAM_UP_TO])
    return found if found and not _LEVEL.fullmatch(found["host"]) else None


def _level(line: str, up_to: int = _LEVEL_UP_TO) -> str:
    found = _level_in(line, up_to)
    return found[found.lastgroup or 0].upper() if found else ""


def _level_in(line: str, up_to: int = _LEVEL_UP_TO) -> re.Match[str] | None:
    line = line[: up_to + 1]  # a word that ends there may go on
    upper = line.upper()
    # Nine of ten lines have none of the words: to look for these costs a tenth of what the pattern does.
    if not any(word in upper for word in _LEVEL_WORDS):
        return None
    lead = _LEAD.match(line)
    found = (lead and _BEHIND_TIME.match(line, lead.end())) or _LEVEL.search(line)
    return found if found and found.end() <= up_to else None


def _place(line: str, *, leads: bool = False) -> _Place | None:
    """`leads`: only at its beginning."""
    return _place_behind(line, _lead(line), leads=leads)


def _place_behind(line: str, lead: re.Match[str] | None, *, leads: bool = False) -> _Place | None:
    found = lead or (None if leads else _INSIDE.search(line[:_INSIDE_UP_TO]))
    if not found or not found.lastgroup:
        return None
    start, end = found.span(found.lastgroup)
    return _Place(found.lastgroup, start, end, lead is not None)


_REQUEST = lazy_pattern(
    rb"\S{1,100} [^\[]{1,120}\[[^\]]{1,60}\] \"(?:([A-Z][A-Z_-]{2,20}) )?[^\"\\]*+(?:\\.[^\"\\]*+)*+\" (\d{3})\b",
    re.DOTALL,
)


def request(line: bytes) -> tuple[bytes | None, bytes] | None:
    """Method and status of a line of a web server's access log. What is no HTTP has a status, and no method."""
    found = _REQUEST.match(line)
    return (found[1], found[2]) if found else None


def requests(texts: list[bytes]) -> tuple[Counter[str], Counter[str]]:
    """How often each method and each status occurs, over all lines that are requests."""
    found = Counter(map(request, texts))
    methods: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    for each, number in found.items():
        if each:
            statuses[each[1].decode()] += number
            if each[0]:
                methods[each[0].decode()] += number
    return methods, statuses


# All lines at once.


_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_PROBED = 120  # lines by which it is told what there is to count
_MANY = 5000  # different beginnings, each of which is read once
_ONE_BY_ONE = 2000  # lines that are read where their beginnings tell too little; of more, so many spread over them
_Spot = tuple[int, int]
_NOWHERE = 0, 0


@record(frozen=False)
class Tally:
    """Of `lines` lines; `first` and `last` are the earliest and the latest time. Not `exact`: there are more lines."""

    lines: int
    programs: Counter[str] = field(default_factory=Counter[str])
    levels: Counter[str] = field(default_factory=Counter[str])
    first: str = ""
    last: str = ""
    at: int = 0  # the byte of a line at which most times start
    exact: bool = True
    levels_exact: bool = True  # else more lines may have one


class _TooManyError(Exception):
    """Lines would have to be read one by one."""


def tally(texts: list[bytes], *, exact: bool = True) -> Tally:
    """`exact`: these are all lines that there are."""
    try:
        return _tally(texts, exact)
    except _TooManyError:
        return _tally(spread(texts, _ONE_BY_ONE), exact=False)


def _tally(texts: list[bytes], exact: bool) -> Tally:
    heads = [text[:_READ] for text in spread(texts, _PROBED)]
    probe = [head.decode("latin-1") for head in heads]
    leads_of = list(map(_lead, probe))
    stamps = [place for place in map(_place_behind, probe, leads_of) if place]
    found = Tally(len(texts), exact=exact)
    # Which digits they have tells nothing of programs and levels: most lines are as one that was looked at.
    shapes = [head.translate(_DIGITS) for head in heads]
    rests = [shape[lead.end() :] for shape, lead in zip(shapes, leads_of, strict=True) if lead]
    programs = {rest: _program(rest.decode("latin-1")) is not None for rest in set(rests)}
    if sum(map(programs.__getitem__, rests)) * 2 > max(1, len(stamps)):
        found.programs = _programs(texts)
    marked = {shape: _level_in(shape.decode("latin-1")) for shape in set(shapes)}
    levels = [level for level in map(marked.__getitem__, shapes) if level]
    if len(levels) * 3 <= max(1, len(stamps) or len(probe)):
        levels = []
    form, leads = Counter((place.form, place.leads) for place in stamps).most_common(1)[0][0] if stamps else ("", False)
    if not form and not levels:
        return found
    alike = [place for place in stamps if (place.form, place.leads) == (form, leads)]
    ends = [place.end for place in alike] + [level.end() for level in levels]
    beginnings = _Beginnings(texts, max(ends) + 2, leads=leads)
    if form:
        found.at = Counter(place.start for place in alike).most_common(1)[0][0]
        found.first, found.last = (
            each.decode("latin-1").strip() for each in beginnings.first_and_last(form, leads=leads)
        )
    if levels:
        found.levels, found.levels_exact = beginnings.levels()
    return found


class _Beginnings:
    """The first bytes of lines, any digit as 0: where two are the same, both have their time and level there.

    Once times have been found, a line without one is taken for the rest of another, and has a level only where it
    begins with it.
    """

    def __init__(self, texts: list[bytes], length: int, *, leads: bool) -> None:
        """`leads`: only lines that begin with a time count."""
        self._texts, self._length = texts, length
        self._keys = _without_digits([text[:length] for text in texts])
        self._known = dict(zip(self._keys, texts, strict=True))  # a line of each
        self._rests: Counter[bytes] = Counter()  # of lines without a time
        if leads and len(self._known) > _MANY:  # no digit, no time: these need not be read
            self._keep([b"0" in key for key in self._keys])
        if len(self._known) > _MANY and len(texts) > _ONE_BY_ONE:
            raise _TooManyError

    def _keep(self, which: Sequence[object]) -> None:
        self._rests.update(compress(self._keys, map(not_, which)))
        self._texts, self._keys = list(compress(self._texts, which)), list(compress(self._keys, which))
        self._known = dict(zip(self._keys, self._texts, strict=True))

    def first_and_last(self, form: str, *, leads: bool) -> tuple[bytes, bytes]:
        """The earliest and the latest time."""

        def spot(text: bytes) -> _Spot | None:
            place = _place(text[:_READ].decode("latin-1"), leads=leads)
            return (place.start, place.end) if place and place.form == form else None

        told = {key: spot(text) if b"0" in key or not leads else None for key, text in self._known.items()}
        # Where a line goes on after what is compared, its time must have ended before, or there must be none.
        unsure = {
            key
            for key, place in told.items()
            if len(key) >= self._length and (place[1] >= self._length if place else not leads or _MAY_LEAD.match(key))
        }
        spots = set(told.values())
        if unsure or len(spots) > 1:
            places = list(map(told.get, self._keys))
            if unsure:
                _check_few(self._keys, unsure)
                lines = zip(self._keys, self._texts, places, strict=True)
                places = [spot(text) if key in unsure else place for key, text, place in lines]
            if unsure or None in spots:
                self._keep(places)
            places = filter(None, places)
            times = [text[start:end] for text, (start, end) in zip(self._texts, places, strict=True)]
            return _first_and_last(times, form)
        start, end = next(iter(spots)) or (0, 0)
        keys = {key[:end] for key in told}
        if form == "iso" and not start and len(keys) == 1 and _are_in_order(self._texts, next(iter(keys))):
            return min(self._texts)[:end], max(self._texts)[:end]
        return _first_and_last([text[start:end] for text in self._texts], form)

    def levels(self) -> tuple[Counter[str], bool]:
        """How often each occurs, and whether these are all. A line where others have one is read by itself."""
        most = min(self._length - 1, _LEVEL_UP_TO)
        told = {key: _level(text[: self._length].decode("latin-1"), most) for key, text in self._known.items()}
        found: Counter[str] = Counter()
        for key, number in Counter(self._keys).items():
            found[told[key]] += number
        unsure = {key for key, level in told.items() if not level and len(key) >= self._length - 1}
        exact = True
        if unsure:
            _check_few(self._keys, unsure)
            rest = [text for text, key in zip(self._texts, self._keys, strict=True) if key in unsure]
            levels = [_level(text[: _LEVEL_UP_TO + 1].decode("latin-1")) for text in rest]
            found.update(levels)
            exact = not any(not level and _is_far(text) for text, level in zip(rest, levels, strict=True))
        others: list[bytes] = []
        for key, number in self._rests.items():
            if level := _BEGINS_WITH_LEVEL.match(key):
                found[level[level.lastgroup or 0].decode().upper()] += number
            elif exact and not _REST_OF_LINE.match(key):
                others.append(key)
        del found[""]
        exact = exact and len(others) <= _MANY and not any(_level_in(key.decode("latin-1")) for key in others)
        return found, exact


def _is_far(text: bytes) -> bool:
    """Whether a level is further behind in a line than others are looked for."""
    return len(text) > _LEVEL_UP_TO and _LEVEL.search(text[:_FAR].decode("latin-1"), _LEVEL_UP_TO - 1) is not None


def _without_digits(texts: list[bytes]) -> list[bytes]:
    """None of them has a line end in it."""
    return b"\n".join(texts).translate(_DIGITS).split(b"\n")[: len(texts)]


def _check_few(keys: list[bytes], unsure: set[bytes]) -> None:
    if sum(map(unsure.__contains__, keys)) > _ONE_BY_ONE:
        raise _TooManyError


def _programs(texts: list[bytes]) -> Counter[str]:
    """By what is before the first colon and space of each line: where that is the same but for its digits, the name is
    at the same place."""
    heads = [text[:_PROGRAM_UP_TO].partition(b": ")[0] for text in texts]
    keys = _without_digits(heads)
    known = dict(zip(keys, heads, strict=True))
    if len(known) > _MANY and len(texts) > _ONE_BY_ONE:
        raise _TooManyError
    spots = {key: _program_spot(head.decode("latin-1") + ": ") for key, head in known.items()}
    found: Counter[bytes] = Counter()
    numbered: set[bytes] = set()
    for key, number in Counter(keys).items():
        start, end = spots[key]
        if b"0" in key[start:end]:
            numbered.add(key)
        else:
            found[key[start:end]] += number
    if numbered:
        lines = zip(heads, map(spots.__getitem__, keys), keys, strict=True)
        found.update([head[start:end] for head, (start, end), key in lines if key in numbered])
    del found[b""]
    named: Counter[str] = Counter()
    for name, number in found.items():
        named[name.decode("utf-8", "replace")] += number
    return named


def _program_spot(line: str) -> _Spot:
    lead = _lead(line)
    found = _program(line[lead.end() :]) if lead else None
    return (lead.end() + found.start("program"), lead.end() + found.end("program")) if lead and found else _NOWHERE


_ISO = lazy_pattern(
    rb"(\d{4}).(\d\d).(\d\d)[T, ]+(\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)? ?(?:Z|UTC|([+-])(\d\d):?(\d\d))?"
)
_OTHER_HOURS = lazy_pattern(rb"(?<!\d)\d:\d\d|\d ?[AaPp]\.?[Mm]")  # of one digit, or such that count to 12
_HOUR = lazy_pattern(rb"(?<!\d)(\d{1,2})(:\d\d(?::\d\d(?:[.,]\d+)?)?)(?: ?([AaPp])\.?[Mm]\.?)?")


def _are_in_order(texts: list[bytes], way: bytes) -> bool:
    """Whether times that are all written in that way are in order as texts: by one zone, with hours from 00 to 23."""
    zone, end = _zone(way), len(way)
    return not _OTHER_HOURS.search(way) and (zone == end or len({text[zone:end] for text in texts}) == 1)


def _first_and_last(times: list[bytes], form: str) -> tuple[bytes, bytes]:
    """The earliest and the latest, of times in the order of the lines."""
    if not times:  # the one line of them that was read has a number that is no time
        return b"", b""
    times = [time for time, _ in groupby(times)]
    if any(map(_OTHER_HOURS.search, set(_without_digits(times)))):
        # Put in order by hours from 00 to 23, and told as they are written.
        of_24 = list(map(_of_24_hours, times))
        written = dict(zip(of_24, times, strict=True))
        first, last = _FIRST_AND_LAST.get(form, _ends)(of_24, form) or (b"", b"")
        return written.get(first, b""), written.get(last, b"")
    return _FIRST_AND_LAST.get(form, _ends)(times, form) or (b"", b"")


def _of_24_hours(time: bytes) -> bytes:
    return _HOUR.sub(_hour_of_24, time, count=1)


def _hour_of_24(found: re.Match[bytes]) -> bytes:
    hour = int(found[1])
    return b"%02d%b" % (hour % 12 + 12 * (found[3] in b"Pp") if found[3] else hour, found[2])


def _numbers(times: list[bytes], _: str) -> tuple[bytes, bytes]:
    values = dict(zip(map(float, b" ".join(times).replace(b"s", b"").split()), times, strict=True))
    return values[min(values)], values[max(values)]


def _iso(times: list[bytes], _: str) -> tuple[bytes, bytes]:
    """Those that are written in the same way, with the same zone, are in order as texts."""
    ways: defaultdict[tuple[bytes, bytes], list[bytes]] = defaultdict(list)
    for way, time in zip(_without_digits(times), times, strict=True):
        ways[way, time[_zone(way) :]].append(time)
    return min(map(min, ways.values()), key=_instant), max(map(max, ways.values()), key=_instant)


def _access(times: list[bytes], form: str) -> tuple[bytes, bytes] | None:
    """Those of one zone are put in order by their days, and the first and the last of each zone by their instants."""
    zones: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for time in times:
        zones[time[time.index(b":") + 9 :]].append(time)
    ends = [each for same in zones.values() for each in _ends(same, form) or ()]
    return (min(ends, key=_access_instant), max(ends, key=_access_instant)) if len(zones) > 1 else (ends[0], ends[1])


def _access_instant(time: bytes) -> tuple[int, bytes]:
    day, _, clock = time.partition(b":")
    parts = day.split(b"/")
    return _instant(b"%b-%02d-%02d %b" % (parts[2], MONTHS.index(parts[1].decode()) + 1, int(parts[0]), clock))


@lru_cache(64)
def _zone(way: bytes) -> int:
    """Where the digits of a zone begin, if it has some."""
    return max(way.find(b"+"), way.find(b"-", 11)) % (len(way) + 1)


def day_number(year: int, month: int, day: int) -> int:
    """Days since some day long ago. Years begin in March, so that the odd month is the last one."""
    year, month = (year, month - 3) if month > 2 else (year - 1, month + 9)
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day


def _instant(text: bytes) -> tuple[int, bytes]:
    """Seconds and a fraction of one, of which only the order matters."""
    found = _ISO.match(text)
    if not found:
        return 0, b""
    year, month, day, hour, minute = map(int, found.group(1, 2, 3, 4, 5))
    ahead = (int(found[9]) * 60 + int(found[10])) * (-1 if found[8] == b"-" else 1) if found[8] else 0
    return ((day_number(year, month, day) * 24 + hour) * 60 + minute - ahead) * 60 + int(found[6] or 0), found[7] or b""


def _ends(times: list[bytes], form: str) -> tuple[bytes, bytes] | None:
    """The earliest and the latest. The parts that name days or hours are put in order first, of which there are few."""
    after = _COARSE.get(form, 3)
    days = [time[: time.index(b":") - after] for time in times]
    runs = [(day, [time for _, time in run]) for day, run in groupby(zip(days, times, strict=True), key=itemgetter(0))]
    order = _ORDERS[form](runs)
    if not order:
        return None
    low, high = min(order), max(order)
    first = [text for (_, texts), at in zip(runs, order, strict=True) if at == low for text in texts]
    last = [text for (_, texts), at in zip(runs, order, strict=True) if at == high for text in texts]
    return min(first, key=_fine(first)), max(last, key=_fine(last))


def _fine(texts: list[bytes]) -> Callable[[bytes], bytes] | None:
    """What times of one day, or one hour, are compared by; None where they are written alike."""
    if len({text.translate(_DIGITS) for text in texts[:1000]}) == 1 and len(set(map(len, texts))) == 1:
        return None
    return lambda text: text[text.index(b":") - 2 :].replace(b",", b".")


_Runs = list[tuple[bytes, list[bytes]]]


def _clock_hours(runs: _Runs) -> list[int]:
    return _unwound([int(hour) for hour, _ in runs], 24)


def _access_days(runs: _Runs) -> list[int]:
    known = {day: _number(day.split(b"/")) for day in {day for day, _ in runs}}
    return [known[day] for day, _ in runs]


def _number(parts: list[bytes]) -> int:
    day, month, year = parts
    return (int(year) * 12 + MONTHS.index(month.decode())) * 31 + int(day)


def _named_days(runs: _Runs) -> list[int]:
    words = [day.replace(b",", b"").split() for day, _ in runs]
    years = [texts[0][-4:] if texts[0][-5:-2] in (b" 19", b" 20") else b"0" for _, texts in runs]
    days = [_number([word[-1], word[-2], year]) for word, year in zip(words, years, strict=True)]
    return days if b"0" not in years else _unwound(days, 12 * 31)


def _short_days(runs: _Runs) -> list[int]:
    """Nothing says which of the numbers is the day: whichever puts the lines in order."""
    numbers = [[int(each) for each in re.split(rb"[/.]", day)] for day, _ in runs]
    for year, month, day in ((2, 1, 0), (0, 1, 2), (2, 0, 1)):
        days = [(each[year] * 13 + each[month]) * 32 + each[day] for each in numbers]
        if all(each[month] <= 12 and each[day] <= 31 for each in numbers) and days == sorted(days):
            return days
    return []


def _unwound(numbers: list[int], period: int) -> list[int]:
    """Numbers that begin anew after `period`: a large step back is a step into the next one."""
    found: list[int] = []
    more = 0
    for number in numbers:
        if found:
            step = number + more - found[-1]
            more += period if step < -period / 2 else -period if more and step > period / 2 else 0
        found.append(number + more)
    return found


_ORDERS: dict[str, Callable[[_Runs], list[int]]] = {
    "named": _named_days,
    "access": _access_days,
    "short": _short_days,
    "clock": _clock_hours,
}
_COARSE = {"clock": 0, "access": 0}  # how far before the first colon that part ends, where it is not 3
_FIRST_AND_LAST: dict[str, Callable[[list[bytes], str], tuple[bytes, bytes] | None]] = {
    "iso": _iso,
    "access": _access,
    "seconds": _numbers,
    "epoch": _numbers,
}
