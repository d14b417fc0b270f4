"""What differs from run to run, by name: handles, tags, ids, times, durations, folders. All else is compared as it is.

A value gets the same name each time that it occurs, so that a text which confuses two handles still differs.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

UNKNOWN = "zzzz"  # a handle that the tests ask for and that nobody has
_UUID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_NONCE = re.compile(r"\b[0-9a-f]{32}\b")
_HANDLE = r"[bcdfghjkmnpqrstvwxyz][bcdfghjkmnpqrstvwxyz2-9]{3,11}"
# Where a handle is told for the first time.
_LEARNED = re.compile(
    rf'(?:handle: |\\?"handle\\?": ?\\?"|"seen": {{"|ContextRef: {{\\?"id\\?": \\?"|kept as |kept (?=\S+ ·)|answer (?=\S+ ·)|\bas |\bof (?=\S+ \()|'
    rf"\(id: (?:<mark>-)?|\bID: (?:<mark>-)?|<(?:<mark>-)?(?=\S+:\d{{6}}>))({_HANDLE})\b"
)
# The mark of a session: in brackets, or before a handle in the dialect whose texts have no other place for it.
_MARK = re.compile(r"\[[bcdfghjkmnpqrstvwxyz][bcdfghjkmnpqrstvwxyz2-9]{4}\]")
_MARK_BEFORE = re.compile(rf"(?<![A-Za-z0-9-])[bcdfghjkmnpqrstvwxyz][bcdfghjkmnpqrstvwxyz2-9]{{4}}-(?={_HANDLE}\b|;)")
_MARK_OF_SESSION = re.compile(r"\bsession-[0-9a-f]{8}(?![0-9a-f-])")
# On a line of its own, as text or as JSON: a message of syslog begins with `<165>`. Older ones have six digits, and a handle.
_TAG = re.compile(r"(?m)((?:(?:^|n)(?:<|\\+u003c))/?(?:<(?:handle|uuid)-\d+>:)?)\d{3,}(?=(?:>|\\+u003e)(?:\\|\"|$))")
_CLOSING_TAG = re.compile(r"(</?[a-z]+-)[0-9a-f]{8}(?=>)")
_WRAPPER = re.compile(r"(ai-agent-)[0-9a-f]{8,}(-FINAL)")
_TIMES = re.compile(
    r'("(?:created|ended|at|(?:run_)?seconds|last|began|started)": ?)-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?=[,}\]\s])'
)
_REMOVED = re.compile(r"(removed on )\d{4}-\d\d-\d\d\b")  # today
_DISK = re.compile(r'("disk_bytes": )\d+')  # events and records have times in them, which differ in length
_SECONDS = re.compile(r"\b\d+(?:\.\d+)? ?s\b(?!\w)")
_MILLISECONDS = re.compile(r"\b\d+ ms\b(?= ·| took|$)", re.MULTILINE)


@dataclass
class Normal:
    """`places` are texts of this machine, as folders, with the names that stand for them."""

    places: Mapping[str, str] = field(default_factory=dict[str, str])
    times: bool = True  # name them, as `"at": 1770000000`; not where the samples have such of their own
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _counts: dict[str, int] = field(default_factory=dict[str, int])

    def learn(self, handle: str) -> None:
        self._name("handle", handle)

    def __call__(self, text: str, *, durations: bool = False) -> str:
        """`durations` for texts that tell how long something took; the samples have such words of their own."""
        for place in sorted(self.places, key=len, reverse=True):
            text = text.replace(place, self.places[place])
        text = _MARK_BEFORE.sub("<mark>-", _MARK.sub("[<mark>]", text))
        text = _MARK_OF_SESSION.sub("session-<mark>", text)
        text = _UUID.sub(lambda found: self._name("uuid", found[0]), text)
        text = _NONCE.sub(lambda found: self._name("nonce", found[0]), text)
        for found in _LEARNED.finditer(text):
            if found[1] != UNKNOWN:
                self.learn(found[1])
        for value, name in self._names.items():
            if name.startswith("<handle"):
                text = re.sub(rf"(?:(?<![A-Za-z0-9])|(?<=\\n)|(?<=\\u003c)){value}(?![A-Za-z0-9])", name, text)
        text = _TAG.sub(r"\1<tag>", text)
        text = _CLOSING_TAG.sub(r"\1<tag>", text)
        text = _WRAPPER.sub(r"\1<nonce>\2", text)
        text = _TIMES.sub(r"\1<time>", text) if self.times else text
        text = _DISK.sub(r"\1<bytes>", _REMOVED.sub(r"\1<date>", text))
        if durations:
            text = _MILLISECONDS.sub("<time>", _SECONDS.sub("<time>", text))
        return text

    def _name(self, kind: str, value: str) -> str:
        if value not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[value] = f"<{kind}-{self._counts[kind]}>"
        return self._names[value]
