"""A local model, as far as that can be seen without one: what is refused, and when a process is started."""

from pathlib import Path

import pytest

from holdall.llm.gguf import GgufModel
from holdall.values.errors import ModelCallsDisabled, NoSuchModel
from tests.llm.contract import asking
from tests.llm.test_naming import a_gguf

pytestmark = pytest.mark.anyio


async def test_it_is_refused_before_a_process_is_started(tmp_path: Path) -> None:
    model = GgufModel(a_gguf(tmp_path / "small.gguf"))
    with pytest.raises(ModelCallsDisabled):
        await model.ask(asking("Hi"))
    assert model.server.pid is None
    await model.close()


@pytest.mark.usefixtures("real_models")
async def test_a_file_that_cannot_be_loaded_is_told_with_a_way_out(tmp_path: Path) -> None:
    model = GgufModel(a_gguf(tmp_path / "cut.gguf"))
    for _ in range(2):
        with pytest.raises(NoSuchModel, match=r"cut\.gguf cannot be loaded\. It may be cut off"):
            await model.ask(asking("Hi"))
        assert model.server.pid is None
    await model.close()
