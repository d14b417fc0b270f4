"""MCP servers, seen from the client's side: one kept connection for each, whoever calls through it.

`config` and `spec` say which servers there are and import nothing that has to be installed. `servers` keeps them,
`connection` is one of them; both need the extra `mcp`. Nothing here decides what a model sees of a result.
"""
