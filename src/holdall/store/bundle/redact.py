"""Masks the secrets of a session while it is exported, so that what is left fits together.

A mask has as many bytes as what it hides, so every range and every line stays true. Where bytes of an output are
masked its hash changes, and with it every place that names the hash: records, notes, logs. So nobody can find a masked
secret by trying which one gives the old hash. What is a secret in one place is one everywhere: all is read once before,
and each value that was found is masked wherever it stands. This module changes nothing in the store, and keeps no
secret after the export.
"""

import base64
import contextlib
import html
import importlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, get_args
from urllib.parse import quote, quote_plus, unquote_to_bytes

from holdall.formats import shapes
from holdall.store.records import resealed, whole_lines
from holdall.text.secrets import (
    FOUND_BEFORE,
    HERE_ONLY,
    NUMBER,
    Find,
    Finding,
    Masker,
    is_no_word,
    json_findings,
    masked,
    merged,
)
from holdall.values.bundles import Bundle, Mask
from holdall.values.errors import MissingExtra, StoreFault
from holdall.values.events import EVENT_KINDS
from holdall.values.extraction import Strategy
from holdall.values.outputs import Facts, State
from holdall.values.patterns import lazy_pattern

_PLACES = 1000  # that are told to anyone who exports; the bundle has all of them
_FIELDS = ("tool", "server", "arguments", "call_id", "traceback", "error", "notes")
_SHORTEST, _LONGEST = 8, 16 * 1024  # of a value that is masked wherever it stands
_MOST_BYTES = 4 * 1024 * 1024  # of such values in one export, or one session
_KEY_PART = lazy_pattern(rb"[A-Za-z0-9+/=]{8,}+(?!:)")
_OF_COOKIES = frozenset((b"expires", b"path", b"domain", b"max-age", b"samesite", b"secure", b"httponly", b"priority"))
# A log without these words could not be read any more; whoever has one for a password has none.
_OUR_WORDS = frozenset(
    one.encode() for one in ("assistant", *EVENT_KINDS, *get_args(State), *get_args(Strategy)) if len(one) >= _SHORTEST
)
_ESCAPE = lazy_pattern(rb"%[0-9A-F]{2}")
# A sign in a string of a shell, of SQL, of YAML and others.
_SIGN_OF_PATTERN = lazy_pattern(r"[\\.^$*+?{}\[\]|()]")
_QUOTED_SIGN, _NO_WORD_OF_SHELL = lazy_pattern(rb"'\"'\"'|'\\''|''|\"\"|\\(\W)"), lazy_pattern(r"[^\w@%+=:,./-]")
_HASH = lazy_pattern(rb"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


class Rules(Protocol):
    """What is taken for a secret."""

    def find(self, data: bytes) -> list[Finding]: ...

    def is_secret(self, name: str) -> bool: ...

    def literal(self, values: Iterable[bytes]) -> Find: ...


# Behind it words, not only numbers in it: a date is none.
_FIRST_WORD = lazy_pattern(rb"(?![\d:./-]+(?:[\s|]|\Z))([^\s|]+)(?:\s|\|)")


class Values:
    """What was found to be secret, as it may stand elsewhere: whole, a key line by line, a cookie value by value.

    It has an end, whatever was found: what does not fit is `left_out`.
    """

    def __init__(self) -> None:
        self.found: set[bytes] = set()
        self.left_out = 0
        self._known: set[bytes] = set()  # as they came
        self._bytes = 0

    def add(self, secret: bytes, kind: str) -> list[bytes]:
        """What is new of it."""
        if kind == HERE_ONLY:
            return []
        if kind == "Private Key":
            lines = secret.replace(b"\\n", b"\n").replace(b"\\r", b"\n")  # as JSON writes them
            parts = [one[0] for one in _KEY_PART.finditer(lines)]
        elif kind == "Cookie":
            parts = [
                value.strip(b' "')
                for name, _, value in (one.partition(b"=") for one in secret.split(b";"))
                if name.strip().lower() not in _OF_COOKIES
            ]
        else:
            parts = secret.splitlines() if b"\n" in secret else [secret]
            # Of what goes on behind a blank on its line, the first word may be all of the secret.
            firsts = [_FIRST_WORD.match(part.strip()) for part in parts]
            parts += [first[1] for first in firsts if first and is_no_word(first[1])]
        return [form for part in parts for form in self._one(part.strip())]

    def _one(self, value: bytes) -> set[bytes]:
        if len(value) < _SHORTEST or len(value) > _LONGEST or value in _OUR_WORDS or len(set(value)) == 1:
            return set()
        if value in self._known or _FENCE.search(value):
            return set()
        if self._bytes + len(value) > _MOST_BYTES:  # before its spellings are made: they take far longer than this
            self.left_out += 1
            return set()
        # As it came, as it reads, and as either stands in JSON, in an address and in base64.
        plain = {value} if value.isalnum() else {value, unquote_to_bytes(value), _unescaped(value)}
        forms = {form for one in plain for form in (one, *_written(one)) if len(form) >= _SHORTEST} - self.found
        size = sum(map(len, forms))
        if self._bytes + size > _MOST_BYTES:
            self.left_out += 1
            return set()
        self._bytes += size
        self._known.add(value)
        self.found |= forms
        return forms


def _written(value: bytes) -> Iterator[bytes]:
    """A value in other spellings."""
    for before in range(3):  # base64 has another spelling for each place in a group of three; its ends depend on others
        packed = base64.b64encode(b"\0" * before + value).rstrip(b"=")
        yield packed[(0, 2, 3)[before] : len(packed) - ((before + len(value)) % 3 != 0)]
    if value.isalnum():  # all else writes it as it is
        return
    text = value.decode("utf-8", "replace")
    for ascii_only in (True, False):
        in_json = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode()
        yield from (in_json, in_json.replace(b"/", b"\\/"))
    for in_address in {quote(value, safe="").encode(), quote(value).encode(), quote_plus(value).encode()}:
        yield in_address
        yield _ESCAPE.sub(lambda found: found[0].lower(), in_address)
    in_markup = [html.escape(text, quote=quotes) for quotes in (True, False)]
    in_code = [text.replace('"', '""'), text.replace("'", "''"), text.replace("'", "\\'"), repr(text)[1:-1]]
    in_code += [text.replace("'", "'\"'\"'"), text.replace("'", "'\\''"), _NO_WORD_OF_SHELL.sub(r"\\\g<0>", text)]
    in_code.append(json.dumps(json.dumps(text)[1:-1])[1:-1])
    in_patterns = [_SIGN_OF_PATTERN.sub(r"\\\g<0>", text), _SIGN_OF_PATTERN.sub(r"[\g<0>]", text)]
    in_code += [*in_patterns, *(json.dumps(one)[1:-1] for one in in_patterns)]
    others = [in_markup[0].replace("&#x27;", one) for one in ("&#39;", "&apos;")] if "'" in text else []
    yield from (one.encode("utf-8", "replace") for one in (*in_markup, *others, *in_code))


def _unescaped(value: bytes) -> bytes:
    """A value that was found in JSON, or else in a shell or a statement, as it reads."""
    with contextlib.suppress(ValueError):
        if (read := str(json.loads(b'"' + value + b'"')).encode("utf-8", "replace")) != value:
            return read
    return _QUOTED_SIGN.sub(lambda sign: sign[1] or sign[0][:1], value)


def usual_rules() -> Rules:
    try:
        rules: Rules = importlib.import_module("holdall.store.bundle.rules").shared_rules()
    except ModuleNotFoundError as problem:
        packages = {"detect_secrets": "detect-secrets", "re2": "google-re2"}
        package = packages.get((problem.name or "").partition(".")[0])
        if package is None:
            raise
        raise MissingExtra(package, "redact", "masking secrets") from problem
    return rules


def _as_in_shapes(value: bytes) -> Iterator[bytes]:
    """As a notice has it that tells the shapes of lines: numbers are not told, and what is left can be guessed."""
    text = value.decode("utf-8", "replace")
    for before, behind in _AROUND:  # what stands beside it may decide what is taken for a number
        shape = shapes.masked(f"{before}{text}{behind}").removeprefix(before).removesuffix(behind)
        told = "".join(re.findall(r"[A-Za-z]+", re.sub(r"<[a-z]+>", "", shape)))
        if shape != text and len(told) >= _TELLING:
            yield shape.encode()


def _beginnings(rules: Rules, values: Iterable[bytes]) -> Find:
    """Finds those that are cut off, as notices cut what is long: at least eight bytes, and the sign for that behind."""
    known: dict[bytes, list[bytes]] = {}
    for value in values:
        if len(value) > _BEGINNING:
            known.setdefault(value[:_BEGINNING], []).append(value)
    if not known:
        return lambda _: []
    literal = rules.literal(known)

    def find(data: bytes) -> list[Finding]:
        found: list[Finding] = []
        for start, end, kind in literal(data):
            for value in known.get(data[start:end], ()):
                length = _shared(value, data[start : start + len(value)])
                if data.startswith(_CUT_OFF, start + length):
                    found.append((start, start + length, kind))
        return found

    return find


def _pieces(values: Iterable[bytes], ours: bytes) -> Find:
    """Finds ten bytes and more of one: answers begin and end where a model said, and show what it searched for."""
    # Each place is looked up by itself, and not searched for together: of matches that overlap a search gives one, and
    # a chance match with another spelling would hide the piece that begins behind it.
    known = {value[at : at + _PIECE] for value in values for at in range(len(value) - _PIECE + 1)}

    def find(data: bytes) -> list[Finding]:
        runs: list[tuple[int, int]] = []
        for at in [at for at in range(len(data) - _PIECE + 1) if data[at : at + _PIECE] in known]:
            if runs and at <= runs[-1][1]:
                runs[-1] = runs[-1][0], at + _PIECE
            else:
                runs.append((at, at + _PIECE))
        told = (run for run in runs if data[slice(*run)] not in ours and not _SNAKE.fullmatch(data, *run))
        return [(*run, FOUND_BEFORE) for run in told]

    return find if known else lambda _: []


def _in_hex(find: Find) -> Find:
    """Finds the same in bytes as our answers write those that are no text: pairs of digits, line by line."""

    def found_in(data: bytes) -> list[Finding]:
        found: list[Finding] = []
        for dump in _DUMP.finditer(data):
            places = [
                at
                for line in _DUMP_LINE.finditer(data, *dump.span())
                for group in _DIGITS.finditer(data, *line.span(1))
                for at in range(group.start(), group.end(), 2)
            ]
            written = bytes(int(data[at : at + 2], 16) for at in places)
            for start, end, kind in find(written):
                begin = places[start]
                for at, following in zip(places[start:end], [*places[start + 1 : end], -1], strict=True):
                    if following - at not in (2, 3):  # the offset of the next line stands between them
                        found.append((begin, at + 2, kind))
                        begin = following
        return found

    return found_in


def _shared(one: bytes, other: bytes) -> int:
    """How far both begin alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


_DUMP = lazy_pattern(
    rb"(?:\b[0-9a-f]{8}  )?(?:[0-9a-f]{2}){1,4}+(?: (?:[0-9a-f]{2}){1,4}+)++\b"
    rb"(?:(?:\\n|\n)[0-9a-f]{8}  (?:[0-9a-f]{2}){1,4}+(?: (?:[0-9a-f]{2}){1,4}+)*+\b)*+"
)
_DUMP_LINE = lazy_pattern(rb"(?:[0-9a-f]{8}  )?((?:[0-9a-f]{2}){1,4}+(?: (?:[0-9a-f]{2}){1,4}+)*+)")
_DIGITS = lazy_pattern(rb"[0-9a-f]++")
_PIECE = 10
_SNAKE = lazy_pattern(rb"[a-z]{1,20}+(?:_[a-z]{1,20}+){1,5}")  # names of tools, ours among them
# Behind a quote left open. A fence of an older version has the handle in it.
_FENCE = lazy_pattern(rb"</?(?:[a-z0-9/-]{4,90}+:)?[0-9]{6,}>|\bNext: \w+\(")
_BEGINNING = 8
_CUT_OFF = ("…".encode(), b"\\u2026")
_AROUND = (("", ""), ("p=", ""), ('p="', '"'), ("p='", "'"), ("p: ", ""), ("p:", ","), ("//u:", "@h"), ("(", ")"))
_TELLING = 4  # letters


class Redactor:
    """For one export. Sessions come one after the other, each with its outputs before all else."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._find: Find = rules.find
        self._find_told: Find = rules.find  # in what was said of outputs, and in what was answered from them
        self._values: Values | None = Values()  # until all was read once
        self.counts: Counter[str] = Counter()
        self.places: list[Mask] = []
        self._lines_of_masks: list[bytes] = []
        self._hashes: dict[bytes, bytes] = {}  # of contents that were masked: as it was, as it is
        self._last = 0  # masks in the bytes that passed by last

    # Reading it once before

    def learn(self, chunks: Iterable[bytes]) -> Iterator[None]:
        """From the bytes of an output, step by step."""
        for _ in Masker(self._rules.find, self._seen).stream(chunks):
            yield

    def learn_json(self, data: bytes) -> None:
        json_findings(data, self._rules.find, self._rules.is_secret, self._seen)
        if not _is_json(data):
            for _ in self.learn([data]):
                pass

    def learn_facts(self, facts: Facts) -> None:
        self.learn_json(_told(facts))

    def learned(self, ours: Iterable[str]) -> None:
        """All was read. `ours` are names without which the parts do not find each other: ids, handles, hashes."""
        names = {one.encode("utf-8", "surrogatepass") for one in ours}  # a name may have half a character
        values = self._known.found - names
        self._values = None
        if values:
            values |= {shape for one in values for shape in _as_in_shapes(one)}
            literal, find, cut_off = self._rules.literal(values), self._rules.find, _beginnings(self._rules, values)
            pieces = _pieces(values, b"\n".join(names))
            self._find = lambda data: [*find(data), *literal(data), *cut_off(data)]
            in_hex = _in_hex(lambda data: [*literal(data), *pieces(data)])
            self._find_told = lambda data: [*find(data), *literal(data), *cut_off(data), *pieces(data), *in_hex(data)]

    def _seen(self, secret: bytes, kind: str) -> None:
        self._known.add(secret, kind)
        if self._known.left_out:
            raise StoreFault(
                f"what looks like secrets here is more than {_MOST_BYTES:,} bytes: too much to mask it "
                "everywhere. Export a smaller session, or this one without redaction."
            )

    @property
    def _known(self) -> Values:
        if self._values is None:
            raise AssertionError("it masks already")
        return self._values

    def contents(self, bundle: Bundle) -> Bundle:
        """The list of what is in the bundle, with the names that its sessions have from here on."""
        named: dict[str, str] = {}
        for one in bundle.sessions:
            data = one.name.encode("utf-8", "surrogatepass")
            new = masked(data, merged(self._find(data))).decode("utf-8", "replace")
            named[one.id] = f"{new}-{len(named)}" if new in named.values() else new
        return replace(bundle, sessions=tuple(replace(one, name=named[one.id]) for one in bundle.sessions))

    def begin(self) -> None:
        """Another session."""
        self._lines_of_masks.clear()

    def list(self) -> bytes:
        """Where something was masked in this session, one JSON object a line."""
        return b"".join(self._lines_of_masks)

    # Outputs

    def stream(self, chunks: Iterable[bytes], file: str, handle: str) -> Iterator[bytes]:
        masker = Masker(self._find)
        yield from masker.stream(chunks)
        self._last = len(masker.findings)
        self._note(masker.findings, file, handle)

    def masked(self, before: str, after: str) -> int:
        """How much was masked in the bytes that just passed by. Their hash is another one from here on."""
        if self._last and before and before != after:
            self._hashes[before.encode("ascii")] = after.encode("ascii")
        return self._last

    def facts(self, facts: Facts) -> Facts:
        """Its arguments, its error and so on; what it measures was measured again already."""
        known = self._hashes.get(facts.measure.sha256.encode("ascii", "replace"))
        if known is not None:  # a tombstone of what was masked elsewhere
            facts = replace(facts, measure=replace(facts.measure, sha256=known.decode("ascii")))
        told = _told(facts)
        data = self._changed(told, f"{facts.handle}.record", facts.handle)
        if data == told:
            return facts
        changed: dict[str, Any] = json.loads(data)
        origin = {name: changed[name] for name in ("tool", "server", "arguments", "call_id", "traceback")}
        return replace(
            facts,
            origin=replace(facts.origin, **origin),
            measure=replace(facts.measure, notes=tuple(changed["notes"])),
            error=changed["error"],
        )

    # Files of JSON

    def json(self, data: bytes, file: str) -> bytes:
        return self._changed(data, file)

    def lines(self, chunks: Iterable[bytes], file: str, version: int) -> Iterator[bytes]:
        """Line by line, as many bytes as came. Notes the place of each mask in the whole file."""
        at = 0
        for line in whole_lines(chunks):
            yield resealed(line, partial(self._changed, file=file, at=at), version)
            at += len(line)

    def renamed(self, note: str) -> str:
        """The name of a note about a content that was masked."""
        content, _, key = note.partition("-")
        return f"{self._hashes.get(content.encode('ascii'), content.encode('ascii')).decode('ascii')}-{key}"

    # Inside

    def _changed(self, data: bytes, file: str, handle: str = "", *, at: int = 0) -> bytes:
        found = json_findings(data, self._find_told, self._rules.is_secret)
        if not _is_json(data):  # what a server said of its call, or half a line
            found = merged([*found, *self._find_told(data)])
        self._note(found, file, handle, at=at)
        data = masked(data, found, {start for start, _, kind in found if kind == NUMBER})
        return _HASH.sub(lambda match: self._hashes.get(match[0], match[0]), data) if self._hashes else data

    def _note(self, found: Iterable[Finding], file: str, handle: str, *, at: int = 0) -> None:
        for start, end, kind in found:
            mask = Mask(kind, file, handle, start + at, end + at)
            self.counts[kind] += 1
            if len(self.places) < _PLACES:
                self.places.append(mask)
            self._lines_of_masks.append(json.dumps(mask.to_json(), separators=(",", ":")).encode("ascii") + b"\n")


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def _told(facts: Facts) -> bytes:
    """What others wrote of a record."""
    flat = facts.to_json()
    return json.dumps({name: flat[name] for name in _FIELDS}, ensure_ascii=True, default=str).encode("ascii")
