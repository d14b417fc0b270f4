"""`holdall` with a toy dialect and a toy setting, each declared in one place: `python -m tests.cli.toys ARGUMENTS`.

`python -m tests.cli.toys page NAME` prints a page of the reference as it is with them.
"""

import sys
import types
from pathlib import Path

# A setting: one more line in the class.
_CLASS = "class Settings:\n"
_SETTING = '    stride: float | None = _setting(None, "how far one step goes, in metres", least=0.5, most=2)\n'


def declare_setting() -> None:
    """Before anything else imports the settings."""
    import holdall

    file = Path(holdall.__file__).parent / "values" / "settings.py"
    before, found, after = file.read_text("utf-8").partition(_CLASS)
    assert found
    docstring, rest = after.split("\n", 1)
    module = types.ModuleType("holdall.values.settings")
    sys.modules[module.__name__] = module
    exec(compile(f"{before}{found}{docstring}\n\n{_SETTING}{rest}", str(file), "exec"), vars(module))


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


def main() -> None:
    declare_setting()
    declare_dialect()
    if sys.argv[1] == "page":
        from tests.docs import reference

        print(reference.pages()[sys.argv[2]]())
    else:
        from holdall.__main__ import main as holdall

        holdall()


if __name__ == "__main__":
    main()
