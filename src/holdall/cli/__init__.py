"""The command line: one library call per command, and how its answer looks to a person and to a pipe."""
