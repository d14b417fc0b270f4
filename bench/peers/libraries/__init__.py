"""One file for each library: how it is used as its documentation says. Each runs where that library is installed.

`session(way, folder, body)` sets the library up, calls `body` with it, and takes it down. A file names its library by
`import_module`, because this repository neither depends on it nor knows its types.
"""
