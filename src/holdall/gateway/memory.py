"""How this process gives memory back: what was large is gone when it is freed.

The allocator of glibc learns from the first result of 30 MB that such blocks are usual, keeps them in its heap from
then on, and the process grows with each of them. Told once where the border is, it learns nothing. Other systems have
other allocators, which are left alone.
"""

import ctypes

_MMAP_THRESHOLD = -3  # as malloc.h has it
_BORDER = 1024 * 1024


def give_back_what_is_large() -> bool:
    """For the rest of this process. Whether the allocator is one that can be told."""
    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return tell(ctypes.c_int(_MMAP_THRESHOLD), ctypes.c_int(_BORDER)) == 1
