"""Every implementation keeps the contract of `llm.protocol`; that of a real model is in the suite `model`."""

from collections.abc import Iterator

import pytest

from holdall.llm.wrappers import Retrying, with_tools
from tests.llm.contract import ModelContract, Rig
from tests.llm.openai_server import OpenAIServer
from tests.llm.rigs import ActingRig, ProviderRig, SampledRig, ScriptedRig
from tests.requirements import requirement


@requirement("api:scripted-model")
class TestScripted(ModelContract):
    @pytest.fixture
    def rig(self) -> Rig:
        return ScriptedRig(keeps_schema=True)


class TestScriptedWithoutAnything(ModelContract):
    @pytest.fixture
    def rig(self) -> Rig:
        return ScriptedRig(calls_tools=False, keeps_schema=False)


class TestRetrying(ModelContract):
    @pytest.fixture
    def rig(self) -> Rig:
        rig = ScriptedRig(keeps_schema=True)
        rig.model = Retrying(rig.model)
        return rig


class TestActionsHeldToASchema(ModelContract):
    @pytest.fixture
    def rig(self) -> Rig:
        rig = ActingRig(calls_tools=False, keeps_schema=True)
        rig.model = with_tools(rig.model)
        return rig


class TestActionsByPrompt(ModelContract):
    @pytest.fixture
    def rig(self) -> Rig:
        rig = ActingRig(calls_tools=False, keeps_schema=False)
        rig.model = with_tools(rig.model)
        return rig


class TestSampled(ModelContract):
    @pytest.fixture
    def rig(self) -> Rig:
        return SampledRig()


@pytest.mark.usefixtures("real_models")
class TestProvider(ModelContract):
    @pytest.fixture
    def rig(self) -> Iterator[Rig]:
        with OpenAIServer().running() as server:
            yield ProviderRig(server)
