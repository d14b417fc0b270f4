"""Real coding agents, each in front of the gateway, with a scripted model behind them: what does the model see?

`server` is the MCP server whose tools return every form of result. `model` is the scripted model, in four providers'
protocols. `agents` says how each coding agent is started. `trial` is what the model does, and `run` plays it once,
in a process without a network other than loopback; its record is what the tests look at.

To add an agent: its package into `npm/package.json` (then the lock file anew, without the addresses of a registry:
`npm install --package-lock-only --omit-lockfile-registry-resolved`), an entry in AGENTS of `agents`, and, where it
speaks another protocol, an entry in APIS of `model`. `python -m tests.clients.run NAME FOLDER` plays one trial by hand;
FOLDER then has every request of the agent, the agent's own output and the record. `python -m tests.clients.table`
writes the table of docs/gateway.md anew, also where a version has changed.
"""
