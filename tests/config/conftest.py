"""A configuration file of each test's own, and `config.load` on it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdall import config
from holdall.config import Configuration


@dataclass(frozen=True)
class Load:
    """`load(text, flags=…, front_matter=…, HOLDALL_X=…)`: the file has this text, and there is no other environment."""

    file: Path

    def __call__(
        self,
        text: str | bytes = "",
        *,
        flags: tuple[str, ...] = (),
        front_matter: Mapping[str, Any] | None = None,
        **environment: str,
    ) -> Configuration:
        self.file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        self.file.chmod(0o600)
        return config.load(
            environment={"HOLDALL_CONFIG": str(self.file), **environment},
            flags=flags,
            front_matter=front_matter,
            home=str(self.file.parent / "home"),
        )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


@pytest.fixture
def load(file: Path) -> Load:
    return Load(file)
