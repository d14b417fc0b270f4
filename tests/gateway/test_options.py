"""What the gateway says of options that it cannot take: which one, and what is wrong with it."""

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from holdall.cli.servers import GatewayOptions, tokens_in
from holdall.values.errors import UsageError

LONG, OTHER = "a" * 40, "b" * 40


def test_a_time_to_list_tools_that_there_is_not_is_told_of_its_own_option() -> None:
    with pytest.raises(UsageError) as refused:
        GatewayOptions((), None, None, None, by_reference=False, tools="foo").flags()
    assert str(refused.value) == snapshot("--tools is 'foo'; it takes when-needed or always.")
    assert GatewayOptions((), None, None, None, by_reference=True, tools="always").flags() == [
        "by_reference=true",
        "tools_listed=always",
    ]


def test_a_file_of_tokens_that_others_could_replace_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o777)
    file = folder / "tokens"
    file.write_text(f"ann {LONG}\n")
    file.chmod(0o600)
    with pytest.raises(UsageError, match="a folder of the file of tokens"):
        tokens_in(str(file))
    folder.chmod(0o700)
    assert tokens_in(str(file)) == {"ann": LONG}


def said_of(folder: Path, text: str) -> str:
    file = folder / "tokens"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(UsageError) as refused:
        tokens_in(str(file))
    assert LONG not in str(refused.value)
    return str(refused.value).replace(str(file), "FILE")


def test_a_line_of_tokens_is_refused_for_what_is_wrong_with_it(tmp_path: Path) -> None:
    assert said_of(tmp_path, f"ann {LONG}\nann {OTHER}\n") == snapshot(
        "line 2 of FILE has the name 'ann' for a second time: each name stands once."
    )
    assert said_of(tmp_path, f"ann {LONG}\n# same\nbob {LONG}\n") == snapshot(
        "line 3 of FILE has the token of 'ann': each has a token of its own."
    )
    assert said_of(tmp_path, "ann short\n") == snapshot(
        "line 1 of FILE has a token that is too short: a token has at least 16 characters."
    )
    assert said_of(tmp_path, f"{LONG}\n") == snapshot("line 1 of FILE must be NAME TOKEN.")
