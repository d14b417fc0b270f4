"""Questions about tests, compilers, diffs and histories.

Every function reads the raw bytes in a plain way of its own and never asks Holdall.
"""

import re

from bench.answers.further.asked import Asked, about, found, most, once, pick, spans, text


@about("pytest_verbose", "look-up", "needle")
def test_error(data: bytes) -> Asked:
    heads = found(r"^_{3,} (\w+\.\w+) _{3,}\n", data)
    name = pick(once([text(head) for head in heads]), 0.3)
    (head,) = (head for head in heads if text(head) == name)
    error = next(line for line in found(r"^E   (\S.*)$", data) if line.start() > head.start())
    return Asked(f"With which error did {name} fail?", text(error), [error.span()])


@about("pytest_verbose", "aggregate", "aggregate")
def test_class(data: bytes) -> Asked:
    lines = found(r"^FAILED \S+?::(\w+)::", data)
    question = "Which test class has the most FAILED tests in the summary?"
    return Asked(question, most(text(line) for line in lines), spans(lines))


@about("pytest_verbose", "look-up", "needle")
def test_slow(data: bytes) -> Asked:
    lines = found(r"^([\d.]+)s (?:call|setup|teardown) +(\S+)$", data)
    line = lines[2]
    return Asked(f"How many seconds did {text(line, 2)} take, by the slowest durations?", text(line), [line.span()])


_COMPLAINT = r"^(?P<file>[\w./-]+):(?P<line>\d+)(?::(?P<column>\d+))?: warning: (?P<what>.*) \[(?P<option>-W[^\]]+)\]$"


@about("gcc_warnings", "look-up", "needle")
def warned_of(data: bytes) -> Asked:
    lines = [line for line in found(_COMPLAINT, data) if line["column"]]
    places = [b":".join((line["file"], line["line"], line["column"])).decode() for line in lines]
    place = pick([place for place in once(places) if len(re.findall(re.escape(place + ":").encode(), data)) == 1])
    line = lines[places.index(place)]
    return Asked(f"Of what does the compiler warn at {place}?", text(line, "what"), [line.span()])


@about("gcc_warnings", "aggregate", "aggregate")
def warned_most(data: bytes) -> Asked:
    lines = found(_COMPLAINT, data)
    question = "Which warning option (-W…) is most frequent in the warnings?"
    return Asked(question, most(text(line, "option") for line in lines), spans(lines, "option"))


@about("gcc_warnings", "range", "earliest")
def warned_first(data: bytes) -> Asked:
    """Of the kind of warning that comes up latest."""
    lines = found(_COMPLAINT, data)
    options = [text(line, "option") for line in lines]
    option = list(dict.fromkeys(option for option in options if options.count(option) > 1))[-1]
    line = lines[options.index(option)]
    return Asked(f"In which file is the first warning of {option}?", text(line, "file"), [line.span()])


_COMMIT = r"^commit [0-9a-f]{40}$"


def _commits(data: bytes) -> list[tuple[int, int]]:
    starts = [match.start() for match in found(_COMMIT, data)]
    return list(zip(starts, [*starts[1:], len(data)], strict=True))


@about("git_log", "look-up", "needle")
def inserted(data: bytes) -> Asked:
    start, end = pick(_commits(data), 0.5)
    title = next(line for line in found(r"^    (Release \S+)$", data) if line.start() > start)
    total = next(line for line in found(r"^ \d+ files? changed, (\d+) insertions?", data) if line.start() > start)
    assert total.end() < end
    question = f'How many insertions has the commit "{text(title)}"?'
    return Asked(question, text(total), [title.span(), total.span()])


@about("git_log", "aggregate", "count")
def deleted(data: bytes) -> Asked:
    lines = found(r"^deleted file mode \d+$", data)
    return Asked("How many files were deleted over the whole history?", str(len(lines)), spans(lines))


@about("git_log", "steps", "needle")
def appeared(data: bytes) -> Asked:
    """Of a file that is not in the first commit, which stands last."""
    oldest = _commits(data)[-1][0]
    heads = found(r"^diff --git a/\S+ b/(\S+)\nnew file mode \d+$", data)
    later = [text(head) for head in heads if head.start() < oldest]
    name = pick([name for name in once([text(head) for head in heads]) if name in later])
    (head,) = (head for head in heads if text(head) == name)
    title = [line for line in found(r"^    (Release \S+)$", data) if line.start() < head.start()][-1]
    question = f"What is the message of the commit that added the new file {name}?"
    return Asked(question, text(title), [title.span(), head.span()])


@about("diff_recursive", "look-up", "needle")
def new_version(data: bytes) -> Asked:
    (line,) = found(r"""^\+__version__ = ['"](\S+)['"]$""", data)
    return Asked("Which __version__ does the new tree have?", text(line), [line.span()])


@about("diff_recursive", "look-up", "needle")
def new_function(data: bytes) -> Asked:
    lines = found(r"^\+def (\w+)\(", data)
    before = set(re.findall(rb"^[ -]def (\w+)\(", data, re.MULTILINE))
    name = pick(once([text(line) for line in lines if line[1] not in before]))
    (line,) = (line for line in lines if text(line) == name)
    head = [head for head in found(r"^\+\+\+ new/(\S+)", data) if head.start() < line.start()][-1]
    question = f"In which file of the new tree does the diff add the definition (def) of {name}?"
    return Asked(question, text(head), [head.span(), line.span()])


@about("diff_recursive", "range", "latest")
def last_changed(data: bytes) -> Asked:
    head = found(r"^diff -ruN \S+ new/(\S+)$", data)[-1]
    return Asked("Which is the last file that the diff changes?", text(head), [head.span()])
