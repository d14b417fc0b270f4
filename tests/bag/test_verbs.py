"""The methods are typed source, and say what the declarations say: names, types, defaults. So does the work itself."""

import importlib
import inspect
from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

import pytest

from holdall import Holdall, blocking
from holdall.values.spans import Ask
from holdall.wire.verbs import VERBS, WAIT, Verb
from tests.requirements import requirement

BOUNDED = "bounded"  # whether the answer is for a model: only a method can say that it is not


def parameters(function: Any) -> dict[str, inspect.Parameter]:
    return {name: one for name, one in inspect.signature(function).parameters.items() if name != "self"}


@requirement("api:tools")
@pytest.mark.parametrize("verb", [*VERBS.values(), WAIT], ids=lambda verb: verb.name)
def test_a_method_is_as_its_declaration(verb: Verb) -> None:
    method = getattr(Holdall, verb.name)
    found, types = parameters(method), get_type_hints(method)
    assert list(parameters(getattr(blocking.Holdall, verb.name))) == list(found)
    assert [name for name in found if name != BOUNDED] == [one.name for one in verb.arguments]
    for one in verb.arguments:
        assert found[one.name].default == (inspect.Parameter.empty if one.default is ... else one.default), one.name
        if types[one.name] is not object and Ask not in get_args(types[one.name]):  # ranges: text, numbers or a pair
            optional = one.default is None
            if one.type is list:
                assert types[one.name] == Sequence[str], one.name
                continue
            assert set(get_args(types[one.name]) or (types[one.name],)) == ({one.type, type(None)} if optional else {one.type})  # fmt: skip


@pytest.mark.parametrize("verb", VERBS.values(), ids=lambda verb: verb.name)
def test_the_work_of_a_verb_takes_its_arguments_with_their_defaults(verb: Verb) -> None:
    module, _, name = verb.work.partition(":")
    works = importlib.import_module(f"holdall.verbs.{module}")
    reader, *others = parameters(getattr(works, name)).items()
    assert reader[0] == "reader"
    found = dict(others)
    assert found.pop("bounds").annotation.__name__ == "Bounds"
    if "options" in found:  # passed on as they are
        found = parameters(getattr(works, verb.name))
    for one in verb.arguments[1:]:
        required = found[one.name].default is inspect.Parameter.empty
        assert required == (one.default is ...), one.name
        assert required or found[one.name].default == one.default, one.name
