"""The pages are true: every command prints what they say, every Python example runs, every link leads somewhere."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.docs import examples, reference
from tests.docs.console import Page, agrees, plain
from tests.requirements import requirement

ROOT = Path(__file__).parents[2]
PAGES = examples.PAGES
WRITTEN = [*PAGES, *sorted((ROOT / "docs" / "adapters").glob("*.md")), ROOT / "CHANGELOG.md"]

_WRITTEN_BY_TOOLS = re.compile(r"<!-- ([\w-]+): begin -->.*?<!-- \1: end -->", re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def _having(fence: str) -> list[Path]:
    return [page for page in PAGES if f"```{fence}\n" in page.read_text("utf-8")]


@pytest.mark.parametrize("path", _having("console"), ids=lambda path: path.name)
def test_every_command_of_a_page_prints_what_the_page_says(path: Path, tmp_path: Path) -> None:
    page = Page(path, tmp_path)
    for step in page.steps():
        printed = page.run(step)
        page.learn(step.expected, printed)
        shown = page.as_said(printed)
        assert agrees(step.expected, shown), (
            f"$ {step.command}\n--- page\n{plain(step.expected)}\n--- real\n{plain(shown)}"
        )


@pytest.mark.parametrize("path", _having("python"), ids=lambda path: path.name)
def test_every_python_example_of_a_page_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "kept"))
    # For the programs of a page, whose clients pass HOME on and little else: no page has a slow call, a machine may be busy.
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    settings = tmp_path / "user" / ".config" / "holdall" / "config.toml"
    settings.parent.mkdir(parents=True, mode=0o700)
    settings.write_text("slow_after_seconds = 300\n")
    monkeypatch.chdir(tmp_path)
    for number, example in enumerate(examples.FENCE.findall(path.read_text("utf-8"))):
        code = compile(example, f"{path.name}[{number}]", "exec", flags=examples.TOP_LEVEL_AWAIT)
        names: dict[str, object] = {}
        running = eval(code, names)
        if asyncio.iscoroutine(running):
            asyncio.run(running)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_every_link_of_a_page_leads_to_a_file_and_to_a_heading(path: Path) -> None:
    built = {reference.FOLDER / name for name in reference.pages()}
    links = _LINK.findall(_FENCED.sub("", path.read_text("utf-8")))
    targets = {(path.parent / file if file else path, heading) for file, heading in links}
    assert [file for file, _ in targets if file not in built and not file.exists()] == []
    assert [(file, one) for file, one in targets if one and file not in built and one not in _headings(file)] == []


def _headings(path: Path) -> set[str]:
    titles: list[str] = re.findall(r"^#+ (.+)$", _FENCED.sub("", path.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-") for title in titles}


def test_a_page_that_lies_is_caught(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\ntwo\n```\n")
    liar = Page(page, tmp_path)
    (step,) = liar.steps()
    assert not agrees(step.expected, liar.run(step))


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 180


@requirement("extract:documented")
@pytest.mark.parametrize("page", ["README.md", "docs/for-models.md"])
def test_the_tools_of_the_documents_are_named_where_people_and_models_look(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert "`tool_output" in text
    assert "`get_tool_output" in text


def test_the_pages_that_people_write_stay_short_in_all() -> None:
    texts = [page.read_text("utf-8") for page in WRITTEN]
    words = sum(len(_WRITTEN_BY_TOOLS.sub("", text).split()) for text in texts)
    assert 10_000 < words <= 30_000


def test_what_a_tool_writes_into_a_page_does_not_count_as_written_by_people() -> None:
    page = "One two.\n<!-- speed: begin -->\nthree four\n<!-- speed: end -->\nfive\n"
    assert _WRITTEN_BY_TOOLS.sub("", page).split() == ["One", "two.", "five"]


def test_the_lines_that_the_readme_tells_for_frameworks_are_those_of_their_pages() -> None:
    rows = re.findall(r"\]\((docs/adapters/\w+\.md)\) \| `(.+)` \|", (ROOT / "README.md").read_text("utf-8"))
    pages = {f"docs/adapters/{one.name}" for one in (ROOT / "docs/adapters").glob("*.md")}
    assert {place for place, _ in rows} == pages - {"docs/adapters/frameworks.md"}  # of all of them
    for place, line in rows:
        assert line in (ROOT / place).read_text("utf-8"), place


def test_the_figures_of_other_ways_are_those_of_the_benchmarks() -> None:
    measured = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")
    page = (ROOT / "docs" / "other-ways.md").read_text("utf-8")
    row = re.compile(
        r"^\| (first 50 KB|head \+ tail of 25k|Holdall: the notice and)[^|]*\|[^|]*\|[^|]*\| ([\d.]+)% \| ([\d,]+)",
        re.M,
    )
    (cut, tokens), (ends, _), (ours, ours_tokens), *further = [(seen, told) for _, seen, told in row.findall(measured)]
    assert f"in {float(cut):.0f} % of 71 questions with the first 50 KB, in {float(ends):.0f} % with 25,000" in page
    assert f"in\n{float(ours):.0f} % with a notice and at most three calls, for {ours_tokens} tokens" in page
    assert f"{round(int(tokens.replace(',', '')), -2):,} tokens a result" in page
    (cut, _), (ends, theirs), (ours, own) = further
    assert f"On 60 others it is {float(cut):.0f} %, {float(ends):.0f} % and {float(ours):.0f} %" in page
    assert f"at {int(theirs.replace(',', '')) / int(own):.0f} times the tokens" in page.replace("\n", " ")
