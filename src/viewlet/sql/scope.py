"""Which names an expression may use, and what they stand for.

A scope holds the sources of one FROM clause; its ``outer`` scope is that of the query around it. A name is
looked up from the inside out, and the first scope that knows it decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from viewlet.core.scalar import Call, Const, Scalar, Var, variables
from viewlet.errors import choices
from viewlet.sql.position import invalid, unsupported


@dataclass(frozen=True, slots=True)
class Source:
    """A table, view or derived table in FROM: its alias, and its columns by name.

    ``others`` are columns that no expression of the whole query mentions: they have no variables.
    """

    alias: str
    columns: tuple[tuple[str, Scalar], ...]
    others: tuple[str, ...] = ()

    def named(self, name: str) -> list[Scalar]:
        """The columns of that name: several in a derived table that repeats one."""
        return [scalar for column, scalar in self.columns if column == name]


@dataclass(frozen=True, slots=True)
class Scope:
    """The names of one query block. ``merged`` holds the columns that USING and NATURAL make one of two."""

    sources: tuple[Source, ...] = ()
    merged: tuple[tuple[str, Scalar], ...] = ()
    outer: Scope | None = None
    aliases: Mapping[str, Scalar] = field(default_factory=dict)
    aliases_first: bool = False

    def with_aliases(self, aliases: Mapping[str, Scalar], first: bool = False) -> Scope:
        """The scope extended by names of the SELECT list, which give way to columns unless ``first``."""
        return replace(self, aliases=aliases, aliases_first=first)

    def variables(self) -> frozenset[str]:
        """The names of all variables that the sources bring along."""
        scalars = [scalar for source in self.sources for _, scalar in source.columns]
        return frozenset(var.name for scalar in scalars for var in variables(scalar))

    def resolve(self, node: exp.Column) -> Scalar:
        """What a column name stands for here."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._lookup(node)
            if found is not None:
                return found
            scope = scope.outer
        raise self._unknown(node)

    def star(self, qualifier: str = "") -> tuple[tuple[str, Scalar], ...]:
        """The columns of ``*`` or ``alias.*``: merged ones once and first."""
        if qualifier:
            return tuple(
                column for source in self.sources if source.alias == qualifier for column in source.columns
            )
        merged = dict(self.merged)
        rest = (column for source in self.sources for column in source.columns if column[0] not in merged)
        return (*self.merged, *rest)

    def _lookup(self, node: exp.Column) -> Scalar | None:
        name, qualifier = node.name.lower(), node.table.lower()
        if node.args.get("db"):
            raise unsupported(node, f"the name {node.sql()!r} of three parts", "write alias.column")
        if qualifier:
            owners = [source for source in self.sources if source.alias == qualifier]
            return self._only(node, [scalar for source in owners for scalar in source.named(name)])
        alias = self.aliases.get(name)
        if self.aliases_first and alias is not None:
            return alias
        merged = dict(self.merged).get(name)
        if merged is not None:
            return merged
        found = self._only(node, [scalar for source in self.sources for scalar in source.named(name)])
        return alias if found is None else found

    def _only(self, node: exp.Column, found: list[Scalar]) -> Scalar | None:
        if len(found) > 1:
            owners = [
                source.alias or "the query" for source in self.sources if source.named(node.name.lower())
            ]
            raise invalid(node, f"column {node.name!r} is ambiguous, it could be of {' or '.join(owners)}")
        return found[0] if found else None

    def _unknown(self, node: exp.Column) -> Exception:
        """What is wrong with a name that no scope knows, and which names there are."""
        qualifier = node.table.lower()
        visible: list[Source] = []
        scope: Scope | None = self
        while scope is not None:
            visible.extend(scope.sources)
            scope = scope.outer
        owners = [source for source in visible if source.alias == qualifier] if qualifier else visible
        if qualifier and not owners:
            aliases = choices(qualifier, (source.alias for source in visible))
            return invalid(node, f"there is no table or alias {qualifier!r} in FROM", aliases)
        known = (name for source in owners for name in (*dict(source.columns), *source.others))
        where = f" of {qualifier!r}" if qualifier else ""
        return invalid(node, f"there is no column {node.name.lower()!r}{where}", choices(node.name, known))


def padded(
    sources: tuple[Source, ...], merged: tuple[tuple[str, Scalar], ...]
) -> tuple[tuple[Source, ...], tuple[tuple[str, Scalar], ...]]:
    """The sources on the side of an outer join that is filled up with NULLs."""
    return (
        tuple(replace(source, columns=_all_nullable(source.columns)) for source in sources),
        _all_nullable(merged),
    )


def _all_nullable(columns: tuple[tuple[str, Scalar], ...]) -> tuple[tuple[str, Scalar], ...]:
    return tuple((name, _nullable(scalar)) for name, scalar in columns)


def _nullable(scalar: Scalar) -> Scalar:
    """The same scalar over variables that may be NULL."""
    match scalar:
        case Var(name):
            return Var(name, scalar.type, True)
        case Const():
            return scalar
        case Call(op, args):
            return Call(op, tuple(_nullable(arg) for arg in args), scalar.type)
