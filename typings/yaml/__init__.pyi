"""PyYAML, as far as Holdall uses it: a document as nodes, each with its place."""

class Mark:
    index: int
    line: int
    column: int

class YAMLError(Exception): ...

class MarkedYAMLError(YAMLError):
    context: str | None
    problem: str | None
    problem_mark: Mark | None

class Node:
    tag: str
    start_mark: Mark
    end_mark: Mark

class ScalarNode(Node):
    value: str

class SequenceNode(Node):
    value: list[Node]
    flow_style: bool | None

class MappingNode(Node):
    value: list[tuple[Node, Node]]
    flow_style: bool | None

class Event:
    anchor: str
    start_mark: Mark

class AliasEvent(Event): ...

class SafeLoader:
    def __init__(self, stream: str) -> None: ...
    def get_single_node(self) -> Node | None: ...
    def check_event(self, *choices: type[Event]) -> bool: ...
    def peek_event(self) -> Event: ...
    def compose_node(self, parent: Node | None, index: Node | int | None) -> Node: ...
    def resolve(self, kind: type[Node], value: str | None, implicit: tuple[bool, bool] | bool) -> str: ...
    def construct_document(self, node: Node) -> object: ...
    def dispose(self) -> None: ...

def safe_dump(data: object, *, default_flow_style: bool = False) -> str: ...
