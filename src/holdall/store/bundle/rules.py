"""What is taken for a secret: the rules of detect-secrets, and a few of our own for what it does not know.

Every rule runs on RE2, over bytes: no input makes one slow, and the places that it gives are places of bytes. Rules
that look around are run without looking, which finds more and never less. It finds more rather than less on purpose: a
needless mask can be undone, a leaked secret cannot.
"""

import atexit
import functools
import html
import importlib
import pkgutil
import re
import threading
import time
from array import array
from bisect import bisect
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import cycle, pairwise
from typing import Any, TypeVar, cast

import re2
from detect_secrets import plugins
from detect_secrets.plugins import keyword
from detect_secrets.plugins.base import RegexBasedDetector

from holdall.store import deadline
from holdall.text.secrets import BARRIER, FOUND_BEFORE, Find, Finding, is_about, is_no_word, is_value, json_in_text
from holdall.values.errors import OutOfTime
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

Answer = TypeVar("Answer")

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
_AT_ONCE = 4096  # bytes that are looked at by all rules at once
_VARIABLE = "a variable"

_KEY = lazy_pattern(
    rb"-----BEGIN (?:[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1)-----|Private-Lines: ?[0-9]{1,4}+"
)
_KEY_END = lazy_pattern(rb"-----END|Private-(?:MAC|Hash)")
_LONGEST_BEFORE = 1024  # on its line
_LONGEST_KEY = 64 * 1024  # with what stands before its lines
_KEY_HEADERS = 8  # lines of it that say how it is encrypted, or nothing
# As they are, and as JSON and source code write them. A run of backslashes is tried once, and not from each of them.
_SIGN, _BREAK = rb"(?:[A-Za-z0-9+/=]|(?<!\\)\\++/)", rb"(?:\s|(?<!\\)\\++[nr])"
_KEY_PARTS = lazy_pattern(  # lines that follow each other with nothing between; the last ones may be short
    rb"(?<!\\)\\++[nrt]|(%b{16,}+(?:%b++(?:%b{16,}+|%b++(?=%b*+(?:-----END|=|\Z))))*+)"
    % (_SIGN, _BREAK, _SIGN, _SIGN, _BREAK)
)
_SHORT_KEY_PART = lazy_pattern(rb"(?<!\\)\\++[nrt]|([A-Za-z0-9+/=]{4,}+)")
# Colours, sets of signs and other modes of a terminal; a sign that is written twice is bold.
_COLOUR = lazy_pattern(rb"\x1b(?:\[[0-9;:?]*+[ -/]*+[@-~]|[ -/][0-~]|[=>78cMNO])|_\x08|([ -~])\x08\1")
_IN_MARKUP = lazy_pattern(rb"(?i)&(?:quot|apos|lt|gt|amp|nbsp|#0{0,5}(?:34|39|38|60|62|x2[267]|x3[ce]));")
# What a line break, a tab and a quote are in a string of a program or of a shell, and where a shell's line goes on.
_IN_STRINGS = lazy_pattern(rb"(?<!\\)\\++([nrt])|\\\r?\n|(?<!\\)\\ |'\\++''|'\"'\"'")
# What is between the words of a command, where they are a list of a program or of YAML, or end with a NUL each; and the
# quote of a flag. Only where there is one is a command looked for.
_BETWEEN_WORDS = lazy_pattern(rb"['\"](?:,\s{0,8}|\s{1,8})['\"]|\n[ \t]*+-[ \t]++|\x00|(?<=[\s\[(])['\"](?=-)")
_QUOTED_FLAG = lazy_pattern(rb"['\"](?:,\s{0,8}|\s{1,8})['\"]-|\n[ \t]*+-[ \t]++['\"]?-|\x00-|[\s\[(]['\"]-")
# A word of a command that has something in quotes, or behind a backslash; and its pieces. Few, or a line of beginnings
# of them is read once for each.
_IN_APOSTROPHES = rb"'(?:[^'\n]++|'\"'\"'|'\\''){0,50}+'"
_IN_QUOTES = rb"\"(?![\s:,}\]])(?:[^\"\\\n]++|\\.){0,50}+\""
_PLAIN_PIECE = rb"[\w.:=@%%/+~^!*?#$-]"
_SHELL_WORD = lazy_pattern(
    rb"(?<!\S)%b*+(?:(?:%b|%b|\\[^\n])%b*+){1,50}+(?=[\s;|&)]|\Z)"
    % (_PLAIN_PIECE, _IN_APOSTROPHES, _IN_QUOTES, _PLAIN_PIECE)
)
_SHELL_PIECE = lazy_pattern(rb"\$?(%b)|\$?(%b)|(\\.)" % (_IN_APOSTROPHES, _IN_QUOTES))
_NO_SIGN_OF_A_WORD = lazy_pattern(rb"'\"'\"'|'\\''|\\.|[\s\"']")
# A string in which a quote is written as two, or as a shell writes it.
_DOUBLED_INSIDE = lazy_pattern(
    rb"(?<![\w'\"\\])[a-zA-Z]{0,2}'((?:[^'\n]++|''|'\"'\"'|'\\''){0,50}+)'(?!')"
    rb"|(?<![\w'\"\\])@?\"((?!\"\"[^\"\n]*+\"\"\")(?:[^\"\\\n]++|\"\"|\\(?!\")){0,50}+)\"(?!\")"
)
_QUOTE_INSIDE = lazy_pattern(rb"''|'\"'\"'|'\\''")
_BETWEEN_STRINGS = lazy_pattern(rb"\"\s*+[:,]\s*+[\"{\[]|\"\s*+[}\]]")  # of JSON, each of which is looked at for itself
# What stands before lines where they are shown: a time, a file, a number, a name, the sign of a diff or of a comment.
_TIME = (
    rb"(?:[A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8}"
    rb"|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.,]{8,18}(?:Z|[+-][0-9:]{4,6})?+)?+)"
    rb" (?:std(?:out|err) [FP] |\w[\w.-]{0,59} [\w./-]{1,60}(?:\[[0-9]{1,9}\])?: )?"
)
_FILE = rb"[\w./@+~-]{1,200}[:-][0-9]{1,7}[:-]|[\w.@+~-]{0,100}/[\w./@+~-]{1,200}:(?!//)"
_SHOWN_BEFORE = (
    rb"(?m)^(?:\[[a-z]{1,30}/[\w./-]{1,200}\] )?+(?:%b|%b)?+(?:[ \t]*+[0-9]{1,7}(?:[:\t]|\xe2\x86\x92))?+"
    rb"(?:[\w.-]{1,60} {1,40}\| (?:%b)?+)?+"
    rb"(?:%%b|[ \t]*+(?:\* |(?:[>;]|#++|//++) ?))?+"
) % (_TIME, _FILE, _TIME)
# The sign of a list is none of a diff.
_MARGIN, _MARGIN_OF_DIFF = lazy_pattern(_SHOWN_BEFORE % rb"\+|-(?! \S)"), lazy_pattern(_SHOWN_BEFORE % rb"[-+ ]")
_MARK_OF_UTF8, _MARKED_LINE = b"\xef\xbb\xbf", lazy_pattern(rb"(?m)^(?:\xef\xbb\xbf)+")
_TAG = lazy_pattern(rb"(?i)<(?:(t[dh])\b|(/?t(?:r|able))\b|[/a-z])[^<>]{0,400}+>\s*+")
_QUOTED_CELL = lazy_pattern(rb'(?m)(?:^|[,;\t|])"((?:[^"]++|"")*+)"(?=[,;\t|\r\n]|\Z)')
_DOUBLED, _DOUBLED_VALUE = lazy_pattern(rb'""'), lazy_pattern(rb'[:=]\s*+""[^"]')
_AFTER_STRING = lazy_pattern(rb"\s*+(?:[}\]]|,\s*+[\"{\[0-9tfn-]|\Z)")
_PLACEHOLDER = lazy_pattern(rb"TEXT|STRING|STR|VALUE|PASSWORD|PASSWD|SECRET|TOKEN|KEY|API_KEY|<\w+>")  # of a help text
_CLOSING = lazy_pattern(rb"(?<!\\)(\\*+)([\"'`])")
_FOLDERS = ("PWD", "OLDPWD")  # in any environment
_WORKING_FOLDER = lazy_pattern(rb"(?<![A-Z_])(?:OLD)?PWD=\Z")
_SECRET_OF_KUBERNETES = lazy_pattern(rb"(?m)^( *(?:- +)?)kind:[ \t]*[\"']?Secret\b")
_HELD = lazy_pattern(rb"(?m)^( *(?:- +)?)(?:data|stringData):([ \t]*)")
_IN_BRACES = lazy_pattern(rb":[ \t]*(\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|[^\s,{}\"'][^,{}\n]*)")
_NAMED_VALUE = lazy_pattern(rb" *(?:\"[^\"\n]{1,300}\"|'[^'\n]{1,300}'|[^\s:#][^:\n]{0,300}):(?:[ \t]+|$)")
_BLOCK = lazy_pattern(rb"[|>][-+0-9]*(?:[ \t]+#.*)?")
_DEEPEST_KIND = 16  # columns: each may be another look at all of it
_DELIMITERS = (b"|", b"\t", b";", b",")
_CELLS = {  # up to the next delimiter that is not in quotes
    one: lazy_pattern(rb'(?:[^"%b]++|"(?:[^"]++|"")*+"?)*+' % re.escape(one)) for one in _DELIMITERS
}
_ONE_NAME = lazy_pattern(rb"[\w.-]{1,60}")
_COLUMN_NAME = lazy_pattern(rb"|[\w.-]{1,60}(?: [\w.-]{1,60}){0,2}")
_EMPTY_LINE = lazy_pattern(rb"[ \t\r]*+\n")
_RULE_OF_TABLE = lazy_pattern(rb"[-+|: =\t]{3,}+\r?+")
_ALIGNED_NAME = lazy_pattern(rb"\S++(?: \S++)*+")
_ALIGNED_HEADER = lazy_pattern(rb" *+[\w.-]++(?: [\w.-]++)?+(?:  ++[\w.-]++(?: [\w.-]++)?+)++[ \r]*+")
_ONE_WORD, _LINES_BELOW = lazy_pattern(rb"\S++"), lazy_pattern(rb"-{2,}+(?: ++-{2,}+)++[ \r]*+$", re.MULTILINE)
_DRAWN, _UPRIGHT = lazy_pattern(rb"\xe2[\x94\x95][\x80-\xbf]"), (b"\x94\x82", b"\x94\x83", b"\x95\x91", b"\x94\x86")
_TWO_COLUMNS = lazy_pattern(rb"(?m)^Key +Value[ \r]*\n-+ +-+[ \r]*\n((?:[^\s:]++ ++\S[^\n]*+(?:\n|\Z))*+)")
_IN_TWO_COLUMNS = lazy_pattern(rb"(?m)^(\S++) ++(\S[^\n]*+)")
_INDENT = lazy_pattern(rb"[ \t]*+")
# A name and its value in YAML; one of a list or of a table on a line, with the comma behind it.
_IN_STRING = rb"\"((?:[^\"\\\n]++|\\.)*+)\"|'([^'\n]*+)'"
_ENTRY = lazy_pattern(
    rb"[\"']?([\w.-]{1,60}+)[\"']?:(?:[ \t]++(?:%b|([^\s\"'{\[|>&*!#]\S*+)))?[ \t]*+(?:#.*)?" % _IN_STRING, re.DOTALL
)
_ENTRY_OF_LIST = lazy_pattern(
    rb"\s*+(?:[\"']?([\w.-]{1,60}+)[\"']?[ \t]*+(?::|=>?)\s*+)?+(?:%b|([\w.+/~-]++))\s*+(?:,\s*+|(?=[\]}]))"
    % _IN_STRING
)
_QUOTED = lazy_pattern(rb"\"[^\"]{3,}+\"|'[^']{3,}+'")
_SQL_VALUE = lazy_pattern(
    rb"\s*+(?:([(),])|'((?:[^'\\]++|\\.|'')*+)'|\"((?:[^\"\\]++|\\.|\"\")*+)\"|[^\s,()'\";]++)", re.DOTALL
)
_COLUMN_OF_SQL = lazy_pattern(
    rb"\s*+[\"`\[]?([\w$]++)(?:[^\n,()'\";]++|'(?:[^'\\]++|\\.|'')*+'|\"[^\"]*+\"|\((?:[^()]++|\([^()]*+\))*+\)|\s)*+"
    rb"(,|(?=\)))"
)
_DELIMITER_OF_COPY = lazy_pattern(rb"(?i).*\bdelimiter\s++(?:as\s++)?'([|;,\t])'|.*\bcsv\b")
_LONGEST_WORD = 100  # that ends below its name
_LONGEST_HEADER, _LONGEST_ROW, _SHORTEST_CELL = 4096, 64 * 1024, 3
# What stands before a name at the beginning of its line: a file and the line in it, a number, the sign of a diff, of a
# list or of a comment, a word that says that a variable comes.
_BEFORE_NAME = lazy_pattern(
    rb"(?:[\w./@+-]{1,200}[:-][0-9]{1,7}[:-])?[ \t]*+(?:[0-9]{1,7}[:\t])?[ \t]*+[-+<>#;]{0,2}[ \t]*+"
    rb"(?:(?:export|set|declare|typeset|readonly|local|ENV|ARG)[ \t]++(?:-[a-zA-Z]++[ \t]++)?|Environment=)?"
)
_OF_A_NAME = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
_LONGEST_LINE, _SHORTEST_BARE = 512, 6
_GOES_ON = lazy_pattern(rb"[^\s\"'`<>\\,;|&(){}\[\]]*+")
_WORDS_AROUND = lazy_pattern(rb"[\s\"'`]")
_AFTER_VALUE = lazy_pattern(  # another name of an address or a connection string; a comment; a tag; an escape
    rb"(?=[&;,\s<\\])(?:&(?=[\w.%\[\]-]{1,60}=)"
    rb"|[;,](?=\s*+(?:[A-Za-z][a-z]++(?:[A-Z_. -]++[a-z]++)*+|[A-Z_]{2,60}+)[0-9]?=)"
    rb"|&amp;(?=[\w.-]{1,60}=)|[,;]?\s++(?:#|//\s)|[,;]\s|</[A-Za-z][\w:.-]*+>|<[a-z]{1,10}+(?:\s[^<>]*+)?/?>|\\+[nrt\"'])"
)
_CALL = lazy_pattern(rb"[A-Za-z_$][\w.$:]*+[(\[].*[)\]](?:[.?!]\w+)*[ \t\r,;:]*")
_CODE_OR_WORDS = lazy_pattern(
    rb"(?:(?=\S*+\s).*|[\w.$:>-]*+)[({\[]++|\(.*\)|\{.*\}|\[.*\]|<.*>"
    rb"|(?:await|new|not|lambda|return|yield|func|function|async|typeof|!\w+)\s.*"
    rb"|(?:.*\s)?(?:={1,3}|!=|\+|\|{1,2}|&&|[?<>]|->|=>|if|else|or|and|the|an?|is|are|was|be|of|to|for|from|must|should|can"
    rb"|will|your|with|not|has|have|in|on|by|at|it|as|when|use|see)(?:\s.*)?",
    re.DOTALL,
)
_IN_FLAG, _IN_COMMAND = "Password in a flag", "Password in a command"
_OWN: tuple[tuple[str, str], ...] = (
    ("Private Key", r"AGE-SECRET-KEY-1[0-9A-Z]{50,60}"),
    ("JSON Web Token", r"eyJ[A-Za-z0-9_=-]{8,}\.[A-Za-z0-9_=-]{8,}(?:\.[A-Za-z0-9_.+/=-]*)?"),
    (  # up to the last @ before the host, as programs read it
        "Credentials in a URL",
        (
            r"(?i)[a-z0-9+.-]://[^\s/:@\"'<>\\]*:"
            r"([^\s/@\"'<>\\]{1,}(?:@[^\s/@?#&=;,\"'<>\\]{1,200})*)@"
        ),
    ),
    (
        "Password by its name",
        (
            r"(?i)\"(?:name|key)\\?\"\s*:\s*\\?\"[\w.-]{0,60}(?:passw(?:or)?d|passphrase|secret|api[_-]?key|[_.-]token)"
            r"(?:[0-9_.-][\w.-]{0,20})?\\?\"\s*,\s*\\?\"value\\?\"\s*:\s*\\?\"([^\"\\\r\n]{3,})"
        ),
    ),
    ("Authorization Header", r"(?i)authorization[\\\"']*\s*[:=]\s*[\\\"']*(?:[a-z]+\s+)?([A-Za-z0-9._~+/=:-]{8,})"),
    (
        "Authorization Header",
        r"(?i)(?:authorization[\\\"']*\s*[:=][^\r\n]*\b|x-(?:amz|goog)-)signature=\\*\"?([A-Za-z0-9%+/=]{16,})",
    ),
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
    (  # forms that their makers have published
        "API Token",
        (
            r"\b(?:dckr_[op]at_[A-Za-z0-9_-]{20,}|lin_(?:api|oauth)_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{40,}"
            r"|secret_[A-Za-z0-9]{43}|figd_[A-Za-z0-9_-]{30,}|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"
            r"|ATATT3x[A-Za-z0-9_=-]{50,}|xai-[A-Za-z0-9]{60,}|gsk_[A-Za-z0-9]{40,}|pplx-[A-Za-z0-9]{40,}"
            r"|r8_[A-Za-z0-9]{37}|dapi[a-f0-9]{32}|nvapi-[A-Za-z0-9_-]{40,}|tvly-[A-Za-z0-9-]{24,}"
            r"|PMAK-[a-f0-9]{24}-[a-f0-9]{34}|rubygems_[a-f0-9]{48}|sbp_[a-f0-9]{40}"
            r"|pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_.=-]{32,}|CFPAT-[A-Za-z0-9_-]{43}|key-[a-f0-9]{32}"
            r"|tskey-[a-z]{2,20}-[A-Za-z0-9-]{20,}|pul-[a-f0-9]{40}|v[1-4]\.local\.[A-Za-z0-9_-]{40,}"
            r"|glsa_[A-Za-z0-9]{32}_[a-f0-9]{8}|glc_[A-Za-z0-9+/=]{40,}|NRAK-[A-Z0-9]{27}|ory_[a-z]{2}_[A-Za-z0-9_-]{32,}"
            r"|[A-Za-z0-9_~.]{3}[78]Q~[A-Za-z0-9_.~-]{31,34}"
            r"|lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}|pcsk_[A-Za-z0-9]{5,10}_[A-Za-z0-9]{50,}|fc-[a-f0-9]{32}"
            r"|re_[A-Za-z0-9]{8}_[A-Za-z0-9]{22,}|jina_[A-Za-z0-9_-]{50,}|e2b_[a-f0-9]{40}|apify_api_[A-Za-z0-9]{30,}"
            r"|tgp_v1_[A-Za-z0-9_-]{40,}|sk_[a-f0-9]{48}|csk-[A-Za-z0-9]{40,}|sntry[su]_[A-Za-z0-9+/=_]{40,}"
            r"|nfp_[A-Za-z0-9]{36,}|dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}|ops_eyJ[A-Za-z0-9+/=_-]{80,}"
            r"|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}|(?:pat-(?:na|eu)[0-9]|HRKU)-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"
            r"|xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}|fo1_[A-Za-z0-9_-]{40,}|fm[12]_[A-Za-z0-9+/=_-]{60,}"
            r"|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{60,}|sgp_(?:[a-f0-9]{16}_)?[a-f0-9]{40}|napi_[A-Za-z0-9]{50,}"
            r"|sb_secret_[A-Za-z0-9_-]{30,}|xox[cd]-[A-Za-z0-9%-]{40,}|sq[up]_[a-f0-9]{40}|sha256~[A-Za-z0-9_-]{43})"
        ),
    ),
    ("Webhook Secret", r"\bdiscord(?:app)?\.com/api/webhooks/[0-9]{10,25}/([A-Za-z0-9_-]{60,})"),
    ("Password of a network", r":[ \t]*(?:PSK|XAUTH|EAP)[ \t]+\"([^\"\n]{3,})\""),
    ("Shared Access Signature", r"[?&]sig=([A-Za-z0-9%_.~+/=-]{20,})"),
    ("Token", r"(?i)token[\\\"'`]*\s*(?:=>|[:=])\s*[\\\"'`]*((?:[0-9]{6,12}:)?[A-Za-z0-9._~+/=-]{16,})"),
    (
        _IN_FLAG,
        (
            r"(?i)--[a-z-]*(?:passw(?:or)?d|passphrase|secret|token|(?:api|access|auth)-?key)[ =]+[\"']?"
            r"([^\s\"'-][^\s\"']{2,})"
        ),
    ),
    (
        "Password in XML",
        r"(?i)<[\w:.-]{0,40}(?:passw(?:or)?d|passphrase|secret|token|api[_-]?key|private[_-]?key)[\w.-]{0,20}(?:\s[^<>]{0,200})?>\s*(?:<!\[CDATA\[)?([^<\s][^<]{2,}?)(?:\]\]>)?\s*</",
    ),
    (
        "Password in SQL",
        (
            r"(?i)\b(?:identified\s+(?:with\s+\S{1,60}\s+)?(?:by|as)|password)\s+'([^'\n]{3,})'"
            r"|\bset\s+password(?:\s+for\s+\S{1,100})?\s*=\s*(?:password\s*\(\s*)?'([^'\n]{3,})'"
            r"|\buser\s+\S{1,100}\s+identified\s+by\s+\"([^\"\n]{3,})\""
            r"|\bpragma\s+(?:re|hex)?key\s*=\s*'([^'\n]{3,})'"
        ),
    ),
    (_IN_FLAG, r"--from-literal[= ][\"']?[\w.-]+=([^\s\"']{3,})"),
    ("Authorization Header", r"(?i)authorization[ \t]+[\"'](?:basic|bearer|token)[ \t]+([A-Za-z0-9._~+/=-]{8,})"),
    (_IN_FLAG, r"-pass(?:in|out)?[ =]pass:([^\s\"']{3,})"),
    (_IN_FLAG, r"-(?:src|dest|new)?(?:store|key)pass[ =][\"']?([^\s\"']{3,})"),
    (_IN_FLAG, r"(?i)\bnet\s+use\s[^\n]{0,200}?/user:\S+\s+([^\s/][^\s]{2,})"),
    (_IN_FLAG, r"(?i)\bConvertTo-SecureString\s+(?:-\w+\s+){0,4}[\"']([^\"'\n]{3,})[\"']"),
    ("NPM tokens", r"(?:^|[:\s])_auth=\"?([A-Za-z0-9+/]{12,}={0,2})"),
    ("NPM tokens", r":_authToken[ \t]+\"?([^\s\"'$][^\s\"']{7,})"),
    ("Password of Redis", r"(?i)\bconfig\s+set\s+(?:requirepass|masterauth)\s+[\"']?([^\s\"']{3,})"),
    (  # with a blank behind its name
        "Variable",
        (
            r"(?i)^[ \t]*(?:ENV|setenv|setx|set[ \t]+-[a-z]{1,4})[ \t]+"
            r"\w{0,60}(?:_token|_secret|_key|passw(?:or)?d)\w{0,20}[ \t]+[\"']?([^\s\"'=][^\s\"']{7,})"
        ),
    ),
    ("Variable", r"\b(?:[A-Z0-9_]{1,40}_PAT|BW_SESSION)=[\"']?([^\s\"']{16,})"),
    (
        "Cookie",
        r"^(?:#HttpOnly_)?[\w.-]+\t(?:TRUE|FALSE)\t[^\t\n]{0,200}\t(?:TRUE|FALSE)\t[0-9]+\t[^\t\n]{1,200}\t([^\t\r\n]{8,})",
    ),
    ("AWS Access Key", r"\bA[KS]IA[0-9A-Z]{16}[ \t]+(?:\S{1,40}[ \t]+){0,2}([A-Za-z0-9/+]{40})\b"),
    ("AWS Access Key", r"\bASIA[0-9A-Z]{16}\t(?:\S{1,40}\t){1,2}[A-Za-z0-9/+]{40}\t([A-Za-z0-9/+=]{40,})"),
    ("AWS Access Key", r"(?i)\bsecret access key(?: \[[^\]\n]{0,60}\])?:?[ \t]+([A-Za-z0-9/+]{40})\b"),
    (
        "Secret of Azure",
        r"\.vault\.azure\.net/secrets/[^{}]{0,800}?\"value\"\s*:\s*\"((?:[^\"\\\n]|\\.){3,})\"",
    ),
    (
        "Secret of Azure",
        r"\"keyName\\?\"\s*:[^{}]{0,400}?\"value\\?\"\s*:\s*\\?\"([A-Za-z0-9+/=]{40,})",
    ),
    ("Password hash", r"\$(?:1|2[abxy]?|5|6|7|y|gy|apr1|argon2(?:id?|d))\$[./A-Za-z0-9,=$+-]{20,}"),
    (
        "Password in a configuration",
        (
            r"(?i)^[ \t]*(?:requirepass|masterauth|bindpw|rootpw(?:[ \t]+--plaintext)?|snmp-server[ \t]+community"
            r"|enable[ \t]+(?:secret|password)(?:[ \t]+[0-9])?"
            r"|username[ \t]+\S{1,60}(?:[ \t]+privilege[ \t]+[0-9]+)?[ \t]+(?:secret|password)(?:[ \t]+[0-9])?)"
            r"[ \t]+[\"']?([^\s\"']{3,})"
        ),
    ),
    (
        "Password in a configuration",
        (
            r"(?i)\b(?:ansible_(?:ssh|become|sudo|su)|ssh|ftp|smtp|mail|ldap|redis|rabbitmq|admin|root|user|login|auth)_?pass"
            r"[ \t]*[=:][ \t]*[\"']?([^\s\"'=]{3,})"
        ),
    ),
    (
        "Password in a configuration",
        r"(?i)^ *[0-9]+\) \"(?:requirepass|masterauth)\"\r?\n *[0-9]+\) \"([^\"\n]{3,})\"",
    ),
    (
        "Secret of Terraform",
        r"\"sensitive\"\s*:\s*true\s*,[^{}]{0,400}?\"value\"\s*:\s*\"((?:[^\"\\\n]|\\.){3,})\"",
    ),
    (
        "Secret of Terraform",
        r"\"value\"\s*:\s*\"((?:[^\"\\\n]|\\.){3,})\"[^{}]{0,400}?\"sensitive\"\s*:\s*true",
    ),
    (  # the name in other languages, and the signs of their keyboards
        "Secret Keyword",
        (
            "(?:密码|密碼|口令|パスワード|пароль|Пароль|ПАРОЛЬ|hasło|Hasło|비밀번호|암호"
            "|mot de passe|Mot de passe|contraseña|Contraseña)"
            "[ \\t\"']{0,20}(?:[:=]|：|＝)[ \\t\"']{0,20}([^\\s\"'<>,;]{4,})"
        ),
    ),
    ("Secret Keyword", "[Pp]assword[ \\t\"']{0,20}(?:：|＝)[ \\t\"']{0,20}([^\\s\"'<>,;]{4,})"),
    (
        "Password in netrc",
        r"(?i)\b(?:machine\s+\S+|default\s+login\s+\S+)\s+(?:(?:login|account)\s+\S+\s+)*password\s+([^\s\"'\\]+)",
    ),
    (
        "Credentials in a URL",
        (
            r"(?i)jdbc:oracle:[a-z]+:[^\s/@:]+/([^\s@]+)@|[\w.-]:([^\s\"'`<>]{3,}?)@(?:tcp|udp|unix)6?\("
            r"|:(?:pserver|ext):[\w.-]{1,60}:([^\s@\"']{3,})@"
        ),
    ),
    (  # in a talk with a server, and where one is written down before it takes place
        "Password in a talk",
        (
            r"\bUSER[ \t]+\S+[ \t\r]*\n(?:[^\n]*\n){0,3}?[^\n]*?\bPASS[ \t]+(\S{3,})[ \t\r]*$"
            r"|^[^\w\n]{0,8}PASS[ \t]+(\S{3,})[ \t\r]*\n[^\w\n]{0,8}(?:NICK|USER)[ \t]"
            r"|assword[^\w\n]{0,12}\n\s*send[ \t]+(?:--[ \t]+)?\"([^\"$\\\n]{3,})"
            r"|(?i:\bnickserv[ :]+identify)[ \t]+(?:\S{1,40}[ \t]+)?(\S{3,})[ \t\r]*$"
            r"|\bWIFI:[^\n]{0,120}?\bP:([^;\n]{3,});"
            r"|\bpasswd/[\w-]{0,40}password(?:-again)?[ \t]+password[ \t]+(\S{3,})"
            r"|^[ \t]*chpasswd:[ \t\r]*\n(?:[ \t]+expire:[^\n]*\n)?[ \t]+list:[^\n]*\n"
            r"((?:[ \t]+[\w.-]+:\S{3,}[ \t\r]*(?:\n|$))+)"
        ),
    ),
)
# Flags that hold a secret only after some commands: first the flag is found, then its command is looked for before it.
# A pattern for both is slow on a text that has many of either. Commands with the same flag share one.
_FLAG_REACH = 600  # bytes
_FLAGS: tuple[tuple[str, str], ...] = (
    (r"(?i)\bcurl\b", r"\s(?:-[a-zA-Z]{0,6}[uU]|--(?:proxy-)?user)[ =]?[\"']?[^\s:\"']+:([^\s\"']{3,})"),
    (r"(?i)\bcurl\b", r"\s(?:-b|--cookie)[ =]?[\"']?[^\s=\"';]+=([^\s\"';]{8,})"),
    (r"(?i)\bredis-cli\b", r"\s-a[ =]?[\"']?([^\s\"']{3,})"),
    (
        (
            r"(?i)\b(?:mongo(?:sh|dump|restore|export|import|stat)?|cqlsh|psexec(?:64)?(?:\.exe)?|ncftp[a-z]{0,6}"
            r"|rabbitmqadmin|certutil|rdesktop|evil-winrm|security\s+[a-z]+-keychain|twine\b.*\bupload"
            r"|poetry\b.*\bpublish|xcrun\b.*\b(?:al|notary)tool)\b"
        ),
        r"\s-p[ =]?[\"']?([^\s\"'-][^\s\"']{2,})",
    ),
    (r"(?i)\bldap[a-z]{3,10}\b", r"\s-w[ =]?[\"']?([^\s\"']{3,})"),
    (  # with -n it writes no file
        r"(?i)\bhtpasswd\b",
        (
            r"\s-(?:[a-zA-Z]{0,6}(?:nb|bn)[a-zA-Z]{0,6}|[a-zA-Z]{0,6}b[a-zA-Z]{0,6}[ \t]+\S+)"
            r"[ \t]+\S+[ \t]+[\"']?([^\s\"']{3,})"
        ),
    ),
    (r"(?i)\b(?:mysql|mariadb)|(?-i:(?:^|\s)(?:7z[a-z]?|unrar|rar)\s)", r"\s-p[\"']?([^\s\"']{3,})"),
    (r"(?:^|\s)https?(?:\s|$)", r"\s(?:-a|--auth)[ =][\"']?[^\s:\"']+:([^\s\"']{3,})"),
    (
        r"(?i)(?:^|[\s\"'])(?:sqlcmd|bcp|isql|ipmitool|(?:un)?zip|mosquitto_[a-z]+|p4|ssh-keygen)(?:\s|$)",
        r"\s-P[ ]?[\"']?([^\s\"'-][^\s\"']{2,})",
    ),
    (r"\b(?:smbclient|rpcclient|smbmap)\b", r"\s(?:-U|--user)[ =]?[\"']?[^\s%\"']+%([^\s\"']{3,})"),
    (r"(?i)\blftp\b", r"\s-u[ ]?[\"']?[^\s,\"']+,([^\s\"']{3,})"),
    (
        r"(?i)\b(?:sshpass|(?:docker|podman|buildah|skopeo|helm|oras|crane|nerdctl|az)\b.*\blogin)\b",
        r"\s-p[ =]?[\"']?([^\s\"']{3,})",
    ),
    (
        (
            r"(?i)\b(?-i:ssh-keygen\s(?:.*\s)?-N|snmp[a-z]{2,10}\s(?:.*\s)?-[cAX]|influx\s(?:.*\s)?-t|gem\s+push\s(?:.*\s)?-k"
            r"|doctl\s+auth\s(?:.*\s)?-t)\W{1,2}$|\b(?:[swx][a-z-]{0,3}freerdp[0-9]?|signtool)(?:\.exe)?\s(?:.*\s)?/p\W{1,2}$"
        ),
        r"\s(?:-[NXAckt]|/p)[ =:][\"']?([^\s\"'/-][^\s\"']{2,})",
    ),
)
_ECHOED = r"\becho\s+(?:-n\s+)?[\"']?([^\s\"'|$<]{3,})[\"']?\s*\|"
_BARE_WORD = r"[\"']?([^\s\"'$<-][^\s\"']{2,})"
# One pattern, as texts that have none of them are looked through by each that there is.
_COMMANDS: tuple[str, ...] = (
    rf"{_ECHOED}[^|\n]{{1,200}}--password-stdin\b",
    rf"{_ECHOED}\s*(?:docker\s+secret\s+create|podman\s+secret\s+create|kinit|sudo\s+-S|su|passwd|cryptsetup)\b",
    r"\becho\s+[\"']?[\w.-]+:([^\s\"'|$<]{3,})[\"']?\s*\|\s*(?:sudo\s+)?chpasswd\b",
    r"\baws configure set (?:\S+\.)?aws_(?:secret|session)_\w+ [\"']?([^\s\"'$<]{8,})",
    rf"\bput-parameter\s[^\n|;&]{{0,300}}?\bSecureString\s(?:[^\n|;&]{{0,300}}?\s)?--value[ =]{_BARE_WORD}",
    rf"\bput-parameter\s(?:[^\n|;&]{{0,300}}?\s)?--value[ =]{_BARE_WORD}[^\n|;&]{{0,300}}?\bSecureString\b",
    r"\b(?:sqlplus|impdp|expdp|sqlldr|rman)\s+(?:-\S+\s+)*[\"']?[\w.]+/([^\s\"'@/$<]{3,})@",
    r"\bmysqladmin\s[^\n|;&]{0,200}?\spassword\s+[\"']?([^\s\"'$<]{3,})",
    rf"\bnmcli\s[^\n|;&]{{0,200}}?\s(?:password|psk|wifi-sec\.psk)\s+{_BARE_WORD}",
    r"\brabbitmqctl\s+(?:add_user|change_password)\s+\S+\s+[\"']?([^\s\"'$<]{3,})",
    r"\b(?:vault|cargo)\s+login\s+(?:token=)?([A-Za-z0-9][A-Za-z0-9._-]{15,})",
    r"\bgh\s+secret\s+set\s[^\n|;&]{0,200}?\s(?:--body|-b)[ =]?[\"']?([^\s\"'$<]{3,})",
    rf"\bpulumi\s+config\s+set\s[^\n|;&]{{0,100}}?--secret\s+[\w.:-]+\s+{_BARE_WORD}",
    rf"\bpulumi\s+config\s+set\s+[\w.:-]+\s+{_BARE_WORD}[^\n|;&]{{0,100}}?--secret\b",
    rf"\bpoetry\s+config\s+(?:pypi-token\.\S+|http-basic\.\S+\s+\S+)\s+{_BARE_WORD}",
    rf"\bdscl\s+\S+\s+-passwd\s+\S+\s+{_BARE_WORD}",
    rf"\brclone\s+obscure\s+{_BARE_WORD}",
    rf"\bwpa_passphrase\s+(?:\"[^\"\n]+\"|\S+)[ \t]+{_BARE_WORD}",
    rf"\bmc\s+(?:alias|config\s+host)\s+(?:set|add)\s+\S+\s+\S+\s+\S+\s+{_BARE_WORD}",
    r"(?i:\bnet\s+user)\s+[^\s/]\S*\s+([^\s/*][^\s]{2,})",
)
_SEPARATORS = (b"\n", b"|", b";", b"&")
_OF_PGPASS = r"(?:[\w.-]*[a-zA-Z][\w.-]*|[0-9.]{7,15}|\*):(?:[0-9]{2,5}|\*):[a-zA-Z*][\w.-]*:[\w.@*-]+"
# These are words of any sentence: what they find counts only if it is no word itself.
_IN_SENTENCES: tuple[tuple[str, str], ...] = (
    (
        "Password in a sentence",
        r"(?i)\b(?:password|passphrase|passcode|passwort|kennwort)\s+(?:is|was|ist|lautet)(?:\s*:)?\s+[\"'`]?([^\s\"'`]{6,})",
    ),
    (
        "Password in a sentence",
        r"(?i)\b(?:with|using|temporary|initial|new|and|mit|/)\s+(?:password|passphrase|passwort)\s+[\"'`]?([^\s\"'`]{6,})",
    ),
    ("Password of Redis", r"(?:^|> )(?:AUTH|auth)[ \t]+(?:\S{1,60}[ \t]+)?[\"']?([^\s\"']{8,})[\"']?[ \t\r]*$"),
    ("Docker Login", r"\"auth\\*\"\s*:\s*\\*\"([A-Za-z0-9+/]{8,}={0,2})"),
    ("Password of a network", r"(?i)\b(?:wpa_?)?psk[\"']?\s*[=:]\s*[\"']?([^\s\"'<>,;]{8,64})"),
    ("Password in XML", r"(?i)<(?:\w{1,20}:)?(?:pass|pwd)(?:\s[^<>]{0,80})?>\s*([^<\s]{6,})\s*</"),
    (  # behind a file and the line in it, too, which may look like a host and its port
        "Password in pgpass",
        rf"^[\s:|>+#;-]{{0,8}}{_OF_PGPASS}:(\S{{6,}})\r?$|[\s:|>+#;-]{_OF_PGPASS}:([^\s\"']{{6,}})\r?$",
    ),
)
# So are these names of much else: a stage, a test that passed, a column. What they find counts if nobody wrote it.
_KEYS_OF = (
    "access|account|activation|admin|aes|anon|api|app|auth|azure|cipher|cosmos|decryption|deploy|encryption|fernet|functions?"
    "|hmac|jwt|licen[cs]e|mailgun|master|openai|pre-?shared|primary|private|product|recovery|secondary|secret|sendgrid"
    "|service|session|shared|signing|ssh|storage|subscription|validation"
)
_MARKS = r"(?:[\\\"'`*_ \t]|</?[a-z]{1,10}(?:\s[^<>]{0,80})?>){0,12}"  # around a name in Markdown, HTML and code
_ARGUMENT = r"(?:[\w.$>()\[\]-]{1,60}|\"([^\"\n]{0,200})\"|'([^'\n]{0,200})')"
_MADE_UP = "Secret by its label"
_LABELLED: tuple[str, ...] = (
    (
        rf"(?i)(?:(?:{_KEYS_OF})(?:[ _-]?(?:read-?only[ _-]?)?master)?[ _.-]?key(?:[ _-]?base|[12])?|token)"
        rf"(?: \([\w -]{{1,20}}\))?{_MARKS}(?:=>|[:=]|(?:is|was):?\s){_MARKS}((?:base64:)?[A-Za-z0-9+/_.~=-]{{16,}})"
    ),
    (
        r"(?i)(?:(?:^|[^a-z0-9])(?:pass|pw|pass ?code|pass phrase)|(?:remote|local|store|root|default)pass)"
        rf"{_MARKS}(?:=>|[:=]){_MARKS}([^\s\"'`<>&]{{6,}})"
    ),
    r"(?i)(?:^|\s)--?(?:[a-z]{1,20}-){0,3}(?:pass|pw)[ =][\"']?([^\s\"'-][^\s\"']{5,})",
    (
        r"(?i)\s-(?:passw(?:or)?d|passphrase|(?:access-?)?token|api-?key|(?:client-?)?secret)[ =][\"']?"
        r"([^\s\"'$-][^\s\"']{5,})"
    ),
    # A user and a password: beside each other, in a sentence of a configuration, as arguments of what logs in.
    (
        rf"(?i)(?:(?:credentials?|creds|basic[_-]?auth(?:\.users)?|login){_MARKS}(?:=>|[:=]){_MARKS}"
        r"|--user(?:name)?[= ][\"']?)"
        r"[a-z._@+-]{1,60}[0-9]{0,2}(?::| / )([^\s\"'`<>,;/][^\s\"'`<>,;]{5,})"
        r"|\b(?:user(?:name)?|login|account)[ \t]+[\"']?[^\s\"',]{1,60}[\"']?,?[ \t]+(?:(?:with|and|has)[ \t]+)?"
        r"(?:[a-z]{1,20}-)?pass(?:w(?:or)?d)?[ \t]+[\"']?([^\s\"'`=]{6,}={0,2})(?:[\s\"'`]|$)"
        r"|\buse[ \t]+(?:the[ \t]+)?password[ \t]+[\"'`]?([^\s\"'`]{6,})"
        r"|\bidentified[ \t]+by[ \t]+(?:values[ \t]+)?[\"']?([^\s\"';]{6,})"
        r"|\b(?:set)?user[ \t]+\S{1,60}[ \t]+(?:[~+&-]\S*[ \t]+|on[ \t]+|off[ \t]+|reset[a-z]*[ \t]+){1,20}>(\S{6,})"
        r"|^\[?[\w.-]{1,80}\]?(?::[0-9]{1,5})?[ \t]+[\w.+-]{1,60}@[\w.-]{1,80}:(\S{6,})[ \t\r]*$"
        r"|:\{(?:plain|clear(?:text)?|crypt|s?md5|s?sha[0-9]{0,3})(?:\.[a-z0-9]{2,3})?\}([^\s:]{6,})"
    ),
    (
        rf"(?i)(?:connect(?:ion)?|\bpdo|mysqli|sequelize|\b(?:http)?(?:basic|digest)?_?auth|\blog_?in|authenticate|credentials?"
        rf"|passwordauthentication|authenticationtoken)[ \t]*(?:[=:][ \t]*)?[(\[]\s*{_ARGUMENT}\s*,\s*{_ARGUMENT}"
        rf"(?:\s*,\s*{_ARGUMENT})?(?:\s*,\s*{_ARGUMENT})?\s*[,)\]]"
    ),
    # What is said to a server; a user of an address without a password; names that are short for a key.
    (
        r"(?i)\bAUTH(?:ENTICATE)?[ \t]+(?:PLAIN|LOGIN|XOAUTH2)[ \t]+([a-z0-9+/]{8,}={0,2})[ \t\r]*$"
        r"|\b[a-z]{0,4}[0-9]{1,6} (?-i:LOGIN) (?:\"[^\"\n]{1,80}\"|\S{1,80}) \"?([^\s\"=]{6,})\"?[ \t\r]*$"
        r"|\bhttps?://([a-z0-9_.~-]{16,})@|[?&]auth=([a-z0-9_.~%+/=-]{16,})"
        r"|\bencrypt\"?[ \t]*[:=][ \t]*\"?([a-z0-9+/]{16,}={0,2})(?:[\s\",]|$)"
        r"|\w_salt[\"']?[ \t]*(?:[:=,]|=>)[ \t]*[\"']?([^\"'\s][^\"'\n]{7,})"
        r"|^\[(?:client|mon|mgr|osd|mds)\.[^\]\n]{0,60}\]\s+key[ \t]*=[ \t]*([a-z0-9+/]{16,}={0,2})"
        r"|\bauth-user-pass>?[ \t\r]*\n[^\s<]{1,80}[ \t\r]*\n([^\s<]{6,})[ \t\r]*$"
    ),
    r"(?i)\bkey[12][\\\"']*\s*[:=]\s*[\\\"']*([A-Za-z0-9+/=]{30,})",
)
_WORDS = (
    "access_?key", "auth_?token", "access_?token", "refresh_?token", "bearer_?token", "passphrase", "passwort",
    "kennwort", "wachtwoord", "contrasena", "mot_?de_?passe", "senha", "encryption_?key", "signing_?key", "master_?key",
)  # fmt: skip
_NO_SECRET = lazy_pattern(
    rb"(?i)(?:null|none|nil|true|false|undefined|str|string|bytes|int|bool|any|optional|required|redacted|hidden"
    rb"|example|changeme|empty|unset|self|this|input|prompt|varchar|text|integer|bigint|double|boolean|public|private)"
    rb"|[*x._-]+"
    # What stands for a value, in its full form: a password may begin with any of these signs.
    rb"|(?-i:\$[A-Z_][A-Z0-9_]*|\$[a-z_]{1,20})|\$\{[^{}]*\}|\$\(.*\)|\$\{\{.*\}\}|<[^<>]*>|\{\{.*\}\}|\{[\w.]*\}"
    rb"|%\w+%|%\(\w+\)[sdr]|%[sdr]|\([a-z ]+\)"
    # A path: below a folder that systems have, or of several small words.
    rb"|(?-i:/(?:etc|run|var|home|tmp|usr|opt|root|mnt|srv|dev|proc|Users|secrets|vault|data|app)/[\w./-]+)"
    rb"|(?-i:(?:/[a-z_.-]{1,30}){2,10})",
    re.DOTALL,
)


# Names of things, numbers with a unit: `TestLogin2/it_works`, `12.5ms`. A digit before a small letter is in none.
_OF_WORDS = lazy_pattern(
    rb"(?:(?<![A-Z])[a-z]++|[A-Z](?:[a-z]{2,}+|[dfknoprsty](?![a-z]))|[A-Z]{2,}+(?![a-z])|[A-Z]{2,}?(?=[A-Z][a-z])"
    rb"|[A-Z](?![A-Za-z])|(?<![A-Za-z0-9])[0-9]++(?:[A-Za-z]{1,2}(?![A-Za-z0-9]))?|[0-9]{1,4}+(?![a-z0-9])"
    rb"|[^A-Za-z0-9!$*^~?=])*+"
)
_WORD_IN_IT, _UNSPEAKABLE = lazy_pattern(rb"[A-Z]+[a-z]*|[a-z]+"), lazy_pattern(rb"(?i)[b-df-hj-np-tv-xz]{6}")
_NUMBER_IN_IT = lazy_pattern(rb"(?<=[A-Za-z])[0-9]+(?=[A-Z])")
_LONGEST_OF_WORDS = 200
_STANDS_FOR_A_VALUE = lazy_pattern(
    rb"(?:<[^<>]*+>|\{\{.*?\}\}|\$\{[^{}]*+\}|\$\{\{.*?\}\}|\$\([^()]*+\)|\{[\w.]*+\}|%\(\w++\)[sdr])(?:[\s\"'`,;)&]|\Z)"
)
_CELL = "Password in a table"
# At the end of a name, and not of one that goes on: `tokenizer`, `token_type`. Its other name is a word of `_WORDS`.
_TOKEN_NAME = lazy_pattern(rb"(?:[tT]oken|TOKEN)(?=[sS]?(?:[_-]?[0-9]{1,3})?(?![\w-]))")
_AS_TOKEN = {b"token": b"senha", b"Token": b"Senha", b"TOKEN": b"SENHA"}
_SHORTEST_TOKEN = 10
_SENTENCES = frozenset((_CELL, _MADE_UP, *(kind for kind, _ in _IN_SENTENCES)))


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
        self._rules.append(_Rule(_IN_COMMAND, _compiled("|".join(_COMMANDS)), is_ours=True))
        self._rules += [_Rule(_MADE_UP, _compiled(pattern), is_ours=True) for pattern in _LABELLED]
        self._rules += [_Rule(kind, _compiled(pattern)) for kind, pattern in self._theirs()]
        words = "|".join((*keyword.DENYLIST, *_WORDS)).replace("_?", "[_-]?")
        # A name, perhaps in quotes; a sign between; then the quote that the value begins with, or the value itself.
        self._assigned = _compiled(
            rf"(?i)(?:{words})[\w-]{{0,40}}[\\]*[\"'`]?(?:\]|%5[dD])?[ \t]*(?:=>|[:?]=|={{1,3}}|:|%3[adAD])"
            r"[ \t]*@?(?:[bfrLuBFRU]{0,2}([\\]*[\"'`])|([^\s\"'`,;&|<>(){}\[\]\\]{0,}))"
        )
        # A variable of the environment: its value ends with the line, whatever signs it has.
        # In YAML: as the value of such a name, and on the line behind it.
        around, blank = r"[\w.-]{0,60}", r"[ \t]*"
        near = rf"[\w.\[\]-]{{0,40}}(?:{words}|[_.-]token)[\w.\[\]-]{{0,40}}"
        quot = "&(?:quot|#34|#x22);"
        field = rf"(?:name|id|type)=[\"']?{near}"
        named = rf"[\"']?(?:name|key)[\"']?:{blank}[\"']?{around}(?:{words})(?:[0-9_.-]{around})?[\"']?"
        comment = r"(?:[ \t]+#[^\n]*)?[ \t\r]*"  # behind something in YAML, and the empty lines and comments below it
        below = rf"{comment}\n(?:[ \t]*(?:#[^\n]*)?\r?\n)*"
        in_flow = r"[\"']?value[\"']?:[ \t]+(?:\"([^\"\n]{3,})\"|'([^'\n]{3,})'|([^\s,{}\"'][^,{}\n]{2,}))"
        written = (
            (
                rf"(?i)^[ \t-]*(?:name|key):{blank}[\"']?{around}(?:{words}){around}[\"']?"
                rf"{below}{blank}value:{blank}[\"']?([^\s\"'][^\n\"']{{2,}})"
            ),
            rf"(?i)<input\b[^<>]*{field}[^<>]*?\bvalue=[\"']([^\"'<>]{{3,}})[\"']",
            rf"(?i)<input\b[^<>]*?\bvalue=[\"']([^\"'<>]{{3,}})[\"'][^<>]*{field}",
            (
                rf"(?i)^[ \t-]*value:{blank}[\"']?([^\s\"'][^\n\"']{{2,}})[\"']?{below}"
                rf"{blank}(?:name|key):{blank}[\"']?{around}(?:{words})"
            ),
            rf"(?i)\{{(?:[^{{}}\n]*,)?{blank}{named}{blank},(?:[^{{}}\n]*,)?{blank}{in_flow}",
            rf"(?i)\{{(?:[^{{}}\n]*,)?{blank}{in_flow}{blank},(?:[^{{}}\n]*,)?{blank}{named}{blank}[,}}]",
            rf"(?i)^[ \t]*#[ \t]*define[ \t]+\w{{0,60}}(?:{words})\w{{0,60}}[ \t]+[\"']([^\"'\n]{{3,}})[\"']",
            rf"(?i)(?:{words})[\w-]{{0,40}}{quot}\s*[:=]\s*{quot}([^\n]{{3,}}?){quot}",
            rf"(?i)(?:{words})[\w-]{{0,40}}%22(?:%20|\+)?%3a(?:%20|\+)?%22([^\s\"']{{3,}}?)%22",
            rf"(?i)(?:{words})\w{{0,40}}[ \t]*=[ \t]*\[\[([^\n]{{3,}}?)\]\]",  # Lua
            rf"(?i)(?:{words})\w{{0,40}}[ \t]*=[ \t]*\"[^\"\n]*\"[ \t]*->[ \t]*\"([^\"\n]{{3,}})\"",  # Terraform
            rf"(?i)(?:{words})\w{{0,20}}[ \t]*=[ \t]*N'([^'\n]{{3,}})'",
            rf"(?i)(?:{words})[\w.]{{0,40}}[ \t]*<<?-[ \t]*[\"']([^\"'\n]{{3,}})[\"']",  # R
            rf"(?i)\bset[ \t]+[\w.]{{0,60}}(?:{words})\w{{0,40}}[ \t]+to[ \t]+'([^'\n]{{3,}})'",  # SQL
            rf"(?i)<key>{near}</key>\s*<string>([^<]{{3,}})</string>",
            (
                rf"(?i)content-disposition:\s*form-data;[^\r\n]*\bname=\"{near}\"[^\r\n]*"
                r"(?:\r?\n[\w-]+:[^\r\n]*)*\r?\n\r?\n([^\r\n]{3,})"
            ),
            rf"(?i)^[ \t]*ENV[ \t]+\w{{0,60}}(?:{words})\w{{0,60}}[ \t]+([^\s\"'=][^\n]{{2,}})$",
        )
        self._unnamed = len(self._rules)  # the rules behind these find nothing in a text without such a name
        self._names = _compiled(rf"(?i)(?:{words})")
        self._rules += [_Rule(_VARIABLE, _compiled(one), is_ours=True) for one in written]
        cell = r"</t[dh]>\s*<td[^<>]{0,200}>"
        # Beside a name that may be one of something else, so what is a word is none: cells, declarations with a type,
        # arguments, attributes.
        kind_of_value = (
            r"(?:\[\w{0,20}\]|[?!]?[ \t]*:(?:[\w.|*&?' \t]|::|<[^<>=\n]{0,40}>|\[[^\[\]=\n]{0,40}\])+"
            r"|(?:[ \t]+As)?[ \t]*[A-Za-z_][\w.<>\[\]|*&?]{0,40})[ \t]*=[ \t]*(?:Some\()?[\"'`]"
        )
        beside = (
            rf"(?i)<t[dh][^<>]{{0,200}}>\s*{near}\s*{cell}\s*([^<\s][^<]{{2,}}?)\s*</td>",
            rf"(?i)(?:{words})\w{{0,40}}{kind_of_value}([^\"'`\n]{{3,}})[\"'`]",
            rf"(?i)\(\s*[\"']{around}(?:{words}){around}[\"']\s*,\s*[\"']([^\"'\n]{{3,}})[\"']",
            rf"(?i)\bset_?(?:\w{{0,30}}_?)(?:{words})\w{{0,20}}\([ \t]*[\"']([^\"'\n]{{3,}})[\"']",
            rf"(?i)<[a-z][\w:.-]{{0,40}}\s[^<>]{{0,200}}?\b(?:key|name|id)=[\"']{near}[\"'][^<>]{{0,200}}?\b(?:value|content)=[\"']([^\"'<>]{{3,}})[\"']",
            rf"(?i)<[a-z][\w:.-]{{0,40}}\s[^<>]{{0,200}}?\b(?:key|name|id)=[\"']{near}[\"'][^<>]{{0,200}}>\s*(?:<value>\s*)?([^<\s]{{6,}})\s*</",
            rf"(?i)(?:<name>\s*{near}\s*</name>|<{near}>)\s*<value>\s*([^<\s]{{6,}})\s*</value>",
            # Two cells: `psql -x`, tables of cloud commands.
            rf"(?i)^[ \t|]*\**{near}\**[ \t]*\|[ \t]*([^\s|]{{6,}})[ \t|\r]*$",
        )
        self._rules += [_Rule(_CELL, _compiled(one), is_ours=True) for one in beside]
        # A label in bold, or in a tag of its own, and its value; or the value alone in one.
        label, tag = rf"(?:{words}|token)[\w-]{{0,20}}(?: \([\w -]{{1,20}}\))?[ \t]*", r"[a-z]{1,10}(?:\s[^<>]{0,80})?>"
        in_documents = (
            rf"(?i){label}:?(?:\*\*|__|</{tag}\s*)[ \t]*:?{_MARKS}([^\s<>`|*\"']{{6,}})",
            rf"(?i){label}:[ \t]*(?:\*\*|__|<{tag})([^\s<>`*]{{6,}})",
        )
        in_code = (  # what is taken if there is none; what may be none
            (
                rf"(?i)(?:{words})\w{{0,40}}[\"')\]}}]{{0,3}}\s{{0,8}}(?:(?:\|\||\?\?)=?|\?:|\bor\b|=>\s{{0,8}}string\([0-9]+\)"
                r"|=[ \t]*\(?|\{(?:[ \t]*(?:get|set|init);){0,2}(?:[ \t]*\}[ \t]*=)?"
                r"|,[ \t]*default=|n?varchar\([0-9a-z]+\)[ \t]*=[ \t]*N?"
                r"|[0-9]+\))\s{0,8}[\"']([^\"'\n]{6,})[\"']"
            ),
            (
                rf"(?i)(?:{words})\w{{0,40}}[\"']?[ \t]*[:=][ \t]*(?:(?:Some|Optional|SecretStr)\([\"']?"
                r"|\w{0,20}(?:key|token|password|secret)\([\"'])([^\s\"'()]{6,})"
            ),
        )
        # A name and its value in two columns, whatever stands above.
        two = (
            rf"(?i)^[ \t]*\"?[\w-]{{0,40}}(?:{words}|[_-]token)[\w-]{{0,20}}\"?(?:[,;]|\t+| +)"
            r"[ \t]*\"?([^\s,;\"|]{6,})\"?[ \t\r;]*$"
        )
        # What a program says once; the value that is taken if none is given; a name and a value in quotes.
        said = r"(?:password|passphrase|passwort|kennwort)"
        in_lines = (
            (
                rf"(?i)\b{said}(?:[ \t]+(?:is|was|has been|been|successfully|generated|created|set|reset))*"
                r"[ \t]+(?:for|of|to)[ \t][^\n:,;=]{1,100}"
                r"(?::|[ \t](?:is|was)[ \t]*:?)\s{1,8}[\"'`]?([^\s\"'`]{6,})[\"'`]?[ \t\r]*$"
                rf"|\b{said}\b[^\n]{{0,100}}[:.][ \t\r]*\n\s{{0,8}}(?:New value:[ \t]*)?([^\s\"'`]{{6,}})[ \t\r]*$"
            ),
            (
                rf"(?i)(?:{words})[\w-]{{0,40}}[\"']?[ \t]+[\"']([^\s\"'][^\"'\n]{{5,}})[\"']"
                rf"|\bvariable[ \t]+\"[\w-]{{0,40}}(?:{words})[\w-]{{0,40}}\"\s*"
                r"\{[^{}]{0,400}?\bdefault[ \t]*=[ \t]*\"([^\"\n]{6,})\""
                rf"|^[ \t]*[\w.-]{{0,40}}(?:{words})[\w.-]{{0,40}}:[ \t\r]*\n"
                r"(?:[ \t]+\w{1,30}:[ \t]+\S[^\n]*\n){0,8}?[ \t]+default:[ \t]+[\"']?([^\s\"']{6,})"
            ),
        )
        self._rules += [_Rule(_MADE_UP, _compiled(one), is_ours=True) for one in (*in_documents, *in_code, two)]
        # Apart: among those that are looked for at once they make too many states.
        self._in_lines = [_Rule(_MADE_UP, _compiled(one), is_ours=True) for one in in_lines]
        # Names with nothing behind them but, in YAML, the sign of a block; of columns with blanks between; of SQL.
        self._above = _compiled(
            rf"(?i)^([ \t]*(?:-[ \t]+)?)[\"']?[\w.-]{{0,60}}(?:{words})[\w.-]{{0,40}}[\"']?{blank}:"
            rf"{blank}(?:![\w:!/.-]{{0,60}}[ \t]+)?([|>][-+0-9]*)?(?:[ \t]+#[^\n]*)?[ \t\r]*$"
        )
        self._aligned = _compiled(rf"(?i)(?:^| )[\w.-]{{0,40}}(?:{words})[\w.-]{{0,40}}(?: |\r?$)")
        self._inserted = _compiled(
            r"(?i)\b(?:insert|replace|copy)\s+(?:[a-z_]{1,20}\s+){0,4}((?:[^\s()\[]|\[[^\[\]\n]*\])+)"
            r"\s*(?:\(([^()]*)\)\s*)?"
            r"(?:(?:overriding\s+[a-z]+\s+value\s+)?(values?|select)\b|from\s+stdin([^\n]*)\n)"
        )
        self._created = _compiled(
            r"(?i)\bcreate\s+(?:[a-z]{1,20}\s+){0,4}table\s+(?:if\s+not\s+exists\s+)?"
            r"((?:[^\s()\[]|\[[^\[\]\n]*\])+)\s*\("
        )
        self._column = _compiled(
            rf"(?i)(?:^|[,;\t|])[ \t\"]{{0,60}}[\w -]{{0,40}}(?:{words}|access key)"
            r"[\w -]{0,40}[ \t\"]{0,60}(?:[,;\t|\r]|$)"
        )
        self._cells = _compiled(rf"(?i)<t[dh](?:\s[^<>]{{0,200}})?>[^<>]{{0,80}}(?:{words}|token)[^<>]{{0,80}}</t[dh]>")
        upper = "|".join(word.upper() for word in (*keyword.DENYLIST, *_WORDS)).replace("_?", "_?")
        self._rules.append(
            _Rule(
                _VARIABLE,
                _compiled(
                    r"^[ \t]*(?:(?:export|declare|typeset)[ \t]+(?:-[a-z]+[ \t]+)?)?"
                    rf"[A-Z0-9_]*(?:{upper})[A-Z0-9_]*=([^\s\"'`][^\n]{{2,}})$"
                ),
                is_ours=True,
            )
        )
        whole = "cookies?|authorization|credentials?|pass|pw|passcode|auth"
        unlike = words.replace("secret", "secret(?!ar[iy])")
        self._named = re.compile(rf"(?i)(?:{unlike}|(?:^|[_-])(?:{whole})$|token$)")
        self._flag = _compiled(r"\s(?:-[A-Za-z-]|/p)")
        self._flags = [(_compiled(command), _compiled(flag)) for command, flag in _FLAGS]
        # Two passes tell which rules have anything to find in a short text: most have nothing for any of them. One
        # machine for all has so many states that it takes twice as long.
        regexes = [*(rule.regex for rule in self._rules), self._assigned]
        self._any = [_any_of(regexes[: self._unnamed]), _any_of(regexes[self._unnamed :])]

    def find(self, data: bytes) -> list[Finding]:
        """In any order; they may overlap."""
        data = _without_marks(data)
        if _COLOUR.search(data):
            colours = ((*one.span(), one[1] or b"") for one in _COLOUR.finditer(data))
            return _reread(data, colours, self._without_colours)
        return self._without_colours(data)

    def _without_colours(self, data: bytes) -> list[Finding]:
        narrow = _narrow(data)
        wide = [(2 * start, 2 * end, kind) for start, end, kind in self._of_bytes(narrow, self.find)] if narrow else []
        found = [*_whole_characters(data, self._of_bytes(data, self.find)), *wide, *self._in_words(data)]
        found += self._otherwise(data)
        found += _reread(data, _margins(data), lambda lines: self._without_margins(_without_marks(lines)))
        return found

    def _without_margins(self, lines: bytes) -> list[Finding]:
        return [*self._as_it_is(lines), *self._in_words(lines)]

    def _otherwise(self, data: bytes) -> list[Finding]:
        """What is found only where markup, strings and cells are read as what they stand for."""
        found: list[Finding] = []
        if b"&" in data:
            escapes = ((*one.span(), _unescaped(one[0])) for one in _IN_MARKUP.finditer(data))
            found += _reread(data, escapes, self._as_it_is)
        escapes = ((*one.span(), _of_string(one)) for one in _IN_STRINGS.finditer(data))
        found += _reread(data, escapes, self._as_it_is)
        if b'""' in data and _DOUBLED_VALUE.search(data):
            found += _reread(data, _quoted_cells(data), self._as_it_is)
        found += _reread(data, _near(data, _quotes_inside(data)), self._as_it_is)
        if b"<t" in data and any(_spans(self._cells, data)):
            found += _reread(data, _cells(data), lambda rows: [*_and_tokens(rows, self._in_columns)])
        return found

    def _as_it_is(self, data: bytes) -> list[Finding]:
        """What was read otherwise once is not again: else each string in a string would be looked at twice as often."""
        return [*_whole_characters(data, self._of_bytes(data, self._as_it_is))]

    def _in_words(self, data: bytes) -> list[Finding]:
        """What is given to a command whose words are a list, or have quotes around."""
        found: list[Finding] = []
        if _QUOTED_FLAG.search(data):
            words = ((*one.span(), b"" if one[0] in (b"'", b'"') else b" ") for one in _BETWEEN_WORDS.finditer(data))
            found += _reread(data, words, self._in_commands)
        found += _reread(data, _near(data, _shell_words(data)), self._in_commands)
        return found

    def _in_commands(self, data: bytes) -> list[Finding]:
        """What is given to a command, where its words were read as one line."""
        rules = (rule for rule in self._rules if rule.kind in (_IN_FLAG, _IN_COMMAND))
        return [*self._in_flags(data), *(one for rule in rules for one in _by_form(rule, data))]

    def _of_bytes(self, data: bytes, find: Find) -> list[Finding]:
        if b"\xe2\x94" in data or b"\xe2\x95" in data:  # a table with drawn lines, as one of other signs
            data = _DRAWN.sub(lambda sign: b"|  " if sign[0][1:] in _UPRIGHT else b"---", data)
        return [*self._in_text(data), *json_in_text(data, find, self.is_secret)]

    def _in_text(self, data: bytes) -> list[Finding]:
        # Of what is long and random, one machine for all rules has so many states that it crawls: 10 s for a megabyte.
        hits: Iterable[int] = range(self._unnamed)
        if len(data) <= _AT_ONCE:
            hits = _in_re2(self._any[0].Match, data) or ()
        found: list[Finding] = []
        for number in hits:
            deadline.check()
            found += _by_form(self._rules[number], data)
        if any(_spans(self._flag, data)):  # strings of JSON come one by one: most are short, and have nothing of either
            found += self._in_flags(data)
        if b"\n" in data:
            found += self._of_vault(data)
        return [*found, *_and_tokens(data, self._under_names), *_private_keys(data), *_of_kubernetes(data)]

    def _under_names(self, data: bytes) -> list[Finding]:
        found = [*self._in_sql(data)]
        if not any(_spans(self._names, data)):
            return found
        hits: Iterable[int] = range(len(self._rules) + 1 - self._unnamed)
        if len(data) <= _AT_ONCE:
            hits = _in_re2(self._any[1].Match, data) or ()
        for number in hits:
            deadline.check()
            rules = self._rules[self._unnamed :]
            found += self._by_name(data) if number == len(rules) else _by_form(rules[number], data)
        found += [one for rule in self._in_lines for one in _by_form(rule, data)]
        if b"\n" in data:
            found += self._in_columns(data)
            found += self._in_aligned(data)
            found += self._below_names(data)
        return found

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
        return lambda data: [(*spans[0], FOUND_BEFORE) for one in compiled for spans in _spans(one, data)]

    def _by_name(self, data: bytes) -> Iterator[Finding]:
        last = 0
        for (name, after), opener, bare in _spans(self._assigned, data):
            if after < last:
                continue
            start, end = bare
            if start < 0:
                quotes = data[slice(*opener)]
                if _closes(data, *opener):
                    continue
                start, end = after, _closing(data, after, quotes)
                three = quotes[-1:] * 3
                if start == end and data.startswith(three[1:], start):
                    start, end = start + 2, data.find(three, start + 2, start + _LONGEST_VALUE)
                last = max(last, end)
            else:
                last = end = _end_of_bare(data, name, start, end)
            value, at = data[start:end], start + 1
            is_list = bare[0] >= 0 and data[start:at] in (b"[", b"{")
            while is_list and (entry := _ENTRY_OF_LIST.match(data, at)):
                value = value if entry[4] else b""  # a text in quotes is no beginning of a password
                yield from _of_entry(entry, 0)
                last = max(last, at := entry.end())
            if value and not _NO_SECRET.fullmatch(value) and not _is_folder(data, start):
                yield from _trimmed(data, start, end, "Secret Keyword")

    def _in_flags(self, data: bytes) -> Iterator[Finding]:
        for command, flag in self._flags:
            for (at, _), value in _spans(flag, data):
                start = max(0, at - _FLAG_REACH)
                start = max(start, *[data.rfind(sign, start, at) + 1 for sign in _SEPARATORS])
                told = data[start : value[0]]
                if any(_spans(command, told)) and not _NO_SECRET.fullmatch(data, *value):
                    yield from _trimmed(data, *value, _IN_FLAG)

    def _in_columns(self, data: bytes) -> Iterator[Finding]:
        """What stands below such a name in a table: CSV, tabs, Markdown, psql."""
        at = 0  # up to where it was looked at
        for ((name, _),) in _spans(self._column, data):
            if name < at:
                continue
            start = max(at, name - _LONGEST_HEADER)
            newline = data.rfind(b"\n", start, name)
            end = data.find(b"\n", name + 1, name + _LONGEST_HEADER)
            if end < 0 or (newline < 0 and start > at):
                continue
            begin = newline + 1 if newline >= 0 else start
            header = data[begin:end]
            delimiter = next((one for one in _DELIMITERS if one in header), b"")
            is_doubtful = delimiter == b"," and b", " in header  # a sentence, or code
            names = [data[slice(*span)] for span in _fields(data, begin, end, delimiter)] if delimiter else []
            secret = [index for index, name in enumerate(names) if self._is_column(name)]
            at = end + 1
            # Of code, or of a text, rather than of a table.
            is_alone = sum(map(bool, names)) < 2 or _EMPTY_LINE.match(data, at) is not None
            if names and names[0].isdigit():  # it is the number of a line: without it the line is looked at once more
                continue
            if is_doubtful and not all(_ONE_NAME.fullmatch(name) for name in (header[:1], *names)):
                continue
            if secret and all(_COLUMN_NAME.fullmatch(name) for name in names):
                for after, spans in _rows(data, end + 1, delimiter, len(names), secret):
                    at = after
                    for first, last in spans:
                        if (is_doubtful or is_alone) and not _is_bare_secret(data[first:last]):
                            continue
                        if last - first >= _SHORTEST_CELL and not _NO_SECRET.fullmatch(data, first, last):
                            yield from _trimmed(data, first, last, "Secret Keyword")

    def _in_aligned(self, data: bytes) -> Iterator[Finding]:
        """What begins or ends below such a name, in columns with blanks between, or with lines below their names."""
        at = 0
        for ((first, _),) in _spans(self._aligned, data):
            if first < at:
                continue
            start = max(at, first - _LONGEST_BEFORE)
            begin = data.rfind(b"\n", start, first + 1) + 1 or start
            end = data.find(b"\n", first + 1, first + _LONGEST_BEFORE)
            at = end + 1 if end >= 0 else at
            below = _LINES_BELOW.match(data, at, at + _LONGEST_BEFORE)
            if end < 0 or not (below or _ALIGNED_HEADER.fullmatch(data, begin, end)):
                continue
            names = (_ONE_WORD if below else _ALIGNED_NAME).finditer(data, begin, end)
            columns = [(one.start() - begin, one.end() - begin) for one in names if self._is_aligned(one[0])]
            while at < len(data) and (end := data.find(b"\n", at, at + _LONGEST_ROW) % (len(data) + 1)) > at:
                for left, right in columns:
                    cell = _ALIGNED_NAME.match(data, at + left, end)
                    if cell and data[at + left - 1 : at + left] in (b" ", b"\n") and _is_bare_secret(cell[0]):
                        yield *cell.span(), "Secret Keyword"
                    elif at + right <= end and data[at + right : at + right + 1] in (b" ", b"\n", b"\r", b""):
                        word = data[at + max(0, right - _LONGEST_WORD) : at + right].rpartition(b" ")[2]
                        if word and at + right - len(word) <= at + left and _is_bare_secret(word):
                            yield at + right - len(word), at + right, "Secret Keyword"
                at = end + 1

    def _is_aligned(self, name: bytes) -> bool:
        return any(_spans(self._aligned, name))

    def _below_names(self, data: bytes) -> Iterator[Finding]:
        """In YAML the lines of a block, or the one line, below such a name."""
        for (_, after), (begin, key), block in _spans(self._above, data):
            indent = key - begin
            at = data.find(b"\n", after - 1) + 1
            limit = min(len(data), at + _LONGEST_KEY)
            while 0 < at < limit:
                end = data.find(b"\n", at, limit) % (limit + 1)
                inner = _indent(data, at)
                start = at + inner
                value = data[start:end].rstrip()
                is_item = block[0] < 0 and value[:2] == b"- "  # it may be in the same column as the name
                if value and inner + is_item <= indent:
                    break
                if is_item:
                    if _QUOTED.fullmatch(value[2:].strip()) or _is_bare_secret(value[2:].strip()):
                        yield from _trimmed(data, start + 2, end, "Secret Keyword")
                elif block[0] >= 0:
                    yield from _trimmed(data, start, end, "Secret Keyword") if len(value) >= _SHORTEST_CELL else ()
                elif value and (entry := _ENTRY.fullmatch(value)):
                    yield from _of_entry(entry, start)
                elif value and not value.startswith(b"#"):
                    if _QUOTED.fullmatch(value) or (_is_bare_secret(value) and not _CALL.fullmatch(value)):
                        yield from _trimmed(data, start, end, "Secret Keyword")
                    break
                at = end + 1

    def _of_vault(self, data: bytes) -> Iterator[Finding]:
        """`vault kv get`: names, and beside each what it holds."""
        for table in _TWO_COLUMNS.finditer(data) if b"Key " in data else ():
            for line in _IN_TWO_COLUMNS.finditer(data, *table.span(1)):
                if self.is_secret(line[1].decode("latin-1")) and not _NO_SECRET.fullmatch(line[2].rstrip()):
                    yield from _trimmed(data, *line.span(2), "Secret Keyword")

    def _in_sql(self, data: bytes) -> Iterator[Finding]:
        """What is put into such a column. Each statement is read to where the next one begins, so nothing twice."""
        matches = list(self._inserted.finditer(data))
        columns = self._columns_of_tables(data) if matches else {}
        starts = [*(one.start() for one in matches), len(data)]
        done = 0
        for number, match in enumerate(matches):
            if match.start() < done:
                continue  # it stands in a text of the one before
            deadline.check()
            table, told_names, values, options = (match[group] or b"" for group in range(1, 5))
            names = told_names.split(b",") if told_names else columns.get(_plain_name(table), [])
            secret = {
                index
                for index, name in enumerate(names)
                if self.is_secret(name.strip(b' \t\r\n"`[]').decode("latin-1"))
            }
            if values:
                depth = int(values.lower() == b"select")
                found, done = _in_values(data, match.end(), secret, starts, number + 1, depth)
                yield from found
                continue
            told = _DELIMITER_OF_COPY.match(options)
            delimiter = (told[1] or b",") if told else b"\t"
            for after, spans in _rows(data, match.end(), delimiter, len(names), sorted(secret)):
                if after > starts[number + 1]:
                    break
                for span in spans:
                    yield from _trimmed(data, *span, "Secret Keyword")

    def _columns_of_tables(self, data: bytes) -> dict[bytes, list[bytes]]:
        """As they were created, for what is put into all of them."""
        tables: dict[bytes, list[bytes]] = {}
        at = 0
        for table in self._created.finditer(data):
            names = tables[_plain_name(table[1] or b"")] = list[bytes]()
            at = max(at, table.end())  # nothing is read twice
            while at < table.end() + _LONGEST_ROW and (column := _COLUMN_OF_SQL.match(data, at)):
                names.append(column[1])
                at = column.end()
                if not column[2]:
                    break
        return tables

    def _is_column(self, name: bytes) -> bool:
        return any(_spans(self._column, name))

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


def _without_marks(data: bytes) -> bytes:
    """Without the sign before a text that it is UTF-8, wherever a file begins in it; as many bytes."""
    return _MARKED_LINE.sub(lambda one: b"\n" * len(one[0]), data) if _MARK_OF_UTF8 in data else data


def _and_tokens(data: bytes, find: Find) -> Iterator[Finding]:
    """What is found under names of secrets, and under those of tokens: as if they were called by one of the others.
    Most of them are counts or words, so that only what looks like one of a service is taken.
    """
    yield from find(data)
    if (renamed := _TOKEN_NAME.sub(lambda name: _AS_TOKEN[name[0]], data)) != data:
        yield from (one for one in find(renamed) if _is_token(data[one[0] : one[1]]))


def _is_token(value: bytes) -> bool:
    return len(value) >= _SHORTEST_TOKEN and is_no_word(value) and _is_made_up(value)


def _whole_characters(data: bytes, findings: Iterable[Finding]) -> Iterator[Finding]:
    """No mask ends inside of a character."""
    for start, found, kind in findings:
        end = found
        while end < len(data) and data[end] & 0xC0 == 0x80 and data[end - 1] & 0x80:
            end += 1
        yield start, end, kind


_Sign = tuple[int, int, bytes]  # a part of a text that reads otherwise: where it begins and ends, and as it reads


def _reread(data: bytes, signs: Iterable[_Sign], find: Find) -> list[Finding]:
    """What is found where these parts read otherwise than they are written; nothing, if there are none. Those that are
    nothing to a reader, and what stands between cells, are masked in no case.
    """
    reading = _Reading(data, signs)
    text = reading.taken()
    return [written for one in find(text) for written in reading.as_written(*one)] if text else []


class _Reading:
    """A text in which some parts read otherwise. It holds few bytes for each: there are texts of nothing else."""

    def __init__(self, data: bytes, signs: Iterable[_Sign]) -> None:
        self._begins, self._ends, self._places = (
            array("q"),
            array("q"),
            array("q"),
        )  # the last: in the text that is read
        self._text = bytearray()
        end = 0
        for number, (start, after, reading) in enumerate(signs):
            if number % _LOOK_EVERY == 0:
                deadline.check()
            self._text += data[end:start]
            self._begins.append(start)
            self._ends.append(after)
            self._places.append(len(self._text))
            self._text += reading
            end = after
        if self._begins:
            self._text += data[end:]
            self._begins.append(len(data))
            self._places.append(len(self._text))

    def taken(self) -> bytes:
        """As it reads; empty if no part reads otherwise. It is kept only once."""
        text, self._text = bytes(self._text), bytearray()
        return text

    def as_written(self, first: int, last: int, kind: str) -> Iterator[Finding]:
        """Where a part of the text that is read stands in that which is written: in pieces, if it goes over something
        that is nothing to a reader.
        """
        begin = end = -1
        for start, stop in self._parts(first, last):
            if start != end:
                if begin < end:
                    yield begin, end, kind
                begin = start
            end = stop
        if begin < end:
            yield begin, end, kind

    def _parts(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        number = bisect(self._places, first) - 1
        if number < 0:
            yield first, min(last, self._begins[0])
            number = 0
        while number < len(self._ends) and self._places[number] < last:
            end, begin = self._ends[number], self._begins[number + 1]
            plain = self._places[number + 1] - (begin - end)  # where what follows the sign begins
            length = plain - self._places[number]
            if first < plain and length not in (0, len(BARRIER)):  # a sign of any other kind reads as one byte
                yield self._begins[number], end
            start, stop = end + max(0, first - plain), begin - max(0, plain + begin - end - last)
            if start < stop:
                yield start, stop
            number += 1


def _unescaped(escape: bytes) -> bytes:
    return html.unescape(escape.decode("ascii")).replace("\xa0", " ").encode()


def _of_string(escape: re.Match[bytes]) -> bytes:
    if escape[1]:
        return {b"n": b"\n", b"r": b"\r", b"t": b"\t"}[escape[1]]
    return b"'" if escape[0][:1] == b"'" else b" "


def _quotes_inside(data: bytes) -> Iterator[_Sign]:
    """Each quote that is a sign of a string in such quotes."""
    if b"''" in data or b'""' in data or b"'\"'\"'" in data:
        for string in _DOUBLED_INSIDE.finditer(data):
            signs, no_string = (_QUOTE_INSIDE, _BETWEEN_STRINGS) if string[2] is None else (_DOUBLED, _DOUBLED_VALUE)
            span = string.span(string.lastindex or 0)
            if not no_string.search(data, *span):  # JSON, or JSON in a cell of CSV
                yield from ((*one.span(), b"_") for one in signs.finditer(data, *span))


def _shell_words(data: bytes) -> Iterator[_Sign]:
    """Words as a command gets them, without the quotes around, on lines where one has a blank or a quote inside."""
    at = 0 if b"-" in data else len(data)
    while (word := _SHELL_WORD.search(data, at)) is not None:
        start, at = word.start(), data.find(b"\n", word.end()) + 1 or len(data)
        # Read once more, and not held: a line may be as long as the text.
        if any(reading for _, _, reading in _signs_of_words(data, start, at)):
            yield from _signs_of_words(data, start, at)


def _signs_of_words(data: bytes, start: int, end: int) -> Iterator[_Sign]:
    """The quotes around words and what is inside of them; only the latter reads as anything."""
    for word in _SHELL_WORD.finditer(data, start, end):
        if _BETWEEN_STRINGS.search(data, *word.span()):
            continue
        for piece in _SHELL_PIECE.finditer(data, *word.span()):
            begin, close = piece.span(piece.lastindex or 0)
            if piece[3]:
                yield begin, close, b"_"
            else:
                yield piece.start(), begin + 1, b""
                yield from ((*one.span(), b"_") for one in _NO_SIGN_OF_A_WORD.finditer(data, begin + 1, close - 1))
                yield close - 1, close, b""


def _near(data: bytes, signs: Iterable[_Sign], before: int = _LONGEST_BEFORE) -> Iterator[_Sign]:
    """`signs` in order, and barriers in place of the lines that are not near to one: most of a text has none."""
    end = 0  # of the line of the last
    for sign in signs:
        if sign[0] >= end:
            begin = data.rfind(b"\n", end, max(end, sign[0] - before)) + 1 or end
            if data[end:begin].strip():
                yield end, begin, BARRIER
            end = data.find(b"\n", sign[1]) + 1 or len(data)
        yield sign
    if 0 < end < len(data):
        yield end, len(data), BARRIER


def _margins(data: bytes) -> Iterator[_Sign]:
    """What stands before lines."""
    pattern = _MARGIN_OF_DIFF if b"\n@@ " in data else _MARGIN
    return _near(data, ((*one.span(), b"") for one in pattern.finditer(data) if one[0]), before=0)


def _quoted_cells(data: bytes) -> Iterator[_Sign]:
    """Each quote that is written twice in a cell of CSV, where one of them begins a value; and what is around cells."""
    at = 0
    for cell in _QUOTED_CELL.finditer(data):
        if _DOUBLED_VALUE.search(data, *cell.span(1)):
            yield at, cell.start(1), BARRIER
            yield from ((*one.span(), b'"') for one in _DOUBLED.finditer(data, *cell.span(1)))
            at = cell.end(1)
    if at:
        yield at, len(data), BARRIER


def _cells(data: bytes) -> Iterator[_Sign]:
    """The tags of HTML with the blanks around them, as a table of lines has them: a row is a line."""
    end, is_new = 0, True
    for tag in _TAG.finditer(data):
        start = end + len(data[end : tag.start()].rstrip())
        sign = b"|" if tag[1] else b"\n" if tag[2] and not (is_new and start == end) else b""
        is_new = sign == b"\n" or (is_new and start == end and not sign)
        yield start, tag.end(), sign
        end = tag.end()


def _end_of_bare(data: bytes, name: int, start: int, end: int) -> int:
    """Where a value without quotes ends; `end` is before the first sign that is none of a name or a number.

    It ends with the quote that stands before its name; with its line, where the name begins that; else with its word.
    What reads like code or a sentence ends where it is told to.
    """
    short = end - start
    as_told = end if short >= _SHORTEST_CELL else start
    newline = data.find(b"\n", end, start + _LONGEST_LINE)
    line = data[start : newline if newline >= 0 else start + _LONGEST_LINE]
    if _STANDS_FOR_A_VALUE.match(line) or (as_told > start and _NO_SECRET.fullmatch(line, 0, short)):
        return as_told
    begin = data.rfind(b"\n", max(0, name - _LONGEST_BEFORE), name) + 1 or max(0, name - _LONGEST_BEFORE)
    before, between = data[begin:name].rstrip(_OF_A_NAME), data[name:start].rstrip(b" \t@")
    quote = before[-1:]
    if (between[-1:] == b">" or between[-2:] in (b"==", b":=", b"?=")) and (
        data[start - 1 : start] in b" \t" or not _is_made_up(_WORDS_AROUND.split(line, 1)[0])
    ):
        return as_told
    if quote in (b'"', b"'", b"`") and quote not in between and (closing := line.find(quote)) >= 0:
        line = line[:closing]
    elif data[name - 2 : name] == b"--" or not _BEFORE_NAME.fullmatch(before):
        if data[start - 1 : start] in b" \t":
            return as_told
        line = _WORDS_AROUND.split(line, 1)[0].rstrip(b",;)]}>")
    if _CALL.fullmatch(line):
        return as_told
    after = _AFTER_VALUE.search(line)
    line = (line[: after.start()] if after else line).rstrip(b" \t\r\\,;")
    if len(line) <= short or _CODE_OR_WORDS.fullmatch(line):
        return as_told
    if as_told == start and not (len(line) >= _SHORTEST_BARE and is_no_word(line)):
        return as_told
    end = start + len(line)
    rest = _GOES_ON.match(data, end) if end == start + _LONGEST_LINE else None  # it is longer than was looked at
    return rest.end() if rest else end


def _by_form(rule: _Rule, data: bytes) -> Iterator[Finding]:
    for whole, *groups in _spans(rule.regex, data):
        if rule.kind == _MADE_UP:  # each argument of a call may be one
            for span in groups:
                if span[0] >= 0 and _is_made_up(data[slice(*span)]) and is_no_word(data[slice(*span)]):
                    yield from () if _closes(data, span[0] - 1, span[0]) else _trimmed(data, *span, rule.kind)
            continue
        start, end = whole
        longest = max(groups, key=lambda span: span[1] - span[0], default=(start, end))
        if rule.is_ours or longest[1] - longest[0] >= min(_SHORTEST_GROUP, (end - start) // 3):
            start, end = longest
        if _PLACEHOLDER.fullmatch(data, start, end) or (start and _closes(data, start - 1, start)):
            continue
        if rule.kind == _VARIABLE:
            if not _NO_SECRET.fullmatch(data[start:end].strip()) and not _is_folder(data, start):
                yield from _trimmed(data, start, end, "Secret Keyword")
        elif rule.kind not in _SENTENCES or is_no_word(data[start:end]):
            yield from _trimmed(data, start, end, rule.kind)


def _is_made_up(value: bytes) -> bool:
    value = value.rstrip(b",;)]}")
    if _NO_SECRET.fullmatch(value):
        return False
    if len(value) > _LONGEST_OF_WORDS or not _OF_WORDS.fullmatch(value):
        return True
    words = _WORD_IN_IT.findall(value)
    odd = sum(not word[1:].islower() for word in words)  # beside these, a number is a sign that nobody wrote it
    numbers = min(odd, len(_NUMBER_IN_IT.findall(value)))
    return 3 * (len(words) + numbers) > len(value) or any(map(_UNSPEAKABLE.search, words))


def _is_folder(data: bytes, start: int) -> bool:
    """The working folder, which every shell tells."""
    return data[start : start + 1] == b"/" and _WORKING_FOLDER.search(data, max(0, start - 8), start) is not None


def _private_keys(data: bytes) -> Iterator[Finding]:
    """The base64 between the first and the last line of a private key, whatever stands around it on its lines: the
    sign of a diff, a file and its line, quotes, a time. Without a last line, for as long as lines have some.
    """
    begins = [one.span() for one in _KEY.finditer(data)]
    for (first, start), (following, _) in pairwise([*begins, (len(data), 0)]):
        line = data.rfind(b"\n", max(0, first - _LONGEST_BEFORE), first) + 1
        before = data[max(line, first - _LONGEST_BEFORE) : first]
        limit = min(following, start + _LONGEST_KEY)
        barrier = data.find(BARRIER, start, limit)
        if barrier >= 0 and data[start:barrier].strip():  # else each of its lines is a string
            limit = barrier
        ending = _KEY_END.search(data, start, limit)
        end = ending.start() if ending else _end_of_lines(data, start, limit)
        at = start
        for part in _KEY_PARTS.finditer(data, start, end):
            if part[1] and part[1] not in before:
                at = part.end()
                yield *part.span(1), "Private Key"
        last = data.rfind(b"\n", at, end)  # a short last line that has something before it
        short = [one for one in _SHORT_KEY_PART.finditer(data, at, max(last, at)) if one[1] and one[1] not in before]
        if at > start and short and data.count(b"\n", at, last) <= 1:
            yield *short[-1].span(1), "Private Key"


def _end_of_lines(data: bytes, start: int, limit: int) -> int:
    last, others = start, _KEY_HEADERS
    while start < limit and others >= 0:
        end = data.find(b"\n", start, limit) + 1 or limit
        if any(one[1] and one[1] != one[1].lower() for one in _KEY_PARTS.finditer(data, start, end)):  # no path
            last, others = end, 0
        elif data[start:end] != BARRIER[1:]:
            others -= 1
        start = end
    return last


def _narrow(data: bytes) -> bytes:
    """UTF-16 that says so, or of which most is ASCII, with one byte for two; empty for anything else."""
    if data.count(0) * 3 < len(data) and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
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
    while start < end and data[start] in b' "\t':
        start += 1
    while start < end and data[end - 1] in b' "\r\t':
        end -= 1
    return start, end


def _rows(
    data: bytes, start: int, delimiter: bytes, width: int, wanted: Sequence[int]
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Of each line that follows the cells that are wanted, for as long as it has as many as the first; and its end.

    If the first line is empty, so may be others.
    """
    may_be_empty = _EMPTY_LINE.match(data, start)
    while start < len(data):
        if may_be_empty and (empty := _EMPTY_LINE.match(data, start)):
            start = empty.end()
            continue
        end = data.find(b"\n", start, start + _LONGEST_ROW)
        if end < 0:
            if len(data) - start > _LONGEST_ROW:
                return
            end = len(data)
        line = data[start:end]
        if b'"' not in line:
            cells = line.split(delimiter)
            if len(cells) == width and not _RULE_OF_TABLE.fullmatch(line):
                yield (
                    end + 1,
                    [_bare(data, at := start + sum(map(len, cells[:n])) + n, at + len(cells[n])) for n in wanted],
                )
            elif not _RULE_OF_TABLE.fullmatch(line):
                return
        elif not _RULE_OF_TABLE.fullmatch(line):
            last = _end_of_cells(data, start, end, delimiter)
            if len(spans := _fields(data, start, last, delimiter)) == width:
                end = last
            elif last == end or len(spans := _fields(data, start, end, delimiter)) != width:
                return
            yield end + 1, [spans[n] for n in wanted]
        start = end + 1


def _end_of_cells(data: bytes, start: int, end: int, delimiter: bytes) -> int:
    """Where a row ends: behind the line in which each cell in quotes is closed."""
    last = end
    quotes = (
        data.count(b'"', start, end) if data[start:end].startswith(b'"') or delimiter + b'"' in data[start:end] else 0
    )
    while quotes % 2:
        line, last = last, data.find(b"\n", last + 1, start + _LONGEST_ROW)
        if last < 0:
            return end
        quotes += data.count(b'"', line, last)
    return last


def _plain_name(name: bytes) -> bytes:
    return name.translate(None, b'"`[]').lower()


def _in_values(
    data: bytes, at: int, secret: Container[int], starts: Sequence[int], following: int, depth: int
) -> tuple[list[Finding], int]:
    """What is found there, and where it ends: at the latest where the next statement begins outside of a text.

    `depth` is of brackets: the values of a SELECT have none around, and end with them.
    """
    index = 0
    found: list[Finding] = []
    while at < starts[following] and (match := _SQL_VALUE.match(data, at)) is not None:
        at = match.end()
        while at > starts[following]:
            following += 1
        sign, text = match[1], match[match.lastindex] if match.lastindex else b""
        if sign == b"(":
            depth += 1
            index = 0 if depth == 1 else index
        elif sign == b")":
            depth -= 1
        elif sign:
            index += depth == 1
        elif depth <= 0 or (depth == 1 and match[0].strip().lower() == b"from"):
            break
        elif depth == 1 and index in secret and len(text) >= _SHORTEST_CELL and not _NO_SECRET.fullmatch(text):
            found.append((*match.span(match.lastindex or 0), "Secret Keyword"))
    return found, at


def _of_entry(entry: re.Match[bytes], at: int) -> Iterator[Finding]:
    """What is under a name of its own, within a name of a secret, or in a list."""
    name, start, end = (entry[1] or b"").decode("latin-1"), *entry.span(entry.lastindex or 0)
    value = entry[entry.lastindex or 0] if entry.lastindex and entry.lastindex > 1 else b""
    if len(value) < _SHORTEST_CELL or is_about(name) or _NO_SECRET.fullmatch(value):
        return
    is_it = is_value(name) and (is_no_word(value) or entry[4] is None)
    if is_it or (len(value) >= _SHORTEST_BARE and is_no_word(value) and _is_made_up(value)):
        yield at + start, at + end, "Secret Keyword"


def _indent(data: bytes, start: int) -> int:
    blanks = _INDENT.match(data, start)
    return blanks.end() - start if blanks else 0


def _is_bare_secret(value: bytes) -> bool:
    """A word that is none of a language."""
    return len(value) >= _SHORTEST_BARE and is_no_word(value) and not _WORDS_AROUND.search(value)


def _of_kubernetes(data: bytes) -> Iterator[Finding]:
    """All that a Secret in YAML holds, under whatever name and in whatever form."""
    if b"kind:" not in data:
        return
    done: dict[int, int] = {}  # by its column, up to where it was looked at
    for kind in _SECRET_OF_KUBERNETES.finditer(data):
        column = len(kind[1])
        if column <= _DEEPEST_KIND and kind.start() >= done.get(column, 0):
            start, done[column] = _fellows(data, kind.start(), column)
            for held in _HELD.finditer(data, start, done[column]):
                if len(held[1]) == column:
                    yield from _held(data, held.start(2), done[column], column)


def _fellows(data: bytes, at: int, column: int) -> tuple[int, int]:
    """The lines around `at` that belong to the same mapping: those that begin in its column or behind it."""
    start = at
    while start > 0 and not data[start : start + column].strip():  # else it begins with the sign of a list
        above = data.rfind(b"\n", 0, start - 1) + 1
        line = data[above : start - 1]
        if line.strip() and (line.startswith(b"---") or len(line) - len(line.lstrip(b" -")) < column):
            break
        start = above
    end = data.find(b"\n", at) + 1 or len(data)
    while end < len(data):
        newline = data.find(b"\n", end) + 1 or len(data)
        line = data[end:newline]
        if line.strip() and (line.startswith(b"---") or len(line) - len(line.lstrip(b" ")) < column):
            break
        end = newline
    return start, end


def _held(data: bytes, at: int, end: int, column: int) -> Iterator[Finding]:
    """The values of the mapping that begins at `at`: on its line, or on those that are further in."""
    newline = data.find(b"\n", at, end)
    for value in _IN_BRACES.finditer(data, at, newline if newline >= 0 else end):
        yield from _trimmed(data, *value.span(1), "Secret of Kubernetes")
    entries = -1  # their column
    while 0 <= newline < end - 1:
        at, newline = newline + 1, data.find(b"\n", newline + 1, end)
        line = data[at : newline if newline >= 0 else end]
        inward = len(line) - len(line.lstrip(b" "))
        if not line.strip():
            continue
        if inward <= column:
            return
        entries = inward if entries < 0 else entries
        name = _NAMED_VALUE.match(line) if inward <= entries else None
        value = line[name.end() if name else inward :].strip()
        first = at + line.rindex(value)
        if value and not (name and _BLOCK.fullmatch(value)) and not _NO_SECRET.fullmatch(value):
            is_quoted = len(value) > 1 and value[:1] in b"\"'" and value[-1:] == value[:1]
            yield first + is_quoted, first + len(value) - is_quoted, "Secret of Kubernetes"


@functools.cache
def shared_rules() -> Rules:
    """The same for every session: they remember nothing, and to make them takes longer than to open a session."""
    return Rules()


def _compiled(pattern: str) -> "re2._Regexp":  # pyright: ignore[reportPrivateUsage]
    return re2.compile(f"(?m){pattern}".encode(), _options())


def _any_of(regexes: "Iterable[re2._Regexp]") -> re2.Set:  # pyright: ignore[reportPrivateUsage]
    found = re2.Set.SearchSet(_options())
    for one in regexes:
        found.Add(one.pattern)
    found.Compile()
    return found


def _spans(regex: "re2._Regexp", data: bytes) -> Iterator[list[tuple[int, int]]]:  # pyright: ignore[reportPrivateUsage]
    """Of each match and its groups."""
    try:
        match, anchor = cast("Any", regex)._regexp.Match, cast("Any", re2)._Anchor.UNANCHORED
    except AttributeError:  # the package keeps them to itself; its own objects take as long again as the search
        groups = range(regex.groups + 1)
        places = ([found.span(group) for group in groups] for found in regex.finditer(data))
        while (spans := _in_re2(lambda: next(places, None))) is not None:
            yield spans
        return
    at, end = 0, len(data)
    some = cycle(range(_LOOK_EVERY))
    while at <= end and (spans := _in_re2(match, anchor, data, at, end))[0][0] >= 0:
        if not next(some):
            deadline.check()
        yield spans
        at = spans[0][1] + (spans[0][1] == at)


_LOOK_EVERY = 256  # matches


# RE2 lets go of the interpreter while it searches. A daemon thread that comes back while Python ends is ended there, in
# the middle of C++ that allows no such thing, and the process aborts. So at the end no thread but the main one goes in
# any more, and those that are inside are waited for.
_inside: set[int] = set()  # threads
_ends = threading.Event()
_PATIENCE = 5.0  # seconds, for one search


def _in_re2(search: Callable[..., Answer], *given: Any) -> Answer:
    me = threading.get_ident()
    _inside.add(me)
    try:
        if _ends.is_set() and threading.current_thread() is not threading.main_thread():
            raise OutOfTime(0)
        return search(*given)
    finally:
        _inside.discard(me)


@atexit.register
def _let_out() -> None:
    _ends.set()
    latest = time.monotonic() + _PATIENCE
    while _inside.intersection(one.ident for one in threading.enumerate()) and time.monotonic() < latest:
        time.sleep(0.005)


def _options(*, longest: bool = False) -> re2.Options:
    options = re2.Options()
    options.longest_match = longest
    options.encoding = re2.Options.Encoding.LATIN1
    options.log_errors = False
    options.max_mem = 64 * 1024 * 1024
    return options


def _closes(data: bytes, start: int, end: int) -> bool:
    """Whether a quote behind a name ends a string of JSON that ends in that name, as labels do: `"Password:"}`."""
    if data[start:end] != b'"' or not _AFTER_STRING.match(data, end):
        return False
    begin = data.rfind(b"\n", max(0, start - _LONGEST_KEY), start) + 1
    if not begin and start > _LONGEST_KEY:
        return False  # nobody knows how many are open: a mask too many
    return (data.count(b'"', begin, start) - data.count(b'\\"', begin, start)) % 2 == 1


def _closing(data: bytes, start: int, opener: bytes) -> int:
    """Where a value ends that begins after `opener`: a quote with as many backslashes before it as that has."""
    quote, escapes = opener[-1:], len(opener) - 1
    limit = min(len(data), start + _LONGEST_VALUE)
    for found in _CLOSING.finditer(data, start, limit):
        if found[2] == quote and len(found[1]) <= escapes:
            barrier = data.find(BARRIER, start, found.start())
            return barrier if barrier >= 0 else found.start()
    newline = data.find(b"\n", start, limit)
    rest = _GOES_ON.match(data, limit)
    return newline if newline >= 0 else rest.end() if rest else limit


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
