"""The MCP servers that an agent's file names, by a file or in a table of its own. Nothing is started."""

import json
from collections.abc import Mapping

from holdall.agent.files import AgentFile
from holdall.upstream import config
from holdall.upstream.config import Configured


def servers_of(agent: AgentFile, *, environment: Mapping[str, str] | None = None, inherits: bool = False) -> Configured:
    """None of them where the file names none. Raises BadServer, with the agent's file as the place of its own table."""
    if agent.servers is None:
        return Configured(())
    if isinstance(agent.servers, str):
        return config.load(agent.servers, environment=environment, inherits=inherits)
    text = json.dumps({"mcpServers": dict(agent.servers)})
    return config.parse(text, source=agent.sources["servers"], environment=environment, inherits=inherits)
