"""`@record` is a dataclass to everybody else: each class here is made both ways and must behave the same."""

import copy
import dataclasses
import inspect
import pickle
import threading
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest

from holdall.values.record import record


@dataclass(frozen=True, slots=True)
class PlainPoint:
    """A place."""

    x: int
    label: "str | None" = None
    tags: list[str] = field(default_factory=list[str], hash=False, repr=False)

    def doubled(self) -> int:
        return self.x * 2


@record
class RecordPoint:
    """A place."""

    x: int
    label: "str | None" = None
    tags: list[str] = field(default_factory=list[str], hash=False, repr=False)

    def doubled(self) -> int:
        return self.x * 2


@dataclass(frozen=True, slots=True)
class PlainBelow(PlainPoint):
    z: int = 3
    x: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "z", self.z + 1)


@record
class RecordBelow(RecordPoint):
    z: int = 3
    x: int = 5

    def __post_init__(self) -> None:
        object.__setattr__(self, "z", self.z + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainNamed:
    x: int
    y: int = field(default=2, compare=False)
    made: int = field(init=False, default=4)


@record(kw_only=True)
class RecordNamed:
    x: int
    y: int = field(default=2, compare=False)
    made: int = field(init=False, default=4)


@dataclass(slots=True)
class PlainCounter:
    count: int = 0


@record(frozen=False)
class RecordCounter:
    count: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PlainThing:
    __match_args__ = ("kind",)
    name: str
    kind: str = ""


@record(eq=False)
class RecordThing:
    __match_args__ = ("kind",)
    name: str
    kind: str = ""


PAIRS: list[tuple[Any, Any]] = [
    (PlainPoint, RecordPoint),
    (PlainBelow, RecordBelow),
    (PlainNamed, RecordNamed),
    (PlainCounter, RecordCounter),
    (PlainThing, RecordThing),
]
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((), {"x": 1}),
    ((1, "a"), {}),
    ((1, "a", ["t"], 9), {}),
    ((), {"x": 1, "y": 9}),
    ((), {"count": 3}),
    (("n",), {}),
    ((), {"unknown": 1}),
]


def said(text: str) -> str:
    return text.replace("Record", "Plain")


def made(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    try:
        return cls(*args, **kwargs)
    except TypeError as error:
        return said(str(error))


@pytest.mark.parametrize(("plain", "ours"), PAIRS)
@pytest.mark.parametrize(("args", "kwargs"), ARGUMENTS)
def test_objects_are_made_shown_compared_and_copied_alike(
    plain: Any, ours: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    one, *others = [made(plain, args, kwargs), *(made(ours, args, kwargs) for _ in range(4))]  # the third is compiled
    assert [said(repr(other)) for other in others] == [repr(one)] * 4
    other = others[-1]
    if isinstance(one, str):
        assert one == other
        return
    assert repr(one) == said(repr(other))
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert (made(plain, args, kwargs) == one) == (made(ours, args, kwargs) == other)
    assert repr(pickle.loads(pickle.dumps(other))) == repr(other) == repr(copy.deepcopy(other))
    assert not hasattr(other, "__dict__")


@pytest.mark.parametrize(("plain", "ours"), PAIRS)
def test_classes_declare_the_same(plain: Any, ours: Any) -> None:
    def facts(cls: Any) -> list[Any]:
        return [(f.name, f.default, f.init, f.repr, f.compare, f.kw_only) for f in dataclasses.fields(cls)]

    assert facts(plain) == facts(ours)
    assert plain.__match_args__ == ours.__match_args__
    assert said(str(inspect.signature(ours))) == str(inspect.signature(plain))
    assert (plain.__hash__ is None) == (ours.__hash__ is None)
    assert dataclasses.is_dataclass(ours)


def test_equal_values_are_equal_and_hash_alike_and_unequal_ones_are_not() -> None:
    assert RecordPoint(1, "a") == RecordPoint(1, "a")
    assert hash(RecordPoint(1, "a")) == hash(RecordPoint(1, "a"))
    assert RecordPoint(1, "a") != RecordPoint(2, "a")
    assert RecordPoint(5) != RecordBelow()
    assert RecordNamed(x=1, y=2) == RecordNamed(x=1, y=3)
    assert RecordThing("a") != RecordThing("a")
    assert dataclasses.replace(RecordPoint(1, "a"), x=2) == RecordPoint(2, "a")
    match RecordPoint(7, "k"):
        case RecordPoint(x, label):
            assert (x, label) == (7, "k")


def test_a_frozen_record_cannot_change_and_an_open_one_can() -> None:
    point: Any = RecordPoint(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    counter = RecordCounter()
    counter.count += 5
    assert counter.count == 5


def test_the_first_objects_of_a_class_may_be_made_by_many_threads_at_once() -> None:
    for _ in range(50):

        @record
        class Fresh:
            a: int
            b: int = 2

        start = threading.Barrier(4)
        found: list[Any] = []

        def make(fresh: Any = Fresh, start: threading.Barrier = start, found: list[Any] = found) -> None:
            start.wait(10)
            found.append((fresh(1), fresh.__match_args__, repr(fresh(1))))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join(10)
        assert len(found) == 4
        assert all(one == found[0] for one in found)
