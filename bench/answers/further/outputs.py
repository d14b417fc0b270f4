"""How the twenty outputs are made: a recipe each, by a real tool of this machine or out of the package registry.

A recipe returns the bytes as the tool wrote them. It never edits them, and it never keeps them: `make` does. A tool
that is not here, or that refuses, is told as `Missing`, and the other outputs are made without it.
"""

import http.client
import os
import random
import shutil
import socket
import sqlite3
import subprocess
import sys
import tarfile
import time
import unicodedata
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.answers.further import programs

PYTHON = str(Path(sys.base_prefix, "bin", "python3"))
LIBRARY = Path(os.__file__).parent
INSTALLED = (
    "prometheus_client==0.21.0", "structlog==24.4.0", "aiohttp==3.10.5", "pytest==8.3.3", "more-itertools==10.1.0",
    "rich==13.8.1", "jinja2==3.1.4", "requests==2.32.3", "ruff==0.6.9",
)  # fmt: skip
CLICKS = ("7.0", "7.1.2", "8.0.0", "8.0.4", "8.1.0", "8.1.3", "8.1.7")


class Missing(Exception):
    """An output cannot be made on this machine."""


@dataclass(frozen=True, slots=True)
class Recipe:
    id: str
    tool: str  # the command, as a person would call it
    kind: str
    ending: str
    make: Callable[[Path], bytes]  # given a folder to work in


def _run(
    argv: Sequence[str | Path],
    *,
    folder: Path | None = None,
    env: Mapping[str, str] | None = None,
    both: bool = False,
    fails: bool = False,
) -> bytes:
    """What a command prints. `both`: with its errors among it. `fails`: it may end with a code other than 0."""
    try:
        done = subprocess.run(
            [str(part) for part in argv],
            cwd=folder,
            env={**os.environ, "LC_ALL": "C.UTF-8", **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if both else subprocess.PIPE,
            check=False,
        )
    except FileNotFoundError as error:
        raise Missing(f"{argv[0]} is not installed") from error
    if done.returncode and not fails:
        raise Missing(f"{argv[0]} ended with {done.returncode}: {(done.stderr or done.stdout)[-300:].decode()}")
    return done.stdout


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@cache
def _venv(work: Path) -> Path:
    """The interpreter of an environment with pinned packages; the registry is the machine's own."""
    home = work / "venv"
    if not (home / "bin" / "ruff").exists():
        _run([PYTHON, "-m", "venv", home])
        _run([home / "bin" / "python", "-m", "pip", "install", "--quiet", *INSTALLED])
    return home / "bin" / "python"


@cache
def _released(work: Path, name: str, version: str, *, source: bool = False) -> Path:
    """One release of a package, fetched and unpacked."""
    folder = work / "released" / f"{name}-{version}"
    if not folder.exists():
        fetched = work / "fetched" / f"{name}-{version}"
        how = ("--no-binary", name) if source else ("--only-binary", ":all:")
        _run([_venv(work), "-m", "pip", "download", "--quiet", "--no-deps", *how, "-d", fetched, f"{name}=={version}"])
        (packed,) = fetched.iterdir()
        if packed.suffix == ".whl":
            with zipfile.ZipFile(packed) as wheel:
                wheel.extractall(folder)
        else:
            with tarfile.open(packed) as tar:
                tar.extractall(folder, filter="data")
    return folder


def pip_inspect(work: Path) -> bytes:
    return _run([_venv(work), "-m", "pip", "inspect"])


def npm_ls(_: Path) -> bytes:
    return _run(["npm", "ls", "--global", "--all", "--long", "--json"], fails=True)


def structlog_ndjson(work: Path) -> bytes:
    return _run([_venv(work), "-c", programs.PARSE_AND_LOG, LIBRARY])


def ruff_json(work: Path) -> bytes:
    tree = _released(work, "ansible-core", "2.16.5")
    rules = "A,ANN,ARG,B,BLE,C90,E,EM,F,FBT,N,PL,RET,S,SIM,TRY,UP"
    argv = [_venv(work).with_name("ruff"), "check", "--isolated", "--no-cache", "--output-format", "json"]
    return _run([*argv, "--select", rules, "ansible/modules"], folder=tree, fails=True)


def dpkg_list(_: Path) -> bytes:
    return _run(["dpkg", "-l"], env={"COLUMNS": "200"})


def unicode_csv(work: Path) -> bytes:
    file = work / "characters.db"
    file.unlink(missing_ok=True)
    database = sqlite3.connect(file)
    database.execute("CREATE TABLE c (code TEXT, name TEXT, category TEXT, bidi TEXT, width TEXT, value REAL)")
    rows = (
        (f"U+{code:04X}", name, unicodedata.category(char), unicodedata.bidirectional(char),
         unicodedata.east_asian_width(char), unicodedata.numeric(char, None))
        for code in range(0x20000)
        if (name := unicodedata.name(char := chr(code), "")) and not name.startswith(("CJK UNIFIED", "HANGUL SYLL"))
    )  # fmt: skip
    database.executemany("INSERT INTO c VALUES (?, ?, ?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    return _run(["sqlite3", "-header", "-csv", file, "SELECT * FROM c"])


def find_ls(_: Path) -> bytes:
    return _run(["find", ".", "-xdev", "-path", "./site-packages", "-prune", "-o", "-ls"], folder=LIBRARY)


def access_log(work: Path) -> bytes:
    """A few thousand requests of several clients, in an order that is always the same."""
    port, log = _free_port(), work / "access.log"
    server = subprocess.Popen([_venv(work), "-c", programs.SERVE, LIBRARY, str(port), log], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        _visit(port)
    finally:
        server.terminate()
        server.wait()
    return log.read_bytes()


def _wait_for(port: int) -> None:
    for _ in range(100):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise Missing("a server does not answer on loopback")


def _visit(port: int) -> None:
    chosen = random.Random(7)
    clients = (
        "curl/7.88.1",
        "Wget/1.21.3",
        "python-requests/2.32.3",
        "Mozilla/5.0 (X11; Linux x86_64)",
        "kube-probe/1.29",
    )
    files = sorted(
        str(file.relative_to(LIBRARY)) for file in LIBRARY.glob("*/*.py") if file.parent.name != "site-packages"
    )
    for number in range(4000):
        client = chosen.choices(clients, (30, 10, 20, 35, 5))[0]
        headers = {"User-Agent": client}
        method, path, body = "GET", f"/lib/{chosen.choice(files)}", None
        match chosen.randrange(40):
            case 0 | 1:
                path = path.replace(".py", ".pyx")
            case 2:
                method = "HEAD"
            case 3:
                path = f"/lib/{chosen.choice(('json', 'email', 'asyncio', 'xml'))}"
            case 4:
                headers["Range"] = "bytes=99999999-"
            case 5:
                headers["If-Modified-Since"] = "Fri, 01 Jan 2100 00:00:00 GMT"
            case 6:
                method, path, body = "POST", "/upload", b"x" * chosen.randrange(1, 1300)
            case 7:
                method = "DELETE"
            case 8:
                path = f"/average?n={number}&n=3&of={chosen.randrange(4)}"
            case 9:
                headers["Referer"] = "/lib/" + files[number % 5]
            case _:
                pass
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.request(method, path, body, headers)
        connection.getresponse().read()
        connection.close()


def postgres_log(work: Path) -> bytes:
    """A database server with every statement logged, a small load on it, and some statements that it must refuse."""
    tools = Path(_run(["pg_config", "--bindir"], fails=True).decode().strip() or "/")
    tools = tools if (tools / "initdb").exists() else max(Path("/usr/lib/postgresql").glob("*/bin"), default=tools)
    if not (tools / "initdb").exists():
        raise Missing("initdb is not installed")
    home = work / "postgres"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    drop: list[str] = []
    if os.geteuid() == 0:  # the server refuses to run as root
        shutil.chown(home, "nobody")
        for above in (work, *work.parents):
            if not above.stat().st_mode & 0o001:
                raise Missing("the folder to work in is closed for the user that the server runs as")
        drop = ["setpriv", "--reuid=nobody", "--clear-groups"]
    port, data, log = str(_free_port()), home / "data", home / "server.log"
    _run([*drop, tools / "initdb", "-D", data, "-A", "trust", "-U", "bench"], folder=home)
    options = (
        f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c log_min_duration_statement=0 "
        "-c log_connections=on -c log_disconnections=on -c log_checkpoints=on -c log_timezone=UTC "
        "-c log_line_prefix='%m [%p] %q%u@%d/%a '"
    )
    where = ["-h", "127.0.0.1", "-p", port, "-U", "bench"]
    _run([*drop, tools / "pg_ctl", "-D", data, "-l", log, "-w", "-o", options, "start"], folder=home)
    try:
        _run([tools / "pgbench", *where, "-i", "-q", "-s", "2", "postgres"])
        for statement in _STATEMENTS[:3]:
            _run([tools / "psql", *where, "-c", statement, "postgres"], fails=True)
        _run([tools / "pgbench", *where, "-n", "-c", "3", "-t", "150", "postgres"])
        for statement in _STATEMENTS[3:]:
            _run([tools / "psql", *where, "-c", statement, "postgres"], fails=True)
        _run([tools / "psql", *where, "-c", "SELECT 1", "payroll"], fails=True)
        _run([tools / "pgbench", *where, "-n", "-S", "-c", "2", "-t", "200", "postgres"])
    finally:
        _run([*drop, tools / "pg_ctl", "-D", data, "-m", "fast", "stop"], folder=home)
    return log.read_bytes()


_STATEMENTS = (
    "SELECT balance FROM pgbench_accounts WHERE aid = 1",
    "SELECT total FROM invoices WHERE id = 17",
    "INSERT INTO pgbench_branches (bid, bbalance) VALUES (1, 0)",
    "SELECT abalance / (aid - 42) FROM pgbench_accounts WHERE aid BETWEEN 40 AND 44",
    "SELECT count(*) FROM pgbench_accounts a JOIN pgbench_accounts b ON a.bid = b.bid AND b.aid < 40",
    "UPDATE pgbench_tellers SET tbalance = 'much' WHERE tid = 3",
    "CREATE TABLE audit (at timestamptz, what text)",
    "CREATE TABLE audit (at timestamptz)",
    "SET statement_timeout = '50ms'; SELECT pg_sleep(2)",
    "SELECT nickname FROM pgbench_tellers",
    "VACUUM ANALYZE pgbench_accounts",
)


def strace_log(work: Path) -> bytes:
    log = work / "strace.log"
    program = (
        "import asyncio, json, sqlite3, ssl, subprocess, unittest; subprocess.run(['ls', '/'], capture_output=True)"
    )
    _run(["strace", "-f", "-tt", "-T", "-o", log, PYTHON, "-c", program])
    return log.read_bytes()


def linker_log(_: Path) -> bytes:
    env = {"LD_DEBUG": "bindings,libs,symbols"}
    return _run([PYTHON, "-c", "import ssl, sqlite3"], env=env, both=True)


def pytest_verbose(work: Path) -> bytes:
    """The tests of a later release on the code of an earlier one: some of them must fail."""
    (release,) = _released(work, "more-itertools", "10.5.0", source=True).iterdir()
    tests = work / "later" / "tests"
    shutil.rmtree(tests, ignore_errors=True)
    shutil.copytree(release / "tests", tests)
    argv = [_venv(work), "-m", "pytest", "-v", "-rfEs", "--tb=short", "--durations=15", "-p", "no:cacheprovider"]
    return _run([*argv, "tests"], folder=tests.parent, fails=True)


def gcc_warnings(work: Path) -> bytes:
    (release,) = _released(work, "pycryptodome", "3.20.0", source=True).iterdir()
    sources = sorted(source for source in (release / "src").glob("*.c") if b"main(" not in source.read_bytes())
    flags = "-DHAVE_STDINT_H -fsyntax-only -Wall -Wextra -Wpedantic -Wconversion -Wcast-qual -Wundef -Wunused-macros"
    targets = " ".join(source.stem + ".o" for source in sources)
    rules = f"CFLAGS = {flags}\nall: {targets}\n%.o: %.c\n\t$(CC) $(CFLAGS) -c $<\n"
    (release / "src" / "Build.mk").write_text(rules)
    return _run(["make", "-k", "-B", "-f", "Build.mk", "CC=gcc"], folder=release / "src", both=True, fails=True)


def git_log(work: Path) -> bytes:
    """The releases of a package as commits of a repository, with what each of them changed."""
    repository = work / "repository"
    shutil.rmtree(repository, ignore_errors=True)
    repository.mkdir()
    who = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for role in ("AUTHOR", "COMMITTER"):
        who |= {f"GIT_{role}_NAME": "Release", f"GIT_{role}_EMAIL": "release@example.org"}
    _run(["git", "init", "--quiet", "-b", "main"], folder=repository, env=who)
    for version in CLICKS:
        tree = _released(work, "click", version)
        shutil.rmtree(repository / "click", ignore_errors=True)
        shutil.copytree(tree / "click", repository / "click")
        day = max(_dates(work / "fetched" / f"click-{version}"))
        when = {**who, "GIT_AUTHOR_DATE": day, "GIT_COMMITTER_DATE": day}
        _run(["git", "add", "-A"], folder=repository, env=when)
        _run(["git", "commit", "--quiet", "-m", f"Release {version}"], folder=repository, env=when)
    return _run(["git", "log", "-p", "--stat", "--date=iso"], folder=repository, env=who)


def _dates(fetched: Path) -> list[str]:
    """When the files in a wheel were last changed."""
    (packed,) = fetched.iterdir()
    with zipfile.ZipFile(packed) as wheel:
        return ["{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z".format(*entry.date_time) for entry in wheel.infolist()]


def diff_recursive(work: Path) -> bytes:
    (older,) = _released(work, "more-itertools", "10.1.0", source=True).iterdir()
    (newer,) = _released(work, "more-itertools", "10.5.0", source=True).iterdir()
    trees = work / "trees"
    shutil.rmtree(trees, ignore_errors=True)
    shutil.copytree(older, trees / "old")
    shutil.copytree(newer, trees / "new")
    return _run(["diff", "-ruN", "old", "new"], folder=trees, fails=True)


def ansible_yaml(work: Path) -> bytes:
    return (_released(work, "ansible-core", "2.16.5") / "ansible" / "config" / "base.yml").read_bytes()


def prometheus_text(work: Path) -> bytes:
    return _run([_venv(work), "-c", programs.EXPORT_METRICS, LIBRARY, str(_free_port())])


def sqlite_dump(work: Path) -> bytes:
    file = work / "files.db"
    file.unlink(missing_ok=True)
    _run([_venv(work), "-c", programs.RECORD_FILES, file])
    return _run(["sqlite3", file, ".dump"])


def zip_tree(work: Path) -> bytes:
    (release,) = _released(work, "lz4", "4.3.3", source=True).iterdir()
    packed = work / "tree.zip"
    _run([PYTHON, "-m", "zipfile", "-c", packed, release.name], folder=release.parent)
    return packed.read_bytes()


def pydoc_html(work: Path) -> bytes:
    _run([PYTHON, "-m", "pydoc", "-w", "ast"], folder=work)
    return (work / "ast.html").read_bytes()


RECIPES = (
    Recipe("pip_inspect", "pip inspect", "json", "json", pip_inspect),
    Recipe("npm_ls", "npm ls --global --all --long --json", "json", "json", npm_ls),
    Recipe("structlog_ndjson", "a job that logs with structlog", "ndjson", "ndjson", structlog_ndjson),
    Recipe("ruff_json", "ruff check --output-format json", "json", "json", ruff_json),
    Recipe("dpkg_list", "dpkg -l", "table", "txt", dpkg_list),
    Recipe("unicode_csv", "sqlite3 -header -csv", "table", "csv", unicode_csv),
    Recipe("find_ls", "find . -xdev -ls", "table", "txt", find_ls),
    Recipe("access_log", "access log of aiohttp", "log", "log", access_log),
    Recipe("postgres_log", "log of a PostgreSQL server", "log", "log", postgres_log),
    Recipe("strace_log", "strace -f -tt -T", "log", "log", strace_log),
    Recipe("linker_log", "LD_DEBUG=bindings,libs,symbols python3", "log", "log", linker_log),
    Recipe("pytest_verbose", "pytest -v", "build", "txt", pytest_verbose),
    Recipe("gcc_warnings", "make -k, with gcc", "build", "txt", gcc_warnings),
    Recipe("git_log", "git log -p --stat", "diff", "txt", git_log),
    Recipe("diff_recursive", "diff -ruN", "diff", "diff", diff_recursive),
    Recipe("ansible_yaml", "ansible/config/base.yml", "yaml", "yml", ansible_yaml),
    Recipe("prometheus_text", "GET /metrics", "metrics", "txt", prometheus_text),
    Recipe("sqlite_dump", "sqlite3 .dump", "sql", "sql", sqlite_dump),
    Recipe("zip_tree", "python -m zipfile -c", "packed", "zip", zip_tree),
    Recipe("pydoc_html", "python -m pydoc -w ast", "html", "html", pydoc_html),
)
