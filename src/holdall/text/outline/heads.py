"""The head of a log line: its time, and the program or level that it names. What follows is the body."""

import re
from dataclasses import dataclass

_ISO = r"\d{4}[-/.]\d\d[-/.]\d\d[T ,]{1,2}\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d)\b)?"
_DATED = (
    rf"{_ISO}|(?:[A-Z][a-z]{{2}},? )?[A-Z][a-z]{{2}} [ \d]\d \d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?: \d{{4}})?"
    r"|\d\d[/.]\d\d[/.]\d\d(?:\d\d)?[ ,]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?|\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"|\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d(?: [+-]\d{4})?"
)
_STAMP = rf"(?:{_DATED}|\d{{1,10}}\.\d{{3,9}}s?\b|\d{{10,13}}\b)"  # bare numbers only where a line begins
_LEVELS = r"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|ERR|FATAL|CRIT(?:ICAL)?|SEVERE|ALERT|EMERG|PANIC"
_TIME = re.compile(_DATED, re.ASCII)
_LEAD = re.compile(rf"\s{{0,8}}(?:\d{{1,7}} {{1,4}})?(?:<\d{{1,3}}>)?[\[(]?({_STAMP})[\])]?[ \t:,|-]{{0,4}}", re.ASCII)
_PROGRAM = re.compile(r"(?P<host>[\w.:-]{1,80}) (?P<program>[A-Za-z][\w./@-]{0,60}?)(?:\[\d{1,9}\])?: ", re.ASCII)
_LEVEL = re.compile(rf"\b(?:{_LEVELS})\b", re.ASCII)
_BRACKETED = re.compile(rf"(?:\[|\blevel=\"?|\bseverity=\"?|^)({_LEVELS})\b *\]?\"?:?", re.ASCII | re.IGNORECASE)
_ACCESS = re.compile(
    r"(\S{1,100}) \S{1,60} \S{1,60} \[([^\]]{1,60})\] \"([A-Z]{3,10}) [^\"]{0,2000}\" (\d{3})\b", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Head:
    time: str = ""
    program: str = ""
    level: str = ""
    body: str = ""


def time_of(line: str) -> str:
    """The time at which a line begins, or one that stands in it; empty where there is none."""
    lead = _LEAD.match(line)
    found = lead[1] if lead else _TIME.search(line)
    return (found if isinstance(found, str) else found[0]).strip() if found else ""


def head_of(line: str) -> Head:
    lead = _LEAD.match(line)
    rest = line[lead.end() :] if lead else line
    time = lead[1] if lead else ""
    program = _PROGRAM.match(rest) if lead else None
    name = ""
    if program and not _LEVEL.fullmatch(program["host"]):
        name, rest = program["program"], rest[program.end() :]
    level = _LEVEL.search(rest, 0, 80) or _BRACKETED.search(rest, 0, 80)
    return Head(time, name, (level[level.lastindex or 0].upper() if level else ""), rest)


def access(line: str) -> tuple[str, str, str] | None:
    """Time, method and status of a line of a web server's access log."""
    found = _ACCESS.match(line)
    return (found[2], found[3], found[4]) if found else None
