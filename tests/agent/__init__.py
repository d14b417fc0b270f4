"""The session runtime: the loop, its tools, sub-agents, files and functions."""
