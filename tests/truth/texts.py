"""Claims of diffs, pages, Markdown, XML, prose, and of test and build output."""

import re
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from xml.etree import ElementTree as etree  # only what this suite has made or chosen is parsed

from markdown_it import MarkdownIt

from tests.truth.claims import FIGURE, NUMBER, FalseClaim, Output, agrees, claim, is_so, small

# Diffs, by the lengths that the headers of hunks give.

_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def diff_files(output: Output) -> dict[str, tuple[int, int]]:
    """Lines added and removed by file."""
    files: dict[str, tuple[int, int]] = {}
    name, old, new = "", 0, 0
    lines = output.lines
    for at, line in enumerate(lines):
        if old > 0 or new > 0:
            added, removed = files.get(name, (0, 0))
            if line.startswith("+"):
                new, added = new - 1, added + 1
            elif line.startswith("-"):
                old, removed = old - 1, removed + 1
            elif not line.startswith("\\"):
                old, new = old - 1, new - 1
            files[name] = added, removed
        elif found := re.match(r"diff --git a/(.*) b/(.*)$", line):
            name = line[len(line) // 2 + 6 :] if found[1] != found[2] and len(line) % 2 else found[2]
            files.setdefault(name, (0, 0))
        elif line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ "):
            new_name = lines[at + 1][4:].split("\t")[0]
            if not any(each.startswith("diff --git ") for each in lines[max(0, at - 6) : at]):
                name = (
                    line[4:].split("\t")[0].removeprefix("a/")
                    if new_name == "/dev/null"
                    else new_name.removeprefix("b/")
                )
                files.setdefault(name, (0, 0))
        elif found := _HUNK.match(line):
            old, new = int(found[1] or 1), int(found[2] or 1)
    return files


@claim("diff", rf"(?P<files>{FIGURE}) files?, (?P<about>at least )?\+(?P<added>{NUMBER}) −(?P<removed>{NUMBER})")
def a_diff_has_as_many_files_and_lines(found: re.Match[str], output: Output) -> None:
    files, about = output.once(diff_files), found["about"] or ""
    agrees(found["files"], len(files), "files", exact=small(output))
    agrees(about + found["added"], sum(added for added, _ in files.values()), "added", exact=small(output))
    agrees(about + found["removed"], sum(removed for _, removed in files.values()), "removed", exact=small(output))


@claim(
    "diff",
    rf"(?P<about>at least )?\+(?P<added>{NUMBER}) −(?P<removed>{NUMBER})  (?P<name>.*?)(?: \((?:new|deleted|renamed|binary)\))? · L{NUMBER}",
)
def a_file_of_a_diff(found: re.Match[str], output: Output) -> None:
    files, about = output.once(diff_files), found["about"] or ""
    if found["name"] not in files:
        raise FalseClaim(f"no file {found['name']!r}")
    agrees(about + found["added"], files[found["name"]][0], "added", exact=False)
    agrees(about + found["removed"], files[found["name"]][1], "removed", exact=False)


@claim("diff", rf"… (?P<more>{FIGURE}) more files?")
def more_files_of_a_diff(found: re.Match[str], output: Output) -> None:
    number = int(found["more"].removeprefix("at least ").replace(",", ""))
    if number > len(output.once(diff_files)):
        raise FalseClaim("there are fewer files")


# Pages.


class _Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: Counter[str] = Counter()
        self.headings: list[tuple[int, str]] = []
        self._open = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags[tag] += 1
        if re.fullmatch("h[1-6]", tag):
            self.headings.append((int(tag[1]), ""))
            self._open = int(tag[1])

    def handle_endtag(self, tag: str) -> None:
        if re.fullmatch("h[1-6]", tag):
            self._open = 0

    def handle_data(self, data: str) -> None:
        if self._open:
            level, text = self.headings[-1]
            self.headings[-1] = level, text + data


def _page(output: Output) -> _Page:
    return _Page(output.text)


@claim(
    "html", rf"(?:(?:{FIGURE} <\w+>(?:, )?)+|no links, tables or paragraphs), ?(?P<headings>no|{FIGURE}) headings?.*"
)
def a_page_has_as_many_elements(found: re.Match[str], output: Output) -> None:
    page = output.once(_page)
    for figure, tag in re.findall(rf"({FIGURE}) <(\w+)>", found[0]):
        agrees(figure, page.tags[tag], f"<{tag}>", exact=small(output))
    agrees(found["headings"].replace("no", "0"), len(page.headings), "headings", exact=small(output))


@claim("html", rf" *h(?P<level>[1-6]) (?P<text>.*?)(?: … (?P<more>{FIGURE}) more like it)? · L(?P<n>{NUMBER})")
def a_heading_of_a_page(found: re.Match[str], output: Output) -> None:
    headings = [(level, " ".join(text.split())) for level, text in output.once(_page).headings]
    said = " ".join(found["text"].removesuffix("…").split())
    alike = [text for level, text in headings if level == int(found["level"]) and text.startswith(said)]
    if not alike:
        raise FalseClaim(f"no heading {said!r} among {headings[:20]}")
    if found["more"]:
        _alike(headings, int(found["level"]), said, found["more"])


def _alike(headings: list[tuple[int, str]], level: int, text: str, more: str) -> None:
    """How many headings of that level follow each other and differ only in numbers; the longest such run."""
    shape, best, run = (level, re.sub(r"\d+", "#", text)), 0, 0
    for each in headings:
        run = run + 1 if (each[0], re.sub(r"\d+", "#", each[1])) == shape else 0 if each[0] <= level else run
        best = max(best, run)
    if int(more.removeprefix("at least ").replace(",", "")) + 1 > best:
        raise FalseClaim(f"at most {best} headings in a row are like {text!r}")


@claim("html|markdown", rf"… (?P<more>{FIGURE}) more headings?")
def more_headings(found: re.Match[str], output: Output) -> None:
    most = len(output.once(_page).headings) + len(output.once(_markdown)[0])
    if int(found["more"].removeprefix("at least ").replace(",", "")) > most:
        raise FalseClaim(f"there are only {most}")


@claim("html", r"title: .*|<p> .*")
def words_of_a_page(found: re.Match[str], output: Output) -> None:
    words = re.findall(r"\w+", found[0].split(" ", 1)[1].removesuffix("…"))[:-1]
    if not all(word in output.text for word in words):
        raise FalseClaim("these words are not in it")


# Markdown.


def _markdown(output: Output) -> tuple[list[tuple[int, str]], int, int]:
    """Headings, blocks of code between fences, tables."""
    tokens = MarkdownIt("commonmark").enable("table").parse(output.text.replace("\r\n", "\n"))
    headings = [
        (int(before.tag[1]), after.content) for before, after in pairwise(tokens) if before.type == "heading_open"
    ]
    kinds = Counter(token.type for token in tokens)
    return headings, kinds["fence"], kinds["table_open"]


@claim(
    "markdown",
    rf"(?P<headings>no|{FIGURE}) headings?.*?(?:, (?P<code>{FIGURE}) code blocks?)?(?:, (?P<tables>{FIGURE}) tables?)?",
)
def markdown_has_as_many(found: re.Match[str], output: Output) -> None:
    headings, code, tables = output.once(_markdown)
    agrees(found["headings"].replace("no", "0"), len(headings), "headings", exact=small(output))
    nested = re.search(r"^(?: {4}|\t|>).*(?:```|~~~)", output.text, re.MULTILINE)
    if found["code"] or not nested:
        agrees(found["code"] or "0", code, "code", exact=small(output) and not nested)
    agrees(found["tables"] or "0", tables, "tables", exact=small(output))


@claim("markdown", rf"(?P<level>#+) (?P<text>.*?)(?: … (?P<more>{FIGURE}) more like it)? · L(?P<n>{NUMBER})")
def a_heading_of_markdown(found: re.Match[str], output: Output) -> None:
    headings = output.once(_markdown)[0]
    said = found["text"].removesuffix("…").strip(" #")
    if not any(level == len(found["level"]) and " ".join(text.split()).startswith(said) for level, text in headings):
        raise FalseClaim(f"no heading {said!r}")
    if found["more"]:
        _alike([(level, " ".join(text.split())) for level, text in headings], len(found["level"]), said, found["more"])


# XML.


def _elements(output: Output) -> Counter[str]:
    return Counter(element.tag.rsplit("}", 1)[-1] for element in etree.fromstring(output.data).iter())


@claim("xml", rf"root <(?P<root>[\w:.-]+)> · (?P<names>{FIGURE}) element names?")
def the_root_of_xml(found: re.Match[str], output: Output) -> None:
    elements = output.once(_elements)
    is_so(found["root"], next(iter(elements)), "root")
    agrees(found["names"], len(elements), "element names", exact=small(output))


@claim("xml", rf"(?P<times>{FIGURE}) × (?P<path>[\w:./-]+)(?P<rest>.*)")
def elements_of_xml(found: re.Match[str], output: Output) -> None:
    elements = output.once(_elements)
    pairs = re.findall(rf"({FIGURE}) × ([\w:./-]+)", found[0])
    for figure, path in pairs:
        agrees(figure, elements[path.rsplit("/", 1)[-1]], path, exact=small(output))


@claim("xml", rf"… (?P<more>{FIGURE}) more names?.*")
def more_names_of_xml(found: re.Match[str], output: Output) -> None:
    if int(found["more"].removeprefix("at least ").replace(",", "")) > len(output.once(_elements)):
        raise FalseClaim("there are fewer")


# Prose.


@claim(
    "text|.* stack trace",
    rf"(?:(?P<starts>no|{FIGURE}) paragraphs?, )?(?:(?P<blank>no|{FIGURE}) blank lines?, )?longest line (?P<longest>{FIGURE}) bytes?",
)
def the_measures_of_prose(found: re.Match[str], output: Output) -> None:
    lines = [line.strip() for line in output.data.split(b"\n")]
    lines = lines[:-1] if output.data.endswith(b"\n") else lines
    starts = sum(bool(line) and not before for before, line in zip([b"", *lines], lines, strict=False))
    if found["starts"]:
        agrees(found["starts"].replace("no", "0"), starts, "paragraphs", exact=small(output))
    if found["blank"]:
        agrees(found["blank"].replace("no", "0"), lines.count(b""), "blank lines", exact=small(output))
    agrees(found["longest"], max(map(len, output.data.split(b"\n"))), "longest line")


@claim("text|.* stack trace", rf"… (?P<more>{FIGURE}) more headings?")
def more_headings_of_prose(found: re.Match[str], output: Output) -> None:
    if int(found["more"].removeprefix("at least ").replace(",", "")) > len(output.lines):
        raise FalseClaim("there are fewer lines")


# Tests and builds. What a runner says at its end stands in the output as it is.

_REPORTS = (
    r"pytest|unittest|go test|cargo test|jest|mocha|maven|gradle|TAP|tests|.*build|.*output|jenkins|ant|bazel|ninja"
)


@claim(_REPORTS, rf"(?P<errors>{FIGURE}) errors?, (?P<warnings>{FIGURE}) warnings?")
def errors_and_warnings(found: re.Match[str], output: Output) -> None:
    warned = re.compile(r": warning[: ]|^warning[:\[]|  warning  ")
    agrees(found["warnings"], sum(bool(warned.search(line)) for line in output.lines), "warnings", exact=False)
    wrong = re.compile(r"(?::\d+|\)): (?:fatal )?error\b|^error(?:\[E\d+\])?: |^ +\d+:\d+ +error |^npm ERR!")
    agrees(found["errors"], sum(bool(wrong.search(line)) for line in output.lines), "errors", exact=False)


@claim(_REPORTS, r"lines that begin with (?P<counts>.*), then a space")
def lines_by_status(found: re.Match[str], output: Output) -> None:
    for word, figure in re.findall(rf"(\w+) ({FIGURE})", found["counts"]):
        agrees(figure, sum(line.startswith(f"{word} ") for line in output.lines), word, exact=small(output))


@claim(
    _REPORTS,
    rf"(?:FAILED )?(?P<name>.*?)…? · L(?P<n>{NUMBER})(?: · its details: L(?P<first>{NUMBER})–(?P<last>{NUMBER})(?:: .*)?)?(?: · (?P<times>{FIGURE}) times)?",
)
def a_failure_is_where_it_is_said_to_be(found: re.Match[str], output: Output) -> None:
    line = re.sub(r"\x1b\[[\d;]*m", "", output.lines[int(found["n"].replace(",", "")) - 1])
    if " ".join(found["name"].split()) not in " ".join(line.split()):
        raise FalseClaim(f"that line is {line[:200]!r}")
    if output.label == "TAP" and "# todo" in line.lower():
        raise FalseClaim("what is to do is no failure")
    if found["times"]:
        _is_there_as_often(found["times"], found["name"], output)


@claim(_REPORTS, rf"L(?P<n>{NUMBER}) (?P<text>(?!× )\S.*?)(?: · (?P<times>{FIGURE}) times)?")
def an_error_is_where_it_is_said_to_be(found: re.Match[str], output: Output) -> None:
    line = output.lines[int(found["n"].replace(",", "")) - 1]
    if " ".join(found["text"].removesuffix("…").split()) not in " ".join(line.split()):
        raise FalseClaim(f"that line is {line[:200]!r}")
    if found["times"]:
        _is_there_as_often(found["times"], found["text"], output)


def _is_there_as_often(figure: str, text: str, output: Output) -> None:
    told = " ".join(text.removesuffix("…").split())
    times = int(figure.removeprefix("at least ").replace(",", ""))
    if sum(told in " ".join(line.split()) for line in output.lines) < times:
        raise FalseClaim(f"{told[:200]!r} is there fewer than {times} times")


@claim(_REPORTS, rf"… (?P<more>{FIGURE}) more (?:failure|error)s?")
def more_failures(found: re.Match[str], output: Output) -> None:
    if int(found["more"].removeprefix("at least ").replace(",", "")) > len(output.lines):
        raise FalseClaim("there are fewer lines")
    if output.label == "TAP":
        failed = [line for line in output.lines if line.startswith("not ok ") and "# todo" not in line.lower()]
        told = re.findall(rf"^FAILED .*?(?: · ({NUMBER}) times)?$", output.notice, re.MULTILINE)
        shown = sum(int(times.replace(",", "") or 1) for times in told)
        agrees(found["more"], len(failed) - shown, "failures that are not named")


@claim(_REPORTS, rf"(?!{NUMBER} × |[~<>]|L\d|…|of \d)(?P<totals>.*\d.*)")
def what_the_runner_says(found: re.Match[str], output: Output) -> None:
    text = " ".join(re.sub(r"\x1b\[[\d;]*m", "", output.text).split())
    for part in found["totals"].split(" · "):
        if warned := re.fullmatch(rf"({FIGURE}) warnings?", part):
            number = sum(bool(re.search(r": warning[: ]|^warning[:\[]|  warning  ", line)) for line in output.lines)
            agrees(warned[1], number, "warnings", exact=small(output))
        elif counted := re.fullmatch(rf"({FIGURE}) lines? with (\S+)", part):
            agrees(counted[1], sum(counted[2] in line for line in output.lines), counted[2], exact=small(output))
        elif part.removesuffix("…") not in text:
            raise FalseClaim(f"it does not say {part!r}")
    last = re.findall(r"Finished: [A-Z_]+|BUILD (?:FAILURE|SUCCESS|FAILED|SUCCESSFUL)", text)
    if last and last[-1] not in found["totals"]:
        raise FalseClaim(f"its last result is {last[-1]!r}")
