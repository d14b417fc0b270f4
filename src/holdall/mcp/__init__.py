"""MCP: servers that we call (`client`), clients that we serve (`gateway`), and their configuration (`install`)."""
