"""The outline of JSON and NDJSON: its shape with types, counts, optional keys and example values, and what to ask
next.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import chain, islice
from math import isnan, nan
from operator import itemgetter
from typing import Any, Literal, cast

from holdall.formats.json_values import Seen, cost, loads, readable, see_all
from holdall.formats.leads import BRIEF, HASH, literal
from holdall.formats.outline import Lead, Outline, Room, Sample, cut, figure, fitted, split, spread, thinned
from holdall.formats.table import by_value, column
from holdall.text.json.path import normalized_step
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# All values of a JSON text that are at one path, looked at together, and the groups below them.
#
# A bounded number of values is looked at for each path, spread evenly, so that the time does not depend on how large or
# how deep the text is. Nothing is written here; `_Shapes` below does that.


_STEPS = ((100_000, 40_000), (120_000, 2_000))  # while so many were looked at in all, so many more for one path …
_FEWER = 120  # … and then only so many
_SPREAD = 4_000  # of more, so many spread over them
_MAP_KEYS = 12  # a record with fewer names is never taken for a map …
_MANY_KEYS = 120  # … and nothing with so many for a record
_SHORTHAND = lazy_pattern(r"[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*")


class Allowance:
    """How many values may still be looked at."""

    def __init__(self) -> None:
        self._used = 0
        self.was_short = False  # of some path not all values were looked at

    def some(self, values: list[Any], exact: bool) -> tuple[list[Any], bool]:
        """`values`, or some of them spread evenly; and whether they are all that there are."""
        most = next((most for used, most in _STEPS if self._used < used), _FEWER)
        if len(values) > most:
            values, exact, self.was_short = spread(values, min(most, _SPREAD)), False, True
        self._used += len(values)
        return values, exact


class Group:
    """The values at `path`. `exact`: all that there are."""

    def __init__(self, path: str, values: list[Any], exact: bool, allowance: Allowance) -> None:
        self.path = path
        self.values = values
        self.exact = exact
        self._allowance = allowance
        self._members: dict[str, Group] = {}

    @cached_property
    def kinds(self) -> frozenset[type]:
        return frozenset(map(type, self.values))

    @cached_property
    def objects(self) -> list[dict[str, Any]]:
        return self._of(dict)

    @cached_property
    def arrays(self) -> list[list[Any]]:
        return self._of(list)

    @cached_property
    def plain(self) -> list[Any]:
        if not self.kinds & {dict, list}:
            return self.values
        if self.kinds <= {dict, list}:
            return []
        return [value for value in self.values if type(value) is not dict and type(value) is not list]

    def _of(self, kind: type) -> list[Any]:
        # Nearly always all values are of one type, and then none is looked at.
        if kind not in self.kinds:
            return []
        return self.values if len(self.kinds) == 1 else [value for value in self.values if type(value) is kind]

    @cached_property
    def keys(self) -> Counter[str]:
        """How many objects have each name. Records with the same names in the same order are counted at once."""
        rows = Counter(map(tuple, self.objects))
        keys: Counter[str] = Counter()
        for row, times in rows.items():
            for key in row:
                keys[key] += times
        return keys

    @cached_property
    def is_map(self) -> bool:
        return is_map(self.objects, self.keys)

    @cached_property
    def elements(self) -> "Group":
        return self._below("[*]", list(chain.from_iterable(self.arrays)))

    @cached_property
    def entries(self) -> "Group":
        return self._below(".*", list(chain.from_iterable(each.values() for each in self.objects)))

    def member(self, key: str) -> "Group":
        if key not in self._members:
            everywhere = self.keys[key] == len(self.objects)
            with_it = self.objects if everywhere else [each for each in self.objects if key in each]
            self._members[key] = self._below(step(key), list(map(itemgetter(key), with_it)))
        return self._members[key]

    def _below(self, step: str, values: list[Any]) -> "Group":
        values, exact = self._allowance.some(values, self.exact)
        return Group(self.path + step, values, exact, self._allowance)


def is_map(objects: list[dict[str, Any]], keys: Counter[str]) -> bool:
    """Whether the names are data, as in a map from id to record, and not the fields of a record."""
    if len(keys) < _MAP_KEYS:
        return False
    if len(objects) > 1:
        top = keys.most_common(1)[0][1]
        if keys.total() >= _MANY_KEYS * len(objects):
            return True
        return top * 2 < len(objects) and len(keys) * len(objects) > 3 * keys.total()
    if len(keys) >= _MANY_KEYS:
        return True
    values = list(islice(objects[0].values(), 200))
    kind, times = Counter(map(type, values)).most_common(1)[0]
    if times < len(values) * 0.9:
        return False
    if kind is not dict:
        return len(keys) >= (2 if kind is list else 3) * _MAP_KEYS
    records = [cast("dict[str, Any]", value) for value in values if isinstance(value, dict)]
    fields: Counter[str] = Counter(chain.from_iterable(records))
    common = sum(times for times in fields.values() if times * 3 >= len(values))
    return common * 2 >= fields.total() or fields.total() >= 8 * len(fields)


def step(key: str) -> str:
    """How a path goes on to the member `key`, as the query of paths reads it."""
    shown = readable(key)
    if _SHORTHAND.fullmatch(shown):
        return "." + shown
    return normalized_step(shown)


# Scalars of JSON, many at once, in a few words: one value, a few with their counts, or type and example.


_TYPES = {str: "str", int: "int", float: "float", bool: "bool", type(None): "null"}
_TEXT = 32
_FEW = 4
_SHORT = 20  # of values that are this short, more than one is told
_LOOKED_AT = 40_000
_SOME_VALUES, _VARIED = 1000, 0.97  # values by which it is told that few are alike, and the share that then differs
_PROBED, _LONG = 48, 60  # values by which prose is told, and how long they then are


def scalars(values: list[Any], *, exact: bool) -> str:
    """`exact`: these are all the values that there are. Else there may be others: `|…`, or "at least" a range."""
    exact = exact and len(values) <= _LOOKED_AT
    about = "" if exact else "at least "
    others = "" if exact else "|…"
    kinds = Counter(map(type, values))
    names = _names_of(kinds)
    if float in kinds and any(map(_is_nan, values)):
        values, names = [nan if _is_nan(value) else value for value in values], f"{names}|NaN"
    if _is_prose(values) or _is_varied(values, kinds):
        return f"{names} {_example(values, kinds, about)}".rstrip()
    distinct = _distinct(values, kinds)
    value_of: Callable[[Any], Any] = _itself if len(kinds) == 1 else itemgetter(1)
    if len(distinct) == 1:
        return json_literal(values[0]) + others
    if len(distinct) <= _FEW and all(len(str(value_of(key))) <= 40 for key in distinct):
        counted = exact and len(values) > _FEW
        told = [json_literal(value_of(key)) + (f" ×{n:,}" if counted else "") for key, n in distinct.most_common(_FEW)]
        return "|".join(told) + others
    top, times = distinct.most_common(1)[0]
    if isinstance(value_of(top), str) and times > 2 and len(distinct) * 4 <= len(values):
        shown = 3 if len(str(value_of(top))) <= _SHORT else 1
        most = ", ".join(
            json_literal(value_of(key), _SHORT if shown > 1 else _TEXT) + (f" ×{n:,}" if exact else "")
            for key, n in distinct.most_common(shown)
        )
        return f"{names}, {about}{len(distinct):,} distinct, most often {most}"
    return f"{names} {_example(values, kinds, about)}".rstrip()


def types(values: list[Any]) -> str:
    return _names_of(Counter(map(type, values)))


def _names_of(kinds: Counter[type]) -> str:
    return "|".join(_TYPES.get(kind, "?") for kind, _ in kinds.most_common())


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and isnan(value)


def _itself(value: Any) -> Any:
    return value


def _is_varied(values: list[Any], kinds: Counter[type]) -> bool:
    """Texts or numbers of which so many are different that there is no use in counting them."""
    if len(values) < 4 * _SOME_VALUES or (kinds.keys() != {str} and kinds.keys() - {int, float}):
        return False
    return len(set(spread(values, _SOME_VALUES))) > _VARIED * _SOME_VALUES


def _is_prose(values: list[Any]) -> bool:
    """Long texts, nearly each of them another: to count them costs much and tells nothing."""
    some = [value for value in values[:: max(1, len(values) // _PROBED)] if isinstance(value, str)]
    return len(some) > _PROBED // 2 and sum(map(len, some)) > _LONG * len(some) and len(set(some)) * 4 > 3 * len(some)


def json_literal(value: Any, most: int = _TEXT) -> str:
    if isinstance(value, str):
        return quoted(value, most)
    return cut(json.dumps(value), most)


def quoted(text: str, most: int = _TEXT) -> str:
    """`text` in quotes. Where it is cut, the `…` is inside."""
    return '"' + cut(readable(text[: most * 4]) + ("…" if len(text) > most * 4 else ""), most) + '"'


def _distinct(values: list[Any], kinds: Counter[type]) -> Counter[Any]:
    """How often each value occurs; of several types, each with its type."""
    values = values[:_LOOKED_AT]
    # 1, 1.0 and True are equal in Python and different in JSON.
    return Counter(values) if len(kinds) == 1 else Counter(zip(map(type, values), values, strict=True))


def _example(values: list[Any], kinds: Counter[type], about: str) -> str:
    if kinds.keys() <= {int, float, type(None)}:
        numbers = values if kinds.keys() <= {int} else [v for v in values if v is not None and not isnan(v)]
        if numbers:
            return f"{about}{_number(min(numbers))}…{_number(max(numbers))}"
    for value in values:
        if isinstance(value, str) and value.strip():
            return quoted(value)
    return ""


def _number(number: float) -> str:
    return repr(number) if isinstance(number, float) else cut(str(number), 24) if abs(number) < 1e300 else "…"


# What to ask next of JSON: its largest table by SQL, values of it by path, and a word of it by grep.


_DEEPEST_LEAD = 3  # steps to a table
_LEAD_KEYS = 16  # members of a record that are looked at
_VALUES = 2000  # values of each
_BRIEF_OF = 200  # of them by which it is told whether they are long
_HIGH = 24  # a column with no more different values is counted by before others
_NAMES = ("name", "title", "id", "key", "path", "url", "message", "label", "code")
_LONGEST_NAME = 60
_SMALLEST, _SMALL = 12, 700  # characters of a value that is worth a call, and that is short enough for one
_WORD = lazy_pattern(r"[^\W\d_]{3,20}")
_SOUGHT = lazy_pattern(r"\w[\w .:/-]{2,28}\w")
_CAMEL = lazy_pattern(r"[A-Z]?[a-z]{3,20}|[A-Z]{3,20}")
_SHOWN_KEY = lazy_pattern(r"[\w$@./: {}-]{1,48}")

Counts = dict[int, tuple[int, bool]]
Sql = Literal["plain", "at", "none"]
"""Whether SQL can be asked of it: of the output as it is, only with `at`, or not."""


@record
class _Table:
    """An array of records, or a map: something that SQL can be asked of."""

    group: Group  # of the one container
    rows: Group  # its elements, or the values of its members
    size: float


@record
class _Field:
    name: str
    group: Group
    distinct: int
    is_text: bool
    repeats: bool  # so often that it is worth counting by


def json_leads(root: Group, counts: Counts, sql: Sql = "plain") -> tuple[Lead, ...]:
    tables = sorted(_tables(root, counts, _DEEPEST_LEAD), key=lambda table: -table.size)
    if not tables:
        return _plain(root)
    largest = tables[0]
    leads = _of_map(largest) if largest.group.objects else _of_records(largest, sql)
    fit = (lead for lead in leads if all(len(str(value)) <= 160 for value in lead.arguments.values()))
    return tuple(lead for lead in fit if sql != "none" or "sql" not in lead.arguments)


def _tables(group: Group, counts: Counts, deep: int) -> Iterator[_Table]:
    if len(group.values) != 1:
        return
    value = group.values[0]
    size = counts.get(id(value), (max(map(len, [*group.objects, *group.arrays]), default=0), True))[0]
    if group.arrays and group.elements.values:
        yield _Table(group, group.elements, size if group.elements.objects else size / 1000)
    elif group.objects and group.is_map:
        yield _Table(group, group.entries, size)
    elif group.objects and deep:
        for key in list(group.keys)[:_LEAD_KEYS]:
            if _SHOWN_KEY.fullmatch(readable(key)):
                yield from _tables(group.member(key), counts, deep - 1)


def _of_records(table: _Table, sql: Sql) -> Iterator[Lead]:
    at = {} if table.group.path == "$" and sql == "plain" else {"at": table.group.path}
    if not table.rows.objects:
        if _is_brief(table.rows.values[:5]):
            yield Lead("query", {"path": f"{table.group.path}[0:5]"})
        return
    fields = list(_fields(table.rows))
    counted = min(
        (field for field in fields if field.repeats and _is_brief(field.group.values)), key=_dullness, default=None
    )
    if counted is not None and not _is_told(counted):
        yield Lead("query", {**at, "sql": by_value(column(counted.name))})
    elif fields:
        short = sorted((field for field in fields if _is_brief(field.group.values)), key=_is_told)
        names = ", ".join(column(field.name) for field in short[:3]) or f"left({column(fields[0].name)}, {BRIEF})"
        yield Lead("query", {**at, "sql": f"select {names} from t limit 5"})  # noqa: S608 - a text to read
    named = min(_named(table.rows, fields), key=lambda each: each[0], default=None)
    chosen = named[1] if named else counted.group if counted else None
    if chosen is None and fields and sql == "none":
        chosen = fields[0].group
    if chosen is not None and _is_brief(chosen.values):
        yield Lead("query", {"path": chosen.path})
        yield from _word([value for value in chosen.values[1:50] if isinstance(value, str)])


def _is_brief(values: list[Any]) -> bool:
    """Whether none of them is long, so that an answer with a few is short."""
    for value in values[:_BRIEF_OF]:
        left, size = [value], 0
        while left and size <= BRIEF:
            one = left.pop()
            if isinstance(one, dict):
                left += [part for pair in islice(cast("dict[str, Any]", one).items(), BRIEF) for part in pair]
            elif isinstance(one, list):
                left += cast("list[Any]", one)[:BRIEF]
            size += len(one) if isinstance(one, str) else 4
        if size > BRIEF:
            return False
    return True


def _named(rows: Group, fields: list[_Field]) -> Iterator[tuple[int, Group]]:
    """Texts by which records are distinguished, with a rank; also those one step further in."""
    yield from ((_rank(field.name), field.group) for field in fields if field.is_text and not field.repeats)
    for key in list(rows.keys)[:_LEAD_KEYS]:
        inner = rows.member(key) if _SHOWN_KEY.fullmatch(readable(key)) else None
        if inner is not None and inner.objects and not inner.arrays and not inner.is_map:
            for field in _fields(inner):
                if field.is_text and not field.repeats:
                    yield _rank(field.name) + 1, field.group


def _of_map(table: _Table) -> Iterator[Lead]:
    entries = cast("dict[str, Any]", table.group.values[0])
    short = [key for key in entries if _SHOWN_KEY.fullmatch(readable(key))] or [""]
    middle = short[len(short) // 2 :][:_LEAD_KEYS]
    small = next((key for key in middle if table.rows.exact and _is_small(entries.get(key))), "")
    key = readable(small or middle[0])
    words = _CAMEL.findall(key) or _WORD.findall(key)
    if words:
        sql = f"select key from t where key like '%{words[-1]}%'"  # noqa: S608 - a text to read
        at = {} if table.group.path == "$" else {"at": table.group.path}
        yield Lead("query", {"at": "$", "sql": sql, **at})
    if small:
        yield Lead("query", {"path": table.group.path + step(small)})
    yield from _word([key])


def _is_small(value: Any) -> bool:
    """Whether it is a container that one short answer holds."""
    return type(value) in (dict, list) and _SMALLEST < len(repr(value)) <= _SMALL


def _fields(rows: Group) -> Iterator[_Field]:
    """The scalar members that most records have, and whose name can be written down and is no other one's in SQL."""
    known: set[str] = set()
    for key in list(rows.keys)[:_LEAD_KEYS]:
        if key.casefold() in known:
            continue
        known.add(key.casefold())
        if not _SHOWN_KEY.fullmatch(readable(key)) or rows.keys[key] * 2 < len(rows.objects):
            continue
        member = rows.member(key)
        if member.objects or member.arrays:
            continue
        values = [value for value in member.values[:_VALUES] if value is not None]
        distinct = len(set(map(str, values)))
        repeats = distinct > 1 and distinct * (2 if distinct <= _HIGH else 4) <= len(values)
        yield _Field(readable(key), member, distinct, str in member.kinds, repeats)


def _dullness(field: _Field) -> tuple[bool, bool, bool]:
    return _is_told(field), field.distinct > _HIGH, not field.is_text


def _is_told(field: _Field) -> bool:
    """Of a few values the shape tells already how often each occurs."""
    return field.distinct <= _FEW and field.group.exact


def _rank(key: str) -> int:
    return next((at for at, name in enumerate(_NAMES) if name in key.lower()), len(_NAMES))


def _plain(root: Group) -> tuple[Lead, ...]:
    """The first member that is short: one long text, as `{"result": "…"}` holds it, is read by its bytes."""
    named = (key for key in list(root.keys)[:_LEAD_KEYS] if _SHOWN_KEY.fullmatch(readable(key)))
    brief = (key for key in named if _is_brief(root.member(key).values))
    return tuple(Lead("query", {"path": root.path + step(key)}) for key in islice(brief, 1))


def _word(values: list[str]) -> Iterator[Lead]:
    for value in values:
        text = readable(value)
        words = _WORD.findall(text[:_LONGEST_NAME])
        if words and not HASH.fullmatch(text):
            yield Lead("grep", {"pattern": literal(text if _SOUGHT.fullmatch(text) else max(words, key=len))})
            return


# The shape of JSON in lines: each tells one path and those below it that are short, and can be read alone.
#
# The paths are written as the path query reads them. What stands for many values comes first.


_PLAIN = lazy_pattern(r"(?:[^\W\d]|[$@])[\w$@.-]*")
_INLINE = 80  # a container whose shape is longer gets a line of its own
_INLINE_ROOT = 360  # the elements of the root have more room
_ROOTS = ("$[*]", "$.*")
_LONGEST = 340  # a line that would be longer is written in the next way
_ROOT_SHARE = 0.6  # of the room, where there is more to tell than the root
_MAX_LINES = 14
_DEEPEST = 9  # steps of a path that are told
_LONGEST_PATH = 240
_MISSES = 4  # lines that do not fit before it gives up
_EXAMPLE_KEY = 56
_SHORT_KEY = 24
_LARGE = 100  # values below a record whose names are told, however little room there is
_BY_TYPE, _FEW_VALUES = ("str", "int", "float"), 32  # all values of a scalar, in so many characters, beside its type
_MIDDLE = 16  # keys in the middle of a map, of which the shortest is shown


@record
class _Way:
    """How much a line tells: levels of containers, characters of the names of one, members of a record."""

    levels: int
    names: int
    keys: int


_WAYS = (_Way(3, _INLINE, 28), _Way(1, _INLINE, 28), _Way(0, _INLINE, 28), _Way(0, 32, 20), _Way(0, 14, 12))


@record(frozen=False)
class _Part:
    """Members of a record that hold like records, told once: `get?|post?|put?`."""

    labels: list[str]
    group: Group
    text: str

    def is_like(self, other: Group) -> bool:
        mine, theirs = self.group.keys.keys(), other.keys.keys()
        if len(theirs) < 5 or other.is_map or self.group.is_map:
            return False
        return len(mine & theirs) * 10 >= 7 * len(mine | theirs)


class Shapes:
    """Writes the shape of `seen`."""

    def __init__(self, seen: Seen) -> None:
        self._counts = seen.counts
        self._allowance = Allowance()
        self._root = Group("$", [seen.value], seen.whole, self._allowance)
        self._waiting: list[Group] = []
        self._short = False
        self._way = _WAYS[0]
        self._stands: dict[str, str] = {}  # names that stand for a group until it gets a line of its own
        self._told: dict[str, str] = {}  # scalars by path: a line may be written more than once
        self._size_texts: dict[tuple[str, type], str] = {}  # the same for how many members containers have

    @property
    def sampled(self) -> bool:
        """Whether what `lines` told comes from some of the values only."""
        return not self._root.exact or self._allowance.was_short

    def leads(self, sql: Sql = "plain") -> tuple[Lead, ...]:
        return json_leads(self._root, self._counts, sql)

    def lines(self, room: Room) -> list[str]:
        root = self._line(self._root, room)
        if self._waiting:
            self._waiting = []
            root = self._line(self._root, room.less(_ROOT_SHARE))
        lines, small = [room.cut(root, 80)], room.is_small
        room = room.after(lines)
        misses = 0
        while self._waiting and len(lines) < _MAX_LINES and misses < _MISSES:
            self._waiting.sort(key=_weight)
            group = self._waiting.pop(0)
            if small and not group.objects and not group.elements.objects and not group.elements.arrays:
                continue  # a list of plain values, which is told by its length
            others = list(self._waiting)
            named = f" × {self._stands.get(group.path, '')}]"  # in an earlier line, which need not tell it twice
            freed = Room(room.size + (room.cost(named) if any(named in line for line in lines) else 0), room.cost)
            line = self._line(group, freed)
            if freed.of(line) > freed.size and len(group.values) > 1:
                self._waiting = others
                line = self._in_short(group, freed)
            if line.partition(": ")[2].partition(", … +")[0].removesuffix("}") in lines[-1]:
                continue  # only its names fit, and these are told already
            if freed.of(line) > freed.size:
                misses += 1
                continue
            if group.path == "$[*]" and lines == [f"[{self._sizes(self._root, self._root.arrays)}{named}"]:
                lines = [lines[0].replace(named, f" × {line.partition(': ')[2]}]")]
                room = freed.after([line])
                continue
            if _tells_names(line, named):
                lines, room = [one.replace(named, "]") for one in lines], freed
            lines.append(line)
            room = room.after([line])
        return lines

    def _in_short(self, group: Group, room: Room) -> str:
        """Its line with the types of the scalars instead of what is in them, or with its names only."""
        self._short = True
        try:
            line = self._line(group, room)
            return line if room.of(line) <= room.size or not group.objects else f"{group.path}: {_names(group, 40)}"
        finally:
            self._short = False

    def _line(self, group: Group, room: Room) -> str:
        """In the first way that is short enough and for which there is room."""
        lead = "" if group.path == "$" else f"{cut(group.path, _LONGEST_PATH)}: "
        waiting = list(self._waiting)
        text = ""
        for self._way in _WAYS:
            self._waiting = list(waiting)
            text = lead + cut(self._shape(group, self._way.levels), 2 * _LONGEST)
            if len(text) - len(lead) <= _LONGEST and room.of(text) <= room.size:
                break
        return text

    def _shape(self, group: Group, levels: int) -> str:
        texts: list[str] = []
        if group.objects:
            texts.append(self._objects(group, levels))
        if group.arrays:
            texts.append(self._arrays(group, levels))
        if group.plain:
            texts.append(self._scalars(group))
        return "|".join(texts) or "?"

    def _arrays(self, group: Group, levels: int) -> str:
        if not group.elements.values:
            return "[]"
        return f"[{self._sizes(group, group.arrays)} × {self._child(group.elements, levels)}]"

    def _objects(self, group: Group, levels: int) -> str:
        keys = group.keys
        if not keys:
            return "{}"
        if group.is_map:
            return f"{{{self._map(group)}: {self._child(group.entries, levels)}}}"
        most = self._way.keys
        names = list(keys) if len(keys) <= most else [key for key, _ in keys.most_common(most)]
        parts: list[_Part] = []
        for key in names:
            label = _name(key) + ("?" if keys[key] < len(group.objects) else "")
            child = group.member(key)
            twin = next((part for part in parts if part.is_like(child)), None)
            if twin:
                twin.labels.append(label)
            else:
                parts.append(_Part([label], child, self._child(child, levels)))
        texts = [f"{'|'.join(part.labels)}: {part.text}" for part in parts]
        if len(keys) > most:
            texts.append(f"… +{figure(len(keys) - most, group.exact)} keys")
        return "{" + ", ".join(texts) + "}"

    def _child(self, group: Group, levels: int) -> str:
        if not group.objects and not group.arrays:
            return self._scalars(group) if group.values else "?"
        waiting = len(self._waiting)
        if levels > 0 and not _is_wide(group):
            text = self._shape(group, levels - 1)
            if len(text) <= (_INLINE_ROOT if group.path in _ROOTS else _INLINE):
                return text
            del self._waiting[waiting:]  # they will be found again from the line of this group
        return self._stand_in(group)

    def _stand_in(self, group: Group) -> str:
        """What stands for a group that gets a line of its own later."""
        if group.path.count(".") + group.path.count("[") > _DEEPEST:
            return "{…}" if group.objects else "[…]"
        if group.arrays and not group.objects:
            inner = group.elements
            if self._way is _WAYS[-1]:
                self._waiting.append(inner if inner.objects or inner.arrays else group)
                return f"[{self._sizes(group, group.arrays)}]"
            if inner.objects or inner.arrays:
                return f"[{self._sizes(group, group.arrays)} × {self._stand_in(inner)}]"
            self._waiting.append(group)
            return f"[{self._sizes(group, group.arrays)}]"
        if group.is_map:
            inner = group.entries
            if not inner.objects and not inner.arrays:
                return f"{{{self._map(group)}: {self._scalars(inner)}}}"
            self._waiting.append(inner)
            values = f": {_names(inner, self._way.names // 2)}" if inner.objects and not inner.is_map else ""
            return f"{{{self._map(group)}{values if self._way.names == _INLINE else ''}}}"
        self._waiting.append(group)
        names = _names(group, _INLINE if _below(group) >= _LARGE else self._way.names)
        self._stands[group.path] = names
        return names

    def _map(self, group: Group) -> str:
        """How many keys it has, with one of them; two where they are short."""
        return f"{self._sizes(group, group.objects)} keys like {_like(group.keys, several=self._way.names == _INLINE)}"

    def _scalars(self, group: Group) -> str:
        if group.path not in self._told and not (self._short and len(set(map(type, group.plain))) > 1):
            self._told[group.path] = scalars(group.plain, exact=group.exact or _is_alone(group))
        told = self._told.get(group.path, "")
        if self._short and (not told or told.startswith(_BY_TYPE) or len(told) > _FEW_VALUES):
            return types(group.plain)
        return told

    def _sizes(self, group: Group, containers: list[list[object]] | list[dict[str, object]]) -> str:
        key = group.path, type(containers[0])
        if key not in self._size_texts:
            self._size_texts[key] = self._new_sizes(group, containers)
        return self._size_texts[key]

    def _new_sizes(self, group: Group, containers: list[list[object]] | list[dict[str, object]]) -> str:
        if self._counts:
            known = [self._counts.get(id(each), (len(each), True)) for each in containers]
        else:
            known = [(size, True) for size in set(map(len, containers))]
        if len(containers) == 1 and (group.exact or _is_alone(group)):
            return figure(*known[0])
        low, high = min(size for size, _ in known), max(size for size, _ in known)
        if low == high:
            told = figure(low, all(is_all for _, is_all in known))  # where the sample ends in one, it may have more
            return told if group.exact else f"e.g. {told}"
        return f"{'' if group.exact else 'at least '}{low:,}–{high:,}"


def _is_alone(group: Group) -> bool:
    """Whether there is one value at its path, however much of the text was looked at."""
    return "[*]" not in group.path and ".*" not in group.path


def _is_wide(group: Group) -> bool:
    """Cheap: it cannot fit on a part of a line."""
    most = 12 if group.path in _ROOTS else 9
    return any(len(value) > most for value in islice(group.objects, 3))


def _like(keys: Counter[str], *, several: bool) -> str:
    """A short one from the middle, where keys are most like the others, and the last where both are short."""
    ordered = list(keys)
    middle = len(ordered) // 2
    examples = [min(ordered[middle : middle + _MIDDLE], key=len), ordered[-1]]
    few = not several or max(map(len, examples)) > _SHORT_KEY
    return ", ".join(quoted(key, _EXAMPLE_KEY) for key in examples[: 1 if few else 2])


def _names(group: Group, room: int) -> str:
    """Only the names of a record, as many as there is room for."""
    ordered = group.keys.most_common(_WAYS[0].keys)
    names = [_name(key) + ("?" if times < len(group.objects) else "") for key, times in ordered]
    shown = 0
    while shown < len(names) and room > len(names[shown]):
        room -= len(names[shown]) + 2
        shown += 1
    shown += len(names) == len(group.keys) == shown + 1  # to say that there is one more is as long as its name
    left = len(group.keys) - shown
    return "{" + ", ".join([*names[:shown], *([f"… +{figure(left, group.exact)} keys"] if left else [])]) + "}"


def _tells_names(line: str, named: str) -> bool:
    """Whether every name of ` × {one, other?, … +3 keys}]` is in the line."""
    names = named.removeprefix(" × {").removesuffix("}]").split(", ")
    return len(names[0]) > 0 and all(name in line or name.startswith("…") for name in names)


def _weight(group: Group) -> float:
    """What stands for many values is told before what occurs once, unless it is much deeper."""
    depth = group.path.count(".") + group.path.count("[")
    return depth - min(2.5, math.log10(max(1, len(group.values), _below(group) / 4)))


def _below(group: Group) -> int:
    """How many values are in the containers of its first records."""
    return sum(
        len(cast("list[object]", value))
        for each in islice(group.objects, 20)
        for value in islice(each.values(), 20)
        if isinstance(value, dict | list)
    )


def _name(key: str) -> str:
    shown = readable(key)
    return shown if _PLAIN.fullmatch(shown) and len(shown) <= _EXAMPLE_KEY else quoted(key, _EXAMPLE_KEY)


# Lines that are JSON each: the shape of all of them as one.


_AFFORDABLE = 25.0  # milliseconds for which all lines of an output that was read whole are parsed; else …
_RECORDS = 4000  # … so many of them, …
_BYTES = 1024 * 1024  # … and no more bytes


def ndjson_outline(sample: Sample, room: Room) -> Outline | None:
    whole = sample.whole and cost(sample.head) <= _AFFORDABLE
    if sample.whole and not whole:
        sample = thinned(sample, min(1.0, 2 * _BYTES / sample.size))
    lines = split(sample, every=True)
    whole &= lines.exact
    texts = [text for text in lines.texts if text.strip()]
    each = sum(map(len, texts)) / max(1, len(texts))
    texts = texts if whole else spread(texts, max(1, min(_RECORDS, int(_BYTES / max(1.0, each)))))
    records = _records(texts)
    if not records:
        return None
    seen = Seen(records, whole=whole)
    seen.counts[id(records)] = len(records), whole
    shapes = Shapes(seen)
    told = shapes.lines(room)
    broken = len(texts) - len(records)
    if broken:
        told.insert(1, f"{figure(broken, whole)} line{'' if broken == 1 else 's'} not JSON")
    return Outline("ndjson", fitted(told, room), shapes.sampled, (), leads=shapes.leads())


def _records(texts: list[bytes]) -> list[Any]:
    """All at once, which is faster; one by one where one of them is not JSON."""
    try:
        found = loads("[" + b",".join(texts).decode("latin-1") + "]")
        if len(found) == len(texts):
            return found
    except (json.JSONDecodeError, RecursionError):
        pass
    records: list[Any] = []
    for text in texts:
        try:
            records.append(loads(text.decode("latin-1")))
        except (json.JSONDecodeError, RecursionError):
            continue
    return records


# JSON: its shape with types, counts, optional keys and example values.


def json_outline(sample: Sample, room: Room) -> Outline | None:
    """None if it is not JSON, not even the beginning of it; and where most of it is other text."""
    seen = see_all(sample)
    if seen is not None and seen.text_from is not None and seen.text_from * 2 < sample.size:
        return None
    if seen is None or (not seen.whole and not _tells(seen.value)):
        return None
    shapes = Shapes(seen)
    notes = list(_notes(seen))
    lines = shapes.lines(room.after(notes))
    lines[1:1] = notes
    leads = shapes.leads(_sql(seen, sample))
    return Outline(_label(seen), fitted(lines, room), shapes.sampled, (), leads=leads, ends=False)


def _notes(seen: Seen) -> Iterator[str]:
    if seen.several:
        yield "values one after the other: a path sees them as one array, $[0], $[1], …"
    if seen.text_from is not None:
        yield f"other text follows the JSON, from byte {seen.text_from:,} on"
    if seen.note:
        yield f"{seen.note}; the shape is that of the part before"
    elif not seen.whole:
        yield "shape from a sample"


def _sql(seen: Seen, sample: Sample) -> Sql:
    """SQL wants all of it to be sound; a path finds what is before the fault."""
    if seen.note:
        return "none"
    if seen.several:
        is_json = sample.head.lstrip()[:1] == b"{" and sample.tail.rstrip()[-1:] == b"}"
        return "plain" if is_json and seen.whole else "none"
    return "at" if seen.text_from is not None else "plain"


def _tells(value: object) -> bool:
    return bool(value) and type(value) in (dict, list)


def _label(seen: Seen) -> str:
    value = seen.value
    root = cast("dict[str, Any]", value) if isinstance(value, dict) else dict[str, Any]()
    for label, keys in _KNOWN.items():
        if all(key in root for key in keys):
            return label
    return "json"


_KNOWN = {
    "openapi": ("openapi", "paths"),
    "swagger": ("swagger", "paths"),
    "notebook": ("cells", "nbformat"),
    "geojson": ("type", "features"),
    "sarif": ("runs", "version"),
    "json schema": ("$schema", "properties"),
}
