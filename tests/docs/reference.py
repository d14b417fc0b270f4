"""The reference pages, made from the code: every command, tool, public name and setting, and the licences of
what Holdall is built on.

`./dev docs` writes them into docs/reference before it builds the site. They are not committed.
"""

import dataclasses
import inspect
import json
import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path

import typer
from typer.core import TyperGroup

import holdall
from holdall.bag import Background, Care, Fetch, Preview, Records
from holdall.bag.holdall import KeptNames
from holdall.cli.app import app
from holdall.values.settings import Settings, ToolPolicy, default_of, rule_of, texts_of_fields
from holdall.wire.dialects import DIALECTS
from tests.house import release

FOLDER = Path(__file__).parents[2] / "docs" / "reference"
_WIDTH = 100
PARTS = {"fetch": Fetch, "preview": Preview, "jobs": Background, "records": Records, "care": Care}
_OWN_TYPE = re.compile(r"\._[A-Z]")  # a member for the inside of its module
_FORWARD = re.compile(r"(: |-> )'([^']+)'")
_WHERE = re.compile(r"\b(?:holdall|collections|typing)(?:\.\w+)*\.(?=[A-Z])")


def pages() -> dict[str, Callable[[], str]]:
    return {
        "commands.md": commands,
        "tools.md": tools,
        "api.md": api,
        "settings.md": settings,
        "licences.md": release.licences,
    }


def write(folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    for name, make in pages().items():
        (folder / name).write_text(make(), "utf-8")
    return [folder / name for name in pages()]


# Commands


def commands() -> str:
    lines = [
        "# Commands",
        "",
        "The help of each command. Content goes to standard output unchanged, everything else to standard error.",
        "Exit codes: 0 success, 1 nothing found, 2 usage error, 3 failure of the store, a server or a model.",
        "",
    ]
    root = typing.cast("TyperGroup", typer.main.get_command(app))
    for words in _commands(root, ()):
        lines += [f"## holdall {' '.join(words)}", "", "```text", _help(words), "```", ""]
    return "\n".join(lines)


def _commands(group: TyperGroup, before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.resolve_command(context, [name])[1]
        if command is None or command.hidden:
            continue
        yield (*before, name)
        if isinstance(command, TyperGroup):
            yield from _commands(command, (*before, name))


def _help(words: tuple[str, ...]) -> str:
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, [*words, "--help"], prog_name="holdall", terminal_width=_WIDTH)
    assert done.exit_code == 0, done.output
    return "\n".join(line.rstrip() for line in done.output.rstrip().splitlines())


# Tools


def tools() -> str:
    lines = [
        "# Tools and schemas",
        "",
        "The tools that a model gets in each [dialect](../dialects.md). [For models](../for-models.md) says how to use them.",
        "",
    ]
    for dialect in DIALECTS.values():
        lines += [f"## Dialect `{dialect.name}`", ""]
        lines += [] if dialect.tools else ["No tools.", ""]
        for tool in dialect.tools:
            schema = json.dumps(tool.schema, indent=2, ensure_ascii=False)
            lines += [f"### {tool.name}", "", *_quoted(tool.description), "", "```json", schema, "```", ""]
    return "\n".join(lines)


def _quoted(text: str) -> list[str]:
    return ["```text", *text.strip().splitlines(), "```"]


# Public names


def api() -> str:
    lines = [
        "# Public names",
        "",
        "Everything you can import with `from holdall import …`. All other names are private: see",
        "[stability](../stability.md).",
        "",
        "## Holdall",
        "",
        *_said(holdall.Holdall),
        "",
        "`holdall.blocking.Holdall` has the same methods for synchronous code.",
        "",
    ]
    for name, member in _methods(holdall.Holdall):
        lines += [f"### Holdall.{name}", "", *_signature(name, member), *_said(member), ""]
    for part, kind in PARTS.items():
        lines += [f"## Holdall.{part}", "", *_said(kind), ""]
        for name, member in _methods(kind):
            lines += [f"### {part}.{name}", "", *_signature(name, member), *_said(member), ""]
    lines += [
        "## Former names",
        "",
        "These methods of `Holdall` are in its parts now; the former names keep working.",
        "",
    ]
    lines += [f"- `{name}`" for name, _ in _methods(KeptNames)] + [""]
    errors = [name for name in holdall.__all__ if _is_error(getattr(holdall, name))]
    for name in holdall.__all__:
        if name != "Holdall" and name not in errors:
            lines += [f"## {name}", "", *_about(name, getattr(holdall, name)), ""]
    lines += ["## Errors", "", "Each message says what happened and how to fix it; the data is in attributes.", ""]
    lines += ["| error | is a | when |", "|---|---|---|"]
    for name in errors:
        error = getattr(holdall, name)
        lines.append(f"| `{name}` | `{error.__mro__[1].__name__}` | {_first(error)} |")
    return "\n".join(lines) + "\n"


def undocumented() -> list[str]:
    """Public names and methods that say nothing about themselves."""
    documented = [holdall.Holdall, *PARTS.values()]
    methods = [f"{of.__name__}.{name}" for of in documented for name, member in _methods(of) if not _said(member)]
    values = {name: getattr(holdall, name) for name in holdall.__all__}
    return methods + [
        name
        for name, value in values.items()
        if isinstance(value, type) or inspect.isfunction(value)
        if not _said(value)
    ]


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _methods(of: type) -> list[tuple[str, object]]:
    """As the class has them, in its own order."""
    return [(name, member) for name, member in vars(of).items() if not name.startswith("_") and _callable(member)]


def _callable(member: object) -> bool:
    return callable(member) or isinstance(member, staticmethod | classmethod)


def _about(name: str, value: object) -> list[str]:
    if inspect.isfunction(value):
        return [*_signature(name, value), *_said(value)]
    if not isinstance(value, type):
        shown = " | ".join(one.__name__ for one in typing.get_args(value)) or repr(value)
        return [f"`{name} = {shown}`"]
    if dataclasses.is_dataclass(value):
        listed = [one for one in dataclasses.fields(value) if one.repr]  # what is not shown is for Holdall itself
        fields = [f"- `{one.name}: {_type(one.type)}`" for one in listed]
        fields += [f"- `{name}`: {_first(one)}" for name, one in _properties(value) if _first(one)]
        return [*_said(value), "", *fields] if _said(value) else fields
    members = [
        (n, m)
        for n, m in inspect.getmembers(typing.cast("object", value))
        if not n.startswith("_") and inspect.isfunction(m) and not _OWN_TYPE.search(str(inspect.signature(m)))
    ]
    told = [f"- `{n}`: {_first(one)}" for n, one in _properties(typing.cast("type", value)) if _first(one)]
    told += [f"- `{_way(m)}{n}{signature_text(m)}`" + (f": {_first(m)}" if _first(m) else "") for n, m in members]
    return [*_said(typing.cast("object", value)), *([""] if told else []), *told]


def _properties(of: type) -> list[tuple[str, object]]:
    found = ((name, inspect.getattr_static(of, name)) for name in dir(of) if not name.startswith("_"))
    return [(name, one.fget) for name, one in found if isinstance(one, property)]


def _signature(name: str, member: object) -> list[str]:
    inner = _bare(member)
    return ["```text", f"{_way(inner)}def {name}{signature_text(inner)}", "```", ""]


def _way(function: object) -> str:
    return "async " if inspect.iscoroutinefunction(function) else ""


def _bare(member: object) -> object:
    """The function inside of a method of the class."""
    return getattr(member, "__func__", member)


def signature_text(member: object) -> str:
    signature = str(inspect.signature(typing.cast("Callable[..., object]", member)))
    plain = _FORWARD.sub(r"\1\2", _WHERE.sub("", signature)).replace("~", "")
    return plain.replace("(self, ", "(").replace("(self)", "()")


def _type(type_: object) -> str:
    shown = type_ if isinstance(type_, str) else getattr(type_, "__name__", str(type_))
    return _WHERE.sub("", shown if "[" not in str(type_) else str(type_))


def _said(value: object) -> list[str]:
    """The docstring, where it is its own and not one that Python made."""
    inner = _bare(value)
    text = inspect.cleandoc(inner.__doc__ or "")
    return [] if text.startswith(f"{getattr(inner, '__name__', '')}(") else text.splitlines()


def _first(value: object) -> str:
    return " ".join(line for line in "\n".join(_said(value)).split("\n\n")[0].splitlines()).replace("|", "\\|")


# Settings


def settings() -> str:
    lines = ["# All settings", "", "Where values come from: [settings](../settings.md).", ""]
    lines += [*_settings(Settings), "", "## For one tool", "", *_settings(ToolPolicy), ""]
    return "\n".join(lines)


def _settings(of: type[Settings] | type[ToolPolicy]) -> list[str]:
    rows = ["| setting | default | meaning | also called |", "|---|---|---|---|"]
    about = texts_of_fields(of)
    for one in dataclasses.fields(of):
        also = ", ".join(f"`{name}`" for name in one.metadata["also"])
        rule = rule_of(one).replace("it must", "It must")
        rows.append(f"| `{one.name}` | {_default(one)} | {about[one.name]} {rule}. | {also} |")
    return rows


def _default(one: "dataclasses.Field[typing.Any]") -> str:
    default = default_of(one)
    if default in (None, "", {}):
        return "–"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    return f"{default:,}" if isinstance(default, int | float) else f"`{default}`"


if __name__ == "__main__":
    for path in write(FOLDER):
        print(path.relative_to(FOLDER.parents[1]))
