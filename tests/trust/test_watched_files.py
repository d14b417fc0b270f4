"""What a server's command runs: which files are watched, what the question says of them, and that nothing else starts."""

import asyncio
import importlib.util
import json
import marshal
import os
import shlex
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall import trust
from holdall.mcp.client import spec
from holdall.mcp.client.connection import Connection
from holdall.mcp.client.server_process import StopTimeouts, start
from holdall.mcp.client.spec import StdioServer, load
from holdall.values.errors import UpstreamFault, UsageError
from tests.cli.agents import SERVER
from tests.requirements import requirement

UNCHECKED = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + bytes(8)


def write(folder: Path, *names: str, text: str = "x") -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def watched(folder: Path, *words: str, **environment: str) -> list[str]:
    found = trust.watched_files(words, environment, str(folder), str(folder))
    assert found.whole
    return [os.path.relpath(one, folder) for one, _ in found.files]


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "texts", "others"),
    [
        ("python3 srv.txt out", {"srv.txt": "import helper, pack.a", "helper.py": "", "pack/__init__.py": "",
                                 "pack/a.py": "from . import b", "pack/b.py": "", "random.py": ""}, ["note.txt"]),
        ("python3 -u lib/serve.py out", {"lib/serve.py": "", "lib/beside.py": ""}, ["helper.json"]),
        ("python3 -Im pack.deep", {"pack/__init__.py": "", "pack/deep.py": "", "random.py": ""}, []),
        ("python3 -c 'import a'", {"a.py": ""}, ["data.csv"]),
        ("python3 s.py", {"s.py": "import pk.a, ns.b", "pk/__init__.py": "", "pk/a.pyc": "", "ns/b.pyc": ""}, ["ns/c.json"]),
        ("python3 srv", {"srv/__main__.pyc": ""}, ["srv.txt"]),
        ("python3 s.py", {"s.py": "from ns import(a)\nfrom ns.b import*", "ns/a.py": "", "ns/b.py": ""}, ["ns/c.md"]),
        ("python3 -m ns.s", {"ns/s.py": "from.a import X\nfrom . b import Y", "ns/a.py": "", "ns/b.py": ""}, ["ns/c.md"]),
        ("python3 s.py", {"s.py": "from ns\\\n.a import X\nfrom ns import b as q,\\\n c\nimport ns . d\\\n, ns.e",
                          **dict.fromkeys(("ns/a.py", "ns/b.py", "ns/c.py", "ns/d.py", "ns/e.py"), "")}, ["ns/f.log"]),
        ("sh run.sh", {"run.sh": "exec python3 -E s.py", "s.py": "import h", "h.py": "",
                       "__pycache__/h.cpython-311.pyc": "timed\0\0\0"}, []),
        ("./s.py", {"s.py": "#!/usr/bin/python3 -E\nimport ns.h", "ns/h.py": "",
                    "ns/__pycache__/h.cpython-311.pyc": "timed\0\0\0"}, []),
        ("node server", {"server.js": "require('./lib/one')", "lib/one.js": "import './two.mjs'", "lib/two.mjs": ""},
         ["lib/three.json"]),
        ("node app ./data.db", {"app/index.js": "", "data.db": ""}, ["more.db"]),
        ("node --require ./hook.txt --require=./x.js server.js", {"hook.txt": "", "x.js": "", "server.js": ""}, []),
        ("npx .", {"package.json": '{"bin": "./bin/cli"}', "bin/cli.js": ""}, []),
        ("npx -y @me/serve@1.2 x", {"node_modules/.bin/serve": "", "node_modules/@me/serve/package.json": '"./a.js"',
                                    "node_modules/@me/serve/a.js": ""}, ["node_modules/.bin/other"]),
        ("uv run tool", {".venv/bin/tool": ""}, [".venv/bin/other"]),
        ("npm start", {"package.json": '{"scripts": {"start": "sh start.sh"}}', "start.sh": ""}, []),
        ("sh -c 'npm start'", {"package.json": '{"scripts": {"start": "sh start.sh"}}', "start.sh": ""}, ["data.json"]),
        ("/usr/bin/env make run", {"Makefile": "run:\n\t@sh x.sh\n", "x.sh": ""}, []),
        ("sh run.sh", {"run.sh": "exec make -C sub run", "sub/Makefile": "run:\n\t@sh x.sh\n", "sub/x.sh": ""}, []),
        ("npm --prefix sub start", {"sub/package.json": '{"main": "./a.js"}', "sub/a.js": ""}, []),
        ("make --directory=sub", {"sub/Makefile": "run:\n\t@sh x.sh\n", "sub/x.sh": ""}, []),
        ("uv --directory sub run s.py", {"s.py": "", "h.py": "", "sub/s.py": "", "sub/h.py": "", "sub/json.py": "",
                                         "sub/pyproject.toml": ""}, ["lib/h.csv", "sub/deep/h.db"]),
        ("uv --directory sub run tool", {"sub/.venv/bin/tool": ""}, ["sub/.venv/bin/other"]),
        ("sh -c 'cd \"sub\" && python3 srv.txt out'", {"srv.txt": "", "sub/srv.txt": "import h", "sub/h.py": ""}, ["sub/rest.csv"]),
        ("sh -c 'cd \"sub\" && exec node main'", {"main.js": "", "sub/main.js": ""}, ["sub/other.json"]),
        ("python3 -c \"import sys;sys.path.insert(0,'sub');import server\"", {"server.py": "", "sub/server.py": "import h",
                                                                          "sub/h.py": ""}, []),
        ("python3 -Bmserver", {"server.py": "", "json.py": ""}, ["lib/more.parquet"]),
        ("env -C sub python3 -m pack", {"sub/pack/__init__.py": "", "sub/pack/__main__.py": "", "sub/re.py": ""}, []),
        ("sh server.sh", {"server.sh": "", "lib/server.sh": ""}, ["server.db", "lib/server.json"]),
        ("awk -fsub/prog.awk", {"sub/prog.awk": ""}, ["sub/other.tsv"]),
        ("node index.js", {"index.js": "", "lib/index.js": ""}, ["node_modules/x/index.js", ".venv/lib/index.js"]),
        ("sh -c 'cd \"node_modules/x\" && node index.js'", {"index.js": "", "node_modules/x/index.js": ""},
         ["node_modules/y/index.js"]),
        ("npx -y @me/mcp-server-thing", {}, ["server.py", "thing.py", "lib/mcp.py"]),
        ("Rscript serve.R out", {"serve.R": ""}, ["rest.json"]),
        ("go run main.go", {"main.go": ""}, ["main.db"]),
        ("go run ./cmd/server", {"cmd/server/main.go": ""}, []),
        ("docker compose -f docker/dev.yml up", {"docker/dev.yml": ""}, ["docker/other.json"]),
        ("psql --file=x.sql out.json", {"x.sql": "", "out.json": ""}, []),
        ("uvicorn app.main:serve", {"app/main.py": "", "app/__init__.py": ""}, ["other.txt"]),
        ("make serve", {"Makefile": "serve:\n\t@sh x.sh\n", "x.sh": ""}, []),
        ("npm run x", {"package.json": '{"scripts": {"x": "node dist/main"}}', "dist/main.js": ""}, ["yarn.txt"]),
        ("yarn x", {".yarnrc.yml": "yarnPath: .yarn/releases/yarn.cjs", ".yarn/releases/yarn.cjs": ""}, ["pom.txt"]),
        ("uv run srv", {"pyproject.toml": "[project.scripts]\nsrv = 'pkg.main:run'", "src/pkg/__init__.py": "",
                        "src/pkg/main.py": ""}, []),
        ("timeout 5 python3 -u srv.txt out", {"srv.txt": "import helper", "helper.py": ""}, ["rest.json"]),
        ("sh -c 'python srv.txt < out'", {"srv.txt": ""}, ["rest.json"]),
        ("bash -lc 'cd pkg && exec node main'", {"pkg/main.js": ""}, ["other.json"]),
        ("make run", {"Makefile": "run:\n\tpython3 srv.txt out\n", "srv.txt": ""}, ["rest.json"]),
        ("uvx mcp-server-sqlite ./data.csv", {"data.csv": ""}, ["more.csv", "package.json"]),
        ("./tool data.db", {"tool": "", "data.db": ""}, ["tool.db"]),
        ("tool", {"tool": ""}, ["README", "LICENSE", ".ruff_cache/0.11/123", ".bash_history", ".last-gc", f"names/{'a1' * 32}"]),
        ("{folder}/tool", {"tool": ""}, []),
        ("/usr/bin/env run.sh", {"run.sh": ". ./x", "x": ""}, []),
        ("sh -c 'set -e; . ./a.sh; exec ./tool; cat note.txt'", {"a.sh": "", "tool": ""}, []),
        ("sh run.sh", {"run.sh": "if true; then . ./env; fi\nsource other\n", "env": "", "other": ""}, ["third.txt"]),
        ("sh -c '. ./env; exec ./tool'", {"env": "", "tool": ""}, []),
        ("make -s -f build.mk run", {"build.mk": "include rules.mk\n-include more\n", "rules.mk": "", "more": ""}, []),
        ("sh go.sh", {"go.sh": "exec python3 app/server\n", "app/server": "", "app/email.py": ""}, []),
        ("python3 a.py", {"a.py": "from pk import (  # a (comment)\n one,\n two)\n", "pk/one.py": "", "pk/two.py": ""}, []),
    ],
)  # fmt: skip
def test_the_code_that_a_command_names_is_watched(
    tmp_path: Path, words: str, texts: dict[str, str], others: list[str]
) -> None:
    write(tmp_path, *others)
    for name, text in texts.items():
        write(tmp_path, name, text=text)
        (tmp_path / name).chmod(0o755 if "." not in name else 0o644)
    found = watched(tmp_path, *shlex.split(words.format(folder=tmp_path)))
    assert set(found) >= set(texts)
    assert not [one for one in others if one in found]


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize("script", [". ./env; exec true", "set -e; . env", "if true; then source ./env; fi", ". env"])
def test_what_a_shell_is_told_to_read_is_watched_though_it_is_no_program(tmp_path: Path, script: str) -> None:
    write(tmp_path, "env", "other.txt")
    assert watched(tmp_path, "sh", "-c", script) == ["env"]
    write(tmp_path, "run.sh", text=f"{script}\n")
    assert watched(tmp_path, "sh", "run.sh") == ["env", "run.sh"]


@requirement("trust:asks-again-when-changed")
def test_the_code_that_variables_name_is_watched(tmp_path: Path) -> None:
    write(tmp_path, "b.py", "c.js", "bin/uptime", "lib/x.txt", "src/mod.py", "rc", "pre.so")
    (tmp_path / "bin" / "uptime").chmod(0o755)
    code = {"b.py", "c.js", "bin/uptime", "src/mod.py", "pre.so", "rc"}
    fetched = ("npx", "-y", "thing")
    assert watched(tmp_path, *fetched, NOTE="./nothing:rc.json") == []
    assert watched(tmp_path, *fetched, MEMORY_FILE="file:./lib/x.txt") == []
    assert watched(tmp_path, *fetched, THING_CONFIG="file:./lib/x.txt") == ["lib/x.txt"]
    assert {*watched(tmp_path, *fetched, PATH="./bin:/usr/bin")} == code
    assert {*watched(tmp_path, *fetched, PATH=f"{tmp_path}/bin:/usr/bin")} == code
    assert {*watched(tmp_path, *fetched, NODE_OPTIONS="--require=./c.js", BASH_ENV="lib/x.txt")} == {*code, "lib/x.txt"}
    assert {*watched(tmp_path, *fetched, LD_LIBRARY_PATH="lib")} == {*code, "lib/x.txt"}
    assert {*watched(tmp_path, *fetched, SCRIPT="b.py")} == code


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "environment", "names"),
    [
        ("npx -y thing", {"HOME": "./home"}, [".npmrc", "sh.txt", ".npm/a.log"]),
        ("npx -y thing", {"npm_config_prefix": "home"}, ["etc/npmrc", "lib/node_modules/thing/package.json"]),
        ("uvx thing", {"XDG_CONFIG_HOME": "home:x"}, ["uv/uv.toml"]),
        ("uvx thing", {"UV_CACHE_DIR": "./home"}, ["a/b.json"]),
        ("docker run thing", {"DOCKER_CONFIG": "./home/"}, ["config.json", "cli-plugins/docker-x"]),
        ("bash -lc 'python3 server.py'", {"HOME": "./home"}, [".bash_login"]),
        ("git mcp", {"GIT_DIR": "./home"}, ["config", "HEAD", "notes.txt"]),
        ("thing", {"SETTINGS": "--from=home,--x"}, ["x.json"]),
        ("thing", {"RUN_PROFILE": "run home/x.json y"}, ["x.json"]),
        ("python3 -m thing", {"PYTHONUSERBASE": "home"}, ["lib/site-packages/usercustomize.py", "__pycache__/a.pyc"]),
    ],
)  # fmt: skip
def test_all_of_a_folder_is_watched_that_a_variable_names_which_decides_what_runs(
    tmp_path: Path, words: str, environment: dict[str, str], names: list[str]
) -> None:
    write(tmp_path, "data.json", *(f"home/{name}" for name in names))
    found = watched(tmp_path, *shlex.split(words), **environment)
    assert {f"home/{name}" for name in names} <= {*found}
    assert "data.json" not in found


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["make", "-sfserver.txt", "run"], ["server.txt"]),
        (["sed", "-nfscript.txt"], ["script.txt"]),
        (["java", "@args.txt"], ["args.txt"]),
        (["sh", "-c", "gcc @flags.txt -o s main.c && exec ./s"], ["flags.txt", "main.c"]),
        (["sh", "-c", "cd a/b && cat ../start.txt | sh"], ["a/start.txt"]),
        (["sh", "-c", """cat x"."txt my\\ script.txt y''.txt | sh"""], ["x.txt", "my script.txt", "y.txt"]),
        (["sh", "-c", "cat {one,two}.txt | sh"], ["one.txt", "two.txt"]),
        (["bash", "-c", "cat *.txt | sh"], ["a/b.txt", "c.txt"]),
        (["sh", "-c", "cat a,b.txt '(d).txt' | sh"], ["a,b.txt", "(d).txt"]),
    ],
)
def test_a_file_that_a_command_names_is_watched_whatever_stands_before_its_name(
    tmp_path: Path, words: list[str], names: list[str]
) -> None:
    checkout = tmp_path / "checkout"  # above it are the files of other tests
    checkout.mkdir()
    write(checkout, "other.json", "data.csv", "a/b/any.json", *names)
    found = watched(checkout, *words)
    assert {*names} <= {*found}
    assert {"other.json", "data.csv", "a/b/any.json"}.isdisjoint(found)


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "environment", "name"),
    [
        ("npx --offline srv", {"PLUGIN": "./plug"}, "plug.js"),
        ("uvx flask run", {"FLASK_APP": "pkg.app:create"}, "pkg/app.py"),
        ("uvx thing", {"DJANGO_SETTINGS_MODULE": "proj.settings"}, "proj/settings.py"),
    ],
)
def test_code_that_a_variable_of_any_name_names_for_a_fetched_program_is_watched(
    tmp_path: Path, words: str, environment: dict[str, str], name: str
) -> None:
    write(tmp_path, name, "data.json")
    assert watched(tmp_path, *words.split(), **environment) == [name]


@requirement("trust:asks-again-when-changed")
def test_what_a_server_is_told_to_write_stays_data_but_no_code_does(tmp_path: Path) -> None:
    write(tmp_path, "memory.json", "server.log", "work/a.json", "run.sh")
    words = ["npx", "-y", "thing", "--memory-file", "memory.json", "--log=server.log", "work"]
    environment = {"MEMORY_FILE_PATH": "./memory.json", "ALLOWED": "./work", "LOG": "./run.sh"}
    assert watched(tmp_path, *words, **environment) == ["run.sh"]
    assert watched(tmp_path, "perl", "-I", "work", "server.log") == ["run.sh", "server.log"]
    assert "run.sh" in watched(tmp_path, "npx", "-y", "thing", "--log", "run.sh")


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "variable"),
    [
        ("uvicorn app:app", "UVICORN_LOG_CONFIG"),
        ("npx thing", "LOG_CONFIG"),
        ("npx thing", "STATE_SETTINGS"),
        ("npx thing", "NODE_OUTPUT_OPTIONS"),
        ("npx thing", "LOG_CONFIG_PATH"),
        ("gunicorn --log-config-json a.json", ""),
        ("npx thing --log-conf a.json", ""),
        ("npx thing --state-machine=a.json", ""),
    ],
)
def test_settings_of_what_is_written_are_no_data(tmp_path: Path, words: str, variable: str) -> None:
    write(tmp_path, "a.json")
    assert "a.json" in watched(tmp_path, *shlex.split(words), **({variable: "a.json"} if variable else {}))


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    "words",
    ["npx -c 'make -s serve'", "npx --call 'anything at all'", "npm exec -c 'x'", "uvx mcp-proxy cargo run",
     "npx -y supergateway --stdio 'docker compose up'", "uvx --from thing make", "npx -c 'npm --silent start'"],
)  # fmt: skip
def test_what_is_fetched_and_runs_something_of_the_project_is_watched_with_all_of_it(
    tmp_path: Path, words: str
) -> None:
    write(tmp_path, "Makefile", "server.js", "src/main.rs")
    assert {"Makefile", "server.js", "src/main.rs"} <= {*watched(tmp_path, *shlex.split(words))}


@requirement("trust:asks-again-when-changed")
def test_code_is_no_data_under_a_name_as_editors_and_stores_give(tmp_path: Path) -> None:
    code = [".import-a.py", ".claim-b.js", ".coverage.c.py", "d.js~", ".~lock.e.sh"]
    data = [".import-0a1b", ".claim-0a1b", ".coverage.host.12.345", "notes.txt~", ".~lock.a.odt#"]
    write(tmp_path, "server.py", *code, *data)
    assert watched(tmp_path, "python3", "server.py") == sorted([*code, "server.py"])


@requirement("trust:asks-again-when-changed", "trust:shows-what-it-names")
def test_a_folder_that_a_variable_names_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, *(f"home/{name}.json" for name in "abcdefgh"))
    monkeypatch.setattr(trust, "_MAX_ENTRIES", 12)
    assert not trust.watched_files(["npx", "x"], {"HOME": "home"}, str(tmp_path), str(tmp_path)).whole


@requirement("trust:asks-again-when-changed")
def test_a_database_is_data_where_the_command_or_a_variable_says_that_it_is_one(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "app.db") as base:
        base.execute("create table a (b)")
    base.close()
    before = {
        "uvx thing --db-path ./app.db": "",
        "x --sqlite=app.db": "",
        "sh app.db": "",
        "uvx thing": "sqlite:app.db",
    }

    def look() -> list[bool]:
        again = [
            trust.watched_files(words.split(), {"DATABASE_URL": url}, str(tmp_path), str(tmp_path))
            for words, url in before.items()
        ]
        return [new != old for new, old in zip(again, first, strict=True)] if first else first.extend(again) or []

    first: list[trust.Watched] = []
    look()
    with (tmp_path / "app.db").open("ab") as file:
        file.write(b"more")
    assert look() == [False, False, True, False]
    with zipfile.ZipFile(tmp_path / "app.db", "a") as archive:
        archive.writestr("__main__.py", "x")
    assert look() == [True, True, True, False]


@requirement("trust:nothing-before-agreement", "trust:shows-what-it-names")
@pytest.mark.parametrize("word", ["/../" * 255_000, "/a/" * 340_000, " ".join(f"/{n}" for n in range(15_000)),
                                  ":/a/b" * 200_000, " ".join(f"/{n}/" + "a/" * 1900 for n in range(24))],
                         ids=["up", "down", "many", "alike", "long"])  # fmt: skip
def test_words_that_are_many_or_long_do_not_hold_up_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """No path is longer than the system takes, and of those that may be one a number is looked at."""
    followed: list[str] = []
    follow = os.path.realpath

    def count(path: str, *more: Any, **options: Any) -> str:
        followed.append(path)
        return follow(path, *more, **options)

    monkeypatch.setattr(trust.os.path, "realpath", count)
    for words, environment in (
        (["bash", "-c", word], {}),
        (["npx", "x"], {"A": word}),
    ):
        followed.clear()
        found = trust.watched_files(words, environment, str(tmp_path), str(tmp_path))
        assert sum(map(len, followed)) < 1_500_000
        assert not found.whole or "/a/a/a" in word


@requirement("trust:asks-again-when-changed")
def test_compiled_code_that_python_does_not_compare_with_its_source_is_watched(tmp_path: Path) -> None:
    write(tmp_path, "serve.py", "__pycache__/serve.cpython-311.pyc")
    cached = tmp_path / "__pycache__" / "serve.cpython-311.pyc"
    cached.write_bytes(importlib.util.MAGIC_NUMBER + bytes(12))
    assert watched(tmp_path, "python3", "serve.py") == ["serve.py"]
    assert watched(tmp_path, "python3", "-sE", "serve.py") == ["__pycache__/serve.cpython-311.pyc", "serve.py"]
    cached.write_bytes(UNCHECKED)
    assert watched(tmp_path, "python3", "serve.py") == ["__pycache__/serve.cpython-311.pyc", "serve.py"]


@requirement("trust:asks-again-when-changed")
def test_compiled_code_of_a_checkout_is_not_run_in_place_of_what_was_agreed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python takes it where it has the size and the time of the source, which an archive may set."""
    ran, folder = tmp_path / "ran", tmp_path / "checkout"
    write(folder, "helper.py", text="ran = 'agreed'\n")
    write(folder, "server.py", text=f"import helper\nopen({str(ran)!r}, 'w').write(helper.ran)\n")
    about = (folder / "helper.py").stat()
    head = importlib.util.MAGIC_NUMBER + bytes(4) + int(about.st_mtime).to_bytes(4, "little")
    cached = Path(importlib.util.cache_from_source(str(folder / "helper.py")))
    cached = folder / "__pycache__" / cached.name
    cached.parent.mkdir()
    cached.write_bytes(head + about.st_size.to_bytes(4, "little") + marshal.dumps(compile("ran = 'evil'", "x", "exec")))
    servers = {"files": {"command": sys.executable, "args": ["server.py"]}}
    write(folder, "mcp.json", text=json.dumps({"mcpServers": servers}))
    monkeypatch.chdir(folder)
    (spec,) = load("mcp.json").servers
    assert isinstance(spec, StdioServer)
    subprocess.run([sys.executable, "server.py"], check=True, env={"PATH": os.environ["PATH"]})
    assert ran.read_text() == "evil"  # so it is by itself

    async def run() -> None:
        surroundings = {"PATH": os.environ["PATH"], "PYTHONPYCACHEPREFIX": str(tmp_path / "compiled")}
        child = await start(spec, environment=surroundings, hear=lambda _: None, silent=lambda: None)
        await child.exit_code_and_stderr(60)
        await child.end(StopTimeouts())

    ran.unlink()
    asyncio.run(run())
    assert ran.read_text() == "agreed"


def test_a_text_without_an_end_takes_no_time(tmp_path: Path) -> None:
    write(tmp_path, "imports.py", text="from a import (" + "#(\n# b (\n" * 5000)
    assert watched(tmp_path, "python3", "imports.py") == ["imports.py"]
    write(tmp_path, "server.js", text="a/" * 500_000)
    assert watched(tmp_path, "node", "server.js") == ["imports.py", "server.js"]


@requirement("trust:shows-what-it-names", "trust:asks-again-when-changed")
def test_too_many_files_are_said_to_be_unwatched_and_no_yes_to_them_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_MAX_ENTRIES", 4)
    folder = tmp_path / "project"
    write(folder, "serve.py", "a.py", "b.py")
    write(folder, "mcp.json", text=json.dumps({"mcpServers": {"a": {"command": "python3", "args": ["serve.py"]}}}))
    monkeypatch.chdir(folder)
    agreements, asked = trust.Agreements(str(tmp_path / "own")), list[Sequence[str]]()

    def ask(lines: Sequence[str]) -> bool:
        asked.append(lines)
        return True

    for _ in range(2):
        trust.check_agreed(load("mcp.json").claims, agreements, ask=ask)
    assert ([one for one, _ in load("mcp.json").claims.shown], len(asked)) == (["command"], 1)
    write(folder, "c.py")
    for _ in range(2):
        trust.check_agreed(load("mcp.json").claims, agreements, ask=ask)
    found = load("mcp.json").claims
    what = "files that it runs: they are too many, so each start asks   (server a)"
    assert (found.shown[1], found.whole, len(asked)) == (("unwatched", what), False, 3)


@requirement("trust:asks-again-when-changed")
def test_of_many_files_few_are_opened_and_the_change_of_any_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    opening = trust._opened  # pyright: ignore[reportPrivateUsage]

    def count(path: str) -> Any:
        opened.append(path)
        return opening(path)

    monkeypatch.setattr(trust, "_opened", count)
    monkeypatch.setattr(trust, "_MAX_HASHED", 50)
    write(tmp_path, *(f"lib{n % 9}/m{n}.py" for n in range(300)), *(f"data/{n}.json" for n in range(300)))
    before = watched(tmp_path, "python3", "lib0/m0.py")
    assert (len(before), len(opened)) == (300, 50)
    for name in before[::40]:
        old = trust.watched_files(["python3", "lib0/m0.py"], {}, str(tmp_path), str(tmp_path))
        about = (tmp_path / name).stat()
        write(tmp_path, name, text="y")
        os.utime(tmp_path / name, ns=(about.st_atime_ns, about.st_mtime_ns))
        assert trust.watched_files(["python3", "lib0/m0.py"], {}, str(tmp_path), str(tmp_path)) != old, name


@pytest.mark.in_full
@requirement("trust:shows-what-it-names")
def test_a_file_of_many_servers_does_not_hold_up_the_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes all of what one command may take; how many are looked at does not depend on how many there are."""
    looked: list[Sequence[str]] = []

    def look(words: Sequence[str], *more: Any) -> trust.Watched:
        looked.append(words)
        return trust.watched_files(words, *more)

    monkeypatch.setattr(spec, "watched_files", look)
    monkeypatch.setattr(trust, "_MAX_TRIES", 1000)
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "run.sh", text="".join(f"python3 a{n}.py\n" for n in range(1000)))
    servers = {f"s{n}": {"command": "bash", "args": ["run.sh", str(n)]} for n in range(8)}
    write(tmp_path, "few.json", text=json.dumps({"mcpServers": servers}))
    assert len(load("few.json").servers) == 8
    looked.clear()
    more = {f"m{n}": {"command": "bash", "args": ["run.sh", str(n)]} for n in range(400)}
    write(tmp_path, "many.json", text=json.dumps({"mcpServers": servers | more}))
    with pytest.raises(
        UsageError, match="m0 and those before it run more files than are looked through: put some into"
    ):
        load("many.json")
    assert len(looked) == 9
    light = {f"s{n}": {"command": "uvx", "args": ["thing", str(n)]} for n in range(100)}
    write(tmp_path, "light.json", text=json.dumps({"mcpServers": light}))
    assert len(load("light.json").servers) == 100


@requirement("trust:shows-what-it-names")
def test_a_file_of_very_many_servers_or_keys_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "urls.json", text=json.dumps({"mcpServers": {f"u{n}": {"url": "http://a"} for n in range(1001)}}))
    with pytest.raises(UsageError, match="holds 1,001 servers; at most 1,000 are read"):
        load("urls.json")
    keys = {f"kkkkkkkkkkkk{n}": 1 for n in range(101)}
    write(tmp_path, "keys.json", text=json.dumps({"mcpServers": {"a": {"command": "true", **keys}}}))
    with pytest.raises(UsageError, match="one of more than 100 keys that are not known to Holdall"):
        load("keys.json")


@requirement("trust:asks-again-when-changed")
def test_what_a_script_runs_is_found_without_its_ending(tmp_path: Path) -> None:
    write(tmp_path, "run.sh", text="cd lib\nnode ./main\n. other")
    write(tmp_path, "lib/main.mjs", "lib/other.zsh", "lib/note.txt")
    assert watched(tmp_path, "bash", "run.sh") == ["lib/main.mjs", "lib/other.zsh", "run.sh"]


@requirement("trust:shows-what-it-names")
def test_variables_are_shown_as_the_file_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They decide what runs as much as the command does."""
    names = (
        "PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "NODE_OPTIONS",
        "BASH_ENV",
        "ENV",
        "GIT_SSH_COMMAND",
        "npm_config_prefix",
    )
    assert all(map(trust.decides_code, names))
    assert not any(map(trust.decides_code, ("TOKEN", "API_KEY", "LOG_LEVEL", "MEMORY_FILE", "LANG")))
    monkeypatch.setenv("GIVEN", "of-the-user")
    write(tmp_path, "bin/uptime", "helper.py", *(f"m{at:02}.py" for at in range(20)))
    (tmp_path / "bin" / "uptime").chmod(0o755)
    environment = {"PATH": "./bin:/usr/bin", "TOKEN": "${GIVEN}", "NOTE": "two words\x1b[2J"}
    server = {"command": "uptime", "args": ["helper.py"], "env": environment, "cwd": str(tmp_path)}
    write(tmp_path, "mcp.json", text=json.dumps({"mcpServers": {"a": server}}))
    told = trust.told(load(str(tmp_path / "mcp.json")).claims)
    assert "\n".join(told).replace(str(tmp_path), "DIR") == snapshot("""\
  watched   bin/uptime, helper.py, m00.py, m01.py, m02.py, m03.py, m04.py, m05.py, m06.py, m07.py, m08.py, m09.py and 11 more files
  command   uptime helper.py   in DIR   (server a)
  sets      PATH=./bin:/usr/bin   WHICH DECIDES WHAT CODE RUNS   (server a)
  sets      TOKEN='${GIVEN}'   (server a)
  sets      NOTE='two words\\x1b[2J'   (server a)
  variable  GIVEN → server a\
""")


# What was agreed to is what is started


def server(tmp_path: Path) -> StdioServer:
    about = {"command": sys.executable, "args": ["./serve.py", "ran"], "cwd": str(tmp_path)}
    write(tmp_path, "serve.py", text=Path(SERVER).read_text())
    write(tmp_path, "mcp.json", text=json.dumps({"mcpServers": {"files": about}}))
    assert [getattr(one, "watched", 0) for one in load(str(tmp_path / "mcp.json")).unwatched().servers] == [None]
    (one,) = load(str(tmp_path / "mcp.json")).servers
    assert isinstance(one, StdioServer)
    return one


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize("name", ["serve.py", "json.py"])
def test_a_server_whose_files_have_changed_is_not_started(tmp_path: Path, name: str) -> None:
    """While the question is on the screen, or before it is started again: also by a module that takes Python's place."""
    spec = server(tmp_path)
    assert spec.changed_files() == ()
    write(tmp_path, name)

    async def start() -> None:
        connection = Connection(spec)
        try:
            await connection.tools()
        finally:
            await connection.aclose()

    with pytest.raises(UpstreamFault) as refused:
        asyncio.run(start())
    assert str(refused.value).replace(str(tmp_path), "DIR").replace(name, "NAME") == snapshot(
        'MCP server "files" was not started: files that it runs or could import have changed since you agreed (NAME). Start this again: without --trust you are asked again about what is in DIR/mcp.json.'
    )
    assert not (tmp_path / "ran").exists()


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "serve.py").write_text("import os\n")
    (tmp_path / "__pycache__").mkdir()
    os.mkfifo(tmp_path / "__pycache__" / "serve.cpython-311.pyc")
    assert watched(tmp_path, "python", "serve.py") == ["serve.py"]
    os.mkfifo(tmp_path / "agent.md")
    with pytest.raises(UsageError, match="cannot be read: Not a file"):
        trust.file_hash(str(tmp_path / "agent.md"))


def test_what_npm_finds_above_its_folder_is_watched(tmp_path: Path) -> None:
    write(tmp_path, "sub/data.txt", "package.json")
    found = trust.watched_files(["npm", "start"], {}, str(tmp_path / "sub"), str(tmp_path))
    assert [one for one, _ in found.files] == [str(tmp_path / "package.json")]


@requirement("trust:asks-again-when-changed")
def test_what_is_too_much_to_look_through_is_watched_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkout could hold up the question for half an hour with texts that name each other."""
    for number in range(8):
        (tmp_path / f"{number}.sh").write_text(f". ./{number + 1}.sh\n" + "make " * 200)
    (tmp_path / "7.sh").write_text("python3 last.txt")
    write(tmp_path, "last.txt")
    names = [f"{number}.sh" for number in range(8)]
    assert watched(tmp_path, "sh", "0.sh") == [*names, "last.txt"]
    monkeypatch.setattr(trust, "_MAX_SCANNED_TOGETHER", 3_000)
    assert watched(tmp_path, "sh", "0.sh") == names, "but for data that runs"


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "environment", "files"),
    [
        (["python", "-m", "app.main"], {},
         {"app/main.py": "from .core import x", "app/core/x.py": "from ..util import z", "app/util.py": ""}),
        (["python", "server.py"], {},
         {"server.py": "import ns.sub.mod", "ns/sub/mod.py": "from ..up import x", "ns/up.py": ""}),
        (["python", "-m", "app"], {"PYTHONPATH": "src"},
         {"src/app/__init__.py": "", "src/app/__main__.py": "from app import inner", "src/app/inner.py": ""}),
        (["python", "-m", "app"], {"PYTHONPATH": "src"}, {"src/app/__main__.py": "from .inner import x", "src/app/inner.py": ""}),
        (["python", "server.py"], {}, {"server.py": "import ｎｓ.mod", "ns/mod.py": ""}),
    ],
    ids=["relative", "namespace", "src", "src without init", "letters"],
)  # fmt: skip
def test_each_module_that_a_server_imports_by_name_is_watched(
    tmp_path: Path, words: list[str], environment: dict[str, str], files: dict[str, str]
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = trust.watched_files(words, environment, str(tmp_path), str(tmp_path))
    assert found.whole
    assert {os.path.relpath(one, os.path.realpath(tmp_path)) for one, _ in found.files} >= set(files)


@requirement("trust:asks-again-when-changed")
def test_a_linked_folder_of_a_package_is_watched(tmp_path: Path) -> None:
    for name in ("project/pkg/__init__.py", "project/lib/hidden/__init__.py", "project/lib/hidden/more.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    project = tmp_path / "project"
    (project / "server.py").write_text("import pkg.hidden")
    (project / "pkg" / "hidden").symlink_to("../lib/hidden")
    (project / "lib" / "hidden" / "back").symlink_to("..")
    found = trust.watched_files(["python", "server.py"], {}, str(project), str(project))
    names = {os.path.relpath(one, os.path.realpath(project)) for one, _ in found.files}
    assert {"server.py", "pkg/__init__.py", "lib/hidden/__init__.py", "lib/hidden/more.py"} <= names


def test_imports_of_a_source_in_another_encoding_are_read_as_python_reads_them(tmp_path: Path) -> None:
    write(tmp_path, "mödul/b.py")
    (tmp_path / "s.py").write_bytes("# coding: latin-1\nimport mödul.b\n".encode("latin-1"))
    assert watched(tmp_path, "python3", "s.py") == ["mödul/b.py", "s.py"]
    (tmp_path / "s.py").write_bytes("# coding: utf-7\n+AGk-mport m+APY-dul.b\n".encode("ascii"))
    assert watched(tmp_path, "python3", "s.py") == ["mödul/b.py", "s.py"]


@requirement("trust:asks-again-when-changed")
def test_what_is_in_the_folder_above_is_watched_where_a_command_goes_there(tmp_path: Path) -> None:
    write(tmp_path, "server.sh", "conf/server.sh")
    for words in (["env", "-C", "..", "./server.sh"], ["sh", "-c", "cd '..' && ./server.sh"]):
        found = trust.watched_files(words, {}, str(tmp_path / "conf"), str(tmp_path / "conf"))
        assert dict(found.files).keys() == {str(tmp_path / "server.sh"), str(tmp_path / "conf" / "server.sh")}


@requirement("trust:shows-what-it-names")
def test_a_project_of_more_files_than_are_looked_at_is_said_to_be_watched_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "tool.sh", *(f"node_modules/{name}/tool.sh" for name in "abcdefgh"))
    monkeypatch.setattr(trust, "_MAX_ENTRIES", 5)
    assert watched(tmp_path, "sh", "tool.sh") == ["tool.sh"], "what is installed is not looked through"
    write(tmp_path, *(f"lib/{name}.txt" for name in "abcdefgh"))
    assert watched(tmp_path, "npx", "-y", "thing") == [], "it runs none of them"
    found = trust.watched_files(["sh", "tool.sh"], {}, str(tmp_path), str(tmp_path))
    assert (found.whole, [*dict(found.files)]) == (False, [str(tmp_path / "tool.sh")])


def test_links_to_folders_are_not_followed_but_watched(tmp_path: Path) -> None:
    write(tmp_path, "project/tool.sh", "other/tool.sh")
    (tmp_path / "project" / "back").symlink_to("..")
    assert watched(tmp_path / "project", "sh", "tool.sh") == ["back", "tool.sh"]


PACKAGE = '{"name": "mine", "bin": {"own": "./cli"}, "scripts": {"start": "node main.js"}}'


@pytest.mark.in_full(one_in=3)
@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "files", "changed"),
    [
        # what a runner reads, there or not
        ("npx -y thing", {}, ".npmrc"),
        ("npx -y thing", {".npmrc": "registry=https://a"}, ".npmrc"),
        ("npx -y thing", {"main.js": ""}, "package.json"),
        ("npx -y thing", {}, "node_modules/.bin/thing"),
        ("npx -y thing", {".npmrc": "script-shell=./tools/sh"}, "tools/sh"),
        ("npx own", {"package.json": PACKAGE, "lib/a.js": ""}, "lib/a.js"),
        ("npx mine", {"package.json": PACKAGE, "lib/a.js": ""}, "lib/a.js"),
        ("npx -p . cmd", {"lib/a.js": ""}, "lib/a.js"),
        ("npx --package=./lib cmd", {"lib/a.js": ""}, "lib/a.js"),
        ("npx tsx src/server", {"src/server.ts": "", "src/b.ts": ""}, "src/b.ts"),
        ("npm exec -- thing", {}, ".npmrc"),
        ("pnpm dlx thing", {}, ".pnpmfile.cjs"),
        ("pnpm dlx thing", {".pnpmfile.cjs": "require('./' + name)", "h.js": ""}, "h.js"),
        ("pnpx thing", {}, "pnpm-workspace.yaml"),
        ("pnpm start", {"package.json": PACKAGE}, "pnpm-lock.yaml"),
        ("yarn dlx thing", {}, ".yarnrc.yml"),
        ("yarn dlx thing", {".yarnrc.yml": "yarnPath: .yarn/y.cjs", ".yarn/y.cjs": ""}, ".yarn/y.cjs"),
        ("yarn start", {"package.json": PACKAGE}, ".pnp.cjs"),
        ("bunx thing", {}, "bunfig.toml"),
        ("bun x thing", {"bunfig.toml": 'preload = ["./pre.ts"]', "pre.ts": ""}, "pre.ts"),
        ("uvx thing", {}, "uv.toml"),
        ("uvx thing", {"uv.toml": 'find-links = ["./wheels"]', "wheels/a.whl": ""}, "wheels/b.whl"),
        ("uvx --from . tool", {"setup.py": "", "pkg/a.py": ""}, "pkg/a.py"),
        ("uvx --with-requirements deps.list tool", {"deps.list": "a"}, "deps.list"),
        ("uv run tool", {}, "uv.lock"),
        ("uv run --with-requirements base.txt tool", {"base.txt": "a"}, "base.txt"),
        ("uv tool run thing", {}, "pyproject.toml"),
        ("pipx run thing", {}, "requirements.txt"),
        ("deno run main.ts", {"main.ts": ""}, "deno.json"),
        ("deno run main.ts", {"main.ts": ""}, "import_map.json"),
        ("docker build -f deploy/image .", {"deploy/image": "FROM a"}, "deploy/image"),
        ("docker compose up", {}, "compose.yaml"),
        ("docker run --env-file deploy.list a", {"deploy.list": "X=1"}, "deploy.list"),
        ("docker run -v ./src:/app a", {"src/a.py": ""}, "src/a.py"),
        ("docker run --mount type=bind,source=.,target=/app a", {"src/a.py": ""}, "src/a.py"),
        ("pip install -r a.txt -c b.txt", {"a.txt": "", "b.txt": ""}, "b.txt"),
        ("npx -y mcp-proxy --config servers.json", {"servers.json": "{}"}, "servers.json"),
        ("sh -c 'sh < run.txt'", {"run.txt": ""}, "run.txt"),
        ("python3 a.py", {"a.py": "sys.path.insert(0, 'lib.zip')", "lib.zip": "PK"}, "lib.zip"),
        ("uvx 'thing @ ./lib'", {"lib/pyproject.toml": "", "lib/a.py": ""}, "lib/a.py"),
        ("unknown-runner serve", {}, "Anyfile.rb"),
        # how code gets at code
        ("python3 server.py", {"server.py": "open('größe.py')", "größe.py": ""}, "größe.py"),
        ("python3 server.py", {"server.py": "exec(open('my plug.py').read())", "my plug.py": ""}, "my plug.py"),
        ("python3 server.py", {"server.py": "", "plug~in+(1).py": ""}, "plug~in+(1).py"),
        ("node a.js", {"a.js": "require(path.join(__dirname, 'x', 'b'))", "x/b.js": ""}, "x/b.js"),
        ("node a.js", {"a.js": "require('./x')", "x/b.js": ""}, "x/c.js"),
        ("python3 a.py", {"a.py": "subprocess.run(['bash', 'scripts/run'])", "scripts/run": "x"}, "scripts/run"),
        ("python3 a.py", {"a.py": "subprocess.run(['bash', '-eu', 'run.txt'])", "run.txt": "x"}, "run.txt"),
        ("python3 a.py", {"a.py": "import_module('plugins.' + name)", "plugins/one.py": ""}, "plugins/one.py"),
        ("python3 a.py", {"a.py": "sys.path.insert(0, 'src'); import core", "src/core.py": ""}, "src/core.py"),
        ("python3 a.py", {"a.py": "glob('p*/*.py')"}, "plugins/new.py"),
        ("env PYTHONPATH=src python3 a.py", {"a.py": "import core", "src/core.py": ""}, "src/core.py"),
        ("sh -c 'exec python3 my\\ server.py'", {"my server.py": ""}, "my server.py"),
        ("sh -c 'exec python3 my\\ server.txt'", {"my server.txt": ""}, "my server.txt"),
        ("sh -c 'exec python3 \"my server.txt\"'", {"my server.txt": ""}, "my server.txt"),
        ("ruby a.rb", {"a.rb": "require_relative 'lib/' + 'b'", "lib/b.rb": ""}, "lib/b.rb"),
        ("go run .", {"main.go": "", "inner/b.go": ""}, "inner/b.go"),
        ("./start", {"start": "exec tools/$1", "tools/go": "#!/bin/sh"}, "tools/go"),
        ("python3 a.py", {"a.py": "run(base64.b64decode(x))", "hidden": "#!/bin/sh\n"}, "hidden"),
        ("python3 a.py", {"a.py": "import os"}, "os.py"),
        ("python3 -m installed_server", {}, "sitecustomize.py"),
        ("java -jar a.jar", {"a.jar": "PK"}, "lib/b.jar"),
        ("npx -y thing --config ./conf.txt run.js", {"run.js": "", "b.js": ""}, "b.js"),
        ("uvx uvicorn app.main:serve", {"app/main.py": "", "app/util.py": ""}, "app/util.py"),
        ("uvx thing --plugin plugins.one", {"plugins/one.py": "import two", "two.py": ""}, "two.py"),
    ],
)  # fmt: skip
def test_code_that_changes_or_appears_does_not_run_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str, files: dict[str, str], changed: str
) -> None:
    command, *arguments = shlex.split(words)
    for name, text in files.items():
        write(tmp_path, name, text=text)
    write(tmp_path, "mcp.json", text=json.dumps({"mcpServers": {"s": {"command": command, "args": arguments}}}))
    monkeypatch.chdir(tmp_path)
    found = load("mcp.json")
    (server,) = found.servers
    assert isinstance(server, StdioServer)
    assert (server.changed_files(), load("mcp.json").claims.digest) == ((), found.claims.digest)
    write(tmp_path, changed, text="#!/bin/sh\nexec evil\n")
    assert changed in server.changed_files()
    assert load("mcp.json").claims.digest != found.claims.digest


@requirement("trust:asks-again-when-changed")
def test_what_a_runner_finds_above_its_folder_is_watched_up_to_the_checkout(tmp_path: Path) -> None:
    write(tmp_path, "top/.git/HEAD", "top/sub/.git", "top/.npmrc", "top/lib/a.py", "top/sub/deep/note.txt", ".npmrc")
    place = str(tmp_path / "top" / "sub" / "deep")
    for words, name in (["npx", "-y", "thing"], ".npmrc"), (["python3", "-c", "x"], "lib/a.py"):
        found = dict(trust.watched_files(words, {}, place, place).files)
        assert str(tmp_path / "top" / name) in found
        assert str(tmp_path / ".npmrc") not in found


@requirement("trust:asks-again-when-changed")
def test_a_link_that_leads_to_another_watched_file_is_a_change(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.py", "one/x.txt", "two/x.txt")
    (tmp_path / "server.py").symlink_to("a.py")
    (tmp_path / "plugins").symlink_to("one")
    for link, other in ("server.py", "b.py"), ("plugins", "two"):
        before = trust.watched_files(["python3", "server.py"], {}, str(tmp_path), str(tmp_path))
        (tmp_path / link).unlink()
        (tmp_path / link).symlink_to(other)
        assert trust.watched_files(["python3", "server.py"], {}, str(tmp_path), str(tmp_path)) != before


@requirement("trust:asks-again-when-changed")
@pytest.mark.parametrize(
    ("words", "texts", "changed"),
    [
        ("vim -es -S server.vim", {}, "server.vim"),
        ("sqlite3 -init init.sq x.db", {}, "init.sq"),
        ("make", {"Makefile": "CMDS = cmds.gdb\nrun:\n\tgdb -batch -x $(CMDS)\n"}, "cmds.gdb"),
        ("node --env-file=conf server.js", {"server.js": ""}, "conf"),
        ("perl serve.pl", {"serve.pl": "do './x.inc'"}, "x.inc"),
        ("cargo run", {"Cargo.toml": ""}, ".cargo/config"),
        ("mvn -o validate", {"pom.xml": ""}, ".mvn/jvm.config"),
        ("cmake -B b .", {}, "CMakeLists.txt"),
        ("go run .", {"main.go": ""}, "go.work"),
        ("rackup", {}, "config.ru"),
        ("python3 server.py", {"server.py": "import src.helper", "src/pyvenv.cfg": ""}, "src/helper.py"),
        ("python3 server.py", {"server.py": "import __pycache__.helper"}, "__pycache__/helper.py"),
        *(
            (command, {}, name)
            for command, name in (
                ("perl -I lib p.txt", "p.txt"),
                ("bash -o pipefail b.txt", "b.txt"),
                ("mawk -f m.txt", "m.txt"),
                ("uv run --offline --no-project --script u.txt", "u.txt"),
                ("python3 -W ignore run.txt", "run.txt"),
                ("node -r ./a.js run.txt", "run.txt"),
                ("python3 -m pdb run.txt", "run.txt"),
                ("gdb -x run.txt", "run.txt"),
                ("vim -Srun.txt", "run.txt"),
                ("uvx fastmcp run run.json", "run.json"),
                ("sh -c 'cd lib; a=(run.txt)'", "lib/run.txt"),
                ('python3 -c "' + "()," * 200 + "exec(open('run.txt').read())\"", "run.txt"),
                ("python3 __pycache__", "__pycache__/__main__.pyc"),
                ("python3 -m __pycache__.evil", "__pycache__/evil.pyc"),
                ("python3 __pycache__/evil.cpython-311.pyc", "__pycache__/evil.cpython-311.pyc"),
                *(
                    ("any", name)
                    for name in (
                        ".zshenv",
                        ".zlogin",
                        ".login",
                        ".bash_logout",
                        ".rspec",
                        ".gitconfig",
                        "SConstruct",
                        "Snakefile",
                        "Jakefile",
                        "cdk.json",
                        "main.tf.json",
                        "README.sh",
                        "config",
                    )
                ),
            )
        ),
        ("node .", {"package.json": '{"name": "p", "main": "run.txt"}'}, "run.txt"),
        ("npm start", {"lib/package.json": '{"start": "node -r \\u002e/x.js \\"r\\u0075n.txt\\""}'}, "lib/run.txt"),
        ("just x", {"conf.toml": "run = ['perl -I lib my.txt']"}, "my.txt"),
        ("node server.js", {"server.js": "require('./plugins/__pycache__/evil.js')"}, "plugins/__pycache__/evil.js"),
    ],
)
def test_code_of_any_name_is_watched(tmp_path: Path, words: str, texts: dict[str, str], changed: str) -> None:
    for name, text in texts.items():
        write(tmp_path, name, text=text)
    write(tmp_path, changed)
    assert changed in watched(tmp_path, *shlex.split(words))


@requirement("trust:asks-again-when-changed")
def test_a_folder_that_only_its_owner_writes_to_is_no_folder_of_everybody(tmp_path: Path) -> None:
    write(tmp_path, "server.py", text="import src.helper")
    write(tmp_path, "src/helper.py", text="")
    tmp_path.chmod(0o1755)
    assert {*watched(tmp_path, "python3", "server.py")} == {"server.py", "src/helper.py"}


@requirement("trust:asks-again-when-changed")
def test_a_checkout_of_any_kind_is_watched_from_its_outermost_folder(tmp_path: Path) -> None:
    (tmp_path / ".hg").mkdir()
    write(tmp_path, "lib/helper.py", "mcp/server.py")
    found = trust.watched_files(["python3", "server.py"], {}, str(tmp_path / "mcp"), str(tmp_path / "mcp"))
    assert {os.path.relpath(one, tmp_path) for one, _ in found.files} == {"lib/helper.py", "mcp/server.py"}


@requirement("trust:asks-again-when-changed")
def test_a_path_that_is_too_long_to_be_looked_at_is_said_to_be_unwatched(tmp_path: Path) -> None:
    write(tmp_path, "server.py")
    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        for _ in range(20):
            os.mkdir("d" * 200)
            os.chdir("d" * 200)
        Path("helper.py").write_text("")
    finally:
        os.chdir(before)
    assert not trust.watched_files(["python3", "server.py"], {}, str(tmp_path), str(tmp_path)).whole


@requirement("trust:asks-again-when-changed", "trust:others-can-write")
def test_a_script_outside_that_the_command_names_is_watched_and_nobody_else_may_write_it(tmp_path: Path) -> None:
    write(tmp_path, "project/mcp.json", "out/server.py")
    project, script = str(tmp_path / "project"), tmp_path / "out" / "server.py"
    found = trust.watched_files(["python3", str(script)], {}, project, project)
    assert str(script) in dict(found.files)
    script.chmod(0o666)
    with pytest.raises(UsageError, match="can write to"):
        trust.watched_files(["python3", str(script)], {}, project, project)


@requirement("trust:asks-again-when-changed")
def test_data_and_what_is_fetched_ask_no_second_time(tmp_path: Path) -> None:
    """A server that writes its memory, and work on a project whose code it does not run."""
    write(tmp_path, "server.py", text="open('memory.json', 'w'); open('state.txt', 'w'); open('app.db', 'w')")
    write(
        tmp_path,
        "run.sh",
        text="tail -f out.log; rm -f app.db; cp -r lib/new.txt x; exec python3 server.py --db app.db",
    )
    write(tmp_path, "package.json", text=PACKAGE)
    fetched = ("npx", "-y", "@me/server-files", "."), ("uvx", "server-git", "--repository", "."), ("docker", "run", "x")
    before = [watched(tmp_path, *one) for one in fetched]
    started = trust.watched_files(["python3", "server.py"], {}, str(tmp_path), str(tmp_path))
    write(tmp_path, "memory.json", "state.txt", "README", "app.db", "out.log", "lib/new.txt")
    assert trust.watched_files(["python3", "server.py"], {}, str(tmp_path), str(tmp_path)) == started
    write(tmp_path, "lib/new.js", "tool.py")
    assert [watched(tmp_path, *one) for one in fetched] == before == [["package.json"], [], []]


@requirement("trust:asks-again-when-changed")
def test_a_folder_beside_the_project_that_code_names_is_watched_and_no_other(tmp_path: Path) -> None:
    text = "require('../shared/a'); open('../../other/b.py'); open('../../../../../../../../etc/passwd')"
    write(tmp_path, "group/project/server.js", text=text)
    write(tmp_path, "group/shared/a.js", "group/shared/in/c.js", "group/more/d.js", "other/b.py", "e.js")
    project = tmp_path / "group" / "project"
    found = trust.watched_files(["node", "server.js"], {}, str(project), str(project))
    names = sorted(os.path.relpath(one, tmp_path / "group") for one, _ in found.files)
    assert names == ["project/server.js", "shared/a.js", "shared/in/c.js"]
