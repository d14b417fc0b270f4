"""The figures of the house: right on a small made-up package, and there for our own."""

import importlib.util
import json
import threading
from pathlib import Path
from types import ModuleType

import pytest

from bench import __main__ as program
from bench.house import Figure, Trace, longest_chain, shape, table

PACKAGE = {
    "__init__.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toy.top import start\n",
    "top.py": "from toy.low import base\nfrom toy.low.base import ONE\n\n\ndef start():\n    return ONE\n",
    "lone.py": "def later():\n    import toy.top\n",
    "low/__init__.py": '"""Below."""\n',
    "low/base.py": "from .words import ONE\n",
    "low/words.py": "ONE = 1\n",
    "high/__init__.py": "",
    "high/words.py": "from toy import lone\nfrom ..low.base import ONE\n",
}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    for name, text in PACKAGE.items():
        file = tmp_path / "toy" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return tmp_path / "toy"


def test_lines_modules_names_and_imports_are_counted(toy: Path) -> None:
    found = {figure.name: (figure.value, figure.detail) for figure in shape(toy)}
    assert found["lines"] == (16, "")
    assert found["modules"] == (8, "")
    assert found["median module, lines"] == (1.5, "")
    assert found["largest module, lines"] == (6, "toy.top")
    assert found["file names that recur"] == (1, "words.py")
    assert found["longest import chain, modules"] == (
        5, "toy.high.words → toy.lone → toy.top → toy.low.base → toy.low.words"
    )  # fmt: skip
    # Neither what a function imports nor what only a type checker reads.
    assert found["the same, of imports at the top of modules"] == (3, "toy.high.words → toy.low.base → toy.low.words")
    # toy.lone has one importer too, but in another package.
    assert found["share of modules with one importer, in their package"] == (0.125, "toy.low.words")


def test_an_import_that_closes_a_circle_does_not_make_a_chain_endless() -> None:
    assert len(longest_chain({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == 3


def test_files_and_switches_are_counted_in_every_thread(toy: Path) -> None:
    (toy / "one.py").write_text("def run(other):\n    other()\n    other()\n", encoding="utf-8")
    (toy / "two.py").write_text("def run():\n    pass\n", encoding="utf-8")
    one, two = (_loaded(toy / f"{name}.py") for name in ("one", "two"))
    watch = Trace(toy)
    with watch.set_up():
        one.run(two.run)  # not yet on
        watch.on = True
        thread = threading.Thread(target=lambda: one.run(two.run))
        thread.start()
        thread.join()
        two.run()
        two.run()
        watch.on = False
        one.run(two.run)
    assert {Path(file).name for file in watch.files} == {"one.py", "two.py"}
    assert watch.switches == 1  # from one to two in the thread; here nothing but two ran


@pytest.mark.in_full
def test_our_own_house_has_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["house", "--json", "--rounds", "1"]) == 0
    found = {figure["name"]: figure for figure in json.loads(capsys.readouterr().out)}
    assert all(figure["value"] > 0 for figure in found.values() if figure["name"] != "file names that recur")
    assert {name for name, figure in found.items() if figure["aim"] is not None} == {
        "lines", "modules", "longest import chain, modules", "the same, of imports at the top of modules",
        "files in a take of 1 MB", "files in a context_grep", "from holdall import Holdall, × import typer",
    }  # fmt: skip
    # Several rooms take part in either call, whatever their names are: it was traced beyond the bag, threads included.
    for call in ("take of 1 MB", "context_grep"):
        files = found[f"files in a {call}"]["detail"].split()
        assert len({file.partition("/")[0] for file in files}) >= 4


def test_an_aim_that_is_missed_is_said_and_fails_nothing() -> None:
    lines = table([Figure("modules", 448, 220), Figure("chain", 20, 20), Figure("median", 100.5)]).splitlines()
    assert [line.split() for line in lines] == [
        ["figure", "now", "aim"],
        ["modules", "448", "≤", "220", "not", "yet"],
        ["chain", "20", "≤", "20", "reached"],
        ["median", "100.5"],
    ]


def _loaded(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"toy_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
