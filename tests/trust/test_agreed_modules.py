"""Modules beside an agent's file: those that were agreed to are imported, as they were then, and nothing else is."""

import asyncio
import importlib
import importlib.util
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from holdall import trust
from holdall.agent import build
from holdall.agent.build import build_agent
from holdall.agent.files import load_agent
from holdall.agent.functions import load_function
from holdall.config import load
from holdall.llm import gguf
from holdall.mcp.client.spec import load as servers_in
from holdall.sql import worker
from holdall.trust import Claims, Module, agreed_modules, find_modules, named_modules
from holdall.values.errors import NoSuchModel, NotTrusted, UsageError
from tests.cli.agents import report
from tests.requirements import requirement
from tests.support import in_effort

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


def asked(folder: Path, agree: Callable[[Claims], None], tool: str = "hold_tools:who", more: str = "") -> None:
    """The agent is built, unless `agree` says no."""
    write(folder, {"agent.md": f"---\nmodel: scripted:{folder}/model.json\ntools: [{tool}]\n{more}---\nHi.\n"})
    (folder / "model.json").write_text(json.dumps([report("done")]))
    built(folder, agree)


def built(folder: Path, agree: Callable[[Claims], bool | None]) -> None:
    async def run() -> None:
        async with build_agent(
            load_agent(folder / "agent.md"), home=str(folder.parent / "home"), agree=agree,
            settings_of=lambda one: load(front_matter=one.settings, places=one.sources, environment={}).settings,
        ):  # fmt: skip
            pass

    asyncio.run(run())


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


@requirement("trust:shows-what-it-names")
def test_the_module_of_a_sub_agent_is_shown_by_where_it_is(folder: Path) -> None:
    write(folder, {
        "hold_tools.py": FUNCTION, "sub/hold_tools.py": FUNCTION, "agent.md": "",
        "sub/b.md": f"---\nmodel: scripted:{folder}/model.json\ntools: [hold_tools:who]\n---\nHi.\n",
    })  # fmt: skip
    shown: list[tuple[str, str]] = []
    with pytest.raises(UsageError, match="only one of them can"):
        asked(folder, lambda claims: shown.extend(claims.shown), more="agents: [sub/b.md]\n")
    assert shown == [
        ("agent", f"{folder}/sub/b.md"),
        ("module", "hold_tools:who   (hold_tools.py)"),
        ("module", "hold_tools:who   (sub/hold_tools.py)"),
    ]


# Nothing that a checkout has keeps us busy before the question


@requirement("trust:nothing-before-agreement")
def test_agents_that_many_name_are_looked_at_and_built_once(folder: Path) -> None:
    """Forty levels of two agents, each of which names both of the next: there are a billion ways down."""
    write(folder, {"hold_tools.py": f"NAME = ''\n{FUNCTION}"})
    for level in range(40):
        for side in "ab":
            names = f"agents: [a{level + 1}.md, b{level + 1}.md]\n" if level < 39 else ""
            write(folder, {f"{side}{level}.md": f"---\n{names}---\nHi.\n"})
    shown: list[tuple[str, str]] = []
    asked(folder, lambda claims: shown.extend(claims.shown), more="agents: [a0.md, b0.md]\n")
    assert len(shown) == 81


@requirement("trust:nothing-before-agreement")
def test_a_module_that_many_functions_name_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def look(spec: str, folders: list[str]) -> dict[str, Module]:
        looked.append(spec)
        return named_modules(spec, folders)

    monkeypatch.setattr(build, "named_modules", look)
    write(folder, {"hold_tools.py": f"NAME = ''\n{FUNCTION}" + "".join(f"def f{n}(): pass\n" for n in range(50))})
    more = ", ".join(f"hold_tools:f{n}" for n in range(50))
    write(folder, {"sub.md": f"---\ntools: [{more}]\n---\nHi.\n"})
    with pytest.raises(NotTrusted):
        asked(folder, refuse, f"hold_tools:who, {more}", "agents: [sub.md]\n")
    assert looked == ["hold_tools:who"]
    monkeypatch.setattr(build, "_MOST_SOURCE", 10)
    with pytest.raises(UsageError, match="import more than 10 bytes"):
        asked(folder, refuse)


def refuse(_: Claims) -> None:
    raise NotTrusted("no", "no")


@requirement("trust:nothing-before-agreement")
@pytest.mark.parametrize("name", ["hold_tools.py", "model.json", "run.sh"])
def test_a_link_to_a_file_of_the_system_without_an_end_is_refused(folder: Path, name: str) -> None:
    """It says that it has no bytes."""
    (folder / name).symlink_to("/proc/self/pagemap")
    if name == "run.sh":
        write(folder, {"mcp.json": json.dumps({"mcpServers": {"a": {"command": "sh", "args": [str(folder / name)]}}})})
        with pytest.raises(UsageError, match="more bytes than it says"):
            servers_in(str(folder / "mcp.json"))
        return
    model = "" if name == "hold_tools.py" else f"model: scripted:{folder}/model.json\n"
    write(folder, {"agent.md": f"---\n{model}tools: [hold_tools:who]\n---\nHi.\n"} | (
        {} if name == "hold_tools.py" else {"hold_tools.py": f"NAME = ''\n{FUNCTION}"}
    ))  # fmt: skip
    with pytest.raises(UsageError, match="more bytes than it says"):
        built(folder, refuse)


@requirement("trust:nothing-before-agreement")
def test_a_module_of_gigabytes_is_not_read(folder: Path) -> None:
    with open(folder / "hold_tools.py", "wb") as file:
        file.truncate(6 << 30)
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match="has 6,442,450,944 bytes; at most 33,554,432 are read"):
            find_modules("hold_tools", [str(folder)])
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@requirement("trust:shows-what-it-names")
def test_a_script_that_searches_by_patterns_of_its_own_is_shown(folder: Path) -> None:
    """They have no deadline."""
    shown: list[tuple[str, str]] = []
    write(folder, {"agent.md": f"---\nmodel: scripted:{folder}/model.json\n---\nHi.\n"})
    for script in ('["done"]', '[{"when": "(a|a)+$", "text": "x"}]', '[{"\\u0077hen": "(a|a)+$", "text": "x"}]'):
        (folder / "model.json").write_text(script)
        built(folder, lambda claims: shown.append(claims.shown[0] if claims.shown else ("nothing", "")))
    script = ("model", f"scripted:{folder}/model.json")
    assert shown == [("nothing", ""), script, script]


@requirement("trust:shows-what-it-names", "trust:asks-again-when-changed")
@pytest.mark.parametrize("name", ["model?x.json", "model.json/.", "./model.json//"])
def test_the_file_of_a_model_is_watched_however_its_name_is_written(folder: Path, name: str) -> None:
    file = folder / name.partition("/.")[0].strip("./") if "?" not in name else folder / name
    write(folder, {"agent.md": f'---\nmodel: "scripted:{folder}/{name}"\n---\nHi.\n'})
    file.write_text('[{"when": "(a|a)+$", "text": "x"}]')
    found: list[Claims] = []
    built(folder, found.append)
    file.write_text('["done"]')
    built(folder, found.append)
    assert [one.shown for one in found] == [(("model", f"scripted:{folder}/{name}"),), ()]
    assert [str(file) in dict(one.files) for one in found] == [True, True]
    assert found[0].files != found[1].files
    file.rename(folder / "m.gguf")
    write(folder, {"agent.md": f'---\nmodel: "gguf:{folder}/m.gguf/."\n---\nHi.\n'})
    with pytest.raises(NoSuchModel):
        built(folder, found.append)
    assert str(folder / "m.gguf") in dict(found[2].files)


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    "setting",
    ["model: scripted:{0}/model.json", "model: scripted:{0}/a.json\nextraction_model: scripted:{0}/model.json"],
)
@pytest.mark.parametrize("before", [True, False], ids=["changed", "new"])
def test_the_script_of_a_model_that_changes_after_the_yes_is_not_used(folder: Path, setting: str, before: bool) -> None:
    write(folder, {"agent.md": f"---\n{setting.format(folder)}\n---\nHi.\n", "a.json": '["done"]'})
    write(folder, {"model.json": '["done"]'} if before else {})

    def agree(_: Claims) -> bool:
        write(folder, {"model.json": '["evil"]'})
        return True

    with pytest.raises(UsageError, match=r"model\.json has changed since you were asked"):
        built(folder, agree)
    built(folder, lambda _: True)


@pytest.mark.in_full
@requirement("trust:shows-what-it-names")
def test_servers_of_many_agents_do_not_hold_up_the_question(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes all that one command may take; a file that many agents name is looked at once."""
    monkeypatch.setattr(trust, "_MAX_TRIES", 100)
    write(
        folder, {"run.sh": "".join(f"python3 a{n}.py\n" for n in range(100)), "hold_tools.py": f"NAME = ''\n{FUNCTION}"}
    )
    for at in range(20):
        servers = {"a": {"command": "sh", "args": [str(folder / "run.sh"), str(at)]}}
        write(
            folder,
            {f"m{at}.json": json.dumps({"mcpServers": servers}), f"a{at}.md": f"---\nservers: m{at}.json\n---\nHi.\n"},
        )
        write(folder, {f"b{at}.md": "---\nservers: m0.json\n---\nHi.\n"})
    names = {side: ", ".join(f"{side}{at}.md" for at in range(20)) for side in "ab"}
    with pytest.raises(NotTrusted):
        asked(folder, refuse, more=f"agents: [{names['b']}]\n")
    with pytest.raises(UsageError, match="and of the agents before run more files than are looked at"):
        asked(folder, refuse, more=f"agents: [{names['a']}]\n")


@requirement("trust:nothing-before-agreement")
def test_a_module_is_not_parsed_for_its_imports(folder: Path) -> None:
    write(folder, {
        "hold_tools.py": "x = [" + "1," * 200_000 + "]\nif x: import hold_a; import hold_b.c as d\n"
        "from hold_space import (  # text\n one as first,\n two)\nimport " + "a." * 10_000 + "a\n",
        "hold_a.py": "from hold_b \\\n import c", "hold_b/__init__.py": "", "hold_b/c.py": "from . import e",
        "hold_b/e.py": "", "hold_space/one.py": "", "hold_space/two.py": "", "d.py": "", "first.py": "",
    })  # fmt: skip
    tracemalloc.start()
    try:
        found = find_modules("hold_tools", [str(folder)])
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
    assert sorted(found) == [
        "hold_a", "hold_b", "hold_b.c", "hold_b.e", "hold_space", "hold_space.one", "hold_space.two", "hold_tools"
    ]  # fmt: skip
    write(folder, {"hold_many.py": "\n".join(f"import a{at}" for at in range(11_000))})
    with pytest.raises(UsageError, match="the module hold_many imports more than 10,000 names"):
        find_modules("hold_many", [str(folder)])


@requirement("trust:nothing-before-agreement")
@pytest.mark.parametrize("end", ["", "\nhold_a)"])
def test_imports_without_an_end_are_not_read_again_and_again(folder: Path, end: str) -> None:
    write(folder, {"hold_tools.py": "import(#" * 100_000 + end, "hold_a.py": ""})

    def find() -> str:
        with pytest.raises(UsageError) as refused:
            find_modules("hold_tools", [str(folder)])
        return str(refused.value)

    told = in_effort(100, find)
    assert told == "the module hold_tools: its imports cannot be followed: too many of them have no end."
    write(folder, {"hold_text.py": "text = 'import(#'; import hold_a  # and (\n"})
    assert sorted(find_modules("hold_text", [str(folder)])) == ["hold_a", "hold_text"]
