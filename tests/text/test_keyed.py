"""YAML and TOML: the shape of what they hold, read by the line, compared with what their parsers say; and hostile ones."""

import importlib
import re
import tomllib
from functools import cache
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.formats.keyed import read_toml, read_yaml
from tests.requirements import requirement
from tests.support import in_effort
from tests.text.outline_tools import outlined, text_of

_PARSER: Any = importlib.import_module("yaml")  # it has no types
MANIFESTS = "".join(
    f"""\
---
apiVersion: apps/v1
kind: {("Deployment", "Service", "Deployment")[n % 3]}
metadata:
  name: web-{n}
  labels: {{app: web}}
spec:
  replicas: {n % 4}
  template:
    containers:
    - name: main
      image: "nginx:1.{n}"
      args: ["-c", "daemon off"]
      script: |
        key: not a key
        - nor an item
"""
    for n in range(12)
)


@requirement("measure:kind-yaml")
def test_yaml_tells_its_documents_and_the_shape_of_all_of_them() -> None:
    assert text_of(MANIFESTS) == snapshot("""\
yaml
[12 × {apiVersion: "apps/v1", kind: "Deployment" ×8|"Service" ×4, metadata: {name: str "web-0", labels: {app: "web"}}, spec: {replicas, template}}]
12 documents
[*].spec: {replicas: 0 ×3|1 ×3|2 ×3|3 ×3, template: {containers: [1]}}
[*].spec.template.containers[*]: {name: "main", image: str "nginx:1.0", args: [2 × "-c" ×12|"daemon off" ×12], script: "key: not a key - nor an item"}\
""")
    assert [(lead.verb, lead.arguments) for lead in outlined(MANIFESTS).leads] == snapshot(
        [
            ("grep", {"pattern": "^\\s*(?:- )?name: +(.+)", "group": True}),
            ("grep", {"pattern": "^spec:", "after": 4, "limit": 2}),
        ]
    )


@requirement("measure:kind-toml")
def test_toml_tells_its_tables() -> None:
    text = 'title = "all"\n[owner]\nname = "Ann" # who\nborn = 1979-05-27\n\n' + "".join(
        f'[[package]]\nname = "p{n}"\nversion = "1.{n % 3}"\ndeps = [\n  "a", # first\n  "b",\n]\nsource = {{ git = "x", n = {n} }}\n'
        for n in range(40)
    )
    assert text_of(text) == snapshot("""\
toml
{title: "all", owner: {name: "Ann", born: "1979-05-27"}, package: [40]}
package[*]: {name: str "p0", version: "1.0" ×14|"1.1" ×13|"1.2" ×13, deps: [2 × "a" ×40|"b" ×40], source: {git: "x", n: int 0…39}}\
""")
    assert [(lead.verb, lead.arguments) for lead in outlined(text).leads] == snapshot(
        [
            ("grep", {"pattern": "^\\s*version *= *(.+)", "group": True}),
            ("grep", {"pattern": "^\\[+package\\b", "after": 4, "limit": 2}),
        ]
    )


_SCALARS = st.one_of(
    st.integers(-(10**6), 10**6), st.booleans(), st.none(), st.text("abcxyz _./-", max_size=20), st.sampled_from(["a: b", "# no", "- x", "it's", "é 漢", "*x", "&x", "|", "yes"])
)  # fmt: skip
_KEYS = st.text("abcdefgh_", min_size=1, max_size=8)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(_KEYS, inner, max_size=4)),
    max_leaves=25,
)


def _shape(value: Any) -> Any:
    """Containers and the names in them; what a scalar is does not matter here."""
    if isinstance(value, dict) and value:
        return {str(key): _shape(one) for key, one in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list) and value:
        return [_shape(one) for one in cast("list[Any]", value)]
    return 0


@given(st.lists(st.dictionaries(_KEYS, _VALUES, min_size=1, max_size=5), min_size=1, max_size=3))
def test_what_is_read_of_yaml_is_what_its_parser_reads(documents: list[dict[str, Any]]) -> None:
    text = "---\n" + "---\n".join(_PARSER.safe_dump(one, allow_unicode=True, sort_keys=False) for one in documents)
    read = read_yaml(text.encode().decode("latin-1").split("\n"))
    assert read.bad == 0
    assert _shape(read.documents) == _shape(list(_PARSER.safe_load_all(text)))


_TOML_SCALARS = st.sampled_from(["1", "-2.5", "true", '"x # y"', "'it'", "1979-05-27", '["a", 2]', '{ a = 1, "b c" = [1] }', '"""\nlong\n"""', "[\n 1, # one\n 2,\n]"])  # fmt: skip
_TABLES = st.lists(
    st.tuples(
        st.lists(_KEYS, min_size=1, max_size=3), st.booleans(), st.dictionaries(_KEYS, _TOML_SCALARS, max_size=4)
    ),
    max_size=6,
)


@settings(max_examples=max(120, settings().max_examples))
@given(st.dictionaries(_KEYS, _TOML_SCALARS, min_size=1, max_size=4), _TABLES)
def test_what_is_read_of_toml_is_what_its_parser_reads(
    first: dict[str, str], tables: list[tuple[list[str], bool, dict[str, str]]]
) -> None:
    text = "".join(f"{key} = {value}\n" for key, value in first.items())
    for path, is_array, pairs in tables:
        more = f"{'[[' if is_array else '['}{'.'.join(path)}{']]' if is_array else ']'}\n"
        more += "".join(f"{key} = {value}\n" for key, value in pairs.items())
        try:
            tomllib.loads(text + more)
        except tomllib.TOMLDecodeError:  # a name that is something else already
            continue
        text += more
    read = read_toml(text.split("\n"))
    assert read.bad == 0
    assert _shape(read.root) == _shape(tomllib.loads(text))


HOSTILE = {
    "aliases": "a: &a [x, x]\n" + "".join(f"b{n}: &b{n} [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n" for n in range(3_000)),
    "merge keys": "x: &x\n  a: 1\n" + "".join(f"y{n}:\n  <<: *x\n" for n in range(3_000)),
    "deep": "".join("  " * n + f"k{n}:\n" for n in range(3_000)),
    "deep items": "a:\n" + "- " * 4_000 + "x\n" + "b:\n- c: 1\n" * 400,
    "tags": "a: !!python/object/apply:os.system ['true']\n" + "b: !x !y &z v\n" * 3_000 + "c:\n  d: 1\n",
    "quotes": "a:\n" + '  b: "' + "x\n" * 6_000,
    "brackets": "a:\n  b: " + "[" * 5_000 + "\n" + "  c: 1\n" * 2_000,
    "long keys": "a:\n" + f"  {'k' * 5_000}: 1\n" * 300,
    "many keys": "a:\n" + "".join(f"  k{n}: {n}\n" for n in range(60_000)),
    "one line": "a: {b: " + "{c: " * 30_000,
    "documents": "a:\n  b: 1\n" + "---\n" * 30_000,
    "tables": "a = 1\nb = 2\n" + "".join(f"[{'.'.join(['t'] * 30)}.x{n}]\nk = 1\n" for n in range(3_000)),
    "arrays": "a = 1\nb = 2\nc = " + "[" * 20_000 + "\n" + "d = 1\n" * 3_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_costs_no_more_than_anything_else(name: str) -> None:
    found = in_effort(100, lambda: outlined(HOSTILE[name]))
    assert found.lines
    assert len("\n".join(found.lines)) <= 1_500


@cache
def _pods() -> list[str]:
    """Alike throughout, each as a list, a map and documents."""
    pods = [
        {"kind": "Pod", "metadata": {"name": f"web-{n}"}, "spec": {"ports": [80, n], "on": True}, "status": "up"}
        for n in range(500)
    ]
    return [
        _PARSER.safe_dump({"items": pods, "kind": "List"}),
        _PARSER.safe_dump({"services": {f"s{n:04}": one for n, one in enumerate(pods)}}),
        _PARSER.safe_dump_all(pods, explicit_start=True),
    ]


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("more", range(12))
def test_the_element_at_which_the_reading_ends_makes_no_key_optional_or_empty(more: int) -> None:
    for text in _pods():
        told = "\n".join(outlined("# a line\n" * more + text).lines)
        assert "shape from its beginning" in told
        assert not re.search(r"\?:|null", told), told


@pytest.mark.parametrize("kind", ["yaml", "toml"])
def test_of_what_was_not_read_to_its_end_no_figure_is_a_total(kind: str) -> None:
    rows = range(20_000)
    text = (
        "items:\n" + "".join(f"- id: {n}\n  name: x{n}\n" for n in rows)
        if kind == "yaml"
        else "".join(f'[[items]]\nid = {n}\nname = "x{n}"\n' for n in rows)
    )
    told = outlined(text)
    assert told.label == kind
    assert "at least" in told.lines[0]
    assert told.sampled


@pytest.mark.parametrize(
    "text",
    [
        "Name: value\nVersion: 1.0\nSummary: some words\nLicense: MIT\n",
        "To: a@b.c\nSubject: hello\n\nDear all:\n  this is prose, and it goes on\nfor a while.\nIt is a letter.\n",
        "def f():\n    if x:\n        return 1\n    else:\n        return 2\n\nclass A:\n    pass\n",
        "- one\n- two\n- three\n- four\n",
        "[section]\nkey=value with spaces\nother=more words\npath=/usr/bin\n",
        "a = b\nc = d\ne = f\n",
        "GET / HTTP/1.1\nHost: x\nAccept: y\n",
    ],
)
def test_what_only_looks_like_it_is_not_claimed(text: str) -> None:
    assert outlined(text).label not in ("yaml", "toml")


def test_what_turns_into_something_else_is_not_claimed() -> None:
    text = "a:\n  b: 1\nc:\n- d\n" * 100 + "and then there is only prose in it\nwith many lines\n" * 3_000
    assert outlined(text).label == "text"
