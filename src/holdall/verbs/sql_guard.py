"""What the process that runs SQL gives up before it runs any: writing files, outliving its parent, all the memory.

DuckDB is told to leave everything else alone; these are the limits that hold even where it does not. Each is taken as
far as the system has it, and none is ever loosened again but the memory, which is set for each query.
"""

import ctypes
import os
import resource
import select
import struct
import sys
import threading

_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446  # the same on every Linux architecture
_NO_NEW_PRIVILEGES = 38
# Bits of LANDLOCK_ACCESS_FS_*: write a file; remove, make and move anything; truncate. In the order of the kernel's
# versions, which each know some more of them.
_WRITES = {1: (1, 4, 5, 6, 7, 8, 9, 10, 11, 12), 2: (13,), 3: (14,)}
_HEADROOM = 1 << 30  # what libraries, stacks and the rows on their way out may take besides DuckDB's own limit


def guard(parent: int) -> None:
    """`parent` is the descriptor of the connection to the parent: when that ends, so does this process."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    forbid_writing()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def limit_memory(limit: int) -> None:
    """DuckDB keeps to `limit` by itself; this stops what is allocated around it."""
    if sys.platform == "linux":
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        wanted = 2 * limit + _HEADROOM
        resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))


def forbid_writing() -> bool:
    """No file can be written, truncated, made or removed by this process any more, whoever owns it. Linux 5.13 on.

    The descriptor of the output is read-only, but a path that leads to it could be opened anew for writing.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version: int = libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), 1)
    rights = sum(1 << bit for since, bits in _WRITES.items() if since <= version for bit in bits)
    if not rights:
        return False
    handled = struct.pack("Q", rights)
    ruleset: int = libc.syscall(_LANDLOCK_CREATE, handled, ctypes.c_size_t(len(handled)), 0)
    if ruleset < 0:
        return False
    try:
        libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _end_with(parent: int) -> None:
    watch = select.poll()
    watch.register(parent, 0)  # only the end of the connection wakes it
    watch.poll()
    os._exit(0)
