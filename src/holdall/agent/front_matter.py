"""The front matter of an agent's file as plain values, with the line of every key. Needs the extra `agent`.

Values are text, whole numbers, fractions, true, false, null, lists and tables, as YAML 1.2 reads them: `no` and `12:30`
are text. What YAML has beyond that is refused: tags, aliases (a few of them can stand for a billion values) and the
same key twice. Nothing is ever constructed or imported for a value.
"""

import re
from typing import Any, cast

from holdall.agent.files import Document, InvalidYaml, Path
from holdall.text.escape import one_line
from holdall.values.errors import MissingExtra
from holdall.values.patterns import lazy_pattern

try:
    import yaml
    from yaml.reader import ReaderError
except ModuleNotFoundError as problem:
    raise MissingExtra("pyyaml", "agent", "reading the front matter of an agent") from problem

_PLAIN = "plain"  # the tag of a scalar without quotes: what it is is told from its text
_TAGS = {_PLAIN, "tag:yaml.org,2002:str", "tag:yaml.org,2002:seq", "tag:yaml.org,2002:map"}
_WORDS: dict[str, Any] = {"": None, "~": None} | {
    written: value
    for word, value in (("null", None), ("true", True), ("false", False))
    for written in (word, word.title(), word.upper())
}
_HALF = lazy_pattern("[\ud800-\udfff]")
_WHOLE = lazy_pattern(r"[-+]?(?:0|[1-9](?:_?[0-9]){0,40})", re.ASCII)
_FRACTION = lazy_pattern(
    r"[-+]?(?:(?:[0-9]{1,40}\.[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,5})?|[0-9]{1,40}[eE][-+]?[0-9]{1,5})",
    re.ASCII,
)


def parse(text: str) -> Document:
    """Raises InvalidYaml and nothing else."""
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
        finally:
            loader.dispose()
        document = Document(None)
        value = None if node is None else _value(node, (), document.lines)
    except ReaderError as problem:
        raise _unreadable(text, problem) from problem
    except yaml.MarkedYAMLError as problem:
        raise _explained(problem) from problem
    except RecursionError as problem:
        raise InvalidYaml("it is nested too deeply", 1, 1) from problem
    return Document(value, document.lines)


class _Loader(yaml.SafeLoader):
    """Nodes only: no tag is resolved to a type, and an alias is refused where it stands."""

    def resolve(self, kind: type[yaml.Node], value: str | None, implicit: tuple[bool, bool] | bool) -> str:  # noqa: ARG002
        if kind is yaml.ScalarNode and isinstance(implicit, tuple) and implicit[0]:
            return _PLAIN
        name = "str" if kind is yaml.ScalarNode else "seq" if kind is yaml.SequenceNode else "map"
        return f"tag:yaml.org,2002:{name}"

    def compose_node(self, parent: yaml.Node | None, index: yaml.Node | int | None) -> yaml.Node:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()
            what = f"an alias (*{one_line(event.anchor, 40)}) is not allowed here; write the value out"
            raise InvalidYaml(what, event.start_mark.line + 1, event.start_mark.column + 1)
        return super().compose_node(parent, index)


def _value(node: yaml.Node, path: Path, lines: dict[Path, int]) -> Any:
    if node.tag not in _TAGS:
        shown = one_line(node.tag.replace("tag:yaml.org,2002:", "!!"), 60)
        raise _wrong(f"the tag {shown} is not allowed here; write the value without it", node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(one, path, lines) for one in node.value]
    if isinstance(node, yaml.MappingNode):
        table: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _key(key_node)
            if key in table:
                raise _wrong(f"the key {key[:60]!r} stands twice", key_node)
            lines[(*path, key)] = key_node.start_mark.line + 1
            table[key] = _value(value_node, (*path, key), lines)
        return table
    text = cast("yaml.ScalarNode", node).value  # there are three kinds of nodes
    if _HALF.search(text):
        raise _wrong("an escape in it stands for half a character", node)
    return _plain(text) if node.tag == _PLAIN else text


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag not in _TAGS:
        raise _wrong("a key must be a text", node)
    if node.tag == _PLAIN and not isinstance(_plain(node.value), str):
        raise _wrong(f"the key {node.value[:60]!r} is not a text; write it in quotes", node)
    if _HALF.search(node.value):
        raise _wrong("an escape in it stands for half a character", node)
    return node.value


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text


# What is wrong


def _wrong(what: str, node: yaml.Node) -> InvalidYaml:
    return InvalidYaml(what, node.start_mark.line + 1, node.start_mark.column + 1)


def _explained(problem: yaml.MarkedYAMLError) -> InvalidYaml:
    mark = problem.problem_mark
    what = one_line(problem.problem or problem.context or "it cannot be read", 200)
    if "'\\t'" in what:
        what = "a tab stands where YAML wants spaces"
    elif what == "mapping values are not allowed here":
        what = "no value can begin at this colon: the line is indented too far, or a text with a colon needs quotes"
    elif what == "but found another document":
        what = "a second document begins"
    elif problem.context and problem.problem:
        what = f"{one_line(problem.context, 100)}, {what}"
    return InvalidYaml(what, mark.line + 1 if mark else 1, mark.column + 1 if mark else 1)


def _unreadable(text: str, problem: ReaderError) -> InvalidYaml:
    before = text[: problem.position]
    character = problem.character if isinstance(problem.character, int) else 0
    line, column = before.count("\n") + 1, problem.position - (before.rfind("\n") + 1) + 1
    return InvalidYaml(f"the character U+{character:04X} is not allowed in it", line, column)
