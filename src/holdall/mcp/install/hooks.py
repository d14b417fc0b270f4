"""The hook of a coding agent in the user's own settings: put there as one more entry, and taken out again.

What was there stays byte for byte, with its comments; a settings file that we made is removed again if it is as we left
it. The copy and what was inserted are in the user's own folder, as for `install`.
"""

import contextlib
import json
import os
import shlex
from typing import Any, cast

from holdall.mcp.install.clients import path_of
from holdall.mcp.install.config_text import Edited, same
from holdall.mcp.install.installer import (
    Done,
    Folder,
    Note,
    Seen,
    read_if_there,
    read_note,
    read_text,
    text_hash,
    write_text,
)
from holdall.text.json.jsonc import Edit, Place, Places, applied, parse_jsonc
from holdall.values.errors import UsageError
from holdall.values.record import record

_INSERTED, _MADE = "inserted", "made"
_KEY = "#hook"  # the same file may hold servers, with a note and a copy of their own


@record
class Hook:
    """`file` holds the settings; the hook stands in its list `event`, for tools that `matcher` fits.

    Where there is no event, the file is a plugin and all of it is ours.
    """

    client: str
    file: str
    event: str = ""
    matcher: str = ""
    timeout: int = 60

    @property
    def path(self) -> str:
        return path_of(self.file)


_PLUGIN = """// Written by `holdall install opencode --hook`, and removed by `holdall uninstall opencode`.
import { spawn } from "node:child_process"

const COMMAND =

function ask(event) {
  return new Promise((resolve) => {
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
    let told = ""
    child.on("error", () => resolve(""))
    child.stdin.on("error", () => {})
    child.stdout.on("data", (data) => (told += data))
    child.on("close", (code) => resolve(code === 0 ? told : ""))
    child.stdin.end(JSON.stringify(event))
  })
}

export const Holdall = async () => ({
  "tool.execute.after": async (input, output) => {
    const { output: text, content, metadata } = output
    const saved = metadata?.outputPath
    const result = { output: text, content, metadata: { truncated: metadata?.truncated, outputPath: saved } }
    const about = { session_id: input.sessionID, tool_use_id: input.callID, tool_name: input.tool }
    const told = await ask({ ...about, tool_input: input.args, tool_response: result })
    if (told) Object.assign(output, JSON.parse(told))
  },
})
"""
_ALL = (
    Hook("claude-code", "${CLAUDE_CONFIG_DIR:-~/.claude}/settings.json", "PostToolUse", "Bash|Read|WebFetch|mcp__.*"),
    Hook(
        "gemini", "~/.gemini/settings.json", "AfterTool",
        "run_shell_command|read_file|read_many_files|web_fetch|mcp_.*", timeout=60_000,
    ),
    Hook("opencode", "${XDG_CONFIG_HOME:-~/.config}/opencode/plugin/holdall.js"),
)  # fmt: skip
HOOKS = {one.client: one for one in _ALL}


def hook_of(client: str) -> Hook:
    if client not in HOOKS:
        raise UsageError(f"{client} has no hook that Holdall can use; --hook is for {', '.join(HOOKS)}.")
    return HOOKS[client]


def survey_hooks() -> list[Seen]:
    """The settings on this machine that have our hook in them, or could; a plugin that is not ours could not."""
    found: list[Seen] = []
    for client, hook in HOOKS.items():
        if os.path.isfile(hook.path):
            try:
                is_on = is_hooked(client, read_text(hook.path))
                if is_on or hook.event:
                    found.append(Seen(client, hook.path, is_hook=is_on))
            except UsageError as problem:
                found.append(Seen(client, hook.path, problem=str(problem)))
    return found


def install_hook(client: str, command: str, *, config_folder: str, dry_run: bool = False) -> Done:
    """`command` is what the agent's shell starts for each result."""
    hook, folder = hook_of(client), Folder(config_folder)
    file = hook.path
    text = read_if_there(file)
    if is_hooked(client, text):
        return Done(file, Edited(text, why="its hook is there already"))
    new, inserted = _inserted(file, text, hook, command)
    edited = Edited(new, changed=(hook.event or "plugin",))
    if dry_run:
        return Done(file, edited)
    folder.make()
    copy = folder.copy(file + _KEY) if text else ""
    if copy:
        write_text(copy, text, mode=0o600)
    above = os.path.dirname(file)
    made = {} if os.path.isdir(above) else {_MADE: _first_missing(above)}
    note = Note(text_hash(new), text_hash(text), {_INSERTED: inserted} | made)
    write_text(folder.note(file + _KEY), note.text(), mode=0o600)
    os.makedirs(above, mode=0o700, exist_ok=True)
    write_text(file, new, mode=os.stat(file).st_mode & 0o777 if text else 0o600, instead_of=text or None)
    return Done(file, edited, copy)


def uninstall_hook(client: str, *, config_folder: str, dry_run: bool = False) -> Done:
    hook, folder = hook_of(client), Folder(config_folder)
    file = hook.path
    text = read_if_there(file)
    note, copy = read_note(folder.note(file + _KEY)) or Note(), folder.copy(file + _KEY)
    if not is_hooked(client, text):
        return Done(file, Edited(text, why="no hook of ours is in it"))
    untouched = note.installed == text_hash(text)
    before = read_text(copy) if untouched and os.path.isfile(copy) else ""
    exactly = untouched and text_hash(before) == note.original
    new = before if exactly else _removed(file, text, hook, note.originals.get(_INSERTED, ""))
    edited = Edited(new, changed=(hook.event or "plugin",))
    if dry_run:
        return Done(file, edited, exactly=exactly)
    if not new:
        os.unlink(file)
        _remove_made(os.path.dirname(file), note.originals.get(_MADE, ""))
    else:
        write_text(file, new, mode=os.stat(file).st_mode & 0o777, instead_of=text)
    for gone in (folder.note(file + _KEY), *((copy,) if exactly else ())):
        folder.remove(gone)
    return Done(file, edited, exactly=exactly)


def _first_missing(folder: str) -> str:
    while not os.path.lexists(above := os.path.dirname(folder)):
        folder = above
    return folder


def _remove_made(folder: str, made: str) -> None:
    """The folders that the install made, from the last up to the first, `made`, as far as they are empty."""
    with contextlib.suppress(OSError):
        while made and os.path.commonpath((folder, made)) == made:
            os.rmdir(folder)
            folder = os.path.dirname(folder)


def is_hooked(client: str, text: str) -> bool:
    """Whether our hook is in these settings, by hand or by us."""
    if not hook_of(client).event:
        return text.startswith(_PLUGIN.partition("\n")[0])
    return bool(text.strip()) and any(_is_ours(client, one) for one in _groups(_read(text), hook_of(client)))


def _read(text: str) -> object:
    try:
        return parse_jsonc(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"the settings cannot be read as JSON ({problem}); nothing was changed.") from problem


def _groups(value: object, hook: Hook) -> list[object]:
    for key in ("hooks", hook.event):
        value = cast("dict[str, object]", value).get(key) if isinstance(value, dict) else None
    return cast("list[object]", value) if isinstance(value, list) else []


def _is_ours(client: str, group: object) -> bool:
    hooks: object = cast("dict[str, object]", group).get("hooks") if isinstance(group, dict) else None
    for one in cast("list[object]", hooks) if isinstance(hooks, list) else []:
        command = cast("dict[str, object]", one).get("command") if isinstance(one, dict) else None
        if isinstance(command, str) and "holdall" in command and command.endswith(f"hook {client}"):
            return True
    return False


def _inserted(file: str, text: str, hook: Hook, command: str) -> tuple[str, str]:
    """The settings with our entry last in its list, and the text that is new in them."""
    if not hook.event:
        if text:
            raise UsageError(f"{file} is there, and it is not ours; nothing was changed.")
        new = _PLUGIN.replace("COMMAND =", f"COMMAND = {json.dumps(shlex.split(command))}", 1)
        return new, new
    entry = {"matcher": hook.matcher, "hooks": [{"type": "command", "command": command, "timeout": hook.timeout}]}
    if not text.strip():
        new = json.dumps({"hooks": {hook.event: [entry]}}, indent=2) + "\n"
        return new, new
    value, places = _read(text), Places(text)
    at, missing = places.top(), ["hooks", hook.event]
    while missing and _is(at, dict):
        found = next((one.place for one in places.members(at) if one.name == missing[0]), None)
        if found is None:
            break
        at, missing = found, missing[1:]
    if not _is(at, dict if missing else list):
        raise UsageError(f"the hooks in {file} are not written as they should be; nothing was changed.")
    made = (entry, [entry], {hook.event: [entry]})[len(missing)]
    written = f"{json.dumps(missing[0])}: {json.dumps(made)}" if missing else json.dumps(made)
    start, piece = _at_end(places, at, written)
    new = applied(text, [(start, start, piece)])
    if not same(_read(new), _expected(value, hook, entry)):
        raise UsageError(f"{file} cannot be changed without touching more than our part; nothing was changed.")
    return new, piece


def _is(place: Place, kind: type) -> bool:
    return isinstance(place.value, kind)


def _expected(value: object, hook: Hook, entry: object) -> object:
    top = cast("dict[str, Any]", value)
    top.setdefault("hooks", {}).setdefault(hook.event, []).append(entry)
    return top


def _at_end(places: Places, place: Place, new: str) -> tuple[int, str]:
    """Where to put one more member or item, and with which comma: each on a line as its neighbours."""
    ends: list[tuple[int, int, int]]
    if isinstance(place.value, dict):
        ends = [(one.start, one.place.end, one.comma) for one in places.members(place)]
    else:
        ends = [(one.start, one.end, comma) for one, comma in places.items(place)]
    if not ends:
        return place.start + 1, new
    start, end, comma = ends[-1]
    line = places.text[places.text.rfind("\n", 0, start) + 1 : start]
    gap = f"\n{line}" if line.isspace() else " "
    return (comma, f"{gap}{new}") if comma else (end, f",{gap}{new}")


def _removed(file: str, text: str, hook: Hook, inserted: str) -> str:
    """Without what was inserted; where that was written anew since, without the entry in the list."""
    if not hook.event:
        return ""
    if inserted and text.count(inserted) == 1 and (new := text.replace(inserted, "")).strip():
        try:
            parse_jsonc(new)
        except ValueError:
            pass
        else:
            return new
    places = Places(text)
    at = places.top()
    for key in ("hooks", hook.event):
        at = next(one.place for one in places.members(at) if one.name == key)
    items = list(places.items(at))
    edits: list[Edit] = []
    kept = [one for one, _ in items if not _is_ours(hook.client, one.value)]
    for one, comma in items:
        if one not in kept:
            edits.append((one.start, places.end_of_gap(comma) if comma else one.end, ""))
    if kept and items[-1][0] not in kept and not items[-1][1]:
        last = next(comma for one, comma in items if one is kept[-1])
        edits.append((last - 1, last, ""))
    new = applied(text, edits)
    expected = cast("dict[str, Any]", _read(text))
    expected["hooks"][hook.event] = [one.value for one in kept]
    if not same(_read(new), expected):
        raise UsageError(f"{file} cannot be changed without touching more than our part; nothing was changed.")
    return new
