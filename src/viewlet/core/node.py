"""Traversal of frozen dataclass nodes: children, rebuild, walk, transform.

A *node* is a frozen dataclass; its children are the nodes found in its fields, directly or inside
tuples. Nodes are values: equal structure means equal node, and no function here changes one in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

N = TypeVar("N")


def is_node(value: object) -> bool:
    """Is ``value`` an instance (not the class) of a frozen dataclass?"""
    kind = type(value)
    known = _IS_NODE.get(kind)
    if known is None:
        known = _IS_NODE[kind] = is_dataclass(kind)
    return known


_IS_NODE: dict[type, bool] = {}
"""Asked millions of times while a program is compiled."""


def children(node: object) -> Iterator[Any]:
    """The nodes directly below ``node``, in field order.

    >>> from viewlet.core.scalar import Const, call
    >>> [child.value for child in children(call("+", Const(1), Const(2))) if isinstance(child, Const)]
    [1, 2]
    """
    for name in field_names(type(node)):
        yield from _nodes_in(getattr(node, name))


def walk(node: object) -> Iterator[Any]:
    """``node`` and everything below it, parents before children."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting.extend([*children(found)][::-1])


def rebuild(node: N, change: Callable[[Any], Any]) -> N:
    """The same node over changed children; the node itself where nothing changed."""
    updates: dict[str, Any] = {}
    for name in field_names(type(node)):
        old = getattr(node, name)
        new = _map_nodes(old, change)
        if new is not old:
            updates[name] = new
    return cast(N, replace(cast(Any, node), **updates)) if updates else node


def transform(node: Any, change: Callable[[Any], Any]) -> Any:
    """Rewrite bottom-up: children first, then ``change`` on the rebuilt node."""
    return change(rebuild(node, lambda child: transform(child, change)))


def field_names(kind: type) -> tuple[str, ...]:
    """The fields of a dataclass."""
    names = _FIELD_NAMES.get(kind)
    if names is None:
        names = _FIELD_NAMES[kind] = tuple(f.name for f in fields(cast(Any, kind)))
    return names


_FIELD_NAMES: dict[type, tuple[str, ...]] = {}


def _nodes_in(value: object) -> Iterator[Any]:
    if isinstance(value, tuple):
        for item in value:
            yield from _nodes_in(item)
    elif is_node(value):
        yield value


def _map_nodes(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, tuple):
        items = tuple(_map_nodes(item, change) for item in value)
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    return change(value) if is_node(value) else value
