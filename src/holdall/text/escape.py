"""Text from outside where it can do no harm: control, bidirectional and tag characters as escapes, on one line.

For terminals, pages and logs, and for the sentences that a model reads outside of a fence. Never for what is stored,
piped, or shown to a model inside of a fence.
"""

import json
import re
from collections.abc import Iterable

from holdall.values.patterns import lazy_pattern

# C0 and C1 controls but tab and newline; bidirectional controls; zero-width and invisible operators; fillers; line and
# paragraph separators; interlinear marks; tags; variation selectors; a lone surrogate. Each can hide or reorder what a
# person reads. The two selectors that choose how an emoji looks stay, unless they follow another one.
_SELECTED = "(?<=[\ufe00-\ufe0f\U000e0100-\U000e01ef])[\ufe0e\ufe0f]"
_UNSAFE = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff"
    f"\u070f\U00013430-\U0001343f\U00013441\U00013442\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a]|{_SELECTED}"
)
# Of these the ones that no script needs: what is written with them is not meant to be seen.
_HIDDEN = lazy_pattern(f"[\u200b\u202a-\u202e\u2060-\u2064\u2066-\u206f\ufe00-\ufe0d\U000e0000-\U000e0fff]|{_SELECTED}")


_WORD = lazy_pattern(r"[\w.$-]{1,40}")
_BARE = lazy_pattern(r"[\w./:=@%+,-]+", re.ASCII)
_NAME = lazy_pattern(r"[\w.$:/@+()\[\]…-]+")
_PASSWORD = lazy_pattern(
    r"""(?i)(?<=://)([^\s/?#:@"'<>]{0,200}):[^\s/?#"'<>]{1,1000}@|([?&][\w-]{0,40}(?:password|passwd|secret|token|key)=)[^\s&#"'<>]+"""
)
_ROOM_FOR_WORDS, _ROOM_FOR_OTHERS = 400, 120  # signs


def for_people(text: str) -> str:
    """`text` with every unsafe character as a visible escape; tabs and newlines stay."""
    return _UNSAFE.sub(_escape, text)


def without_passwords(text: str) -> str:
    """The same with the passwords of its URLs as `…`, and what the queries of these name as a key or a token."""
    return _PASSWORD.sub(lambda found: f"{found[2]}…" if found[2] else f"{found[1]}:…@", text)


def hidden_in(text: str) -> int:
    """How many characters of it a person does not see, and no script needs."""
    return 0 if text.isascii() else sum(1 for _ in _HIDDEN.finditer(text))


def one_line(text: str, limit: int = 200) -> str:
    """The same on a single line, for tables and logs: newlines and tabs are escaped too, long text ends in `…`.

    It looks no further than it shows: a name may have megabytes.
    """
    flat = for_people(text[: limit + 1]).replace("\n", "\\n").replace("\t", "\\t")
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def on_one_line(text: str) -> str:
    """All of it."""
    return for_people(text).replace("\n", "\\n").replace("\t", "\\t")


UNREAD, AS_TOLD = " could not be read: ", " kept only as str(): "
"""In the notes of an output that was an object of a tool's own."""


OTHER_FIELDS = "other fields of the result"  # also as the media type of a note
_BESIDE_IT = lazy_pattern(
    rf"{OTHER_FIELDS} (?:are kept by themselves; handle: [\w/.-]{{1,90}}|are not kept: [ -~]{{1,200}}|"
    r"are kept only here: \{[ -~]{0,60}\})"
)


def beside_it(notes: Iterable[str]) -> list[str]:
    """What a result said beside its text, for a sentence of ours. Only in the form in which we write it: notes may have
    come with a bundle."""
    told = [note.partition(" are not kept: ") for note in notes if _BESIDE_IT.fullmatch(note)][:1]
    return [f"{head}{reason}{foreign(rest)}" for head, reason, rest in told]


LONGEST_REASON = 61  # characters: the reasons that we write ourselves fit
_LONGEST_WORD = 20


def reason_in(error: str) -> str:
    """How a call failed, as `foreign` tells it; one that is cut ends with a word, unless that is a long one."""
    reason = foreign(error, LONGEST_REASON)
    words = reason.rpartition(" ")[0].rstrip(" ,;:")
    is_cut = reason.endswith("…") and len(reason) == LONGEST_REASON
    return f"{words} …" if is_cut and len(reason) - len(words) <= _LONGEST_WORD else reason


def state_and_reason(state: str, error: str) -> str:
    """How a call ended; once, where the reason begins with the state (`timed out after 2s`)."""
    reason = reason_in(error)
    return reason if reason.startswith(state) else f"{state}: {reason}" if reason else state


def ended_as(state: str, error: str) -> list[str]:
    """What an answer from the output of a call says of it that did not end well; nothing of others."""
    return [] if state in ("ready", "running", "queued") else [state_and_reason(state, error)]


def foreign(text: str, limit: int = 60) -> str:
    """Text that we did not write, inside a sentence of ours that a model reads outside of a fence.

    Names of tools, servers, columns and keys, cells, media types, errors of others, arguments of a model: on one line,
    so that none of it can look like a notice, a handle or a next step, and short, so that the sentence stays ours.
    """
    shown = text[: limit + 1]
    if not shown.isascii():
        shown = for_people(shown)
    if not shown.isprintable():
        shown = "".join([sign if sign.isprintable() else _escaped(sign) for sign in shown])
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def foreign_names(names: Iterable[str], *, words: int = _ROOM_FOR_WORDS) -> list[str]:
    """Those of several names that may stand in one such sentence, unchanged.

    One behind the other they could be a text of their own, so there is little room for what is no single word.
    """
    room = {True: words, False: _ROOM_FOR_OTHERS}
    shown: list[str] = []
    for name in names:
        is_word = _WORD.fullmatch(name) is not None
        room[is_word] -= len(foreign(name))
        if room[is_word] >= 0:
            shown.append(name)
    return shown


def told_names(names: Iterable[str], most: int = 10, *, words: int = _ROOM_FOR_WORDS) -> str:
    """The first of them, as they stand in such a sentence."""
    return ", ".join(map(foreign, foreign_names(names, words=words)[:most]))


def named(value: object, limit: int = 60) -> str:
    """A name that we did not choose among words of ours: as it is if it is one word, else in quotes."""
    text = foreign(str(value), limit)
    return text if not text or _NAME.fullmatch(text) else f'"{text}"'


def quoted(text: str) -> str:
    """As JSON writes it, in quotes, with the escapes of JSON for what is unsafe too: an argument of a call to copy."""
    return _UNSAFE.sub(lambda found: json.dumps(found[0])[1:-1], json.dumps(text, ensure_ascii=False))


def as_written(text: str) -> tuple[str, ...]:
    """The forms that a text may have where somebody looks for it: as it is, and as it stands in a string of JSON."""
    return tuple(dict.fromkeys((text, json.dumps(text, ensure_ascii=False)[1:-1])))


def shell_quoted(text: str) -> str:
    """One word of a command line. What cannot be seen must not be in it: a shell takes no escapes in quotes."""
    if _BARE.fullmatch(text):
        return text
    if "'" in text and not set(text) & set('"$`\\!'):
        return f'"{text}"'
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _escape(match: re.Match[str]) -> str:
    return _escaped(match[0])


def _escaped(sign: str) -> str:
    if sign in "\n\t":
        return "\\n" if sign == "\n" else "\\t"
    code = ord(sign)
    if code < 0x80:  # above, that would be a byte
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
