"""From the shape of a JSON output and a question to a path, as one would write it who reads both."""

import re

from bench.answers.outline import Outline, Path
from bench.answers.question import Question, singular, words_of


def to_value(question: Question, outline: Outline) -> str:
    """The member that the question names, of the one that it picks out: by its key in a map, or by its index."""
    asked = _names_in(question)
    if question.index is not None:
        path = _best([path for path in outline.paths if "[*]" in path and singular(path[-1]) in asked], asked)
        return _spelled(path, index=question.index) if path else ""
    keys = question.quoted or question.strong or tuple(name for name in question.names if "-" in name)
    if not outline.maps or len(keys) != 1:
        return ""
    reach = {found: _below(found, outline, asked) for found in outline.maps}

    def fitness(place: Path) -> int:
        """A map that is named itself, or that has such keys, comes before one with members of that name."""
        alike = _style(keys[0]) in map(_style, outline.maps[place])
        return 2 * _score(place, asked) + _score(reach[place], asked) + 2 * alike

    place = max(outline.maps, key=fitness)
    if not fitness(place):
        return f"$..[{_quoted(keys[0])}]"
    path = _spelled((*place[:-1], keys[0]))
    if reach[place]:
        return path + _spelled(reach[place]).removeprefix("$")
    # The shape does not reach below the map: whatever the question names besides is a member there, at some depth.
    there = {singular(name) for name in place}
    members = [word for word in question.others if singular(word) not in there and word.isidentifier()]
    return f"{path}..[{', '.join(map(_quoted, members))}]" if members else path


def container(question: Question, outline: Outline) -> str:
    """The array or object whose name is in the question; empty for the whole."""
    asked = _names_in(question)
    named = [path[:-1] for path in outline.paths if path[-1] in ("*", "[*]") and len(path) > 1]
    named = [path for path in named if singular(path[-1]) in asked and "*" not in path and "[*]" not in path]
    return _spelled(min(named, key=len)) if named else ""


def _style(key: str) -> str:
    """What its parts are joined by: /a/b, a.b, a-b, a_b."""
    joint = re.search(r"[^A-Za-z0-9]", key)
    return joint[0] if joint else ""


def _names_in(question: Question) -> set[str]:
    return words_of(question.text) | {singular(term) for term in (*question.names, *question.strong, *question.others)}


def _below(place: Path, outline: Outline, asked: set[str]) -> Path:
    """The way from a map's members to what the question names."""
    inside = [path[len(place) :] for path in outline.paths if path[: len(place)] == place and len(path) > len(place)]
    return _best([path for path in inside if singular(path[-1]) in asked], asked)


def _best(found: list[Path], asked: set[str]) -> Path:
    return max(found, key=lambda path: (_score(path, asked), -len(path)), default=())


def _score(path: Path, asked: set[str]) -> int:
    return len({singular(name) for name in path} & asked)


def _spelled(path: Path, *, index: int | None = None) -> str:
    """The first array takes the index."""
    text = "$"
    for step in path:
        if step == "[*]":
            text += "[*]" if index is None else f"[{index}]"
            index = None
        else:
            text += f".{step}" if re.fullmatch(r"[A-Za-z_]\w*|\*", step) else f"[{_quoted(step)}]"
    return text


def _quoted(name: str) -> str:
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"
