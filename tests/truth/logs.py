"""Claims of logs: from when to when, which programs, levels, methods and statuses, and stack traces inside."""

import itertools
import re
from collections import Counter
from datetime import date, datetime

from tests.truth.claims import ANY, FIGURE, NUMBER, FalseClaim, Output, agrees, claim, is_so, share_agrees, small

_LABEL = r"(?:log|access log|syslog)"
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
_LEVELS = [
    "TRACE",
    "DEBUG",
    "INFO",
    "NOTICE",
    "WARN",
    "WARNING",
    "ERROR",
    "ERR",
    "FATAL",
    "CRIT",
    "CRITICAL",
    "SEVERE",
    "ALERT",
    "EMERG",
    "PANIC",
]
_CLOCK = r"(?P<hour>\d{1,2}):(?P<minute>\d\d):(?P<second>\d\d)(?:[.,](?P<part>\d+))?(?![:\d])(?: ?(?P<half>[AP])M\b)?"
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_TIMES = (
    rf"(?P<year>\d{{4}})[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)[T, ]+{_CLOCK} ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?",
    rf"(?:\w{{3}},? )?{_MONTH} (?P<day>[ \d]\d) {_CLOCK}(?: (?P<year>(?:19|20)\d\d)\b)?",
    rf"(?P<day>\d{{1,2}})/{_MONTH}/(?P<year>\d{{4}}):{_CLOCK}(?: (?P<zone>[+-]\d{{4}}))?",
    rf"(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/(?P<year>\d{{4}}) {_CLOCK}",
)
_SECONDS = re.compile(r"(\d+\.\d+)s?(?=\])")


def _key(text: str) -> tuple[float, ...] | None:
    """A time as something that can be compared with others of the same log."""
    if found := _SECONDS.match(text):
        return (float(found[1]),)
    found = next(filter(None, (re.match(pattern, text) for pattern in _TIMES)), None)
    if not found:
        return None
    parts = found.groupdict()
    month = _MONTHS.index(parts["month"]) + 1 if parts["month"] in _MONTHS else int(parts["month"])
    hour = int(parts["hour"]) % 12 + 12 * (parts["half"] == "P") if parts["half"] else int(parts["hour"])
    day = date(int(parts["year"] or 4), month, int(parts["day"])).toordinal()
    zone = parts.get("zone")
    ahead = 0 if zone in (None, "Z", "UTC") else int(zone[0] + "1") * (int(zone[1:3]) * 60 + int(zone[-2:]))
    return ((day * 24 + hour) * 60 + int(parts["minute"]) - ahead) * 60 + int(parts["second"]), _part(parts["part"])


def _part(digits: str | None) -> float:
    return float(f"0.{digits}") if digits else 0.0


_BEFORE = (re.compile(r"[\s\[(]{0,6}(?:<\d+>|<)?(?=\d|[A-Z][a-z]{2}[ ,])"), re.compile(r"\S+ \S+ \S+ \["))


def _time_of(line: str) -> tuple[float, ...] | None:
    """The time of a line that has one at its beginning, or after the three words of an access log."""
    places = (before.match(line) for before in _BEFORE)
    return next((key for at in places if at and (key := _key(line[at.end() :]))), None)


def _times(output: Output) -> list[tuple[float, ...] | None]:
    return [_time_of(line) for line in output.lines]


def level_of(line: str) -> str:
    """The first word among the first of a line that is a level: in capitals, or small in brackets, after `level=` or
    behind the time.
    """
    time = re.match(r"\W{0,9}\d{4}.\d\d.\d\d.\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\W{1,5}", line)
    for found in re.finditer(r"[A-Za-z]+", line[:1000]):
        before, after = line[: found.start()][-1:], line[found.end() : found.end() + 1]
        if found[0].upper() not in _LEVELS:
            continue
        bracketed = before in ("[", "<") or line[: found.start()].endswith(("level=", 'level="')) or not found.start()
        bracketed = bracketed or (time is not None and found.start() == time.end() and after in ("", *" \t\r]:|,"))
        if found[0].isupper() and before in ("", *' \t[(<|=":') and after in ("", *' \t\r])>|:,"'):
            return found[0]
        if bracketed and not re.match(r"[\w-]", after):
            return found[0].upper()
    return ""


def program_of(line: str) -> str:
    """What stands between the host and the first colon of a line of syslog, without the number of the process."""
    found = re.match(r"(?:<\d+>)?(?:\w{3} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\S+) +(\S+) +(.*?): ", line)
    return re.sub(r"(?:\[\d+\])?(?: \([^)]*\))?$", "", found[2]).removeprefix("-- ") if found else ""


@claim(
    _LABEL, r"(?!L[\d,]+ )(?P<about>at least )?(?P<rest>.*(?:→| · |[A-Z]+ (?:[\d,]+|~\d+ %)|\d programs?: |status ).*)"
)
def the_summary_of_a_log(found: re.Match[str], output: Output) -> None:
    exact = small(output)
    if found["about"] and exact:
        raise FalseClaim("all of it can be looked at")
    for number, whole in enumerate(found["rest"].split(" · ")):
        sampled = re.match(rf"of {NUMBER} sampled (?:lines|requests?): ", whole)
        part = whole[sampled.end() :] if sampled else whole
        if number == 0 and re.match(r"[\dA-Z].*\d\d:\d\d|\d+\.\d+", part):
            _span(part, output, exact=not found["about"])
        elif re.match(r"(?:at least )?\d+ programs?", part):
            _programs(part, output)
        elif part.startswith("status "):
            _counted(part.removeprefix("status "), Counter(map(_status, output.lines)), sampled is not None)
        elif re.match(r"(?:GET|POST|HEAD|PUT|DELETE|OPTIONS|PATCH)\b", part):
            _counted(part, Counter(map(_method, output.lines)), sampled is not None)
        else:
            counts = Counter(output.once(_levels))
            counts.update(map(program_of, output.lines) if sampled else ())
            total = sum(counts.values()) if not sampled else len(output.lines)
            _counted(part, counts, sampled is not None, total, exact=not output.once(_has_other_levels))


def _levels(output: Output) -> list[str]:
    """Where lines have times, one without is the rest of another, and has a level only where it begins with it."""
    times = output.once(_times)
    if not any(times):
        return [*map(level_of, output.lines)]
    names = "|".join(_LEVELS)
    first = re.compile(rf"(?:[\[<(]?(?={names})|[\[<(]|level=)((?i:{names}))\b(?![-])")
    lines = zip(output.lines, times, strict=True)
    return [
        level_of(line) if time else found[1].upper() if (found := first.match(line)) else "" for line, time in lines
    ]


def _has_other_levels(output: Output) -> bool:
    """Whether lines have a level that may not be theirs, or where nobody looks."""
    pairs = zip(output.lines, output.once(_levels), strict=True)
    return any(level_of(line[:110]) != level for line, level in pairs)


def _span(part: str, output: Output, *, exact: bool) -> None:
    first, _, last = part.partition(" → ")
    if last and (day := re.match(r".+?[ T:](?=\d\d:\d\d:\d\d)", first)) and re.match(r"\d\d:\d\d:\d\d", last):
        last = day[0] + last  # of the same day
    times = [key for key in output.once(_times) if key]
    said = [_key(text + "]" if re.fullmatch(r"[\d.]+s?", text) else text) for text in (first, last or first)]
    if not times or None in said:
        raise FalseClaim(f"{part!r} is not a span of times")
    if exact:
        is_so(said, [min(times), max(times)], "first and last time")
    elif said[0] < min(times) or said[1] > max(times):  # type: ignore[operator]
        raise FalseClaim(f"times are from {min(times)} to {max(times)}")


def _programs(part: str, output: Output) -> None:
    number, _, named = part.partition(": ")
    counts = Counter(map(program_of, output.lines))
    del counts[""]
    agrees(re.sub(r" programs?", "", number), len(counts), "programs", exact=small(output))
    if named:
        _counted(named, counts, sampled=False)


def _counted(part: str, counts: Counter[str], sampled: bool, total: int = 0, *, exact: bool = True) -> None:
    total = total or counts.total()
    del counts[""]
    shown = [each for each in part.split(", ") if each != "…"]
    for each in shown:
        if each.endswith("%"):
            name, figure = re.split(r" (?=[~<>])", each)
            share_agrees(figure, counts[name] / total, name)
        else:
            name, figure = re.split(rf" (?=×?{FIGURE}$)", each, maxsplit=1)
            agrees(figure.lstrip("×"), counts[name], name, exact=exact)
    if not sampled and not part.endswith("…") and " at least " not in part:
        is_so(len(shown), len(counts), "names")


def _status(line: str) -> str:
    found = re.search(r'\] ".*?(?<!\\)" (\d{3})(?!\d)', line)
    return found[1] if found else ""


def _method(line: str) -> str:
    found = re.search(r'\] "([A-Z-]{3,}) .*?(?<!\\)" \d{3}(?!\d)', line)
    return found[1] if found else ""


@claim(ANY, rf"L(?P<n>{NUMBER}) (?P<message>\S.*?)(?: × (?P<times>(?:at least )?{NUMBER}))?(?P<frames>(?: ← .*)?)")
def a_trace_is_where_it_is_said_to_be(found: re.Match[str], output: Output) -> None:
    number = int(found["n"].replace(",", ""))
    message = " ".join(found["message"].removesuffix("…").split())
    near = " ".join(" ".join(output.lines[number - 1 : number + 400]).split())
    if message not in near:
        raise FalseClaim(f"it is not after line {number}")
    if output.lines[number - 1].rstrip().endswith("(most recent call last):") and "File " not in output.lines[number]:
        raise FalseClaim("no frame is below it")
    if found["times"]:
        times = sum(message in " ".join(line.split()) for line in output.lines)
        agrees(found["times"], times, "times", exact=False)


@claim(ANY, rf"at least (?P<all>{NUMBER}) different stack traces")
def so_many_traces_are_there(found: re.Match[str], output: Output) -> None:
    """Different: its exception or its innermost frame is another one."""
    kinds = set[tuple[str, str]]()
    frame = re.compile(r"[\s|]*(?:at \S|File \"[^\"]+\", line \d)")
    for above, line in itertools.pairwise(output.lines):
        if frame.match(line) and not frame.match(above):
            kinds.add((above.strip(), line.strip()))
    if int(found["all"].replace(",", "")) > len(kinds):
        raise FalseClaim(f"there are {len(kinds)} kinds of stack traces")


# What `git log` writes.


def _commits(output: Output) -> list[tuple[str, datetime]]:
    """Author and date of each."""
    commits: list[tuple[str, datetime]] = []
    author = ""
    for drawn in output.lines:
        line = drawn.lstrip("|*\\/ ") if output.lines[0].startswith("*") and "    " not in drawn else drawn
        if line.startswith("Author: "):
            author = line.removeprefix("Author: ").split("<")[0].strip()
        elif found := re.match("(?:Author)?Date: +(.*)", line):
            commits.append((author, _git_date(found[1].strip())))
    return commits


def _git_date(text: str) -> datetime:
    if text[:4].isdigit():
        return datetime.fromisoformat(text)
    if "," in text:
        return datetime.strptime(text, "%a, %d %b %Y %H:%M:%S %z")
    return datetime.strptime(text, "%a %b %d %H:%M:%S %Y %z")


@claim(
    "git log",
    rf"(?P<number>{FIGURE}) commits? · (?P<about>at least )?(?P<first>.*?)(?: → (?P<last>.*?))? · (?P<authors>{FIGURE}) authors?: (?P<named>.*)",
)
def the_commits_of_a_history(found: re.Match[str], output: Output) -> None:
    commits = output.once(_commits)
    counts = Counter(author for author, _ in commits)
    agrees(found["number"], len(commits), "commits", exact=small(output))
    agrees(found["authors"], len(counts), "authors", exact=small(output))
    if not found["about"]:
        said = [found["first"], found["last"] or found["first"]]
        ends = [pick((date for _, date in commits)) for pick in (min, max)]
        is_so(said, [f"{date:%Y-%m-%d}" for date in ends], "dates")
    for name, figure in re.findall(rf"(\S.*?) ({FIGURE})(?:, |$)", found["named"].removesuffix("…")):
        agrees(figure, counts[name], name, exact=small(output))


def _one_line_commits(output: Output) -> list[str]:
    """What stands behind the name of each."""
    words = [line.lstrip("|*\\/_ .-").split(" ", 1) for line in output.lines]
    subjects = [
        word[1] for word in words if len(word) == 2 and len(word[0]) >= 7 and set(word[0]) <= set("0123456789abcdef")
    ]
    other = re.compile(r"(?:blob|tree|commit|tag)(?: \d+)?|refs/\S+|\S+@\{\d+\}: .*|[A-Z] \S+|(?:[0-9a-f]{4} ?)+")
    return [subject for subject in subjects if not other.fullmatch(subject)]


@claim("git log", rf"(?P<number>{FIGURE}) commits?, one a line(?: · (?P<refs>{FIGURE}) with names)?")
def commits_one_a_line(found: re.Match[str], output: Output) -> None:
    commits = output.once(_one_line_commits)
    agrees(found["number"], len(commits), "commits", exact=small(output))
    refs = sum(commit.startswith("(") and ") " in commit for commit in commits)
    agrees(found["refs"] or "0", refs, "names", exact=small(output))


@claim("git log", rf"L(?P<n>{NUMBER}) (?P<subject>.*?)(?: … \+{NUMBER} bytes| …|…)?")
def a_subject_is_where_it_is_said_to_be(found: re.Match[str], output: Output) -> None:
    line = output.lines[int(found["n"].replace(",", "")) - 1]
    if " ".join(found["subject"].split()) not in " ".join(line.split()):
        raise FalseClaim(f"that line is {line[:200]!r}")


@claim("git log", rf"… (?P<more>{FIGURE}) more commits?")
def more_commits(found: re.Match[str], output: Output) -> None:
    number = max(len(output.once(_commits)), len(output.once(_one_line_commits)))
    if int(found["more"].removeprefix("at least ").replace(",", "")) >= number:
        raise FalseClaim("there are fewer")
