"""The gateway: an MCP server in front of MCP servers. No result is cut.

What a client asks goes to the server that it means, and comes back as it was, unless it is too large or too slow: then
it is kept, and the client gets the notice and the tools to fetch any part of it. The bag decides that; nothing here
knows a limit. HTTP needs the extra `mcp`.
"""
