"""Tools whose policy says `redact`: what they give is masked before a model, the store or anybody else gets it.

A mask is as long as what it hides. A value that was found once in the session is masked everywhere from then on, as far
as there is room to remember it; what was found is held in memory only. Nothing here decides what a secret is.
"""

import contextlib
import copy
import functools
import logging
import threading
import time
from collections import UserDict, UserList, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, MappingView, Sequence
from dataclasses import is_dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, cast

from holdall.bag.streams import value_text
from holdall.store import deadline
from holdall.store.bundle.redact import Values, usual_rules
from holdall.store.protocol import OutputWriter
from holdall.store.sources import check_repeats
from holdall.text.secrets import (
    NUMBER,
    Find,
    Finding,
    Masker,
    Seen,
    apart,
    as_command,
    is_pair,
    is_value,
    json_findings,
    label_of,
    masked,
    masked_text,
    masked_value,
    merged,
)
from holdall.values.errors import EndlessValue, LookedTooLong, OutOfTime
from holdall.values.outputs import Facts, LargeJson, LargeText, Origin, RawResult, State
from holdall.wire.notes import endless_note, masked_note, not_all_kept, too_deep_to_mask, withheld_note
from holdall.wire.results import field, fields_of, with_field

_LIVE_SECONDS = 1.0  # what is being written can be read after this time: a process that is killed loses no more,
_REST = 5  # and longer where the look at it takes long: so many times as long
_MAX_WORDS = 1000  # of a command
_PLAIN = (str, bytes, bytearray, memoryview, int, float, bool, type(None), list, tuple, dict, LargeText, LargeJson)
_CONTAINERS: Any = (object, dict, list, tuple, str, bytes, bytearray, UserDict, UserList, MappingProxyType)
_WORDS_OF_PYTHON = frozenset(cast("type", one).__repr__ for one in cast("tuple[Any, ...]", _CONTAINERS))
_REMEMBERED, _OF_A_FINDING = 64 * 1024 * 1024, 160  # bytes
_OF_JSON = frozenset((str, int, float, bool, type(None)))
_SECONDS, _SECONDS_PER_BYTE = 60.0, 1e-6
_FULL = 256 * 1024  # bytes of values in a group that stays as it is


_LOG = logging.getLogger("holdall")


class Redaction:
    """Of one session. May be used from any thread."""

    def __init__(self) -> None:
        self._rules = usual_rules()
        self._values = Values()
        self._lock = threading.Lock()
        self._groups: list[tuple[int, list[bytes], Find]] = []  # of known values, with their bytes
        self._last = b""  # that was seen: some come a hundred thousand times
        self._fresh: list[bytes] = []  # known, and in no group yet

    def value(self, output: object, look_time: "LookTime | None" = None) -> tuple[object, int]:
        """The same with its secrets masked, and how many; the same object where there are none."""
        look_time = look_time or LookTime()
        try:
            with look_time.running():
                if isinstance(output, str) and output == look_time.masked:
                    return output, 0
                new, count = self._value(output, look_time)
                look_time.masked = new if isinstance(new, str) else None
                return new, count
        except RecursionError:
            return too_deep_to_mask(), 0  # nobody knows whether there was one
        except EndlessValue as problem:
            return endless_note(problem), 0
        except OutOfTime as problem:
            look_time.begin_again()  # what is looked at from here on is the note
            return withheld_note(str(problem)), 0
        except Exception as problem:
            _LOG.exception("an output could not be masked, so nothing of it is shown")
            return withheld_note(type(problem).__name__), 0

    @staticmethod
    def look_time() -> "LookTime":
        """For one output, that is looked at more than once."""
        return LookTime()

    def origin(self, origin: Origin) -> Origin:
        """What others wrote in it."""
        arguments, _ = self.value(origin.arguments)
        return replace(origin, arguments=arguments, traceback=self.text(origin.traceback), masked=True)

    def masked(self, value: Any) -> Any:
        return self.value(value)[0]

    def text(self, text: str) -> str:
        return str(self.value(text)[0])

    def chunks(
        self, chunks: Iterable[bytes], told: Callable[[int], object], look_time: "LookTime | None" = None
    ) -> Iterator[bytes]:
        """A stream, masked as it comes: what stands before the place that gives a value away has passed by."""
        look_time = look_time or LookTime()
        look_time.look_again()
        masker = Masker(look_time.bounded(self._find_twice()), self._seen)
        failed: list[BaseException] = []

        def until_it_fails() -> Iterator[bytes]:
            try:
                yield from chunks
            except GeneratorExit:
                raise
            except BaseException as problem:  # after what is held back
                failed.append(problem)

        for chunk in until_it_fails():
            look_time.saw(len(chunk))
            with look_time.running():
                ready = masker.feed(chunk)
            if ready:
                yield ready
        with look_time.running():
            ready = masker.finish()
        if ready:
            yield ready
        told(len(masker.findings))
        for problem in failed:
            try:
                said = str(problem)
            except Exception as worse:
                problem, said = worse, repr(worse)  # noqa: PLW2901
            if (masked := self.text(said)) == said:
                raise problem
            kind = Exception if isinstance(problem, Exception) else BaseException
            told_as = cast("type[BaseException]", type(type(problem).__name__, (kind,), {}))
            raise told_as(masked) from None

    def writer(self, writer: OutputWriter, later: Callable[[], None] | None) -> OutputWriter:
        find = LookTime().bounded(self._find_twice(), counts=True)
        return _MaskingWriter(writer, Masker(find, self._seen), self, later)

    def note(self, secrets: int) -> str:
        """That so many were masked in an output."""
        return masked_note(secrets, everywhere=not self._values.left_out)

    # Inside

    def _value(self, output: object, look_time: "LookTime") -> tuple[object, int]:
        odd: dict[int, object] = {}
        with contextlib.suppress(ValueError):  # it holds itself
            check_repeats(output)
        look_time.look_again()
        once, is_secret = _Once(self._rules.find), self._rules.is_secret
        # Its bytes count the first time only: what finds much is not remembered, and looked at again.
        learn = look_time.bounded(once, counts=True)
        find = look_time.bounded(partial(self._find, rules=once))

        def seen(secret: bytes, kind: str) -> None:
            look_time.check()
            self._seen(secret, kind)

        _Walk(
            partial(self._learn_text, learn, seen), partial(self._learn_json, learn, seen),
            partial(self._learn_value, learn, seen), is_secret, odd,
        ).changed(output)  # fmt: skip
        walk = _Walk(
            partial(self._mask_text, find), partial(self._mask_json, find), partial(self._mask_value, find),
            is_secret, odd,
        )  # fmt: skip
        return walk.changed(output), walk.count

    def _find_twice(self) -> Find:
        """For a stream, of which a part is looked at again when it has given a value away: only for such values."""

        @functools.lru_cache(1)
        def find(data: bytes) -> list[Finding]:
            return self._rules.find(data)

        return partial(self._find, rules=find)

    def _find(self, data: bytes, rules: Find | None = None) -> list[Finding]:
        with self._lock:
            if self._fresh:
                self._regroup()
            literals = [one[2] for one in self._groups]

        def known(data: bytes) -> list[Finding]:
            return [found for literal in literals for found in literal(data)]

        found = [*(rules or self._rules.find)(data), *known(data)]
        if literals and _is_escaped_json(data):
            found += json_findings(data, known, lambda _: False)
        return found

    def _regroup(self) -> None:
        """A group for what is new, with the groups before it that have no more: so a value is compiled a few times,
        and not once more for each that comes after it."""
        values, self._fresh = self._fresh, []
        size = sum(map(len, values))
        while self._groups and self._groups[-1][0] <= min(size, _FULL):
            more, others, _ = self._groups.pop()
            values, size = values + others, size + more
        self._groups.append((size, values, self._rules.literal(values)))

    def _seen(self, secret: bytes, kind: str) -> None:
        if secret == self._last:
            return
        with self._lock:
            self._last = secret
            self._fresh += self._values.add(secret, kind)

    def _learn_text(self, find: Find, seen: Seen, data: bytes, *, named: bool) -> tuple[bytes, int]:
        for start, end, kind in find(data):
            seen(data[start:end], kind)
        if named:
            seen(data, "Secret Keyword")
        return data, 0

    def _mask_text(self, find: Find, data: bytes, *, named: bool) -> tuple[bytes, int]:
        found = merged([(0, len(data), "")] if named and data else find(data))
        return masked_text(data, found), len(found)

    def _learn_json(self, find: Find, seen: Seen, data: bytes) -> tuple[bytes, int]:
        json_findings(data, find, self._rules.is_secret, seen)
        return data, 0

    def _mask_json(self, find: Find, data: bytes) -> tuple[bytes, int]:
        found = json_findings(data, find, self._rules.is_secret)
        return masked(data, found, {start for start, _, kind in found if kind == NUMBER}), len(found)

    def _learn_value(self, find: Find, seen: Seen, value: object, name: str, within: str) -> tuple[object, int]:
        return masked_value(value, find, self._rules.is_secret, seen, name, within)

    def _mask_value(self, find: Find, value: object, name: str, within: str) -> tuple[object, int]:
        return masked_value(value, find, self._rules.is_secret, None, name, within)


class LookTime:
    """The processor time for one output, however often it is looked at, and in whatever form. Used by one thread at a
    time. An ordinary output takes a tenth of it.
    """

    def __init__(self) -> None:
        self.bytes = self._seen = 0  # of the output; of it that were seen when it is looked at this time
        self._spent = 0.0
        self._began: float | None = None  # while it runs
        self.masked: str | None = None  # as it is without its secrets: it need not be looked through as a whole again

    @property
    def _allowed(self) -> float:
        return _SECONDS + self.bytes * _SECONDS_PER_BYTE

    @property
    def _left(self) -> float:
        running = 0.0 if self._began is None else time.thread_time() - self._began
        return self._allowed - self._spent - running

    def look_again(self) -> None:
        """At the same output: it gets no more time for bytes that were seen before."""
        self._seen = 0

    def begin_again(self) -> None:
        """With something else."""
        self.bytes, self._spent = 0, 0.0
        self.look_again()

    def saw(self, size: int) -> None:
        self._seen += size
        self.bytes = max(self.bytes, self._seen)

    @contextlib.contextmanager
    def running(self) -> Generator[None]:
        """All that is done in the block takes of it."""
        if self._began is not None:
            yield
            return
        self._began = began = time.thread_time()  # of this thread: who else is busy takes nothing of it
        try:
            yield
        finally:
            self._began = None
            self._spent += time.thread_time() - began

    def check(self) -> None:
        if self._left < 0:
            raise LookedTooLong(self._allowed)

    def bounded(self, find: Find, *, counts: bool = False) -> Find:
        """The same, for as long as there is time; it may `count` the bytes that it is given."""

        def find_in_time(data: bytes) -> list[Finding]:
            with self.running():
                self.saw(len(data) if counts else 0)
                try:
                    with deadline.within(deadline.of_seconds(max(0.0, self._left), clock=time.thread_time)):
                        deadline.check()  # a short text that has nothing of the kind is looked through without
                        return list(find(data))
                except OutOfTime:
                    raise LookedTooLong(self._allowed) from None

        return find_in_time


class _Once:
    """What the rules find: all is looked at twice, to learn and to mask, and they take most of the time."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._found: dict[bytes, list[Finding]] = {}
        self._room = _REMEMBERED

    def __call__(self, data: bytes) -> list[Finding]:
        found = self._found.get(data)
        if found is None:
            found = list(self._find(data))
            size = len(data) + _OF_A_FINDING * (len(found) + 1)
            if size <= self._room:
                self._room -= size
                self._found[data] = found
        return found


def _is_escaped_json(data: bytes) -> bool:
    """JSON whose strings read otherwise than they are written."""
    return b"\\u" in data and data.lstrip()[:1] in (b"{", b"[")


def _find_odd(value: object, odd: dict[int, object]) -> bool:
    """Whether anything in it is not what JSON has; notes the lists and dictionaries of which that is true."""
    kind = type(value)
    if kind is dict:
        table = cast("dict[object, object]", value)
        is_odd = sum([type(name) is not str for name in table]) + sum([_find_odd(one, odd) for one in table.values()])
    elif kind is list:
        is_odd = sum([_find_odd(one, odd) for one in cast("list[object]", value)])
    else:
        return kind not in _OF_JSON
    if is_odd:
        odd[id(value)] = value
    return bool(is_odd)


def _of_class(table: Mapping[Any, object], masked: dict[Any, object]) -> Mapping[Any, object]:
    """A dictionary of a framework's own stays one: it may have more than its members."""
    if isinstance(table, dict) and type(cast("object", table)) is not dict:
        with contextlib.suppress(Exception):  # of the framework's own code
            new = copy.copy(table)
            dict[Any, object].clear(new)
            dict[Any, object].update(new, masked)
            return new
    return masked


def _like(named: tuple[object, ...], parts: list[object]) -> object:
    try:
        return cast("Any", named)._make(parts)
    except Exception:  # a class of the tool's own may want anything
        return tuple(parts)


def _as_plain(value: object) -> object:
    """A queue, a view, or a row of a database, which has names, as what JSON has; None for what is none of them."""
    if not isinstance(value, deque | MappingView) and type(value).__name__ != "Row":
        return None
    try:
        items = cast("Any", value)
        return dict(items) if hasattr(items, "keys") else [*items]
    except Exception:  # a class of the tool's own that is only called like a row
        return None


class _Walk:
    """Through a value of any form, to every text in it."""

    def __init__(
        self,
        text: Callable[..., tuple[bytes, int]],
        large_json: Callable[[bytes], tuple[bytes, int]],
        of_json: Callable[[object, str, str], tuple[object, int]],
        is_secret: Callable[[str], bool],
        odd: dict[int, object],
    ) -> None:
        self._text = text
        self._large_json = large_json
        self._of_json = of_json
        self._is_secret = is_secret
        self._odd = odd
        self.count = 0

    def changed(self, value: object, name: str = "", within: str = "") -> object:
        """`within` is the name of a secret that it is a part of, if there is one."""
        new = self._changed(value, name, within)
        if type(new) in _PLAIN or (said := self._as_said(new, name)) is new:
            return new
        # Where a field of it was masked, the fields say more than its words for itself.
        fields = {} if new is value else {key: one for key, one in vars(new).items() if not key.startswith("_")}
        return fields or said

    def _as_said(self, value: object, name: str) -> object:
        """What passes as it is, a framework may show by its own words for itself: where they have a secret, without it.

        Not of models, dataclasses and containers without words of their own, which say what their parts are: those were
        looked at, and as Python writes them a rule may find what is none.
        """
        kind = type(value)
        own_text, own_name = kind.__str__ is not object.__str__, kind.__repr__ not in _WORDS_OF_PYTHON
        if hasattr(kind, "model_fields") or not (own_text or (own_name and not is_dataclass(value))):
            return value
        for words in (str, repr):
            with contextlib.suppress(Exception):  # of the tool's own code
                text = words(value)
                if (shown := self._of_text(text, name)) != text:
                    return shown
        return value

    def _changed(self, value: object, name: str, within: str) -> object:
        if isinstance(value, str):
            return self._of_text(value, name, within)
        if isinstance(value, bytes | bytearray | memoryview):
            data = bytes(cast("bytes", value))
            new = self._of_bytes(data, name)
            return cast("object", value) if new == data else new
        if isinstance(value, LargeText):
            new = self._of_bytes(value.data, name)
            return value if new == value.data else LargeText(new)
        if isinstance(value, LargeJson):
            new, count = self._large_json(value.data)
            self.count += count
            return LargeJson(new) if count else value
        if isinstance(value, bool | float | None):
            return value
        if isinstance(value, int):
            secret = (bool(within) or self._is_secret(name)) and abs(value) > 9_999_999
            self.count += secret
            return int("9" * len(str(abs(value)))) if secret else value
        return self._of_members(value, name, within)

    def _of_members(self, value: object, name: str, within: str) -> object:
        if type(value) in (dict, list) and id(value) not in self._odd and not _find_odd(value, self._odd):
            return self._of_plain(value, name, within)
        if isinstance(value, tuple) and isinstance(
            names := getattr(cast("object", value), "_fields", None), tuple
        ):  # a named one
            named = cast("tuple[object, ...]", value)
            labels = [*map(str, cast("tuple[object, ...]", names)), *[name] * len(named)]
            parts = [self.changed(one, label, within) for label, one in zip(labels, named, strict=False)]
            return named if all(new is one for new, one in zip(parts, named, strict=True)) else _like(named, parts)
        if (whole := _as_plain(cast("object", value))) is not None:
            new = self.changed(whole, name, within)
            return cast("object", value) if new is whole else new
        if isinstance(value, list | tuple):
            items = cast("Sequence[object]", value)
            news = self._of_words([self.changed(one, name, within) for one in items])
            if all(new is one for new, one in zip(news, items, strict=True)):
                return items
            return news if isinstance(value, list) else tuple(news)
        if isinstance(value, Mapping):
            table = cast("Mapping[Any, object]", value)
            within = name if self._is_secret(name) else within
            label = label_of(table)
            about = label if label and self._is_secret(label) else within  # what a value of it would be
            pairs = [
                (self.changed(key), self.changed(one, about if about and is_value(str(key)) else str(key), within))
                for key, one in table.items()
            ]
            same = all(new[0] is old[0] and new[1] is old[1] for new, old in zip(pairs, table.items(), strict=True))
            if isinstance(value, RawResult) and value.beside:
                beside = self.changed(value.beside)
                same = same and beside is value.beside
                return value if same else RawResult(cast("Any", apart(pairs)), b"", cast("Any", beside))
            return table if same else _of_class(table, apart(pairs))
        for inner in fields_of(value):
            before = field(value, inner)
            with contextlib.suppress(ValueError):  # it holds itself
                check_repeats(before)
            after = self.changed(before, inner)
            if after is not before:
                value = with_field(value, inner, after)
        # What else it is, a set or an object of the tool's own, a model would read as this.
        text, _ = value_text(value)
        shown = self._of_text(text, name)
        return value if shown == text else shown

    def _of_words(self, items: list[object]) -> list[object]:
        """A name with its value, or a command, whose words are told apart by those before them."""
        words = [one for one in items[:_MAX_WORDS] if isinstance(one, str)]
        if len(words) < len(items):
            return items
        if len(words) == 2 and is_pair(*words) and self._is_secret(words[0]):
            return [words[0], self._of_text(words[1], words[0])]
        written = [one.encode("utf-8", "surrogatepass") for one in words]
        if (command := as_command(written)) is None:
            return items
        new, count = self._text(command, named=False)
        self.count += count
        at = 0
        for number, data in enumerate(written if count else ()):
            here = slice(at, at + len(data))
            signs = zip(data, command[here], new[here], strict=True)
            hidden = bytes(after if after != before else sign for sign, before, after in signs)
            items[number] = words[number] if hidden == data else hidden.decode("utf-8", "replace")
            at += len(data) + 1
        return items

    def _of_text(self, text: str, name: str, within: str = "") -> str:
        plain = text if type(text) is str else str.__str__(text)
        new = cast("str", self._of_plain(plain, name, within))
        return text if new is plain else new

    def _of_plain(self, value: object, name: str, within: str) -> object:
        new, count = self._of_json(value, name, within)
        if not count or new == value:  # it was masked before
            return value
        self.count += count
        return new

    def _of_bytes(self, data: bytes, name: str) -> bytes:
        new, count = self._text(data, named=bool(name) and self._is_secret(name))
        self.count += count
        return new


class _MaskingWriter:
    """A writer that masks. Whole lines can be read after a second, all else when it is certain to be no secret."""

    def __init__(
        self, writer: OutputWriter, masker: Masker, redaction: Redaction, later: Callable[[], None] | None
    ) -> None:
        self._writer = writer
        self._masker = masker
        self._redaction = redaction
        self._later = later
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._pause = _LIVE_SECONDS
        self._problem: Exception | None = None  # of what was to be given out meanwhile

    @property
    def handle(self) -> str:
        return self._writer.handle

    @property
    def facts(self) -> Facts:
        return self._writer.facts

    def write(self, chunk: bytes) -> None:
        with self._lock:
            if self._problem is not None:
                raise self._problem
            if ready := self._masker.feed(chunk):
                self._writer.write(ready)
            if self._timer is None:
                self._timer = threading.Timer(self._pause, self._give_out)
                self._timer.daemon = True
                self._timer.start()

    def _give_out(self) -> None:
        with self._lock:
            if self._timer is None:
                return  # it has ended
            self._timer = None
            began = time.thread_time()
            try:
                if ready := self._masker.lines():
                    self._writer.write(ready)
            except Exception as problem:  # for whoever writes next, or ends it
                self._problem = problem
            self._pause = max(_LIVE_SECONDS, _REST * (time.thread_time() - began))
        if self._later is not None:
            self._later()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def flush(self) -> None:
        """Of what is certain to be no secret."""
        with self._lock:
            self._writer.flush()

    def finish(
        self,
        state: State = "ready",
        *,
        error: str = "",
        exit_code: int | None = None,
        notes: Sequence[str] = (),
        surrogates: str = "",
        traceback: str = "",
    ) -> Facts:
        try:
            error, traceback, *notes = map(self._redaction.text, (error, traceback, *notes))
            self._write_rest()
        except Exception as problem:  # it must end, whatever is wrong with its last bytes
            state, error, traceback = "interrupted", not_all_kept(problem), ""
        if self._masker.findings:
            notes = (*notes, self._redaction.note(len(self._masker.findings)))
        return self._writer.finish(
            state, error=error, exit_code=exit_code, notes=notes, surrogates=surrogates, traceback=traceback
        )

    def close(self) -> None:
        try:
            self._write_rest()
        finally:
            self._writer.close()

    def _write_rest(self) -> None:
        with self._lock:
            self._stop()
            if self._problem is not None:
                raise self._problem
            if rest := self._masker.finish():
                self._writer.write(rest)
