"""The program many times over, in a fork each: what it imports is imported once.

A line of JSON on the first descriptor is one run: arguments, environment, folder, and the files of the three streams.
The answer on the second is its exit code and the seconds of processor that it took. It is the installed command that runs, found by its name.

It is started as a file: the program's own help names what was started as a module.
"""

import contextlib
import gc
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

import holdall
from holdall.text.tokens import default_tokenizer

REQUESTS, ANSWERS = (int(number) for number in sys.argv[1:3])
IMPORTED: set[str] = set()


def main() -> None:
    (command,) = entry_points(group="console_scripts", name="holdall")
    program: Callable[[], None] = command.load()
    for name in holdall.__all__:
        getattr(holdall, name)
    _import_commands(program)
    default_tokenizer().count("")  # reads its vocabulary
    gc.disable()
    with open(REQUESTS, encoding="utf-8") as requests:
        for line in requests:
            gc.freeze()  # else the first collection in each fork copies all that was imported
            before = sum(os.times()[:4])
            code = _forked(program, json.loads(line))
            os.write(ANSWERS, f"{code} {sum(os.times()[:4]) - before:.3f}\n".encode())


def _import_commands(program: Callable[[], None]) -> None:
    """`--version` imports the command line and does nothing else."""
    sys.argv = ["holdall", "--version"]
    with contextlib.suppress(SystemExit):
        program()


def _forked(program: Callable[[], None], asked: dict[str, Any]) -> int:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.close(reading)
            os.set_inheritable(writing, False)
            before = set(sys.modules)
            code = _run(program, asked)
            new = [name for name in sys.modules if name not in before and name.startswith("holdall.")]
            os.write(writing, json.dumps(new).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read()
    # What a second command imports when it runs is there for the third one.
    for name in json.loads(told or b"[]"):
        if name in IMPORTED and hasattr(module := importlib.import_module(name), "shared_rules"):
            module.shared_rules()  # which takes longer than the command
        IMPORTED.add(name)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(program: Callable[[], None], asked: dict[str, Any]) -> int:
    os.close(REQUESTS)
    os.close(ANSWERS)
    gc.enable()
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    for number, path, flags in (
        (0, asked["stdin"], os.O_RDONLY),
        (1, asked["stdout"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, asked["stderr"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = asked["argv"]
    try:
        program()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return 0


if __name__ == "__main__":
    main()
