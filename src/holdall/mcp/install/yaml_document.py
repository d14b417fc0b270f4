"""A client's configuration in YAML. Needs the extra `agent`.

PyYAML says where each part is. Aliases are refused (a few of them can stand for a billion values), and so is the same
key twice. No tag makes anything but plain values.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, cast

from holdall.mcp.install.documents import Document, LineDocument, Pairs, Path, Server
from holdall.text.json.jsonc import Edit, Member, Place
from holdall.values.errors import MissingExtra
from holdall.values.patterns import lazy_pattern

try:
    import yaml
except ModuleNotFoundError as problem:
    raise MissingExtra("pyyaml", "agent", "changing a configuration in YAML") from problem

_LARGEST = 128 * 1024  # characters, of which PyYAML reads about a hundred thousand in a second
_PLAIN_KEY = lazy_pattern(r"[A-Za-z_][A-Za-z0-9_-]*")
_NOT_IN_LISTS = lazy_pattern(r"[,\[\]{}\n]|:$")  # in a text without quotes
_ONE_LINE = "it is written on one line; write each key on its own"


class _Loader(yaml.SafeLoader):
    """Nodes of a document without aliases."""

    def compose_node(self, parent: yaml.Node | None, index: yaml.Node | int | None) -> yaml.Node:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("it has an alias, as in *name")
        return super().compose_node(parent, index)


def _read(text: str) -> tuple[yaml.MappingNode, dict[str, Any]]:
    """Where everything is, and what. Raises ValueError."""
    if len(text) > _LARGEST:
        raise ValueError("it is larger than any configuration")
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if not isinstance(node, yaml.MappingNode):
                raise ValueError("it is not a table")
            _check_keys(node)
            return node, cast("dict[str, Any]", loader.construct_document(node))
        finally:
            loader.dispose()
    except (yaml.YAMLError, TypeError) as problem:
        raise ValueError(" ".join(str(problem).split())[:200]) from problem


def _check_keys(node: yaml.Node) -> None:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise ValueError(f"the key {key.value[:100]!r} stands twice in the same table")
                seen.add(key.value)
            _check_keys(value)
    elif isinstance(node, yaml.SequenceNode):
        for one in node.value:
            _check_keys(one)


class YamlDocument(LineDocument):
    """Tables in the block form, or on one line."""

    format = "YAML"

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._top, _ = _read(text)
        self._lists: dict[int, yaml.SequenceNode] = {}

    @staticmethod
    def parse(text: str) -> object:
        return _read(text)[1]

    def tables(self, names: Collection[str]) -> Iterator[tuple[Path, object, list[Server]]]:
        for key, table in _pairs(self._top):
            if key.value in names:
                own = _pairs(table) if isinstance(table, yaml.MappingNode) else []
                found = self.value[key.value]
                yield (key.value,), found, [
                    self._server((key.value, name.value), name, entry, found[name.value])
                    for name, entry in own
                    if isinstance(entry, yaml.MappingNode) and name.value in found
                ]  # fmt: skip

    def _server(self, path: Path, name: yaml.ScalarNode, entry: yaml.MappingNode, value: Mapping[str, Any]) -> Server:
        members: list[Member] = []
        for key, node in _pairs(entry):
            if key.value in value:
                if isinstance(node, yaml.SequenceNode):
                    self._lists[_start(node)] = node
                members.append(Member(key.value, _start(key), Place(_start(node), _end(node), value[key.value]), 0))
        if entry.flow_style:
            return Server(path[-1], path, value, Place(_start(entry), _end(entry), value), tuple(members), _ONE_LINE)
        line = self.text.rfind("\n", 0, _start(name)) + 1
        plain = not self.text[line : _start(name)].strip() and bool(members)
        place = Place(line, self.line_end(_end(entry)), value)
        return Server(path[-1], path, value, place, tuple(members), "" if plain else _ONE_LINE)

    def is_inline(self, server: Server) -> bool:
        return self.text[server.place.start] == "{"

    def items(self, place: Place) -> Sequence[tuple[Place, int]]:
        node = self._lists[place.start]
        values = cast("list[object]", place.value)
        places = [Place(_start(one), _end(one), value) for one, value in zip(node.value, values, strict=True)]
        return [(one, self._comma(one.end) if node.flow_style else 0) for one in places]

    def _comma(self, at: int) -> int:
        at = self.gap_end(at)
        return at + 1 if self.text[at] == "," else 0

    def prepended(self, place: Place, raws: Sequence[str]) -> list[Edit]:
        if self._lists[place.start].flow_style:
            return super().prepended(place, raws)
        joint = self.newline + self._indent(place.start)
        return [(place.start, place.start, "".join(f"- {raw}{joint}" for raw in raws))]

    def dropped(self, place: Place, count: int) -> list[Edit]:
        if self._lists[place.start].flow_style:
            return super().dropped(place, count)
        items = self.items(place)
        if count == len(items):
            before = self.text[: place.start].rstrip()
            colon = before.endswith(":")
            return [(len(before) if colon else place.start, items[-1][0].end, " []" if colon else "  []")]
        return [(place.start, self._dash(items[count][0].start), "")]

    def _dash(self, at: int) -> int:
        """Of the item that begins there."""
        before = self.text[:at].rstrip()
        if not before.endswith("-"):
            raise ValueError("a list is written in a way that is not known here")
        return len(before) - 1

    def item_raw(self, place: Place) -> str:
        raw = self.raw(place)
        return raw if raw[0] in "\"'" or not _NOT_IN_LISTS.search(raw) else self.quoted(place.value)

    def pair(self, key: str, raw: str) -> str:
        return f"{key if _PLAIN_KEY.fullmatch(key) else self.quoted(key)}: {raw}"

    def swapped(self, server: Server, first: str, pairs: Pairs, gone: Collection[str]) -> list[Edit]:
        if not self.is_inline(server):
            return super().swapped(server, first, pairs, gone)
        edits: list[Edit] = []
        for one in server.members:
            comma = self._comma(one.place.end)
            if one.name == first:
                edits.append((one.start, one.place.end, self.joined(server, pairs)))
            elif one.name in gone and comma:
                edits.append((one.start, self.gap_end(comma), ""))
            elif one.name in gone:
                edits.append((self.text.rfind(",", 0, one.start), one.place.end, ""))
        return edits

    def alone(self, server: Server, raw: str, table: str) -> Document:  # noqa: ARG002
        return YamlDocument(f"{table}:{self.newline}{raw}")

    def entry_text(self, name: str, entry: Mapping[str, Any], table: str) -> str:  # noqa: ARG002
        lines = [
            f"  {self.pair(name, '').rstrip()}",
            *(f"    {self.pair(key, self.quoted(one))}" for key, one in entry.items()),
        ]
        return self.newline.join(lines)


def _pairs(node: yaml.MappingNode) -> list[tuple[yaml.ScalarNode, yaml.Node]]:
    return [(key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode)]


def _start(node: yaml.Node) -> int:
    return node.start_mark.index


def _end(node: yaml.Node) -> int:
    """Of what is written: PyYAML ends a block where the next one begins."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _end(node.value[-1])
    return node.end_mark.index
