"""`holdall` with a toy verb, dialect and setting, each declared in one place: `python -m tests.cli.toys ARGUMENTS`.

`page NAME` prints a page of the reference as it is with them, `forms` the tool of the verb as each provider takes it,
and what a model gets that calls it.
"""

import asyncio
import json
import linecache
import sys
import types
from pathlib import Path

# A setting: one more field in the class, and what it means below it.
_CLASS = "class Settings:\n"
_SETTING = '''    stride: float | None = _setting(None, least=0.5, most=2)
    """How far one step goes, in metres."""
'''


def declare_setting() -> None:
    """Before anything else imports the settings."""
    import holdall

    file = Path(holdall.__file__).parent / "values" / "settings.py"
    before, found, after = file.read_text("utf-8").partition(_CLASS)
    assert found
    docstring, rest = after.split("\n", 1)
    module = types.ModuleType("holdall.values.settings")
    sys.modules[module.__name__] = module
    source, module.__file__ = f"{before}{found}{docstring}\n\n{_SETTING}{rest}", "settings with a toy"
    # The page of the settings is made from the source.
    linecache.cache[module.__file__] = (len(source), None, source.splitlines(keepends=True), module.__file__)
    exec(compile(source, module.__file__, "exec"), vars(module))


def declare_dialect() -> None:
    """One more entry in the table, and the module that it names."""
    from holdall.policy.decide import Limits
    from holdall.values.settings import DIALECTS
    from holdall.wire.dialect import Dialect

    module = types.ModuleType("holdall.wire.dialects.terse")
    notice = "kept: {0.handle}, {0.facts.measure.lines} lines".format
    vars(module)["TERSE"] = Dialect(name="terse", limits=Limits(lines=7), notice=notice)
    sys.modules[module.__name__] = module
    DIALECTS["terse"] = "terse:TERSE"


def declare_verb() -> None:
    """One more declaration, and the module that does its work."""
    from holdall.store.protocol import OutputReader
    from holdall.values.answers import Passage
    from holdall.verbs.read import Bounds, read
    from holdall.wire.verbs import READ, VERBS, Argument, Verb

    def head(reader: OutputReader, *, lines: int = 3, bounds: Bounds) -> Passage:
        return read(reader, lines=f":{lines}", bounds=bounds)

    module = types.ModuleType("holdall.verbs.head")
    vars(module)["head"] = head
    sys.modules[module.__name__] = module
    lines = Argument("lines", int, 3, "How many (default 3).", "How many lines.", "-n --lines", "N", 1, 1000)
    VERBS["head"] = Verb(
        "head", "Print the first lines of an output.", (READ.arguments[0], lines), "context_head",
        "Read the first lines of a kept output.", work="head:head",
    )  # fmt: skip


async def forms() -> None:
    from holdall import Holdall, MemoryStore

    async with Holdall.open(store=MemoryStore()) as bag:
        kept = await bag.keep("".join(f"line {number}\n" for number in range(10)), tool="count")
        (tool,) = (one for one in bag.tools() if one.name == "context_head")
        calls = [await bag.call("context_head", {"handle": kept.handle, "lines": number}) for number in ("2", 0)]
        found: dict[str, object] = {
            "openai": tool.openai(), "strict": tool.openai(strict=True), "responses": tool.openai(responses=True),
            "anthropic": tool.anthropic(), "mcp": tool.mcp(), "retrievals": (await bag.counters()).retrievals,
            "said": [answer.text.splitlines() for answer in calls], "errors": [answer.is_error for answer in calls],
        }  # fmt: skip
    print(json.dumps(found))


def main() -> None:
    declare_setting()
    declare_dialect()
    declare_verb()
    if sys.argv[1] == "page":
        from tests.docs import reference

        print(reference.pages()[sys.argv[2]]())
    elif sys.argv[1] == "forms":
        asyncio.run(forms())
    else:
        from holdall.__main__ import main as holdall

        holdall()


if __name__ == "__main__":
    main()
