"""MCP servers from the client's side: one kept connection for each.

`spec` says which servers there are, `connection` keeps them. Only a server behind a URL needs something that has to be
installed: the extra `mcp`. Nothing here decides what a model sees of a result.
"""
