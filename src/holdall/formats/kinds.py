"""How kinds of outputs are recognised, from their beginning and their end.

A guess from a sample, made once; the whole output is never read for it. `formats.registry` says in which order these
are asked, and what else belongs to a kind.
"""

import json
import re
from functools import cached_property

import stringzilla

from holdall.formats.heads import begins_with_time, has_level, is_of_service, request
from holdall.formats.outline import spread
from holdall.text.json.reader import begins_json
from holdall.values.patterns import lazy_pattern

SAMPLE = 64 * 1024  # bytes of the beginning that are looked at
TAIL = 1024  # bytes of the end that are looked at

_HTML = lazy_pattern(r"<(?:!doctype\s+html|html[\s>]|head[\s>]|body[\s>])", re.IGNORECASE | re.ASCII)
_DIFF = lazy_pattern(r"^(?:diff --git |--- \S.*\n\+\+\+ \S|@@ -\d+(?:,\d+)? \+\d+|Index: )", re.MULTILINE | re.ASCII)
_DIFF_MARKS = (b"diff --git ", b"+++ ", b"@@ -", b"Index: ")  # one of these is in whatever the pattern finds
_MARKDOWN = lazy_pattern(
    # No run without a bound and none over newlines: blank lines or open brackets would make it quadratic.
    r"^(?:#{1,6} \S|[ \t]{0,16}[-*+] \S|[ \t]{0,16}\d{1,9}\. \S|```|\|.*\|[ \t]*$|> )"
    r"|\[[^\]\n]{1,100}\]\([^)\n]{1,200}\)",
    re.MULTILINE,
)
_HEADING = lazy_pattern(r"^#{1,6} \S", re.MULTILINE)
_BLAMED = lazy_pattern(  # what `git blame` writes behind a commit: a line of a file, with who wrote it and when
    r" (?:[^\n(]{1,200} )?\([^\n)]{1,200} \d{4}-\d\d-\d\d \d\d:\d\d:\d\d [-+]\d{4} +\d+\)"
)
_OF_A_TRACE = lazy_pattern(
    r"\s+(?:at |\.\.\. \d|File \")|\s{4}\S|Caused by: |Traceback \(most recent|[\w.$]{0,200}(?:Error|Exception)\b",
    re.ASCII,
)
_COMMIT = lazy_pattern(
    r"^(?:[*|\\/_ ]{0,60} )?commit [0-9a-f]{7,64}\b[^\n]{0,400}\n(?:(?:[|\\/] {1,3}){0,20}\w[^\n]{0,400}\n){0,6}?"
    r"(?:[|\\/] {1,3}){0,20}Author: ",
    re.MULTILINE,
)
# What follows a name in lists of what is no commit, or of more than commits: objects, references, bytes, symbols.
_NO_SUBJECT = lazy_pattern(
    r"(?:(?:blob|tree|commit|tag)(?: \d+)?|refs/\S+|\S+@\{.*|[0-9a-f]{2,8}(?: [0-9a-f]{2,8}){2,}|(?:[A-Za-z] )?\S+)\s*"
)
ONE_LINE_COMMIT = lazy_pattern(r"(?:[*|\\/_ .-]{0,60} )?((?:[0-9a-f]{7,14}|[0-9a-f]{40}|[0-9a-f]{64})) (?! )\S")
GRAPH_ONLY = lazy_pattern(r"[|\\/_ .-]{1,120}")
_ABBREVIATED = 3  # signs by which short names of commits differ in length
XML = lazy_pattern(
    rb"(?:\xef\xbb\xbf)?\s{0,1000}<(?:\?xml\b|!DOCTYPE (?!html)|[A-Za-z_][\w:.-]{0,80}[\s>/])", re.IGNORECASE
)
_LOOKED_AT = 200  # lines by which logs are told
_LINE = 300  # characters of each
_MAGIC = (
    (b"\x1f\x8b", "gzip"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"PAR1", "parquet"),
    (b"ARROW1\0\0", "arrow"),
    (b"\xff\xff\xff\xff", "arrow"),
    (b"SQLite format 3\0", "sqlite"),
    (b"%PDF-", "pdf"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"RIFF", "webp"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_MAGIC_BYTES = frozenset(sign[0] for sign, _ in _MAGIC)
PACKED_STREAMS = ("gzip", "zstd", "bzip2", "xz", "utf-16")  # of one thing
PACKED = (*PACKED_STREAMS, "zip", "tar")
_QUOTED_KEY = lazy_pattern(r"(\"[^\"]{1,200}\"|'[^']{1,200}')\s{0,8}:(?:\s+(.*))?")
_NO_KEY = frozenset("#[]{},&*!|>%@`?")  # signs with which no plain key begins
_LONGEST_KEY = 120
TOML_KEY = lazy_pattern(
    # No part can begin with what the part before it may end with: nothing is gained by giving signs back.
    r"((?:[A-Za-z0-9_-]{1,80}+|\"[^\"]{1,120}+\"|'[^']{1,120}+')"
    r"(?: ?\. ?(?:[A-Za-z0-9_-]{1,80}+|\"[^\"]{1,120}+\")){0,8})"
    r"\s{0,40}+=\s{0,40}+((?:[\"'\[{+-]|\d|true\b|false\b|inf\b|nan\b).*)"
)
TOML_TABLE = lazy_pattern(r"(\[{1,2})\s{0,8}([A-Za-z0-9_.\"' :/@-]{1,200}?)\s{0,8}\]{1,2}\s{0,8}(?:#.*)?")
_METRIC = lazy_pattern(
    r"[A-Za-z_:][\w:]{0,200}(?:\{[^\n]{0,4000}\})? {1,4}"
    r"[-+]?(?:\d[\d.]{0,40}(?:[eE][-+]?\d{1,4})?|Inf|NaN)(?: \d{1,16})?\r?",
    re.ASCII,
)
_TABLES = lazy_pattern(
    r"\n(?:CREATE TABLE|INSERT (?:OR \w{1,10} )?INTO|REPLACE INTO|COPY \S{1,120} ?\()", re.IGNORECASE
)
_STATEMENT = lazy_pattern(
    r"(?:--|/\*|(?:CREATE|INSERT|REPLACE|DROP|ALTER|SET|BEGIN|START|COMMIT|LOCK|UNLOCK|COPY|SELECT|PRAGMA|USE|UPDATE|DELETE|"
    r"GRANT|REVOKE|COMMENT|ANALYZE|DELIMITER|END)\b|\\[a-z]|\))",
    re.IGNORECASE,
)
_MINIFIED = 400  # bytes that a line of a minified script has on average, at least
_STYLE = lazy_pattern(r"[}\s,][.#]?[\w-]{1,40}\{[a-z-]{2,30}:")
_KEYED = 400  # lines by which YAML and TOML are told
_LONG_QUOTES = ('"""', "'''")
_COMMENT = lazy_pattern(r"(?:^|\s)#")
_IN_QUOTES = lazy_pattern(r"\"(?:[^\"\\]|\\.){0,2000}+\"|'[^']{0,2000}+'")
_SEPARATORS = (",", "\t", ";", "|")
_LONGEST_HEADER = 2000  # characters


class Ends:
    """The two ends of an output, as the recognisers look at them. What several of them need is made once."""

    def __init__(self, head: bytes, tail: bytes, *, whole: bool, valid: bool) -> None:
        """`head` and `tail` may overlap; `whole`: `head` is all there is; `valid`: all of the output is UTF-8."""
        self.head, self.tail, self.whole, self.valid = head, tail, whole, valid

    @cached_property
    def text(self) -> str:
        return self.head.decode("utf-8", "replace").removeprefix("\ufeff")

    @cached_property
    def magic(self) -> str:
        """The kind that its first bytes are the mark of, if any; of some also the end must be as it should."""
        head = self.head
        if head[:1] and head[0] in _MAGIC_BYTES:
            for sign, kind in _MAGIC:
                if head.startswith(sign) and self._ends_as(kind):
                    return kind
        return "tar" if is_tar(head) else ""

    def _ends_as(self, kind: str) -> bool:
        end = self.tail or self.head
        match kind:
            case "parquet":
                return end.endswith(b"PAR1")
            case "pdf":
                return b"%%EOF" in end
            case "gzip":
                return self.head[2:3] == b"\x08"
            case "bzip2":
                return self.head[4:10] in (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")
            case "webp":
                return self.head[8:12] == b"WEBP"
            case "arrow":
                return self.head.startswith(b"ARROW1\0\0") or _is_arrow_stream(self.head)
            case "utf-16":
                text = self.head[:4096].decode("utf-16", "replace")
                return text.count("\ufffd") < 2 and all(
                    sign.isprintable() or sign in "\t\r\n\f\x1b" for sign in text[:-1]
                )
            case _:
                return True

    @cached_property
    def start(self) -> str:
        return self.text.lstrip()

    @cached_property
    def rows(self) -> list[str]:
        """All of the lines, and what is behind the last newline."""
        return self.text.split("\n")

    @cached_property
    def lines(self) -> list[str]:
        """Those that are not blank. A last line that is cut off is left out where there is another."""
        *lines, last = self.rows
        lines = list(filter(str.strip, lines))
        return [*lines, last] if last.strip() and (self.whole or not lines) else lines

    @cached_property
    def last_lines(self) -> list[str]:
        """Those of the end that are whole and not blank."""
        lines = self.tail.decode("utf-8", "replace").split("\n")
        return [line.rstrip("\r") for line in lines[1:-1] if line.strip()]

    @cached_property
    def separator(self) -> str | None:
        """What parts the columns, where most of it is a table."""
        # `2026-01-01 00:00:00,123 INFO up`: a log has the same sign on every line too, but no names above its lines.
        if not self.lines or (self.stamped and begins_with_time(self.lines[0][:_LINE])):
            return None
        if not any(sign in self.lines[0] for sign in (*_SEPARATORS, '"')):
            return None
        from holdall.formats.columns import separator_of  # noqa: PLC0415 - only for what may be one

        sign = separator_of(self.text, whole=self.whole)
        rows = [] if self.whole else self.last_lines
        if sign is None or not rows or any('"' in row for row in rows):
            return sign
        return sign if sum(sign in row for row in rows) * 2 > len(rows) else None

    @cached_property
    def stamped(self) -> bool:
        """Whether a third of the lines begin with a time; those of a stack trace belong to the line before it."""
        stamped = others = 0
        for line in self.sampled:
            if _OF_A_TRACE.match(line):
                continue
            if not begins_with_time(line):
                others += 1
                continue
            stamped += 1
            if stamped * 3 >= len(self.sampled):
                return True
        return not self.sampled or (stamped >= others / 2 and stamped * 20 >= len(self.sampled) > 5)

    @cached_property
    def sampled(self) -> list[str]:
        """Some of the lines, spread evenly over the beginning."""
        return [line[:_LINE] for line in spread(self.lines, _LOOKED_AT)]


def _is_arrow_stream(head: bytes) -> bool:
    """Whether the first message, a table of flatbuffers, says that it is a schema."""
    if len(head) < 64 or int.from_bytes(head[4:8], "little") % 8:
        return False
    table = 8 + int.from_bytes(head[8:12], "little")
    fields = table - int.from_bytes(head[table : table + 4], "little", signed=True)
    at = int.from_bytes(head[fields + 6 : fields + 8], "little") if 8 <= fields < len(head) else 0
    return at > 0 and head[table + at : table + at + 1] == b"\1"


def is_tar(head: bytes) -> bool:
    """By the checksum of its first header, which also the oldest tars have."""
    block = head[:512]
    told = block[148:156].strip(b" \0")
    if len(block) < 512 or not block[0] or not (told.isdigit() and told.isascii()):
        return False
    rest = block[:148] + b" " * 8 + block[156:]
    return told.lstrip(b"0") in (b"%o" % sum(rest), b"%o" % max(0, sum(byte - 256 * (byte > 127) for byte in rest)))


def is_binary(ends: Ends) -> bool:
    head = ends.head
    if not head:
        return False
    if b"\x00" in head[:8192]:
        return True
    if ends.valid:
        return False
    # Text in another encoding, or with a few stray bytes, is still text: only a flood of them makes it binary. In one
    # with many accents, as of Latin-1, they are more, and there is no sign that no text has.
    sample = head[:8192]
    stray = sample.decode("utf-8", "replace").count("\ufffd")
    others = sum(byte < 9 or 13 < byte < 27 for byte in sample)
    is_long = len(sample) >= 64  # of less nothing can be told by its share
    return (stray + others) * 10 > len(sample) if others or not is_long else stray * 10 > 3 * len(sample)


def is_blank(ends: Ends) -> bool:
    return not ends.start


def is_ndjson(ends: Ends) -> bool:
    if ends.start[0] not in "{[" or len(lines := ends.lines) < 2:  # one line says nothing of the rest
        return False
    first, broken = lines[:20], 0
    for line in first:  # the first of them is an array or object, the others may be any value
        try:
            json.loads(line, parse_int=str)  # as text: Python refuses to read very long numbers
        except (ValueError, RecursionError):
            broken += 1
            if broken * 10 > len(first):  # among many records a program may say a word
                return False
    return not broken or sum(line[:1] == "{" for line in first) >= len(first) - broken


def is_json(ends: Ends) -> bool:
    start = ends.start
    closing = {"{": b"}", "[": b"]"}.get(start[0])
    return closing is not None and ends.tail.rstrip()[-1:] == closing and begins_json(start)


def is_html(ends: Ends) -> bool:
    return "<" in ends.start[:4096] and _HTML.search(ends.start[:4096]) is not None


def is_xml(ends: Ends) -> bool:
    """It begins as XML, and ends with a tag: prose may begin with one."""
    end = (ends.tail or ends.head).rstrip()
    return XML.match(ends.head) is not None and end.endswith(b">") and (b"</" in end or b"/>" in end)


def may_be_xml(head: bytes) -> bool:
    """Whether it may be XML that was cut off: some elements end. A log or a chat may have a word in such brackets."""
    ends = head.count(b"</") + head.count(b"/>")
    return XML.match(head) is not None and (ends * 4 >= head.count(b"<") or head.lstrip()[:2] in (b"<?", b"<!"))


def is_diff(ends: Ends) -> bool:
    if not any(stringzilla.find(ends.head, mark) >= 0 for mark in _DIFF_MARKS):
        return False
    lines = ends.lines
    return bool(_DIFF.search(ends.text)) and sum(line[:1] in "+-@" for line in lines) * 5 > len(lines)


def is_csv(ends: Ends) -> bool:
    if ends.separator == "|" and sum(map(is_of_service, ends.sampled)) * 2 > len(ends.sampled):
        return False  # what stands before each line is the name of the container that wrote it
    return ends.separator not in (None, "\t")


def is_tsv(ends: Ends) -> bool:
    return ends.separator == "\t"


def is_table(ends: Ends) -> bool:
    """Aligned columns below their names, as `ps` and `kubectl get` print them."""
    first = ends.text.partition("\n")[0]
    if ends.stamped or "  " not in first.strip() or len(first) > _LONGEST_HEADER:
        return False
    from holdall.formats.columns import positions_of  # noqa: PLC0415 - only for what may be one

    positions = positions_of(ends.text, whole=ends.whole)
    if positions is None or ends.whole:
        return positions is not None
    rows = ends.last_lines
    return sum(map(positions.fits, rows)) * 2 > len(rows)


def is_access_log(ends: Ends) -> bool:
    """Of a web server."""
    if '] "' not in ends.start[:4096]:  # between the time and the request
        return False
    return sum((request(line.encode()) or (None,))[0] is not None for line in ends.sampled) * 2 > len(ends.sampled)


def is_metrics(ends: Ends) -> bool:
    """Lines of Prometheus: samples, and comments that say what they are."""
    if stringzilla.find(ends.head, b"# HELP ") < 0 and stringzilla.find(ends.head, b"# TYPE ") < 0:
        return False
    lines = ends.lines[:_KEYED]
    comments = sum(line.startswith(("# HELP ", "# TYPE ")) for line in lines)
    samples = sum(map(_is_sample, lines)) if comments else 0
    return samples > 1 and (samples + comments) * 20 >= len(lines) * 19


def _is_sample(line: str) -> bool:
    return _METRIC.fullmatch(line) is not None


def is_metric_line(line: str) -> bool:
    return line.startswith("# ") or _is_sample(line)


def is_sql_line(line: str) -> bool:
    """Whether it may be one of a dump: a statement, a part of one, or a row of a table."""
    return line[-1:] in ",();" or "\t" in line or _STATEMENT.match(line) is not None


def is_sql(ends: Ends) -> bool:
    """Statements that make tables or fill them, and nothing else."""
    inside, copies = False, False
    fit = total = 0
    rows = ends.rows[:_KEYED]
    for line in rows:
        text = line.strip()
        if not text and not copies:
            continue
        if (total - fit) * 20 > len(rows):  # most outputs are something else, and their first lines tell
            return False
        total += 1
        if copies:
            copies, fit = text != "\\.", fit + 1
        elif inside or _STATEMENT.match(text):
            fit += not inside or text[-1] in ",();" or text.endswith("*/") or text[:1] in "('`\""
            inside = not text.startswith(("--", "/*")) and not text.endswith((";", "*/"))
            copies = text.startswith("COPY ") and text.endswith("FROM stdin;")
    return total > 2 and fit * 20 >= total * 19 and _TABLES.search("\n" + ends.text) is not None


def is_script(ends: Ends) -> bool:
    """Minified: lines that are very long and full of signs, with what only scripts and style sheets have."""
    text = ends.text
    if len(text) < _MINIFIED * 2 or len(text) < _MINIFIED * len(ends.rows):
        return False
    part = text[len(text) // 4 :]
    signs, spaces = sum(map(part.count, "(){};:,.=!?&|")), part.count(" ")
    if signs * 16 < len(part) or spaces * 8 > len(part):
        return False
    code = sum(map(part.count, ("function", "=>", "return ", "var ", "const ", ".prototype", "void 0")))
    style = _STYLE.findall(part[:8192])
    return code * 2000 > len(part) or len(style) * 400 > min(len(part), 8192)


def is_yaml(ends: Ends) -> bool:
    """Nearly all lines are keys, items or what is below one, and something is nested."""
    lines = [line.rstrip() for line in ends.rows[:_KEYED]]
    lines = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    strange = sum(":" not in line and not line.startswith(("-", "  ", "...")) for line in lines)
    bodies = [line.lstrip(" ") for line in lines]
    if len(lines) < 3 or strange * 20 > len(lines) or ends.stamped or any(body.startswith("\t") for body in bodies):
        return False
    pairs = [yaml_pair(body.removeprefix("- ").lstrip(" ")) for body in bodies]
    keyed = [pair is not None and " " not in pair[0] and "(" not in pair[0] for pair in pairs]
    items = [body == "-" or body.startswith("- ") for body in bodies]
    marks = [line in ("---", "...") for line in lines]
    below = [line.startswith("  ") for line in lines]  # the lines of a text that is further in
    fit = sum(map(any, zip(keyed, items, marks, below, strict=True)))
    if fit * 20 < 19 * len(lines) or sum(keyed) * 3 < len(lines):
        return False
    # A key without a value, and then something further in or a list: `Name: value` lines alone are any text.
    return any(
        is_key and body.endswith(":") and (next_line.startswith(" ") or is_item)
        for body, is_key, next_line, is_item in zip(bodies, keyed, lines[1:], items[1:], strict=False)
    ) or (any(items) and sum(keyed) > len(lines) // 2)


def yaml_pair(body: str) -> tuple[str, str] | None:
    """The key at the beginning of a line, and what stands behind it; None if there is none."""
    first = body[:1]
    if first in ("'", '"'):
        found = _QUOTED_KEY.fullmatch(body)
        return (found[1][1:-1], found[2] or "") if found else None
    at = body.find(": ")
    at = at if at >= 0 else len(body) - 1 if body.endswith(":") else -1
    if not 0 < at <= _LONGEST_KEY or first in _NO_KEY or '"' in body[:at] or " #" in body[:at]:
        return None
    return body[:at].rstrip(), body[at + 1 :].strip()


def is_toml(ends: Ends) -> bool:
    """Nearly all lines are tables, keys with values as TOML writes them, or inside of a value that goes on."""
    lines = ends.rows[:_KEYED]
    fit = total = depth = 0
    quotes = ""
    is_plain = True  # neither a table nor a text in quotes: `x = 1` is written in many languages
    keys: set[str] = set()
    number = 0
    for line in map(str.strip, lines):
        if not line or (line.startswith("#") and not quotes):
            continue
        if (total - fit) * 20 > len(lines):
            return False
        total += 1
        goes_on = bool(depth > 0 or quotes)
        pair = None if goes_on else TOML_KEY.match(line)
        if pair is not None:
            if pair[1] in keys:
                return False  # no key stands twice in a table
            keys.add(pair[1])
            number += 1
            is_plain &= pair[2][0] not in "\"'["
        if goes_on or pair is not None:
            fit += 1
            if quotes or not goes_on:
                odd = next((sign for sign in _LONG_QUOTES if line.count(sign) % 2), "")
                quotes = "" if odd and odd == quotes else quotes or odd
            depth += 0 if quotes else open_brackets(without_comment(line))
        elif TOML_TABLE.fullmatch(line):
            fit, is_plain = fit + 1, False
            keys.clear()
    return number > 1 and total > 2 and not is_plain and fit * 20 >= total * 19 and number * 10 >= total


def without_comment(line: str) -> str:
    """A line of YAML or TOML without the comment at its end."""
    if "#" not in line:
        return line
    found = _COMMENT.search(_IN_QUOTES.sub(lambda quoted: "x" * len(quoted[0]), line))
    return line[: found.start()] if found else line


def open_brackets(text: str) -> int:
    """How many brackets stay open, without those in quotes."""
    plain = _IN_QUOTES.sub("", text)
    return sum(map(plain.count, "[{")) - sum(map(plain.count, "]}"))


def is_git_log(ends: Ends) -> bool:
    """Commits with their authors and dates, or one a line. One that is mostly what they changed is a diff."""
    if ends.start.startswith(("commit ", "* commit ")):
        return len(_COMMIT.findall(ends.text)) * 60 > len(ends.lines)
    lines = list(dict.fromkeys(ends.sampled))
    commits: list[str] = []
    others = unlike = 0
    for line in lines:
        if (found := ONE_LINE_COMMIT.match(line)) and _BLAMED.match(line, found.end(1)) is None:
            commits.append(found[1])
            unlike += _NO_SUBJECT.fullmatch(line, found.end() - 1) is not None
        elif GRAPH_ONLY.fullmatch(line) is None:
            others += 1
            if others * 20 > len(lines):  # most outputs are something else: not all of them is looked at
                return False
    if len(commits) < 3 or unlike * 2 > len(commits) or len(set(commits)) < len(commits):
        return False
    # Of git's making: as many signs each, or nearly, and not all of them digits.
    return max(map(len, commits)) - min(map(len, commits)) <= _ABBREVIATED and not all(map(str.isdigit, commits))


def is_log(ends: Ends) -> bool:
    if ends.stamped:
        return True
    sample = ends.sampled
    return len(sample) > 3 and sum(map(has_level, sample)) * 2 >= len(sample)


def is_markdown(ends: Ends) -> bool:
    if stringzilla.find(ends.head, b"# ") < 0 or ends.start.startswith("#!") or not _HEADING.search(ends.text):
        return False
    return len(_MARKDOWN.findall(ends.text)) * 8 >= len(ends.lines) and _are_headings(ends.rows)


def _level(line: str) -> int:
    return len(line) - len(line.lstrip("#"))


def _are_headings(lines: list[str]) -> bool:
    """Whether most lines with `#` stand as headings do: comments stand in blocks, and close to what they explain."""
    headings = standing = 0
    fence = ""
    for at, line in enumerate(lines):
        if line.startswith(fence or ("```", "~~~")):
            fence = "" if fence else line[:3]
        if fence or _HEADING.match(line) is None:
            continue
        before, after = lines[at - 1] if at else "", lines[at + 1] if at + 1 < len(lines) else ""
        level, others = _level(line), (_level(before), _level(after))
        headings += 1
        if level not in others:
            standing += headings == 1 or level > 1 or not (before.strip() or after.strip())
    return standing * 2 >= headings


def json_complaint(text: str) -> str | None:
    """Why `text` is not strict JSON though most readers take it, or None."""
    try:
        json.loads(text, parse_constant=_refuse_constant, parse_int=str)
    except _NotStrictError as constant:
        return f"not strict JSON: it has {constant}"
    except RecursionError:
        return None
    except ValueError as problem:
        return f"not valid JSON: {problem}"
    return None


class _NotStrictError(Exception):
    pass


def _refuse_constant(name: str) -> float:
    raise _NotStrictError(name)
