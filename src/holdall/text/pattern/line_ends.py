r"""Lines that end in \r\n: there $ stands before the \r, though an engine finds it only before the \n.

So $ is written as \r?$ and takes the \r into the match, from which it is cut off again where a match is shown. A
pattern that asks for \r by name is left as it is.
"""

from holdall.text.pattern.charset import single
from holdall.text.pattern.tree import Capture, Chars, Choice, Edge, Node, Repeat, Sequence

_OPTIONAL_RETURN = Repeat(Chars(single(0x0D)), 0, 1)


def has_line_end(node: Node) -> bool:
    match node:
        case Edge(kind):
            return kind == "line end"
        case Capture(item) | Repeat(item):
            return has_line_end(item)
        case Sequence(parts) | Choice(parts):
            return any(has_line_end(part) for part in parts)
        case Chars():
            return False


def before_return(node: Node) -> Node:
    match node:
        case Edge("line end"):
            return Sequence((_OPTIONAL_RETURN, node))
        case Capture(item):
            return Capture(before_return(item))
        case Repeat(item, low, high, lazy):
            return Repeat(before_return(item), low, high, lazy)
        case Sequence(parts):
            return Sequence(tuple(before_return(part) for part in parts))
        case Choice(parts):
            return Choice(tuple(before_return(part) for part in parts))
        case _:
            return node
