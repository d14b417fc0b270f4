"""Names of several servers, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.mcp.gateway.listing import Names
from tests.requirements import requirement

RESERVED = ("context_read", "tool_output")


def test_with_one_server_names_are_its_own() -> None:
    names = Names(["files"], reserved=RESERVED)
    assert names.shown("files", "read a file") == "read a file"
    assert names.meant("never listed") == ("files", "never listed")


def test_a_tool_cannot_take_a_name_of_ours() -> None:
    names = Names(["files"], reserved=RESERVED)
    assert names.meant("files__context_read") == ("files", "context_read")  # before it was listed
    assert names.shown("files", "context_read") == "files__context_read"
    assert names.meant("context_read") is None
    assert names.shown("files", "files__context_read") == "files__files__context_read"


@requirement("trust:our-names")
@pytest.mark.parametrize(
    "like",
    [
        "context.read",
        "context_read ",
        "Context_Read",
        "context-read",
        "/context read/",
        "context\u200b_read",
        "context\u200bread",
        "\uff43ontext_read",
        "c\u043entext_read",
    ],
)
def test_nor_one_that_becomes_ours_in_a_model_api(like: str) -> None:
    names = Names(["files"], reserved=RESERVED)
    assert names.shown("files", like) == f"files__{like}"
    assert names.meant(f"files__{like}") == ("files", like)
    assert names.meant(like) is None


def test_servers_of_like_names_are_told_apart() -> None:
    names = Names(["a b", "a.b", "???"])
    shown = [names.shown(server, "echo") for server in ("a b", "a.b", "???")]
    assert shown == ["a_b__echo", "a_b2__echo", "server__echo"]


def test_no_server_takes_a_name_of_one_whose_name_begins_like_its_own() -> None:
    names = Names(["a", "a__b", "a2"])
    assert names.meant("a__b__c") == ("a__b", "c")
    assert [names.shown("a", "b__c"), names.shown("a__b", "c"), names.shown("a2", "c")] == [
        "a3__b__c",
        "a__b__c",
        "a2__c",
    ]
    assert names.meant("a__b__c") == ("a__b", "c")


def test_a_long_prefix_gives_way_to_the_name() -> None:
    names = Names(["s" * 80, "t"])
    shown = names.shown("s" * 80, "n" * 60)
    assert shown == "ss__" + "n" * 60
    assert names.meant(shown) == ("s" * 80, "n" * 60)


@given(
    servers=st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4, unique=True),
    tools=st.lists(st.text(min_size=1, max_size=70), min_size=1, max_size=8),
    prefix=st.sampled_from([None, "", "{server}__", "{server}.", "x_"]),
)
def test_every_shown_name_leads_back_and_none_is_shared(
    servers: list[str], tools: list[str], prefix: str | None
) -> None:
    names = Names(servers, reserved=RESERVED, prefix=prefix)
    shown = {(server, tool): names.shown(server, tool) for server in servers for tool in (*tools, *RESERVED)}
    assert len(set(shown.values())) == len(shown)
    assert not set(shown.values()) & set(RESERVED)
    assert all(names.meant(name) == meant for meant, name in shown.items())
    assert {(server, tool): names.shown(server, tool) for server, tool in shown} == shown


def test_a_server_that_lists_other_names_each_time_loses_the_first_and_costs_no_other_its_own() -> None:
    names = Names(["good", "bad"])
    good = names.shown("good", "echo")
    last = ""
    for number in range(1000):
        last = names.shown("bad", f"{number:09000}")
        assert names.meant(last) == ("bad", f"{number:09000}")
    assert names.meant(good) == ("good", "echo")
    assert len(names) < 300
    assert names.shown("bad", f"{999:09000}") == last
