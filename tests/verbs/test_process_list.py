"""What a person or a model looks for stands in no process list: everybody on the machine can read that."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdall.llm import gguf
from holdall.search.pattern import read_pattern
from holdall.search.ripgrep import command_for, output_of
from holdall.verbs.query import SqlWorker, query_sql
from tests.requirements import requirement
from tests.support import reader_of

SECRET = "hunter2"


def command_lines() -> list[bytes]:
    """Of the processes that this one has started and that run."""
    found: list[bytes] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (process / "stat").read_text().rpartition(")")[2].split()[1]
            found += [(process / "cmdline").read_bytes()] if int(parent) == os.getpid() else []
    return found


@requirement("trust:process-list")
@pytest.mark.parametrize("pattern", [f"pass.*{SECRET}", "x" * 8_000 + SECRET])
def test_a_pattern_is_not_in_the_process_list_while_it_is_looked_for(pattern: str) -> None:
    seen: list[bytes] = []

    def feed() -> Iterator[bytes]:
        yield b"nothing here\n"
        seen.extend(command_lines())  # it waits for more of its input
        yield b"password=hunter2\n"

    found = b"".join(output_of(command_for(read_pattern(pattern), "count", feed()), seconds=60))
    assert found == (b"1\n" if pattern.startswith("pass") else b"")
    assert any(line.split(b"\0")[0].endswith(b"rg") for line in seen)
    assert not any(SECRET.encode() in line for line in seen)


@requirement("trust:process-list")
def test_sql_and_its_path_are_not_in_the_process_list_and_its_arguments_are_always_the_same() -> None:
    with SqlWorker() as worker:
        query_sql(reader_of(b"a,b\n1,2\n"), f"select '{SECRET}' from t", worker=worker)
        first = Path(f"/proc/{worker.pid}/cmdline").read_bytes()
    with SqlWorker() as worker:
        query_sql(reader_of(b'{"a":{"hunter2":[1]}}'), "select * from t", at="$.a.hunter2", worker=worker)
        assert Path(f"/proc/{worker.pid}/cmdline").read_bytes() == first
    assert SECRET.encode() not in first


@requirement("trust:process-list")
def test_the_process_of_a_local_model_is_started_with_nothing_of_a_question_or_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def popen(words: list[str], **_given: object) -> None:
        started.append(words)
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", popen)
    for name in ("one.gguf", f"{SECRET}.gguf"):
        with pytest.raises(gguf.ModelFault):
            gguf.GgufServer(tmp_path / name, context=512, threads=1).start()
    assert started[0] == started[1]
    assert os.fspath(tmp_path) not in " ".join(started[0])
