"""What the notice of an output tells a reader: its kind, the handle, the shape of its JSON, its columns, its words.

It reads the notice's text and nothing else, and takes little for granted: what it cannot read it does not know.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

Path = tuple[str, ...]  # names; "*" stands for any name, "[*]" for any element

_HEAD = re.compile(r"\((?P<kind>[^()]*)\)\. ")
_STEPS = re.compile(r"\.([^.\[\]]+)|\[(\*)\]|\['((?:[^'\\]|\\.)*)'\]")
_LEXEMES = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:|]|[^\s{}\[\],:|"]+(?:,\d{3}\b)*')  # 1,933 is one
_COLUMN = re.compile(r"^(?P<name>.+?): (?P<type>str|int|float|bool|date|time|timestamp)\b")
_MANY_COLUMNS = re.compile(r"^[\d,]+ columns (?P<first>.+?) … (?P<last>.+?): (?P<type>\w+)")


@dataclass(frozen=True, slots=True)
class Outline:
    handle: str
    kind: str  # as the notice names it
    is_one_line: bool
    lines: tuple[str, ...]  # inside the fence
    paths: tuple[Path, ...]
    maps: Mapping[Path, tuple[str, ...]]  # objects whose members nobody could list, with examples of their names
    texts: tuple[str, ...]  # columns that hold text
    columns: tuple[str, ...]  # all that are named, in their order

    @property
    def is_table(self) -> bool:
        """Whether it has records, with columns or members of their own."""
        return bool(self.paths or self.columns)


def read(notice: str) -> Outline:
    lines = notice.split("\n")
    handle = next((line.removeprefix("handle: ") for line in lines if line.startswith("handle: ")), "")
    fences = [at for at, line in enumerate(lines) if re.fullmatch(r"</?\d{3,}>", line)]
    inside = lines[fences[0] + 1 : fences[-1]] if len(fences) > 1 else []
    head = _HEAD.search(lines[0] + " ")
    texts, columns = _columns(inside)
    paths, maps = _shapes(inside)
    one_line = " · 1 line · " in lines[0]
    return Outline(handle, head["kind"] if head else "", one_line, tuple(inside), paths, maps, texts, columns)


def _columns(lines: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    texts: list[str] = []
    columns: list[str] = []
    for line in lines:
        if many := _MANY_COLUMNS.match(line):
            columns += [many["first"], many["last"]]
        elif (one := _COLUMN.match(line)) and not line.startswith(("$", "{", "[")):
            columns.append(one["name"])
            texts += [one["name"]] if one["type"] == "str" else []
    return tuple(texts), tuple(columns)


# ── The shape of JSON ───────────────────────────────────────────────────────────────────────────────────────


def _shapes(lines: list[str]) -> tuple[tuple[Path, ...], dict[Path, tuple[str, ...]]]:
    """Every place that the outline's shapes name, each once; and the maps among them."""
    paths: dict[Path, None] = {}
    maps: dict[Path, tuple[str, ...]] = {}
    for line in lines:
        at, _, shape = line.partition(": ") if line.startswith("$") else ("$", "", line)
        if shape.startswith(("{", "[")):
            start = tuple(name or ("[*]" if every else quoted) for name, every, quoted in _STEPS.findall(at))
            reader = _Shape(_LEXEMES.findall(shape))
            reader.value(start)
            paths |= dict.fromkeys(filter(None, reader.paths))
            maps |= reader.maps
    return tuple(paths), maps


class _Shape:
    """One line such as `{user: {id, name?}, items: [3 × {sku}], by_id: {90 keys like "a"}}`."""

    def __init__(self, lexemes: list[str]) -> None:
        self.paths: list[Path] = []
        self.maps: dict[Path, tuple[str, ...]] = {}
        self._lexemes = lexemes
        self._at = 0

    def value(self, path: Path) -> None:
        """Reads up to the comma or the bracket that ends the value."""
        self.paths.append(path)
        while (lexeme := self._peek()) and lexeme not in (",", "}", "]"):
            self._at += 1
            if lexeme == "{":
                self._object(path)
            elif lexeme == "[":
                self.value((*path, "[*]"))
                self._skip_to("]")

    def _object(self, path: Path) -> None:
        if self._at + 1 < len(self._lexemes) and self._lexemes[self._at + 1] == "keys":
            start = self._at
            self._skip_to("}")
            examples = [lexeme for lexeme in self._lexemes[start : self._at] if lexeme.startswith('"')]
            self.maps[*path, "*"] = tuple(example.strip('"') for example in examples)
            self.paths.append((*path, "*"))
            return
        names: list[str] = []
        while lexeme := self._peek():
            self._at += 1
            if lexeme == "}":
                break
            if lexeme == ":":
                before = len(self.paths)
                self.value((*path, names[-1] if names else "*"))
                below = [found[len(path) + 1 :] for found in self.paths[before:]]
                self.paths += [(*path, name, *rest) for name in names[:-1] for rest in below]
                names = []
            elif lexeme == ",":
                self.paths += [(*path, name) for name in names]
                names = []
            elif lexeme == "…":
                self._at += 2  # "… +3 keys"
            elif lexeme != "|":
                names.append(lexeme.removesuffix("?"))
        self.paths += [(*path, name) for name in names]

    def _skip_to(self, end: str) -> None:
        depth = 0
        while lexeme := self._peek():
            self._at += 1
            if lexeme == end and not depth:
                return
            depth += (lexeme in "{[") - (lexeme in "}]")

    def _peek(self) -> str:
        return self._lexemes[self._at] if self._at < len(self._lexemes) else ""
