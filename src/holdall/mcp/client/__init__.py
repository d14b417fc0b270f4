"""MCP servers from the client's side: one kept connection for each.

`spec` says which servers there are and needs no extra. `connection` talks to them and needs the extra `mcp`. Nothing
here decides what a model sees of a result.
"""
