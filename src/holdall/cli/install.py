"""`install` and `uninstall`: a client's servers behind the gateway, and out of it again, told in a line each."""

import os
import shutil
import sys

from holdall.cli import show as screen
from holdall.cli.options import FOUND_NOTHING, configuration
from holdall.mcp.install.config_text import MODULE
from holdall.mcp.install.installer import Done, files_of, install, uninstall
from holdall.text.escape import one_line
from holdall.values.errors import WrongUse

_FOLDER = "clients"


def run(
    client: str | None, file: str | None, home: str | None, *, dry_run: bool, as_json: bool, back: bool = False
) -> int:
    if (client is None) == (file is None):
        raise WrongUse("name a client (claude-code, vscode, cursor) or a --file, one of the two.")
    files = [os.path.abspath(os.path.expanduser(file))] if file is not None else files_of(client or "")
    folder = os.path.join(configuration(home).home, _FOLDER)
    program, *leading = _program()
    done = [
        uninstall(one, dry_run=dry_run)
        if back
        else install(one, program, leading=leading, config_folder=folder, dry_run=dry_run)
        for one in files
    ]
    if as_json:
        screen.as_json({"files": [_flat(one) for one in done], "dry_run": dry_run})
    else:
        for one in done:
            _tell(one, dry_run=dry_run, back=back)
    return 0 if any(one.edited.changed for one in done) else FOUND_NOTHING


def _program() -> list[str]:
    """How a client can start us: many do not have the path of a shell, so it is told whole."""
    beside = os.path.join(os.path.dirname(sys.executable), "holdall")
    for own in (sys.argv[0], beside, shutil.which("holdall") or ""):
        if os.path.basename(own) == "holdall" and os.path.isfile(own) and os.access(own, os.X_OK):
            return [os.path.abspath(own)]
    return [sys.executable, *MODULE]


def _tell(done: Done, *, dry_run: bool, back: bool) -> None:
    would = "would be " if dry_run else ""
    what = "taken out of the gateway" if back else "put behind the gateway"
    names = ", ".join(_shown(name) for name in done.edited.changed) or "nothing"
    why = f": {done.edited.why}" if done.edited.why else ""
    print(f"{done.file}: {names} {would}{what}{why}")
    for name, reason in done.edited.left:
        print(f"  {_shown(name)} is left as it is: {one_line(reason, 200)}")
    for path in done.kept:
        print(f"  {path} is kept: its entry was not brought back here")
    if done.copy:
        print(f"  the file as it was{'' if done.exactly else ' before the first install'}: {done.copy}")


def _shown(name: str) -> str:
    return one_line(name, 60) or '""'


def _flat(done: Done) -> dict[str, object]:
    return {
        "file": done.file,
        "changed": list(done.edited.changed),
        "left": dict(done.edited.left),
        "copy": done.copy,
        "exactly": done.exactly,
        "kept": list(done.kept),
        "why": done.edited.why,
    }
