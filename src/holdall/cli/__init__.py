"""The command line: one library call per command, and how its answer looks to a person and to a pipe."""

FOR_SERVER = "--for-server"
for_server: dict[str, str] = {}  # the variables that it names, with their values: they are no longer in our environment
