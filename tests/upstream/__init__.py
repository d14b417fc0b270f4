"""Connections to MCP servers, tested against real ones: processes and HTTP servers on loopback, good and bad."""
