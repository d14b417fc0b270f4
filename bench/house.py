"""The shape of the code in figures: how much there is, how it hangs together, how many files one call walks through.

Beside each figure is the aim of the house style. An aim is looked at, never enforced: nothing here fails a build.
Only `from holdall import Holdall` is used, so that modules can be moved without a change here.

python -m bench.house take|context_grep   the traced call, in a process of its own; prints what it counted as JSON
"""

import argparse
import ast
import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from bench import fresh

HELP = "the shape of the code: modules, imports, files that one call walks through, beside the aims of the house style"
_ROOT = Path(__file__).parents[1]
_SOURCE = _ROOT / "src" / "holdall"
_LINE = "2026-11-02T06:00:00Z {level} worker-{worker} GET /api/v2/orders/{at} status=200 took={took}ms\n"
_COUNT_MODULES = "import sys; before = len(sys.modules); {}; print(len(sys.modules) - before)"


@dataclass(frozen=True, slots=True)
class Figure:
    name: str
    value: float
    aim: float | None = None  # the most that the house style wants
    detail: str = ""

    @property
    def reached(self) -> bool | None:
        return None if self.aim is None else self.value <= self.aim


def declare(one: argparse.ArgumentParser) -> None:
    one.add_argument("--json", action="store_true", help="the figures as JSON instead of a table")
    one.add_argument("--details", action="store_true", help="also which modules, files and names were counted")
    one.add_argument("--rounds", type=int, default=9, metavar="N", help="fresh processes for the import time (9)")


def main(options: argparse.Namespace) -> int:
    figures = [*shape(_SOURCE), *_traced(), *_imported(options.rounds)]
    if options.json:
        print(json.dumps([{**asdict(one), "reached": one.reached} for one in figures], indent=2))
    else:
        print(table(figures))
    if options.details and not options.json:
        print(*(f"\n{one.name}: {one.detail}" for one in figures if one.detail), sep="")
    return 0


def table(figures: Sequence[Figure]) -> str:
    rows = [("figure", "now", "aim", "")]
    marks: Mapping[bool | None, str] = {None: "", True: "reached", False: "not yet"}
    rows += [
        (one.name, f"{one.value:,.6g}", "" if one.aim is None else f"≤ {one.aim:,g}", marks[one.reached])
        for one in figures
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


# What is written


def shape(source: Path) -> list[Figure]:
    """Of one package on disk, without running it."""
    modules = dict(_modules(source))
    lengths = {name: len(file.read_text("utf-8").splitlines()) for name, file in modules.items()}
    largest = max(lengths, key=lengths.__getitem__)
    names = Counter(file.name for file in modules.values() if file.name not in ("__init__.py", "__main__.py"))
    again = sorted(name for name, count in names.items() if count > 1)
    at_import = {name: set(_imports(name, file, modules, everywhere=False)) for name, file in modules.items()}
    anywhere = {name: set(_imports(name, file, modules, everywhere=True)) for name, file in modules.items()}
    short, long = longest_chain(at_import), longest_chain(anywhere)
    alone = [name for name in modules if _has_one_importer_beside_it(name, anywhere)]
    return [
        Figure("lines", sum(lengths.values()), 44_000),
        Figure("modules", len(modules), 220),
        Figure("median module, lines", statistics.median(lengths.values())),
        Figure("largest module, lines", lengths[largest], detail=largest),
        Figure("file names that recur", len(again), detail=" ".join(again)),
        Figure("longest import chain, modules", len(long), 20, " → ".join(long)),
        Figure("the same, of imports at the top of modules", len(short), 20, " → ".join(short)),
        Figure("share of modules with one importer, in their package", round(len(alone) / len(modules), 3),
               detail=" ".join(alone)),
    ]  # fmt: skip


def longest_chain(imports: Mapping[str, set[str]]) -> list[str]:
    """The most modules of which each imports the next. An import that closes a circle does not count."""
    known: dict[str, list[str]] = {}

    def below(name: str, above: frozenset[str]) -> list[str]:
        if name not in known:
            inside = above | {name}
            chains = (below(one, inside) for one in sorted(imports[name] - inside))
            known[name] = [name, *max(chains, key=len, default=list[str]())]
        return known[name]

    return max((below(name, frozenset()) for name in sorted(imports)), key=len, default=list[str]())


def _modules(source: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(source.rglob("*.py")):
        parts = (source.name, *file.relative_to(source).with_suffix("").parts)
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), file


def _imports(name: str, file: Path, modules: Mapping[str, Path], *, everywhere: bool) -> Iterator[str]:
    """The modules that this one names: in the whole file, or only in what runs when it is imported."""
    tree = ast.parse(file.read_text("utf-8"))
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree) if everywhere else _run_at_import(tree):
        match node:
            case ast.Import(names=names):
                yield from (one.name for one in names if one.name in modules and one.name != name)
            case ast.ImportFrom(module=module, names=names, level=level):
                above = ".".join(package.split(".")[: len(package.split(".")) - level + 1]) if level else ""
                home = ".".join(filter(None, (above, module)))
                for one in names:
                    found = f"{home}.{one.name}" if f"{home}.{one.name}" in modules else home
                    if found in modules and found != name:
                        yield found
            case _:
                pass


def _run_at_import(node: ast.AST) -> Iterator[ast.AST]:
    """Neither the insides of functions nor what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _run_at_import(child)


def _has_one_importer_beside_it(name: str, used: Mapping[str, set[str]]) -> bool:
    importers = [other for other, names in used.items() if name in names]
    package = name.rpartition(".")[0]
    return len(importers) == 1 and package in (importers[0], importers[0].rpartition(".")[0])


# What runs


class Trace:
    """The files of Holdall in which functions run while it is on, in every thread that started after it was set up."""

    def __init__(self, source: Path) -> None:
        self.on = False
        self.files: set[str] = set()
        self.switches = 0
        self._source = f"{source}/"
        self._last = threading.local()

    @contextlib.contextmanager
    def set_up(self) -> Generator[None]:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _see(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if not self.on or event != "call" or code.co_name == "<module>":
            return
        if not code.co_filename.startswith(self._source):
            return
        # Within one thread: how threads take turns says nothing about the code.
        last = getattr(self._last, "file", None)
        self.switches += last is not None and last != code.co_filename
        self._last.file = code.co_filename
        self.files.add(code.co_filename)


async def trace(call: str) -> dict[str, object]:
    """One call that is not the first of its kind, so that neither imports nor first uses are in it."""
    from holdall import Holdall

    watch = Trace(_SOURCE)
    with tempfile.TemporaryDirectory(prefix="holdall-house-") as home, watch.set_up():
        async with Holdall.open(home=home, session="house") as bag:
            handles: list[str] = []
            for number in range(3):
                watch.on = call == "take" and number == 2
                taken = await bag.take(_log(number), tool="fetch")
                watch.on = False
                handles.append(getattr(taken, "handle", ""))
            if not all(handles):
                raise AssertionError("a megabyte is kept")
            for number in range(3):
                watch.on = call == "context_grep" and number == 2
                found = await bag.call("context_grep", {"handle": handles[number], "pattern": "ERROR"})
                watch.on = False
                if "worker-" not in str(found):
                    raise AssertionError("the pattern is found")
    names = sorted(str(Path(file).relative_to(_SOURCE)) for file in watch.files)
    return {"files": names, "switches": watch.switches}


def _log(seed: int) -> str:
    """A megabyte, another for each seed: the same bytes would not be written again."""
    return "".join(
        _LINE.format(level="ERROR" if at % 50 == 0 else "INFO", worker=at % 7, at=at * 31 + seed, took=at % 97)
        for at in range(12_500)
    )


def _traced() -> list[Figure]:
    figures: list[Figure] = []
    for call, aim, what in (("take", 30, "a take of 1 MB"), ("context_grep", 25, "a context_grep")):
        command = [sys.executable, "-m", "bench.house", call]
        found = json.loads(subprocess.run(command, cwd=_ROOT, stdout=subprocess.PIPE, check=True).stdout)
        figures.append(Figure(f"files in {what}", len(found["files"]), aim, " ".join(found["files"])))
        figures.append(Figure(f"switches between files in {what}", found["switches"]))
    return figures


# What is imported


def _imported(rounds: int) -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="holdall-house-") as folder, fresh.processes(Path(folder)) as cpu:
        for command in (fresh.TYPER, fresh.HOLDALL):
            cpu(command)  # these two compile
        turns = [(cpu(fresh.TYPER), cpu(fresh.HOLDALL)) for _ in range(rounds)]
    typer, ours = (min(times) for times in zip(*turns, strict=True))  # what others do on the machine only adds to it
    counted = subprocess.run(
        [sys.executable, "-c", _COUNT_MODULES.format("from holdall import Holdall")],
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return [
        Figure("from holdall import Holdall, × import typer", round(ours / typer, 2), 1.7,
               f"{1e3 * ours:.0f} ms of processor time, {1e3 * typer:.0f} ms"),
        Figure("modules imported by it", int(counted.stdout)),
    ]  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(asyncio.run(trace(sys.argv[1]))))
