"""Whatever happens between `install` and `uninstall`: the file holds what it would hold without us."""

import copy
import json
import tempfile
from pathlib import Path
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.clients import Client

_Table = dict[str, Any]


def _both(one: _Table, more: _Table) -> _Table:
    return {**one, **more}


def _document(top: _Table, project: _Table) -> _Table:
    return {"x": "{", "mcpServers": top, "projects": {"/w": {"mcpServers": project}, "/v": {"mcpServers": []}}}


_NAMES = st.sampled_from(["a", "b", "ü \n", ""])
_KEYS: st.SearchStrategy[_Table] = st.fixed_dictionaries(
    {}, optional={"disabled": st.booleans(), "timeout": st.integers(1, 9), "env": st.just({"K": "v"})}
)
_RUN: st.SearchStrategy[_Table] = st.fixed_dictionaries(
    {"command": st.sampled_from(["npx", "a b", "ü\\", "-x"])},
    optional={
        "args": st.lists(st.sampled_from(["--", "-y", "gateway", "é", '"', "--config"]), max_size=3),
        "type": st.just("stdio"),
    },
)
_WEB: st.SearchStrategy[_Table] = st.fixed_dictionaries(
    {"url": st.sampled_from(["https://x/mcp", "${BASE}/mcp"])},
    optional={"type": st.sampled_from(["http", "sse"]), "headers": st.just({"Authorization": "Bearer ${T}"})},
)
_NOT_SERVED: list[Any] = [
    {"command": "x", "args": None},
    {"command": "x", "args": "-y"},
    {"command": []},
    {},
    "no",
    None,
]
_ENTRY: st.SearchStrategy[Any] = st.builds(_both, _RUN | _WEB, _KEYS) | st.sampled_from(_NOT_SERVED)
_SERVERS: st.SearchStrategy[_Table] = st.dictionaries(_NAMES, _ENTRY, max_size=4)
_DOCUMENT = st.builds(_document, _SERVERS, _SERVERS)
_FORMS: list[_Table] = [
    {}, {"indent": 2}, {"indent": "\t", "ensure_ascii": False}, {"separators": (",", ":")}, {"sort_keys": True},
]  # fmt: skip
_FORM = st.sampled_from(_FORMS)
_NEW = st.builds(_both, _RUN | _WEB, _KEYS)
_EDIT = st.tuples(st.sampled_from(["add", "remove", "set", "argument", "option", "seen"]), st.booleans(), _NAMES, _NEW)
_EDITS = st.lists(_EDIT, max_size=3)


def _edited(value: Any, edit: tuple[str, bool, str, Any], *, behind: bool) -> None:
    """One edit by a user or a client; a server that is behind the gateway is edited as such."""
    what, in_project, name, entry = edit
    servers = value["projects"]["/w"]["mcpServers"] if in_project else value["mcpServers"]
    found = servers.get(name)
    old = cast("_Table", found) if isinstance(found, dict) else {}
    runs = isinstance(old.get("command"), str) and isinstance(old.get("args", []), list)
    ours = old.get("command") == "/opt/holdall"
    if what == "add":
        servers[name] = copy.deepcopy(entry)
    elif what == "remove":
        servers.pop(name, None)
    elif what == "seen":
        value["seen"] = value.get("seen", 0) + 1
    elif what == "option" and behind and ours:
        old["args"][1:1] = ["--session", "work"]
    elif what == "set" and old:
        old.update(disabled=True, timeout=99)
    elif what == "argument" and runs and (not ours or "--" in old["args"]):
        old.setdefault("args", []).append("last")


@settings(max_examples=100, deadline=None)
@given(_DOCUMENT, _FORM, _EDITS, _FORM, st.booleans(), _EDITS, _FORM)
def test_whatever_is_edited_in_between_uninstall_leaves_what_would_be_there_without_us(
    document: Any,
    form: dict[str, Any],
    edits: list[Any],
    second_form: dict[str, Any],
    twice: bool,
    more: list[Any],
    third_form: dict[str, Any],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = Client(Path(folder), json.dumps(document, **form))
        before, document = client.file.read_bytes(), client.value
        client.install()
        for some, other_form in ((edits, second_form), (more, third_form)):
            for edit in some:
                client.rewrites(lambda value, edit=edit: _edited(value, edit, behind=True), **other_form)
                _edited(document, edit, behind=False)
            if twice:
                client.install()
        client.uninstall()
        assert client.value == document
        assert edits or more or client.file.read_bytes() == before
