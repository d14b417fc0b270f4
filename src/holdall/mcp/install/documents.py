"""A client's configuration as text, in JSON with comments or TOML: where the servers are in it, and the edits that
change one of them. YAML is in `yaml_document`, which needs a package.

A document proposes edits and applies none; everything that an edit does not name stays byte for byte. Nothing here
knows what a gateway is, and nothing touches a file.
"""

import json
import re
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

from holdall.text.json.jsonc import Edit, Member, Place, Places, parse_jsonc
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

Path = tuple[str, ...]
Pairs = Sequence[tuple[str, str]]

_ODD = "it is written in a way that is not changed here"
_INLINE = "it is written on one line; write it as a table of its own"
_LARGEST = 1024 * 1024  # characters of TOML: a configuration has a few thousand
# A key of that many parts, of which every beginning would be remembered; or a text that looks like one.
_MANY_PARTS = lazy_pattern(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){50}""")
_LINE_ENDS = lazy_pattern("[\x7f-\x9f\u2028\u2029\ufeff]")  # which JSON writes as they are, and others read otherwise


@record
class Server:
    """One server of a client. `label` is its name, with where it stands if there are more of that name.

    `members` are the keys that have a place each; `entry` holds all of them. `unmoved` says why the entry could not be
    written anew as a whole, if so.
    """

    name: str
    path: Path
    entry: Mapping[str, Any]
    place: Place
    members: tuple[Member, ...]
    unmoved: str = ""
    label: str = ""

    @property
    def fields(self) -> Mapping[str, Place]:
        return {member.name: member.place for member in self.members}


@record
class Found:
    """`odd` are places where a server, or servers, should be and something else is."""

    servers: tuple[Server, ...]
    odd: tuple[tuple[str, str], ...]
    has_table: bool


class Document(ABC):
    """What the formats share: lists in brackets, and keys that go on where another key ends."""

    format = ""

    def __init__(self, text: str) -> None:
        """Raises ValueError or RecursionError."""
        found = self.parse(text)
        if not isinstance(found, dict):
            raise ValueError(f"it is not a {self.format} object")
        self.text = text
        self.value = cast("dict[str, Any]", found)

    @staticmethod
    @abstractmethod
    def parse(text: str) -> object:
        """The whole text as values. Raises ValueError or RecursionError."""

    @staticmethod
    @abstractmethod
    def quoted(value: object) -> str:
        """A text, or a list or table of texts, as this format writes them."""

    @abstractmethod
    def tables(self, names: Collection[str]) -> Iterator[tuple[Path, object, list[Server]]]:
        """Where servers are: the path, what is there, and those that are tables themselves."""

    @abstractmethod
    def items(self, place: Place) -> Sequence[tuple[Place, int]]:
        """Of a list, each with the end of the comma after it, or 0."""

    @abstractmethod
    def joint(self, server: Server) -> str:
        """Between two keys of this entry."""

    @abstractmethod
    def pair(self, key: str, raw: str) -> str:
        """A key and its value, as this format writes them."""

    @abstractmethod
    def swapped(self, server: Server, first: str, pairs: Pairs, gone: Collection[str]) -> list[Edit]:
        """The entry with `pairs` in place of its key `first`, and without the keys that are `gone`."""

    @abstractmethod
    def alone(self, server: Server, raw: str, table: str) -> "Document":
        """A document that holds this entry and nothing else; `raw` is what stands in its place."""

    @abstractmethod
    def entry_text(self, name: str, entry: Mapping[str, Any], table: str) -> str:
        """What could stand in the place of an entry."""

    @abstractmethod
    def has_comments(self, place: Place) -> bool:
        """Whether there are any in this place."""

    def gap_end(self, at: int) -> int:
        """After the space there: a comment in it stays."""
        while at < len(self.text) and self.text[at].isspace():
            at += 1
        return at

    def raw(self, place: Place) -> str:
        return self.text[place.start : place.end]

    def item_raw(self, place: Place) -> str:
        """As it can stand in a list."""
        return self.raw(place)

    def raw_of(self, server: Server, key: str) -> str:
        place = server.fields.get(key)
        return self.quoted(server.entry[key]) if place is None else self.raw(place)

    def joined(self, server: Server, pairs: Pairs) -> str:
        return self.joint(server).join(self.pair(key, raw) for key, raw in pairs)

    def servers_at(self, table: str, name: str) -> Server:
        """Raises LookupError."""
        for path, _, servers in self.tables({table}):
            for server in servers:
                if (path, server.name) == ((table,), name):
                    return server
        raise LookupError(name)

    def prepended(self, place: Place, raws: Sequence[str]) -> list[Edit]:
        """A list with these before its items."""
        comma = ", " if place.value else ""
        return [(place.start + 1, place.start + 1, ", ".join(raws) + comma)]

    def dropped(self, place: Place, count: int) -> list[Edit]:
        """A list without its first items: exactly what `prepended` wrote, if it is still as it was written."""
        items = list(self.items(place))
        gone = [one for one, _ in items[:count]]
        last, comma = items[count - 1]
        glued = gone[0].start == place.start + 1
        glued = glued and all(self.text[one.end : other.start] in (", ", ",") for one, other in pairwise(gone))
        if glued and count == len(items) and not comma:
            return [(gone[0].start, last.end, "")]
        if glued and self.text[last.end : last.end + 2] == ", ":
            return [(gone[0].start, last.end + 2, "")]
        return [(one.start, self.gap_end(end) if end else one.end, "") for one, end in items[:count]]

    def is_glued(self, place: Place, at: int) -> bool:
        """Whether no space is before the item there, but before all others: so it is where there was no list."""
        items = [one for one, _ in self.items(place)][: at + 1]
        gaps = [self.text[one.end : other.start] for one, other in pairwise(items)]
        return gaps[-1:] == [","] and set(gaps[:-1]) <= {", "} and items[0].start == place.start + 1


class JsonDocument(Document):
    """JSON, with or without comments."""

    format = "JSON"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._places = Places(text)

    @staticmethod
    def parse(text: str) -> object:
        return parse_jsonc(text)

    @staticmethod
    def quoted(value: object) -> str:
        return json.dumps(value)

    def tables(self, names: Collection[str]) -> Iterator[tuple[Path, object, list[Server]]]:
        places = self._places
        for one in places.members(places.top()):
            if one.name in names:
                yield (one.name,), one.place.value, self._servers((one.name,), one.place)
            elif one.name == "projects" and isinstance(one.place.value, dict):
                for project in places.members(one.place):
                    if isinstance(project.place.value, dict):
                        for inner in places.members(project.place):
                            if inner.name in names:
                                path = (one.name, project.name, inner.name)
                                yield path, inner.place.value, self._servers(path, inner.place)

    def _servers(self, path: Path, table: Place) -> list[Server]:
        if not isinstance(table.value, dict):
            return []
        found = (one for one in self._places.members(table) if isinstance(one.place.value, dict))
        return [
            Server(
                one.name, (*path, one.name), cast("dict[str, Any]", one.place.value), one.place,
                tuple(self._places.members(one.place)),
            )
            for one in found
        ]  # fmt: skip

    def items(self, place: Place) -> Sequence[tuple[Place, int]]:
        return list(self._places.items(place))

    def joint(self, server: Server) -> str:  # noqa: ARG002
        return ", "

    def pair(self, key: str, raw: str) -> str:
        return f"{json.dumps(key)}: {raw}"

    def swapped(self, server: Server, first: str, pairs: Pairs, gone: Collection[str]) -> list[Edit]:
        return self._places.swapped(server.members, first, self.joined(server, pairs), gone)

    def alone(self, server: Server, raw: str, table: str) -> Document:
        return JsonDocument(f"{{{json.dumps(table)}: {{{json.dumps(server.name)}: {raw}}}}}")

    def entry_text(self, name: str, entry: Mapping[str, Any], table: str) -> str:  # noqa: ARG002
        return json.dumps(entry)

    def has_comments(self, place: Place) -> bool:
        return self._places.has_comments(place)


# One that never ends is matched too: otherwise everything after it would be read again from each quote in it.
_STRINGS = lazy_pattern(r"""\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?""", re.DOTALL)


class LineDocument(Document):
    """What has a key on each line has in common."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"

    @staticmethod
    def quoted(value: object) -> str:
        return _LINE_ENDS.sub(lambda one: f"\\u{ord(one[0]):04x}", json.dumps(value, ensure_ascii=False))

    def has_comments(self, place: Place) -> bool:
        return "#" in _STRINGS.sub("", self.raw(place))

    def is_inline(self, server: Server) -> bool:
        return server.place.end > server.place.start and self.text[server.place.start] == "{"

    def joint(self, server: Server) -> str:
        return ", " if self.is_inline(server) else self.newline + self._indent(server.members[0].start)

    def swapped(self, server: Server, first: str, pairs: Pairs, gone: Collection[str]) -> list[Edit]:
        place = next(one for one in server.members if one.name == first)
        edits = [(place.start, place.place.end, self.joined(server, pairs))]
        kept = max(end for _, end in self.spans(server, server.entry.keys() - gone))
        done = 0
        for start, end in sorted(self.spans(server, gone)):
            if start < kept and end > done:  # what is inside another one goes with it
                done = self._next_line(end)
                edits.append((self.text.rfind("\n", 0, start) + 1, done, ""))
        if self.line_end(kept) < server.place.end:  # with the comments between what goes: they come back with it
            edits.append((self._next_line(kept), self._next_line(server.place.end), ""))
        return edits

    def line_end(self, at: int) -> int:
        """With the comment that stands there."""
        return at + len(self.text[at : self._next_line(at)].rstrip())

    def _next_line(self, at: int) -> int:
        return self.text.find("\n", at) + 1 or len(self.text)

    def spans(self, server: Server, keys: Collection[str]) -> Iterator[tuple[int, int]]:
        """From the start of each of these keys to the end of its value."""
        return ((one.start, one.place.end) for one in server.members if one.name in keys)

    def _indent(self, at: int) -> str:
        before = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return before if before.isspace() else ""


# TOML: the standard library reads it, and this finds where each key and value is. What it scans was read by the library
# before, so it is well formed.


_TOML_STRING = lazy_pattern(
    r'"""(?:[^\\]|\\.)*?"{3,5}(?!")' r"|'''.*?'{3,5}(?!')" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)
_TOML_KEY = lazy_pattern(r"""[A-Za-z0-9_-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*'""")
_TOML_GAP = lazy_pattern(r"(?:\s|#[^\n]*)*")
_TOML_SPACE = lazy_pattern(r"[ \t]*")
_DEEPEST = 2  # a server's keys have places, and what is in them needs none
_TOML_PLAIN = lazy_pattern(r"[^,\]}#\n]*")


@record
class _Line:
    """One `key = value`, its path from the top, or (without a value) one `[header]`."""

    path: Path
    start: int
    end: int
    value: tuple[int, int] | None = None
    number: int = 0


class TomlDocument(LineDocument):
    """TOML as its clients write it: a table for each server, perhaps with tables in it."""

    format = "TOML"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._of: dict[Path, list[_Line]] = {}  # by table and server
        for number, line in enumerate(self._scan()):
            self._of.setdefault(line.path[:2], []).append(replace(line, number=number))

    @staticmethod
    def parse(text: str) -> object:
        if len(text) > _LARGEST or _MANY_PARTS.search(text):
            raise ValueError("it is larger than any configuration")
        return tomllib.loads(text.removeprefix("\ufeff"))

    @staticmethod
    def quoted(value: object) -> str:
        match value:
            case dict():
                pairs = cast("dict[str, object]", value).items()
                return f"{{ {', '.join(f'{_toml_key(key)} = {TomlDocument.quoted(one)}' for key, one in pairs)} }}"
            case list():
                return f"[{', '.join(map(TomlDocument.quoted, cast('list[object]', value)))}]"
            case _:
                return LineDocument.quoted(value)

    def tables(self, names: Collection[str]) -> Iterator[tuple[Path, object, list[Server]]]:
        for name in names:
            if name in self.value:
                table = self.value[name]
                entries = cast("dict[str, Any]", table).items() if isinstance(table, dict) else ()
                found = ((key, cast("dict[str, Any]", one)) for key, one in entries if isinstance(one, dict))
                yield (name,), table, [self._server((name, key), one) for key, one in found]

    def _server(self, path: Path, entry: Mapping[str, Any]) -> Server:
        own = self._of.get(path, [])
        inline = next((line for line in own if line.path == path and line.value is not None), None)
        members: list[Member] = []
        for line in own:
            if len(line.path) == len(path) + 1 and line.value is not None:
                value = entry[line.path[-1]]
                members.append(Member(line.path[-1], line.start, Place(*line.value, value), 0))
        if inline is not None and inline.value is not None:
            return Server(path[-1], path, entry, Place(*inline.value, entry), tuple(members), _INLINE)
        if not own:  # of a list of tables, or what else has no place of its own
            return Server(path[-1], path, entry, Place(0, 0, entry), (), _ODD)
        # Written anew are entries that begin with a header of their own and hold nothing of another.
        together = own[0].path == path and own[-1].number - own[0].number == len(own) - 1
        place = Place(own[0].start, self.line_end(max(line.end for line in own)), entry)
        return Server(path[-1], path, entry, place, tuple(members), "" if together else _ODD)

    def spans(self, server: Server, keys: Collection[str]) -> Iterator[tuple[int, int]]:
        at = len(server.path)
        for line in self._of.get(server.path, []):
            if len(line.path) > at and line.path[at] in keys:
                yield line.start, line.end

    def items(self, place: Place) -> Sequence[tuple[Place, int]]:
        found: list[tuple[Place, int]] = []
        at = self._gap(place.start + 1)
        for value in cast("list[object]", place.value):
            end = self._value_end(at)
            after = self._gap(end)
            comma = after + 1 if self.text[after] == "," else 0
            found.append((Place(at, end, value), comma))
            at = self._gap(comma or end)
        return found

    def pair(self, key: str, raw: str) -> str:
        return f"{_toml_key(key)} = {raw}"

    def alone(self, server: Server, raw: str, table: str) -> Document:  # noqa: ARG002
        return TomlDocument(raw)

    def entry_text(self, name: str, entry: Mapping[str, Any], table: str) -> str:
        lines = [f"[{table}.{_toml_key(name)}]", *(self.pair(key, self.quoted(one)) for key, one in entry.items())]
        return self.newline.join(lines)

    def _scan(self) -> Iterator[_Line]:
        at, header = self._gap(1 if self.text.startswith("\ufeff") else 0), Path()
        while at < len(self.text):
            if self.text[at] == "[":
                double = self.text.startswith("[[", at)
                path, end = self._keys(at + 1 + double)
                end += 1 + double
                header = (*path, "[]") if double else path  # of a list of tables: nobody's name has an empty bracket
                yield _Line(header, at, end)
            else:
                path, end = self._keys(at)
                yield from self._assigned((*header, *path), at, end)
                end = self._value_end(self._space(end + 1))
            at = self._gap(end)

    def _assigned(self, path: Path, start: int, equals: int) -> Iterator[_Line]:
        """The line, and what an inline table in it holds."""
        at = self._space(equals + 1)
        end = self._value_end(at)
        yield _Line(path, start, end, (at, end))
        if self.text[at] != "{" or len(path) > _DEEPEST:
            return
        at = self._gap(at + 1)
        while self.text[at] != "}":
            keys, after = self._keys(at)
            yield from self._assigned((*path, *keys), at, after)
            at = self._gap(self._value_end(self._space(after + 1)))
            if self.text[at] == ",":
                at = self._gap(at + 1)

    def _keys(self, at: int) -> tuple[Path, int]:
        """A dotted key, and where it ends: at the sign after it."""
        found: list[str] = []
        while True:
            at = self._space(at)
            match = _TOML_KEY.match(self.text, at)
            if match is None:
                raise ValueError(f"no key at {at}")
            found.append(_toml_text(match[0]))
            at = self._space(match.end())
            if self.text[at] != ".":
                return tuple(found), at
            at += 1

    def _value_end(self, at: int) -> int:
        if (string := _TOML_STRING.match(self.text, at)) is not None:
            return string.end()
        if self.text[at] not in "[{":
            plain = _TOML_PLAIN.match(self.text, at)
            return at + len(plain[0].rstrip()) if plain is not None else at
        close = "]" if self.text[at] == "[" else "}"
        at = self._gap(at + 1)
        while self.text[at] != close:
            if close == "}":
                _, at = self._keys(at)
                at = self._space(at + 1)
            at = self._gap(self._value_end(at))
            if self.text[at] == ",":
                at = self._gap(at + 1)
        return at + 1

    def _gap(self, at: int) -> int:
        match = _TOML_GAP.match(self.text, at)
        return match.end() if match is not None else at

    def _space(self, at: int) -> int:
        match = _TOML_SPACE.match(self.text, at)
        return match.end() if match is not None else at


def _toml_key(key: str) -> str:
    bare = _TOML_KEY.fullmatch(key)
    return key if bare is not None and key[0] not in "\"'" else LineDocument.quoted(key)


def _toml_text(key: str) -> str:
    if key[0] not in "\"'":
        return key
    return str(tomllib.loads(f"x = {key}")["x"])
