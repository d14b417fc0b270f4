"""The clients that `holdall install` knows: where their files are, and how each writes a server.

A path begins in the project or in the user's home; `${NAME:-…}` is the variable that moves a client's folder. What is
only on macOS is under ~/Library, so one list serves both systems. Nothing here reads a file.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from typing import Any, cast

from holdall.mcp.client.spec import URLS, expand
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

Entry = Mapping[str, Any]


@record
class Shape:
    """How a client writes a server: the tables, and the keys that say what the gateway has to know.

    `to_common` gives an entry in the form that most clients share, with variables as ${NAME}; `from_common` makes one
    with a URL from that.
    """

    tables: tuple[str, ...]
    command: str = "command"
    args: str = "args"  # empty where the command is a list with its arguments
    urls: tuple[str, ...] = URLS
    moved: tuple[str, ...] = ("type", "transport", "transportType", "headers")  # the gateway's, as the URL is
    local: tuple[tuple[str, str], ...] = ()  # what says that an entry is a program
    passes: str = ""  # the key for variables that a program is given, where it does not have those of its client
    passed: Callable[[list[str]], object] = list  # what stands there, by their names
    other: str = ""  # a pattern for what the client puts into a URL or a header and the gateway does not, or only it
    to_common: Callable[[Entry], dict[str, Any]] = dict
    from_common: Callable[[Entry], dict[str, Any]] = dict

    @property
    def taken(self) -> tuple[str, ...]:
        """All that goes away where an entry with a URL becomes a program."""
        return (*self.urls, *self.moved)

    @property
    def ours(self) -> tuple[str, ...]:
        """All that stands there then."""
        keys = (self.command, self.args, *(key for key, _ in self.local), "type", self.passes)
        return tuple(key for key in keys if key)

    def url_key(self, entry: Entry) -> str:
        """Under which name its URL stands; empty if it has none, or more than one."""
        given = [key for key in self.urls if key in entry]
        return given[0] if len(given) == 1 else ""


def _from_opencode(entry: Entry) -> dict[str, Any]:
    found = {key: one for key, one in entry.items() if key != "type"}
    words = found.get("command")
    if isinstance(words, list) and words:
        given = cast("list[object]", words)
        found |= {"command": given[0], "args": given[1:]}
    if isinstance(found.get("url"), str):
        found["url"] = _VARIABLE.sub(r"${\1}", found["url"])
    headers = found.get("headers")
    if isinstance(headers, dict):
        pairs = cast("dict[str, object]", headers).items()
        found["headers"] = {key: _VARIABLE.sub(r"${\1}", one) if isinstance(one, str) else one for key, one in pairs}
    return found


def _to_opencode(entry: Entry) -> dict[str, Any]:
    headers = {key: _OURS.sub(r"{env:\1}", one) for key, one in entry.get("headers", {}).items()}
    url = {"type": "remote", "url": _OURS.sub(r"{env:\1}", str(entry["url"]))}
    return url | ({"headers": headers} if headers else {})


def _from_codex(entry: Entry) -> dict[str, Any]:
    found = dict(entry)
    plain, named = found.pop("http_headers", None), found.pop("env_http_headers", None)
    headers = dict(cast("dict[str, object]", plain)) if isinstance(plain, dict) else {}
    if isinstance(named, dict):
        headers |= {key: f"${{{name}}}" for key, name in cast("dict[str, str]", named).items()}
    if token := found.pop("bearer_token_env_var", None):
        headers["Authorization"] = f"Bearer ${{{token}}}"
    return found | ({"headers": headers} if headers else {})


def _to_codex(entry: Entry) -> dict[str, Any]:
    found: dict[str, Any] = {"url": entry["url"]}
    for key, one in entry.get("headers", {}).items():
        name = _OURS.fullmatch(one)
        found.setdefault("env_http_headers" if name else "http_headers", {})[key] = name[1] if name else one
    return found


def _from_gemini(entry: Entry) -> dict[str, Any]:
    found = dict(entry)
    for key in (*URLS, "headers"):
        one = found.get(key)
        if isinstance(one, str):
            found[key] = _NAKED.sub(r"${\1}", one)
        elif isinstance(one, dict):
            pairs = cast("dict[str, object]", one).items()
            found[key] = {
                name: _NAKED.sub(r"${\1}", given) if isinstance(given, str) else given for name, given in pairs
            }
    return found


def _from_goose(entry: Entry) -> dict[str, Any]:
    names = {"cmd": "command", "uri": "url"}
    found = {names.get(key, key): one for key, one in entry.items() if key != "type"}
    return found | ({"type": "sse"} if entry.get("type") == "sse" else {})


def _to_goose(entry: Entry) -> dict[str, Any]:
    return {"type": "streamable_http", "uri": entry["url"], "headers": entry.get("headers", {})}


_VARIABLE = lazy_pattern(r"\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_OURS = lazy_pattern(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAKED = lazy_pattern(r"\$([A-Za-z_][A-Za-z0-9_]*)")
COMMON = Shape(("mcpServers", "servers"))
# It keeps variables with names like TOKEN or KEY from its servers, and fills in what stands in its settings.
_GEMINI = Shape(
    ("mcpServers",), passes="env", passed=lambda names: {name: f"${{{name}}}" for name in names}, to_common=_from_gemini
)
_PLAIN = Shape(("mcpServers",), other=r"\$\{")  # no variables in a URL or a header, or not for a program
_ZED = Shape(("context_servers",))
_OPENCODE = Shape(
    ("mcp",), args="", urls=("url",), moved=("type", "headers"), local=(("type", "local"),), other=r"\$\{|\{file:",
    to_common=_from_opencode, from_common=_to_opencode,
)  # fmt: skip
_CODEX = Shape(
    ("mcp_servers",), urls=("url",), moved=("http_headers", "env_http_headers", "bearer_token_env_var"),
    passes="env_vars", other=r"\$\{", to_common=_from_codex, from_common=_to_codex,
)  # fmt: skip
_GOOSE = Shape(
    ("extensions",), command="cmd", urls=("uri",), moved=("type", "headers"), local=(("type", "stdio"),),
    other=r"\$[A-Za-z_]", to_common=_from_goose, from_common=_to_goose,
)  # fmt: skip
# Of a file that no client here is known to have, by its format.
_FORMS = {"JSON": (COMMON, _ZED, _OPENCODE), "TOML": (_CODEX,), "YAML": (_GOOSE,)}


@record
class Client:
    """`files` of the project come first. `url_is_sse`: a URL without a type is the transport that MCP has given up."""

    title: str
    files: tuple[str, ...]
    shape: Shape = COMMON
    url_is_sse: bool = False


_CONFIG = "${XDG_CONFIG_HOME:-~/.config}"
_CODE = (f"{_CONFIG}/Code", f"{_CONFIG}/Code - Insiders", "~/Library/Application Support/Code",
         "~/Library/Application Support/Code - Insiders")  # fmt: skip
_CLINE = "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json"
_OPENCODE_FILES = ("opencode.json", "opencode.jsonc")

CLIENTS: Mapping[str, Client] = {
    "claude-code": Client("Claude Code", (".mcp.json", "${CLAUDE_CONFIG_DIR:-~}/.claude.json")),
    "claude-desktop": Client(
        "Claude Desktop",
        tuple(f"{one}/Claude/claude_desktop_config.json" for one in ("~/Library/Application Support", _CONFIG)),
    ),
    "vscode": Client("VS Code", (".vscode/mcp.json", *(f"{one}/User/mcp.json" for one in _CODE))),
    "cursor": Client("Cursor", (".cursor/mcp.json", "~/.cursor/mcp.json")),
    "codex": Client("Codex", (".codex/config.toml", "${CODEX_HOME:-~/.codex}/config.toml"), _CODEX),
    "opencode": Client(
        "opencode",
        (*_OPENCODE_FILES, *(f".opencode/{one}" for one in _OPENCODE_FILES),
         *(f"{_CONFIG}/opencode/{one}" for one in _OPENCODE_FILES)),
        _OPENCODE,
    ),
    "gemini": Client("Gemini CLI", (".gemini/settings.json", "~/.gemini/settings.json"), _GEMINI, url_is_sse=True),
    "windsurf": Client("Windsurf", ("~/.codeium/windsurf/mcp_config.json",)),
    "zed": Client("Zed", (".zed/settings.json", f"{_CONFIG}/zed/settings.json"), _ZED),
    "cline": Client(
        "Cline",
        (*(f"{one}/{_CLINE}" for one in _CODE), "~/.cline/data/settings/cline_mcp_settings.json"),
        _PLAIN,
        url_is_sse=True,
    ),
    "copilot": Client("Copilot CLI", (".github/mcp.json", "${COPILOT_HOME:-~/.copilot}/mcp-config.json",)),
    "goose": Client("Goose", (f"{_CONFIG}/goose/config.yaml",), _GOOSE),
    "lm-studio": Client("LM Studio", ("~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json"), _PLAIN),
}  # fmt: skip


def path_of(written: str) -> str:
    return os.path.abspath(os.path.expanduser(expand(written, os.environ)))


def client_of(file: str) -> str:
    """Whose file this is, also in another home or project; empty for a file of nobody that is known here."""
    for name, client in CLIENTS.items():
        if any(file == path_of(one) or file.endswith(_ending(one)) for one in client.files):
            return name
    return ""


def client_id(file: str) -> str:
    """Of the client that reads this file: the same for all files of a client that is known here."""
    return client_of(file) or f"client-{hashlib.sha256(file.encode('utf-8', 'surrogateescape')).hexdigest()[:8]}"


def is_of_user(file: str) -> bool:
    """Whether it is a client's file of the user's own, not of a project."""
    return file in {path_of(one) for client in CLIENTS.values() for one in client.files if one[:1] in "~$"}


def shape_of(file: str, format: str, keys: Mapping[str, Any]) -> Shape:
    """Of a client's file; of an unknown one as the first of its keys that are known."""
    if name := client_of(file):
        return CLIENTS[name].shape
    forms = _FORMS[format]
    return next((one for one in forms if any(table in keys for table in one.tables)), forms[0])


def _ending(written: str) -> str:
    """What the path of such a file ends with, wherever the home or the project is."""
    return "/" + expand(written, {}).removeprefix("~/")
