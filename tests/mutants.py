"""`./dev test mutants [--sample N] [MODULE...]`: small mistakes put into a module, one at a time; its own tests must fail.

Each mutant runs in a process forked from one that has pytest loaded, and none of Holdall. What survives is printed as a
diff: a test is missing there, or the change makes no difference.
"""

import argparse
import ast
import copy
import difflib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import random
import signal
import sys
import time
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).parents[1]
MODULES: dict[str, list[str]] = {
    "values/handles.py": ["tests/values/test_handles.py"],
    "text/escape.py": ["tests/text/test_escape.py"],
    "store/records.py": [
        "tests/store/test_records.py",
        "tests/values/test_facts.py", "tests/store/test_versions.py", "tests/store/test_directory_events.py",
        "tests/store/test_contract_remove.py", "tests/store/test_contract_sessions.py",
    ],
    "store/reader.py": ["tests/verbs/test_read.py", "tests/store/test_damaged_neighbours.py", "tests/store/test_files.py"],
    "store/directory/folder.py": ["tests/store/test_directory_files.py", "tests/store/test_upkeep.py", "tests/faults/test_damage.py"],
    "store/directory/placement.py": ["tests/store/test_contract_outputs.py", "tests/store/test_upkeep.py", "tests/store/test_contract_remove.py"],
    "store/bundle/rules.py": ["tests/store/test_bundle_refused.py", "tests/store/test_bundle.py"],
    "store/bundle/stream.py": ["tests/store/test_bundle_refused.py", "tests/store/test_bundle.py"],
    "verbs/read.py": ["tests/verbs/test_read.py", "tests/verbs/test_tail_slice.py"],
    "verbs/grep.py": ["tests/verbs/test_grep.py", "tests/verbs/test_grep_bad_inputs.py"],
}  # fmt: skip
_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Break: ast.Continue,
    ast.Continue: ast.Break,
}  # fmt: skip
_SURVIVED = 0
_LOADED = "Module already imported"  # by the process that all are forked from


def mutants(source: str) -> Iterator[ast.Module]:
    """Each with one change: an operator, a number, a truth, a return value, a statement that is left out."""
    whole = ast.parse(source)
    for number, node in enumerate(_places(whole)):
        for change in _changes(node):
            tree = copy.deepcopy(whole)
            _replace(tree, _places(tree)[number], change)
            yield ast.fix_missing_locations(tree)


def _places(tree: ast.Module) -> list[ast.AST]:
    """Without annotations and what is only said to a type checker."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        for name, inside in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            every = cast("list[object]", inside) if isinstance(inside, list) else [inside]
            waiting += [one for one in every if isinstance(one, ast.AST) and not isinstance(one, ast.JoinedStr)]
        found.append(node)
    return found


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Compare(ops=[one]) if type(one) in _OTHER:
            yield ast.Compare(node.left, [_OTHER[type(one)]()], node.comparators)  # type: ignore[list-item]
        case ast.BoolOp() | ast.BinOp() if type(node.op) in _OTHER:
            changed = copy.copy(node)
            changed.op = _OTHER[type(node.op)]()  # type: ignore[assignment]
            yield changed
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.Return(value=ast.expr()) if not isinstance(node.value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Raise():
            yield ast.Pass()
        case ast.Break() | ast.Continue():
            yield _OTHER[type(node)]()
        case _:
            pass


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST) -> None:
    class Replace(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> Any:
            return new if node is old else self.generic_visit(node)

    Replace().visit(tree)


class _Instead(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from the mutant."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self._name, self._path, self._tree = name, path, tree

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        exec(compile(self._tree, self._path, "exec"), module.__dict__)


def run(module: str, tests: Sequence[str], tree: ast.Module | None, seconds: float) -> int:
    """The status of the tests with this mutant; of one that takes too long, that of a signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.setsid()  # what a test starts goes with it
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(seconds))
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    if tree is not None:
        name = "holdall." + module.removesuffix(".py").replace("/", ".")
        sys.meta_path.insert(0, _Instead(name, ROOT / "src" / "holdall" / module, tree))
    import pytest

    os._exit(pytest.main(["-x", "-q", "-n0", "-W", f"ignore:{_LOADED}", *tests]))


def try_module(module: str, sample: int, dice: random.Random) -> tuple[int, int]:
    """How many were tried, and how many of them a test has killed."""
    source = (ROOT / "src" / "holdall" / module).read_text()
    every = list(mutants(source))
    began = time.monotonic()
    tests = MODULES[module]
    if status := run(module, tests, None, 600):
        raise SystemExit(f"{module}: its tests fail as it is ({status})")
    patience = max(60.0, 10 * (time.monotonic() - began))
    chosen, killed = dice.sample(every, min(sample, len(every))), 0
    before = ast.unparse(ast.parse(source)).splitlines()
    for tree in chosen:
        if run(module, tests, tree, patience) != _SURVIVED:
            killed += 1
            continue
        diff = difflib.unified_diff(before, ast.unparse(tree).splitlines(), module, "survived", n=2, lineterm="")
        print(*diff, sep="\n", flush=True)
    print(f"{module}: {killed} of {len(chosen)} killed, of {len(every)} mutants", flush=True)
    return len(chosen), killed


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test mutants")
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(MODULES))
    asked = parser.parse_args()
    for name in ("pytest", "hypothesis", "anyio", "inline_snapshot"):  # once for all of them
        importlib.import_module(name)
    results = [try_module(module, asked.sample, random.Random(asked.seed)) for module in asked.modules or MODULES]
    tried, killed = (sum(column) for column in zip(*results, strict=True))
    print(f"all: {killed} of {tried} killed, {killed / tried:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
