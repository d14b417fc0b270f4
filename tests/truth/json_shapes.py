"""Claims of JSON: how many members, which values how often, between which ends. Parsed by Python, looked up by path."""

import json
import re
from collections import Counter
from typing import Any

from tests.truth.claims import FIGURE, NUMBER, FalseClaim, Output, agrees, claim, is_so

LABELS = "json|ndjson|openapi|swagger|notebook|geojson|sarif|json schema"
_STEP = re.compile(r"\.\*|\[\*\]|\.(?P<name>[^.\[]+)|\['(?P<quoted>(?:[^'\\]|\\.)*)'\]")
_SIZE = rf"(?:e\.g\. )?(?:at least )?{NUMBER}(?:–{NUMBER})?"
_MORE = re.compile(rf'{FIGURE} distinct$|most often |"[^"]*"(?: ×{NUMBER})?$')  # goes on with what is before it
_LITERAL = r'(?:"[^"]*"|-?[\d.]+(?:e[+-]?\d+)?|true|false|null)'


def _root(output: Output) -> Any:
    if output.label == "ndjson":
        found: list[Any] = []
        for line in output.lines:
            try:
                found += [json.loads(line)] if line.strip() else []
            except ValueError:
                continue
        return found
    return json.loads(output.data)


def at_path(path: str, root: Any) -> list[Any]:
    values: list[Any] = [root]
    for step in _STEP.finditer(path, 1):
        if step[0] == "[*]":
            values = [each for value in _lists(values) for each in value]
        elif step[0] == ".*":
            values = [each for value in _dicts(values) for each in value.values()]
        else:
            name = step["name"] or step["quoted"].replace("\\'", "'")
            values = [value[name] for value in _dicts(values) if name in value]
    return values


def _lists(values: list[Any]) -> list[list[Any]]:
    return [value for value in values if isinstance(value, list)]


def _dicts(values: list[Any]) -> list[dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)]


def _split(text: str, sign: str) -> list[str]:
    """Parts between the signs that are outside of brackets and quotes. A quote ends where something can follow it."""
    parts, depth, quoted, start = list[str](), 0, False, 0
    for at, char in enumerate(text):
        if char == '"' and (not quoted or re.match(r'"(?:[,|\]}:]| ×|$)', text[at:])):
            quoted = not quoted
        elif not quoted and char in "[{":
            depth += 1
        elif not quoted and char in "]}":
            depth -= 1
        elif not quoted and not depth and text.startswith(sign, at):
            parts.append(text[start:at])
            start = at + len(sign)
    return [*parts, text[start:]]


@claim(LABELS, r"(?:(?P<path>\$\S*): )?(?P<shape>[\[{].*)")
def the_shape_of_json(found: re.Match[str], output: Output) -> None:
    check_shape(found["shape"], at_path(found["path"] or "$", output.once(_root)), found["path"] or "$")


def check_shape(text: str, values: list[Any], where: str) -> None:
    alternatives = _split(text, "|")
    for part in alternatives:
        if part.startswith("["):
            _array(part, _lists(values), where)
        elif part.startswith("{"):
            _object(part, _dicts(values), where)
    plain = [part for part in alternatives if part[:1] not in ("[", "{")]
    if plain:
        _scalars("|".join(plain), [value for value in values if not isinstance(value, list | dict)], where)


def _sizes(text: str, values: list[list[Any]] | list[dict[str, Any]], where: str) -> None:
    sizes = list(map(len, values)) or [0]
    if text.startswith("e.g. at least "):
        if int(text.removeprefix("e.g. at least ").replace(",", "")) > max(sizes):
            raise FalseClaim(f"{where}: none has as many members as {text}")
        return
    if text.startswith("e.g. "):
        if int(text.removeprefix("e.g. ").replace(",", "")) not in sizes:
            raise FalseClaim(f"{where}: none has as many members as {text}")
        return
    about = text.startswith("at least ")
    low, _, high = text.removeprefix("at least ").partition("–")
    numbers = [int(each.replace(",", "")) for each in (low, high or low)]
    if about:
        if (numbers[0] < min(sizes) and high) or numbers[1] > max(sizes):
            raise FalseClaim(f"{where}: sizes are from {min(sizes)} to {max(sizes)}")
    else:
        is_so(numbers, [min(sizes), max(sizes)], f"{where}: members")


def _array(text: str, values: list[list[Any]], where: str) -> None:
    inside = text[1:-1] if text.endswith("]") else text[1:]
    size, _, rest = inside.partition(" × ")
    if re.fullmatch(_SIZE, size):
        _sizes(size, values, where)
    if rest and text.endswith("]"):
        check_shape(rest, [each for value in values for each in value], where + "[*]")


def _object(text: str, values: list[dict[str, Any]], where: str) -> None:
    if not text.endswith("}"):
        return  # cut off
    counted = re.match(rf"\{{({_SIZE}) keys like ", text)
    if counted:
        _sizes(counted[1], values, where)
        return
    members: list[str] = []
    for part in _split(text[1:-1], ", "):
        if _MORE.match(part) and members and ": " in members[-1]:
            members[-1] += f", {part}"
        else:
            members.append(part)
    for member in members:
        label, colon, shape = member.partition(": ")
        if label.startswith('"'):
            quoted = re.match(r'"(.*?)"(\??)(?:: |$)', member)
            label, colon, shape = (quoted[1] + quoted[2], ":", member[quoted.end() :]) if quoted else ("…", "", "")
        if label.startswith("…") or "|" in label or label.endswith("…"):
            continue
        name = label.removesuffix("?")
        having = [value[name] for value in values if name in value]
        if not having:
            raise FalseClaim(f"{where}: nothing has a member {name!r}")
        if colon:
            check_shape(shape, having, f"{where}.{name}")


def _scalars(text: str, values: list[Any], where: str) -> None:
    counts = Counter(map(json.dumps, values))
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if found := re.fullmatch(r"(?:(?:int|float|null)\|?)+ (at least )?(-?[\d.e+-]+)…(-?[\d.e+-]+)", text):
        low, high = float(found[2]), float(found[3])
        if found[1]:
            if low < min(numbers) or high > max(numbers):
                raise FalseClaim(f"{where}: numbers are from {min(numbers)} to {max(numbers)}")
        else:
            is_so((low, high), (float(min(numbers)), float(max(numbers))), where)
    elif found := re.match(rf"[\w|]+, ({FIGURE}) distinct", text):
        agrees(found[1], len(counts), f"{where}: distinct", exact=False)
        for value, times in re.findall(rf'("[^"…]*") ×({NUMBER})', text):
            agrees(times, counts[_dumped(value)], f"{where}: {value}")
    elif re.fullmatch(rf"{_LITERAL}(?: ×{NUMBER})?(?:\|{_LITERAL}(?: ×{NUMBER})?)*(?:\|…)?", text):
        shown = re.findall(rf"({_LITERAL})(?: ×({NUMBER}))?", text)
        for value, times in shown:
            if value.endswith('…"'):
                continue
            if not counts[_dumped(value)]:
                raise FalseClaim(f"{where}: {value} is not among them")
            if times:
                agrees(times, counts[_dumped(value)], f"{where}: {value}")
        if not text.endswith("|…") and "…" not in text:
            is_so(len(shown), len(counts), f"{where}: different values")


def _dumped(value: str) -> str:
    return json.dumps(value[1:-1]) if value.startswith('"') else json.dumps(json.loads(value))


@claim("ndjson", rf"(?P<broken>{FIGURE}) lines? not JSON")
def lines_that_are_not_json(found: re.Match[str], output: Output) -> None:
    agrees(
        found["broken"],
        sum(bool(line.strip()) for line in output.lines) - len(output.once(_root)),
        "lines",
        exact=False,
    )


@claim(
    LABELS,
    r"shape from a sample.*|values one after the other.*|other text follows the JSON, from byte .*|cut off: .*|not valid JSON.*",
)
def a_note_on_json(found: re.Match[str], output: Output) -> None:
    place = re.search(rf"byte ({NUMBER})", found[0])
    if place and int(place[1].replace(",", "")) > len(output.data):
        raise FalseClaim("there is no such byte")
