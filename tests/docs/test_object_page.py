"""The object in one screen: every method with the parameters and the result that it really has, and no more than fits."""

import inspect
import re
import typing
from pathlib import Path

import pytest

import holdall
from tests.docs import reference

_PAGE = (Path(__file__).parents[2] / "docs" / "object.md").read_text("utf-8")
_OBJECT, _TAKEN = re.findall(r"```text\n(.*?)```", _PAGE, re.DOTALL)
_LINE = re.compile(r"(await )?(?:bag|Holdall)\.(\w+)\((.*?)\) -> (.+?)   +(\S.*)")


def _lines() -> dict[str, re.Match[str]]:
    found = [_LINE.fullmatch(line) for line in _OBJECT.splitlines() if line]
    assert all(found)
    return {line[2]: line for line in found if line}


def _methods() -> dict[str, typing.Any]:
    return {name: getattr(holdall.Holdall, name) for name in vars(holdall.Holdall) if _is_method(name)}


def _is_method(name: str) -> bool:
    return not name.startswith("_") and callable(getattr(holdall.Holdall, name))


def test_every_method_is_on_the_page_and_nothing_else() -> None:
    assert sorted(_lines()) == sorted(_methods())


@pytest.mark.parametrize("name", sorted(_methods()))
def test_a_method_is_as_the_page_says(name: str) -> None:
    line, method = _lines()[name], _methods()[name]
    signature = inspect.signature(method)
    real = [one for one in signature.parameters if one != "self"]
    said = [one for one in line[3].split(", ") if one]
    whole = said[-1:] != ["…"]
    assert said == real if whole else [one for one in real if one in said] == said[:-1]
    needed = [one.name for one in signature.parameters.values() if one.default is one.empty and one.name != "self"]
    assert not [one for one in needed if one not in said]
    assert bool(line[1]) == inspect.iscoroutinefunction(inspect.unwrap(method))
    assert f" -> {line[4]}" in reference.signature_text(method).replace("Inline | Kept | Running | Unkept", "Taken")


def test_each_of_the_four_is_as_the_page_says() -> None:
    rows = dict(re.findall(r"^(\w+)\((\w+)\)", _TAKEN, re.MULTILINE))
    kinds = {one.__name__: one for one in typing.get_args(holdall.Taken)}
    assert rows == {name: kind.__match_args__[0] for name, kind in kinds.items()}
    for kind in kinds.values():
        assert {"content", "text", "is_error", "handle"} <= set(dir(kind))
    assert {"fetch", "preview", "jobs", "records", "care"} == set(re.findall(r"`bag\.(\w+)`\s\(", _PAGE))


def test_it_is_one_screen() -> None:
    assert len(_PAGE.splitlines()) <= 55
    assert max(map(len, _PAGE.splitlines())) <= 130
