"""Questions about logs: of a web server, of a database server, of system calls and of the dynamic linker.

Every function reads the raw bytes in a plain way of its own and never asks Holdall.
"""

import re
from collections import Counter

from bench.answers.further.asked import Asked, Vacuous, about, found, most, once, pick, spans, text

_REQUEST = r'^\S+ - - \[(?P<at>[^\]]+)\] "(?P<method>\w+) (?P<path>\S+) HTTP/1\.1" (?P<status>\d+) \d+ .*$'


@about("access_log", "aggregate", "count")
def not_found(data: bytes) -> Asked:
    lines = [line for line in found(_REQUEST, data) if line["status"] == b"404"]
    return Asked("How many requests were answered with the status 404?", str(len(lines)), spans(lines))


@about("access_log", "range", "latest")
def last_refused(data: bytes) -> Asked:
    line = [line for line in found(_REQUEST, data) if line["status"] == b"413"][-1]
    question = "When was the last request to /upload answered with the status 413?"
    return Asked(question, text(line, "at"), [line.span()])


@about("access_log", "other words", "earliest")
def first_crash(data: bytes) -> Asked:
    line = next(line for line in found(_REQUEST, data) if line["status"] == b"500")
    question = "What was the first address whose visit ended in an internal server error?"
    return Asked(question, text(line, "path"), [line.span()])


@about("postgres_log", "look-up", "needle")
def failed_statement(data: bytes) -> Asked:
    (line,) = found(r"^.* ERROR:  division by zero\n.* STATEMENT:  (.*)$", data)
    return Asked('Which statement failed with "division by zero"?', text(line), [line.span()])


@about("postgres_log", "aggregate", "aggregate")
def slowest_statement(data: bytes) -> Asked:
    lines = found(r"^.* LOG:  duration: ([\d.]+) ms  .*$", data)
    slowest = max(lines, key=lambda line: float(line[1]))
    question = "How many ms did the slowest statement take, by its duration?"
    return Asked(question, text(slowest), spans(lines, 1))


@about("postgres_log", "steps", "needle")
def port_of_stranger(data: bytes) -> Asked:
    (refused,) = found(r'^.* \[(\d+)\] .* FATAL:  database "\w+" does not exist$', data)
    received = found(rf"^.* \[{text(refused)}\] .* connection received: host=\S+ port=(\d+)$", data)
    line = [line for line in received if line.start() < refused.start()][-1]
    question = "From which client port came the connection that asked for a database that does not exist?"
    return Asked(question, text(line), [line.span(), refused.span()])


@about("strace_log", "look-up", "needle")
def ran_from(data: bytes) -> Asked:
    """The last of the paths that were tried: the call may be shown in two parts, so its result is not looked at."""
    line = found(r'^\d+ +\S+ execve\("([^"]*/ls)", .*$', data)[-1]
    return Asked("From which path was the program ls executed in the end?", text(line), [line.span()])


@about("strace_log", "aggregate", "aggregate")
def fails_most(data: bytes) -> Asked:
    lines = found(r"^\d+ +\S+ (\w+)\(.* = -1 ENOENT .*$", data)
    return Asked("Which system call fails most often with ENOENT?", most(text(line) for line in lines), spans(lines))


@about("strace_log", "range", "latest")
def last_object(data: bytes) -> Asked:
    """Of the first process; the others may run at the same time."""
    main = text(found(r"^(\d+) ", data)[0])
    line = found(rf'^{main} +\S+ openat\(AT_FDCWD, "[^"]*?([^"/]+\.so[.\d]*)", .* = \d+ <[\d.]+>$', data)[-1]
    question = f"Which shared object (.so) was the last that process {main} opened successfully with openat?"
    return Asked(question, text(line), [line.span()])


_BOUND = r"^ *\d+:\tbinding file (?P<user>\S+) \[0\] to (?P<owner>\S+) \[0\]: normal symbol `(?P<symbol>[^']+)'.*$"


@about("linker_log", "look-up", "needle")
def bound_to(data: bytes) -> Asked:
    lines = found(_BOUND, data)
    symbols = set(once([text(line, "symbol") for line in lines]))
    common = {owner for owner, _ in Counter(text(line, "owner") for line in lines).most_common(2)}
    others = [line for line in lines if text(line, "owner") not in common and line["owner"] != line["user"]]
    line = pick([line for line in others if text(line, "symbol") in symbols])
    if len(re.findall(rb"`" + re.escape(line["symbol"]) + rb"'", data)) != 1:
        raise Vacuous("the symbol occurs elsewhere")
    return Asked(f"To which file is the symbol {text(line, 'symbol')} bound?", text(line, "owner"), [line.span()])


@about("linker_log", "aggregate", "count")
def bound_from(data: bytes) -> Asked:
    lines = found(_BOUND, data)
    owner = Counter(text(line, "owner") for line in lines).most_common(3)[-1][0]
    bound = [line for line in lines if text(line, "owner") == owner]
    return Asked(f"How many symbol bindings lead to {owner}?", str(len(bound)), spans(bound))


@about("linker_log", "range", "latest")
def last_initialised(data: bytes) -> Asked:
    line = found(r"^ *\d+:\tcalling init: (\S+)(?: \[0\])?$", data)[-1]
    return Asked('Which file is in the last "calling init" line?', text(line), [line.span()])
