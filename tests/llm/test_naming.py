"""From names to models: every form, every option, and what is said to a name that is none."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pydantic_ai
import pytest
from inline_snapshot import snapshot

from holdall.llm.gguf import GgufModel
from holdall.llm.model_names import VARIABLES, model_named
from holdall.llm.providers import ProviderModel
from holdall.llm.scripted import ScriptedModel
from holdall.values.errors import NoSuchModel
from tests.requirements import requirement

SERVER = "http://127.0.0.1:9/v1"


def a_gguf(path: Path, context: int = 4096) -> Path:
    """The beginning of a file: as much as is read of it before it is loaded."""
    key = b"llama.context_length"
    head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, context)
    path.write_bytes(head)
    return path


def test_a_script(tmp_path: Path) -> None:
    path = tmp_path / "replies.json"
    path.write_text(json.dumps(["x"]))
    model = model_named(f"scripted:{path}", window=700, max_output=70)
    assert isinstance(model, ScriptedModel)
    assert (model.name, model.window, model.max_output) == (f"scripted:{path}", 700, 70)


def test_a_file_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_gguf(tmp_path / "small.gguf")
    model = model_named(f"gguf:{path}")
    assert isinstance(model, GgufModel)
    assert (model.window, model.max_output, model.calls_tools, model.keeps_schema) == (4096, 2048, False, True)
    assert model_named(f"gguf:{path}?context=1024&threads=1").window == 1024
    assert model_named(f"gguf:{path}", window=2048, max_output=100).max_output == 100
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_named("gguf:~/small.gguf").name == f"gguf:{path}"
    a_gguf(tmp_path / "large.gguf", 131_072)
    assert model_named(f"gguf:{tmp_path}/large.gguf").window == 8192


def test_a_server_of_ones_own() -> None:
    model = model_named(f"openai:qwen@{SERVER}?window=8192&max_output=100&tools=no&schema=no")
    assert isinstance(model, ProviderModel)
    assert (model.name, model.window, model.max_output) == (f"openai:qwen@{SERVER}", 8192, 100)
    assert (model.calls_tools, model.keeps_schema) == (False, False)
    plain = model_named(f"openai:qwen@{SERVER}")
    assert (plain.calls_tools, plain.keeps_schema) == (True, True)


def test_a_name_with_an_at_sign_of_its_own_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert model_named("openai:tuned@2026-01").name == "openai:tuned@2026-01"


WRONG = (
    "gpt-5", "", ":", "openai:", "small.gguf", "gguff:small.gguf", "opnai:gpt-5", "nosuch:thing",
    f"groq:llama@{SERVER}", f"openai:q@{SERVER}?win=1", f"openai:q@{SERVER}?window=big", f"openai:q@{SERVER}?tools=maybe",
    "scripted:/nosuch.json", "gguf:/nosuch.gguf", "openai:a\nb",
    "huggingface:http://127.0.0.1:9/v1/x", f"openai:http://127.0.0.1:9/v1@{SERVER}", "groq:\\\\127.0.0.1\\x",
)  # fmt: skip


def test_what_is_said_to_a_name_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    said: dict[str, str] = {}
    for name in WRONG:
        with pytest.raises(NoSuchModel) as told:
            model_named(name)
        said[name[:40]] = str(told.value).replace(
            "A model is named provider:model (as openai:gpt-5), openai:NAME@URL (a server that speaks OpenAI's chat API), "
            "gguf:PATH (a file on this machine) or scripted:FILE (replies from a file).",
            "FORMS",
        )[:300]
    assert said == snapshot(
        {
            "gpt-5": 'no model is named "gpt-5". FORMS',
            "": 'no model is named "". FORMS',
            ":": 'no model is named ":". FORMS',
            "openai:": 'no model is named "openai:". FORMS',
            "small.gguf": 'no model is named "small.gguf". FORMS Did you mean "gguf:small.gguf"?',
            "gguff:small.gguf": 'no model is named "gguff:small.gguf". FORMS Did you mean "gguf:small.gguf"?',
            "opnai:gpt-5": 'no model is named "opnai:gpt-5". FORMS Did you mean "openai:gpt-5"?',
            "nosuch:thing": 'no model is named "nosuch:thing". FORMS Providers: openai, openai-chat, openai-responses, anthropic, google, groq, mistral, cohere, deepseek, openrouter, xai, cerebras, fireworks, together, huggingface, moonshotai, zai, and more.',
            "groq:llama@http://127.0.0.1:9/v1": "groq:llama@http://127.0.0.1:9/v1: a server of your own is named openai:NAME@URL; it speaks OpenAI's chat API.",
            "openai:q@http://127.0.0.1:9/v1?win=1": 'openai:q@http://127.0.0.1:9/v1?win=1: there is no option "win" here. Options: window, max_output, tools, schema.',
            "openai:q@http://127.0.0.1:9/v1?window=bi": 'openai:q@http://127.0.0.1:9/v1?window=big: window is "big"; it must be a number.',
            "openai:q@http://127.0.0.1:9/v1?tools=may": 'openai:q@http://127.0.0.1:9/v1?tools=maybe: tools is "maybe"; it must be yes or no.',
            "scripted:/nosuch.json": "the script /nosuch.json cannot be read: No such file or directory.",
            "openai:a\nb": 'no model is named "openai:a b". FORMS',
            "gguf:/nosuch.gguf": "gguf:/nosuch.gguf: No such file or directory. Name a file that ends in .gguf, as gguf:PATH, and see that its download is complete.",
            "huggingface:http://127.0.0.1:9/v1/x": "huggingface:http://127.0.0.1:9/v1/x: the name of a model is no URL. A server is named openai:NAME@URL.",
            "openai:http://127.0.0.1:9/v1@http://127.": "openai:http://127.0.0.1:9/v1@http://127.0.0.1:9/v1: the name of a model is no URL. A server is named openai:NAME@URL.",
            "groq:\\\\127.0.0.1\\x": "groq:\\\\127.0.0.1\\x: the name of a model is no URL. A server is named openai:NAME@URL.",
        }
    )


@requirement("cli:missing-extra")
@requirement("extract:model-unusable")
def test_the_variables_that_are_looked_at_are_those_of_the_library() -> None:
    modules = Path(pydantic_ai.__file__).parent / "providers"
    for provider, variables in VARIABLES.items():
        source = (modules / f"{provider.partition('-')[0]}.py").read_text()
        assert all(f"'{variable}'" in source for variable in variables), provider


@pytest.mark.parametrize(
    ("package", "name", "extra"),
    [
        ("xllamacpp", "gguf:{file}", "local"),
        ("pydantic_ai", "openai:gpt-5", "models"),
        ("pydantic_ai", "nosuch:x", "models"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_line_that_installs_it(
    tmp_path: Path, package: str, name: str, extra: str
) -> None:
    name = name.format(file=a_gguf(tmp_path / "small.gguf"))
    program = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "from holdall.llm.model_names import model_named\n"
        "from holdall.values.errors import MissingExtra\n"
        "try:\n"
        f"    model_named({name!r})\n"
        "except MissingExtra as told:\n"
        "    print(told)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"pip install 'holdall[{extra}]'" in done.stdout


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"GGUF",
        b"PK\x03\x04" + bytes(100),
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**50),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 99),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IQ", 8, 2**60),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<IIQ", 9, 8, 2**60),
        b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"k" + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 3000,
    ],
)
def test_a_file_that_is_no_model_is_refused_before_it_is_loaded(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broken.gguf"
    path.write_bytes(content)
    with pytest.raises(NoSuchModel, match=r"is not a whole GGUF file\. Name a file that ends in \.gguf"):
        model_named(f"gguf:{path}")


def test_a_file_that_does_not_tell_its_context_gets_a_small_one(tmp_path: Path) -> None:
    path = tmp_path / "silent.gguf"
    entries = (
        (b"general.name", struct.pack("<IQ", 8, 3) + b"abc"),
        (b"some.numbers", struct.pack("<IIQ", 9, 4, 2) + bytes(8)),
        (b"some.words", struct.pack("<IIQ", 9, 8, 2) + struct.pack("<Q", 1) + b"a" + struct.pack("<Q", 0)),
        (b"some.flag", struct.pack("<IB", 7, 1)),
    )
    body = b"".join(struct.pack("<Q", len(key)) + key + value for key, value in entries)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + body)
    assert model_named(f"gguf:{path}").window == 4096


def test_more_context_than_the_model_was_trained_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoSuchModel, match=r"was trained for 4,096 tokens; a context of 5,000 does not fit it"):
        model_named(f"gguf:{a_gguf(tmp_path / 'small.gguf')}?context=5000")


@requirement("extract:model-with-slash")
def test_a_provider_and_a_name_may_have_a_slash_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    monkeypatch.setenv("OPENROUTER_API_KEY", "x")
    assert model_named("anthropic/claude-haiku-4").name == "anthropic:claude-haiku-4"
    assert model_named("openrouter/anthropic/claude-haiku-4?window=1000").name == "openrouter:anthropic/claude-haiku-4"
    for wrong in ("models/small.gguf", "/models/small", "nosuch/thing", "scripted/replies.json", "gguf/small"):
        with pytest.raises(NoSuchModel, match="no model is named"):
            model_named(wrong)
