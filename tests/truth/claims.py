"""Notices taken apart into claims, and those that every kind has: sizes, lines with their numbers, shapes with counts."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

T = TypeVar("T")

ANY = ".*"
EXACT_UP_TO = 8_000_000
NUMBER = r"\d{1,3}(?:,\d{3})*"
FIGURE = rf"(?:at least )?{NUMBER}"
_HEADER = re.compile(
    rf"(?P<tool>.*?) returned (?P<bytes>{NUMBER}) bytes? · (?P<lines>{NUMBER}) lines? · (?P<tokens>~?[\d.,kMG]+) tokens? "
    r"\((?P<label>[^()]+)\)(?:\.|$)",
    re.MULTILINE,
)
_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}


class FalseClaim(AssertionError):
    """A notice says what is not so."""


@dataclass
class Output:
    """The bytes that a notice is about, and what several checkers need of them."""

    data: bytes
    label: str = ""
    notice: str = ""
    _known: dict[Callable[["Output"], Any], Any] = field(default_factory=dict[Callable[["Output"], Any], Any])

    def once(self, make: "Callable[[Output], T]") -> "T":
        """What `make` makes of it, made once for all claims."""
        if make not in self._known:
            self._known[make] = make(self)
        return self._known[make]

    @cached_property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")

    @cached_property
    def lines(self) -> list[str]:
        lines = self.text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    @cached_property
    def flat(self) -> list[str]:
        """The lines with runs of blanks as one, and none before a bracket."""
        return [" ".join(re.sub(r"\x1b\[[\d;]*m", "", line).split()).replace(" ]", "]") for line in self.lines]

    @cached_property
    def collapsed(self) -> list[str]:
        """The lines with every number as 0 and runs of blanks as one."""
        return [" ".join(re.sub(r"\d+", "0", line).split()) for line in self.lines]


Checker = Callable[[re.Match[str], Output], None]
_CHECKERS: list[tuple[re.Pattern[str], re.Pattern[str], Checker]] = []


def claim(label: str, line: str) -> Callable[[Checker], Checker]:
    """What checks lines of this form, in notices whose label is of that form."""

    def add(checker: Checker) -> Checker:
        _CHECKERS.append((re.compile(label), re.compile(line), checker))
        _CHECKERS.sort(key=lambda each: each[0].pattern == ANY)  # those of one kind come first
        return checker

    return add


def is_so(said: object, truth: object, what: str) -> None:
    if said != truth:
        raise FalseClaim(f"{what}: it says {said!r}, and it is {truth!r}")


def agrees(figure: str, truth: int, what: str, *, exact: bool = True) -> None:
    """A figure as it is written against the truth. `exact`: "at least" is not good enough."""
    number = int(figure.removeprefix("at least ").replace(",", ""))
    if figure.startswith("at least "):
        if number > truth:
            raise FalseClaim(f"{what}: it says at least {number:,}, and there are {truth:,}")
        if exact:
            raise FalseClaim(f"{what}: it says at least {number:,} where it could say {truth:,}")
    elif number != truth:
        raise FalseClaim(f"{what}: it says {number:,}, and there are {truth:,}")


def share_agrees(shown: str, truth: float, what: str) -> None:
    """A share of a sample, as it is written, against that of all: near it, where the output is alike throughout."""
    said = {"<1 %": 0.5, ">99 %": 99.5}.get(shown) or float(shown.strip("~ %"))
    if abs(said - 100 * truth) > 12:
        raise FalseClaim(f"{what}: it says {shown}, and it is {100 * truth:.1f} %")


def small(output: Output) -> bool:
    return len(output.data) <= EXACT_UP_TO


def check_notice(notice: str, data: bytes) -> int:
    """How many claims it makes; FalseClaim at the first one that is not true, or that nothing here can check."""
    header = _HEADER.match(notice)
    if header is None:
        raise FalseClaim(f"no header: {notice[:200]!r}")
    output = Output(data, header["label"], notice)
    agrees(header["bytes"], len(data), "bytes")
    agrees(header["lines"], data.count(b"\n") + (data[-1:] not in (b"\n", b"")), "lines")
    _tokens(header["tokens"], output)
    checked = 3
    fenced = re.search(r"\n<(\d{3,}|[0-9a-f]{6,})>\n(.*?)\n</\1>", notice, re.DOTALL)
    if fenced is None and re.search(r"\n</\w+>(\n|$)", notice):
        raise FalseClaim(f"what is in its fence was not looked at: {notice[:200]!r}")
    for line in fenced[2].split("\n") if fenced else ():
        checked += _check(line, header["label"], output, notice)
    return checked


def _check(line: str, label: str, output: Output, notice: str) -> int:
    for labels, pattern, checker in _CHECKERS:
        match = pattern.fullmatch(line) if labels.fullmatch(label) else None
        if match:
            try:
                checker(match, output)
            except FalseClaim as false:
                raise FalseClaim(f"{false}\nin the line: {line}\nof the notice:\n{notice}") from None
            return 1
    if re.search(r"\d", line):
        raise FalseClaim(f"nothing checks this line of ({label}): {line}\nof the notice:\n{notice}")
    return 0


def _tokens(shown: str, output: Output) -> None:
    """Marked as an estimate: not off by more than three times. A counted figure is not checked here, but in its size."""
    number = float(re.sub(r"[~,kMG]", "", shown)) * _UNITS.get(shown[-1:], 1)
    characters = len(output.text)
    if not characters / 12 <= number <= characters * 3 + 3:
        raise FalseClaim(f"tokens: it says {shown}, of {characters} characters")


# Lines of the output, with their numbers.


def _plain(text: str) -> str:
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", " ", text).split())


@claim(ANY, rf"L(?P<n>{NUMBER})  (?P<cut>… )?(?P<text>.*?)(?: … \+(?P<more>{NUMBER}) bytes| …)?")
def a_line_is_where_it_is_said_to_be(found: re.Match[str], output: Output) -> None:
    number = int(found["n"].replace(",", ""))
    if number > len(output.lines):
        raise FalseClaim(f"there is no line {number}")
    line, shown = _plain(output.lines[number - 1]), _plain(found["text"].removesuffix("…"))
    if not (shown in line if found["cut"] or found["text"].endswith("…") else line.startswith(shown) or shown in line):
        raise FalseClaim(f"line {number} is {line[:200]!r}")
    if found["more"] and not found["cut"]:
        whole = output.data.split(b"\n")[number - 1].removesuffix(b"\r")
        agrees(found["more"], len(whole) - len(found["text"].encode()), "bytes that are left out")


# Shapes of lines.

_MASKS = re.compile(r"<(?:\*|n|ip|path|url|email|uuid|time|hex|hash|…)>(?: …)?")


def _pattern(parts: Sequence[str], *, is_cut: bool) -> re.Pattern[str]:
    """Any line of that shape, and more: what is masked may be anything."""
    text = ".*?".join(map(re.escape, parts)).replace(r"\ ", r"\s+")
    # The number of a process stands between the name of a program and the colon.
    text = text.replace(r":\s+", r"(?:\[\d+\])?(?:\s\([^)]*\))?:\s+", 1)
    return re.compile(text + ("" if is_cut else r"\s*$"))


def _like(shape: str, output: Output) -> int:
    """Lines of that shape; those of a log have their time before it."""
    is_cut = shape.endswith("…") and not shape.endswith("> …")
    shape = re.sub(r"<[\w*]*$", "", shape.removesuffix("…")) if is_cut else shape
    parts = _MASKS.split(shape)
    pattern = _pattern(parts, is_cut=is_cut)
    found = pattern.match if re.fullmatch("text|.* stack trace|markdown", output.label) else pattern.search
    # A line without one of the words is not like it. The pattern would find that out too, after seconds.
    words = [word for part in parts for word in part.split() if ":" not in word]
    return sum(1 for line in output.flat if all(word in line for word in words) and found(line))


@claim(ANY, rf"(?P<times>{NUMBER}) × (?P<shape>[^<\s].*|<(?!\w+>$).*|<[\w*…]+>.+)")
def a_shape_has_as_many_lines(found: re.Match[str], output: Output) -> None:
    number, truth = int(found["times"].replace(",", "")), _like(found["shape"], output)
    if number > truth:
        raise FalseClaim(f"{truth:,} lines are like {found['shape']!r}")
    if "<" not in found["shape"] and "…" not in found["shape"]:
        is_so(number, truth, "lines")


@claim(ANY, r"(?P<share>~\d+ %|<1 %|>99 %) × (?P<shape>.+)")
def a_shape_has_that_share(found: re.Match[str], output: Output) -> None:
    said = {"<1 %": 0.0, ">99 %": 99.0}.get(found["share"]) or float(found["share"].strip("~ %"))
    if said - 100 * _like(found["shape"], output) / max(1, len(output.lines)) > 12:
        raise FalseClaim("fewer lines are like it")


@claim(ANY, rf"of (?P<n>{NUMBER}) sampled lines?:")
def a_sample_is_not_larger_than_the_output(found: re.Match[str], output: Output) -> None:
    if int(found["n"].replace(",", "")) > len(output.lines):
        raise FalseClaim("there are fewer lines")


@claim(ANY, rf"L(?P<n>{NUMBER}) × (?P<times>\d+)  (?P<text>.*)")
def a_rare_line_is_rare(found: re.Match[str], output: Output) -> None:
    number = int(found["n"].replace(",", ""))
    line, shown = _plain(output.lines[number - 1]), _plain(found["text"].removesuffix("…"))
    words = shown.split(": ", 1)[-1]  # before it may be the name of a program, whose number is not told
    if words not in line and words not in output.flat[number - 1]:
        raise FalseClaim(f"line {number} is {line[:200]!r}")
    if output.collapsed.count(output.collapsed[number - 1]) > int(found["times"]):
        raise FalseClaim(f"it stands {output.collapsed.count(output.collapsed[number - 1])} times")


@claim(ANY, rf"… (?P<hidden>{NUMBER}) more shapes?(?:, (?P<rare>{NUMBER}) rare \(≤2 lines\):?)?")
def there_are_no_more_shapes_than_different_lines(found: re.Match[str], output: Output) -> None:
    different = set(output.collapsed)
    if int(found["hidden"].replace(",", "")) > len(different):
        raise FalseClaim(f"only {len(different)} lines are different")
    if found["rare"] and int(found["rare"].replace(",", "")) > int(found["hidden"].replace(",", "")):
        raise FalseClaim("more are rare than there are")


@claim(ANY, r"… rare in the sample \(≤2 lines\):?")
def a_sample_may_have_rare_lines(found: re.Match[str], output: Output) -> None:
    """No figure but the limit."""
