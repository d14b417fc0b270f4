"""A client of MCP servers, as far as its configuration goes."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdall.mcp.install.installer import Done, install, uninstall


class Client:
    """A client with its file."""

    def __init__(self, folder: Path, text: str, name: str = "mcp.json") -> None:
        self.file = folder / name
        self.configs = folder / "configs"
        self.file.write_bytes(text.encode())

    @property
    def value(self) -> Any:
        return json.loads(self.file.read_bytes())

    @property
    def entries(self) -> list[str]:
        """The files of its entries with a URL."""
        return [str(path) for path in self.configs.glob("*.json")]

    def install(self) -> Done:
        return install(str(self.file), "/opt/holdall", config_folder=str(self.configs))

    def uninstall(self) -> Done:
        return uninstall(str(self.file), config_folder=str(self.configs))

    def rewrites(self, change: Callable[[Any], object], **form: Any) -> None:
        value = self.value
        change(value)
        self.file.write_text(json.dumps(value, **form))
