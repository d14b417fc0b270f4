"""Modules beside an agent's file: those that were agreed to are imported, as they were then, and nothing else is."""

import asyncio
import importlib
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from holdall.agent.build import build_agent
from holdall.agent.files import load_agent
from holdall.agent.functions import load_function
from holdall.config import load
from holdall.llm import gguf
from holdall.sql import worker
from holdall.trust import Claims, agreed_modules, find_modules
from holdall.values.errors import NotTrusted, UsageError
from tests.cli.agents import report
from tests.requirements import requirement

FUNCTION = 'def who() -> str:\n    "Tells."\n    return NAME\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of a checkout; what was imported from it is forgotten afterwards."""
    monkeypatch.setattr(agreed_modules, "modules", {})
    before, paths = set(sys.modules), list(sys.path)
    (tmp_path / "checkout").mkdir()
    yield tmp_path / "checkout"
    assert sys.path == paths
    for name in set(sys.modules) - before:
        del sys.modules[name]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def asked(folder: Path, agree: Callable[[Claims], None], tool: str = "hold_tools:who") -> None:
    """The agent is built, unless `agree` says no."""
    write(folder, {"agent.md": f"---\nmodel: scripted:{folder}/model.json\ntools: [{tool}]\n---\nHi.\n"})
    (folder / "model.json").write_text(json.dumps([report("done")]))

    async def build() -> None:
        async with build_agent(
            load_agent(folder / "agent.md"), home=str(folder.parent / "home"), agree=agree,
            settings_of=lambda one: load(front_matter=one.settings, places=one.sources, environment={}).settings,
        ):  # fmt: skip
            pass

    asyncio.run(build())


@requirement("trust:nothing-before-agreement")
def test_a_file_that_nothing_names_is_imported_by_nobody(folder: Path) -> None:
    """Not for a module that some package tries to import, nor in a process of ours."""
    write(folder, {
        "hold_tools.py": f"import hold_inner.deep\nimport hold_space.one\nNAME = 'me'\n{FUNCTION}",
        "hold_inner/__init__.py": "", "hold_inner/deep.py": "", "hold_space/one.py": "", "hold_space/two.py": "",
        "hold_stray.py": "",
    })  # fmt: skip
    assert load_function("hold_tools:who", folder=str(folder))() == "me"
    assert load_function("json:dumps", folder=str(folder)) is importlib.import_module("json").dumps
    for child in (worker, gguf):
        assert str(folder) not in child._import_paths()  # pyright: ignore[reportPrivateUsage]
    write(folder, {"hold_inner/late.py": "", "hold_later.py": ""})
    importlib.invalidate_caches()
    for name in ("hold_stray", "hold_later", "hold_inner.late", "hold_space.two"):
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module(name)


@requirement("trust:shows-what-it-names")
@pytest.mark.parametrize(
    ("files", "name"),
    [
        (("hold_tools.py", "hold_tools/__init__.py"), "hold_tools"),
        (("hold_tools.py", f"hold_tools{EXTENSION_SUFFIXES[0]}"), "hold_tools"),
        (("hold_tools/__init__.py", "hold_tools/a.py", "hold_tools/a/__init__.py"), "hold_tools.a"),
        (("hold_tools.py", "hold_helper.py", "hold_helper/__init__.py"), "hold_helper"),
    ],
)
def test_a_name_with_two_sources_is_refused_before_the_question(folder: Path, files: list[str], name: str) -> None:
    write(folder, dict.fromkeys(files, f"import hold_helper\nraise AssertionError\n{FUNCTION}"))
    with pytest.raises(UsageError, match=f"hold_tools:who: the module {name} has two sources, .* and .*, and only one"):
        asked(folder, lambda _: pytest.fail("it was asked"))


@requirement("trust:shows-what-it-names")
def test_a_name_that_python_has_is_refused_before_the_question(folder: Path) -> None:
    for name in ("json", "this"):  # one that is loaded, one that is not
        write(folder, {f"{name}.py": FUNCTION})
        with pytest.raises(UsageError, match=rf"{name}.*py has the name of {folder}/{name}.py, and only one of them"):
            asked(folder, lambda _: pytest.fail("it was asked"), tool=f"{name}:who")
    write(folder, {"hold_tools.py": f"import json, this\n{FUNCTION}"})
    assert list(find_modules("hold_tools", [str(folder)])) == ["hold_tools"], "Python has the others"


@requirement("trust:shows-what-it-names")
def test_native_code_is_shown_as_the_file_that_it_is(folder: Path) -> None:
    native = f"hold_tools{EXTENSION_SUFFIXES[0]}"
    write(folder, {native: "not really"})

    def agree(claims: Claims) -> None:
        assert claims.shown == (("module", f"hold_tools:who   ({native})"),)
        write(folder, {native: "another one"})

    with pytest.raises(UsageError, match=rf"{native} has changed since you were asked"):
        asked(folder, agree)


@requirement("trust:asks-again-when-changed")
def test_what_was_agreed_to_is_what_runs(folder: Path) -> None:
    """Somebody may write to a file while the question is on the screen."""
    write(folder, {"hold_tools.py": f"from hold_pack import NAME\n{FUNCTION}", "hold_pack/__init__.py": "NAME = 'old'"})

    def agree(claims: Claims) -> None:
        assert len(claims.files) == 4, "with agent and model"
        write(folder, {"hold_tools.py": "raise AssertionError", "hold_pack/__init__.py": "raise AssertionError"})

    asked(folder, agree)
    assert sys.modules["hold_tools"].who() == "old"
    assert importlib.util.find_spec("hold_pack") is not None

    def refuse(claims: Claims) -> None:
        raise NotTrusted(claims.path)

    with pytest.raises(NotTrusted):
        asked(folder, refuse)
