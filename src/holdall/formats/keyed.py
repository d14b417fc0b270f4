"""YAML and TOML: the shape of their keys and values, as that of JSON is told.

The reading is our own and follows structure only: indentation, keys, items, tables. Aliases are not resolved, tags mean
nothing, and no more than a number of lines is read, to a number of levels. So nothing in an output can make it large.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from holdall.formats.json_outline import Shapes
from holdall.formats.json_values import Seen, readable
from holdall.formats.kinds import TOML_KEY, TOML_TABLE, open_brackets, without_comment, yaml_pair
from holdall.formats.leads import literal
from holdall.formats.outline import Lead, Outline, Room, Sample, fitted, scattered
from holdall.values.patterns import lazy_pattern

_MOST_LINES = 4_000  # that are read
_MOST_BYTES = 1024 * 1024
_DEEPEST = 40  # levels
_LINE = 2_000  # characters of a line that are looked at
_BLOCK_LINES = 4  # of a text over several lines
_FLOW = 4_000  # characters of a value over several lines that are read as one
_BAD = 0.1  # where more of the lines are not understood, it is something else
_SEVERAL, _MAP = 4, 12  # elements of a list, and members of an object, that are alike
_INT = lazy_pattern(r"[-+]?\d[\d_]{0,30}")
_FLOAT = lazy_pattern(r"[-+]?\d[\d_]{0,30}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,4})?")
_PROPERTIES = lazy_pattern(r"(?:[&!][^\s,\[\]{}]{0,100}(?:\s+|$)){1,3}")  # anchors and tags before a value
_CONSTANTS = {"true": True, "false": False, "null": None, "~": None, "": None}
_PLAIN = lazy_pattern(r"(?:[^\s,\[\]{}:]|:(?=[^\s,\]}])|[ \t](?=[^\s,\]}:])){1,400}")
_PATH = lazy_pattern(r"\"[^\"]{0,200}\"|'[^']{0,200}'|[^.\s]{1,200}")
_NAME = lazy_pattern(r"[\w./-]{2,40}", re.ASCII)

_Container = dict[str, Any] | list[Any]


def yaml_outline(sample: Sample, room: Room) -> Outline | None:
    """None if most of its lines are something else."""
    lines, all_read = _lines(sample)
    read = read_yaml(lines)
    if read.is_something_else or not read.documents or not _is_most(sample, _is_yaml_line, all_read):
        return None
    if not all_read:
        _leave_out_last([read.documents, *(one for _, one in read.stack)])
    many = len(read.documents) > 1
    value = read.documents if many else read.documents[0]
    seen = Seen(value, whole=all_read and not read.bad)
    if not all_read:
        seen.counts |= {id(one): (len(one), False) for _, one in read.stack}
        seen.counts |= {id(read.documents): (len(read.documents), False)} if many else {}
    notes = [f"{'' if all_read else 'at least '}{len(read.documents):,} documents"] if many else []
    section = "^{}:" if isinstance(read.documents[-1], dict) else r"^\s*(?:- )?{}:"
    leads = _leads(value, read.values, r"^\s*(?:- )?{}: +(.+)", section)
    return _outline("yaml", seen, notes, room, _finding(leads, lines))


def _leave_out_last(holders: Sequence[_Container]) -> None:
    """Without the element at which the reading ended, of the outermost container with several: half of it would look as
    if keys were missing, or empty. A map with few members is a record."""
    for one in holders:
        if isinstance(one, list) and len(one) >= _SEVERAL:
            one.pop()
            return
        if isinstance(one, dict) and len(one) >= _MAP:
            one.popitem()
            return


def toml_outline(sample: Sample, room: Room) -> Outline | None:
    """None if most of its lines are something else."""
    lines, all_read = _lines(sample)
    read = read_toml(lines)
    if read.is_something_else or not read.root or not _is_most(sample, _is_toml_line, all_read):
        return None
    seen = Seen(read.root, whole=all_read and not read.bad)
    if not all_read:
        seen.counts |= dict(_all_at_least(read.root))  # a table may go on further down
    leads = _leads(read.root, read.values, r"^\s*{} *= *(.+)", r"^\[+{}\b")
    return _outline("toml", seen, [], room, _finding(leads, lines))


def _outline(label: str, seen: Seen, notes: list[str], room: Room, leads: Iterator[Lead]) -> Outline:
    if not seen.whole:
        notes = [*notes, "shape from its beginning"]
    shapes = Shapes(seen)
    told = shapes.lines(room.after(notes))
    told = [one.removeprefix("$.").removeprefix("$") if one.startswith("$") else one for one in told]
    told[1:1] = notes
    return Outline(label, fitted(told, room), shapes.sampled, (), leads=tuple(leads), ends=False)


def _leads(value: Any, values: Counter[tuple[str, str]], pair: str, section: str) -> Iterator[Lead]:
    """How often each value of a key occurs that tells things apart; what is below a key at the top.

    `pair` and `section` are patterns of a line, with the place of the key.
    """
    by_key: dict[str, list[int]] = {}
    for (key, _), times in values.items():
        by_key.setdefault(key, []).append(times)
    fit = [
        (sum(times), key)
        for key, times in by_key.items()
        if len(times) > 1 and len(times) <= 0.7 * sum(times) and _NAME.fullmatch(key)
    ]
    if fit:
        yield Lead("grep", {"pattern": pair.format(literal(max(fit)[1])), "group": True})
    first = _last(value)
    tops = cast("dict[str, Any]", first) if isinstance(first, dict) else {}
    held = {key: cast("_Container", one) for key, one in tops.items() if isinstance(one, dict | list)}
    large = [(len(one), key) for key, one in held.items() if _NAME.fullmatch(key)]
    if large:
        yield Lead("grep", {"pattern": section.format(literal(max(large)[1])), "after": 4, "limit": 2})


def _finding(leads: Iterator[Lead], lines: list[str]) -> Iterator[Lead]:
    """Those that find a line: keys may be in quotes, or in braces on the line of another."""
    for lead in leads:
        pattern = re.compile(str(lead.arguments["pattern"]))
        if any(pattern.search(line[:_LINE]) for line in lines):
            yield lead


def _all_at_least(value: Any) -> Iterator[tuple[int, tuple[int, bool]]]:
    """Of each container that there may be more in it."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict | list):
            held = cast("_Container", one)
            yield id(held), (len(held), False)
            waiting += held.values() if isinstance(held, dict) else held


def _lines(sample: Sample) -> tuple[list[str], bool]:
    """The first lines, as text of single bytes; and whether these are all."""
    data = sample.head[:_MOST_BYTES]
    if len(data) < sample.size:
        data = data[: data.rfind(b"\n") + 1]
    lines = data.decode("latin-1").removeprefix("\xef\xbb\xbf").split("\n")
    return lines[:_MOST_LINES], len(data) == sample.size and len(lines) <= _MOST_LINES


def _is_most(sample: Sample, fits: Callable[[str], bool], all_read: bool) -> bool:
    """Whether most of the output goes on as it began."""
    lines = [] if all_read else scattered(sample)
    return sum(map(fits, lines)) * 2 >= len(lines)


def _is_yaml_line(line: str) -> bool:
    return line.startswith((" ", "- ", "#", "---")) or yaml_pair(line) is not None


def _is_toml_line(line: str) -> bool:
    text = line.strip()
    return line.startswith((" ", "#", "]", "}")) or bool(TOML_TABLE.fullmatch(text) or TOML_KEY.match(text))


def _scalar(text: str) -> Any:
    """A value on one line; what is neither a constant nor a number is a text."""
    if text[:1] in ("'", '"'):
        return _unquoted(text)
    if text.lower() in _CONSTANTS:
        return _CONSTANTS[text.lower()]
    if _INT.fullmatch(text):
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    return text


def _unquoted(text: str) -> str:
    inside = text[1:-1] if len(text) > 1 and text[-1] == text[0] else text[1:]
    if text[0] == "'":
        return inside.replace("''", "'")
    try:
        return str(json.loads(f'"{inside}"', strict=False)) if "\\" in inside else inside
    except ValueError:  # an escape that JSON does not have
        return inside


def _flow(text: str) -> Any:
    """A list or a map in brackets; a text where it cannot be read."""
    try:
        return _in_brackets(text, 0, 0)[0]
    except (ValueError, IndexError):
        return text[:80]


def _in_brackets(text: str, at: int, depth: int) -> tuple[Any, int]:
    """A value of YAML on one line, from that place on, and where it ends."""
    at = _past_spaces(text, at)
    sign = text[at]
    if sign in "\"'":
        end = text.index(sign, at + 1)
        return text[at + 1 : end], end + 1
    if sign not in "[{":
        found = _PLAIN.match(text, at)
        if not found:
            raise ValueError(text)
        return _scalar(found[0].strip()), found.end()
    if depth > _DEEPEST:
        raise ValueError(text)
    items: list[Any] = []
    members: dict[str, Any] = {}
    at = _past_spaces(text, at + 1)
    while text[at] not in "]}":
        value, at = _in_brackets(text, at, depth + 1)
        at = _past_spaces(text, at)
        if sign == "{":
            members[str(value)] = None
            if text[at] == ":":
                members[str(value)], at = _in_brackets(text, at + 1, depth + 1)
        else:
            items.append(value)
        at = _past_spaces(text, at)
        at = _past_spaces(text, at + 1) if text[at] == "," else at
    return (members if sign == "{" else items), at + 1


def _past_spaces(text: str, at: int) -> int:
    while text[at] in " \t":
        at += 1
    return at


def _last(value: Any) -> Any:
    """Of an array of tables the last one, to which what follows belongs."""
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return items[-1] if items else items
    return value


def read_yaml(lines: list[str]) -> "Yaml":
    """Lines of a text whose bytes are its characters."""
    read = Yaml()
    read.read(lines)
    return read


def read_toml(lines: list[str]) -> "Toml":
    read = Toml()
    read.read(lines)
    return read


class Yaml:
    """Documents read by the line. `stack` has the containers that are open, each with its indentation."""

    def __init__(self) -> None:
        self.documents: list[Any] = []
        self.stack: list[tuple[int, _Container]] = []
        self.values: Counter[tuple[str, str]] = Counter()
        self.bad = self.good = 0
        self._pending: tuple[_Container, Any, int] | None = None  # what has no value yet, and its indentation
        self._block: int | None = None  # the indentation of the key of a text over several lines, …
        self._block_of: tuple[_Container, Any] | None = None  # … whose it is, and its first lines
        self._block_lines: list[str] = []
        self._open = ""  # the beginning of a value in quotes or brackets whose end has not come

    @property
    def is_something_else(self) -> bool:
        return self.bad > _BAD * (self.bad + self.good)

    def read(self, lines: list[str]) -> None:
        for line in lines:
            text = line[:_LINE].rstrip()
            body = text.lstrip(" ")
            indent = len(text) - len(body)
            if self._block is not None and (not body or indent > self._block):
                self._block_lines += [body] if body and len(self._block_lines) < _BLOCK_LINES else []
                continue
            self._end_block()
            if self._open:
                self._go_on(body)
            elif body and not body.startswith("#"):
                self._line(indent, body)

        self._end_block()

    def _end_block(self) -> None:
        if self._block_of is not None:
            holder, place = self._block_of
            cast("dict[Any, Any]", holder)[place] = "\n".join(self._block_lines)
        self._block, self._block_of, self._block_lines = None, None, []

    def _line(self, indent: int, body: str) -> None:
        if indent == 0 and (body == "---" or body.startswith("--- ")):
            self.stack, self._pending = [], None
            self._pending = (self.documents, len(self.documents), -1)
            body = body[4:].strip()
            if not body or body.startswith("#"):
                return
        if indent == 0 and (body == "..." or body.startswith("%")):
            return
        for _ in range(_DEEPEST):
            if body != "-" and not body.startswith("- "):
                break
            rest = body[1:].lstrip(" ")
            if not self._item(indent):
                return
            indent, body = indent + len(body) - len(rest), rest
            if not body or body.startswith("#"):
                return
        pair = yaml_pair(body)
        if pair:
            self._member(indent, *pair)
        elif self._pending is not None:
            self._value(body)
        elif body.startswith("\t"):
            self.bad += 1
        else:
            # The next line of a plain text, which is further in than its key.
            goes_on = bool(self.stack and indent > self.stack[-1][0])
            self.good, self.bad = self.good + goes_on, self.bad + (not goes_on)

    def _item(self, indent: int) -> bool:
        """Opens the next element of the list at that indentation."""
        self._close(indent, is_item=True)
        top = self.stack[-1] if self.stack else None
        if top is not None and top[0] == indent and isinstance(top[1], list):
            here = top[1]
        elif self._pending is not None and self._pending[2] <= indent:
            here = self._put([])
        elif not self.stack and not self.documents:
            self._pending = (self.documents, 0, -1)
            here = self._put([])
        else:
            self.bad += 1
            return False
        if not self.stack or self.stack[-1][1] is not here:
            if len(self.stack) >= _DEEPEST:
                self.bad += 1
                return False
            self.stack.append((indent, here))
        items = cast("list[Any]", here)
        items.append(None)
        self._pending = (items, len(items) - 1, indent)
        self.good += 1
        return True

    def _member(self, indent: int, key: str, value: str) -> None:
        self._close(indent, is_item=False)
        top = self.stack[-1] if self.stack else None
        if top is not None and top[0] == indent and isinstance(top[1], dict):
            here = top[1]
        elif self._pending is not None and self._pending[2] < indent and len(self.stack) < _DEEPEST:
            here = self._put({})
            self.stack.append((indent, here))
        elif not self.stack and not self.documents:
            self._pending = (self.documents, 0, -1)
            here = self._put({})
            self.stack.append((indent, here))
        else:
            self.bad += 1
            return
        cast("dict[str, Any]", here)[key] = None
        self._pending = (here, key, indent)
        self.good += 1
        self._value(value)

    def _close(self, indent: int, *, is_item: bool) -> None:
        """What is further in is over. A list may stand below its key without being further in."""
        while self.stack and (
            self.stack[-1][0] > indent
            or (self.stack[-1][0] == indent and not is_item and isinstance(self.stack[-1][1], list))
        ):
            self.stack.pop()
            self._pending = None if self._pending is not None and self._pending[2] > indent else self._pending
        if is_item and self.stack and self.stack[-1][0] == indent and isinstance(self.stack[-1][1], dict):
            # `key:` and its items at the same indentation: the key waits for its value.
            return

    def _put(self, container: _Container) -> _Container:
        self._set(container)
        return container

    def _set(self, value: Any) -> None:
        if self._pending is None:
            return
        holder, place, _ = self._pending
        if holder is self.documents and place == len(self.documents):
            self.documents.append(value)
        else:
            cast("dict[Any, Any]", holder)[place] = value
        self._pending = None

    def _value(self, text: str) -> None:
        """What stands behind a key or a dash; nothing where it comes on the next lines."""
        properties = _PROPERTIES.match(text) if text[:1] in "&!" else None
        text = text[properties.end() :] if properties else text
        if not text or text.startswith("#"):
            return
        if self._pending is None:
            return
        holder, place, indent = self._pending
        if text[0] in "|>":
            self._block = indent
            self._set("")
            self._block_of = (holder, place)
        elif text[0] in "\"'" and (len(text) == 1 or not without_comment(text).rstrip().endswith(text[0])):
            self._open = text
        elif text[0] in "[{":
            self._open = without_comment(text)
            self._go_on("")
        else:
            scalar = _scalar(without_comment(text).strip())
            if isinstance(place, str) and isinstance(scalar, str | int):
                self.values[readable(place), str(scalar)[:80]] += 1
            self._set(scalar)

    def _go_on(self, body: str) -> None:
        sign = self._open[0]
        self._open = f"{self._open} {without_comment(body) if sign in '[{' else body}"[: _FLOW + _LINE]
        if sign in "[{":
            closed = open_brackets(self._open) <= 0
        else:
            closed = body.endswith(sign)
        if closed or len(self._open) > _FLOW:
            text, self._open = self._open.strip(), ""
            self._set(_flow(text) if sign in "[{" else _unquoted(text))


class Toml:
    """One document read by the line. `table` is the one that keys go to."""

    def __init__(self) -> None:
        self.root: dict[str, Any] = {}
        self.table: dict[str, Any] = self.root
        self.values: Counter[tuple[str, str]] = Counter()
        self.bad = self.good = 0
        self._open = ""  # the beginning of a value whose end has not come
        self._end = ""  # by which it ends, where that is quotes
        self._key = ""

    @property
    def is_something_else(self) -> bool:
        return self.bad > _BAD * (self.bad + self.good)

    def read(self, lines: list[str]) -> None:
        for line in lines:
            text = line[:_LINE].strip()
            if self._open:
                self._go_on(text)
            elif text and not text.startswith("#"):
                self._line(text)

    def _line(self, text: str) -> None:
        table, pair = TOML_TABLE.fullmatch(text), TOML_KEY.match(text)
        if table:
            self._enter(table[2], is_array=len(table[1]) > 1)
        elif pair:
            self._key = pair[1]
            self._open = without_comment(pair[2])
            self._end = next((sign for sign in ('"""', "'''") if self._open.startswith(sign)), "")
            self._go_on(None)
        else:
            self.bad += 1
            return
        self.good += 1

    def _enter(self, path: str, *, is_array: bool) -> None:
        *parents, last = [name.strip("\"' ") for name in _PATH.findall(path)][:_DEEPEST]
        here = self._below(self.root, parents)
        if here is None:
            return
        self.table = {}
        if is_array:
            found = here.setdefault(last, [])
            if isinstance(found, list):
                cast("list[Any]", found).append(self.table)
        else:
            found = here.setdefault(last, self.table)
            self.table = cast("dict[str, Any]", found) if isinstance(found, dict) else {}

    def _go_on(self, text: str | None) -> None:
        if text is not None:
            self._open = f"{self._open} {text if self._end else without_comment(text)}"[: _FLOW + _LINE]
        value = self._open
        if self._end:
            closed = len(value) > 5 and (value if text is None else text).endswith(self._end)
        else:
            closed = value[:1] not in "[{" or open_brackets(value) <= 0
        if closed or len(value) > _FLOW:
            self._open = ""
            self._set(value)

    def _set(self, text: str) -> None:
        if self._end:
            value: Any = text[3:-3]
        elif text[:1] in "[{":
            try:  # no longer than a few lines
                value = tomllib.loads(f"value = {text}")["value"]
            except (ValueError, RecursionError):
                value = text[:80]
        else:
            value = _scalar(text.strip())
            if isinstance(value, str | int):
                self.values[readable(self._key), str(value)[:80]] += 1
        *parents, last = [name.strip("\"' ") for name in _PATH.findall(self._key)][:_DEEPEST] or [self._key]
        here = self._below(self.table, parents)
        if here is not None:
            here[last] = value

    def _below(self, here: dict[str, Any], names: list[str]) -> dict[str, Any] | None:
        """The table at that path, made if there is none; None where something else is."""
        for name in names:
            below = _last(here.setdefault(name, {}))
            if not isinstance(below, dict):
                self.bad += 1
                return None
            here = cast("dict[str, Any]", below)
        return here
