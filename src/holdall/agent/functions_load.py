"""Functions by name, `module:name`, as agents' files write them. Importing a module runs it: only what the user named.

A module beside the agent's file is found too, after everything that is installed, so that it can hide nothing.
"""

import difflib
import importlib
import os
import sys
from types import ModuleType
from typing import Any

from holdall.text.escape import one_line
from holdall.values.errors import WrongUse


def is_spec(value: object) -> bool:
    """Whether it is `module:name`, both of which may have dots."""
    if not isinstance(value, str) or len(value) > 500:
        return False
    module, colon, name = value.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *name.split(".")))


def load_function(spec: str, *, folder: str = "") -> Any:
    """What stands under that name. `folder` is looked in last, and stays on the path of modules for what it imports."""
    if not is_spec(spec):
        raise WrongUse(f"{one_line(spec)!r} is not the name of a function; write module:name, as in my_tools:search.")
    module_name, _, name = spec.partition(":")
    found: Any = _module(module_name, spec, folder)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            near = difflib.get_close_matches(part, dir(found), n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise WrongUse(f"{spec}: there is no {part!r} in {one_line(_name_of(found))}.{hint}") from None
    return found


def _module(name: str, spec: str, folder: str) -> ModuleType:
    if folder and folder not in sys.path:
        sys.path.append(folder)
        importlib.invalidate_caches()
    try:
        found = importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name is not None and (name == problem.name or name.startswith(f"{problem.name}.")):
            looked = f", nor in {one_line(folder)}" if folder else ""
            raise WrongUse(f"{spec}: there is no module {problem.name!r} where Python looks{looked}.") from None
        raise _failed(spec, name, problem) from problem
    except (Exception, SystemExit) as problem:  # the module's own code ran, and may do anything
        raise _failed(spec, name, problem) from problem
    if folder:
        _refuse_a_namesake(name.partition(".")[0], spec, folder)
    return found


def _refuse_a_namesake(top: str, spec: str, folder: str) -> None:
    """Two modules cannot have one name in one process; the other one would be taken for that of this folder."""
    loaded = getattr(sys.modules.get(top), "__file__", None)
    for path in (os.path.join(folder, f"{top}.py"), os.path.join(folder, top, "__init__.py")):
        if os.path.isfile(path) and not (loaded and os.path.exists(loaded) and os.path.samefile(path, loaded)):
            taken = f"{one_line(loaded)} has" if loaded else "a module of Python's own has"
            raise WrongUse(f"{spec}: {taken} the name of {one_line(path)}, and only one of them can. Rename the file.")


def _failed(spec: str, module: str, problem: BaseException) -> WrongUse:
    return WrongUse(f"{spec}: importing {module} failed: {type(problem).__name__}: {one_line(str(problem))}")


def _name_of(holder: object) -> str:
    name = getattr(holder, "__name__", None) or type(holder).__name__
    return str(name)
