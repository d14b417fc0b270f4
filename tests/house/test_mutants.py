"""The harness of `./dev test mutants` makes the mistakes that it says."""

import ast

from inline_snapshot import snapshot

from tests.mutants import MODULES, ROOT, mutants


def test_each_mutant_has_one_mistake() -> None:
    source = "def f(a: int = 1) -> bool:\n    g()\n    return not a < 2 and a in (True,)\n"
    found = [ast.unparse(one.tree()).partition("\n")[2] for one in mutants(source)]
    assert found == snapshot(
        [
            """\
    pass
    return not a < 2 and a in (True,)\
""",
            """\
    g()
    return None\
""",
            """\
    g()
    return not a < 2 and a in (True,)\
""",
            """\
    g()
    return not a < 2 or a in (True,)\
""",
            """\
    g()
    return a < 2 and a in (True,)\
""",
            """\
    g()
    return not a < 2 and a not in (True,)\
""",
            """\
    g()
    return not a <= 2 and a in (True,)\
""",
            """\
    g()
    return not a < 3 and a in (True,)\
""",
            """\
    g()
    return not a < 2 and a in (False,)\
""",
        ]
    )


def test_every_module_and_test_that_is_named_exists() -> None:
    for module, tests in MODULES.items():
        assert (ROOT / "src" / "holdall" / module.partition("::")[0]).exists()
        assert all((ROOT / test.partition("::")[0]).exists() for test in tests)
