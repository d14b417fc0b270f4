"""What is taken for a secret: the rules of detect-secrets, and a few of our own for what it does not know.

Every rule runs on RE2, over bytes: no input makes one slow, and the places that it gives are places of bytes. Rules
that look around are run without looking, which finds more and never less. It finds more rather than less on purpose: a
needless mask can be undone, a leaked secret cannot.
"""

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import cast

import re2
from detect_secrets import plugins
from detect_secrets.plugins import keyword
from detect_secrets.plugins.base import RegexBasedDetector

from holdall.text.secrets import Find, Finding
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# Their own forms are below: one of them runs to the end of a line, one marks only the first line of a key, one needs a
# filter of its own, one finds addresses, which are no secrets.
_OURS_INSTEAD = frozenset({"NpmDetector", "PrivateKeyDetector", "JwtTokenDetector", "IPPublicDetector"})
_AFTER_NON_WORD = r"(?:(?<=\W)|(?<=^))"
_LOOKAHEAD = lazy_pattern(r"\(\?![^()]*\)")
_LONG = lazy_pattern(r"\{([0-9]+),[0-9]{4,}\}")  # RE2 counts to a thousand
_EDGES = b" \t\r\n\"'`=:,;"
_SHORTEST_GROUP = 8  # a shorter group is a prefix of the secret, as in `(ghp|gho)_…`: then all of it is masked
_LONGEST_VALUE = 32 * 1024
_MOST_AT_ONCE = 256 * 1024  # of values that are looked for in one pass
FOUND_BEFORE = "Found elsewhere"
_VARIABLE = "a variable"

_KEY = lazy_pattern(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[^\n]*\n")
_CLOSING = lazy_pattern(rb"(?<!\\)(\\*+)([\"'`])")
_KEY_LINE = lazy_pattern(rb"[A-Za-z0-9+/=]{16,}")
_FOLDERS = ("PWD", "OLDPWD")  # in any environment
_WORKING_FOLDER = lazy_pattern(rb"(?<![A-Z_])(?:OLD)?PWD=\Z")
_DOCUMENT = lazy_pattern(rb"(?m)^---")
_SECRET_OF_KUBERNETES = lazy_pattern(rb"(?m)^[ \t]*kind:[ \t]*[\"']?Secret\b")
_ENTRY = lazy_pattern(rb"(?m)^[ \t]+[\w./-]{1,200}:[ \t]+[\"']?([A-Za-z0-9+/]{8,}={0,2})[\"']?[ \t\r]*$")
_SECRET_IN_JSON = lazy_pattern(rb'"kind"\s*+:\s*+"Secret"')
_DATA_IN_JSON = lazy_pattern(rb'"(?:data|stringData)"\s*+:\s*+\{([^{}]*+)\}')
_ENTRY_IN_JSON = lazy_pattern(rb':\s*+"([^"\\]{3,}+)"')
_DELIMITERS = (b"|", b"\t", b";", b",")
_CELLS = {  # up to the next delimiter that is not in quotes
    one: lazy_pattern(rb'(?:[^"%b]++|"(?:[^"]++|"")*+"?)*+' % re.escape(one)) for one in _DELIMITERS
}
_COLUMN_NAME = lazy_pattern(rb"|[\w.-]{1,60}(?: [\w.-]{1,60})?")
_RULE_OF_TABLE = lazy_pattern(rb"[-+|: =]{3,}+")
_LONGEST_HEADER, _LONGEST_ROW, _SHORTEST_CELL = 4096, 64 * 1024, 3
_OWN: tuple[tuple[str, str], ...] = (
    ("Private Key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----([^-\"']*)"),
    ("Private Key", r"Private-Lines: ?[0-9]+((?:(?:\\[rn]|\s)+[A-Za-z0-9+/=]{20,})+)"),
    ("Private Key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,60}"),
    ("JSON Web Token", r"eyJ[A-Za-z0-9_=-]{8,}\.[A-Za-z0-9_=-]{8,}(?:\.[A-Za-z0-9_.+/=-]*)?"),
    (  # up to the last @ before the host, as programs read it
        "Credentials in a URL",
        (
            r"(?i)[a-z][a-z0-9+.-]{1,30}://[^\s/:@\"'<>\\]*:"
            r"([^\s/@\"'<>\\]{1,500}(?:@[^\s/@?#&=;,\"'<>\\]{1,200})*)@"
        ),
    ),
    (
        "Password by its name",
        (
            r"(?i)\"(?:name|key)\\?\"\s*:\s*\\?\"[\w.-]{0,60}(?:passw(?:or)?d|passphrase|secret|api[_-]?key|[_.-]token)"
            r"(?:[0-9_.-][\w.-]{0,20})?\\?\"\s*,\s*\\?\"value\\?\"\s*:\s*\\?\"([^\"\\\r\n]{3,500})"
        ),
    ),
    ("Authorization Header", r"(?i)authorization[\\\"']*\s*[:=]\s*[\\\"']*(?:[a-z]+\s+)?([A-Za-z0-9._~+/=:-]{8,})"),
    ("Bearer Token", r"(?i)\bbearer\s+([A-Za-z0-9._~+/=-]{16,})"),
    ("Cookie", r"(?i)\b(?:set-)?cookie[\\\"']*\s*:\s*[\\\"']*([^\r\n\"'\\]{8,})"),
    ("NPM tokens", r"_authToken=\s*([^\s\"'\\]{8,})"),
    ("NPM tokens", r"\bnpm_[A-Za-z0-9]{30,}"),
    ("GitHub Token", r"github_pat_[A-Za-z0-9_]{22,}"),
    ("API Key", r"\bsk-(?:ant|proj|svcacct|or|lf)-[A-Za-z0-9_-]{16,}"),
    ("API Key", r"\bsk-[A-Za-z0-9]{32,}"),
    ("Google API Key", r"\bAIza[0-9A-Za-z_-]{35}"),
    ("Google OAuth Token", r"\bya29\.[0-9A-Za-z_-]{20,}"),
    ("Hugging Face Token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("Slack Token", r"\bxapp-[0-9]-[A-Za-z0-9-]{20,}"),
    ("Stripe Access Key", r"\b(?:sk|rk)_(?:live|test)_[0-9A-Za-z]{16,}"),
    ("Webhook Secret", r"\bwhsec_[A-Za-z0-9+/=]{20,}"),
    ("DigitalOcean Token", r"\bdo[opr]_v1_[a-f0-9]{64}"),
    ("Shopify Token", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    ("Vault Token", r"\bhv[sbr]\.[A-Za-z0-9_-]{20,}"),
    ("Shared Access Signature", r"[?&]sig=([A-Za-z0-9%_.~+/=-]{20,})"),
    ("Token", r"(?i)token[\\\"'`]*\s*(?:=>|[:=])\s*[\\\"'`]*([A-Za-z0-9._~+/=-]{16,})"),
    ("Docker Login", r"\"auth\\*\"\s*:\s*\\*\"([A-Za-z0-9+/]{8,}={0,2})"),
    (
        "Password in a flag",
        (
            r"(?i)--[a-z-]*(?:passw(?:or)?d|passphrase|secret|token|api-?key|access-?key)[ =]+[\"']?"
            r"([^\s\"'-][^\s\"']{2,})"
        ),
    ),
    (
        "Password in XML",
        r"(?i)<[\w:.-]{0,40}(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key)[\w.-]{0,20}(?:\s[^<>]{0,200})?>\s*([^<\s][^<]{2,500})</",
    ),
    ("Password in SQL", r"(?i)\b(?:identified\s+by|password)\s+'([^'\n]{3,200})'"),
    ("Password in a flag", r"--from-literal[= ][\"']?[\w.-]+=([^\s\"']{3,})"),
    ("Password in netrc", r"(?i)\bmachine\s+\S+\s+(?:(?:login|account)\s+\S+\s+)*password\s+(\S+)"),
    ("Credentials in a URL", r"(?i)jdbc:oracle:[a-z]+:[^\s/@:]+/([^\s@]+)@"),
)
# Flags that hold a secret only after some commands: first the flag is found, then its command is looked for before it.
# A pattern for both is slow on a text that has many of either.
_FLAG_REACH = 600  # bytes
_FLAGS: tuple[tuple[str, str], ...] = (
    (r"(?i)\bcurl\b", r"\s(?:-[uU]|--(?:proxy-)?user)[ =]?[\"']?[^\s:\"']+:([^\s\"']{3,})"),
    (r"(?i)\b(?:mysql|mariadb)", r"\s-p([^\s\"']{3,})"),
    (
        r"(?i)\b(?:sshpass|(?:docker|podman|helm|oras|crane|nerdctl)\b.*\blogin)\b",
        r"\s-p[ =]?[\"']?([^\s\"']{3,})",
    ),
)
_SEPARATORS = (b"\n", b"|", b";", b"&")
# These are words of any sentence: what they find counts only if it is no word itself.
_IN_SENTENCES: tuple[tuple[str, str], ...] = (
    (
        "Password in a sentence",
        r"(?i)\b(?:password|passphrase|passcode|passwort|kennwort)\s+(?:is|was|ist|lautet)\s+[\"'`]?([^\s\"'`]{6,})",
    ),
    ("Password in pgpass", r"^[\w.*-]+:(?:[0-9]{2,5}|\*):[a-zA-Z*][\w-]*:[\w-]+:(\S{6,})$"),
)
_WORDS = (
    "access_?key", "auth_?token", "access_?token", "refresh_?token", "bearer_?token", "passphrase", "passwort",
    "kennwort", "wachtwoord", "contrasena", "mot_?de_?passe", "senha",
)  # fmt: skip
_NO_SECRET = lazy_pattern(
    rb"(?i)(?:null|none|nil|true|false|undefined|str|string|bytes|int|bool|any|optional|required|redacted|hidden"
    rb"|example|changeme|empty|unset|self|this|input|prompt)|[*x._-]+"
    # What stands for a value, in its full form: a password may begin with any of these signs.
    rb"|(?-i:\$[A-Z_][A-Z0-9_]*|\$[a-z_]{1,20})|\$\{[^{}]*\}|\$\(.*\)|\$\{\{.*\}\}|<[^<>]*>|\{\{.*\}\}|\{[\w.]*\}"
    rb"|%\w+%|%\(\w+\)[sdr]|%[sdr]|\([a-z ]+\)"
    # A path: below a folder that systems have, or of several small words.
    rb"|(?-i:/(?:etc|run|var|home|tmp|usr|opt|root|mnt|srv|dev|proc|Users|secrets|vault|data|app)/[\w./-]+)"
    rb"|(?-i:(?:/[a-z_.-]{1,30}){2,10})",
    re.DOTALL,
)


_SENTENCES = frozenset(kind for kind, _ in _IN_SENTENCES)


@record
class _Rule:
    kind: str
    regex: "re2._Regexp"  # pyright: ignore[reportPrivateUsage]
    is_ours: bool = False  # then a group in it is the secret, however short


class Rules:
    """Made once, used for many texts."""

    def __init__(self) -> None:
        self.left_out: list[str] = []  # rules of theirs that RE2 cannot run
        self._rules = [_Rule(kind, _compiled(pattern), is_ours=True) for kind, pattern in (*_OWN, *_IN_SENTENCES)]
        self._rules += [_Rule(kind, _compiled(pattern)) for kind, pattern in self._theirs()]
        words = "|".join((*keyword.DENYLIST, *_WORDS)).replace("_?", "[_-]?")
        # A name, perhaps in quotes; a sign between; then the quote that the value begins with, or the value itself.
        self._assigned = _compiled(
            rf"(?i)(?:{words})[\w-]{{0,40}}[\\]*[\"'`]?\]?[ \t]{{0,20}}(?:=>|:=|={{1,3}}|:|%3[adAD])[ \t]{{0,20}}@?"
            r"(?:([\\]*[\"'`])|([^\s\"'`,;&|<>(){}\[\]\\]{3,500}))"
        )
        # A variable of the environment: its value ends with the line, whatever signs it has.
        # In YAML: as the value of such a name, and on the line behind it.
        around, blank = r"[\w.-]{0,60}", r"[ \t]*"
        in_yaml = (
            (
                rf"(?i)^[ \t-]*(?:name|key):{blank}[\"']?{around}(?:{words}){around}[\"']?[ \t\r]*\n"
                rf"{blank}value:{blank}[\"']?([^\s\"'][^\n\"']{{2,500}})"
            ),
            rf"(?i)(?:{words})[\w-]{{0,40}}[\"']?{blank}:{blank}[|>][-+]?[ \t\r]*\n[ \t]+([^\s][^\n]{{2,500}})$",
        )
        self._rules += [_Rule(_VARIABLE, _compiled(one), is_ours=True) for one in in_yaml]
        self._column = _compiled(
            rf"(?i)(?:^|[,;\t|])[ \t\"]{{0,60}}[\w -]{{0,40}}(?:{words})[\w -]{{0,40}}[ \t\"]{{0,60}}(?:[,;\t|\r]|$)"
        )
        named = "|".join(word.upper() for word in (*keyword.DENYLIST, *_WORDS)).replace("_?", "_?")
        self._rules.append(
            _Rule(
                _VARIABLE,
                _compiled(rf"^[ \t]*(?:export[ \t]+)?[A-Z0-9_]*(?:{named})[A-Z0-9_]*=([^\s\"'`][^\n]{{2,500}})$"),
                is_ours=True,
            )
        )
        whole = "cookie|authorization|credentials?|pass|pw|passcode|auth"
        self._named = re.compile(rf"(?i)(?:{words}|(?:^|[_-])(?:{whole})$|token$)")
        self._flags = [(_compiled(command), _compiled(flag)) for command, flag in _FLAGS]
        # One pass tells which rules have anything to find: most texts have nothing for any of them.
        self._any = re2.Set.SearchSet(_options())
        for one in (*(rule.regex for rule in self._rules), self._assigned):
            self._any.Add(one.pattern)
        self._any.Compile()

    def find(self, data: bytes) -> list[Finding]:
        """In any order; they may overlap."""
        narrow = _narrow(data)
        wide = [(2 * start, 2 * end, kind) for start, end, kind in self._in_text(narrow)] if narrow else []
        return [*self._in_text(data), *wide]

    def _in_text(self, data: bytes) -> list[Finding]:
        hits = self._any.Match(data) or ()
        found: list[Finding] = []
        for number in hits:
            found += self._by_name(data) if number == len(self._rules) else _by_form(self._rules[number], data)
        if b"-" in data:  # strings of JSON come one by one: most are short, and have nothing of either
            found += self._in_flags(data)
        if b"\n" in data:
            found += self._in_columns(data)
        return [*found, *_key_lines(data), *_of_kubernetes(data)]

    def is_secret(self, name: str) -> bool:
        """Whether what is under that name in an object is a secret, whatever it looks like."""
        return self._named.search(name) is not None and name not in _FOLDERS

    @staticmethod
    def literal(values: Iterable[bytes]) -> Find:
        """What finds each of `values`, wherever it stands. One pass for each `_MOST_AT_ONCE` bytes of them."""
        groups: list[list[bytes]] = []
        room = 0
        for value in sorted(values):
            if len(value) > room:
                groups.append([])
                room = _MOST_AT_ONCE
            groups[-1].append(re.escape(value))
            room -= len(value)
        compiled = [re2.compile(b"|".join(one), _options(longest=True)) for one in groups]
        return lambda data: [(*match.span(), FOUND_BEFORE) for one in compiled for match in one.finditer(data)]

    def _by_name(self, data: bytes) -> Iterator[Finding]:
        for match in self._assigned.finditer(data):
            start, end = match.span(2)
            if start < 0:
                opener = match[1] or b""
                start, end = match.end(), _closing(data, match.end(), opener)
            value = data[start:end]
            if value and not _NO_SECRET.fullmatch(value) and not _is_folder(data, start):
                yield from _trimmed(data, start, end, "Secret Keyword")

    def _in_flags(self, data: bytes) -> Iterator[Finding]:
        for command, flag in self._flags:
            for match in flag.finditer(data):
                start = max(0, match.start() - _FLAG_REACH)
                start = max(start, *(data.rfind(sign, start, match.start()) + 1 for sign in _SEPARATORS))
                if any(command.finditer(data[start : match.start()])):
                    yield from _trimmed(data, *match.span(1), "Password in a flag")

    def _in_columns(self, data: bytes) -> Iterator[Finding]:
        """What stands below such a name in a table: CSV, tabs, Markdown, psql."""
        at = 0  # up to where it was looked at
        for match in self._column.finditer(data):
            if match.start() < at:
                continue
            start = max(at, match.start() - _LONGEST_HEADER)
            newline = data.rfind(b"\n", start, match.start())
            end = data.find(b"\n", match.start() + 1, match.start() + _LONGEST_HEADER)
            if end < 0 or (newline < 0 and start > at):
                continue
            begin = newline + 1 if newline >= 0 else start
            header = data[begin:end]
            delimiter = next((one for one in _DELIMITERS if one in header), b"")
            if delimiter == b"," and b", " in header:
                delimiter = b""  # a sentence, or code
            names = [data[slice(*span)] for span in _fields(data, begin, end, delimiter)] if delimiter else []
            secret = [index for index, name in enumerate(names) if self._is_column(name)]
            at = end + 1
            if secret and all(_COLUMN_NAME.fullmatch(name) for name in names):
                rows = _rows(data, end + 1, delimiter, len(names))
                for spans in rows:
                    at = spans[-1][1] + 1
                    for first, last in (spans[index] for index in secret):
                        if last - first >= _SHORTEST_CELL and not _NO_SECRET.fullmatch(data, first, last):
                            yield from _trimmed(data, first, last, "Secret Keyword")

    def _is_column(self, name: bytes) -> bool:
        return any(self._column.finditer(name))

    def _theirs(self) -> Iterator[tuple[str, str]]:
        for found in pkgutil.iter_modules(plugins.__path__):
            importlib.import_module(f"{plugins.__name__}.{found.name}")
        for one in sorted(RegexBasedDetector.__subclasses__(), key=lambda one: one.__name__):
            if one.__name__ in _OURS_INSTEAD or not one.__module__.startswith(plugins.__name__):
                continue
            for pattern in cast("Iterable[re.Pattern[str]]", one.denylist):
                text = _LOOKAHEAD.sub("", pattern.pattern.replace(_AFTER_NON_WORD, r"(?:^|\W)"))
                text = _LONG.sub(r"{\1,}", text)
                text = f"(?i){text}" if pattern.flags & re.IGNORECASE else text
                try:
                    _compiled(text)
                except re2.error:
                    self.left_out.append(one.__name__)
                    continue
                yield str(one.secret_type), text


def _by_form(rule: _Rule, data: bytes) -> Iterator[Finding]:
    for match in rule.regex.finditer(data):
        start, end = match.span()
        spans = [match.span(group) for group in range(1, rule.regex.groups + 1)]
        longest = max(spans, key=lambda span: span[1] - span[0], default=(start, end))
        if rule.is_ours or longest[1] - longest[0] >= min(_SHORTEST_GROUP, (end - start) // 3):
            start, end = longest
        if rule.kind == _VARIABLE:
            if not _NO_SECRET.fullmatch(data[start:end].strip()) and not _is_folder(data, start):
                yield from _trimmed(data, start, end, "Secret Keyword")
        elif rule.kind not in _SENTENCES or _is_no_word(data[start:end]):
            yield from _trimmed(data, start, end, rule.kind)


def _is_folder(data: bytes, start: int) -> bool:
    """The working folder, which every shell tells."""
    return data[start : start + 1] == b"/" and _WORKING_FOLDER.search(data, max(0, start - 8), start) is not None


def _is_no_word(value: bytes) -> bool:
    """A digit, or small letters and capitals after the first: `incorrect` and `Required` are words."""
    return any(byte in b"0123456789" for byte in value) or (value[1:].lower() != value[1:] != value[1:].upper())


def _key_lines(data: bytes) -> Iterator[Finding]:
    """Lines of a private key that have something before them, as in a log: the last word of each."""
    at = 0
    for begin in _KEY.finditer(data):
        at = max(at, begin.end())
        while at < len(data):
            end = data.find(b"\n", at)
            line = data[at : end if end >= 0 else len(data)].rstrip()
            word = line[max(line.rfind(b" "), line.rfind(b"\t")) + 1 :]
            if not _KEY_LINE.fullmatch(word):
                break
            yield at + len(line) - len(word), at + len(line), "Private Key"
            at = end + 1 if end >= 0 else len(data)


def _narrow(data: bytes) -> bytes:
    """UTF-16 of which most is ASCII, with one byte for two; empty for anything else."""
    if data.count(0) * 3 < len(data):
        return b""
    first, second = data[0::2], data[1::2]
    return first if first.count(0) < second.count(0) else second


def _fields(data: bytes, start: int, end: int, delimiter: bytes) -> list[tuple[int, int]]:
    """Where the cells of a line are, without blanks and quotes around them; a delimiter in quotes is none."""
    if data[end - 1 : end] == b"\r":
        end -= 1
    spans: list[tuple[int, int]] = []
    while start <= end and (cell := _CELLS[delimiter].match(data, start, end)):
        spans.append(_bare(data, *cell.span()))
        start = cell.end() + 1
    return spans


def _bare(data: bytes, start: int, end: int) -> tuple[int, int]:
    while start < end and data[start] in b' "':
        start += 1
    while start < end and data[end - 1] in b' "':
        end -= 1
    return start, end


def _rows(data: bytes, start: int, delimiter: bytes, width: int) -> Iterator[list[tuple[int, int]]]:
    """The cells of each line that follows, for as long as there are as many as in the first."""
    while start < len(data):
        end = data.find(b"\n", start, start + _LONGEST_ROW)
        if end < 0:
            if len(data) - start > _LONGEST_ROW:
                return
            end = len(data)
        if not _RULE_OF_TABLE.fullmatch(data, start, end):
            spans = _fields(data, start, end, delimiter)
            if len(spans) != width:
                return
            yield spans
        start = end + 1


def _of_kubernetes(data: bytes) -> Iterator[Finding]:
    """All that a Secret holds, under whatever name."""
    borders = [0, *(one.start() for one in _DOCUMENT.finditer(data)), len(data)]
    for start, end in pairwise(borders):
        if _SECRET_OF_KUBERNETES.search(data, start, end) and (held := data.find(b"ata:", start, end)) >= 0:
            for entry in _ENTRY.finditer(data, held, end):
                yield entry.start(1), entry.end(1), "Secret of Kubernetes"
    if _SECRET_IN_JSON.search(data):
        for held in _DATA_IN_JSON.finditer(data):
            for entry in _ENTRY_IN_JSON.finditer(data, *held.span(1)):
                yield entry.start(1), entry.end(1), "Secret of Kubernetes"


def _compiled(pattern: str) -> "re2._Regexp":  # pyright: ignore[reportPrivateUsage]
    return re2.compile(f"(?m){pattern}".encode(), _options())


def _options(*, longest: bool = False) -> re2.Options:
    options = re2.Options()
    options.longest_match = longest
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = 64 * 1024 * 1024
    return options


def _closing(data: bytes, start: int, opener: bytes) -> int:
    """Where a value ends that begins after `opener`: a quote with as many backslashes before it as that has."""
    quote, escapes = opener[-1:], len(opener) - 1
    limit = min(len(data), start + _LONGEST_VALUE)
    for found in _CLOSING.finditer(data, start, limit):
        if found[2] == quote and len(found[1]) <= escapes:
            return found.start()
    newline = data.find(b"\n", start, limit)
    return newline if newline >= 0 else limit


def _trimmed(data: bytes, start: int, end: int, kind: str) -> Iterator[Finding]:
    """Without the quotes and signs around it: what is left of a JSON text is JSON."""
    while start < end and data[start] in _EDGES:
        start += 1
    while start < end and (data[end - 1] in _EDGES or _ends_in_escape(data, start, end)):
        end -= 1
    if start < end:
        yield start, end, kind


def _ends_in_escape(data: bytes, start: int, end: int) -> bool:
    """An odd backslash at the end belongs to the sign after it."""
    run = end
    while run > start and data[run - 1 : run] == b"\\":
        run -= 1
    return (end - run) % 2 == 1
