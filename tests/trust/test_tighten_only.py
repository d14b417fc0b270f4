"""An agent's file tightens what the user has set, and loosens none of it."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall import Holdall, config
from holdall.bag import core
from holdall.bag.core import policies_of, policy_of
from holdall.policy.setting_values import is_looser
from holdall.values.settings import CEILING, USER_ONLY, Settings, ToolPolicy, kind_of
from tests.requirements import requirement

ONE_WAY = {one.name: one for one in fields(Settings) if one.metadata["stricter"] not in (None, USER_ONLY)}
OF_A_TOOL = {one.name: one for one in fields(ToolPolicy) if one.metadata["stricter"] is not None}


def values(one: Any) -> st.SearchStrategy[Any]:
    kind = kind_of(one)
    if one.name == "retention":
        found: st.SearchStrategy[Any] = st.sampled_from(["session", "keep", "0 days", "7 days", "30 days", "400 days"])
    elif kind is bool:
        found = st.booleans()
    elif kind in (int, float):
        found = st.integers(max(1, int(one.metadata["least"])), int(one.metadata["most"]))
    else:
        found = st.sampled_from(sorted(kind))
    return found | st.none() if one.default is None else found


def load(front: dict[str, Any], own: dict[str, Any]) -> config.Configuration:
    """The user's own values come from the environment, or from flags before the file is known: here, as one place."""
    merge = config._Merge({})  # pyright: ignore[reportPrivateUsage]
    for found, where in ((own, config.ENVIRONMENT), (front, config.FRONT_MATTER)):
        merge.add(found, where)
    return config.Configuration(merge.settings(), "", "", merge.sources, "", tuple(merge.notes))


@requirement("trust:tighten-only")
@settings(max_examples=400)
@given(name=st.sampled_from(sorted(ONE_WAY)), data=st.data())
def test_no_value_of_a_file_is_looser_than_the_users(name: str, data: st.DataObject) -> None:
    one = ONE_WAY[name]
    own, asked = data.draw(values(one)), data.draw(values(one))
    found = load({name: asked}, {name: own})
    got = getattr(found.settings, name)
    assert not is_looser(one, got, own)
    assert got == (own if is_looser(one, asked, own) else asked), "what is stricter is taken"
    assert bool(found.notes) == is_looser(one, asked, own)


@requirement("trust:tighten-only")
@given(name=st.sampled_from(sorted(OF_A_TOOL)), data=st.data())
def test_the_same_for_a_single_tool(name: str, data: st.DataObject) -> None:
    one = OF_A_TOOL[name]
    own, asked = data.draw(values(one)), data.draw(values(one))
    found = load({"tools": {"fetch": {name: asked}}}, {"tools": {"fetch": {name: own}}})
    assert not is_looser(one, getattr(found.settings.tools["fetch"], name), own)


@requirement("trust:tighten-only")
@pytest.mark.parametrize(
    ("own", "front", "note"),
    [
        ({"max_turns": 5}, {"max_turns": 50}, "max_turns stays 5"),
        ({"retention": "session"}, {"retention": None}, "retention stays 'session'"),
        ({"quota_bytes": 1000}, {"quota_bytes": None}, "quota_bytes stays 1000"),
        ({"dialect": "legacy"}, {"dialect": "holdall"}, "dialect stays 'legacy'"),
        ({}, {"extraction_max_cost": 10**6}, "extraction_max_cost stays 5.0"),
        ({"by_reference": False}, {"tools": {"send": {"by_reference": True}}}, "tools.send.by_reference stays False"),
        ({"tools": {"keys": {"store": "never"}}}, {"tools": {"keys": {"store": "always"}}}, "tools.keys.store stays"),
    ],
)
def test_what_was_asked_for_and_refused_is_told(own: dict[str, Any], front: dict[str, Any], note: str) -> None:
    (told,) = load(front, own).notes
    assert told.startswith(f"the front matter: {note}")


@requirement("trust:tighten-only")
def test_what_the_user_has_not_set_is_the_files_to_set() -> None:
    for name, one in ONE_WAY.items():
        if one.metadata["stricter"] == CEILING:
            continue
        value = {"retention": "keep", "dialect": "refs", "extraction_cache": "store"}.get(
            name, one.metadata["most"] or True
        )
        assert getattr(load({name: value}, {}).settings, name) == value


@requirement("settings:front-matter-over-environment")
def test_whether_calls_go_to_the_background_is_the_files_to_say() -> None:
    """S3, phase 7.1. Nobody is harmed; what may never run there is a tool's own `never_async`, which is one-way."""
    for own, asked in ((False, True), (True, False)):
        found = load({"async": asked}, {"async": own})
        assert (found.settings.async_enabled, found.notes) == (asked, ())


@requirement("trust:tighten-only")
@pytest.mark.anyio
async def test_what_a_tool_is_called_with_several_servers_costs_it_no_policy(tmp_path: Path) -> None:
    """How many servers there are, and so whether a name has a prefix, is up to the file."""
    tools = {
        "a.dot": ToolPolicy(store="never"),
        "sec": ToolPolicy(store="never", redact=True, max_inline_bytes=100),
        "v__sec": ToolPolicy(store="always"),
    }
    async with Holdall.open(home=str(tmp_path), settings=Settings(tools=tools)) as bag:
        core = bag.core
        assert core.policy_of("v__sec") == ToolPolicy(store="never", redact=True, max_inline_bytes=100)
        assert core.policy_of("a__b__sec") == core.policy_of("sec") == tools["sec"]
        assert core.policy_of("other") == core.policy_of("v__other") == ToolPolicy()
        assert core.limits_for("a__sec").bytes == 100
        assert core.policy_of("a_dot") == core.policy_of("s__a_dot") == core.policy_of("a.dot") == tools["a.dot"]
        assert core.redaction_of("v__sec") is not None


@requirement("trust:tighten-only")
@pytest.mark.anyio
@pytest.mark.parametrize("first", ["vault.read", "vault_read"])
async def test_a_tool_that_is_named_as_providers_do_keeps_the_stricter_policy(tmp_path: Path, first: str) -> None:
    tables = {"vault.read": ToolPolicy(store="never", redact=True), "vault_read": ToolPolicy(store="always")}
    tools = {name: tables[name] for name in sorted(tables, key=lambda name: name != first)}
    async with Holdall.open(home=str(tmp_path), settings=Settings(tools=tools)) as bag:
        for name in ("vault.read", "vault_read", "v__vault_read", "v__vault.read"):
            assert (bag.core.policy_of(name).store, bag.core.policy_of(name).redact) == ("never", True)


SIGNS = st.text("_.a", max_size=9)


@requirement("trust:tighten-only")
@given(tool=SIGNS, tables=st.sets(SIGNS, max_size=5))
def test_a_tools_policy_is_that_of_its_name_and_of_what_is_behind_any_prefix(tool: str, tables: set[str]) -> None:
    def plain(name: str) -> str:
        return name.replace(".", "_")

    policies = policies_of(Settings(tools={name: ToolPolicy(redact=True) for name in tables}))
    meant = [tool, *(tool[at + 2 :] for at in range(len(tool) - 2) if tool.startswith("__", at))]
    assert policy_of(policies, tool).redact == any(name in policies for name in {*meant, *map(plain, meant)})


@requirement("trust:tighten-only")
@pytest.mark.anyio
async def test_of_a_name_no_more_is_looked_at_than_tables_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever calls a tool may name it as they like: with prefixes at all of its signs this took hours."""
    tools = {"fetch": ToolPolicy(redact=True), "other.tool": ToolPolicy(store="never")}
    async with Holdall.open(home=str(tmp_path), settings=Settings(tools=tools)) as bag:
        looked_at: list[str] = []

        def look(name: str) -> str:
            looked_at.append(name)
            return name

        monkeypatch.setattr(core, "_as_providers_take_it", look)
        name = "a__" * 1000
        bag.core.is_shown_as("b", name, f"server__{name}")
        assert bag.core.policy_of(name) == ToolPolicy()
        assert bag.core.policy_of(f"{name}fetch") == tools["fetch"]
        assert looked_at == ["fetch"]
