"""No test reaches a real model unless it says so."""

import os
import subprocess
import sys

import pytest

from holdall.llm.protocol import check_calls_enabled, model_calls_enabled
from holdall.llm.providers import ProviderModel
from holdall.values.errors import ModelCallsDisabled
from tests.llm.contract import asking
from tests.llm.openai_server import OpenAIServer, Scene, completion


def test_tests_run_with_real_models_off_and_so_do_the_processes_that_they_start() -> None:
    assert os.environ["HOLDALL_REAL_MODELS"] == "off"
    code = "from holdall.llm.protocol import model_calls_enabled; print(model_calls_enabled())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.anyio
async def test_a_provider_is_refused_before_anything_is_sent() -> None:
    with OpenAIServer().running() as server:
        server.will(Scene(body=completion("x")))
        with pytest.raises(ModelCallsDisabled, match="HOLDALL_REAL_MODELS=off"):
            await ProviderModel(f"openai:small-one@{server.url}").ask(asking("a"))
        assert server.seen == []


@pytest.mark.parametrize("value", ["off", "OFF", " no ", "false", "0"])
def test_words_that_switch_it_off(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HOLDALL_REAL_MODELS", value)
    with pytest.raises(ModelCallsDisabled):
        check_calls_enabled("gguf:x")


@pytest.mark.parametrize("value", ["on", "", "yes"])
def test_anything_else_leaves_it_on(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("HOLDALL_REAL_MODELS", value)
    check_calls_enabled("gguf:x")


@pytest.mark.usefixtures("real_models")
def test_a_test_that_asks_for_it_has_it_on() -> None:
    assert model_calls_enabled()
