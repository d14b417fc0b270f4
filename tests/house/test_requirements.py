"""Requirements and tests fit together, both ways.

Tests are read with `ast`, never run or imported: an id counts where it decorates a test (a function
`test_…` or a class `Test…`), stands in `pytestmark`, or in the `marks=` of a parameter.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

import pytest

from tests.requirements import FOLDER, GAPS, MalformedRequirement, Requirement, load, requirement

TESTS = FOLDER.parent


@dataclass(frozen=True, slots=True)
class Use:
    """An id that a test names, and where."""

    id: str
    place: str


@dataclass(frozen=True, slots=True)
class Misuse:
    """A `requirement(…)` that proves nothing, and why."""

    place: str
    why: str

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


# ── Reading the tests ───────────────────────────────────────────────────────────────────────────────────────


def uses_in(source: str, name: str) -> Iterator[Use | Misuse]:
    """Every use of `requirement(…)` as a mark in the text of a test module."""
    for node in ast.walk(ast.parse(source, filename=name)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _decorators(node, name, is_test=node.name.startswith("test_"))
            case ast.ClassDef():
                yield from _decorators(node, name, is_test=node.name.startswith("Test"))
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=value):
                yield from _marks(value, name)
            case ast.AnnAssign(target=ast.Name(id="pytestmark"), value=ast.expr() as value):
                yield from _marks(value, name)
            case ast.keyword(arg="marks", value=value):
                yield from _marks(value, name)
            case _:
                pass


def _decorators(
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, name: str, *, is_test: bool
) -> Iterator[Use | Misuse]:
    for decorator in node.decorator_list:
        for use in _marks(decorator, name):
            yield use if is_test else Misuse(use.place, f"{node.name} is not a test")


def _marks(value: ast.expr, name: str) -> Iterator[Use | Misuse]:
    if isinstance(value, ast.List | ast.Tuple):
        for element in value.elts:
            yield from _marks(element, name)
        return
    match value:
        case ast.Call(func=ast.Name(id="requirement") | ast.Attribute(attr="requirement")):
            place = f"{name}:{value.lineno}"
            for argument in value.args:
                match argument:
                    case ast.Constant(value=str(named)):
                        yield Use(named, place)
                    case _:
                        yield Misuse(place, f"{ast.unparse(argument)} is not a plain string")
        case _:
            pass


def uses_under(folder: Path) -> list[Use | Misuse]:
    """Every use in the Python files of `folder`."""
    return [
        use
        for path in sorted(folder.rglob("*.py"))
        for use in uses_in(path.read_text(encoding="utf-8"), path.relative_to(folder.parent).as_posix())
    ]


# ── Comparing ───────────────────────────────────────────────────────────────────────────────────────────────


def misused(uses: Iterable[Use | Misuse]) -> list[str]:
    return [str(use) for use in uses if isinstance(use, Misuse)]


def unknown(known: Mapping[str, Requirement], uses: Iterable[Use | Misuse]) -> list[str]:
    return [f"{use.id} ({use.place})" for use in uses if isinstance(use, Use) and use.id not in known]


def unproven(known: Mapping[str, Requirement], uses: Iterable[Use | Misuse]) -> list[str]:
    named = {use.id for use in uses if isinstance(use, Use)}
    return [entry.id for entry in known.values() if entry.gap is None and entry.id not in named]


def closed_gaps(known: Mapping[str, Requirement], uses: Iterable[Use | Misuse]) -> list[str]:
    return [
        f"{use.id} ({use.place})"
        for use in uses
        if isinstance(use, Use) and use.id in known and known[use.id].gap is not None
    ]


def report(headline: str, lines: list[str]) -> str:
    return f"{headline} ({len(lines)}):\n" + "\n".join(f"  {line}" for line in lines)


@pytest.fixture(scope="module")
def known() -> dict[str, Requirement]:
    return load()


@pytest.fixture(scope="module")
def uses() -> list[Use | Misuse]:
    return uses_under(TESTS)


def test_every_mark_is_on_a_test_and_names_plain_strings(uses: list[Use | Misuse]) -> None:
    faults = misused(uses)
    assert not faults, report("marks that prove nothing", faults)


def test_every_id_that_a_test_names_exists(known: dict[str, Requirement], uses: list[Use | Misuse]) -> None:
    faults = unknown(known, uses)
    assert not faults, report("no such requirement", faults)


def test_every_requirement_without_a_gap_has_a_test(known: dict[str, Requirement], uses: list[Use | Misuse]) -> None:
    faults = unproven(known, uses)
    assert not faults, report("no test names this requirement", faults)


def test_no_test_proves_what_is_listed_as_a_gap(known: dict[str, Requirement], uses: list[Use | Misuse]) -> None:
    faults = closed_gaps(known, uses)
    assert not faults, report("no longer a gap: remove the key", faults)


# ── The data ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_requirements_load(known: dict[str, Requirement]) -> None:
    assert known
    assert all(key == entry.id for key, entry in known.items())


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.toml")), ids=lambda path: path.stem)
def test_a_file_holds_the_requirements_of_its_section(path: Path, tmp_path: Path) -> None:
    (tmp_path / path.name).write_bytes(path.read_bytes())
    assert {entry.section for entry in load(tmp_path).values()} == {path.name[:2].lstrip("0")}


def test_no_text_stands_under_two_ids(known: dict[str, Requirement]) -> None:
    texts = [entry.text for entry in known.values()]
    twice = sorted({text for text in texts if texts.count(text) > 1})
    assert not twice, report("the same text under several ids", twice)


# ── The loader ──────────────────────────────────────────────────────────────────────────────────────────────

ENTRY = """\
[[requirement]]
id = "read:lines"
section = "7"
source = "SPEC 7"
text = "read takes a range of lines."
"""


def test_an_entry_is_loaded_as_it_stands(tmp_path: Path) -> None:
    (tmp_path / "07.toml").write_text(ENTRY)
    (tmp_path / "09.toml").write_text(ENTRY.replace("read:", "tail:") + 'gap = "slow calls"\n')
    assert load(tmp_path) == {
        "read:lines": Requirement("read:lines", "7", "SPEC 7", "read takes a range of lines."),
        "tail:lines": Requirement("tail:lines", "7", "SPEC 7", "read takes a range of lines.", "slow calls"),
    }


@pytest.mark.parametrize("gap", sorted(GAPS))
def test_every_capability_may_be_a_gap(gap: str, tmp_path: Path) -> None:
    (tmp_path / "07.toml").write_text(f'{ENTRY}gap = "{gap}"\n')
    assert load(tmp_path)["read:lines"].gap == gap


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param(ENTRY + ENTRY, r"'read:lines' is already in 07\.toml", id="twice"),
        pytest.param(ENTRY + 'owner = "me"\n', "unknown key owner", id="unknown key"),
        pytest.param(ENTRY.replace('source = "SPEC 7"\n', ""), "without source", id="missing key"),
        pytest.param(ENTRY.replace('"7"', "7"), "section is 7, not a text", id="not a text"),
        pytest.param(ENTRY.replace('"SPEC 7"', '" "'), "source is ' ', not a text", id="empty text"),
        pytest.param(ENTRY.replace("read:lines", "read"), "'read' is not of the form", id="no slug"),
        pytest.param(ENTRY.replace("read:lines", "read:Lines"), "is not of the form", id="upper case"),
        pytest.param(ENTRY.replace("read:lines", "read:by--lines"), "is not of the form", id="two dashes"),
        pytest.param(ENTRY.replace("read:lines", "reed:lines"), "has no known area", id="unknown area"),
        pytest.param(ENTRY + 'gap = "some day"\n', "unknown gap 'some day'", id="unknown gap"),
        pytest.param(ENTRY + "\n[[requirements]]\n", "not requirements", id="misspelt table"),
        pytest.param("requirement = [1]\n", "1 is not a", id="not a table"),
        pytest.param("", "no .*requirement.* stands here", id="empty file"),
        pytest.param("[[requirement]", r"07\.toml: ", id="not TOML"),
    ],
)
def test_the_loader_refuses_with_the_file_and_the_reason(text: str, complaint: str, tmp_path: Path) -> None:
    (tmp_path / "07.toml").write_text(text)
    with pytest.raises(MalformedRequirement, match=complaint) as refused:
        load(tmp_path)
    assert str(refused.value).startswith("07.toml")


def test_the_loader_refuses_an_id_that_another_file_has(tmp_path: Path) -> None:
    (tmp_path / "07.toml").write_text(ENTRY)
    (tmp_path / "08.toml").write_text(ENTRY)
    with pytest.raises(MalformedRequirement, match=r"08\.toml: 'read:lines' is already in 07\.toml"):
        load(tmp_path)


def test_the_loader_refuses_a_folder_without_requirements(tmp_path: Path) -> None:
    with pytest.raises(MalformedRequirement, match="holds no requirements"):
        load(tmp_path)


def test_the_mark_carries_its_ids() -> None:
    mark = requirement("read:lines", "read:bytes").mark
    assert (mark.name, mark.args) == ("requirement", ("read:lines", "read:bytes"))


def test_the_mark_refuses_an_unknown_id_and_names_near_ones() -> None:
    with pytest.raises(MalformedRequirement, match=r"'read:line'.* Near it: .*read:lines"):
        requirement("read:lines", "read:line")


def test_the_mark_refuses_to_name_nothing() -> None:
    with pytest.raises(MalformedRequirement, match="at least one id"):
        requirement()


# ── The reader of tests ─────────────────────────────────────────────────────────────────────────────────────


def found_in(source: str) -> list[Use | Misuse]:
    return list(uses_in(dedent(source), "tests/test_x.py"))


def test_ids_are_found_wherever_a_mark_may_stand() -> None:
    found = found_in(
        """
        pytestmark = [requirement("a:module"), pytest.mark.faults]

        @requirement("a:one", "a:two")
        def test_plain(): ...

        @requirement("a:class")
        class TestClass:
            pytestmark = requirement("a:inner")

            @pytest.mark.anyio
            @requirements.requirement("a:method")
            async def test_async(self): ...

        @pytest.mark.parametrize("n", [
            pytest.param(1, marks=requirement("a:single")),
            pytest.param(2, marks=[pytest.mark.fuzz, requirement("a:listed")]),
        ])
        def test_cases(n): ...
        """
    )
    assert misused(found) == []
    assert {use.id for use in found if isinstance(use, Use)} == {
        "a:module", "a:one", "a:two", "a:class", "a:inner", "a:method", "a:single", "a:listed",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('@requirement("a:b")\ndef helper(): ...\n', "tests/test_x.py:1: helper is not a test"),
        ("@requirement(*IDS)\ndef test_it(): ...\n", "tests/test_x.py:1: *IDS is not a plain string"),
        ("pytestmark = requirement(NAME)\n", "tests/test_x.py:1: NAME is not a plain string"),
    ],
)
def test_a_mark_that_proves_nothing_is_reported(source: str, why: str) -> None:
    assert misused(found_in(source)) == [why]


def test_ids_in_strings_and_plain_calls_do_not_count() -> None:
    assert found_in('TEXT = \'@requirement("a:b")\'\nrequirement("a:c")\n') == []


def test_the_comparison_names_what_is_unknown_unproven_and_no_longer_a_gap() -> None:
    entries = [
        Requirement("read:proven", "7", "SPEC 7", "Proven."),
        Requirement("read:forgotten", "7", "SPEC 7", "Forgotten."),
        Requirement("read:open", "7", "SPEC 7", "Open.", "later"),
        Requirement("read:closed", "7", "SPEC 7", "Closed.", "later"),
    ]
    known = {entry.id: entry for entry in entries}
    uses = [Use("read:proven", "t.py:1"), Use("read:closed", "t.py:2"), Use("read:invented", "t.py:3")]
    assert unknown(known, uses) == ["read:invented (t.py:3)"]
    assert unproven(known, uses) == ["read:forgotten"]
    assert closed_gaps(known, uses) == ["read:closed (t.py:2)"]
    assert report("no such requirement", unknown(known, uses)) == ("no such requirement (1):\n  read:invented (t.py:3)")
