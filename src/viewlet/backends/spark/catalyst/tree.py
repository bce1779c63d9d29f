"""Catalyst's trees as they come in JSON: lists in pre-order, each node with its number of children.

Trees that are no children (conditions, lists of expressions, subqueries) are lists of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tree:
    """A node with its children."""

    node: Json
    children: tuple[Tree, ...] = ()

    @property
    def kind(self) -> str:
        """The name of the node's class, without its package."""
        return last_name(self.node["class"])

    def walk(self) -> Iterator[Tree]:
        """This tree and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def tree_of(nodes: list[Json]) -> Tree:
    """The tree that a list in pre-order stands for.

    >>> tree_of([{"class": "a.Not", "num-children": 1}, {"class": "a.Literal", "num-children": 0}]).kind
    'Not'
    """

    def take(at: int) -> tuple[Tree, int]:
        node, children, at = nodes[at], [], at + 1
        for _ in range(node["num-children"]):
            child, at = take(at)
            children.append(child)
        return Tree(node, tuple(children)), at

    return take(0)[0]


def last_name(found: object) -> str:
    """The name of a class or of an object of Scala: ``{"object": "a.b.Inner$"}`` is ``Inner``."""
    name = found["object"] if isinstance(found, dict) else found
    return str(name).rsplit(".", 1)[-1].removesuffix("$")


def column_name(node: Json) -> str:
    """The column that an attribute or alias is: its id is unique in a plan, so no name is left to resolve."""
    return f"c{node['exprId']['id']}"


def quoted(name: str) -> str:
    """A name as Spark SQL writes it."""
    return "`" + name.replace("`", "``") + "`"
