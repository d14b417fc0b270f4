"""`./dev test mutants [--sample N] [MODULE...]`: small mistakes put into a module, one at a time; its own tests must fail.

Tests are found once, and run once to see which of them reach which lines. Each mutant is a fork of that process in which the
code of one function is replaced, and those tests run that reach it, the quickest first. What is done at import is tried in
a process that has none of Holdall loaded. What survives is printed as a diff with its number: a test is missing there, or
the change makes no difference.
"""

import argparse
import ast
import copy
import difflib
import faulthandler
import gc
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import os
import pickle
import random
import signal
import sys
import time
import types
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

import coverage
import pytest
from hypothesis import Phase, settings

ROOT = Path(__file__).parents[1]
# A name behind `::` is one class or function of it.
MODULES: dict[str, list[str]] = {
    "values/handles.py": ["tests/values/test_handles.py"],
    "text/escape.py": ["tests/text/test_escape.py"],
    "text/marks.py": ["tests/text/test_marks.py"],
    "store/records.py": [
        "tests/store/test_records.py", "tests/store/test_logs.py",
        "tests/values/test_facts.py", "tests/store/test_versions.py", "tests/store/test_directory_events.py",
        "tests/store/test_contract_remove.py", "tests/store/test_contract_sessions.py",
    ],
    "store/addresses.py": ["tests/store/test_addresses.py"],
    "store/bundle/rules.py": ["tests/store/test_bundle_redact.py"],
    "store/bundle/stream.py": ["tests/store/test_bundle_stream.py", "tests/store/test_bundle_refused.py"],
    "store/deadline.py": ["tests/bag/test_deadline.py"],
    "store/directory/disk.py": [
        "tests/store/test_disk.py", "tests/store/test_directory_files.py", "tests/store/test_upkeep.py",
        "tests/faults/test_folders.py", "tests/faults/test_errors.py",
        "tests/faults/test_power_cut.py::test_what_a_call_did_is_on_the_disk_when_it_returns",
    ],
    "store/directory/folder.py": [
        "tests/store/test_directory_files.py", "tests/store/test_upkeep.py", "tests/store/test_contract_live.py",
        "tests/faults/test_damage.py", "tests/faults/test_folders.py", "tests/faults/test_errors.py",
        "tests/faults/test_power_cut.py::test_what_a_call_did_is_on_the_disk_when_it_returns",
        "tests/faults/test_index.py::test_a_record_that_was_changed_or_removed_by_hand_is_seen_at_the_next_look",
    ],
    "store/directory/index.py": [
        "tests/faults/test_index.py", "tests/faults/test_errors.py", "tests/faults/test_session_files.py",
        "tests/store/test_directory_files.py", "tests/store/test_contract_notes.py",
    ],
    "store/directory/live.py": [
        "tests/store/test_contract_live.py", "tests/store/test_upkeep.py", "tests/store/test_contract_remove.py",
        "tests/store/test_directory_files.py",
        "tests/faults/test_power_cut.py::test_what_a_call_did_is_on_the_disk_when_it_returns",
    ],
    "store/directory/placement.py": [
        "tests/store/test_contract_remove.py", "tests/store/test_upkeep.py", "tests/store/test_contract_live.py",
        "tests/store/test_contract_upkeep.py", "tests/faults/test_errors.py", "tests/store/test_directory_files.py",
        "tests/faults/test_power_cut.py::test_what_a_call_did_is_on_the_disk_when_it_returns",
    ],
    "store/directory/publish.py": [
        "tests/faults/test_bundle.py", "tests/store/test_contract_upkeep.py", "tests/store/test_upkeep.py",
        "tests/store/test_directory_files.py", "tests/faults/test_errors.py",
    ],
    "store/directory/root.py": [
        "tests/faults/test_folders.py", "tests/store/test_directory_files.py", "tests/store/test_contract_upkeep.py",
        "tests/store/test_contract_agent.py",
        "tests/faults/test_bundle.py::test_a_store_copied_at_any_step_of_an_import_has_all_of_the_bundle_or_none_of_it",
    ],
    "store/directory/session_files.py": [
        "tests/store/test_directory_events.py", "tests/store/test_contract_events.py", "tests/store/test_contract_remove.py",
        "tests/store/test_contract_notes.py", "tests/store/test_contract_agent.py", "tests/store/test_contract_upkeep.py",
        "tests/faults/test_session_files.py", "tests/store/test_directory_files.py",
        "tests/faults/test_folders.py::test_whatever_is_written_next_makes_a_folder_that_was_removed_anew",
    ],
    "store/directory/sessions.py": [
        "tests/store/test_contract_sessions.py", "tests/store/test_versions.py", "tests/faults/test_session_files.py",
        "tests/faults/test_folders.py", "tests/store/test_directory_files.py",
        "tests/faults/test_power_cut.py::test_what_a_call_did_is_on_the_disk_when_it_returns",
        "tests/store/test_upkeep.py",
        "tests/faults/test_bundle.py::test_a_call_that_fails_while_sessions_get_their_places_leaves_none_of_them",
    ],
    "store/directory/store.py": [
        "tests/store/test_contract_live.py", "tests/store/test_contract_remove.py", "tests/store/test_contract_upkeep.py",
        "tests/store/test_upkeep.py", "tests/store/test_directory_files.py", "tests/faults/test_errors.py",
        "tests/store/test_contract_outputs.py",
        "tests/faults/test_power_cut.py::test_what_a_call_did_is_on_the_disk_when_it_returns",
        "tests/faults/test_folders.py",
    ],
    "store/directory/summaries.py": [
        "tests/store/test_contract_upkeep.py", "tests/store/test_upkeep.py", "tests/store/test_read_only.py",
        "tests/store/test_directory_files.py::test_a_store_that_is_closed_holds_nothing_open",
    ],
    "store/directory/upkeep.py": [
        "tests/store/test_upkeep.py", "tests/store/test_contract_upkeep.py", "tests/store/test_versions.py",
        "tests/store/test_directory_files.py",
    ],
    "store/reader.py": ["tests/store/test_reader.py", "tests/store/test_damaged_neighbours.py"],
    "store/files.py": ["tests/store/test_files.py"],
    "store/ids.py": ["tests/store/test_ids.py"],
    "store/ingest.py": ["tests/store/test_ingest.py"],
    "store/logs.py": ["tests/store/test_logs.py"],
    "store/members.py": ["tests/store/test_members.py", "tests/bag/test_packed.py"],
    "store/memory.py": ["tests/store/test_memory.py"],
    "store/memory_files.py": ["tests/store/test_files.py", "tests/store/test_watch.py", "tests/store/test_memory.py"],
    "store/open_outputs.py": ["tests/store/test_open_outputs.py"],
    "store/opening.py": ["tests/store/test_opening.py"],
    "store/owners.py": ["tests/store/test_owners.py"],
    "store/sources.py": [
        "tests/store/test_sources.py", "tests/bag/test_what_tools_give.py",
        "tests/store/test_contract_sources.py::test_a_value_that_json_does_not_know_is_kept_by_a_rule",
        "tests/store/test_contract_sources.py::test_an_object_that_cannot_say_what_it_is_is_kept_by_its_type",
        "tests/store/test_contract_sources.py::test_a_value_that_holds_itself_is_refused_with_its_type",
        "tests/store/test_contract_sources.py::test_lone_surrogates_are_replaced_and_counted",
        "tests/store/test_contract_sources.py::test_a_str_that_lies_about_its_length_is_kept_as_long_as_it_is",
        "tests/store/test_contract_sources.py::test_a_view_of_any_shape_is_kept_as_its_bytes",
        "tests/store/test_contract_sources.py::test_none_is_an_empty_output_that_says_so",
        "tests/store/test_contract_sources.py::test_a_pipe_that_has_nothing_yet_is_not_taken_for_one_that_has_ended",
    ],
    "store/totals.py": ["tests/store/test_totals.py"],
    "store/watch.py": ["tests/store/test_watch.py"],
    "wire/answers.py::Frame": ["tests/wire/test_answers.py"],
    "wire/answers.py::tag_for": ["tests/wire/test_answers.py"],
    "wire/notice.py::_fence": ["tests/wire/test_notice.py"],
    "verbs/read.py": ["tests/verbs/test_read.py", "tests/verbs/test_tail_slice.py", "tests/store/test_damaged_neighbours.py"],
    "verbs/grep.py": ["tests/verbs/test_grep.py", "tests/verbs/test_grep_bad_inputs.py", "tests/verbs/test_lookout.py"],
    "store/bundle/export.py": ["tests/store/test_bundle_export.py", "tests/store/test_bundle.py"],
    "store/bundle/redact.py": ["tests/store/test_redactor.py", "tests/store/test_bundle_redact.py"],
    "store/bundle/restore.py": ["tests/store/test_bundle_restore.py", "tests/store/test_bundle_refused.py", "tests/store/test_bundle.py"],
    "verbs/preview.py": ["tests/verbs/test_preview.py", "tests/wire/test_dialects.py"],
    "verbs/query.py": ["tests/verbs/test_query_answers.py", "tests/verbs/test_query_path.py"],
    "verbs/diff.py": ["tests/verbs/test_diff.py"],
}  # fmt: skip
_OTHER: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.Add, ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.Break: ast.Continue, ast.Continue: ast.Break,
}  # fmt: skip
_SURVIVED, _BROKEN = 0, 99
_LOADED = "Module already imported"  # by the process that all are forked from
_PATIENCE = 20.0  # seconds, beside ten times what the tests take


@dataclass
class Mutant:
    """One change of a module."""

    whole: ast.Module
    place: int
    change: ast.AST

    def tree(self) -> ast.Module:
        tree = copy.deepcopy(self.whole)
        _replace(tree, _places(tree)[self.place], self.change)
        return ast.fix_missing_locations(tree)

    def where(self) -> tuple[range, bool]:
        """The lines of its statement, without those inside that, and whether it is in a function."""
        node, inside = _places(self.whole)[self.place], False
        lines = range(0)
        for above in ast.walk(self.whole):  # from the outside in
            if not isinstance(above, ast.stmt) or not any(one is node for one in ast.walk(above)):
                continue
            body = cast("list[ast.stmt]", getattr(above, "body", []))
            end = body[0].lineno if body else (above.end_lineno or above.lineno) + 1
            lines = range(above.lineno, max(end, above.lineno + 1))
            in_body = any(one is node for part in body for one in ast.walk(part))
            inside |= isinstance(above, ast.FunctionDef | ast.AsyncFunctionDef) and in_body
        return lines, inside


def mutants(source: str, only: str = "") -> list[Mutant]:
    """Each with one change: an operator, a number, a truth, a return value, a statement that is left out."""
    whole = ast.parse(source)
    wanted = [node for node in whole.body if not only or getattr(node, "name", None) == only]
    inside = {id(node) for part in wanted for node in ast.walk(part)}
    return [
        Mutant(whole, place, change)
        for place, node in enumerate(_places(whole))
        if id(node) in inside
        for change in _changes(node)
    ]


def _places(tree: ast.Module) -> list[ast.AST]:
    """Without annotations and what is only said to a type checker."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        for name, inside in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
                continue
            every = cast("list[object]", inside) if isinstance(inside, list) else [inside]
            waiting += [one for one in every if isinstance(one, ast.AST)]
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


def _fork(work: Callable[[], int], seconds: float) -> int:
    """The status of this work in a process of its own; of one that takes too long, that of a signal."""
    child = os.fork()
    if child:
        ends = time.monotonic() + seconds
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                if (code := os.waitstatus_to_exitcode(status)) == _BROKEN:
                    raise RuntimeError("the harness itself has failed")
                return code
            if time.monotonic() > ends:
                os.killpg(child, signal.SIGKILL)
                ends = float("inf")
            time.sleep(0.002)
    os.setsid()  # what a test starts goes with it
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    status = 1
    try:
        status = work()
    except Exception:
        status = _BROKEN
    finally:
        os._exit(status)


def _pytest(tests: Sequence[str], *plugins: object) -> int:
    options = ["-x", "-q", "-n0", "-s", "-W", f"ignore:{_LOADED}", "-m", "not fleet"]  # whose servers start slowly
    return pytest.main([*options, *tests], plugins=[_Quick(), *plugins])


def _path(module: str) -> Path:
    return ROOT / "src" / "holdall" / module.partition("::")[0]


def _imported_anew(module: str, tests: Sequence[str], tree: ast.Module) -> int:
    path = _path(module)
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    sys.meta_path.insert(0, _Instead(name, path, tree))
    return _pytest(tests)


class _Quick:
    """Examples are the same each time, and one that fails is not made smaller."""

    def pytest_configure(self) -> None:
        usual = settings.get_profile("busy")
        phases = (Phase.explicit, Phase.generate)
        settings.register_profile("mutants", usual, derandomize=True, database=None, phases=phases)
        settings.load_profile("mutants")


@dataclass
class _Reach:
    """Which tests run each line, and how long each takes."""

    tests: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))  # by line; "" is the import
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))


class _Loop:
    """Instead of running the tests that pytest has found: once to see what they reach, then for each mutant."""

    def __init__(self, module: str, chosen: list[tuple[int, Mutant]], write: Callable[[int, bool], None]) -> None:
        self._module, self._chosen, self._write = module, chosen, write
        self._path = _path(module)
        self._left: list[tuple[int, Mutant]] = []
        self._watch = coverage.Coverage(data_file=None, include=[str(self._path)], config_file=False)
        self._watch.start()  # before Holdall is imported: its import is a reach too

    @property
    def to_import(self) -> list[tuple[int, Mutant]]:
        """What cannot be put into a module that is loaded."""
        return self._left

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed:
            raise SystemExit(f"{self._module}: its tests cannot be found")
        items = {item.nodeid: item for item in session.items}
        reach = self._measure(session)
        gc.unfreeze()  # as the tests of Holdall have it: functions are looked for
        found = [one for one in gc.get_objects() if isinstance(one, types.FunctionType)]
        functions = [one for one in found if one.__code__.co_filename == str(self._path)]
        gc.freeze()
        for number, mutant in self._chosen:
            lines, is_inside = mutant.where()
            names = set[str]().union(*(reach.tests[line] for line in lines))
            code = compile(mutant.tree(), str(self._path), "exec")
            pairs = _replacements(functions, code) if is_inside and "" not in names else None
            if pairs is None:
                self._left.append((number, mutant))
                continue
            quickest = [items[name] for name in sorted(names, key=lambda name: reach.seconds[name])]
            patience = _PATIENCE + 10 * sum(reach.seconds[name] for name in names)
            status = _fork(partial(_run, session, quickest, pairs, reach.seconds), patience)
            self._write(number, status != _SURVIVED)
        return True

    def _measure(self, session: pytest.Session) -> _Reach:
        kept = ROOT / ".dev" / f"mutants-{os.getpid()}"
        watch = self._watch
        watch.stop()

        def work() -> int:
            reach = _Reach()
            watch.start()
            for item in session.items:
                watch.switch_context(item.nodeid)
                began = time.monotonic()
                if status := _run(session, [item]):
                    return status
                reach.seconds[item.nodeid] = time.monotonic() - began
            watch.stop()
            for line, names in watch.get_data().contexts_by_lineno(str(self._path)).items():
                reach.tests[line] |= set(names)
            kept.write_bytes(pickle.dumps((dict(reach.tests), dict(reach.seconds))))
            return 0

        if status := _fork(work, 900):
            raise SystemExit(f"{self._module}: its tests fail as it is ({status})")
        reach = _Reach()
        by_line, seconds = pickle.loads(kept.read_bytes())
        kept.unlink()
        reach.tests.update(by_line)
        reach.seconds.update(seconds)
        return reach


def _run(
    session: pytest.Session,
    items: Sequence[pytest.Item],
    replaced: Sequence[tuple[types.FunctionType, types.CodeType]] = (),
    seconds: Mapping[str, float] | None = None,
) -> int:
    for function, code in replaced:
        function.__code__ = code
    for item, following in itertools.zip_longest(items, items[1:]):
        if seconds is not None:  # one that waits for ever ends soon
            faulthandler.dump_traceback_later(_PATIENCE + 10 * seconds[item.nodeid], exit=True, file=2)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return _SURVIVED


def _replacements(
    functions: Sequence[types.FunctionType], code: types.CodeType
) -> list[tuple[types.FunctionType, types.CodeType]] | None:
    """The code of the mutant for every function of a loaded module; None where one would need other outer variables."""
    new: dict[tuple[str, int], types.CodeType] = {}
    waiting = [code]
    for one in waiting:
        new[one.co_qualname, one.co_firstlineno] = one
        waiting += [inside for inside in one.co_consts if isinstance(inside, types.CodeType)]
    pairs = [(each, new[each.__code__.co_qualname, each.__code__.co_firstlineno]) for each in functions]
    return pairs if all(each.__code__.co_freevars == other.co_freevars for each, other in pairs) else None


def try_module(module: str, sample: int, seed: int, numbers: Sequence[int]) -> tuple[int, int]:
    """How many were tried, and how many of them a test has killed."""
    path, _, only = module.partition("::")
    source = _path(path).read_text()
    every = list(enumerate(mutants(source, only)))
    chosen = sorted(random.Random(seed).sample(every, min(sample, len(every))), key=lambda one: one[0])
    if numbers:
        chosen = [every[number] for number in numbers]
    before = ast.unparse(ast.parse(source)).splitlines()
    killed, began = 0, time.monotonic()

    def write(number: int, was_killed: bool, to: TextIO) -> None:
        nonlocal killed
        killed += was_killed
        if not was_killed:
            after = ast.unparse(every[number][1].tree()).splitlines()
            diff = difflib.unified_diff(before, after, module, f"survived: {number}", n=2, lineterm="")
            print(*diff, sep="\n", file=to, flush=True)

    kept = ROOT / ".dev" / f"mutants-{os.getpid()}-left"
    with os.fdopen(os.dup(1), "w") as out, os.fdopen(os.dup(2), "w") as err:

        def work() -> int:
            loop = _Loop(module, chosen, lambda number, was_killed: write(number, was_killed, out))
            try:
                status = _pytest(MODULES[module], loop)
            except SystemExit as wrong:
                print(wrong, file=err, flush=True)
                return 1
            kept.write_bytes(pickle.dumps((killed, [number for number, _ in loop.to_import])))
            return status

        if status := _fork(work, float("inf")):
            raise SystemExit(f"{module}: could not be tried ({status})")
    left: list[int]
    killed, left = pickle.loads(kept.read_bytes())
    kept.unlink()
    patience = _PATIENCE + 10 * (time.monotonic() - began)
    for number in left:
        tree = every[number][1].tree()
        status = _fork(partial(_imported_anew, module, MODULES[module], tree), patience)
        write(number, status != _SURVIVED, sys.stdout)
    seconds = time.monotonic() - began
    print(f"{module}: {killed} of {len(chosen)} killed, of {len(every)} mutants; {seconds:.0f} s", flush=True)
    return len(chosen), killed


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev test mutants")
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--numbers", type=int, nargs="*", default=[], help="these mutants of one module")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=", ".join(MODULES))
    asked = parser.parse_args()
    for name in ("anyio", "inline_snapshot"):  # once for all of them
        importlib.import_module(name)
    results = [try_module(module, asked.sample, asked.seed, asked.numbers) for module in asked.modules or MODULES]
    tried, killed = (sum(column) for column in zip(*results, strict=True))
    print(f"all: {killed} of {tried} killed, {killed / tried:.0%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
