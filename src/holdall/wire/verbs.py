"""Every verb, declared once: its arguments with types, defaults and bounds, its wording, and where its work is.

The tools of our own dialect in every provider's form, the commands with their flags, MCP tools and the reference pages
are made from these declarations. The methods of `bag.fetch` are typed source; a test compares them. Nothing here does
the work: that is in `verbs`. The command line imports this to list its commands, so it imports next to nothing.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from holdall.values.record import record

DEFAULT_LINES = 10  # of the end of an output
DEFAULT_WINDOW = 1000  # characters around an anchor
MAX_CONTEXT = 1000
MAX_SHOWN = 100_000


@record
class Argument:
    """`about` is for models, `help` for people; where one of them is None, they have no such argument."""

    name: str
    type: type
    default: Any  # `...` where it must be given
    about: str | None
    help: str | None
    flags: str = ""  # "-m --max"; without flags it is a positional argument of the command
    metavar: str | None = None
    least: int | None = None
    most: int | None = None  # not in the schema: the verb refuses more, and says so
    schema: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)  # what the schema says besides
    listed: bool = True  # whether a model is told of it: every request pays for that; it may be given anyway


@record
class Verb:
    """`tool` and `about` are for models; without them only methods and the command line have it."""

    name: str
    help: str  # of the command; its first line is what a list of commands says
    arguments: tuple[Argument, ...]
    tool: str = ""
    about: str = ""
    without_handle: str = ""  # the verb that a model means that gives no handle
    work: str = ""  # module:function in `verbs`, imported when it is first called

    @property
    def summary(self) -> str:
        return self.help.partition("\n")[0]


_TEXT = {"minLength": 1}
_HANDLE = Argument(
    "handle", str, ..., "", "Handle or call id of a kept output.", "", "HANDLE",
    schema=_TEXT,
)  # fmt: skip

READ = Verb(
    "read",
    """\
Read a range of an output; without one, as much of its beginning as one answer holds.

Lines count from 1 and include both ends, bytes and chars count from 0 and exclude the end. A: goes to the end,
:B starts at the beginning, negative numbers count from the end. A range is printed whole, however long it is.

\b
Example:  holdall read k3f9 --lines 2860:2880
          holdall read k3f9 --bytes=-500:
""",
    (
        _HANDLE,
        Argument("lines", str, None, "",
                 "From line A to line B, both.", "--lines", "A:B"),
        Argument("bytes", str, None, "",
                 "From byte A up to byte B.", "--bytes", "A:B"),
        Argument("chars", str, None, "",
                 "From char A up to char B.", "--chars", "A:B", listed=False),
    ),
    "context_read",
    'Read part of a kept output: lines "A:B" from 1, both included; bytes from 0. '
    "Without a handle: what is kept.",
    without_handle="list",
    work="read:read",
)  # fmt: skip

GREP = Verb(
    "grep",
    """\
Search an output: LINE:BYTE:TEXT for each line that matches, or a count, or a count of each value.

A match in a long line comes with a window around it; `holdall read HANDLE --bytes` takes its byte. Patterns are
matched within a line, in linear time; \\w \\d \\s \\b are ASCII. With several handles each line
begins with its handle.

\b
Example:  holdall grep k3f9 'Failed password for (\\S+)' --group
""",
    (
        _HANDLE,
        Argument("pattern", str, ..., "",
                 "Regular expression (no look-around, no back-references).", schema=_TEXT),
        Argument("ignore_case", bool, False, "", "Ignore case.", "-i --ignore-case"),
        Argument("literal", bool, False, "", "The pattern is plain text.", "-F --fixed", listed=False),
        Argument("context", int, 0, "",
                 "N lines around each match.", "-C --context", "N", 0, MAX_CONTEXT, listed=False),
        Argument("before", int, None, "", "N lines before each match.", "-B --before", "N", 0, MAX_CONTEXT),
        Argument("after", int, None, "", "N lines after each match.", "-A --after", "N", 0, MAX_CONTEXT),
        Argument("limit", int, None, "",
                 "Show at most N lines or values (default: 100 on a terminal, all in a pipe).", "-m --max", "N", 1,
                 MAX_SHOWN),
        Argument("count", bool, False, "", "Print only how many matches there are.", "-c --count"),
        Argument("group", bool, False, "", "Print how often each captured value (or each match) occurs.", "--group"),
        Argument("last", bool, False, "", "Show the last matches, not the first.", "--last"),
        Argument("start", int, 0, "",
                 "Go on from this byte; with --last, before it.", "--from", "BYTE", 0),
    ),
    "context_grep",
    "Search a kept output by regex. count: only how many; group: how often each captured value occurs; "
    "last: from the end.",
    work="grep:grep_bounded",
)  # fmt: skip

TAIL = Verb(
    "tail",
    "Print the last lines of an output; with -f, what is written to it until it ends.",
    (
        _HANDLE,
        Argument("lines", int, DEFAULT_LINES, "",
                 "How many lines.", "-n --lines", "N", 0, schema={"minimum": 1}),
    ),
    "context_tail",
    "Last lines of a kept output.",
    work="read:tail",
)  # fmt: skip

SLICE = Verb(
    "slice",
    """\
Cut a piece out by characters: from a position, or around a text that stands in it.

\b
Example:  holdall slice k3f9 --anchor 'OutOfMemory' --window 400
""",
    (
        _HANDLE,
        Argument("start", int, None, None, "First character, from 0.", "--start", "N", 0),
        Argument("length", int, None, None, "How many characters.", "--length", "N", 0),
        Argument("anchor", str, None, None, "Text to slice around.", "--anchor", "TEXT"),
        Argument("window", int, DEFAULT_WINDOW, None, "Characters around the anchor.", "--window", "N", 0),
        Argument("match_index", int, 0, None, "Which occurrence, from 0.", "--match-index", "N", 0),
    ),
    work="read:slice",
)

QUERY = Verb(
    "query",
    """\
Ask an output by SQL, or by a path into its JSON.

JSON, NDJSON and CSV are the table t with their own columns; anything else is t(line_no, text). Nested arrays:
unnest(items), or --at '$.items'.

\b
Example:  holdall query k3f9 "select count(*) from t where text like '%ERROR%'"
""",
    (
        _HANDLE,
        Argument("sql", str, None, "", "One SELECT over the table t.", "", "[SQL]", schema=_TEXT),
        Argument("path", str, None, "",
                 "JSONPath ($.a[*].b) or JSON Pointer (/a/0/b).", "--path", schema=_TEXT),
        Argument("at", str, None, "",
                 "Path of the array or object that is the table.", "--at"),
        Argument("also", list, (), "",
                 "A further output, as a table named by its handle.", "--also", "HANDLE",
                 schema={"items": {"type": "string"}}),
        Argument("kind", str, None, "Read as csv, lines…",
                 "Read it as csv, tsv, table, json, ndjson or lines.", "--kind", "KIND"),
        Argument("limit", int, None, "",
                 "Show at most N rows or values.", "-m --max", "N", 1),
        Argument("skip", int, 0, "",
                 "With --path: leave out the first N values.", "--skip", "N", 0, listed=False),
    ),
    "context_query",
    "DuckDB SELECT from t: the rows of JSON, NDJSON or CSV; other text is t(line_no, text). "
    "at: the JSONPath of the table; also: further handles. Or path: a JSONPath.",
    work="query:query",
)  # fmt: skip

DIFF = Verb(
    "diff",
    """\
Show how one output differs from another: by JSON paths, by rows with a key, or by lines.

Without a second one: how it differs from the last output before it of the same tool and arguments. Each change has its
place in both. Exit code 1 where nothing differs.

\b
Example:  holdall diff k3f9 m2p7 --key id
""",
    (
        _HANDLE,
        Argument("other", str, "", "", "The later output (default: HANDLE is the later one).", "", "[HANDLE]"),
        Argument("by", str, None, "", "lines, rows or json (default: by what they are).", "--by", "HOW", listed=False),
        Argument("key", str, None, "", "With rows: the column that tells them apart.", "--key", "COLUMN"),
        Argument("limit", int, None, "", "Show at most N changes.", "-m --max", "N", 1, listed=False),
        Argument("skip", int, 0, "", "Leave out the first N changes.", "--skip", "N", 0),
    ),
    "context_diff",
    "How the output other differs from the output handle; without other, how handle differs from the last of the "
    "same call. key: the column that tells rows apart.",
    work="diff:diff",
)

VERBS = {verb.name: verb for verb in (READ, GREP, TAIL, SLICE, QUERY, DIFF)}

# It fetches nothing: the bag waits for its own calls, the command for those of any process.
WAIT = Verb(
    "wait",
    """\
Wait until a running command has ended, or until its output holds a pattern.

Without a handle it waits for nothing where commands in the background have ended since the last wait: it tells of them.

The exit code is that of the command, the highest of several, or 0 where the pattern came. It is 1 where the time was
over first, where it ended without the pattern, or where nothing runs, and 3 where the end of the command was lost.

\b
Example:  holdall wait b7c4 --pattern 'error:'
""",
    (
        Argument("handle", str, "", "",
                 "What to wait for, all of them (default: any that runs).", schema=_TEXT),
        Argument("all", bool, False, "", None),
        Argument("pattern", str, "", "",
                 "Until its output matches this.", "--pattern -p", schema=_TEXT),
        Argument("timeout", float, None, "",
                 "No longer than this.", "--timeout -t", "SECONDS", schema={"minimum": 0}),
    ),
    "wait_for_tool_output",
    "Wait until a running tool has ended: any, the one with this handle, or all; or until its output holds a pattern. "
    "timeout in seconds (60).",
)  # fmt: skip
